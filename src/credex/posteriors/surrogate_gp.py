r"""Gaussian-process posterior of BayesLIME's coefficients, with honest intervals.

The estimand is the weighted-least-squares solution over the whole neighbourhood,
phi* = (M'PM)^-1 M'P v, intercept included. Given a Gaussian process for v it is a linear
functional of v, so its posterior is Gaussian in closed form. Two functionals:

* `AllMasks`: all 2^d masks, weights a function of their size; exact, without enumeration or pool:
  a function of the size is a sum of d + 1 complex exponentials (roots of unity), each a product
  over features, as is the kernel. The white part is a function of the mask like any other there.
* `Pool`: unasked perturbations of a table, whose own sampling error is added to the interval. The
  white part is noise: no single row counts in an endless neighbourhood.

Intervals. sigma² comes from leave-one-out residuals r, one per output, and grows by the share of
the rows that carry most weight in phi where those were predicted worse than the rest. Then

* on masks, until phi's total variance is that of the sandwich A diag(r²) A', A = (M'WM)^-1 M'W:
  rows are drawn at random, so that this is how far the process's own misses project on phi,
  whatever its kernel cannot express (times the share of masks not asked);
* on tables by 1 + 0.75 (p + 5)/n for fitted hyper-parameters: there the sandwich, which counts
  what a row's replacements add by chance, is up to twice too wide.

Student-t with 3 + n/16 degrees of freedom, at most 10.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from credex.posteriors.surrogate_kernel import (
    Evidence,
    Floats,
    Kernel,
    additive,
    direction_of,
    product_of_others,
    projector,
    safe_cholesky,
    solve,
    without,
)
from credex.typing import Design

MAX_DOF = 10.0
"""Most degrees of freedom of the Student-t."""

INFLATION = 0.75
"""Of sigma² by fitted hyper-parameters per row of a table."""

LOOKS = 1.15
"""Wider by this factor when a run may stop at any of several looks."""

FIT_ROWS = 300
"""Hyper-parameters are fitted on at most this many rows, evenly spread."""

COV_ROWS = 1500
"""Rows of the pool between which the posterior covariance is averaged."""

ROUNDOFF = 2e-8
"""A deviation below this share of the largest output is arithmetic, not knowledge."""

MOST_BENT = 60
"""Features up to which the bending direction is affordable."""

MANY = 25
"""Features from which the in-sample scale is looked at too."""

RARE = 1e-10
"""Sizes of masks that have less than this share of the likeliest one's weight are left out."""


class Functional(Protocol):
    """What phi* projects over. Rows of results: intercept first, then the d features."""

    centre: Floats
    spread: Floats
    shift: float
    width: float
    bends: bool
    white: bool

    def cross(self, kernel: Kernel, X: Floats) -> tuple[Floats, Floats | None]:
        """Covariance of phi* with the product part at X (d+1, n), and what to keep of the work."""
        ...

    def influence(self, M: Floats) -> Floats:
        """Derivative of phi* by v at the rows M, (d+1, n) (only if ``white``)."""
        ...

    def scale(self, c: Conditioned, sigma2: Floats) -> Floats:
        """Scale matrices (d+1, d+1, k) of the posterior given sigma² (k,)."""
        ...


class AllMasks:
    """All 2^d masks of d features; ``weights (d+1,)`` of a mask by how many are present."""

    shift, width = 0.0, 1.0  # wider is no sharper and covers .93 where this does .96
    white = True

    def __init__(self, weights: Floats) -> None:
        from scipy.special import gammaln

        w = np.asarray(weights, float)
        d = len(w) - 1
        self.d, self.weights = d, w
        self.centre, self.spread = np.full(d, 0.5), np.full(d, 0.5)
        s = np.arange(d + 1)
        self.mass = np.exp(gammaln(d + 1) - gammaln(s + 1) - gammaln(d - s + 1) - d * np.log(2))
        self.inverse = np.linalg.inv(self._moment(w))
        self.bends = d <= MOST_BENT
        s = s[self.mass * w > RARE * (self.mass * w).max()]  # the period need not be longer
        angle = 2 * np.pi * (s - s[0] + 0.2371) / len(s)  # rotated: no factor vanishes by symmetry
        self.nodes = np.exp(1j * angle)
        self.node_weights = (w[s] @ np.exp(-1j * np.outer(s, angle))) / len(s)

    def _moment(self, w: Floats) -> Floats:
        """E[w (1,z)(1,z)'] over all masks."""
        d, s, wm = self.d, np.arange(self.d + 1), w * self.mass
        one, two = wm @ s / d, wm @ (s * (s - 1)) / max(d * (d - 1), 1)
        G = np.full((d + 1, d + 1), two)
        G[0, :] = G[:, 0] = one
        G[np.diag_indices(d + 1)] = one
        G[0, 0] = wm.sum()
        return G

    def _factors(self, kernel: Kernel) -> Any:
        for omega, beta in zip(*kernel.frequencies(), strict=True):
            e = np.exp(-np.exp(kernel.log_theta)) * np.exp(2j * omega * kernel.h)
            yield beta, e

    def cross(self, kernel: Kernel, X: Floats) -> tuple[Floats, None]:
        """Exact, O(n d²) for each of the bending direction's frequencies."""
        t, c = self.nodes[:, None], self.node_weights
        on = X.T > 0.5
        out = np.zeros((self.d + 1, len(X)))
        for beta, e in self._factors(kernel):
            up, down = 0.5 * (t + np.conj(e)), 0.5 * (t * e + 1)  # mask present, absent
            F = np.where(on[:, None, :], up.T[:, :, None], down.T[:, :, None])
            rest, total = product_of_others(F)
            out[0] += beta * (c @ total).real
            hit = np.where(on, 0.5, 0.5 * e[:, None])
            out[1:] += beta * (hit * np.einsum("t,dtn->dn", c * self.nodes, rest)).real
        return np.asarray(self.inverse @ out), None

    def influence(self, M: Floats) -> Floats:
        """(M'PM)^-1 M'P at the rows M."""
        w = self.weights[np.round(M.sum(1)).astype(int)] * 0.5**self.d
        return np.asarray(self.inverse @ (np.column_stack([np.ones(len(M)), M]) * w[:, None]).T)

    def prior(self, kernel: Kernel) -> tuple[Floats, Floats]:
        """Prior covariance of phi* under the product and the white part, (d+1, d+1) each."""
        d = self.d
        q = len(self.nodes)
        a, b = np.repeat(self.nodes, q), np.tile(self.nodes, q)
        W = np.repeat(self.node_weights, q) * np.tile(self.node_weights, q)
        C = np.zeros((d + 1, d + 1))
        for beta, factor in self._factors(kernel):
            e = factor[:, None]
            F = 0.25 * (1 + a * b + a * e + b * np.conj(e))
            F = np.where(np.abs(F) < 1e-13, 1e-13, F)
            left = np.vstack([np.ones(len(a)), 0.25 * (a * b + a * e) / F])
            right = np.vstack([np.ones(len(a)), 0.25 * (a * b + b * np.conj(e)) / F])
            P = W * np.prod(F, axis=0)
            Q = ((left * P) @ right.T).real
            i = np.arange(1, d + 1)
            Q[i, i] = (0.25 * a * b / F * P).sum(1).real
            C += beta * Q
        white = self._moment(self.weights**2) * 0.5**self.d
        A = self.inverse
        return np.asarray(A @ ((C + C.T) / 2) @ A), np.asarray(A @ white @ A)

    def scale(self, c: Conditioned, sigma2: Floats) -> Floats:
        """Prior less what the rows explain, times sigma²."""
        return c.left_over(*self.prior(c.kernel), sigma2)


class Pool:
    """Unasked perturbations: coordinates ``X (m, p)``, design ``M (m, d)``, weights ``w (m,)``."""

    shift, width = -2.0, 1.5  # most columns of a table matter little: longer length-scales
    bends = white = False

    def __init__(self, X: Floats, M: Floats, w: Floats) -> None:
        self.X, self.M, self.w = (np.asarray(a, float) for a in (X, M, w))
        self.centre = self.M.mean(0)
        sd = self.M.std(0)
        self.spread = np.where(sd > 0, sd, 1.0)
        self.A = projector(self.M, self.w)

    def cross(self, kernel: Kernel, X: Floats) -> tuple[Floats, Floats]:
        """Average over the pool; kept: the kernel between pool and rows, (m, n)."""
        K = kernel.product(self.X, X)
        return np.asarray(self.A @ K), K

    def influence(self, M: Floats) -> Floats:
        """Nothing: no single row counts in an endless neighbourhood."""
        return np.zeros((len(self.centre) + 1, len(M)))

    def scale(self, c: Conditioned, sigma2: Floats) -> Floats:
        """Posterior covariance over an endless pool, and this pool's own sampling error."""
        m, w = min(len(self.X), COV_ROWS), c.w
        A, X = projector(self.M[:m], self.w[:m]), self.X[:m]
        F = c.features(self.M)
        K = w[0] * c.kept + w[1] * F @ c.F.T + w[2]
        V = solve(c.L, K[:m].T)
        prior = w[0] * A @ c.kernel.product(X, X) @ A.T + w[1] * c.lin @ c.lin.T
        prior[0, 0] += w[2]
        whole = prior - (V @ A.T).T @ (V @ A.T)
        own = w[0] + w[1] * (F[:m] ** 2).sum(1) + w[2] - (V**2).sum(0)
        C = without(whole, (A * np.maximum(own, 0.0)) @ A.T)
        e = K @ c.alpha
        e -= np.column_stack([np.ones(len(e)), self.M]) @ (self.A @ e)
        error = [(self.A * e[:, j] ** 2) @ self.A.T for j in range(e.shape[1])]
        return np.asarray(C[:, :, None] * sigma2 + np.stack(error, 2))


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
        if white and (beta := additive(M, Y)) is not None:
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
        scale = c.covariance(M, weights) * (LOOKS**2 if looks else 1.0)
        i = np.arange(d)
        scale[i, i] = np.maximum(scale[i, i], (ROUNDOFF * np.abs(Y).max(0)) ** 2)
        return cls(
            c.coef[1:], c.coef[0] + top, scale, min(3 + len(X) / 16, MAX_DOF), kernel, c, top
        )


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
        for a in range(0, len(M), COV_ROWS):
            part = M[a : a + COV_ROWS]
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
        inflation = 1 + self.over.inflation * (p + 5) / (n + np.arange(len(M) + 1))
        grown = (inflation[1:] / inflation[0])[:, None]
        return np.asarray(np.maximum(1 - gains / now, 1e-12) * grown)

    @property
    def alpha(self) -> Floats:
        """K^-1 y."""
        return solve(self.L, self.W, trans="T")

    def left_out(self) -> tuple[Floats, Floats, Floats]:
        """L^-1, leave-one-out residuals (n, k) and their variances (n,) at sigma² = 1."""
        inverse = solve(self.L, np.eye(len(self.X)))
        v = 1 / (inverse**2).sum(0)
        return inverse, (inverse.T @ self.W) * v[:, None], v

    def covariance(self, M: Floats, weights: Floats | None) -> Floats:
        """Honest scale matrices of the features (d, d, k), as the module says."""
        n, p = self.X.shape
        inverse, r, v = self.left_out()
        tiny = np.finfo(float).tiny
        sigma2 = (r**2 / v[:, None]).mean(0)
        if self.white and p > MANY:  # leave-one-out alone is too sure of itself there
            sigma2 = np.maximum(sigma2, (self.W**2).mean(0))
        M2 = ((inverse.T @ self.B[:, 1:]) ** 2).sum(1)
        sigma2 = sigma2 * np.maximum((M2 @ r**2) / np.maximum((M2 @ v) * sigma2, tiny), 1.0)
        if not self.over.white:
            return self.over.scale(self, sigma2 * (1 + INFLATION * (p + 5) / n))[1:, 1:]
        scale = self.over.scale(self, sigma2)[1:, 1:]
        A = projector(M, np.ones(n) if weights is None else weights)[1:]
        thin = max(1 - n * 0.5**p, 0.0) if self.white else 1.0
        sandwich = thin * (A**2 @ r**2).sum(0)
        return np.asarray(scale * np.maximum(sandwich / np.maximum(np.trace(scale), tiny), 1.0))
