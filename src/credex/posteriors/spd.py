"""Inverses of symmetric positive definite matrices."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from credex.errors import InputError
from credex.typing import Floats

SINGULAR = 1e-7
"""A pivot below this, on a unit diagonal, means that the matrix has lost its digits."""


@cache
def _lapack() -> tuple[Any, Any]:
    """Imported when first needed: SciPy is slow to import."""
    from scipy.linalg.lapack import dpotrf, dpotri

    return dpotrf, dpotri


def inverse_spd(a: Floats, *, sure: bool = False) -> Floats:
    """Inverse of a symmetric positive definite matrix by Cholesky.

    A matrix that is singular to working precision is scaled to a unit diagonal and gets a jitter of
    1e-10 there (and a hundred times more as long as that is not enough), never a pseudo-inverse.
    LAPACK is called directly: SciPy's wrappers cost more than the work for a dozen features.
    ``sure``: it is known not to be singular.
    """
    dpotrf, dpotri = _lapack()
    d = len(a)
    if d == 0:
        return np.empty((0, 0))
    # Cholesky is blind to the scale of rows and columns; what must be scaled is the test
    factor, failed = dpotrf(a.T, 1)  # LAPACK counts columns first: spares a copy
    if not failed and (sure or not _lost(factor, a)):
        half, failed = dpotri(factor, 1, 1)
        if not failed:
            return _mirrored(half)
    root = np.sqrt(np.maximum(a.diagonal(), 0.0))
    root[root == 0] = 1.0
    both = np.multiply.outer(root, root)
    scaled = a / both
    for jitter in (1e-10, 1e-8, 1e-6):
        scaled = scaled + jitter * np.eye(d)
        factor, failed = dpotrf(scaled.T, 1)
        if failed:
            continue
        half, failed = dpotri(factor, 1, 1)
        if not failed:
            return _mirrored(half) / both
    msg = "the perturbations do not determine the explanation; ask for more queries"
    raise InputError(msg)


def _lost(factor: Floats, a: Floats) -> bool:
    """Whether a pivot is next to nothing beside the diagonal."""
    few = np.square(factor.diagonal()) < SINGULAR**2 * a.diagonal()
    return bool(np.count_nonzero(few))


def _mirrored(half: Floats) -> Floats:
    """Both triangles of a symmetric matrix of which the upper one is zero."""
    out = half + half.T
    out.ravel("K")[:: len(half) + 1] *= 0.5  # a view, whichever way the sum is laid out
    return np.asarray(out)
