"""Posterior of Shapley values from some of the coalitions: a regression that must add up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property as once

import numpy as np

from credex.posteriors.belief import Belief
from credex.posteriors.geometry import Geometry
from credex.posteriors.student import ErrorPosterior
from credex.typing import Design, Floats, Masks, Outputs

SPARE = 10.0
"""Units more than parameters from which an answer without a remainder is believed."""

UNTOUCHED = 0.7
"""Chance that a unit does not show a term that the others do not show."""

EXACT = 1e-9
"""A remainder below this share of the response is rounding."""

ROUNDOFF = 1e-13
"""Deviation, relative to the largest value, below which a number is arithmetic, not knowledge."""


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

    @once
    def _target(self) -> Floats:
        """Response of the units after the plane's point (total/d)·1 is taken off, ``(m, k)``."""
        return np.asarray(self.response - np.multiply.outer(self.geometry.middle, self.total))

    @property
    def response(self) -> Floats:
        """Half differences of the pairs, or v − base, ``(m, k)``."""
        if self.y_complement is not None:
            return np.asarray((self.y - self.y_complement) * 0.5)
        return np.asarray(self.y - self.base)

    @once
    def _off(self) -> Floats:
        """What the mean is off the plane's point, up to a constant, ``(d, k)``."""
        g, d = self.geometry, self.geometry.d
        target = self._target * g.heavy[:, None]
        rhs = sum(z.T @ target[part] for part, z in g.signed())
        if g.prior.precision != 0:
            lam, m = g.prior.precisions(d), g.prior.means(d)
            rhs += lam[:, None] * (m[:, None] - self.total / d)
        return np.asarray(g.v @ rhs)

    @once
    def mean(self) -> Floats:
        """Posterior mean, ``(d, k)``; its sum is ``total`` to rounding."""
        d = self.geometry.d
        phi = self.total / d + self._off
        return np.asarray(phi + (self.total - phi.sum(axis=0)) / d)

    @once
    def residual(self) -> Floats:
        """What the additive explanation leaves of the response, ``(m, k)``."""
        phi = self.mean - self.total / self.geometry.d
        out = self._target.copy()
        for part, z in self.geometry.signed():
            out[part] -= z @ phi
        return out

    @once
    def _squared(self) -> Floats:
        """Squares of the residuals, ``(m, k)``."""
        return np.asarray(np.square(self.residual))

    @once
    def _misfit(self) -> Floats:
        """Squared misfits of the units as they enter the sandwich, ``(m, k)``.

        They are taken as e²/(1−h), right on average: pairs are few and leverages large, where
        HC3's e²/(1−h)² doubles the variance. That they are few is for `dof` to say.
        """
        g = self.geometry
        square = self._squared * g.factor[:, None]
        if self.noise is not None:  # a stratum asked in full has no misfit left, but noise
            square += ((1 - g.thinning) * np.square(g.heavy))[:, None] * self.unit_noise
        return np.asarray(square)

    @once
    def _pull(self) -> Floats | None:
        """Squares of what the prior adds to the meat's diagonal, ``(d, k)``; none if it is flat."""
        g, d = self.geometry, self.geometry.d
        if g.prior.precision == 0:
            return None
        lam, m = g.prior.precisions(d), g.prior.means(d)
        shrunk = np.maximum(1 - lam * np.diag(g.v), 1e-8)[:, None]
        return np.asarray((lam[:, None] * (self.mean - m[:, None]) / shrunk) ** 2)

    @once
    def _plain(self) -> tuple[Floats, Floats]:
        """What is added to the sandwich, ``(k,)`` each: as a multiple of V, and of the identity.

        With hardly more units than parameters the sandwich can miss features altogether: some
        of the plain variance then, which is soon nothing. And an additive game leaves rounding
        only, which no residual tells the size of.
        """
        g = self.geometry
        spare = max(len(self.y) - g.spent, 1.0)
        share = g.heavy @ self._squared * (g.thin[0] / spare**3)
        if spare < SPARE and self.noise is None:
            share = share + g.thin[0] * self._by_accident(spare)
        largest = np.maximum(np.maximum.reduce(self.y), -np.minimum.reduce(self.y))
        return share, g.thin[1] * np.square(ROUNDOFF * np.maximum(largest, np.abs(self.base)))

    def _by_accident(self, spare: float) -> Floats:
        """Variance ``(k,)`` of what may be missed where nothing is left over by few units.

        A term of three players is not there in most pairs. What ``spare`` units more than there
        are parameters do not show is taken for `UNTOUCHED`^spare of the response.
        """
        target = np.square(self._target)
        exact = self._squared.max(axis=0) <= EXACT**2 * target.max(axis=0)
        size = self.geometry.heavy @ target / max(float(self.geometry.heavy.sum()), 1e-300)
        return np.where(exact, UNTOUCHED**spare * size, 0.0)

    @once
    def deviation(self) -> Floats:
        """Roots of the diagonal of `scale_matrix`, ``(d, k)``: all that intervals take."""
        g = self.geometry
        out = np.zeros(self.mean.shape)
        for part, squares in g.reached():
            out += squares.T @ self._misfit[part]
        if self._pull is not None:
            out += np.square(g.v) @ self._pull
        share, least = self._plain
        out += np.multiply.outer(g.v.diagonal(), share)
        if self.noise is not None:
            out += np.einsum("iik->ik", self.anchor_share(self.noise))
        return np.asarray(np.sqrt(np.maximum(out + least, 0.0)))

    @once
    def scale_matrix(self) -> Floats:
        """Sandwich (HC2, finite population) scale matrix of φ, ``(d, d, k)``."""
        g, d, k = self.geometry, self.geometry.d, self.y.shape[1]
        u = np.sqrt(self._misfit)
        meat = np.zeros((k, d, d))
        for part, z in g.signed():
            for j in range(k):
                zu = z * u[part, j : j + 1]
                meat[j] += zu.T @ zu
        at = np.arange(d)
        if self._pull is not None:
            meat[:, at, at] += self._pull.T
        out = np.empty((d, d, k))
        for j in range(k):
            out[:, :, j] = g.v @ meat[j] @ g.v
        share, least = self._plain
        out += g.v[:, :, None] * share
        if self.noise is not None:
            out += self.anchor_share(self.noise)
        out[at, at] += least
        return out

    @property
    def _noise_variance(self) -> Floats:
        """Variance of one value, ``(k,)``; if nothing was repeated, all that is left over."""
        known = np.zeros(self.y.shape[1]) if self.noise is None else self.noise.variance
        worst = 2.0 * np.mean(self._squared, axis=0)
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
        g, d = self.geometry, self.geometry.d
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

    @once
    def dof(self) -> float:
        """Units less the parameters they were spent on, as far as they share alike.

        Satterthwaite's, for sandwiches after Bell and McCaffrey (2002): a variance that a few
        units decide is known as badly as that of a few. Fewer if little is known of the noise.
        """
        own = max((len(self.y) - self.geometry.spent) * self.geometry.even, 1.0)
        if self.noise is None:
            return own
        thin = self.geometry.thinning
        w2 = self.geometry.weights**2
        misfit = float(np.sum(w2 * thin * (self._squared).mean(axis=1)))
        noise = float(np.sum(w2 * (1 - thin) * self.unit_noise.mean(axis=1)))
        if misfit + noise <= 0:
            return own
        spread = misfit**2 / own + noise**2 / max(self.noise.dof, 1.0)  # Welch–Satterthwaite
        return max((misfit + noise) ** 2 / spread, 1.0)

    @once
    def belief(self) -> Belief:
        """What is believed about φ."""
        return Belief.of(self.mean, self.deviation, self.dof, lambda: self.scale_matrix)

    @once
    def _row_errors(self) -> tuple[Floats, Floats]:
        """Weighted squared residuals and weighted squared deviations of v over the rows."""
        w, y, other = self.geometry.weights, self.y, self.y_complement
        if other is None:
            mean = w @ y / w.sum()
            return w @ self._squared, w @ (y - mean) ** 2
        middle = (y + other) / 2
        mean = w @ middle / w.sum()
        even = middle - (self.base + self.total / 2)
        spread = w @ ((y - mean) ** 2 + (other - mean) ** 2)
        return 2 * (w @ (self._squared + even**2)), spread

    @property
    def n(self) -> int:
        """Rows of the regression."""
        return int(len(self.y) * self.geometry.rows)

    @property
    def s2(self) -> Floats:
        """The paper's s² over the rows, ``(k,)``."""
        p, d = self.geometry.prior, self.geometry.d
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
    square = g.thinning[:, None] * residual**2
    if paired:
        square = square / np.maximum(1 - g.leverage, 1e-8)[:, None]
    heavy, out = g.heavy**2, np.zeros(residual.shape[1])
    for part, squares in g.reached():
        out += (squares.sum(axis=1) * heavy[part]) @ square[part]
    return out
