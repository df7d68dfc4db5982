"""Sufficient statistics of a weighted regression, additive and safe from cancellation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.posteriors.rows import spans
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
        n, d = z.shape
        total = float(w.sum())
        safe = total if total > 0 else 1.0
        y_mean = w @ y / safe
        root = np.sqrt(w)[:, None]
        right = np.empty((n, 1 + y.shape[1]))  # of the products: roots, and y under them
        right[:, :1] = root
        yc = np.subtract(y, y_mean, out=right[:, 1:])
        yc *= root
        # ±½ is centred well enough; what is left of the mean comes off the products
        centre = 0.5 if z.dtype == np.bool_ else w @ z / safe
        zz, sums = np.zeros((d, d)), np.zeros((d, right.shape[1]))
        buffer: Floats | None = None
        for part in spans(n, d):
            buffer = np.empty((part.stop, d)) if buffer is None else buffer
            half = np.subtract(z[part], centre, out=buffer[: part.stop - part.start])
            half *= root[part]
            zz += half.T @ half  # BLAS does one half of it
            sums += half.T @ right[part]
        mean = sums[:, 0] / safe
        zz -= np.multiply.outer(total * mean, mean)
        yy = np.einsum("nk,nk->k", yc, yc)
        return cls(n, total, mean + centre, y_mean, zz, sums[:, 1:], yy)

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
