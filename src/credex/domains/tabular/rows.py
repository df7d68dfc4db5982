"""Reading instances: the many forms in which a user hands over one row, or a batch of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.domains.tabular.numpy_backend import NumpyForm
from credex.domains.tabular.table import Table, is_pandas, is_polars, listed
from credex.errors import InputError
from credex.typing import Ints, Masks

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
        The ``(n, p)`` numbers the columns are views of, or ``None``.
    """

    columns: tuple[Any, ...] | NDArray[Any]
    position: int
    label: Any = None
    block: NDArray[Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle this row alone, not the batch it came from."""
        here = slice(self.position, self.position + 1)
        if self.block is not None:
            return (_numeric_row, (self.block[here].copy(), self.label))
        return (Row, (tuple(column[here] for column in self.columns), 0, self.label))


def _numeric_row(block: NDArray[Any], label: Any) -> Row:
    return Row(block.T, 0, label, block)


def read_batch(table: Table, data: Any) -> list[Any]:
    """Take a batch apart; a wrong set of columns fails here, a bad value only in its own row."""
    if isinstance(data, np.ndarray):
        if data.ndim != 2:
            raise InputError(
                f"the rows to explain have shape {data.shape}; pass a 2-D array with "
                f"{table.n_columns} columns"
            )
        _check_count(table, data.shape[1])
        block = data if data.dtype.kind in "iufb" else None
        columns = tuple(data.T)
        return [Row(columns, i, None, block) for i in range(len(data))]
    if is_pandas(data, "DataFrame"):
        from credex.domains.tabular.pandas_backend import block_of, columns_of

        order = _order(table, list(data.columns))
        if order is not None:
            data = data.iloc[:, order]
        block = block_of(data)
        columns = tuple(block.T) if block is not None else tuple(columns_of(data))
        return [Row(columns, i, label, block) for i, label in enumerate(data.index.tolist())]
    if is_polars(data, "DataFrame"):
        order = _order(table, list(data.columns))
        found = data.get_columns()
        columns = tuple(found if order is None else [found[j] for j in order])
        return [Row(columns, i) for i in range(data.height)]
    if isinstance(data, list | tuple):
        return list(data)
    raise InputError(
        f"the rows to explain are a {type(data).__name__}; pass a 2-D array, a pandas or polars "
        "DataFrame, or a list of instances"
    )


def read_row(table: Table, x: Any) -> Row:  # noqa: PLR0911 - one line a type
    """Find the values of one instance, in the training order, whatever form it comes in."""
    if isinstance(x, Row):
        return x
    if isinstance(x, np.ndarray):
        return _array_row(table, x)
    if is_pandas(x, "DataFrame") or is_polars(x, "DataFrame"):
        if len(x) != 1:
            raise InputError(
                f"x is a frame of {len(x)} rows; pass one row (x.iloc[[0]] or x[0]), or explain "
                "all of them with explain_many"
            )
        row: Row = read_batch(table, x)[0]
        return row
    if is_pandas(x, "Series"):
        order = _order(table, list(x.index))
        values = list(x) if order is None else [x.iloc[j] for j in order]
        return _row_of(table, values, x.name)
    if is_polars(x, "Series"):
        return _row_of(table, x.to_list(), None)
    if isinstance(x, Mapping):
        order = _order(table, list(x), by_name=True)
        values = list(x.values())
        return _row_of(table, values if order is None else [values[j] for j in order], None)
    if isinstance(x, list | tuple):
        nested = len(x) == 1 and isinstance(x[0], list | tuple | np.ndarray)
        return _row_of(table, list(x[0]) if nested else list(x), None)
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
        return _row_of(table, list(x), None)
    if len(x) != len(table.columns):
        _check_count(table, len(x))
    block = x.reshape(1, -1)
    return Row(block.T, 0, None, block)


def _row_of(table: Table, values: Sequence[Any], label: Any) -> Row:
    _check_count(table, len(values))
    return Row(tuple([value] for value in values), 0, label)


def _check_count(table: Table, count: int) -> None:
    if count != table.n_columns:
        raise InputError(
            f"{count} values where the training data have {table.n_columns} columns "
            f"({listed(table.names)}); pass one value for each column, in this order"
        )


def _order(table: Table, given: list[Any], *, by_name: bool = False) -> list[int] | None:
    """Where each training column is among the given labels; ``None`` if already in order."""
    wanted: tuple[Any, ...] = table.form.labels
    if tuple(given) == wanted:
        return None
    if set(given) != set(wanted) and {str(g) for g in given} == set(table.names):
        given, wanted = [str(g) for g in given], table.names
    if len(given) == len(set(given)) and set(given) == set(wanted):
        place = {label: j for j, label in enumerate(given)}
        return [place[label] for label in wanted]
    if isinstance(table.form, NumpyForm) and not by_name:
        _check_count(table, len(given))  # an array's columns have no names of their own
        return None
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


def to_table(table: Table, row: Row, may_miss: Masks) -> Table:
    """Cast one row to the dtypes of the training columns.

    Parameters
    ----------
    may_miss
        ``(p,)`` in which columns a missing value is allowed.

    Raises
    ------
    InputError
        Naming the column and the value that does not fit.
    """
    index = table.form.one_label(table.index, row.label)
    # a copy: what the user does with the data later should not change what was explained
    numbers = None if row.block is None else _fast(table, row.block[row.position].copy(), may_miss)
    if numbers is not None:
        return table.with_block(numbers[None, :], index)
    cells = []
    here: Ints = np.array([row.position])
    for j, (like, source) in enumerate(zip(table.columns, row.columns, strict=True)):
        name, kind = table.names[j], table.kinds[j]
        if table.form.same(like, source):
            one = table.form.take(source, here)
        else:
            one = table.form.cell(like, kind, source[row.position], name)
        if not may_miss[j] and table.form.missing(one)[0]:
            raise _unexpected(name)
        cells.append(one)
    if table.block is not None and all(one.dtype == table.block.dtype for one in cells):
        return table.with_block(np.concatenate(cells)[None, :], index)
    return replace(table, block=None, columns=tuple(cells), index=index)


def _fast(table: Table, values: NDArray[Any], may_miss: Masks) -> NDArray[Any] | None:
    """Numbers for a numeric buffer in one cast, or ``None`` where single values need a look."""
    if table.block is None or table.block.dtype.kind not in "iuf":
        return None
    dtype = table.block.dtype
    if values.dtype != dtype:
        with np.errstate(invalid="ignore", over="ignore"):
            cast = values.astype(dtype)
        close = cast == values if dtype.kind in "iu" else np.isinf(cast) == np.isinf(values)
        # 2^63 as a float survives a cast to int64 and back although it does not fit.
        huge = dtype.kind in "iu" and bool((np.abs(values.astype(np.float64)) > 2.0**53).any())
        if huge or not close.all():
            return None
        values = cast
    if dtype.kind == "f":
        gone = np.isnan(values)
        if np.count_nonzero(gone) and (gone & ~may_miss).any():
            raise _unexpected(table.names[int(np.argmax(gone & ~may_miss))])
    return values


def _unexpected(name: str) -> InputError:
    return InputError(
        f"column {name!r} is missing (NaN) in the instance, but no training row misses it; fill "
        "it in, or allow it with Tabular(data, missing=True) if the model can take it"
    )
