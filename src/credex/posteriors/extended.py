"""A conditioned Gaussian process after further masks, without fitting it again."""

from __future__ import annotations

import numpy as np

from credex.history import joined, spans
from credex.posteriors.kernel import JITTER, Inputs, safe_cholesky, solve_lower
from credex.posteriors.process import Conditioned
from credex.typing import Floats, Masks

__all__ = ["Extended"]


class Extended:
    """The process ``state`` after it has also seen ``residual (m, k)`` at ``masks (m, d)``.

    Residuals are outputs less what ``state`` predicts. The kernel stays, so that what the process
    leaves at masks seen by neither is an honest sample of its errors.
    """

    def __init__(self, state: Conditioned, masks: Masks, residual: Floats) -> None:
        self.state, self.at = state, state.functional.inputs(masks)
        self.known = self._whitened(self.at)  # (n, m)
        K = self._gram(self.at, self.at) - self.known.T @ self.known
        K[np.diag_indices(len(K))] += state.kernel.weights[3]
        self.L = safe_cholesky(K)
        cross = state.functional.cross(state.kernel, self.at) - state.B.T @ self.known
        B, W = solve_lower(self.L, cross.T), solve_lower(self.L, residual)
        self.change: Floats = B.T @ W  # (q, k) of E[phi]
        self.covariance: Floats = state.covariance - B.T @ B  # (q, q) at sigma² = 1
        self._alpha = solve_lower(self.L, W, transposed=True)
        self._back = solve_lower(state.L, self.known @ self._alpha, transposed=True)

    def predict(self, masks: Masks) -> Floats:
        """Predict the residuals of ``state`` at ``masks (m, d)``, (m, k)."""
        at, seen = self.state.functional.inputs(masks), self.state.data.inputs
        return self._gram_times(at, self.at, self._alpha) - self._gram_times(at, seen, self._back)

    def predictive_variance(self, masks: Masks) -> Floats:
        """Variance of an output at ``masks (m, d)`` at sigma² = 1, (m,)."""
        at = self.state.functional.inputs(masks)
        known = self._whitened(at)
        more = solve_lower(self.L, self._gram(self.at, at) - self.known.T @ known)
        explained = np.square(known).sum(axis=0) + np.square(more).sum(axis=0)
        prior = self.state.kernel.diagonal(at)
        return np.asarray(np.maximum(prior - explained, JITTER * prior))

    def _whitened(self, at: Inputs) -> Floats:
        return solve_lower(self.state.L, self._gram(self.state.data.inputs, at))

    def _gram(self, a: Inputs, b: Inputs) -> Floats:
        """k(a, b) in chunks, which is several times faster."""
        return joined([self.state.kernel.gram(a[rows], b) for rows in spans(len(a), len(b))])

    def _gram_times(self, a: Inputs, b: Inputs, x: Floats) -> Floats:
        return joined([self.state.kernel.gram(a[rows], b) @ x for rows in spans(len(a), len(b))])
