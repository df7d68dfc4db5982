"""Cross-validation of a Gaussian process: rows left out one by one, or with their neighbours.

Leave-one-out residuals are too small where some features do not matter: rows that differ in those
only are copies of one another, and a copy predicts the row left out. So blocks are left out too: a
row together with the fifth of all rows that is nearest to it in the kernel's distance.
"""

from __future__ import annotations

import numpy as np

from credex.typing import Floats

__all__ = ["block_scale", "effective_rows", "leave_one_out"]

BLOCK_SHARE = 5
"""A block is one in so many rows (chosen by coverage on the benchmark games)."""

MAX_BLOCK_ROWS, MAX_BLOCKS = 50, 200
"""Bounds of the time it takes; blocks are around rows evenly spread."""


def leave_one_out(inverse: Floats, whitened: Floats) -> tuple[Floats, Floats]:
    """Leave-one-out residuals (n, k) and their variances (n,) at sigma² = 1.

    ``inverse`` is L^-1 of the rows' covariance L L', ``whitened`` is L^-1 Y.
    """
    v = 1 / (inverse**2).sum(0)
    return np.asarray((inverse.T @ whitened) * v[:, None]), np.asarray(v)


def effective_rows(r: Floats, v: Floats) -> Floats:
    """Effective sample size (k,) of a scale from residuals ``r (n, k)`` of variances ``v (n,)``.

    3n over the kurtosis, at most n: the variance of a mean of squares grows with it. It is n for
    normal residuals, and small for a function that is nearly constant except in a few rows.
    """
    z2 = r**2 / v[:, None]
    z2 /= np.maximum(z2.max(0), np.finfo(float).tiny)  # fourth powers of large outputs overflow
    fourth = np.maximum((z2**2).sum(0), np.finfo(float).tiny)
    return np.asarray(np.clip(3 * z2.sum(0) ** 2 / fourth, 1.0, len(r)))


def block_scale(inverse: Floats, whitened: Floats, distance: Floats, first: int) -> Floats:
    """sigma² (k,) from rows predicted without their neighbours; 0 if there are too few rows.

    Parameters
    ----------
    inverse, whitened
        As in `leave_one_out`.
    distance
        ``(n, n)`` squared distances between rows.
    first
        Rows before this one are in every run and are never left out.
    """
    n = len(inverse)
    size = min((n - first) // BLOCK_SHARE, MAX_BLOCK_ROWS)
    if size < 2:
        return np.zeros(whitened.shape[1])
    centres = np.linspace(first, n - 1, min(n - first, MAX_BLOCKS)).round().astype(np.int64)
    centres = np.unique(centres)
    away = distance[centres]
    away[:, :first] = np.inf
    away[np.arange(len(centres)), centres] = -np.inf
    near = np.argsort(away, axis=1, kind="stable")[:, :size]  # the row itself comes first
    precision = inverse.T @ inverse
    alpha = inverse.T @ whitened
    block = precision[near[:, :, None], near[:, None, :]]
    unit = np.zeros((len(centres), size, 1))
    unit[:, 0] = 1.0
    column = np.linalg.solve(block, unit)[:, :, 0]  # of the block's covariance given the others
    residual = np.einsum("bm,bmk->bk", column, alpha[near])
    return np.asarray((residual**2 / np.maximum(column[:, :1], 1e-300)).mean(0))
