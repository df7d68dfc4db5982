"""Coalition sizes as strata, and the weighted, factored geometry of a set of coalitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np

from credex.history import spans
from credex.posteriors.prior import Prior
from credex.posteriors.regression import constrained_inverse, effective_rows
from credex.typing import Floats, Ints, Masks, Weights

MIN_CELL = 2
"""Strata are joined with their neighbour until a cell holds this many draws."""


@dataclass(frozen=True, slots=True, eq=False)
class Strata:
    """Strata of the coalitions of d features by size; complements share one if ``paired``.

    Attributes
    ----------
    d, paired
        What they were made for.
    count
        ``(S,)`` number of coalitions (of pairs) in each stratum; at most 1e300.
    mass
        ``(S,)`` share of the Shapley kernel's total weight, sums to one.
    """

    d: int
    paired: bool
    count: Floats
    mass: Floats

    def index(self, masks: Masks) -> Ints:
        """Stratum of each mask, ``(n,)``; sizes 0 and d are not allowed."""
        size = (masks @ np.ones(self.d)).astype(np.int64)
        return np.asarray((np.minimum(size, self.d - size) if self.paired else size) - 1)

    def weigh(self, stratum: Ints) -> tuple[Weights, Floats]:
        """Weights (mean one) and asked fractions of units drawn uniformly within strata.

        A stratum's units share its mass equally. Strata with fewer than two draws are joined with
        the next one, unless they were asked in full.
        """
        drawn = np.bincount(stratum, minlength=len(self.count))
        cell = self._cells(drawn)
        w = self.mass / np.maximum(drawn, 1)
        got, due = np.bincount(cell, w * drawn), np.bincount(cell, self.mass)
        w *= (due / np.where(got > 0, got, 1.0))[cell]
        w *= len(stratum) / (w @ drawn)
        fraction = (np.bincount(cell, drawn) / np.bincount(cell, self.count))[cell]
        return w[stratum], fraction[stratum]

    def _cells(self, drawn: Ints) -> Ints:
        """Number the cells, ``(S,)``: strata that are weighted together."""
        cells: list[int] = []
        current, members, got = 0, 0, 0
        for n, count in zip(drawn.tolist(), self.count.tolist(), strict=True):
            cells.append(current)
            members, got = members + 1, got + n
            complete = members == 1 and n == count
            if got >= MIN_CELL or complete:
                current, members, got = current + 1, 0, 0
        cell = np.array(cells, dtype=np.int64)
        if members and current > 0:
            cell[cell == current] = current - 1
        return cell


@lru_cache(maxsize=64)
def strata(d: int, *, paired: bool) -> Strata:
    """Return the strata of d ≥ 2 features."""
    sizes = range(1, d // 2 + 1) if paired else range(1, d)
    halves = [2 if paired and 2 * s == d else 1 for s in sizes]
    count = [float(min(comb(d, s), 10**300)) / h for s, h in zip(sizes, halves, strict=True)]
    mass = np.array([1.0 / (s * (d - s)) / h for s, h in zip(sizes, halves, strict=True)])
    return Strata(d, paired, np.array(count), mass / mass.sum())


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
