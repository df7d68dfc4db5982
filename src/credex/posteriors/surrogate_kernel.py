r"""Prior covariance of a surrogate's value function, and its hyper-parameters by MAP.

.. math::
    k = w_p e^{-\sum_j \theta_j |x_j-x'_j| - (p-p')^2/2} + w_l\,m\cdot m'/d + w_c + w_e\delta

over coordinates X (masks: X = M; tables: where the perturbed input lies), with the design M scaled,
and on masks the projection p = rho b.(2x-1) on the coefficients' own direction b (v may bend along
it; b is not fitted by evidence, it follows the coefficients in two passes). Where outputs take few
values the family is narrower, see `credex.posteriors.discrete_outputs`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from credex.posteriors.discrete_outputs import Jumps

Floats = NDArray[np.float64]

JITTER = 1e-9
"""On the diagonal, relative to its mean."""

EXACT = 1e-10
"""A linear fit this good (relative) is taken for the truth: an additive game."""

RHO_BOUNDS = (-4.0, 1.0)
"""Of the logarithm of the bending direction's length."""

MAX_REACH = 12.0
"""Of the projection: beyond it the bending direction only encodes parity-like games."""

SHARES = np.array([1.0, 1.0, 0.0])
"""Of the product, linear and constant variances in what varies between rows."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Hyper-parameters: all logarithms; ``direction (p,)`` is a unit vector, None: no bending."""

    log_theta: Floats
    log_rho: float
    log_w: Floats
    direction: Floats | None

    @classmethod
    def default(cls, p: int, shift: float = 0.0) -> Kernel:
        """The prior's centre, ``shift`` added to every log theta_j = -log(p)/2."""
        theta = np.full(p, shift - 0.5 * np.log(p))
        return cls(theta, RHO_BOUNDS[0], np.array([0.0, 0.0, 0.0, -5.0]), None)

    @property
    def vector(self) -> Floats:
        """All free parameters (p + 5,)."""
        return np.concatenate([self.log_theta, [self.log_rho], self.log_w])

    def with_vector(self, t: Floats) -> Kernel:
        """Return the kernel with other parameters and the same direction."""
        p = len(self.log_theta)
        return replace(self, log_theta=t[:p], log_rho=float(t[p]), log_w=t[p + 1 :])

    @property
    def h(self) -> Floats:
        """The bending direction in signs."""
        if self.direction is None:
            return np.zeros(len(self.log_theta))
        return np.asarray(np.exp(self.log_rho) * self.direction)

    def product(self, X: Floats, T: Floats) -> Floats:
        """Return the product part at unit variance, (n, m)."""
        from scipy.spatial.distance import cdist

        theta = np.exp(self.log_theta)
        u = cdist(X * theta, T * theta, "cityblock")
        if self.direction is not None:
            p, q = X @ (2 * self.h), T @ (2 * self.h)
            u += 0.5 * (p[:, None] - q) ** 2
        return np.asarray(np.exp(-u))

    def frequencies(self, span: float = 6.5) -> tuple[Floats, Floats]:
        """Sum_q beta_q cos(omega_q x) is exp(-x²/2) within reach."""
        reach = 2 * np.abs(self.h).sum()
        if reach < 1e-4:
            return np.zeros(1), np.ones(1)
        step = 2 * np.pi / (reach + span)
        omega = step * np.arange(int(np.ceil(span / step)) + 1)
        beta = step * np.sqrt(2 / np.pi) * np.exp(-(omega**2) / 2)
        beta[0] /= 2
        return omega, beta


class Evidence:
    """Negative log posterior of the hyper-parameters; one variance per output integrated out.

    Parameters
    ----------
    X : (n, p) coordinates.
    F : (n, d) design as the linear part sees it.
    Y : (n, k) centred outputs, any scale.
    shift, spread : prior centre (see `Kernel.default`) and deviation of each log theta_j.
    """

    def __init__(
        self, X: Floats, F: Floats, Y: Floats, *, shift: float = 0.0, spread: float = 1.0
    ) -> None:
        rms = np.sqrt((Y**2).mean(0))
        self.X, self.Y = X, Y[:, rms > 0] / rms[rms > 0]
        self.binary = bool(np.all((X == 0) | (X == 1)))
        if not self.binary:
            self.D = np.abs(X.T[:, :, None] - X.T[:, None, :]).reshape(X.shape[1], -1)
        self.linear = F @ F.T
        self.mean = Kernel.default(X.shape[1], shift).vector
        p = X.shape[1]
        self.mean[p] = 0.0
        self.jumps = Jumps.of(self.Y, lambda: np.column_stack([np.ones(len(F)), F]))
        spread *= self.jumps.tighter
        self.sd = np.concatenate([np.full(p, spread), [1.0, 3.0, 3.0, 3.0, 3.0]])

    def distance(self, theta: Floats) -> Floats:
        """Sum_j theta_j |x_j - x'_j|, (n, n)."""
        n = len(self.X)
        if not self.binary:
            return np.asarray((theta @ self.D).reshape(n, n))
        half = (self.X * theta) @ (1 - self.X).T
        return np.asarray(half + half.T)

    def moment(self, G: Floats) -> Floats:
        """Sum_ab G_ab |x_aj - x_bj| for symmetric G, (p,)."""
        if not self.binary:
            return np.asarray(self.D @ G.ravel())
        return np.asarray(2 * np.einsum("nj,nj->j", self.X, G @ (1 - self.X)))

    def loss(self, t: Floats, direction: Floats | None) -> tuple[float, Floats]:
        """Value and gradient at ``t (p + 5,)``."""
        from scipy.linalg import lapack

        (n, p), k = self.X.shape, self.Y.shape[1]
        theta, w = np.exp(t[:p]), np.exp(t[p + 1 :])
        u = self.distance(theta)
        if direction is not None:
            proj = self.X @ (2 * np.exp(t[p]) * direction)
            bend = (proj[:, None] - proj) ** 2
            u += 0.5 * bend
        near = w[0] * np.exp(-u)
        K = near + w[1] * self.linear + w[2]
        diag = np.diag_indices(n)
        K[diag] += w[3] + self.jumps.white * (SHARES @ w[:3])
        K[diag] += JITTER * K[diag].mean()
        C, info = lapack.dpotrf(K, lower=1)
        if info:
            return 1e12, np.zeros_like(t)
        logdet = np.log(C[diag]).sum()
        Ki, _ = lapack.dpotri(C, lower=1, overwrite_c=1)
        Ki = np.tril(Ki) + np.tril(Ki, -1).T
        alpha = Ki @ self.Y
        q = (self.Y * alpha).sum(0)
        r = (t - self.mean) / self.sd
        value = 0.5 * (r @ r) + k * logdet + 0.5 * n * np.log(q).sum()
        G = 0.5 * k * Ki - (alpha * (0.5 * n / q)) @ alpha.T
        near *= G
        grad = r / self.sd
        grad[:p] -= theta * self.moment(near)
        if direction is not None:
            grad[p] -= (near * bend).sum()
        trace = np.trace(G)
        grad[p + 1 :] += (
            near.sum(),
            w[1] * (G * self.linear).sum(),
            w[2] * G.sum(),
            w[3] * trace,
        )
        grad[p + 1 : -1] += self.jumps.white * trace * SHARES * w[:3]
        return float(value), grad

    def fit(self, start: Kernel, *, max_iter: int = 60) -> Kernel:
        """The MAP kernel, from ``start``, keeping its direction."""
        from scipy.optimize import minimize

        if self.Y.shape[1] == 0:
            return start
        p = self.X.shape[1]
        lo, hi = self.mean - 8, self.mean + 8
        lo[p], hi[p] = RHO_BOUNDS[0], RHO_BOUNDS[1] - self.jumps.shorter
        if start.direction is not None:
            hi[p] = min(hi[p], np.log(0.5 * MAX_REACH / np.abs(start.direction).sum()))
        weights = self.jumps.without_white(start.log_w, SHARES)
        res = minimize(
            self.loss,
            np.clip(np.append(start.vector[: p + 1], weights), lo, hi),
            args=(start.direction,),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(lo, hi, strict=True)),
            options={"maxiter": max_iter, "ftol": 1e-6},
        )
        weights = self.jumps.add_white(res.x[p + 1 :], SHARES)
        return start.with_vector(np.append(res.x[: p + 1], weights))


def safe_cholesky(K: Floats) -> Floats:
    """Lower factor of K + jitter; the jitter grows only if it must."""
    from scipy.linalg import cholesky

    jitter, level = JITTER, float(np.mean(np.diag(K)))
    for _ in range(6):
        try:
            return np.asarray(cholesky(K + jitter * level * np.eye(len(K)), lower=True))
        except np.linalg.LinAlgError:
            jitter *= 100
    raise np.linalg.LinAlgError("kernel matrix is not positive definite")


def solve(L: Floats, X: Floats, trans: Literal["N", "T"] = "N") -> Floats:
    """L^-1 X or L^-T X for a lower factor."""
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(L, X, lower=True, trans=trans, check_finite=False))


def product_of_others(F: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """prod_{j != i} F_j along the first axis, and the whole product."""
    out, acc = np.empty_like(F), np.ones_like(F[0])
    for i in range(len(F)):
        out[i] = acc
        acc = acc * F[i]
    total, acc = acc, np.ones_like(F[0])
    for i in range(len(F) - 1, -1, -1):
        out[i] *= acc
        acc = acc * F[i]
    return out, total


def projector(M: Floats, w: Floats) -> Floats:
    """(M'WM)^-1 M'W with an intercept, (d+1, n)."""
    Z = np.column_stack([np.ones(len(M)), M])
    ZW = (Z * w[:, None]).T
    return np.asarray(np.linalg.pinv(ZW @ Z, hermitian=True) @ ZW)


def direction_of(coef: Floats) -> Floats:
    """Unit vector along the coefficients; the leading one when there are several outputs."""
    norm = np.linalg.norm(coef, axis=0)
    if not norm.max() > 0:
        return np.full(len(coef), 1 / np.sqrt(len(coef)))
    U = coef[:, norm > 0] / norm[norm > 0]
    return np.asarray(U if U.shape[1] == 1 else np.linalg.svd(U, full_matrices=False)[0])[:, 0]


def without(whole: Floats, part: Floats) -> Floats:
    """``whole`` less ``part``, but at least a tenth of it in every direction."""
    value, Q = np.linalg.eigh((whole + whole.T) / 2)
    root = np.sqrt(np.maximum(value, 1e-12 * max(value.max(), 0.0) + 1e-300))
    share, R = np.linalg.eigh((Q / root).T @ part @ (Q / root))
    back = (Q * root) @ R
    return np.asarray((back * (1 - np.minimum(share, 0.9))) @ back.T)


def additive(M: Floats, Y: Floats) -> Floats | None:
    """Intercept and coefficients if the rows are exactly linear with two to spare, else None."""
    Z = np.column_stack([np.ones(len(M)), M])
    if len(Z) < Z.shape[1] + 2:
        return None
    beta, _, rank, _ = np.linalg.lstsq(Z, Y, rcond=None)
    if rank < Z.shape[1] or np.any(np.abs(Y - Z @ beta).max(0) > EXACT * np.abs(Y).max(0)):
        return None
    return np.asarray(beta)
