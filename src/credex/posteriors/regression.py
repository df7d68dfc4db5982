"""Weighted least squares with a Gaussian prior: sufficient statistics and the inverse matrix V."""

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

MAX_EXPONENT = 500
"""Outputs above 2^500 ≈ 3e150 have variances that exceed the largest float."""


def output_scale(*outputs: Floats) -> Floats:
    """Return powers of two ≥ 1, ``(k,)``, that exceed all ``outputs``, each ``(n, k)`` or ``(k,)``.

    Outputs are divided by them before they are squared: 1e200 squared is beyond the largest float.
    Division by a power of two loses no digits.
    """
    largest = np.max([np.abs(y).reshape(-1, y.shape[-1]).max(axis=0) for y in outputs], axis=0)
    return np.asarray(np.ldexp(1.0, np.clip(np.frexp(largest)[1], 0, 1023)))


def squared(scale: Floats) -> Floats:
    """Return ``scale²``, ``(k,)``, the unit of variances of outputs of this scale."""
    if np.any(scale > 2.0**MAX_EXPONENT):
        msg = f"outputs of size {scale.max():.0e} have no variance below the largest float, 1e308; "
        msg += "divide the model's outputs by a constant"
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
        # Distances from one of the rows: exactly zero in a constant column.
        reference = int(w.argmax())
        z0, y0 = z[reference].astype(np.float64), y[reference] / scale
        z, y = z - z0, y / scale - y0
        z_shift, y_shift = share @ z, share @ y
        root = np.sqrt(w)[:, None]
        z = (z - z_shift) * root
        y = (y - y_shift) * root
        yy = np.einsum("ij,ij->j", y, y)
        return cls(len(y), weight, z0 + z_shift, y0 + y_shift, z.T @ z, z.T @ y, yy, scale)

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
    """Iterate over √w(z − z_mean) ``(n, d)``, √w(y/scale − y_mean) ``(n, k)`` and w in chunks."""
    for z, y, w in rows.chunks():
        root = np.sqrt(w)[:, None]
        scaled = y / moments.output_scale
        yield (z - moments.z_mean) * root, (scaled - moments.y_mean) * root, w


def inverse(a: Floats, *, constrained: bool = False) -> Floats:
    """Inverse V ``(d, d)`` of a symmetric positive definite matrix, a = ZᵀWZ + Λ in Eq. 6.

    With ``constrained`` V is the inverse on the plane Σφ = const, V1 = 0: adding a multiple of 11ᵀ
    to ``a`` changes nothing there, and makes it well conditioned.
    """
    if not constrained:
        return inverse_spd(a)
    whole = inverse_spd(a + a.trace() / len(a) ** 2)
    ones = whole.sum(axis=1)
    return np.asarray(whole - np.outer(ones, ones / ones.sum()))


def inverse_spd(a: Floats) -> Floats:
    """Inverse of a symmetric positive definite matrix by Cholesky.

    A matrix that is singular to working precision is scaled to a unit diagonal and gets a jitter of
    1e-10 there (a hundred times more while that is not enough), never a pseudo-inverse.
    """
    root = np.sqrt(np.maximum(a.diagonal(), 0.0))
    root[root == 0] = 1.0
    both = np.outer(root, root)
    scaled, total = a / both, 0.0
    for jitter in (0.0, 1e-10, 1e-8, 1e-6):
        total += jitter
        try:
            factor = np.linalg.cholesky(scaled + total * np.eye(len(a)))
        except np.linalg.LinAlgError:
            continue
        if total > 0 or np.all(np.square(factor.diagonal()) >= MIN_PIVOT * scaled.diagonal()):
            half = np.linalg.inv(factor)
            return np.asarray((half.T @ half) / both)
    msg = "the perturbations do not determine the explanation; ask for more queries"
    raise InputError(msg)
