"""Coalitions weighed and factored: all that is known of a regression before the outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property as once

import numpy as np

from credex.posteriors.prior import Prior
from credex.posteriors.rows import spans
from credex.posteriors.spd import inverse_spd
from credex.posteriors.strata import strata
from credex.typing import Floats, Masks, Weights

KEEP_SIGNS = 262_144
"""Masks up to this size (units × features) are kept as floats, too, twice: four megabytes."""

FLAT = Prior(precision=0.0)
"""BayesSHAP's default: the ridge of the paper biases Shapley values and widens their intervals."""


@dataclass(frozen=True, eq=False)
class Geometry:
    """All that a regression on coalitions knows before it sees an output.

    Rows of a batch share their masks, so they share this: one factorisation serves them all.

    Attributes
    ----------
    masks
        ``(m, d)``: the coalitions, or of each pair the first one.
    paired
        Whether the complement of each mask was asked too.
    weights
        ``(m,)``, mean one.
    thinning
        ``(m,)`` factors 1 − (asked fraction of the stratum), none below 0: what was asked in full
        has no sampling error. Ones if the masks were not drawn uniformly within strata.
    v
        ``(d, d)`` posterior covariance of φ over σ², on the plane Σφ = const.
    leverage
        ``(m,)`` hat values of the units.
    prior
        The prior it was made with.
    sizes
        ``(m,)`` features in each mask.
    heavy
        ``(m,)`` weights times the rows that a unit stands for.
    even
        How evenly the units share in the features' variances: 1 if all do alike, 1/m if one. The
        mean over features of (Σp)²/Σp² over m, p being a unit's share for equal misfits.
    signs, squares
        ``(m, d)`` masks z as ±½, and (z·v)², if they are few, else ``None``: made again where
        needed.
    """

    masks: Masks
    paired: bool
    weights: Weights
    thinning: Floats
    v: Floats
    leverage: Floats
    prior: Prior
    sizes: Floats
    heavy: Weights
    even: float
    signs: Floats | None
    squares: Floats | None

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
        """Weigh and factor ``masks (m, d)``, none of them empty or full.

        ``columns (d,)`` restricts the explanation to some features; the weights stay those of
        the whole coalitions.
        """
        layers = strata(masks.shape[1], paired=paired)
        sizes = masks @ np.ones(masks.shape[1])  # quicker than a sum of booleans
        w, fraction = layers.weigh(layers.of_sizes(sizes))
        if columns is not None:
            masks = masks[:, columns]
            sizes = masks @ np.ones(masks.shape[1])
        m, d = masks.shape
        thinning = np.maximum(1.0 - fraction, 0.0) if uniform else np.where(fraction >= 1, 0.0, 1.0)
        signs = _signs(masks) if masks.size <= KEEP_SIGNS else None
        heavy = 2.0 * w if paired else w
        root = np.sqrt(heavy)[:, None]
        gram = np.zeros((d, d))
        for part, z in signed(masks, signs):
            half = z * root[part]
            gram += half.T @ half  # BLAS does one half of it
        # Only what happens on the plane counts: a multiple of 11ᵀ more changes nothing there.
        if prior.precision != 0:
            gram.flat[:: d + 1] += prior.precisions(d)
        gram += float(gram.trace()) / d**2
        inverse = inverse_spd(gram)
        ones = inverse.sum(axis=1)
        v = inverse - np.multiply.outer(ones, ones / ones.sum())
        leverage, scale = np.empty(m), w * thinning
        total, square, squares = np.zeros(d), np.zeros(d), None
        for part, z in signed(masks, signs):
            reach = z @ v
            np.vecdot(reach, z, out=leverage[part])
            squares = np.square(reach, out=reach)
            total += scale[part] @ squares
            square += np.square(scale[part]) @ np.square(squares)
        leverage *= heavy
        some = square > 0
        alike = np.square(total[some]) / square[some]
        even = float(alike.sum() / (len(alike) * m)) if len(alike) else 1.0
        kept = None if signs is None else squares
        return cls(masks, paired, w, thinning, v, leverage, prior, sizes, heavy, even, signs, kept)

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.masks.shape[1])

    def signed(self) -> Iterator[tuple[slice, Floats]]:
        """Walk over the masks as ±½, see `signed`."""
        return signed(self.masks, self.signs)

    def reached(self) -> Iterator[tuple[slice, Floats]]:
        """Walk over (z·v)², the squared effect of each unit on each feature."""
        if self.squares is not None:
            return iter(((slice(None), self.squares),))
        return ((part, np.square(z @ self.v)) for part, z in self.signed())

    @once
    def spent(self) -> float:
        """Parameters that the units were spent on."""
        return float(self.leverage.sum())

    @once
    def thin(self) -> tuple[float, float]:
        """Mean and largest of the thinning."""
        return float(self.thinning.mean()), float(self.thinning.max())

    @once
    def middle(self) -> Floats:
        """``(m,)`` what the plane's point (1/d)·1 gives for the units: sizes, of pairs less d/2."""
        size = self.sizes - self.d / 2 if self.paired else self.sizes
        return np.asarray(size / self.d)

    @once
    def factor(self) -> Floats:
        """``(m,)`` what the squared residuals are multiplied with before they reach φ."""
        free = np.maximum(1 - self.leverage, 1e-8)
        return np.asarray(self.thinning * np.square(self.heavy) / free)

    @property
    def rows(self) -> float:
        """Rows of the regression a unit stands for: 2 for a pair."""
        return 2.0 if self.paired else 1.0


def signed(masks: Masks, signs: Floats | None = None) -> Iterator[tuple[slice, Floats]]:
    """Walk over masks as ±½, some at a time: where they are, and the rows.

    A constant more or less in a row is nothing on the plane Σφ = const; ±½ keeps it small.
    ``signs``: all of them, if they were made before.
    """
    if signs is not None:
        return iter(((slice(None), signs),))
    return ((part, _signs(masks[part])) for part in spans(*masks.shape))


def _signs(masks: Masks) -> Floats:
    return np.subtract(masks, np.float64(0.5))
