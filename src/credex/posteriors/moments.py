"""Sufficient statistics of a weighted regression, additive and safe from cancellation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.typing import Floats


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
    def of(cls, z: Floats, y: Floats, w: Floats) -> Moments:
        """Moments of one batch: ``z (n, d)``, ``y (n, k)``, ``w (n,)``."""
        total = float(w.sum())
        safe = total if total > 0 else 1.0
        z_mean, y_mean = w @ z / safe, w @ y / safe
        zc, yc = z - z_mean, y - y_mean
        wz = zc * w[:, None]
        return cls(
            len(z), total, z_mean, y_mean, wz.T @ zc, wz.T @ yc, np.einsum("n,nk,nk->k", w, yc, yc)
        )

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
