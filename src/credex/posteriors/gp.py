r"""Gaussian-process posterior of Shapley values from pair differences, with honest intervals.

Data are pairs: signs ``S (n, d)`` (row 0 is the full mask) and half differences ``Y (n, k)``,
g(s) = [v(s) - v(-s)]/2. Importances are a linear functional of g, so that given the kernel their
posterior is Gaussian in closed form; the pair (full, empty) makes their sum exact.

Intervals. The textbook variance sigma^2 C is too small: the kernel was fitted to the same pairs.
Corrections, each read off the data, none fitted to a game:

* sigma^2 comes from leave-one-out residuals, sigma^2 = mean r_i^2 / v_i (own scale per output);
* where the pairs that carry most weight in phi were predicted worse than the rest, it grows by
  their share, sum_i M_i^2 r_i^2 / sum_i M_i^2 v_i sigma^2, never below one;
* for pairs that the process chose itself it grows by 1 + 2 p / n, p = d + 5 hyper-parameters fitted
  on n pairs (Akaike's final prediction error to first order: the residuals were measured after
  fitting);
* for pairs drawn at random it is at least what pairs left out together with their neighbours say
  (`credex.posteriors.cross_validation`), and phi's total variance at least that of a sandwich of
  the residuals: the error of a Shapley regression on what the process leaves, whatever its kernel
  cannot express. Before there are two pairs a player: 1 + 3 p / n.

What remains uncertain is the scale itself: at 95 % as wide as a Student-t with 3 + n/16 degrees of
freedom (3 + n/8 where there is a sandwich), at most 10 (what the kernel cannot express does not
vanish with n). Its shape is that of 4 degrees: over many games most errors are far smaller than the
few large ones that decide the 95 %, so that narrower intervals at low levels suffice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from credex.posteriors.belief import Belief
from credex.posteriors.cross_validation import block_scale, left_out
from credex.posteriors.discrete_outputs import degree_of
from credex.posteriors.evidence import JITTER, Evidence, default_kernel
from credex.posteriors.mask_kernel import MaskKernel, shapley_weights
from credex.posteriors.shapley import sandwich_total
from credex.posteriors.student import LARGE_DOF, heavier
from credex.typing import Design, Floats

INFLATION = 2.0
"""Of sigma² by fitted hyper-parameters per pair, see above."""

NOISY_INFLATION = 1.5
"""The same for a noisy model: some of what the hyper-parameters hide is noise, which is known."""

FEW_INFLATION = 3.0
"""The same for pairs drawn at random, while they are too few for a sandwich."""

ENOUGH = 2
"""Random pairs per player from which the sandwich of left-out residuals is used."""

ROWS, SANDWICH_ROWS = 16, 8
"""Pairs for each degree of freedom after the third: a sandwich knows its scale better."""

MAX_DOF = 10.0
"""Most degrees of freedom of the Student-t that sets the width at 95 %."""

TAILS = 4.0
"""Degrees of freedom of the Student-t with that width."""

LOOKS = 1.15
"""Wider by this factor when a run may stop at any of several looks."""

FEW_LOOKS = 12.0
"""… and by the square of this over the number of pairs (small games: .82–.89 without)."""

ROUNDOFF = 2e-8
"""A deviation below this share of the largest half difference is arithmetic, not knowledge."""

EXACT = 1e-10
"""A linear fit this good (relative) is taken for the truth: an additive game."""

MANY = 25
"""Players from which the in-sample scale is looked at too."""

CHUNK = 2048
"""Masks predicted at a time."""

FIT_PAIRS = 300
"""Hyper-parameters are fitted on at most this many pairs, evenly spread over those asked."""


@dataclass(frozen=True, slots=True)
class Conditioned:
    """A kernel conditioned on pairs: everything the sampler and the posterior read.

    Attributes
    ----------
    kernel : MaskKernel
    S, Y : (n, d) signs and (n, k) half differences.
    L : (n, n) lower Cholesky factor of k(S, S).
    B : (n, d) L^-1 cov(g, phi).
    W : (n, k) L^-1 Y.
    """

    kernel: MaskKernel
    S: Floats
    Y: Floats
    L: Floats
    B: Floats
    W: Floats

    @classmethod
    def of(cls, kernel: MaskKernel, S: Floats, Y: Floats) -> Conditioned:
        """Condition ``kernel`` on the pairs ``S (n, d)``, ``Y (n, k)``."""
        L = safe_cholesky(kernel.gram(S), float(np.mean(kernel.diagonal(S))))
        B = _solve(L, kernel.cross(S).T)
        return cls(kernel, S, Y, L, B, _solve(L, Y))

    def extend(self, S: Floats, Y: Floats) -> Conditioned:
        """Absorb m more pairs in O(n^2 m): the factor is extended, not rebuilt."""
        n, m = len(self.S), len(S)
        A = _solve(self.L, self.kernel.gram(self.S, S))
        low = safe_cholesky(self.kernel.gram(S) - A.T @ A, float(np.mean(self.kernel.diagonal(S))))
        L = np.zeros((n + m, n + m))
        L[:n, :n], L[n:, :n], L[n:, n:] = self.L, A.T, low
        B = _solve(low, self.kernel.cross(S).T - A.T @ self.B)
        W = _solve(low, Y - A.T @ self.W)
        return Conditioned(
            self.kernel,
            np.vstack([self.S, S]),
            np.vstack([self.Y, Y]),
            L,
            np.vstack([self.B, B]),
            np.vstack([self.W, W]),
        )

    @property
    def mean(self) -> Floats:
        """E[phi | Y], (d, k)."""
        return np.asarray(self.B.T @ self.W)

    def predict(self, T: Floats) -> Floats:
        """E[g(T) | Y] at signs ``T (m, d)``, ``(m, k)``."""
        alpha = _solve(self.L, self.W, transposed=True)
        starts = range(0, len(T), CHUNK)
        return np.concatenate([self.kernel.gram(T[a : a + CHUNK], self.S) @ alpha for a in starts])

    def predictive_variance(self, Z: Design) -> Floats:
        """Variance of the half difference at masks ``Z (m, d)``, at sigma² = 1."""
        T = np.where(np.asarray(Z, dtype=np.bool_), 1.0, -1.0)
        A = _solve(self.L, self.kernel.gram(self.S, T))
        return np.asarray(self.kernel.diagonal(T) - np.einsum("nm,nm->m", A, A))

    def unit_covariance(self) -> Floats:
        """cov[phi | S] at sigma^2 = 1, (d, d). Needs no Y: widths can be forecast."""
        return np.asarray(self.kernel.prior_covariance() - self.B.T @ self.B)

    def honest_scale(self, inflation: float = INFLATION) -> Floats:
        """sigma^2 per output, (k,), from pairs left out one by one."""
        n, d = self.S.shape
        inverse, r, v = self._left_out()
        if not len(r):
            return np.asarray((self.W**2).mean(0) * (1 + inflation * (d + 5)))
        sigma2 = (r**2 / v[:, None]).mean(0)
        if (
            d > MANY
        ):  # leave-one-out alone is too sure of itself with about as many players as pairs
            sigma2 = np.maximum(sigma2, (self.W**2).mean(0))
        M2 = ((inverse.T @ self.B)[1:] ** 2).sum(1)
        share = (M2 @ r**2) / np.maximum((M2 @ v) * sigma2, np.finfo(float).tiny)
        return np.asarray(sigma2 * np.maximum(share, 1.0) * (1 + inflation * (d + 5) / n))

    @property
    def enough_at_random(self) -> bool:
        """Whether pairs drawn at random are enough for a sandwich."""
        n, d = self.S.shape
        return not self.kernel.noisy and n - 1 >= ENOUGH * d

    def honest_scale_of_random(self, C: Floats) -> Floats:
        """The same for pairs drawn at random; ``C (d, d)`` is the covariance that it scales."""
        if not self.enough_at_random:
            return self.honest_scale(FEW_INFLATION)
        inverse, r, _ = self._left_out()
        own = self.kernel.diagonal(self.S)
        distance = own[:, None] + own - 2 * np.abs(self.kernel.gram(self.S, self.S))
        blocks = block_scale(inverse, self.W, distance, 1)
        chance = sandwich_total(self.S[1:] > 0, r, paired=True) / max(float(np.trace(C)), 1e-300)
        return np.maximum(np.maximum(self.honest_scale(0.0), blocks), chance)

    def _left_out(self) -> tuple[Floats, Floats, Floats]:
        """L^-1, and residuals and variances of the pairs after row 0, which every run has."""
        inverse = _solve(self.L, np.eye(len(self.S)))
        r, v = left_out(inverse, self.W)
        return inverse, r[1:], v[1:]


@dataclass(frozen=True, slots=True)
class GPPosterior:
    """Posterior of the importances, Student-t around ``mean``.

    Attributes
    ----------
    mean : (d, k)
    scale : (k, d, d) scale matrices of the t distribution; covariance is dof/(dof-2) times that.
    dof : degrees of freedom.
    state : what it was computed from; None when the answer is exact.
    exact : "" or the reason why nothing is uncertain ("all pairs known").
    """

    mean: Floats
    scale: Floats
    dof: float
    state: Conditioned | None
    exact: str = ""

    @classmethod
    def fit(
        cls,
        S: Floats,
        Y: Floats,
        *,
        start: MaskKernel | None = None,
        max_iter: int = 60,
        noisy: bool = False,
        looks: bool = False,
        ease: Floats | None = None,
        chosen: bool = True,
        noise: Floats | None = None,
    ) -> GPPosterior:
        """Fit hyper-parameters (warm from ``start``) and condition on the pairs.

        ``noise (k,)``: variance of a half difference asked again, where that is known.
        """
        kernel = fit_kernel(S, Y, start=start, max_iter=max_iter, noisy=noisy, ease=ease)
        if noise is not None:
            kernel = at_least_noise(kernel, S, Y, noise)
        return cls.of(Conditioned.of(kernel, S, Y), looks=looks, chosen=chosen)

    @classmethod
    def of(cls, state: Conditioned, *, looks: bool = False, chosen: bool = True) -> GPPosterior:
        """Posterior given the kernel. ``looks``: the run stops when this is narrow enough.

        Stopping at a width favours runs whose scale came out small: 15 % more width restores the
        level, and more than that while there are few pairs to read the scale from; a sandwich is
        wide enough as it is. ``chosen``: the
        pairs are those that tell most (focused), not a random sample.
        """
        S, Y = state.S, state.Y
        d, k = S.shape[1], Y.shape[1]
        noisy = state.kernel.noisy
        if not noisy and len(S) >= 2 ** (d - 1):
            return cls(
                2 * shapley_weights(S).T @ Y, np.zeros((k, d, d)), np.inf, None, "all pairs known"
            )
        floor = (ROUNDOFF * np.abs(Y).max(0)) ** 2
        i = np.arange(d)
        beta = None if noisy else additive_solution(S, Y)
        if beta is not None and not degree_of(Y, odd=True):
            # as far as was asked: what the process would find too, less its rounding
            scale = np.zeros((k, d, d))
            scale[:, i, i] = floor[:, None]
            return cls(beta, scale, 3.0, state)
        centre = np.eye(d) - 1 / d if not noisy else np.eye(d)
        mean = state.mean  # without noise this is, but for rounding, what row 0 says already
        mean = mean + (2 * Y[0] - mean.sum(0)) / d
        C = centre @ state.unit_covariance() @ centre
        sandwich = not chosen and state.enough_at_random
        wider = LOOKS + (FEW_LOOKS / len(S)) ** 2 if looks and not sandwich else 1.0
        if noisy:
            sigma2 = state.honest_scale(NOISY_INFLATION)
        else:
            sigma2 = state.honest_scale() if chosen else state.honest_scale_of_random(C)
        dof = min(3 + len(S) / (SANDWICH_ROWS if sandwich else ROWS), MAX_DOF)
        factor = wider**2 * heavier(dof, TAILS)
        scale = sigma2[:, None, None] * C * factor
        scale[:, i, i] = np.maximum(scale[:, i, i], floor[:, None]) if d > 1 else 0.0
        return cls(mean, scale, TAILS, state)

    @property
    def belief(self) -> Belief:
        """What is believed about the importances."""
        return Belief(self.mean, np.moveaxis(self.scale, 0, 2), min(self.dof, LARGE_DOF))


def fit_kernel(
    S: Floats,
    Y: Floats,
    *,
    start: MaskKernel | None = None,
    max_iter: int = 60,
    noisy: bool = False,
    ease: Floats | None = None,
) -> MaskKernel:
    """MAP kernel. From scratch the bending direction takes two passes, warm one."""
    if len(S) > FIT_PAIRS:
        few = np.unique(np.linspace(0, len(S) - 1, FIT_PAIRS).round().astype(np.int64))
        S, Y = S[few], Y[few]
    ev = Evidence(S, Y, ease)
    if start is None:
        kernel = ev.fit(replace(default_kernel(S.shape[1]), noisy=noisy, ease=ease), max_iter=20)
        kernel = replace(kernel, log_rho=0.0)
        rounds = [20, max_iter]
    else:
        kernel, rounds = start, [max_iter]
    for iterations in rounds:
        mean = Conditioned.of(kernel, S, Y).mean
        kernel = ev.fit(
            replace(kernel, direction=direction_of(mean, kernel.direction)), max_iter=iterations
        )
    return kernel


def at_least_noise(kernel: MaskKernel, S: Floats, Y: Floats, noise: Floats) -> MaskKernel:
    """The kernel with a white part of at least the known noise, relative to the scale it fits.

    Distinct pairs alone cannot tell noise from a rough function, which would be known where asked.
    """
    for _ in range(4):  # more noise means less scale: soon settled
        scale = (Conditioned.of(kernel, S, Y).W ** 2).mean(0)
        least = float(np.mean(noise / np.maximum(scale, np.finfo(float).tiny)))
        white = np.log(max(least, np.exp(kernel.log_weights[3])))
        kernel = replace(kernel, log_weights=np.append(kernel.log_weights[:3], white))
    return kernel


def direction_of(mean: Floats, fallback: Floats) -> Floats:
    """Unit vector along the importances; the leading one when there are several outputs."""
    norm = np.linalg.norm(mean, axis=0)
    if not norm.max() > 0:
        return fallback
    M = mean[:, norm > 0] / norm[norm > 0]
    return np.asarray(
        M[:, 0] if M.shape[1] == 1 else np.linalg.svd(M, full_matrices=False)[0][:, 0]
    )


def additive_solution(S: Floats, Y: Floats) -> Floats | None:
    """Importances (d, k) if the pairs are exactly linear with two to spare, else None."""
    n, d = S.shape
    if n < d + 2:
        return None
    beta, _, rank, _ = np.linalg.lstsq(S, Y, rcond=None)
    misfit = np.abs(Y - S @ beta).max(0)
    if rank < d or not np.all(misfit <= EXACT * np.abs(Y).max(0)):
        return None
    return np.asarray(2 * beta)


def safe_cholesky(K: Floats, level: float) -> Floats:
    """Lower factor of K + jitter * level * I; the jitter grows only if it must."""
    from scipy.linalg import cholesky

    jitter = JITTER
    diag = np.diag_indices(len(K))
    for _ in range(6):
        A = K.copy()
        A[diag] += jitter * level
        try:
            return np.asarray(cholesky(A, lower=True, check_finite=False, overwrite_a=True))
        except np.linalg.LinAlgError:
            jitter *= 100
    raise np.linalg.LinAlgError(
        f"kernel matrix of {len(K)} pairs is not positive definite; are there repeated pairs?"
    )


def _solve(L: Floats, X: Floats, *, transposed: bool = False) -> Floats:
    from scipy.linalg import solve_triangular

    kind: Literal["N", "T"] = "T" if transposed else "N"
    return np.asarray(solve_triangular(L, X, lower=True, trans=kind, check_finite=False))
