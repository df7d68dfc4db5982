"""Weighted least squares: sufficient statistics of the rows, and inverses of ZᵀWZ + Λ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from credex.errors import InputError
from credex.posteriors.rows import Rows
from credex.typing import Design, Floats, Weights

MIN_PIVOT = 1e-14
"""A smaller Cholesky pivot, relative to the diagonal, means that the matrix is singular."""

CONSTANT = 1e-12
"""A column that differs by less than this, relative to its values, is constant."""

MAX_EXPONENT = 500
"""Outputs above 2^500 ≈ 3e150 have variances that exceed the largest float."""


def output_scale(*outputs: Floats) -> Floats:
    """Return powers of two ≥ 1, ``(k,)``, that exceed all ``outputs``, each ``(n, k)`` or ``(k,)``.

    Outputs are divided by them before they are squared: 1e200 squared is beyond the largest float.
    Division by a power of two loses no digits.
    """
    sizes = [np.abs(y) if y.ndim == 1 else np.abs(y).max(axis=0) for y in outputs]
    largest = np.maximum.reduce(sizes)
    exponent = np.minimum(np.maximum(np.frexp(largest)[1], 0), 1023)
    return np.asarray(np.ldexp(1.0, exponent))


def squared(scale: Floats) -> Floats:
    """Return ``scale²``, ``(k,)``, the unit of variances of outputs of this scale."""
    if (scale > 2.0**MAX_EXPONENT).any():
        msg = f"outputs of about {scale.max():.0e} are too large: their variances exceed the "
        msg += "largest float, 1e308. Divide the model's outputs by a constant"
        raise InputError(msg)
    return np.square(scale)


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Weighted means and centred cross products of ``Z (n, d)`` and ``y (n, k)``.

    Two parts are merged by the formula of Chan, Golub and LeVeque, so that a constant of 1e6 in
    ``y`` costs no digits. ``y_mean``, ``zy`` and ``yy`` are those of ``y / output_scale``.

    Attributes
    ----------
    n, weight
        Number of rows, and the sum of their weights.
    z_mean, y_mean
        ``(d,)`` and ``(k,)`` weighted means.
    zz, zy, yy
        ``(d, d)``, ``(d, k)`` and ``(k,)`` weighted cross products around the means.
    output_scale
        ``(k,)``, see `output_scale`.
    """

    n: int
    weight: float
    z_mean: Floats
    y_mean: Floats
    zz: Floats
    zy: Floats
    yy: Floats
    output_scale: Floats

    @classmethod
    def of(cls, rows: Rows) -> Moments:
        """Moments of all rows, a chunk at a time."""
        return reduce(add, (cls._of_chunk(z, y, w) for z, y, w in rows.chunks()))

    @classmethod
    def _of_chunk(cls, z: Design, y: Floats, w: Weights) -> Moments:
        scale, weight = output_scale(y), float(w.sum())
        share = w / weight if weight > 0 else w
        z_mean, y_mean = share @ z, share @ y / scale
        heaviest = z[int(w.argmax())].astype(np.float64)
        constant = np.abs(z_mean - heaviest) <= CONSTANT * np.abs(heaviest)
        z_mean[constant] = heaviest[constant]  # centred, nothing must be left of these columns
        root = np.sqrt(w)[:, None]
        z = (z - z_mean) * root
        y = (y / scale - y_mean) * root
        yy = np.einsum("ij,ij->j", y, y)
        return cls(len(y), weight, z_mean, y_mean, z.T @ z, z.T @ y, yy, scale)

    def __add__(self, other: Moments) -> Moments:
        scale = np.maximum(self.output_scale, other.output_scale)
        a, b = self._rescaled(scale), other._rescaled(scale)
        weight = a.weight + b.weight
        if weight <= 0:
            return replace(a, n=a.n + b.n)
        share = b.weight / weight
        dz, dy = b.z_mean - a.z_mean, b.y_mean - a.y_mean
        between = a.weight * share
        return Moments(
            a.n + b.n,
            weight,
            a.z_mean + share * dz,
            a.y_mean + share * dy,
            a.zz + b.zz + between * np.outer(dz, dz),
            a.zy + b.zy + between * np.outer(dz, dy),
            a.yy + b.yy + between * dy * dy,
            scale,
        )

    def _rescaled(self, scale: Floats) -> Moments:
        if np.array_equal(scale, self.output_scale):
            return self
        r = self.output_scale / scale
        return replace(
            self, y_mean=self.y_mean * r, zy=self.zy * r, yy=self.yy * r * r, output_scale=scale
        )

    def uncentred(self) -> Moments:
        """The same around zero instead of the means."""
        z, y, weight = self.z_mean, self.y_mean, self.weight
        return replace(
            self,
            z_mean=np.zeros_like(z),
            y_mean=np.zeros_like(y),
            zz=self.zz + weight * np.outer(z, z),
            zy=self.zy + weight * np.outer(z, y),
            yy=self.yy + weight * y * y,
        )


def centred(rows: Rows, moments: Moments) -> Iterator[tuple[Floats, Floats, Weights]]:
    """Iterate over z − z_mean ``(n, d)``, y/scale − y_mean ``(n, k)`` and w ``(n,)`` in chunks."""
    for z, y, w in rows.chunks():
        yield z - moments.z_mean, y / moments.output_scale - moments.y_mean, w


def inverse(a: Floats) -> Floats:
    """Inverse ``(d, d)`` of a symmetric positive definite matrix by Cholesky.

    A matrix that is singular to working precision is scaled to a unit diagonal and gets a jitter of
    1e-10 there (a hundred times more while that is not enough), never a pseudo-inverse.
    """
    half = _inverse_root(a)
    if half is not None and (np.square(half.diagonal()) * a.diagonal() <= 1 / MIN_PIVOT).all():
        return np.asarray(half.T @ half)
    root = np.sqrt(np.maximum(a.diagonal(), 0.0))
    root[root == 0] = 1.0
    both = np.outer(root, root)
    for jitter in (1e-10, 1e-8, 1e-6):
        half = _inverse_root(a / both + jitter * np.eye(len(a)))
        if half is not None:
            return np.asarray(half.T @ half / both)
    msg = "the perturbations do not determine the explanation; ask for more queries"
    raise InputError(msg)


def constrained_inverse(a: Floats) -> Floats:
    """Inverse on the plane Σφ = const, V1 = 0: the V of a regression with that constraint.

    Adding a multiple of 11ᵀ to ``a`` changes nothing on the plane, and conditions ``a`` well.
    """
    whole = inverse(a + a.trace() / len(a) ** 2)
    ones = whole.sum(axis=1)
    return np.asarray(whole - np.outer(ones, ones / ones.sum()))


def _inverse_root(a: Floats) -> Floats | None:
    """Inverse of the lower Cholesky factor; ``None`` if ``a`` is not positive definite."""
    try:
        return np.linalg.inv(np.linalg.cholesky(a))
    except np.linalg.LinAlgError:
        return None
