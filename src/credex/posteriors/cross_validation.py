r"""What a Gaussian process gets wrong where it was not asked, read off the rows that it was.

Leave-one-out residuals flatter a process that has found out which players do not matter: rows that
differ in those only are copies of one another, and a copy predicts the row left out. Rows nothing
like them may still be unasked. So a block is left out too: a row together with those nearest to it
in the kernel's own distance, a fifth of all.
"""

from __future__ import annotations

import numpy as np

from credex.typing import Floats

__all__ = ["block_scale", "left_out", "resting"]

BLOCK = 5
"""A block is this part of the rows."""

LARGEST = 50
"""Rows of a block at most."""

MOST = 200
"""Blocks at most, around rows evenly spread."""


def left_out(inverse: Floats, whitened: Floats) -> tuple[Floats, Floats]:
    """Leave-one-out residuals (n, k) and their variances (n,) at sigma² = 1.

    ``inverse`` is L^-1 of the rows' covariance, ``whitened`` L^-1 Y.
    """
    v = 1 / (inverse**2).sum(0)
    return np.asarray((inverse.T @ whitened) * v[:, None]), np.asarray(v)


def resting(r: Floats, v: Floats) -> Floats:
    """How many rows a scale read off residuals ``r (n, k)`` of variances ``v (n,)`` rests on, (k,).

    n if they are normal, fewer if a few large ones decide: by the kurtosis, n·3/κ, as the variance
    of a mean of squares grows with it. Of a function that is nearly constant but for a few rows,
    these are all that tells about the rest.
    """
    z2 = r**2 / v[:, None]
    fourth = np.maximum((z2**2).sum(0), np.finfo(float).tiny)
    return np.asarray(np.clip(3 * z2.sum(0) ** 2 / fourth, 1.0, len(r)))


def block_scale(inverse: Floats, whitened: Floats, distance: Floats, first: int) -> Floats:
    """sigma² (k,) from rows predicted without their neighbours.

    Parameters
    ----------
    inverse, whitened
        As in `left_out`.
    distance
        ``(n, n)`` between rows.
    first
        Rows before this one are known in every run: they are never left out.
    """
    n = len(inverse)
    size = min((n - first) // BLOCK, LARGEST)
    if size < 2:
        return np.zeros(whitened.shape[1])
    at = np.unique(np.linspace(first, n - 1, min(n - first, MOST)).round().astype(np.int64))
    away = distance[at]
    away[:, :first] = np.inf
    away[np.arange(len(at)), at] = -np.inf
    near = np.argsort(away, axis=1, kind="stable")[:, :size]  # the row itself comes first
    precision = inverse.T @ inverse
    alpha = inverse.T @ whitened
    block = precision[near[:, :, None], near[:, None, :]]
    one = np.zeros((len(at), size, 1))
    one[:, 0] = 1.0
    column = np.linalg.solve(block, one)[:, :, 0]  # of the block's covariance given the others
    residual = np.einsum("bm,bmk->bk", column, alpha[near])
    return np.asarray((residual**2 / np.maximum(column[:, :1], 1e-300)).mean(0))
