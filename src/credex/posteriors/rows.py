"""History rows, kept small: masks as bits, everything else as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credex.errors import InputError
from credex.typing import Design, Floats, Weights

CHUNK = 4096
"""Rows unpacked at a time: bounds the memory of everything that walks over the rows."""

CACHE = 262_144
"""Bytes of float rows worked on at a time: they stay in the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One batch of rows.

    Attributes
    ----------
    packed
        n·d booleans at eight a byte, row after row without a gap: short rows take as long to fill
        up as to pack. ``None`` if the design holds floats.
    plain
        ``(n, d)`` floats, or ``None``.
    y, w
        ``(n, k)`` outputs and ``(n,)`` weights.
    """

    n: int
    d: int
    packed: NDArray[np.uint8] | None
    plain: Floats | None
    y: Floats
    w: Weights

    @classmethod
    def of(cls, design: Design, y: Floats, w: Weights) -> Block:
        """Pack ``design (n, d)``, ``y (n, k)``, ``w (n,)``."""
        n, d = design.shape
        if design.dtype == np.bool_:
            return cls(n, d, np.packbits(design), None, y, w)
        return cls(n, d, None, np.ascontiguousarray(design, dtype=np.float64), y, w)

    def design(self, start: int, stop: int) -> Design:
        """Rows ``start`` to ``stop`` as they were given."""
        if self.packed is not None:
            skip = start * self.d % 8  # bits of the first byte that belong to the row before
            some = self.packed[start * self.d // 8 : -(-stop * self.d // 8)]
            bits = np.unpackbits(some, count=skip + (stop - start) * self.d)[skip:]
            return bits.view(np.bool_).reshape(stop - start, self.d)
        if self.plain is None:  # pragma: no cover - one of the two is always there
            msg = "a block holds neither bits nor floats"
            raise AssertionError(msg)
        return self.plain[start:stop]

    @property
    def by_row(self) -> NDArray[np.uint8] | None:
        """``(n, ⌈d/8⌉)``: the booleans with every row in bytes of its own, as files hold them."""
        return None if self.packed is None else np.packbits(self.design(0, self.n), axis=1)

    @classmethod
    def read(
        cls,
        n: int,
        d: int,
        by_row: NDArray[np.uint8] | None,
        plain: Floats | None,
        *,
        y: Floats,
        w: Weights,
    ) -> Block:
        """Return a block of what files hold."""
        if by_row is None:
            return cls(n, d, None, plain, y, w)
        bits = np.unpackbits(by_row.reshape(n, -1), axis=1, count=d)
        return cls(n, d, np.packbits(bits), None, y, w)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """All rows asked so far, in order. Adding returns a new object that shares the old blocks."""

    blocks: tuple[Block, ...] = field(default=())

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.blocks[0].n if len(self.blocks) == 1 else sum(b.n for b in self.blocks)

    def add(self, design: Design, y: Floats, w: Weights) -> Rows:
        """Append ``design (n, d)``, ``y (n, k)`` and ``w (n,)``; small neighbours are joined."""
        new = Block.of(design, y, w)
        if self.blocks and self.blocks[-1].n + new.n <= CHUNK:
            last = self.blocks[-1]
            if (last.packed is None) == (new.packed is None):
                return Rows((*self.blocks[:-1], _join(last, new)))
        return Rows((*self.blocks, new))

    def even(self) -> Rows:
        """Without the last row if their number is odd: pairs come whole or not at all."""
        if self.n % 2 == 0:
            return self
        n = self.n - 1
        return Rows().add(self.design()[:n], self.y()[:n], self.w()[:n]) if n else Rows()

    def chunks(self) -> Iterator[tuple[Design, Floats, Weights]]:
        """Walk over the rows, at most ``CHUNK`` at a time; masks as booleans."""
        for b in self.blocks:
            for s in range(0, b.n, CHUNK):
                e = min(s + CHUNK, b.n)
                yield b.design(s, e), b.y[s:e], b.w[s:e]

    def design(self) -> Design:
        """All rows at once, ``(n, d)``."""
        parts = [z for z, _, _ in self.chunks()]
        return np.ascontiguousarray(parts[0]) if len(parts) == 1 else np.concatenate(parts)

    def y(self) -> Floats:
        """All outputs, ``(n, k)``."""
        return _all([b.y for b in self.blocks])

    def w(self) -> Weights:
        """All weights, ``(n,)``."""
        return _all([b.w for b in self.blocks])


def spans(n: int, d: int) -> Iterator[slice]:
    """Cut n rows of d floats into pieces that fit the cache; none but the last is odd."""
    step = min(max(CACHE // (8 * max(d, 1)), 256) & ~1, CHUNK)
    return (slice(s, min(s + step, n)) for s in range(0, n, step))


def checked(z: Design, y: ArrayLike, weights: ArrayLike | None) -> tuple[Design, Floats, Weights]:
    """Return the arguments of a fit as ``(n, d)``, ``(n, k)`` and ``(n,)`` arrays."""
    z = np.asarray(z)
    if z.dtype != np.bool_:
        z = np.asarray(z, dtype=np.float64)
    yy = np.asarray(y, dtype=np.float64)
    if z.ndim != 2 or yy.ndim not in (1, 2) or len(z) != len(yy) or len(z) == 0:
        msg = "Z must be (n, d) and y (n,) or (n, k) with the same n ≥ 1; "
        msg += f"got {z.shape} and {yy.shape}"
        raise InputError(msg)
    yy = yy[:, None] if yy.ndim == 1 else yy
    w = np.ones(len(z)) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (len(z),) or not np.all(np.isfinite(w)) or np.any(w < 0):
        msg = f"weights must be {len(z)} finite numbers ≥ 0; got shape {w.shape}"
        raise InputError(msg)
    if not np.all(np.isfinite(yy)) or (z.dtype != np.bool_ and not np.all(np.isfinite(z))):
        msg = "Z and y must be finite; remove NaN and infinity first"
        raise InputError(msg)
    return z, yy, w


def _all(parts: list[Floats]) -> Floats:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _join(a: Block, b: Block) -> Block:
    y, w = np.concatenate([a.y, b.y]), np.concatenate([a.w, b.w])
    if a.packed is None or b.packed is None or a.n * a.d % 8:  # the last byte is not full
        return Block.of(np.concatenate([a.design(0, a.n), b.design(0, b.n)]), y, w)
    return Block(a.n + b.n, a.d, np.concatenate([a.packed, b.packed]), None, y, w)
