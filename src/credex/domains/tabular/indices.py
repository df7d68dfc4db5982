"""Where the values of perturbed rows come from: a cell of the training data for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.typing import Ints

__all__ = ["Places"]

MOST_KEPT = 524_288
"""Values that are kept at most: four megabytes."""


@dataclass(slots=True, eq=False)
class Places:
    """A cell of an ``(N, p)`` table for each of ``(n, p)`` values, always of its own column.

    Attributes
    ----------
    cells
        ``(n, p)`` row · p + column: the place in the flat buffer of any array of that shape.
    kept
        A block, and its values at these places, if they are taken again and again.
    """

    cells: Ints
    kept: tuple[NDArray[Any], NDArray[Any]] | None = None

    @classmethod
    def of_rows(cls, rows: Ints) -> Places:
        """Take over ``(n, p)`` row numbers, in place."""
        rows *= rows.shape[1]
        rows += np.arange(rows.shape[1])
        return cls(rows)

    def __len__(self) -> int:
        return len(self.cells)

    def column(self, j: int) -> Ints:
        """``(n,)`` rows that column j takes its values from."""
        return np.asarray(self.cells[:, j] // self.cells.shape[1])

    def some(self, index: Ints) -> Places:
        """Only the rows at ``(m,)`` positions."""
        return Places(self.cells[index])

    def take(self, block: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Values of a C-contiguous ``(N, p)`` block, ``(n, p)``."""
        if self.kept is not None and self.kept[0] is block and out is not None:
            np.copyto(out, self.kept[1])  # a copy: models may write into what they are given
            return out
        # every cell is there: mode="clip" only spares the check and a buffer for `out`
        return block.reshape(-1).take(self.cells, out=out, mode="clip")

    def keep(self, block: NDArray[Any]) -> None:
        """Keep the values of this block, unless they are many: copying is quicker than finding."""
        if self.cells.size <= MOST_KEPT:
            self.kept = (block, self.take(block))
