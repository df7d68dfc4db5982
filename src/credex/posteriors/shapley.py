"""Posterior of Shapley values from a sample of the coalitions: a regression with Σφ fixed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from credex.posteriors.regression import covariance, output_scale, slack, squared
from credex.posteriors.strata import Geometry
from credex.posteriors.student import Belief, ErrorPosterior, Interval
from credex.typing import Design, Floats, Masks, Outputs

ENOUGH_SPARE = 10.0
"""Units beyond the number of parameters from which a perfect fit is believed."""

MISS_PROBABILITY = 0.7
"""Probability that one random pair misses an interaction of three players."""

PERFECT_FIT = 1e-9
"""A residual below this fraction of the response is rounding."""

ROUNDOFF = 1e-13
"""Standard deviation, relative to the largest output, that rounding alone causes."""


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Noise of a random model.

    Attributes
    ----------
    variance
        ``(k,)`` variance of one value; NaN if nothing was asked twice.
    dof
        Its degrees of freedom.
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
    """Posterior of φ in v(z) = base + zᵀφ + ε with the constraint Σφ = v(1) − v(0).

    Weights come from the strata (coalition sizes), so that the target of the regression is the
    Shapley value whatever was drawn. Pairs are reduced to the half difference (v(z) − v(1−z))/2,
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
        The model's noise; ``None`` for a deterministic model.
    """

    geometry: Geometry
    y: Outputs
    y_complement: Outputs | None
    base: Floats
    total: Floats
    noise: Noise | None = None

    @cached_property
    def _scale(self) -> Floats:
        pair = () if self.y_complement is None else (self.y_complement,)
        return output_scale(self.y, *pair, self.base, self.total)

    @property
    def response(self) -> Floats:
        """Half differences of the pairs, or v − base, ``(m, k)``."""
        if self.y_complement is not None:
            return np.asarray((self.y - self.y_complement) * 0.5)
        return np.asarray(self.y - self.base)

    @cached_property
    def _target(self) -> Floats:
        """Response less that of equal importances total/d, over its scale, ``(m, k)``."""
        g = self.geometry
        size = g.sizes - g.d / 2 if g.paired else g.sizes
        return np.asarray((self.response - np.outer(size / g.d, self.total)) / self._scale)

    @cached_property
    def mean(self) -> Floats:
        """Posterior mean, ``(d, k)``; its sum is ``total`` to rounding."""
        g = self.geometry
        equal = self.total / g.d
        prior = (g.prior.means(g.d)[:, None] - equal) / self._scale
        right = g.prior.precisions(g.d)[:, None] * prior
        target = self._target * g.unit_weights[:, None]
        for part, z in g.signed():
            right += z.T @ target[part]
        phi = equal + (g.v @ right) * self._scale
        return np.asarray(phi + (self.total - phi.sum(axis=0)) / g.d)

    @property
    def residual(self) -> Floats:
        """Residuals of the additive explanation, ``(m, k)``."""
        return self._residual * self._scale

    @cached_property
    def _residual(self) -> Floats:
        phi = (self.mean - self.total / self.geometry.d) / self._scale
        out = self._target.copy()
        for part, z in self.geometry.signed():
            out[part] -= z @ phi
        return out

    @cached_property
    def _covariance(self) -> Floats:
        """Scale matrix ``(d, d, k)`` of outputs divided by their scale.

        Squared residuals enter as e²/(1−h), which is unbiased: units are few and leverages large,
        where HC3's e²/(1−h)² doubles the variance. That they are few is left to `dof`.
        """
        g, d = self.geometry, self.geometry.d
        fpc, weights = g.finite_population_correction[:, None], g.unit_weights[:, None]
        square = fpc * np.square(self._residual) / slack(g.leverage)[:, None]
        if self.noise is not None:  # a stratum asked in full has no sampling error, but noise
            square += (1 - fpc) * self.unit_noise / squared(self._scale)
        u = weights * np.sqrt(square)
        units = ((z @ g.v, u[part]) for part, z in g.signed())
        out = covariance(chain(units, [(g.v, self._prior_pull)]), d, self.y.shape[1])
        out += g.v[:, :, None] * self._homoscedastic
        if self.noise is not None:
            out += self.anchor_share(self.noise) / squared(self._scale)
        largest = np.maximum(np.abs(self.y).max(axis=0), np.abs(self.base))
        rounding = fpc.max() * np.square(ROUNDOFF * largest / self._scale)
        out[np.arange(d), np.arange(d)] += rounding
        return out

    @property
    def _prior_pull(self) -> Floats:
        """Λ(φ* − m), ``(d, k)``: what the prior adds to the scores of the units."""
        g = self.geometry
        lam, m = g.prior.precisions(g.d)[:, None], g.prior.means(g.d)[:, None]
        return np.asarray(
            lam * ((self.mean - m) / self._scale) / slack(lam * g.v.diagonal()[:, None])
        )

    @property
    def _homoscedastic(self) -> Floats:
        """Multiple ``(k,)`` of V that is added to the sandwich.

        With hardly more units than parameters the sandwich can miss features altogether. The
        homoscedastic variance over the square of the spare units is added, which soon vanishes. A
        perfect fit of few units may have missed an interaction, which most pairs do not show:
        `MISS_PROBABILITY`^spare of the response's variance is added for that.
        """
        g = self.geometry
        mean_fpc = float(g.finite_population_correction.mean())
        spare = max(len(self.y) - g.n_parameters, 1.0)
        square, target = np.square(self._residual), np.square(self._target)
        out = g.unit_weights @ square / spare**3
        if spare < ENOUGH_SPARE and self.noise is None:
            perfect = square.max(axis=0) <= PERFECT_FIT**2 * target.max(axis=0)
            size = g.unit_weights @ target / g.unit_weights.sum()
            out = out + np.where(perfect, MISS_PROBABILITY**spare * size, 0.0)
        return np.asarray(mean_fpc * out)

    @cached_property
    def scale_matrix(self) -> Floats:
        """Sandwich (HC2, with finite population correction) scale matrix of φ, ``(d, d, k)``."""
        return self._covariance * squared(self._scale)

    def interval(self, level: float = 0.95) -> Interval:
        """Equal-tailed intervals of the features; right for outputs up to 1e300, too."""
        standard = Belief(self.mean / self._scale, self._covariance, self.dof).interval(level)
        return Interval(standard.lower * self._scale, standard.upper * self._scale, level)

    @property
    def _noise_variance(self) -> Floats:
        """Variance of one value, ``(k,)``; if nothing was repeated, the residual variance."""
        known = np.zeros(self.y.shape[1]) if self.noise is None else self.noise.variance
        worst = 2.0 * np.mean(np.square(self._residual), axis=0) * squared(self._scale)
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
        to_total = (1.0 - g.v @ g.prior.precisions(d)) / d
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
        """Degrees of freedom: spare units times their effective share.

        Satterthwaite's, for sandwiches after Bell and McCaffrey (2002): a variance that few units
        decide is as uncertain as that of few units. Fewer if little is known of the noise.
        """
        g = self.geometry
        dof = max((len(self.y) - g.n_parameters) * g.effective_share, 1.0)
        if self.noise is None:
            return dof
        fpc, w2 = g.finite_population_correction, np.square(g.weights)
        square = np.square(self._residual) * squared(self._scale)
        misfit = float(np.sum(w2 * fpc * square.mean(axis=1)))
        noise = float(np.sum(w2 * (1 - fpc) * self.unit_noise.mean(axis=1)))
        if misfit + noise <= 0:
            return dof
        share = misfit / (misfit + noise)  # of the variance: Welch–Satterthwaite
        return max(1 / (share**2 / dof + (1 - share) ** 2 / max(self.noise.dof, 1.0)), 1.0)

    @cached_property
    def belief(self) -> Belief:
        """Student-t belief about φ."""
        return Belief(self.mean, self.scale_matrix, self.dof)

    @cached_property
    def _row_errors(self) -> tuple[Floats, Floats]:
        """Weighted squared residuals and squared deviations of the coalitions' v, ``(k,)`` each."""
        w, y, square = self.geometry.weights, self.y / self._scale, np.square(self._residual)
        if self.y_complement is None:
            return w @ square, w @ np.square(y - w @ y / w.sum())
        other = self.y_complement / self._scale
        middle = (y + other) / 2
        mean = w @ middle / w.sum()
        even = middle - (self.base + self.total / 2) / self._scale
        spread = w @ (np.square(y - mean) + np.square(other - mean))
        return 2 * (w @ (square + np.square(even))), spread

    @property
    def n(self) -> int:
        """Number of coalitions."""
        return len(self.y) * (2 if self.geometry.paired else 1)

    @property
    def _s2(self) -> Floats:
        """The paper's s² (Eq. 7) over the coalitions, ``(k,)``."""
        p, d = self.geometry.prior, self.geometry.d
        pull = p.precisions(d) @ np.square((self.mean - p.means(d)[:, None]) / self._scale)
        return np.asarray((self._row_errors[0] + pull) / self.n)

    @property
    def error(self) -> ErrorPosterior:
        """Posterior of the error ε of the additive explanation over the coalitions (Eq. 8)."""
        p = self.geometry.prior
        dof = p.n0 + self.n
        sigma0_sq = p.sigma0_sq / self._scale / self._scale
        scale = np.sqrt((p.n0 * sigma0_sq + self.n * self._s2) / dof)
        return ErrorPosterior(dof, scale * self._scale)

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
        return np.asarray(spread[:, None] * self._s2 * squared(self._scale) * factor)


def sandwich_total(masks: Masks, residual: Floats, *, paired: bool) -> Floats:
    """Total variance of φ, ``(k,)``, of a regression on left-out residuals ``(m, k)`` of a guess.

    Residuals at units that a guess never saw are a random sample of its residuals, whatever the
    guess is; its hyper-parameters did see them, so that this is a lower bound. Pairs are corrected
    for leverage, single coalitions are not.
    """
    g = Geometry.of(masks, paired=paired, uniform=True)
    square = g.finite_population_correction[:, None] * np.square(residual)
    if paired:
        square /= slack(g.leverage)[:, None]
    out = np.zeros(residual.shape[1])
    for part, z in g.signed():
        total = np.square(z @ g.v).sum(axis=1) * np.square(g.unit_weights[part])
        out += total @ square[part]
    return out
