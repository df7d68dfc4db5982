"""Model-assisted estimates: a surrogate's Shapley values plus a sampled correction.

A survey's difference estimator. The surrogate (a ridge regression on kernel features) has closed
form Shapley values over all background rows. Units that were left out of its fit say what it gets
wrong: their residuals are unbiased for the error of the surrogate under the random design, whatever
the surrogate misses, and their spread gives the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from credex.posteriors.anova import AnovaKernel, InputSpace
from credex.typing import Floats, Ints

__all__ = ["Correction", "Surrogate", "combine", "effective_units"]

JITTER = 1e-10
"""Relative addition to the diagonal of a kernel matrix, against rounding."""

CHUNK_ROWS = 4_096
"""Rows whose kernel features are made at a time."""


class Surrogate:
    """Ridge regression of standardised outputs ``y (n, k)`` on kernel features of the rows.

    With ``basis=None`` the basis is the rows themselves: a Gaussian process. Otherwise it is other
    rows (Nyström features), and what they cannot express of the kernel counts as noise.
    """

    def __init__(
        self,
        kernel: AnovaKernel,
        space: InputSpace,
        rows: Floats,
        y: Floats,
        basis: Floats | None = None,
    ) -> None:
        from scipy.linalg import cholesky, solve_triangular

        self.kernel, self.space = kernel, space
        self.basis = rows if basis is None else basis
        K = kernel.between(space, self.basis, self.basis)
        K[np.diag_indices(len(K))] += JITTER * kernel.at_zero
        self._root = cholesky(K, lower=True)
        noise = kernel.noise
        features = self._root
        if basis is not None:
            pieces = [
                solve_triangular(
                    self._root,
                    kernel.between(space, rows[s : s + CHUNK_ROWS], basis).T,
                    lower=True,
                ).T
                for s in range(0, len(rows), CHUNK_ROWS)
            ]
            features = np.concatenate(pieces)
            explained = np.einsum("ij,ij->i", features, features).mean()
            noise += max(kernel.at_zero - explained, 0.0)
        G = features.T @ features
        G[np.diag_indices(len(G))] += noise
        self._ridge = cholesky(G, lower=True)
        self._scaled = solve_triangular(self._ridge, features.T, lower=True).T  # (n, m)
        theta = solve_triangular(self._ridge.T, self._scaled.T @ y, lower=False)
        self.residual = y - features @ theta
        self.coefficients = solve_triangular(self._root.T, theta, lower=False)  # (m, k)

    def left_out(self, units: Ints) -> Floats:
        """Residuals ``(units, q, k)`` of the ``(units, q)`` rows, each unit left out of the fit."""
        part = self._scaled[units]
        hat = np.einsum("uqm,urm->uqr", part, part)
        q = units.shape[1]
        free = np.eye(q) - hat
        free[:, np.arange(q), np.arange(q)] = np.maximum(np.einsum("uqq->uq", free), 1e-9)
        return np.linalg.solve(free, self.residual[units])

    def shapley(self, x: Floats, background: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Shapley values ``(d, m)`` and base value ``(m,)`` of each coefficient, over all rows."""
        return self.kernel.shapley(self.space, x, background, weights, self.basis)

    def by_row(self, x: Floats, background: Floats) -> Floats:
        """Shapley values ``(n, d, k)`` of the fit on each background row."""
        args = (self.space, x, background, self.basis, self.coefficients)
        return self.kernel.shapley_by_row(*args)

    def sensitivity(self, functional: Floats) -> Floats:
        """Derivatives ``(d, n)`` of ``functional (d, m)`` of the fit in the outputs."""
        from scipy.linalg import solve_triangular

        inner = solve_triangular(self._root, functional.T, lower=True)
        return (self._scaled @ solve_triangular(self._ridge, inner, lower=True)).T


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """What sampled units say of the surrogate's error, for one output.

    ``value (d,)`` is the correction, ``influence (d, u)`` that of each unit on it; ``surrogate
    (d, u)`` is the influence of leaving the unit out on the surrogate's own Shapley values.
    """

    value: Floats
    influence: Floats
    surrogate: Floats


def combine(
    phi: Floats, corrections: Sequence[Correction], spread: Floats
) -> tuple[Floats, Floats, float]:
    """Shrink the corrections of ``phi (d, k)`` to their best size.

    φ + c is unbiased, φ alone has less variance. Over the features, the mean square of c beyond
    its sampling variance measures the surrogate's bias b²; φ + λc with λ from b² and the variances
    has the least mean square error. One standard error is added to b², which few features cannot
    measure well, and what is left of the bias, (1 − λ)²b², is part of the covariance. All outputs
    (of standard deviations ``spread``) share one λ, so that importances of probabilities add up.

    Returns means ``(d, k)``, covariances ``(d, d, k)`` and the least effective number of units.
    """
    d = len(phi)
    measured = [_bias(c) for c in corrections]
    bias, variance, shared = (
        sum(m[i] / s**2 for m, s in zip(measured, spread, strict=True)) for i in range(3)
    )
    total = bias + variance
    share = float(np.clip((bias - shared) / total, 0.0, 1.0)) if total > 0 else 1.0
    mean, covariance, units = phi.copy(), np.empty((d, d, len(spread))), np.inf
    for j, c in enumerate(corrections):
        influence = (1 - share) * c.surrogate + share * c.influence
        left = (1 - share) ** 2 * measured[j][0] * (np.eye(d) - 1.0 / d) * d / max(d - 1, 1)
        mean[:, j] += share * c.value
        covariance[:, :, j] = influence @ influence.T + left
        units = min(units, effective_units(influence))
    return mean, covariance, units


def _bias(c: Correction) -> tuple[float, float, float]:
    """Mean squared bias of the surrogate, variance of c, and its covariance with φ."""
    d = len(c.value)
    difference = c.influence - c.surrogate
    variance = float((difference**2).sum(axis=1).mean())
    bias = max(float((c.value**2).mean()) - variance, 0.0)
    bias += float(np.sqrt(2.0 / d)) * (variance + bias)
    return bias, variance, float((c.surrogate * difference).sum(axis=1).mean())


def effective_units(influence: Floats) -> float:
    """Degrees of freedom of a variance that is a sum over units (Satterthwaite).

    Few units with most of the influence, as rare large outputs have, count as few.
    """
    square = (influence**2).sum(axis=0)
    total, m = float(square.sum()), len(square)
    if total <= 0 or m < 3:
        return float(max(m - 1, 1))
    spread = float(((square / total) ** 2).sum()) - 1.0 / m
    return float(np.clip(2.0 / max(spread, 1e-12), 1.0, m - 1))
