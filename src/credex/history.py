"""`History`: what a run asked, bit-packed, what the model answered, and what that cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credex.errors import InputError
from credex.typing import Design, Floats, Masks, Weights

__all__ = ["Counted", "History"]

MAX_CHUNK_ROWS = 4096
"""Maximum number of rows unpacked at a time."""

CHUNK_BYTES = 262_144
"""Size of the float rows worked on at a time: bounds memory, and fits a processor's cache."""


class Counted(NamedTuple):
    """Answer of a model that counts by itself: outputs, rows sent, those of calls that failed.

    Such a model has a method ``counted_call(rows)``. The rows sent are fewer than the rows asked
    if answers are kept, and more if some were sent again.
    """

    y: Any
    rows: int
    failed_rows: int


@dataclass(slots=True, eq=False)
class Block:
    """``n`` rows of ``d`` columns, with outputs ``y (n, k)`` and weights ``w (n,)``.

    A boolean design is ``packed`` into ``(n, ⌈d/8⌉)`` bytes (``numpy.packbits``); any other is kept
    as ``plain (n, d)`` floats.
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
            padded = np.zeros((n, -(-d // 8) * 8), dtype=np.bool_)  # packs four times as fast
            padded[:, :d] = design
            return cls(n, d, np.packbits(padded).reshape(n, -1), None, y, w)
        return cls(n, d, None, np.ascontiguousarray(design, dtype=np.float64), y, w)

    def design(self, start: int, stop: int) -> Design:
        """Rows ``start`` to ``stop`` as they were given, ``(stop − start, d)``."""
        if self.packed is None:
            return np.asarray(self.plain)[start:stop]
        packed = self.packed[start:stop]
        bits = np.unpackbits(packed).reshape(len(packed), 8 * packed.shape[1])
        return bits[:, : self.d].view(np.bool_)

    def joined(self, other: Block) -> Block:
        """Append the rows of another block of the same kind."""

        def both(a: Any, b: Any) -> Any:
            return None if a is None else np.concatenate([a, b])

        packed, plain = both(self.packed, other.packed), both(self.plain, other.plain)
        y, w = both(self.y, other.y), both(self.w, other.w)
        return Block(self.n + other.n, self.d, packed, plain, y, w)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """All rows asked so far, in order. Adding returns a new object that shares the old blocks."""

    blocks: tuple[Block, ...] = field(default=())
    n: int = field(init=False)
    """Number of rows."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", sum([b.n for b in self.blocks]))

    def add(self, design: Design, y: Floats, w: Weights) -> Rows:
        """Append ``design (n, d)``, ``y (n, k)`` and ``w (n,)``; small blocks are joined."""
        new = Block.of(design, y, w)
        if not self.blocks:
            return Rows((new,))
        *others, last = self.blocks
        alike = (last.packed is None) == (new.packed is None)
        if alike and last.n + new.n <= MAX_CHUNK_ROWS:
            return Rows((*others, last.joined(new)))
        return Rows((*others, last, new))

    def even(self) -> Rows:
        """Drop the last row if the number of rows is odd: pairs are kept whole."""
        n = self.n // 2 * 2
        if n == self.n:
            return self
        return Rows().add(self.design()[:n], self.y()[:n], self.w()[:n]) if n else Rows()

    def chunks(self) -> list[tuple[Block, slice]]:
        """Return where chunks of bounded size are."""
        return [(b, s) for b in self.blocks for s in spans(b.n, b.d)]

    def design(self) -> Design:
        """All rows, ``(n, d)``; not contiguous if they are one block."""
        return joined([b.design(0, b.n) for b in self.blocks])

    def y(self) -> Floats:
        """All outputs, ``(n, k)``; not a copy if they are one block."""
        return joined([b.y for b in self.blocks])

    def w(self) -> Weights:
        """All weights, ``(n,)``; not a copy if they are one block."""
        return joined([b.w for b in self.blocks])


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Stack arrays; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def spans(n: int, d: int) -> Iterator[slice]:
    """Cut n rows of d floats into chunks; all but the last have an even number of rows."""
    step = min(max(CHUNK_BYTES // (8 * max(d, 1)), 256) & ~1, MAX_CHUNK_ROWS)
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
        raise InputError(f"weights must be {len(z)} finite numbers ≥ 0; got shape {w.shape}")
    if not np.all(np.isfinite(yy)) or (z.dtype != np.bool_ and not np.all(np.isfinite(z))):
        raise InputError("Z and y must be finite; remove NaN and infinity first")
    return z, yy, w


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Everything a run asked and was answered: enough to continue from.

    Attributes
    ----------
    rows
        Design rows (masks as bits), outputs ``(n, k)`` and weights, in order.
    full, base
        ``(k,)`` value of the instance, and of the empty coalition (``None`` for BayesLIME).
    end_values
        ``(r, 2, k)`` every answer for the empty and the full coalition, if the model is noisy.
    cursor
        Position in the stream of perturbed rows (BayesLIME on tables).
    n_queries, n_model_rows, model_seconds, failed_rows
        What it cost; ``failed_rows`` of the model rows were sent in calls that failed.
    checked
        Whether f(x) was asked twice.
    by_row, base_by_row
        ``(n, B, k)`` values by background row, and ``(B, k)`` of the empty coalition, only for
        ``background_uncertainty``.
    kept
        ``(d,)`` features that BayesSHAP perturbs, only for ``recipe="published"``.
    model
        Identifies the model that answered, as long as it is in memory.
    """

    rows: Rows = field(default_factory=Rows)
    full: Floats | None = None
    base: Floats | None = None
    end_values: Floats | None = None
    cursor: int = 0
    n_queries: int = 0
    n_model_rows: int = 0
    model_seconds: float = 0.0
    failed_rows: int = 0
    checked: bool = False
    by_row: Floats | None = None
    base_by_row: Floats | None = None
    kept: Masks | None = None
    model: object = None

    def spend(self, results: Sequence[Any], queries: int, **changes: Any) -> History:
        """Return the history with the cost of `credex.game.Result` objects and other changes."""
        return replace(
            self,
            n_queries=self.n_queries + queries,
            n_model_rows=self.n_model_rows + sum([r.rows for r in results]),
            model_seconds=self.model_seconds + sum([r.seconds for r in results]),
            failed_rows=self.failed_rows + sum([r.failed_rows for r in results]),
            **changes,
        )

    def only(self, output: int) -> History:
        """Return the history of one output."""
        j = slice(output, output + 1)
        blocks = tuple(replace(b, y=b.y[:, j]) for b in self.rows.blocks)
        arrays = {
            name: value[..., j]
            for name in ("full", "base", "end_values", "by_row", "base_by_row")
            if (value := getattr(self, name)) is not None
        }
        return replace(self, rows=Rows(blocks), **arrays)

    def in_pairs(self) -> History:
        """Drop a last row whose complement was not answered because a call failed in between."""
        rows = self.rows.even()
        if rows is self.rows:
            return self
        return replace(self, rows=rows, by_row=None if self.by_row is None else self.by_row[:-1])

    @property
    def end_repeats(self) -> int:
        """How often the empty and the full coalition were asked."""
        return 1 if self.end_values is None else len(self.end_values)

    def with_ends(self, bases: Floats, fulls: Floats, *, noisy: bool) -> dict[str, Any]:
        """Return the changes due to answers ``(r, k)`` for the empty and the full coalition."""
        if not noisy:
            return {"base": bases[0], "full": fulls[0]}
        values = np.stack([bases, fulls], axis=1)
        if self.end_values is not None:
            values = np.concatenate([self.end_values, values])
        return {
            "base": values[:, 0].mean(axis=0),
            "full": values[:, 1].mean(axis=0),
            "end_values": values,
        }

    def __repr__(self) -> str:
        outputs = 0 if self.full is None else len(self.full)
        return (
            f"<History: {self.rows.n} perturbations, {outputs} outputs, "
            f"{self.n_queries} queries, {self.n_model_rows} model rows>"
        )
