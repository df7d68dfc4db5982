"""Reading instances: the many forms in which a user passes one row, or a batch of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.cells import is_missing
from credex.domains.tabular.backend import Backend, Column, listed
from credex.domains.tabular.table import Table, is_instance, read, unmasked
from credex.errors import InputError

__all__ = ["Row", "read_batch", "read_row", "to_table"]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One row of a batch, not yet checked or cast.

    Attributes
    ----------
    columns
        p sequences in the training order; the row's values are at ``position``.
    label
        Index label, or ``None``.
    block
        The ``(n, p)`` array the columns are views of, or ``None``.
    """

    columns: Sequence[Any] | NDArray[Any]
    position: int
    label: Any = None
    block: NDArray[Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle this row alone, not the batch it came from."""
        here = slice(self.position, self.position + 1)
        if self.block is None:
            return (Row, (tuple(column[here] for column in self.columns), 0, self.label))
        block = self.block[here].copy()
        return (Row, (block.T, 0, self.label, block))


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
    backend, columns, block, _ = found
    if isinstance(data, np.ndarray):
        _check_count(table, len(columns))
    else:
        order = _order(table, backend.labels)
        columns = [columns[j] for j in order]
        block = None if block is None else block[:, order]
    labels = data.index.tolist() if hasattr(data, "index") else [None] * len(data)
    return [Row(columns, i, label, block) for i, label in enumerate(labels)]


def read_row(table: Table, x: Any) -> Row:
    """Find the values of one instance, in the training order, whatever form it has."""
    if isinstance(x, Row):
        return x
    if isinstance(x, np.ndarray):
        return _array_row(table, unmasked(x))
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


def _array_row(table: Table, x: NDArray[Any]) -> Row:
    if x.ndim == 2 and len(x) == 1:
        x = x[0]
    if x.ndim != 1:
        raise InputError(
            f"x has shape {x.shape}; pass one row of {table.n_columns} values, or explain many "
            "rows with explain_many"
        )
    if x.dtype.kind not in "iufb":
        return _row(table, list(x))
    _check_count(table, len(x))
    block = x.reshape(1, -1)
    return Row(block.T, 0, None, block)


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

    Parameters
    ----------
    may_miss
        Whether a missing value is allowed in column j.

    Raises
    ------
    InputError
        Naming the column and the value that does not fit.
    """
    index = table.index
    if index is not None:
        from credex.domains.tabular.pandas_backend import index_of

        index = index_of(row.label, index)
    numbers = _numbers(table, row)
    if numbers is not None:
        for j in np.flatnonzero(np.isnan(numbers)).tolist():
            _check_missing(table, j, may_miss)
        return table.with_block(numbers[None, :], index)
    cells = []
    for j, (like, source) in enumerate(zip(table.columns, row.columns, strict=True)):
        if _same_dtype(like, source):
            cell = source[[row.position]]
        else:
            value = source[row.position]
            cell = table.backend.cell(like, table.kinds[j], value, table.names[j])
        if is_missing(cell[0]):
            _check_missing(table, j, may_miss)
        cells.append(cell)
    if table.block is not None and all(cell.dtype == table.block.dtype for cell in cells):
        return table.with_block(np.concatenate(cells)[None, :], index)
    return replace(table, block=None, columns=cells, index=index)


def _numbers(table: Table, row: Row) -> NDArray[Any] | None:
    """``(p,)`` copy of the row for an array of numbers; ``None`` if a value may not fit."""
    if table.block is None or row.block is None:
        return None
    dtype, given = table.block.dtype, row.block[row.position]
    exact = given.dtype == dtype and dtype.kind in "iu"
    if not exact and not (dtype.kind == "f" and given.dtype.kind in "iufb"):
        return None
    with np.errstate(over="ignore"):
        numbers = given.astype(dtype)
    return numbers if (np.isinf(numbers) == np.isinf(given)).all() else None


def _same_dtype(like: Column, other: Any) -> bool:
    """Whether values of ``other`` fit as they are; objects and categories are never trusted."""
    return (
        type(other) is type(like)
        and other.dtype == like.dtype
        and not str(like.dtype).lower().startswith(("object", "categor", "stringdtype"))
    )


def _check_missing(table: Table, j: int, may_miss: Callable[[int], bool]) -> None:
    if not may_miss(j):
        raise InputError(
            f"column {table.names[j]!r} is missing (NaN) in the instance, but no training row "
            "misses it; fill it in, or allow it with Tabular(data, missing=True) if the model can "
            "take it"
        )
