"""Posterior of Shapley values from a sample of the coalitions: a regression with Σφ fixed.

Coalition sizes are strata (`Strata`). `Geometry` is the regression before it sees an output: masks,
weights, inverse and leverages. `ShapleyPosterior` adds the outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb

import numpy as np

from credex.history import joined, spans
from credex.posteriors.regression import (
    Prior,
    constrained_inverse,
    effective_rows,
    kurtosis_rows,
    sandwich,
    slack,
)
from credex.posteriors.student import Belief, ErrorPosterior
from credex.typing import Design, Floats, Ints, Masks, Outputs, Weights

MIN_CELL = 2
"""Strata are joined with their neighbour until a cell holds this many draws."""

PSEUDO_OBSERVATIONS = 0.5
"""Units unlike all others that are added to a perfect fit."""

PERFECT_FIT = 1e-9
"""A residual below this fraction of the response is rounding."""

ROUNDOFF = 1e-13
"""Standard deviation, relative to the largest output, that rounding alone causes."""

FLAT = Prior(precision=0.0)
"""BayesSHAP's default: the ridge of the paper biases Shapley values and widens their intervals."""


@dataclass(frozen=True, slots=True, eq=False)
class Strata:
    """Strata of the coalitions of d features by size; complements share one if ``paired``."""

    d: int
    paired: bool
    count: Floats  # (S,) number of coalitions (of pairs) in each stratum; at most 1e300
    mass: Floats  # (S,) share of the Shapley kernel's total weight, sums to one
    turns: Floats  # (S,) share of the draws if all sizes are drawn equally often, sums to one

    def index(self, masks: Masks) -> Ints:
        """Stratum of each mask, ``(n,)``; sizes 0 and d are not allowed."""
        size = masks.sum(axis=1, dtype=np.int64)
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
        last = current - 1 if members and current > 0 else current
        return np.minimum(np.array(cells, dtype=np.int64), last)


@lru_cache(maxsize=64)
def strata(d: int, *, paired: bool) -> Strata:
    """Return the strata of d ≥ 2 features."""
    sizes = range(1, d // 2 + 1) if paired else range(1, d)
    halves = [2 if paired and 2 * s == d else 1 for s in sizes]
    count = [float(min(comb(d, s), 10**300)) / h for s, h in zip(sizes, halves, strict=True)]
    mass = np.array([1.0 / (s * (d - s)) / h for s, h in zip(sizes, halves, strict=True)])
    turns = 1.0 / np.array(halves)
    return Strata(d, paired, np.array(count), mass / mass.sum(), turns / turns.sum())


@dataclass(frozen=True, eq=False)
class Geometry:
    """A Shapley regression before it sees an output.

    A unit is a coalition, or a pair of complementary coalitions. Outputs and instances that were
    asked the same units share one geometry.

    The finite population correction is 1 − (asked fraction of the stratum): a stratum asked in full
    has no sampling error. If masks were not drawn uniformly, it is 1 for all other strata.
    ``effective_share`` is the effective sample size over m: 1 if all units contribute equally to
    the features' variances, 1/m if one unit decides (the mean over features, for equal residuals).
    """

    masks: Masks  # (m, d): the coalitions, or the first one of each pair
    paired: bool
    weights: Weights  # (m,), mean one
    finite_population_correction: Floats  # (m,)
    v: Floats  # (d, d) posterior covariance of φ over σ², on the plane Σφ = const
    leverage: Floats  # (m,) hat values of the units
    prior: Prior
    effective_share: float
    only_chunk: tuple[slice, Floats, Floats] | None  # see `_chunks`; several are made when read

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
            half = z * np.sqrt(unit_weights[part])
            gram += half @ half.T
        v = constrained_inverse(gram)
        leverage, total, squares = np.empty(m), np.zeros(d), np.zeros(d)
        for part, z in _signed(masks):
            influence = v @ z
            leverage[part] = unit_weights[part] * np.einsum("dm,dm->m", influence, z)
            share = np.square(influence) * (w * fpc)[part]
            total += share.sum(axis=1)
            squares += np.vecdot(share, share)
        effective = effective_rows(total, squares)[squares > 0]
        effective_share = float(effective.mean() / m) if len(effective) else 1.0
        chunk = (part, z, influence) if part == slice(0, m) else None
        return cls(masks, paired, w, fpc, v, leverage, prior, effective_share, chunk)

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.masks.shape[1])

    @cached_property
    def unit_weights(self) -> Weights:
        """``(m,)`` weights times the number of coalitions in a unit."""
        return 2.0 * self.weights if self.paired else self.weights

    @cached_property
    def n_parameters(self) -> float:
        """Trace of the hat matrix: d − 1 without a prior."""
        return float(self.leverage.sum())

    @cached_property
    def equal_shares(self) -> Floats:
        """``(m, 1)`` response of each unit if all importances are 1/d."""
        size = self.masks.sum(axis=1) - (self.d / 2 if self.paired else 0)
        return np.asarray(size / self.d)[:, None]

    @cached_property
    def precisions(self) -> Floats:
        """Prior precisions, ``(d, 1)``."""
        return self.prior.precisions(self.d)[:, None]

    @cached_property
    def has_prior(self) -> bool:
        """Whether any precision is above zero."""
        return bool(self.precisions.any())

    @cached_property
    def prior_means(self) -> Floats:
        """Prior means, ``(d, 1)``."""
        return self.prior.means(self.d)[:, None]

    @cached_property
    def square_factors(self) -> Floats:
        """Factors of squared residuals, ``(m, 1)``: the correction over 1 − leverage (HC2)."""
        return np.asarray(self.finite_population_correction / slack(self.leverage))[:, None]

    @cached_property
    def corrections(self) -> tuple[float, float]:
        """Mean and largest finite population correction."""
        fpc = self.finite_population_correction
        return float(fpc.mean()), float(fpc.max())

    def transposed(self, a: Floats) -> Floats:
        """Zᵀa, ``(d, k)``, of ``a (m, k)``, with the masks as ±½."""
        return np.asarray(sum(z @ a[part] for part, z, _ in self._chunks()))

    def predict(self, phi: Floats) -> Floats:
        """Zφ, ``(m, k)``, with the masks as ±½."""
        return joined([z.T @ phi for _, z, _ in self._chunks()])

    def sandwich(self, variance: Floats) -> Floats:
        """Covariance ``(d, d, k)`` of φ if the units have ``variance (m, k)``."""
        u = self.unit_weights * np.sqrt(variance.T)
        terms = ((influence, u[:, part]) for part, _, influence in self._chunks())
        return sandwich(terms, self.d, variance.shape[1])

    def _chunks(self) -> Iterable[tuple[slice, Floats, Floats]]:
        """Iterate over the masks as ±½ in chunks: where, columns z ``(d, ·)``, influences Vz."""
        if self.only_chunk is not None:
            return (self.only_chunk,)
        return ((part, z, self.v @ z) for part, z in _signed(self.masks))


def _signed(masks: Masks) -> Iterator[tuple[slice, Floats]]:
    """Iterate over masks as ±½ in chunks: where they are, and the columns ``(d, ·)``.

    A constant added to a row changes nothing on the plane Σφ = const; ±½ keeps rows small.
    """
    return ((part, masks[part].T.astype(np.float64, "C") - 0.5) for part in spans(*masks.shape))


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Noise of a random model."""

    variance: Floats  # (k,) variance of one value; NaN if nothing was asked twice
    dof: float  # degrees of freedom of the variance
    repeats: Floats  # (m,) how often each unit was asked (its values are averages)
    anchor_repeats: int  # how often the empty and the full coalition were asked


@dataclass(frozen=True, eq=False)
class ShapleyPosterior:
    """Posterior of φ in v(z) = base + zᵀφ + ε with the constraint Σφ = v(1) − v(0).

    Weights come from the strata (coalition sizes), so that the target of the regression is the
    Shapley value whatever was drawn. Pairs are reduced to the half difference (v(z) − v(1−z))/2,
    which removes every interaction of even order.
    """

    geometry: Geometry
    y: Outputs  # (m, k) v of the masks
    y_complement: Outputs | None  # (m, k) v of their complements, if paired
    base: Floats  # (k,) v(0)
    total: Floats  # (k,) v(1) − v(0)
    noise: Noise | None = None  # None for a deterministic model

    @property
    def response(self) -> Floats:
        """Half differences of the pairs, or v − base, ``(m, k)``."""
        if self.y_complement is not None:
            return np.asarray((self.y - self.y_complement) * 0.5)
        return np.asarray(self.y - self.base)

    @cached_property
    def _target(self) -> Floats:
        """Response less that of equal importances total/d, ``(m, k)``."""
        return np.asarray(self.response - self.geometry.equal_shares * self.total)

    @cached_property
    def mean(self) -> Floats:
        """Posterior mean, ``(d, k)``; its sum is ``total`` to rounding."""
        g, equal = self.geometry, self.total / self.geometry.d
        scores = g.transposed(self._target * g.unit_weights[:, None])
        phi = equal + g.v @ (g.precisions * (g.prior_means - equal) + scores)
        return np.asarray(phi + (self.total - phi.sum(axis=0)) / g.d)

    @cached_property
    def residual(self) -> Floats:
        """Residuals of the additive explanation, ``(m, k)``."""
        g = self.geometry
        return np.asarray(self._target - g.predict(self.mean - self.total / g.d))

    @cached_property
    def _squares(self) -> Floats:
        """Squared residuals, ``(m, k)``."""
        return np.square(self.residual)

    @cached_property
    def scale_matrix(self) -> Floats:
        """Sandwich (HC2, with finite population correction) scale matrix of φ, ``(d, d, k)``.

        Squared residuals enter as e²/(1−h), which is unbiased: units are few and leverages large,
        where HC3's e²/(1−h)² doubles the variance. That they are few is left to `dof`.
        """
        g, d = self.geometry, self.geometry.d
        variance = g.square_factors * self._squares
        if self.noise is not None:  # a stratum asked in full has no sampling error, but noise
            variance += (1 - g.finite_population_correction[:, None]) * self.unit_noise
        out = g.sandwich(variance)
        if g.has_prior:  # Λ(φ* − m): what the prior adds to the scores of the units
            free = slack(g.precisions * g.v.diagonal()[:, None])
            pull = g.precisions * (self.mean - g.prior_means) / free
            out += sandwich([(g.v, pull.T)], d, self.y.shape[1])
        out += g.v[:, :, None] * self._homoscedastic
        if self.noise is not None:
            out += self.anchor_share(self.noise)
        largest = np.maximum(np.abs(self.y).max(axis=0), np.abs(self.base))
        out.reshape(d * d, -1)[:: d + 1] += g.corrections[1] * np.square(ROUNDOFF * largest)
        return out

    @property
    def _homoscedastic(self) -> Floats:
        """Multiple ``(k,)`` of V that is added to the sandwich.

        With hardly more units than parameters the sandwich can miss features altogether. The
        homoscedastic variance over the square of the spare units is added, which soon vanishes.
        """
        g = self.geometry
        spare = max(len(self.y) - g.n_parameters, 1.0)
        out = g.unit_weights @ self._squares / spare**3
        return np.asarray(g.corrections[0] * out + self.unseen)

    @cached_property
    def unseen(self) -> Floats:
        """Multiple ``(k,)`` of V for what a perfect fit may have missed; zero for other fits.

        Of m units that leave no remainder, 3/m of all units may still be unlike them: half an
        observation is added, whose remainder is as large as the response.
        """
        g, k = self.geometry, self.y.shape[1]
        if self.noise is not None:
            return np.zeros(k)
        target = np.square(self._target)
        perfect = self._squares.max(axis=0) <= PERFECT_FIT**2 * target.max(axis=0)
        if not perfect.any():
            return np.zeros(k)
        size = g.unit_weights @ target / g.unit_weights.sum()
        share = g.corrections[0] * PSEUDO_OBSERVATIONS / len(self.y)
        return np.where(perfect, share * size, 0.0)

    @property
    def _noise_variance(self) -> Floats:
        """Variance of one value, ``(k,)``; if nothing was repeated, the residual variance."""
        known = np.zeros(self.y.shape[1]) if self.noise is None else self.noise.variance
        worst = 2.0 * np.mean(self._squares, axis=0)
        return np.where(np.isnan(known), worst, known)

    @property
    def unit_noise(self) -> Floats:
        """Noise variance of each unit's response, ``(m, k)``."""
        if self.noise is None:
            return np.zeros_like(self.y)
        each = self._noise_variance / (1.0 if self.y_complement is None else 2.0)
        return np.asarray(each / self.noise.repeats[:, None])

    def anchor_share(self, noise: Noise) -> Floats:
        """Covariance ``(d, d, k)`` of φ due to noise in v(0) and v(1).

        They enter through the constraint, and without pairs through v − base as well.
        """
        g, d = self.geometry, self.geometry.d
        to_total = (1.0 - g.v @ g.precisions[:, 0]) / d
        to_base = -to_total
        if self.y_complement is None:
            to_total = to_total - g.v @ g.transposed(g.weights * g.masks.sum(axis=1) / d)
            to_base = -to_total - g.v @ g.transposed(g.weights)
        variance = self._noise_variance / noise.anchor_repeats
        both = np.outer(to_total, to_total) + np.outer(to_base, to_base)
        return np.asarray(both[:, :, None] * variance)

    @cached_property
    def dof(self) -> float:
        """Degrees of freedom: spare units times their effective share.

        Satterthwaite's, for sandwiches after Bell and McCaffrey (2002): a variance that few units
        decide is as uncertain as that of few units. Fewer if residuals have heavy tails, or if
        little is known of the noise.
        """
        g = self.geometry
        tails = float(kurtosis_rows(self.residual).min()) / len(self.y)
        dof = max((len(self.y) - g.n_parameters) * g.effective_share * tails, 1.0)
        if self.noise is None:
            return dof
        fpc, w2 = g.finite_population_correction, np.square(g.weights)
        misfit = float(np.sum(w2 * fpc * self._squares.mean(axis=1)))
        noise = float(np.sum(w2 * (1 - fpc) * self.unit_noise.mean(axis=1)))
        if misfit + noise <= 0:
            return dof
        share = noise / (misfit + noise)
        spread = (1 - share) ** 2 / dof + share**2 / max(self.noise.dof, 1.0)
        return max(1 / spread, 1.0)  # Welch–Satterthwaite

    @cached_property
    def belief(self) -> Belief:
        """Student-t belief about φ."""
        return Belief(self.mean, self.scale_matrix, self.dof)

    @cached_property
    def _row_errors(self) -> tuple[Floats, Floats]:
        """Weighted squared residuals and squared deviations of the coalitions' v, ``(k,)`` each."""
        w, y, square = self.geometry.weights, self.y, self._squares
        if self.y_complement is None:
            return w @ square, w @ np.square(y - w @ y / w.sum())
        middle = (y + self.y_complement) / 2
        mean, even = w @ middle / w.sum(), middle - (self.base + self.total / 2)
        spread = w @ (np.square(y - mean) + np.square(self.y_complement - mean))
        return 2 * (w @ (square + np.square(even))), spread

    @property
    def n(self) -> int:
        """Number of coalitions."""
        return len(self.y) * (2 if self.geometry.paired else 1)

    @property
    def _s2(self) -> Floats:
        """The paper's s² (Eq. 7) over the coalitions, ``(k,)``."""
        g = self.geometry
        pull = g.precisions[:, 0] @ np.square(self.mean - g.prior_means)
        return np.asarray((self._row_errors[0] + pull) / self.n)

    @property
    def error(self) -> ErrorPosterior:
        """Posterior of the error ε of the additive explanation over the coalitions (Eq. 8)."""
        p = self.geometry.prior
        dof = p.n0 + self.n
        return ErrorPosterior(dof, np.sqrt((p.n0 * p.sigma0_sq + self.n * self._s2) / dof))

    @property
    def r2(self) -> Floats:
        """Weighted R² of the additive explanation over the coalitions, ``(k,)``."""
        rss, spread = self._row_errors
        unknown = np.full(len(spread), np.nan)
        return np.asarray(1 - np.divide(rss, spread, out=unknown, where=spread > 0))

    def predictive_variance(self, Z: Design) -> Floats:
        """Return var v(z) = (zᵀVz + 1)·s²·N/(N−2) (Eq. 11), ``(n, k)``."""
        z = np.asarray(Z, dtype=np.bool_) - 0.5
        spread = np.vecdot(z @ self.geometry.v, z) + 1.0
        factor = self.n / (self.n - 2) if self.n > 2 else np.inf
        return np.asarray(spread[:, None] * self._s2 * factor)
