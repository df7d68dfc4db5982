"""Ranges of ranks: how certain the order of the importances is."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from credex.posteriors import Belief
from credex.posteriors.regression import TINY
from credex.posteriors.student import root
from credex.typing import Floats, Ints

DRAWS = 1_000
"""Draws from a posterior: the tails of a 95 % range are right to 0.005 (one standard error)."""

SHORT_ROW = 16
"""Rows of up to so many numbers are sorted fastest by numpy's stable sort."""


def rank_range(belief: Belief, output: int, level: float) -> tuple[Ints, Ints]:
    """Lowest and highest rank (1 is the largest |φ|) of each feature at ``level``.

    Posteriors share their random numbers, and degrees of freedom count to two digits, so that a
    batch costs little more than sorting.
    """
    mean, d = belief.mean[:, output], len(belief.mean)
    scale = belief.scale[:, :, output]
    if not (np.isfinite(mean).all() and np.isfinite(scale).all()):  # any order is possible
        return np.ones(d, dtype=np.int64), np.full(d, d)
    # φ times a common positive factor, which leaves the order as it is
    x = _normals(d) @ root(scale).T
    x += mean * _tails(float(f"{belief.dof:.2g}"))
    # Equal sizes keep the order of the features. The default sort is faster on long rows but not
    # stable, hence the small discount.
    np.abs(x, out=x)
    x += TINY
    x *= 1e-13 * np.arange(d) - 1
    order = np.argsort(x, axis=1, kind="stable" if d <= SHORT_ROW else None)
    order *= d
    order += np.arange(d)
    counts = np.bincount(order.ravel(), minlength=d * d).reshape(d, d)
    p = np.cumsum(counts, axis=1) / DRAWS
    tail = (1 - level) / 2
    return np.argmax(p > tail, axis=1) + 1, np.argmax(p >= 1 - tail - 1e-12, axis=1) + 1


@lru_cache(maxsize=4)
def _normals(d: int) -> Floats:
    """``(DRAWS, d)`` standard normal numbers, the same ones each time."""
    return np.random.default_rng(0).standard_normal((DRAWS, d))


@lru_cache(maxsize=64)
def _tails(dof: float) -> Floats:
    """``(DRAWS, 1)`` roots of χ²/dof, by which normal numbers are divided for a Student-t."""
    return np.sqrt(np.random.default_rng(1).chisquare(dof, (DRAWS, 1)) / dof)
