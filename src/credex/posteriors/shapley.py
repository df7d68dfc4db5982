"""Posterior of Shapley values from some of the coalitions: a regression that must add up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from credex.posteriors.belief import Belief
from credex.posteriors.prior import Prior
from credex.posteriors.rows import spans
from credex.posteriors.spd import inverse_spd
from credex.posteriors.strata import strata
from credex.posteriors.student import ErrorPosterior
from credex.typing import Design, Floats, Masks, Outputs, Weights

ROUNDOFF = 1e-13
"""Deviation, relative to the largest value, below which a number is arithmetic, not knowledge."""

KEEP_SIGNS = 131_072
"""Masks up to this size (units × features) are kept as floats, too: one megabyte."""

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
        ``(m,)`` factors 1 − (asked fraction of the stratum): what was asked in full has no
        sampling error. Ones if the masks were not drawn uniformly within strata.
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
    signs
        ``(m, d)`` masks as ±½ if they are few, else ``None``: made again where needed.
    even
        How evenly the units share in the features' variances: 1 if all do alike, 1/m if one. The
        mean over features of (Σp)²/Σp² over m, p being a unit's share for equal misfits.
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
    signs: Floats | None
    even: float

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
        d = masks.shape[1]
        thinning = 1.0 - fraction if uniform else np.where(fraction >= 1.0, 0.0, 1.0)
        signs = _signs(masks) if masks.size <= KEEP_SIGNS else None
        heavy = (2.0 if paired else 1.0) * w
        root = np.sqrt(heavy)[:, None]
        gram = np.zeros((d, d))
        for part, z in signed(masks, signs):
            half = z * root[part]
            gram += half.T @ half  # BLAS does one half of it
        # Only what happens on the plane counts: a multiple of 11ᵀ more changes nothing there.
        gram.flat[:: d + 1] += prior.precisions(d)
        inverse = inverse_spd(gram + float(np.trace(gram)) / d**2)
        ones = inverse.sum(axis=1)
        v = inverse - np.multiply.outer(ones, ones) / ones.sum()
        leverage, scale = np.empty(len(masks)), w * np.maximum(thinning, 0.0)
        total, square = np.zeros(d), np.zeros(d)
        for part, z in signed(masks, signs):
            reach = z @ v
            np.einsum("ij,ij->i", reach, z, out=leverage[part])
            reach *= reach
            total += scale[part] @ reach
            reach *= reach
            square += scale[part] ** 2 @ reach
        leverage *= heavy
        some = square > 0
        even = float((total[some] ** 2 / square[some]).mean() / len(masks)) if some.any() else 1.0
        return cls(masks, paired, w, thinning, v, leverage, prior, sizes, heavy, signs, even)

    def signed(self) -> Iterator[tuple[slice, Floats]]:
        """Walk over the masks as ±½, see `signed`."""
        return signed(self.masks, self.signs)

    @cached_property
    def spent(self) -> float:
        """Parameters that the units were spent on."""
        return float(self.leverage.sum())

    @property
    def rows(self) -> float:
        """Rows of the regression a unit stands for: 2 for a pair."""
        return 2.0 if self.paired else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Noise of a random model.

    Attributes
    ----------
    variance
        ``(k,)`` variance of one value; NaN if nothing was asked twice.
    dof
        Degrees of freedom behind it.
    repeats
        ``(m,)`` how often each unit was asked (its values are averages).
    anchor_repeats
        How often the empty and the full coalition were asked.
    """

    variance: Floats
    dof: float
    repeats: Floats
    anchor_repeats: int


@dataclass(frozen=True, eq=False)
class ShapleyPosterior:
    """Posterior of φ in v(z) = base + zᵀφ + ε with Σφ = v(1) − v(0) imposed.

    Weights come from the strata (coalition sizes), so that the target of the regression is the
    Shapley value whatever was drawn. On pairs only the half difference (v(z) − v(1−z))/2 speaks,
    which removes every interaction of even order.

    Parameters
    ----------
    geometry
        Of the masks.
    y
        ``(m, k)`` v of the masks.
    y_complement
        ``(m, k)`` v of their complements, if paired.
    base, total
        ``(k,)`` v(0), and v(1) − v(0).
    noise
        What is known of the model's noise; ``None`` for a deterministic model.
    """

    geometry: Geometry
    y: Outputs
    y_complement: Outputs | None
    base: Floats
    total: Floats
    noise: Noise | None = None

    @cached_property
    def _target(self) -> Floats:
        """Response of the units after the plane's point (total/d)·1 is taken off, ``(m, k)``."""
        d, size = self.geometry.masks.shape[1], self.geometry.sizes[:, None]
        size = size if self.y_complement is None else size - d / 2
        return np.asarray(self.response - size * (self.total / d))

    @property
    def response(self) -> Floats:
        """Half differences of the pairs, or v − base, ``(m, k)``."""
        if self.y_complement is not None:
            return np.asarray((self.y - self.y_complement) / 2)
        return np.asarray(self.y - self.base)

    @cached_property
    def mean(self) -> Floats:
        """Posterior mean, ``(d, k)``; its sum is ``total`` to rounding."""
        g, d = self.geometry, self.geometry.masks.shape[1]
        rhs = np.zeros((d, self.y.shape[1]))
        target = self._target * g.heavy[:, None]
        for part, z in g.signed():
            rhs += z.T @ target[part]
        lam, m = g.prior.precisions(d), g.prior.means(d)
        rhs += lam[:, None] * (m[:, None] - self.total / d)
        phi = self.total / d + g.v @ rhs
        return np.asarray(phi + (self.total - phi.sum(axis=0)) / d)

    @cached_property
    def residual(self) -> Floats:
        """What the additive explanation leaves of the response, ``(m, k)``."""
        d = self.geometry.masks.shape[1]
        phi = self.mean - self.total / d
        out = self._target.copy()
        for part, z in self.geometry.signed():
            out[part] -= z @ phi
        return out

    @cached_property
    def scale_matrix(self) -> Floats:
        """Sandwich (HC2, finite population) scale matrix of φ, ``(d, d, k)``.

        Misfits are taken as e²/(1−h), right on average: pairs are few and leverages large, where
        HC3's e²/(1−h)² doubles the variance. That they are few is for `dof` to say.
        """
        g, d, k = self.geometry, self.geometry.masks.shape[1], self.y.shape[1]
        free = np.maximum(1 - g.leverage, 1e-8)[:, None]
        thin = np.maximum(g.thinning, 0.0)[:, None]
        square = thin * self.residual**2 / free
        if self.noise is not None:  # a stratum asked in full has no misfit left, but noise
            square = square + (1 - thin) * self.unit_noise
        u = np.sqrt(square) * g.heavy[:, None]
        meat = np.zeros((k, d, d))
        for part, z in g.signed():
            for j in range(k):
                zu = z * u[part, j : j + 1]
                meat[j] += zu.T @ zu
        lam, m = g.prior.precisions(d), g.prior.means(d)
        if np.any(lam > 0):
            shrunk = np.maximum(1 - lam * np.diag(g.v), 1e-8)[:, None]
            pull = lam[:, None] * (self.mean - m[:, None]) / shrunk
            meat[:, np.arange(d), np.arange(d)] += pull.T**2
        out = np.empty((d, d, k))
        for j in range(k):
            out[:, :, j] = g.v @ meat[j] @ g.v
        # With hardly more units than parameters the sandwich can miss features altogether: some
        # of the plain variance then, which is soon nothing.
        spare = max(len(self.y) - g.spent, 1.0)
        plain = g.heavy @ self.residual**2 / spare * float(thin.mean())
        out += g.v[:, :, None] * plain / spare**2
        if self.noise is not None:
            out += self.anchor_share(self.noise)
        # an additive game leaves rounding only, which no residual tells the size of
        largest = np.abs(self.y).max(axis=0)
        at = np.arange(d)
        out[at, at] += float(thin.max()) * (ROUNDOFF * np.maximum(largest, np.abs(self.base))) ** 2
        return out

    @property
    def _noise_variance(self) -> Floats:
        """Variance of one value, ``(k,)``; if nothing was repeated, all that is left over."""
        known = np.zeros(self.y.shape[1]) if self.noise is None else self.noise.variance
        worst = 2.0 * np.mean(self.residual**2, axis=0)
        return np.where(np.isnan(known), worst, known)

    @property
    def unit_noise(self) -> Floats:
        """Noise variance of each unit's response, ``(m, k)``."""
        if self.noise is None:
            return np.zeros_like(self.y)
        each = self._noise_variance / (1.0 if self.y_complement is None else 2.0)
        return np.asarray(each / self.noise.repeats[:, None])

    def anchor_share(self, noise: Noise) -> Floats:
        """Noise of v(0) and v(1), carried through the constraint and the unpaired offsets."""
        g, d = self.geometry, self.geometry.masks.shape[1]
        lam = g.prior.precisions(d)
        to_total = (1.0 - g.v @ lam) / d
        to_base = -to_total
        if self.y_complement is None:
            pull_total, pull_base = np.zeros(d), np.zeros(d)
            for part, z in g.signed():
                w = g.weights[part]
                pull_total += z.T @ (w * g.sizes[part] / d)
                pull_base += z.T @ w
            to_total = to_total - g.v @ pull_total
            to_base = -to_total - g.v @ pull_base
        variance = self._noise_variance / noise.anchor_repeats
        both = np.outer(to_total, to_total) + np.outer(to_base, to_base)
        return np.asarray(both[:, :, None] * variance)

    @cached_property
    def dof(self) -> float:
        """Units less the parameters they were spent on, as far as they share alike.

        Satterthwaite's, for sandwiches after Bell and McCaffrey (2002): a variance that a few
        units decide is known as badly as that of a few. Fewer if little is known of the noise.
        """
        own = max((len(self.y) - self.geometry.spent) * self.geometry.even, 1.0)
        if self.noise is None:
            return own
        thin = np.maximum(self.geometry.thinning, 0.0)
        w2 = self.geometry.weights**2
        misfit = float(np.sum(w2 * thin * (self.residual**2).mean(axis=1)))
        noise = float(np.sum(w2 * (1 - thin) * self.unit_noise.mean(axis=1)))
        if misfit + noise <= 0:
            return own
        spread = misfit**2 / own + noise**2 / max(self.noise.dof, 1.0)  # Welch–Satterthwaite
        return max((misfit + noise) ** 2 / spread, 1.0)

    @cached_property
    def belief(self) -> Belief:
        """What is believed about φ."""
        return Belief(self.mean, self.scale_matrix, self.dof)

    @cached_property
    def _row_errors(self) -> tuple[Floats, Floats]:
        """Weighted squared residuals and weighted squared deviations of v over the rows."""
        w, y, other = self.geometry.weights, self.y, self.y_complement
        if other is None:
            mean = w @ y / w.sum()
            return w @ self.residual**2, w @ (y - mean) ** 2
        middle = (y + other) / 2
        mean = w @ middle / w.sum()
        even = middle - (self.base + self.total / 2)
        spread = w @ ((y - mean) ** 2 + (other - mean) ** 2)
        return 2 * (w @ (self.residual**2 + even**2)), spread

    @property
    def n(self) -> int:
        """Rows of the regression."""
        return int(len(self.y) * self.geometry.rows)

    @property
    def s2(self) -> Floats:
        """The paper's s² over the rows, ``(k,)``."""
        p, d = self.geometry.prior, self.geometry.masks.shape[1]
        pull = p.precisions(d)[:, None] * (self.mean - p.means(d)[:, None]) ** 2
        return np.asarray((self._row_errors[0] + pull.sum(axis=0)) / self.n)

    @property
    def error(self) -> ErrorPosterior:
        """Posterior of the error ε of the additive explanation over the coalitions."""
        p = self.geometry.prior
        dof = p.n0 + self.n
        return ErrorPosterior(dof, np.sqrt((p.n0 * p.sigma0_sq + self.n * self.s2) / dof))

    @property
    def r2(self) -> Floats:
        """Weighted R² of the additive explanation over the coalitions, ``(k,)``."""
        rss, spread = self._row_errors
        unknown = np.full(len(spread), np.nan)
        return np.asarray(1 - np.divide(rss, spread, out=unknown, where=spread > 0))

    def predictive_variance(self, Z: Design) -> Floats:
        """Return var v(z) = (zᵀVz + 1)·s²·N/(N−2) (Eq. 11), ``(n, k)``."""
        z = np.asarray(Z, dtype=np.bool_) - 0.5
        spread = np.einsum("ij,ij->i", z @ self.geometry.v, z) + 1.0
        factor = self.n / (self.n - 2) if self.n > 2 else np.inf
        return np.asarray(spread[:, None] * self.s2 * factor)


def sandwich_total(masks: Masks, residual: Floats, *, paired: bool) -> Floats:
    """Total variance of φ, ``(k,)``, of a regression on left-out residuals ``(m, k)`` of a guess.

    What a guess that never saw a unit gets wrong there is a random sample of what it gets wrong
    everywhere, whatever the guess is; hyper-parameters did see it, so that this is a lower bound.
    A pair stands for two rows of m, so that leverage tells; residuals of single coalitions are
    taken as they are.
    """
    g = Geometry.of(masks, paired=paired, uniform=True)
    square = np.maximum(g.thinning, 0.0)[:, None] * residual**2
    if paired:
        square = square / np.maximum(1 - g.leverage, 1e-8)[:, None]
    z = _signs(masks)
    onto = ((z @ g.v) ** 2).sum(axis=1) * (g.rows * g.weights) ** 2
    return np.asarray(onto @ square)


def signed(masks: Masks, signs: Floats | None = None) -> Iterator[tuple[slice, Floats]]:
    """Walk over masks as ±½, some at a time: where they are, and the rows.

    A constant more or less in a row is nothing on the plane Σφ = const; ±½ keeps it small.
    ``signs``: all of them, if they were made before.
    """
    parts = spans(*masks.shape)
    if signs is not None:
        return ((part, signs[part]) for part in parts)
    return ((part, _signs(masks[part])) for part in parts)


def _signs(masks: Masks) -> Floats:
    return np.subtract(masks, np.float64(0.5))
