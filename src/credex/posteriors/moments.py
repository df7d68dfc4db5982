"""Sufficient statistics of a weighted regression, additive and safe from cancellation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.typing import Design, Floats


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Weighted means and centred cross products of ``Z (n, d)`` and ``y (n, k)``.

    Two halves are merged by the pairwise formula of Chan, Golub and LeVeque, so a constant of
    1e6 in ``y`` costs no digits.
    """

    n: int
    weight: float
    z_mean: Floats
    y_mean: Floats
    zz: Floats
    zy: Floats
    yy: Floats

    @classmethod
    def of(cls, z: Design, y: Floats, w: Floats) -> Moments:
        """Moments of one batch: ``z (n, d)`` (booleans or floats), ``y (n, k)``, ``w (n,)``."""
        total = float(w.sum())
        safe = total if total > 0 else 1.0
        y_mean = w @ y / safe
        yc = y - y_mean
        yy = np.einsum("n,nk,nk->k", w, yc, yc)
        if z.dtype == np.bool_:  # ±½ is centred well enough: one pass less
            root = np.sqrt(w)[:, None]
            half = (z - 0.5) * root
            mean = (root[:, 0] @ half) / safe
            zz = half.T @ half - total * np.outer(mean, mean)  # BLAS does one half of it
            zy = half.T @ (yc * root)
            return cls(len(z), total, mean + 0.5, y_mean, zz, zy, yy)
        z_mean = w @ z / safe
        zc = z - z_mean
        wz = zc * w[:, None]
        return cls(len(z), total, z_mean, y_mean, wz.T @ zc, wz.T @ yc, yy)

    def __add__(self, other: Moments) -> Moments:
        total = self.weight + other.weight
        if total <= 0:
            return Moments(
                self.n + other.n, 0.0, self.z_mean, self.y_mean, self.zz, self.zy, self.yy
            )
        share = other.weight / total
        dz, dy = other.z_mean - self.z_mean, other.y_mean - self.y_mean
        between = self.weight * share
        return Moments(
            self.n + other.n,
            total,
            self.z_mean + share * dz,
            self.y_mean + share * dy,
            self.zz + other.zz + between * np.outer(dz, dz),
            self.zy + other.zy + between * np.outer(dz, dy),
            self.yy + other.yy + between * dy * dy,
        )

    def raw(self) -> tuple[Floats, Floats, Floats]:
        """Uncentred ``ZᵀWZ``, ``ZᵀWy`` and ``yᵀWy``."""
        s = self.weight
        return (
            self.zz + s * np.outer(self.z_mean, self.z_mean),
            self.zy + s * np.outer(self.z_mean, self.y_mean),
            self.yy + s * self.y_mean**2,
        )
