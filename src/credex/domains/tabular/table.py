"""`Table`: rows of a numpy array, a pandas frame or a polars frame behind one narrow interface.

Rows are made by *taking*: every perturbed value is a real value of the training data or of the
instance, picked by position, so dtypes survive. Tables with one numeric dtype live in a single
``(n, p)`` buffer and are mixed by one `numpy.where`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.domains.tabular.backend import Column, Form, Kind
from credex.domains.tabular.indices import Places
from credex.domains.tabular.numpy_backend import NumpyForm
from credex.errors import InputError
from credex.typing import Floats, Ints, Masks, Native

__all__ = ["Table", "is_pandas", "is_polars", "listed"]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows in their native columns.

    Attributes
    ----------
    form
        The library, column labels and index style.
    kinds
        How each of the p columns is treated by default.
    columns
        p native columns of the same length; views of ``block`` where there is one, or simply its
        transpose.
    block
        ``(n, p)`` buffer of a table with a single dtype, or ``None``.
    index
        Row labels, or ``None`` for none (or pandas' default ones).
    """

    form: Form
    kinds: tuple[Kind, ...]
    columns: tuple[Column, ...] | NDArray[Any]
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
        form: Form
        block: NDArray[Any] | None
        index: Any = None
        if isinstance(data, np.ndarray):
            _check_shape(data)
            block = np.array(data, order="C", copy=True)
            form, columns = NumpyForm.of(block), _views(block)
        elif is_pandas(data, "DataFrame"):
            from credex.domains.tabular.pandas_backend import (
                PandasForm,
                block_of,
                columns_of,
                default_index,
            )

            _check_shape(data)
            _check_names([*data.columns])
            form, index, block = PandasForm.of(data), default_index(data.index), block_of(data)
            columns = _views(block) if block is not None else columns_of(data.copy(deep=True))
        elif is_polars(data, "DataFrame"):
            from credex.domains.tabular.polars_backend import PolarsForm

            _check_shape(data)
            form, block, columns = PolarsForm.of(data), None, data.get_columns()
        else:
            raise InputError(
                f"the training data are a {type(data).__name__}; pass a 2-D numpy array, a pandas "
                "DataFrame or a polars DataFrame"
            )
        _check_names(form.names)
        if block is not None and block.dtype.kind != "O":
            kinds = (form.kind(columns[0], form.names[0]),) * len(columns)
        else:
            kinds = tuple(form.kind(c, n) for c, n in zip(columns, form.names, strict=True))
        return cls(form, kinds, tuple(columns), block, index)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names as they are shown."""
        return self.form.names

    @property
    def n_columns(self) -> int:
        """How many columns."""
        return len(self.columns)

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return len(self.columns[0])

    def floats(self, j: int) -> Floats:
        """``(n,)`` column j as ordered numbers; missing is NaN. Only for numbers and dates."""
        return self.form.floats(self.columns[j])

    def objects(self, j: int) -> list[Any]:
        """Column j as n Python objects."""
        return self.form.objects(self.columns[j])

    def first_row(self) -> list[Any]:
        """Return the p values of the first row as Python objects."""
        if self.block is not None and self.block.dtype.kind in "iufb":
            row: list[Any] = self.block[0].tolist()
            return row
        return [self.objects(j)[0] for j in range(self.n_columns)]

    def missing(self, j: int) -> Masks:
        """``(n,)`` which values of column j are missing."""
        return self.form.missing(self.columns[j])

    def column_from_floats(self, j: int, values: Floats) -> Column:
        """``(m,)`` floats as a native column of the dtype of column j."""
        return self.form.from_floats(self.columns[j], values)

    def native(self) -> Native:
        """Return the rows in the user's own form; a fresh copy where the form shares memory."""
        if self.block is not None:
            return self.form.block_frame(self.block.copy(), self.index)
        everything = np.arange(self.n_rows)
        return self.form.frame([self.form.take(c, everything) for c in self.columns], self.index)

    def take(self, positions: Ints) -> Table:
        """Return the rows at these positions."""
        index = self.form.take_index(self.index, positions)
        if self.block is not None:
            return self.with_block(self.block[positions], index)
        columns = tuple(self.form.take(column, positions) for column in self.columns)
        return replace(self, columns=columns, index=index)

    def with_block(self, block: NDArray[Any], index: Any) -> Table:
        """Return the same table with other rows in one buffer."""
        return Table(self.form, self.kinds, block.T, block, index)

    def without_block(self) -> Table:
        """Return the same rows column by column, for when one column changes its dtype."""
        if self.block is None:
            return self
        return replace(self, block=None, columns=tuple(c.copy() for c in self.columns))

    def widened(self, x: Table) -> Table:
        """Return these rows in the dtypes they have once the instance stands among them."""
        if x.block is not None or (self.block is None and not self._wider(x)):
            return self
        everything = np.arange(self.n_rows)
        apart = self.without_block()
        columns = tuple(
            apart.form.take(apart.form.append(column, one), everything)
            for column, one in zip(apart.columns, x.columns, strict=True)
        )
        return replace(apart, columns=columns)

    def _holds(self, x: Table) -> bool:
        """Whether both are arrays and a row of ``x`` can simply be written into this one's."""
        if not isinstance(self.form, NumpyForm) or self.block is None or x.block is None:
            return False
        return bool(self.block.dtype == x.block.dtype)

    def _wider(self, x: Table) -> bool:
        pairs = zip(self.columns, x.columns, strict=True)
        return any(column.dtype != one.dtype for column, one in pairs)

    def cross(self, x: Table, masks: Masks) -> Native:
        """All n·B rows, mask-major: x where the mask is true, else each of these B rows.

        Parameters
        ----------
        x
            The instance, one row.
        masks
            ``(n, p)`` over columns.
        """
        n, rows = len(masks), self.n_rows
        index = None
        if self.index is not None:
            index = self.form.take_index(self.index, np.tile(np.arange(rows), n))
        if self.block is not None and x.block is not None:
            if rows == 1:
                return self.form.block_frame(mixed(masks, x.block, self.block), index)
            # Long inner loops: B·p contiguous values per mask.
            wide = mixed(
                np.tile(masks, (1, rows)), np.tile(x.block[0], rows), self.block.reshape(-1)
            )
            return self.form.block_frame(wide.reshape(n * rows, self.n_columns), index)
        own = np.arange(rows)
        columns: list[Column] = []
        for j, (column, one) in enumerate(zip(self.columns, x.columns, strict=True)):
            mask = masks[:, j, None]
            if isinstance(column, np.ndarray):
                columns.append(np.where(mask, one, column).reshape(-1))
            else:
                positions = np.where(mask, rows, own).reshape(-1)
                columns.append(self.form.take(self.form.append(column, one), positions))
        return self.form.frame(columns, index)

    def choose(self, x: Table, masks: Masks, positions: Ints) -> Native:
        """Return m rows: x where ``masks`` ``(m, p)`` is true, else row ``positions[i]``."""
        index = self.form.take_index(self.index, positions)
        if self.block is not None and x.block is not None:
            return self.form.block_frame(mixed(masks, x.block, self.block[positions]), index)
        columns = [
            self.form.take(
                self.form.append(column, one), np.where(masks[:, j], self.n_rows, positions)
            )
            for j, (column, one) in enumerate(zip(self.columns, x.columns, strict=True))
        ]
        return self.form.frame(columns, index)

    def gather(
        self,
        places: Places,
        changed: dict[int, Column],
        then: Table | None = None,
        times: int = 0,
    ) -> Native:
        """Each of the ``(m, p)`` values from its own place; some columns are given.

        Row labels are those of the rows that the first column comes from. ``then``: one more row,
        ``times`` times behind, which costs no copy of the others if the tables are arrays of one
        dtype.
        """
        if then is not None and not self._holds(then):
            return self.form.concat([self.gather(places, changed), *[then.native()] * times])
        index = None if self.index is None else self.form.take_index(self.index, places.column(0))
        if self.block is not None:
            m, p = places.cells.shape
            wide = np.empty((m + times, p), dtype=self.block.dtype)
            places.take(self.block, out=wide[:m])
            for j, column in changed.items():
                wide[:m, j] = column
            if then is not None:
                wide[m:] = then.block
            return self.form.block_frame(wide, index)
        columns = [
            changed[j] if j in changed else self.form.take(column, places.column(j))
            for j, column in enumerate(self.columns)
        ]
        return self.form.frame(columns, index)


def mixed(masks: Masks, own: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """``np.where(masks, own, other)``, exact to the bit.

    On random masks ``where`` takes the wrong branch half of the time. Numbers of eight bytes are
    therefore chosen without branches: other XOR (mask · (own XOR other)).
    """
    if own.dtype != other.dtype or own.dtype.itemsize != 8 or own.dtype.kind not in "iufmM":
        return np.where(masks, own, other)
    base = other.view(np.int64)
    out = np.multiply(masks, own.view(np.int64) ^ base)
    out ^= base
    return np.asarray(out.view(own.dtype))


def is_pandas(data: Any, name: str) -> bool:
    """Whether data are a pandas object of that class; never imports pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, getattr(pandas, name))


def is_polars(data: Any, name: str) -> bool:
    """Whether data are a polars object of that class; never imports polars."""
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(data, getattr(polars, name))


def listed(values: Sequence[Any], most: int = 8) -> str:
    """Return a readable list that does not run away."""
    return ", ".join(map(repr, values[:most])) + (", …" if len(values) > most else "")


def _views(block: NDArray[Any]) -> list[Column]:
    return list(block.T)


def _check_shape(data: Any) -> None:
    if data.ndim != 2 if isinstance(data, np.ndarray) else False:
        raise InputError(
            f"the training data have {data.ndim} dimension(s), shape {data.shape}; pass a table of "
            "rows and columns (use .reshape(-1, 1) for a single column)"
        )
    rows, columns = data.shape
    if rows == 0 or columns == 0:
        raise InputError(
            f"the training data have {rows} rows and {columns} columns; pass at least one of each"
        )


def _check_names(labels: Sequence[Any]) -> None:
    repeated = [label for label, count in Counter(labels).items() if count > 1]
    if repeated:
        raise InputError(
            f"column names repeat: {listed(repeated)}; rename the columns so that each is unique"
        )
