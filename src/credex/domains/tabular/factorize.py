"""Categories as small integers, and which rows of a table agree with which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.cells import is_missing
from credex.domains.tabular.backend import Kind
from credex.domains.tabular.table import Table
from credex.errors import InputError
from credex.typing import Ints, Masks

__all__ = ["MISSING", "UNSEEN", "Codes", "Likeness", "identity"]

MISSING = -1
UNSEEN = -2
_EXACT = 2.0**53  # beyond it, neighbouring integers are the same float


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """The distinct values of a column, numbered in order of appearance.

    Attributes
    ----------
    values
        Number of each value.
    rows
        ``(n,)`` number of each row; `MISSING` for missing ones.
    """

    values: dict[Any, int]
    rows: Ints

    @classmethod
    def of(cls, table: Table, j: int) -> Codes:
        """Return the numbered values of column j."""
        values: dict[Any, int] = {}
        objects = table.objects(j)
        rows = np.empty(len(objects), dtype=np.int64)
        try:
            for i, value in enumerate(objects):
                rows[i] = MISSING if is_missing(value) else values.setdefault(value, len(values))
        except TypeError:
            raise InputError(
                f"column {table.names[j]!r} holds values that cannot be compared, such as a "
                f"{type(value).__name__}; convert it to text or numbers"
            ) from None
        return cls(values, rows)

    def number(self, value: Any) -> int:
        """Return the number of one value: `MISSING`, or `UNSEEN` if no row has it."""
        return MISSING if is_missing(value) else self.values.get(value, UNSEEN)


def _comparable(table: Table, j: int, kind: Kind) -> NDArray[Any] | None:
    """``(n,)`` numbers of column j that are equal only if the values are, or ``None``."""
    if kind not in ("number", "date"):
        return None
    column = table.columns[j]
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
        return column
    floats = table.floats(j)
    return None if bool((np.abs(floats) >= _EXACT).any()) and kind == "number" else floats


@dataclass(frozen=True, slots=True, eq=False)
class Likeness:
    """Tells which values of an instance differ from those of B rows; NaN equals NaN."""

    table: Table
    numbers: dict[int, NDArray[Any]]
    codes: dict[int, Codes]

    @classmethod
    def of(cls, table: Table) -> Likeness:
        """Prepare the comparison with the rows of this table."""
        if table.block is not None and table.block.dtype.kind in "iufb":
            return cls(table, {}, {})
        numbers, codes = {}, {}
        for j, kind in enumerate(table.kinds):
            found = _comparable(table, j, kind)
            if found is None:
                codes[j] = Codes.of(table, j)
            else:
                numbers[j] = found
        return cls(table, numbers, codes)

    def differs(self, x: Table) -> Masks:
        """``(B, p)`` where a row of the table differs from the one-row table ``x``."""
        table = self.table
        if table.block is not None and x.block is not None and not (self.numbers or self.codes):
            out: Masks = table.block != x.block
            if x.block.dtype.kind == "f":
                out &= ~(np.isnan(table.block) & np.isnan(x.block))
            return out
        if table.block is not None and not (self.numbers or self.codes):
            return Likeness.of(table.without_block()).differs(x)
        out = np.empty((table.n_rows, table.n_columns), dtype=np.bool_)
        for j, rows in self.numbers.items():
            one = x.columns[j] if isinstance(x.columns[j], np.ndarray) else None
            value = one[0] if one is not None and one.dtype.kind in "iuf" else x.floats(j)[0]
            out[:, j] = rows != value
            if np.isnan(value):
                out[:, j] &= ~np.isnan(rows)
        for j, codes in self.codes.items():
            out[:, j] = codes.rows != codes.number(x.objects(j)[0])
        return out


def identity(table: Table) -> NDArray[np.uint64]:
    """``(n, p)`` numbers such that rows are equal only where all p numbers are."""
    out = np.empty((table.n_rows, table.n_columns), dtype=np.uint64)
    for j, kind in enumerate(table.kinds):
        found = _comparable(table, j, kind)
        if found is None:
            out[:, j] = Codes.of(table, j).rows.view(np.uint64)
        elif found.dtype.kind in "iu":
            out[:, j] = found.astype(np.int64).view(np.uint64)
        else:
            clean = found.astype(np.float64) + 0.0  # -0.0 becomes 0.0
            clean[np.isnan(clean)] = np.nan  # one NaN among the many
            out[:, j] = clean.view(np.uint64)
    return out
