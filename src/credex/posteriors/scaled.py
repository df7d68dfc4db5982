"""Rows of a weighted regression, centred, times the roots of their weights."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from credex.posteriors.rows import CACHE, CHUNK, Rows, spans
from credex.typing import Design, Floats

KEEP = 524_288
"""Values up to which all rows are scaled at once and kept for a second look: four megabytes."""


ALIKE = 1e-12
"""A share, or a variance relative to the weights, below this is rounding: all rows are alike."""

_spare = threading.local()
"""The last buffer of kept rows. Memory fresh from the system costs more than the arithmetic on it:
it comes page by page, and freed blocks of this size go back at once."""


@cache
def _rank_one() -> Any:
    """Imported when first needed: SciPy is slow to import."""
    from scipy.linalg.blas import dger

    return dger


def floats(design: Design) -> Floats:
    """``design (n, d)`` as floats, in the spare buffer if that is large enough."""
    buffer = _spare.__dict__.pop("buffer", None)  # taken: nobody else gets it meanwhile
    if buffer is None or buffer.size < design.size:
        buffer = np.empty(design.size)
    out: Floats = buffer[: design.size].reshape(design.shape)
    np.copyto(out, design)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """Some rows, as every product of a weighted regression takes them.

    Attributes
    ----------
    rows
        ``(n, d)``: √w·(z − centre).
    y
        ``(n, k)``: √w·(y − top).
    root
        ``(n,)``: √w.
    """

    rows: Floats
    y: Floats
    root: Floats

    @classmethod
    def of(cls, z: Floats, y: Floats, root: Floats, centre: Floats, top: Floats) -> Scaled:
        """Scale ``y (n, k)``, and ``z (n, d)`` in place, by the ``(n,)`` roots of the weights."""
        column = root[:, None]
        z -= centre
        z *= column
        out = y - top
        out *= column
        return cls(z, out, root)

    @classmethod
    def of_masks(cls, z: Floats, y: Floats, root: Floats, centre: Floats, top: Floats) -> Scaled:
        """The same for rows of zeros and ones, which lose no digits if they are centred last.

        BLAS does that, in place, in half the time. Of a column of ones nothing is left but
        rounding: it becomes zero.
        """
        column = root[:, None]
        z *= column
        if z.size:
            z = _rank_one()(-1.0, centre, root, a=z.T, overwrite_a=1).T
        ones = centre > 1.0 - ALIKE
        if np.count_nonzero(ones):
            z[:, ones] = 0.0
        out = y - top
        out *= column
        return cls(z, out, root)

    def release(self) -> None:
        """Leave the memory of rows made by `floats` to the next ones; they are gone with that."""
        _spare.buffer = self.rows.base

    def pieces(self) -> Iterator[Scaled]:
        """The same rows, as many at a time as stay in the cache."""
        if self.rows.nbytes <= CACHE:
            return iter((self,))
        parts = spans(*self.rows.shape)
        return (Scaled(self.rows[p], self.y[p], self.root[p]) for p in parts)


def few(rows: Rows) -> bool:
    """Whether the scaled rows may be kept."""
    one = rows.blocks[0]
    return len(rows.blocks) == 1 and one.n <= CHUNK and one.n * one.d <= KEEP


def pieces(rows: Rows, centre: Floats, top: Floats) -> Iterator[Scaled]:
    """Scale all rows, as many at a time as stay in the cache."""
    for z, y, w in rows.chunks():
        for part in spans(len(z), z.shape[1]):
            yield Scaled.of(z[part].astype(np.float64), y[part], np.sqrt(w[part]), centre, top)
