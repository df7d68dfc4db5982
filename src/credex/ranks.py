"""Ranges of ranks: how certain the order of the importances is."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from credex.posteriors import Belief
from credex.posteriors.belief import root
from credex.typing import Floats, Ints

DRAWS = 2_000
"""Draws from a posterior: the tails of a range are right to 0.004 (one standard error)."""


def rank_range(belief: Belief, output: int, level: float) -> tuple[Ints, Ints]:
    """Lowest and highest rank (1 is the largest |φ|) of each feature at ``level``.

    All posteriors share their random numbers, so that a batch costs little more than sorting.
    """
    mean, d = belief.mean[:, output], len(belief.mean)
    scale = belief.scale[:, :, output]
    if not (np.isfinite(mean).all() and np.isfinite(scale).all()):  # any order is possible
        return np.ones(d, dtype=np.int64), np.full(d, d)
    # φ times a common positive factor, which leaves the order as it is
    x = mean[:, None] * _tails(belief.dof) + root(scale) @ _normals(d)
    order = np.argsort(-np.abs(x).T, axis=1, kind="stable")
    counts = np.bincount((order * d + np.arange(d)).ravel(), minlength=d * d).reshape(d, d)
    p = np.cumsum(counts, axis=1) / DRAWS
    tail = (1 - level) / 2
    return np.argmax(p > tail, axis=1) + 1, np.argmax(p >= 1 - tail - 1e-12, axis=1) + 1


def _normals(d: int) -> Floats:
    """``(d, DRAWS)`` standard normal numbers, the same ones each time."""
    return _stored_normals(1 << max(d - 1, 0).bit_length())[:d]


@lru_cache(maxsize=2)
def _stored_normals(d: int) -> Floats:
    return np.random.default_rng(0).standard_normal((d, DRAWS))


@lru_cache(maxsize=64)
def _tails(dof: float) -> Floats:
    """``(DRAWS,)`` roots of χ²/dof, by which normal numbers are divided for a Student-t."""
    return np.sqrt(np.random.default_rng(1).chisquare(dof, DRAWS) / dof)
