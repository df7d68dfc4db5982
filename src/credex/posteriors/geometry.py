"""Coalitions weighted and factored: the part of a Shapley regression that needs no outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from credex.posteriors.prior import Prior
from credex.posteriors.regression import constrained_inverse
from credex.posteriors.rows import spans
from credex.posteriors.sandwich import effective_rows
from credex.posteriors.strata import strata
from credex.typing import Floats, Masks, Weights

FLAT = Prior(precision=0.0)
"""BayesSHAP's default: the ridge of the paper biases Shapley values and widens their intervals."""


@dataclass(frozen=True, eq=False)
class Geometry:
    """A Shapley regression before it sees an output.

    A unit is a coalition, or a pair of complementary coalitions. Outputs and instances that were
    asked the same units share one geometry.

    Attributes
    ----------
    masks
        ``(m, d)``: the coalitions, or the first one of each pair.
    paired
        Whether units are pairs.
    weights
        ``(m,)``, mean one.
    finite_population_correction
        ``(m,)`` factors 1 − (asked fraction of the stratum) ≥ 0: a stratum asked in full has no
        sampling error. If masks were not drawn uniformly within strata, 1 for all other strata.
    v
        ``(d, d)`` posterior covariance of φ over σ², on the plane Σφ = const.
    leverage
        ``(m,)`` hat values of the units.
    prior
        The prior it was made with.
    sizes
        ``(m,)`` number of features in each mask.
    effective_share
        Effective sample size over m: 1 if all units contribute equally to the features' variances,
        1/m if one unit decides (the mean over features, for equal residuals).
    """

    masks: Masks
    paired: bool
    weights: Weights
    finite_population_correction: Floats
    v: Floats
    leverage: Floats
    prior: Prior
    sizes: Floats
    effective_share: float

    @classmethod
    def of(
        cls,
        masks: Masks,
        *,
        paired: bool,
        uniform: bool,
        prior: Prior = FLAT,
        columns: Masks | None = None,
    ) -> Geometry:
        """Weight and factor ``masks (m, d)``, none of them empty or full.

        ``columns (d,)`` restricts the explanation to some features; the weights stay those of
        the whole coalitions.
        """
        layers = strata(masks.shape[1], paired=paired)
        w, fraction = layers.weigh(layers.index(masks))
        fpc = np.maximum(1.0 - fraction, 0.0) if uniform else np.where(fraction >= 1, 0.0, 1.0)
        masks = masks if columns is None else masks[:, columns]
        m, d = masks.shape
        unit_weights = 2.0 * w if paired else w
        gram = np.diag(prior.precisions(d))
        for part, z in _signed(masks):
            half = z * np.sqrt(unit_weights[part])[:, None]
            gram += half.T @ half
        v = constrained_inverse(gram)
        leverage, total, squares = np.empty(m), np.zeros(d), np.zeros(d)
        for part, z in _signed(masks):
            influence = z @ v
            leverage[part] = unit_weights[part] * np.vecdot(influence, z)
            square, share = np.square(influence), (w * fpc)[part]
            total += share @ square
            squares += np.square(share) @ np.square(square)
        effective = effective_rows(total, squares)[squares > 0]
        effective_share = float(effective.mean() / m) if len(effective) else 1.0
        sizes = masks @ np.ones(d)
        return cls(masks, paired, w, fpc, v, leverage, prior, sizes, effective_share)

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.masks.shape[1])

    @property
    def unit_weights(self) -> Weights:
        """``(m,)`` weights times the number of coalitions in a unit."""
        return 2.0 * self.weights if self.paired else self.weights

    @property
    def n_parameters(self) -> float:
        """Trace of the hat matrix: d − 1 without a prior."""
        return float(self.leverage.sum())

    def signed(self) -> Iterator[tuple[slice, Floats]]:
        """Iterate over masks as ±½ in chunks: where they are, and the rows ``(·, d)``."""
        return _signed(self.masks)


def _signed(masks: Masks) -> Iterator[tuple[slice, Floats]]:
    """A constant added to a row changes nothing on the plane Σφ = const; ±½ keeps rows small."""
    return ((part, masks[part] - np.float64(0.5)) for part in spans(*masks.shape))
