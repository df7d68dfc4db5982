r"""Gaussian-process posterior of BayesLIME's coefficients, with honest intervals.

The coefficients are a linear functional of the function that is explained, see
`credex.posteriors.functionals`; given a Gaussian process for it, theirs is Gaussian.

Intervals. sigma² comes from leave-one-out residuals r, one per output, and grows by the share of
the rows that carry most weight in phi where those were predicted worse than the rest. Then

* on masks, until phi's total variance is that of the sandwich A diag(r²) A', A = (M'WM)^-1 M'W:
  rows are drawn at random, so that this is how far the process's own misses project on phi,
  whatever its kernel cannot express (times the share of masks not asked);
* on tables by 1 + 0.75 (p + 5)/n for fitted hyper-parameters, n being the rows that the scale
  rests on (`credex.posteriors.cross_validation`): there the sandwich, which counts what a row's
  replacements add by chance, is up to twice too wide;
* on single coalitions (`credex.posteriors.coalitions_gp`) as on masks, with the sandwich of a
  Shapley regression, and at least what rows left out with their neighbours say.

Student-t with 3 + n/16 degrees of freedom (n as above), at most 10; on masks at most 30; on single
coalitions at 95 % as wide as with 3 + n/8, at most 20, but with the shape of 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from credex.posteriors.cross_validation import block_scale, left_out, resting
from credex.posteriors.discrete_outputs import degree_of, one_more
from credex.posteriors.functionals import Functional
from credex.posteriors.student import heavier
from credex.posteriors.surrogate_kernel import (
    Evidence,
    Floats,
    Kernel,
    additive,
    direction_of,
    safe_cholesky,
    solve,
)
from credex.typing import Design

LOOKS = 1.15
"""Wider by this factor when a run may stop at any of several looks."""

FIT_ROWS = 300
"""Hyper-parameters are fitted on at most this many rows, evenly spread."""

CHUNK = 1500
"""Masks predicted at once."""

MANY = 25
"""Features from which the in-sample scale is looked at too."""

ROUNDOFF = 2e-8
"""A deviation below this share of the largest output is arithmetic, not knowledge."""


@dataclass(frozen=True, slots=True)
class SurrogateGP:
    """Posterior of the coefficients, Student-t around ``mean``.

    Attributes
    ----------
    mean : (d, k); intercept : (k,)
    scale : (d, d, k) scale matrices of the t distribution.
    dof : degrees of freedom.
    kernel : hyper-parameters, for a warm start.
    state : what it was computed from; None if the rows are exactly linear.
    top : (k,) constant taken off the outputs.
    """

    mean: Floats
    intercept: Floats
    scale: Floats
    dof: float
    kernel: Kernel
    state: Conditioned | None = None
    top: Floats = field(default_factory=lambda: np.zeros(1))

    @classmethod
    def fit(
        cls,
        X: Floats,
        M: Floats,
        y: Floats,
        over: Functional,
        *,
        noisy: bool = False,
        start: Kernel | None = None,
        looks: bool = False,
        max_iter: int = 60,
        expected: Floats | None = None,
        ease: Floats | None = None,
        weights: Floats | None = None,
    ) -> SurrogateGP:
        """Fit the hyper-parameters and condition on the rows.

        Parameters
        ----------
        X, M, y : (n, p) coordinates (masks: M itself), (n, d) design and (n, k) outputs.
        over : what phi* projects over.
        noisy : the same row asked again may answer differently.
        start : ``kernel`` of an earlier fit, for a warm start.
        looks : the run may stop at this width, so that it has to be honest at every look.
        max_iter : of the optimiser.
        expected, ease : (d,) prior means of the coefficients, and prior variances of the linear
            part relative to each other; None: zero, and all one.
        weights : (n,) proximities of the rows, for the sandwich; None: all one.
        """
        X, M, y = (np.asarray(a, float) for a in (X, M, y))
        d = M.shape[1]
        if expected is not None and expected.any():
            found = cls.fit(
                *(X, M, y - (M @ expected)[:, None], over),
                noisy=noisy,
                start=start,
                looks=looks,
                max_iter=max_iter,
                ease=ease,
                weights=weights,
            )
            return replace(found, mean=found.mean + expected[:, None])
        top = y.mean(0)
        Y = y - top
        F = (M - over.centre) / (over.spread * np.sqrt(d))
        F = F if ease is None else F * np.sqrt(ease)
        white = over.white and not noisy
        beta = additive(M, Y) if white and not degree_of(Y) else None
        if beta is not None:
            scale = np.zeros((d, d, y.shape[1]))  # as far as was asked: not zero, but rounding
            scale[np.arange(d), np.arange(d)] = (ROUNDOFF * np.abs(Y).max(0)) ** 2
            known = start or Kernel.default(d, over.shift)
            return cls(beta[1:], beta[0] + top, scale, 3.0, known)
        few = np.arange(len(X))
        if len(X) > FIT_ROWS:
            few = np.unique(np.linspace(0, len(X) - 1, FIT_ROWS).round().astype(int))
        part = (X[few], M[few], Y[few], over)
        ev = Evidence(X[few], F[few], Y[few], shift=over.shift, spread=over.width)
        kernel, rounds = start, [max_iter]
        if kernel is None:
            kernel, rounds = Kernel.default(X.shape[1], over.shift), [max_iter]
            if over.bends:
                kernel, rounds = replace(ev.fit(kernel, max_iter=20), log_rho=0.0), [20, max_iter]
        for iterations in rounds:
            if over.bends:
                now = Conditioned(kernel, *part, white=white, ease=ease)
                kernel = replace(kernel, direction=direction_of(now.coef[1:]))
            kernel = ev.fit(kernel, max_iter=iterations)
        c = Conditioned(kernel, X, M, Y, over, white=white, ease=ease)
        again = looks and not (over.blocks and over.inflation(len(X)) == 0)
        scale, count = c.covariance(M, weights)
        scale *= LOOKS**2 if again else 1.0
        i = np.arange(d)
        scale[i, i] = np.maximum(scale[i, i], (ROUNDOFF * np.abs(Y).max(0)) ** 2)
        rows, most = over.degrees
        dof = min(3 + count / rows, most)
        if over.tails is not None:
            scale, dof = scale * heavier(dof, over.tails), over.tails
        return cls(c.coef[1:], c.coef[0] + top, scale, dof, kernel, c, top)


class Conditioned:
    """A kernel conditioned on rows: factor ``L``, ``B = L^-1 cov(y, phi)``, ``W = L^-1 y``."""

    def __init__(
        self,
        kernel: Kernel,
        X: Floats,
        M: Floats,
        Y: Floats,
        over: Functional,
        *,
        white: bool,
        ease: Floats | None = None,
    ) -> None:
        self.kernel, self.X, self.over, self.white = kernel, X, over, white
        w, d = np.exp(kernel.log_w), M.shape[1]
        self.root = np.ones(d) if ease is None else np.sqrt(ease)
        self.w, self.F = w, self.features(M)
        K = w[0] * kernel.product(X, X) + w[1] * (self.F @ self.F.T) + w[2]
        K[np.diag_indices(len(X))] += w[3]
        self.L = safe_cholesky(K)
        centre = -over.centre / over.spread
        self.lin = np.vstack([centre, np.diag(1 / over.spread)]) * self.root / np.sqrt(d)
        product, self.kept = over.cross(kernel, X)
        cross = w[0] * product + w[1] * self.lin @ self.F.T
        cross[0] += w[2]
        if white:
            cross += w[3] * over.influence(M)
        self.B, self.W = solve(self.L, cross.T), solve(self.L, Y)
        self.coef = np.asarray(self.B.T @ self.W)

    def features(self, M: Floats) -> Floats:
        """The design as the linear part sees it."""
        scaled = (M - self.over.centre) / (self.over.spread * np.sqrt(M.shape[1]))
        return np.asarray(scaled * self.root)

    def left_over(self, product: Floats, white: Floats, sigma2: Floats) -> Floats:
        """Prior covariances of phi (d+1, d+1) less what the rows explain, (d+1, d+1, k)."""
        C = self.w[0] * product + self.w[1] * self.lin @ self.lin.T - self.B.T @ self.B
        C[0, 0] += self.w[2]
        if self.white:
            C += self.w[3] * white
        return np.asarray(C[:, :, None] * sigma2)

    def predict(self, M: Floats) -> Floats:
        """E[v(M) | y] less the constant taken off y, at masks ``M (m, d)``, ``(m, k)``."""
        alpha, out = self.alpha, []
        for a in range(0, len(M), CHUNK):
            part = M[a : a + CHUNK]
            K = self.w[0] * self.kernel.product(part, self.X) + self.w[2]
            out.append((K + self.w[1] * self.features(part) @ self.F.T) @ alpha)
        return np.concatenate(out)

    def predictive_variance(self, Z: Design) -> Floats:
        """Variance of v at masks ``Z (m, d)``, at sigma² = 1 (only where coordinates are masks)."""
        T = np.asarray(Z, dtype=np.float64)
        F = self.features(T)
        K = self.w[0] * self.kernel.product(self.X, T) + self.w[1] * self.F @ F.T + self.w[2]
        known = solve(self.L, K)
        own = self.w[0] + self.w[1] * (F**2).sum(1) + self.w[2] + self.w[3]
        return np.asarray(own - (known**2).sum(0))

    def shares_left(self, Z: Design) -> Floats:
        """What masks ``Z (m, d)`` would leave of the variances, one after the other, (m, d).

        No value is needed: row i is the share of each coefficient's variance after masks 0 … i,
        the correction of sigma² for fitted hyper-parameters included.
        """
        M = np.asarray(Z, dtype=np.float64)
        F, w, (n, p) = self.features(M), self.w, self.X.shape
        K = w[0] * self.kernel.product(M, M) + w[1] * F @ F.T + w[2] + w[3] * np.eye(len(M))
        A = w[0] * self.kernel.product(self.X, M) + w[1] * self.F @ F.T + w[2]
        known = solve(self.L, A)
        cross = w[0] * self.over.cross(self.kernel, M)[0] + w[1] * self.lin @ F.T
        if self.white:
            cross += w[3] * self.over.influence(M)
        L = safe_cholesky(K - known.T @ known)
        gains = np.cumsum(solve(L, (cross[1:] - self.B[:, 1:].T @ known).T) ** 2, axis=0)
        now = np.maximum(self.over.scale(self, np.ones(1))[1:, 1:, 0].diagonal(), 1e-300)
        inflation = 1 + self.over.inflation(n) * (p + 5) / (n + np.arange(len(M) + 1))
        grown = (inflation[1:] / inflation[0])[:, None]
        return np.asarray(np.maximum(1 - gains / now, 1e-12) * grown)

    @property
    def alpha(self) -> Floats:
        """K^-1 y."""
        return solve(self.L, self.W, trans="T")

    def covariance(self, M: Floats, weights: Floats | None) -> tuple[Floats, float]:
        """Honest scale matrices of the features (d, d, k), and how many rows they rest on."""
        n, p = self.X.shape
        inverse = solve(self.L, np.eye(n))
        r, v = left_out(inverse, self.W)
        tiny = np.finfo(float).tiny
        sigma2 = (r**2 / v[:, None]).mean(0)
        if self.white and p > MANY:  # leave-one-out alone is too sure of itself there
            sigma2 = np.maximum(sigma2, (self.W**2).mean(0))
        M2 = ((inverse.T @ self.B[:, 1:]) ** 2).sum(1)
        sigma2 = sigma2 * np.maximum((M2 @ r**2) / np.maximum((M2 @ v) * sigma2, tiny), 1.0)
        if self.over.blocks and self.white:
            K = self.L @ self.L.T
            distance = np.diag(K)[:, None] + np.diag(K) - 2 * K
            sigma2 = np.maximum(sigma2, block_scale(inverse, self.W, distance, 2))
        count = resting(r, v) if self.over.resting else np.full(len(sigma2), float(n))
        sigma2 = sigma2 * (1 + self.over.inflation(n) * (p + 5) / count)
        scale = self.over.scale(self, sigma2)[1:, 1:]
        doubt = one_more(self.L @ self.W)
        chance = self.over.chance(M, np.sqrt(r**2 + doubt), weights, endless=not self.white)
        total = np.trace(scale)
        grown = np.where(total > 0, chance / np.where(total > 0, total, 1.0), 1.0)
        return np.asarray(scale * np.maximum(grown, 1.0)), float(count.min())
