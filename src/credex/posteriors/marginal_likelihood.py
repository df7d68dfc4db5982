r"""Hyper-parameters of the kernel by maximum a posteriori, with analytic gradients.

The overall variance is integrated out under 1/sigma^2 (one per output), so that the negative
logarithm of the posterior is

.. math:: \tfrac{k}{2}\log|K| + \tfrac{n}{2}\sum_o \log y_o^T K^{-1} y_o - \log p(\theta)

with independent normal priors on the logarithms theta. The direction of bending is not fitted here
(a free direction overfits): it follows the coefficients, see `credex.posteriors.process`. For
outputs that take few values the family of kernels is narrower, see
`credex.posteriors.discrete_outputs`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from credex.posteriors.discrete_outputs import LOG_RHO_CUT, SCALE_SD_FACTOR, DiscreteOutputs
from credex.posteriors.kernel import (
    JITTER,
    MIN_LOG_RHO,
    Inputs,
    Kernel,
    by_size,
    size_match,
    tied_variances,
)
from credex.typing import Floats

MAX_LOG_RHO = 1.0
"""Upper bound of log rho, the logarithm of the bending direction's length."""

MAX_PROJECTION = 12.0
"""Bound of the projection's range over all masks: beyond it, bending only encodes parity."""

WEIGHT_SD = 3.0
"""Prior standard deviation of the logarithms of the four variances (weakly informative)."""

BOUND = 8.0
"""Half-width of the box around the prior's centre that is searched."""


class MarginalLikelihood:
    """Negative log posterior of the hyper-parameters given observations.

    Parameters
    ----------
    inputs : n distinct points.
    Y : (n, k) outputs without their constant (half differences have none), any scale.
    centre : the prior's centre; also says whether the kernel is odd, and its ``ease``.
    scale_sd : prior standard deviation of each log lambda_j.
    """

    def __init__(self, inputs: Inputs, Y: Floats, centre: Kernel, scale_sd: float) -> None:
        rms = np.sqrt((Y**2).mean(0))
        self.Y = Y[:, rms > 0] / rms[rms > 0]
        self.x, z, self.odd, self.shares = inputs.x, inputs.z, centre.odd, centre.shares
        self.z, self.ease, self.tie = z, centre.ease, centre.tie
        self.constant = size_match(z, z) if self.odd else np.ones((1, 1))
        self.distances: Floats | None = None  # (p, n²), where coordinates are not signs
        if inputs.coordinates is not None:
            self.distances = np.abs(self.x.T[:, :, None] - self.x.T[:, None, :])
            self.distances = self.distances.reshape(self.x.shape[1], -1)
        simple = np.hstack([z, by_size(z) if self.odd else np.ones((len(z), 1))])
        self.discrete = DiscreteOutputs.of(self.Y, simple, odd=self.odd)
        p = self.x.shape[1]
        self.mean = centre.theta
        self.mean[p] = 0.0
        spread = scale_sd * SCALE_SD_FACTOR**self.discrete.degree
        self.sd = np.concatenate([np.full(p, spread), [1.0], np.full(4, WEIGHT_SD)])

    def loss(self, theta: Floats, direction: Floats | None) -> tuple[float, Floats]:
        """Value and gradient at ``theta (p + 5,)``."""
        from scipy.linalg import lapack

        Y, (n, p), k = self.Y, self.x.shape, self.Y.shape[1]
        lam, w = np.exp(theta[:p]), np.exp(theta[p + 1 :])
        far = np.zeros((1, 1))
        if self.distances is not None:
            near = w[0] * np.exp(-(lam @ self.distances).reshape(n, n))
        else:  # of signs, sum_j lam_j |s_j - t_j| is lam.sum() - u
            h = np.zeros(p) if direction is None else np.exp(theta[p]) * direction
            u, total, projection = (self.x * lam) @ self.x.T, lam.sum(), self.x @ h
            minus, plus = projection[:, None] - projection, projection[:, None] + projection
            near = w[0] * np.exp(u - total - 0.5 * minus * minus)
            if self.odd:
                near *= 0.5
                far = (0.5 * w[0]) * np.exp(-u - total - 0.5 * plus * plus)
        eased = self.z * (tied_variances(self.ease, self.tie, theta[:p]) / self.z.shape[1])
        linear = eased @ self.z.T
        K = near - far + w[1] * linear + w[2] * self.constant
        diagonal = np.diag_indices(n)
        K[diagonal] += w[3] + self.discrete.white * (self.shares @ w[:3])
        K[diagonal] += JITTER * K[diagonal].mean()
        C, failed = lapack.dpotrf(K, lower=1)
        if failed:
            return 1e12, np.zeros_like(theta)
        logdet = np.log(C[diagonal]).sum()
        inverse, _ = lapack.dpotri(C, lower=1, overwrite_c=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        alpha = inverse @ Y
        q = (Y * alpha).sum(0)
        r = (theta - self.mean) / self.sd
        value = 0.5 * (r @ r) + k * logdet + 0.5 * n * np.log(q).sum()
        G = 0.5 * k * inverse - (alpha * (0.5 * n / q)) @ alpha.T  # derivative by K
        near, far = near * G, far * G
        total, trace = near.sum() - far.sum(), np.trace(G)
        grad = r / self.sd
        if self.distances is not None:
            grad[:p] -= lam * (self.distances @ near.ravel())
        else:
            grad[:p] += lam * (np.einsum("nj,nj->j", self.x, (near + far) @ self.x) - total)
            grad[p] += 2 * projection @ (far * plus - near * minus).sum(1)
        if self.tie:
            grad[:p] += (self.tie * w[1]) * np.einsum("nj,nj->j", eased, G @ self.z)
        parts = (total, w[1] * (G * linear).sum(), w[2] * (G * self.constant).sum())
        grad[p + 1 :] += (*parts, w[3] * trace)
        grad[p + 1 : -1] += self.discrete.white * trace * self.shares * w[:3]
        return float(value), grad

    def fit(self, start: Kernel, *, max_iter: int = 60) -> Kernel:
        """Maximise from ``start``, keeping its direction."""
        from scipy.optimize import minimize

        if self.Y.shape[1] == 0:
            return start
        p = self.x.shape[1]
        low, high = self.mean - BOUND, self.mean + BOUND
        low[p], high[p] = MIN_LOG_RHO, MAX_LOG_RHO - LOG_RHO_CUT * self.discrete.degree
        if start.direction is not None:
            longest = np.log(0.5 * MAX_PROJECTION / np.abs(start.direction).sum())
            high[p] = min(high[p], longest)
        weights = self.discrete.without_white(start.log_weights, self.shares)
        found = minimize(
            self.loss,
            np.clip(np.append(start.theta[: p + 1], weights), low, high),
            args=(start.direction,),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={"maxiter": max_iter, "ftol": 1e-6},
        )
        weights = self.discrete.add_white(found.x[p + 1 :], self.shares)
        scales, rho = found.x[:p], float(found.x[p])
        return replace(start, log_scales=scales, log_rho=rho, log_weights=weights, tie=self.tie)
