"""`Table`: rows of a numpy array, a pandas frame or a polars frame behind one narrow interface.

Rows are made by *taking*: every perturbed value is a real value of the training data or of the
instance, picked by position, so dtypes survive. Tables of one numeric dtype are a single
``(n, p)`` array.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.cells import is_missing
from credex.domains.tabular.backend import Backend, Column, Kind, listed
from credex.errors import InputError
from credex.typing import Floats, Ints, Native

__all__ = ["Table", "is_instance", "read", "take_cells", "unmasked"]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows in their native columns.

    Attributes
    ----------
    backend
        The library and its column labels.
    kinds
        How each of the p columns is treated by default.
    columns
        p native columns of the same length; rows of ``block.T`` if there is a block.
    block
        ``(n, p)`` array of a table with a single dtype, or ``None``.
    index
        Row labels, or ``None`` for none (or pandas' default ones).
    """

    backend: Backend
    kinds: tuple[Kind, ...]
    columns: Sequence[Column] | NDArray[Any]
    block: NDArray[Any] | None
    index: Any

    @classmethod
    def of(cls, data: Any) -> Table:
        """Take a private copy of an array or frame.

        Raises
        ------
        InputError
            If it is not a table, is empty, repeats a column name or holds an unknown dtype.
        """
        if isinstance(data, np.ndarray) and data.ndim != 2:
            raise InputError(
                f"the training data have {data.ndim} dimension(s), shape {data.shape}; pass a "
                "table of rows and columns (use .reshape(-1, 1) for a single column)"
            )
        found = read(data)
        if found is None:
            raise InputError(
                f"the training data are a {type(data).__name__}; pass a 2-D numpy array, a pandas "
                "DataFrame or a polars DataFrame"
            )
        backend, columns, block, index = found
        if 0 in data.shape:
            raise InputError(
                f"the training data have {data.shape[0]} rows and {data.shape[1]} columns; pass at "
                "least one of each"
            )
        repeated = [name for name, count in Counter(backend.names).items() if count > 1]
        if repeated:
            raise InputError(
                f"column names repeat: {listed(repeated)}; rename the columns so that each is "
                "unique"
            )
        if block is None:
            columns = [c.copy() if hasattr(c, "copy") else c for c in columns]  # not of polars
        else:
            block = np.array(block, order="C", copy=True)
            columns = block.T
        if block is not None and block.dtype.kind != "O":
            kinds = (backend.kind(columns[0], backend.names[0]),) * len(columns)
        else:
            kinds = tuple(map(backend.kind, columns, backend.names))
        return cls(backend, kinds, columns, block, index)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names as they are shown."""
        return self.backend.names

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0])

    def floats(self, j: int) -> Floats:
        """``(n,)`` values of column j, which holds numbers or dates; missing is NaN."""
        return self.backend.floats(self.columns[j])

    def objects(self, j: int) -> list[Any]:
        """Column j as n Python objects; numpy's dates stay as they are, which loses nothing."""
        column = self.columns[j]
        plain_array = isinstance(column, np.ndarray) and column.dtype.kind not in "mM"
        return column.tolist() if plain_array else list(column)

    def has_missing(self, j: int) -> bool:
        """Whether any value of column j is missing."""
        if self.kinds[j] in ("number", "date"):
            return bool(np.isnan(self.floats(j)).any())
        return any(map(is_missing, self.objects(j)))

    def first_row(self) -> list[Any]:
        """Return the p values of the first row as Python objects."""
        if self.block is not None and self.block.dtype.kind not in "mM":
            row: list[Any] = self.block[0].tolist()
            return row
        return [self.objects(j)[0] for j in range(self.n_columns)]

    def frame(self) -> Native:
        """Return the rows in the user's own form; it may share memory with this table."""
        data = self.columns if self.block is None else self.block
        return self.backend.frame(data, self.index)

    def with_block(self, block: NDArray[Any], index: Any) -> Table:
        """Return the same table with other rows in one array."""
        return Table(self.backend, self.kinds, block.T, block, index)

    def take(self, rows: Ints) -> Table:
        """Return the rows at these positions."""
        index = None if self.index is None else self.index.take(rows)
        if self.block is not None:
            return self.with_block(self.block[rows], index)
        return replace(self, columns=[column[rows] for column in self.columns], index=index)

    def append(self, x: Table) -> Table:
        """Return these rows and the one row of ``x``, in dtypes that hold both.

        The new row has no label: ``index`` stays as it is.
        """
        if self.block is not None and x.block is not None:
            return self.with_block(np.concatenate([self.block, x.block]), self.index)
        pairs = zip(self.columns, x.columns, strict=True)
        columns = [self.backend.append(column, one) for column, one in pairs]
        return replace(self, columns=columns, block=None)

    def gather(
        self, rows: Ints, labels: Ints, changed: Mapping[int, Column] | None = None
    ) -> Native:
        """Return m model rows: cell (i, j) is the value of column j in row ``rows[i, j]``.

        Parameters
        ----------
        rows
            ``(m, p)`` positions.
        labels
            ``(m,)`` rows whose index labels the new ones have.
        changed
            Columns that are given instead.
        """
        changed = changed or {}
        index = None if self.index is None else self.index.take(labels)
        if self.block is not None:
            block = take_cells(self.block, rows)
            for j, column in changed.items():
                block[:, j] = column
            return self.backend.frame(block, index)
        columns = [
            changed[j] if j in changed else column[rows[:, j]]
            for j, column in enumerate(self.columns)
        ]
        return self.backend.frame(columns, index)


def take_cells(array: NDArray[Any], rows: Ints) -> NDArray[Any]:
    """``(m, p)`` cells ``array[rows[i, j], j]``; quicker than ``take_along_axis``."""
    p = array.shape[1]
    cells: NDArray[Any] = array.reshape(-1).take(rows * p + np.arange(p))
    return cells


def is_instance(data: Any, library: str, name: str) -> bool:
    """Whether data are of a class of a library, such as pandas, that is not imported for it."""
    module = sys.modules.get(library)
    return module is not None and isinstance(data, getattr(module, name))


def read(data: Any) -> tuple[Backend, Any, NDArray[Any] | None, Any] | None:
    """Return backend, columns, the array they are views of (or ``None``), and row labels.

    Nothing is copied. ``None`` if the data are not a table.
    """
    if isinstance(data, np.ndarray):
        data = unmasked(data)
        names = tuple(f"x{j}" for j in range(data.shape[1]))
        return Backend(names, names), data.T, data, None
    if is_instance(data, "pandas", "DataFrame"):
        from credex.domains.tabular.pandas_backend import read_frame

        return read_frame(data)
    if is_instance(data, "polars", "DataFrame"):
        from credex.domains.tabular.polars_backend import PolarsBackend

        names = tuple(data.columns)
        return PolarsBackend(names, names), data.get_columns(), None, None
    return None


def unmasked(data: Any) -> NDArray[Any]:
    """Return a plain array in which masked entries, if any, are NaN; integers become floats."""
    if not np.ma.is_masked(data):
        return np.asarray(data)
    if data.dtype.kind not in "iuf":
        raise InputError(
            f"the array has masked entries and dtype {data.dtype}, which cannot be filled with "
            "NaN; fill them with .filled(value), or pass a pandas DataFrame with missing values"
        )
    dtype = data.dtype if data.dtype.kind == "f" else np.float64
    return np.where(np.ma.getmaskarray(data), np.nan, data.data).astype(dtype)
