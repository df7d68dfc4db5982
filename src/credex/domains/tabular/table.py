"""`Table`: rows of a numpy array, a pandas frame or a polars frame behind one interface.

Rows are made by picking real values by position, so that dtypes survive. Instances come in many
forms; `read_row` finds their values and `to_table` casts them to the dtypes of the training data.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.cells import is_missing
from credex.domains.tabular.columns import MISSING, Backend, Column, Kind, listed
from credex.errors import InputError
from credex.typing import Floats, Ints, Native

__all__ = ["Row", "Table", "read_batch", "read_row", "take_cells", "to_table"]

_EXACT = 2.0**53  # beyond it, neighbouring integers are the same float


@dataclass(slots=True, eq=False)
class Table:
    """Rows in their native columns.

    ``kinds`` says how each of the p columns is treated by default. ``columns`` is a ``(p, n)``
    array if all have the same dtype. ``index`` holds row labels, or ``None`` for none and for
    pandas' default ones.
    """

    backend: Backend
    kinds: tuple[Kind, ...]
    columns: Sequence[Column] | NDArray[Any]
    index: Any

    @classmethod
    def of(cls, data: Any) -> Table:
        """Take a private copy of an array or frame."""
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
        backend, columns, index = found
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
        if isinstance(columns, np.ndarray):
            columns = np.array(columns.T, order="C", copy=True).T
        else:
            columns = [c.copy() if hasattr(c, "copy") else c for c in columns]  # not of polars
        return cls(backend, tuple(map(backend.kind, columns, backend.names)), columns, index)

    @property
    def block(self) -> NDArray[Any] | None:
        """``(n, p)`` array of a table whose columns have the same dtype, else ``None``."""
        return self.columns.T if isinstance(self.columns, np.ndarray) else None

    @property
    def names(self) -> tuple[str, ...]:
        """Column names for display."""
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

    def first_row(self) -> list[Any]:
        """Return the p values of the first row as `objects` does."""
        if (block := self.block) is not None and block.dtype.kind not in "mM":
            return list(block[0].tolist())
        return [self.objects(j)[0] for j in range(self.n_columns)]

    def has_missing(self, j: int) -> bool:
        """Whether any value of column j is missing."""
        if self.kinds[j] in ("number", "date"):
            return bool(np.isnan(self.floats(j)).any())
        return any(map(is_missing, self.objects(j)))

    def factorize(self, j: int) -> tuple[Ints, dict[Any, int]]:
        """Return ``(n,)`` codes of column j, and the code of each value in order of appearance."""
        codes: dict[Any, int] = {}
        objects = self.objects(j)
        out = np.empty(len(objects), dtype=np.int64)
        try:
            for i, value in enumerate(objects):
                out[i] = MISSING if is_missing(value) else codes.setdefault(value, len(codes))
        except TypeError:
            raise InputError(
                f"column {self.names[j]!r} holds values that cannot be compared, such as a "
                f"{type(value).__name__}; convert it to text or numbers"
            ) from None
        return out, codes

    def identity(self, j: int) -> NDArray[np.uint64]:
        """``(n,)`` integers that are equal if and only if the values of column j are."""
        column = self.columns[j]
        if isinstance(column, np.ndarray) and column.dtype.kind in "iufb":
            return _bits(column)
        if self.kinds[j] in ("number", "date"):
            floats = self.floats(j)
            if self.kinds[j] == "date" or not (np.abs(floats) >= _EXACT).any():
                return _bits(floats)
        return _bits(self.factorize(j)[0])

    def identities(self) -> NDArray[np.uint64]:
        """``(n, p)`` integers that are equal within a column if and only if the values are."""
        if (block := self.block) is not None and block.dtype.kind in "iufb":
            return _bits(block)
        return np.column_stack([self.identity(j) for j in range(self.n_columns)])

    def frame(self) -> Native:
        """Return the rows in the user's own form; it may share memory with this table."""
        block = self.block
        return self.backend.frame(self.columns if block is None else block, self.index)

    def take(self, rows: Ints) -> Table:
        """Return the rows at these positions."""
        index = None if self.index is None else self.index.take(rows)
        if self.block is not None:
            return Table(self.backend, self.kinds, self.block[rows].T, index)
        return Table(self.backend, self.kinds, [column[rows] for column in self.columns], index)

    def append(self, x: Table) -> Table:
        """Return these rows and the one row of ``x``, in dtypes that hold both.

        The new row has no label: ``index`` stays as it is.
        """
        if isinstance(self.columns, np.ndarray) and isinstance(x.columns, np.ndarray):
            both: Any = np.concatenate([self.columns.T, x.columns.T]).T
        else:
            both = list(map(self.backend.append, self.columns, x.columns))
        return Table(self.backend, self.kinds, both, self.index)

    def gather(self, rows: Ints, labels: Ints, changed: Mapping[int, Column]) -> Native:
        """Return m model rows: cell (i, j) is the value of column j in row ``rows[i, j]``.

        ``labels`` are the ``(m,)`` rows whose index labels the new ones have, ``changed`` the
        columns that are given instead.
        """
        index = None if self.index is None else self.index.take(labels)
        if (block := self.block) is not None:
            block = take_cells(block, rows)
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
    at = rows * p
    at += np.arange(p)
    cells: NDArray[Any] = array.reshape(-1).take(at)
    return cells


def _bits(numbers: NDArray[Any]) -> NDArray[np.uint64]:
    if numbers.dtype.kind in "iub":
        return numbers.astype(np.int64).view(np.uint64)
    floats = numbers.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    floats[np.isnan(floats)] = np.nan  # one NaN among the many
    return floats.view(np.uint64)


def is_instance(data: Any, library: str, name: str) -> bool:
    """Whether data are of a class of a library, such as pandas, that is not imported for it."""
    module = sys.modules.get(library)
    return module is not None and isinstance(data, getattr(module, name))


def read(data: Any) -> tuple[Backend, Any, Any] | None:
    """Return backend, columns and row labels without a copy; ``None`` if this is no table."""
    if isinstance(data, np.ndarray):
        data = unmasked(data)
        names = tuple(f"x{j}" for j in range(data.shape[1]))
        return Backend(names, names), data.T, None
    if is_instance(data, "pandas", "DataFrame"):
        from credex.domains.tabular.frames import read_pandas

        return read_pandas(data)
    if is_instance(data, "polars", "DataFrame"):
        from credex.domains.tabular.frames import PolarsBackend

        names = tuple(data.columns)
        return PolarsBackend(names, names), data.get_columns(), None
    return None


def unmasked(data: Any) -> NDArray[Any]:
    """Return a plain array in which masked entries, if any, are NaN; integers become floats."""
    if not isinstance(data, np.ma.MaskedArray) or not np.ma.is_masked(data):
        return np.asarray(data)
    if data.dtype.kind not in "iuf":
        raise InputError(
            f"the array has masked entries and dtype {data.dtype}, which cannot be filled with "
            "NaN; fill them with .filled(value), or pass a pandas DataFrame with missing values"
        )
    dtype = data.dtype if data.dtype.kind == "f" else np.float64
    return np.where(np.ma.getmaskarray(data), np.nan, data.data).astype(dtype)


@dataclass(slots=True, eq=False)
class Row:
    """One row of a batch, not yet checked or cast.

    ``columns`` are p sequences in the training order, with the row's values at ``position``;
    ``label`` is its index label, or ``None``.
    """

    columns: Sequence[Any] | NDArray[Any]
    position: int
    label: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle this row alone, not the batch it came from."""
        here = slice(self.position, self.position + 1)
        if isinstance(self.columns, np.ndarray):
            return (Row, (self.columns[:, here], 0, self.label))
        return (Row, (tuple(column[here] for column in self.columns), 0, self.label))


def read_batch(table: Table, data: Any) -> list[Any]:
    """Split a batch into rows; a wrong set of columns fails here, a bad value only in its row."""
    if isinstance(data, list | tuple):
        return list(data)
    if isinstance(data, np.ndarray) and data.ndim != 2:
        raise InputError(
            f"the rows to explain have shape {data.shape}; pass a 2-D array with "
            f"{table.n_columns} columns"
        )
    found = read(data)
    if found is None:
        raise InputError(
            f"the rows to explain are a {type(data).__name__}; pass a 2-D array, a pandas or "
            "polars DataFrame, or a list of instances"
        )
    backend, columns, _ = found
    if isinstance(data, np.ndarray):
        _check_count(table, len(columns))
    else:
        order, array = _order(table, backend.labels), isinstance(columns, np.ndarray)
        columns = columns[order] if array else [columns[j] for j in order]
    labels = data.index.tolist() if hasattr(data, "index") else [None] * len(data)
    return [Row(columns, i, label) for i, label in enumerate(labels)]


def read_row(table: Table, x: Any) -> Row:
    """Find the values of one instance, in the training order, whatever form it has."""
    if isinstance(x, Row):
        return x
    if isinstance(x, np.ndarray):
        x = unmasked(x)
        if x.ndim == 2 and len(x) == 1:
            x = x[0]
        if x.ndim != 1:
            raise InputError(
                f"x has shape {x.shape}; pass one row of {table.n_columns} values, or explain many "
                "rows with explain_many"
            )
        _check_count(table, len(x))
        return Row(x[:, None], 0)
    if is_instance(x, "pandas", "DataFrame") or is_instance(x, "polars", "DataFrame"):
        if len(x) != 1:
            raise InputError(
                f"x is a frame of {len(x)} rows; pass one row (x.iloc[[0]] or x[0]), or explain "
                "all of them with explain_many"
            )
        row: Row = read_batch(table, x)[0]
        return row
    if is_instance(x, "pandas", "Series"):
        values = list(x)
        return _row(table, [values[j] for j in _order(table, list(x.index))], x.name)
    if isinstance(x, Mapping):
        values = list(x.values())
        return _row(table, [values[j] for j in _order(table, list(x), by_name=True)])
    if isinstance(x, list | tuple) or is_instance(x, "polars", "Series"):
        nested = len(x) == 1 and isinstance(x[0], list | tuple | np.ndarray)
        return _row(table, list(x[0]) if nested else list(x))
    raise InputError(
        f"x is {'None' if x is None else 'a ' + type(x).__name__}; pass one row: a 1-D array, a "
        "list, a pandas Series, a dict or a frame of one row"
    )


def _row(table: Table, values: Sequence[Any], label: Any = None) -> Row:
    _check_count(table, len(values))
    return Row([[None if value is np.ma.masked else value] for value in values], 0, label)


def _check_count(table: Table, count: int) -> None:
    if count != table.n_columns:
        raise InputError(
            f"{count} values where the training data have {table.n_columns} columns "
            f"({listed(table.names)}); pass one value for each column, in this order"
        )


def _order(table: Table, given: Sequence[Any], *, by_name: bool = False) -> list[int]:
    """Position of each training column among the given labels."""
    wanted: tuple[Any, ...] = table.backend.labels
    if set(given) != set(wanted) and {str(g) for g in given} == set(table.names):
        given, wanted = [str(g) for g in given], table.names
    if len(given) == len(set(given)) and set(given) == set(wanted):
        position = {label: j for j, label in enumerate(given)}
        return [position[label] for label in wanted]
    if type(table.backend) is Backend and not by_name:
        _check_count(table, len(given))  # an array's columns have no names of their own
        return list(range(len(given)))
    unknown = [label for label in given if label not in wanted]
    absent = [label for label in wanted if label not in given]
    repeated = [label for i, label in enumerate(given) if label in given[:i]]
    parts = [
        f"{what} {listed(labels)}"
        for what, labels in (("missing", absent), ("unknown", unknown), ("repeated", repeated))
        if labels
    ]
    raise InputError(
        f"the columns are not those of the training data: {'; '.join(parts)}; pass exactly "
        f"{listed(table.names)}"
    )


def to_table(table: Table, row: Row, may_miss: Callable[[int], bool]) -> Table:
    """Cast one row to the dtypes of the training columns.

    ``may_miss`` tells whether a missing value is allowed in column j. A value that does not fit
    raises an `InputError` that names the column and the value.
    """
    cells: Any = _numbers(table, row)
    if cells is None:
        cells = [_cell(table, j, row) for j in range(table.n_columns)]
        if table.block is not None and all(cell.dtype == table.block.dtype for cell in cells):
            cells = np.stack(cells)
    values = cells[:, 0].tolist() if isinstance(cells, np.ndarray) else [cell[0] for cell in cells]
    for j, value in enumerate(values):
        if is_missing(value) and not may_miss(j):
            raise InputError(
                f"column {table.names[j]!r} is missing (NaN) in the instance, but no training row "
                "misses it; fill it in, or allow it with Tabular(data, missing=True) if the model "
                "can take it"
            )
    index = table.backend.index_of(row.label, table.index)
    return Table(table.backend, table.kinds, cells, index)


def _numbers(table: Table, row: Row) -> NDArray[Any] | None:
    """``(p, 1)`` columns of a row of numbers in one array; ``None`` if a value may not fit."""
    if (block := table.block) is None or not isinstance(row.columns, np.ndarray):
        return None
    dtype, given = block.dtype, row.columns[:, row.position, None]
    exact = given.dtype == dtype and dtype.kind in "iu"
    if not exact and not (dtype.kind == "f" and given.dtype.kind in "iufb"):
        return None
    if given.dtype == dtype:
        return given.copy()
    with np.errstate(over="ignore"):
        numbers = given.astype(dtype)
    return numbers if (np.isinf(numbers) == np.isinf(given)).all() else None


def _cell(table: Table, j: int, row: Row) -> Column:
    """Value of column j as a column of one row, in the training dtype."""
    like, source = table.columns[j], row.columns[j]
    checked = ("object", "categor", "stringdtype")  # also where the dtypes are the same
    same = type(source) is type(like) and source.dtype == like.dtype
    if same and not str(like.dtype).lower().startswith(checked):
        return source[[row.position]]
    return table.backend.cell(like, table.kinds[j], source[row.position], table.names[j])
