r"""Hyper-parameters of the mask kernel by maximum a posteriori, analytic gradients.

The overall variance is integrated out under 1/sigma^2 (one per output), so what is maximised is

.. math:: -\tfrac{k}{2}\log|K| - \tfrac{n}{2}\sum_o \log y_o^T K^{-1} y_o + \log p(\theta)

with independent normal priors on the logarithms theta. The direction of bending is not fitted by
evidence (a free direction overfits): it follows the importances themselves, two passes. Where
half differences take few values the family is narrower, see `credex.posteriors.discrete_outputs`.
"""

from __future__ import annotations

import numpy as np

from credex.posteriors.discrete_outputs import Jumps
from credex.posteriors.mask_kernel import MaskKernel, by_size, size_match
from credex.typing import Floats

JITTER = 1e-9
"""On the diagonal, relative to its mean."""

RHO_BOUNDS = (-4.0, 1.0)
"""Of the logarithm of the bending direction's length."""

SPREAD = 1.5
"""Prior deviation of each log lam_j. A shift common to all would sharpen the means for more than
25 players by up to a fifth, but it collapses their intervals (measured): accuracy that lies."""

SHARES = np.array([0.5, 1.0, 0.5])
"""Of the product, linear and size variances in that of a half difference."""

MAX_REACH = 12.0
"""Of the projection: beyond it the bending direction only encodes parity-like games."""


def default_kernel(d: int) -> MaskKernel:
    """The prior's centre: where a fit starts, and what plans the first batch."""
    return MaskKernel(
        np.full(d, np.log(0.5 / np.sqrt(d))),
        RHO_BOUNDS[0],
        np.array([0.0, 0.0, -5.0, -5.0]),
        np.ones(d) / np.sqrt(d),
    )


class Evidence:
    """Negative log posterior of the hyper-parameters given pairs (S, Y).

    Parameters
    ----------
    S : (n, d) signs, one distinct pair a row.
    Y : (n, k) half differences, any scale.
    ease : (d,) relative prior variances of the linear part; None: all one.
    """

    def __init__(self, S: Floats, Y: Floats, ease: Floats | None = None) -> None:
        rms = np.sqrt((Y**2).mean(0))
        self.S = S
        self.Y = Y[:, rms > 0] / rms[rms > 0]
        self.dot = (S if ease is None else S * ease) @ S.T / S.shape[1]
        self.sizes = size_match(S, S)
        d = S.shape[1]
        centre = default_kernel(d)
        self.mean = centre.theta
        self.mean[d] = 0.0
        self.jumps = Jumps.of(self.Y, lambda: np.hstack([S, by_size(S)]), odd=True)
        spread = SPREAD * self.jumps.tighter
        self.sd = np.concatenate([np.full(d, spread), [1.0], [3.0, 3.0, 3.0, 3.0]])

    def loss(self, theta: Floats, direction: Floats) -> tuple[float, Floats]:
        """Value and gradient at ``theta (d + 5,)``."""
        from scipy.linalg import lapack

        S, Y = self.S, self.Y
        (n, d), k = S.shape, Y.shape[1]
        lam, h, w = np.exp(theta[:d]), np.exp(theta[d]) * direction, np.exp(theta[d + 1 :])
        u = (S * lam) @ S.T
        p = S @ h
        minus, plus = p[:, None] - p, p[:, None] + p
        shift = lam.sum()
        near = (0.5 * w[0]) * np.exp(u - shift - 0.5 * minus * minus)
        far = (0.5 * w[0]) * np.exp(-u - shift - 0.5 * plus * plus)
        K = near - far + w[1] * self.dot + w[2] * self.sizes
        diag = np.diag_indices(n)
        K[diag] += w[3] + self.jumps.white * (SHARES @ w[:3])
        K[diag] += JITTER * K[diag].mean()
        C, info = lapack.dpotrf(K, lower=1, overwrite_a=0)
        if info:
            return 1e12, np.zeros_like(theta)
        logdet = np.log(C[diag]).sum()
        Ki, _ = lapack.dpotri(C, lower=1, overwrite_c=1)
        Ki = np.tril(Ki) + np.tril(Ki, -1).T
        alpha = Ki @ Y
        q = (Y * alpha).sum(0)
        r = (theta - self.mean) / self.sd
        value = 0.5 * (r @ r) + k * logdet + 0.5 * n * np.log(q).sum()
        A = 0.5 * k * Ki - (alpha * (0.5 * n / q)) @ alpha.T
        near *= A
        far *= A
        total = near.sum() - far.sum()
        grad = r / self.sd
        grad[:d] += lam * (np.einsum("nj,nj->j", S, (near + far) @ S) - total)
        grad[d] += 2 * (S @ h) @ (far * plus - near * minus).sum(1)
        trace = np.trace(A)
        grad[d + 1 :] += (
            total,
            w[1] * (A * self.dot).sum(),
            w[2] * (A * self.sizes).sum(),
            w[3] * trace,
        )
        grad[d + 1 : -1] += self.jumps.white * trace * SHARES * w[:3]
        return float(value), grad

    def fit(self, start: MaskKernel, *, max_iter: int = 60) -> MaskKernel:
        """The MAP kernel, from ``start``, keeping its direction."""
        from scipy.optimize import minimize

        if self.Y.shape[1] == 0:
            return start
        lo, hi = self.mean - 8, self.mean + 8
        d = self.S.shape[1]
        lo[d], hi[d] = RHO_BOUNDS[0], RHO_BOUNDS[1] - self.jumps.shorter
        hi[d] = min(hi[d], np.log(0.5 * MAX_REACH / np.abs(start.direction).sum()))
        weights = self.jumps.without_white(start.log_weights, SHARES)
        res = minimize(
            self.loss,
            np.clip(np.append(start.theta[: d + 1], weights), lo, hi),
            args=(start.direction,),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(lo, hi, strict=True)),
            options={"maxiter": max_iter, "ftol": 1e-6},
        )
        weights = self.jumps.add_white(res.x[d + 1 :], SHARES)
        return start.with_theta(np.append(res.x[: d + 1], weights))
