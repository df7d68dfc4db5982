"""Sufficient statistics of a weighted regression, additive and safe from cancellation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from credex.posteriors.rows import Rows, spans
from credex.posteriors.scaled import Scaled, few, floats
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
    def of(cls, total: float, centre: Floats, top: Floats, parts: Iterable[Scaled]) -> Moments:
        """Moments of one batch in pieces that are centred on its means, with its sum of weights."""
        n, sums = 0, None
        for s in parts:
            n += len(s.y)
            more = _products(s)
            if sums is None:
                sums = more
            else:
                for have, new in zip(sums, more, strict=True):
                    np.add(have, new, out=have)
        if sums is None:  # pragma: no cover - nobody fits no rows
            msg = "no rows"
            raise AssertionError(msg)
        return cls(n, total, centre, top, *sums)

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


def summed(rows: Rows, design: Design | None = None) -> tuple[Moments, Scaled | None]:
    """Moments of the rows, and the scaled rows if they are few.

    ``design``: all of them unpacked, if they are at hand.
    """
    if few(rows):
        one = rows.blocks[0]
        y, w = one.y, one.w
        z, root = floats(one.design(0, one.n) if design is None else design), np.sqrt(w)
        total = float(root @ root)
        safe = total if total > 0 else 1.0
        centre, top = w @ z, w @ y
        centre /= safe
        top /= safe
        scaled = Scaled.of if one.packed is None else Scaled.of_masks
        s = scaled(z, y, root, centre, top)
        return Moments(len(y), total, centre, top, *_products(s)), s
    return reduce(add, (_batch(z, y, w) for z, y, w in rows.chunks())), None


def _products(s: Scaled) -> tuple[Floats, Floats, Floats]:
    """Cross products of some rows."""
    turned = s.rows.T
    # BLAS does one half of the first product
    y = s.y
    squares = (y.T @ y)[0] if y.shape[1] == 1 else np.einsum("ij,ij->j", y, y)
    return turned @ s.rows, turned @ y, squares


def _batch(z: Design, y: Floats, w: Floats) -> Moments:
    """Moments of rows of which only some at a time are made floats."""
    total = float(w.sum())
    safe = total if total > 0 else 1.0
    centre, top = np.zeros(z.shape[1]), w @ y / safe
    for p in spans(*z.shape):
        centre += w[p] @ z[p]
    centre /= safe
    root = np.sqrt(w)
    parts = (
        Scaled.of(z[p].astype(np.float64), y[p], root[p], centre, top) for p in spans(*z.shape)
    )
    return Moments.of(total, centre, top, parts)
