"""Tables that are pandas frames. pandas is imported only by those who already use it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.cells import as_bool, as_number, is_missing, plain
from credex.domains.tabular import arrays
from credex.domains.tabular.backend import Column, Kind
from credex.errors import InputError
from credex.typing import Floats, Ints, Masks, Native

__all__ = ["PandasForm"]


@dataclass(frozen=True, slots=True)
class PandasForm:
    """Columns are numpy arrays where pandas has them so, else pandas extension arrays.

    Attributes
    ----------
    columns
        The frame's own column index: labels, their type and its name.
    has_index
        Whether rows have labels other than the default 0, 1, 2, …
    """

    columns: Any
    names: tuple[str, ...]
    has_index: bool

    @classmethod
    def of(cls, data: Any) -> PandasForm:
        """Read the form of a frame."""
        names = tuple(_shown(label) for label in data.columns)
        return cls(data.columns, names, default_index(data.index) is not None)

    @property
    def labels(self) -> tuple[Any, ...]:
        """Column labels of any type."""
        return tuple(self.columns)

    def kind(self, column: Column, name: str) -> Kind:
        """How the column is treated; a categorical dtype is always a category."""
        if isinstance(column, np.ndarray):
            return arrays.kind(column, name)
        import pandas as pd

        dtype = column.dtype
        if isinstance(dtype, pd.SparseDtype):
            raise InputError(
                f"column {name!r} is sparse ({dtype}); make it dense first: "
                f"data[{name!r}].sparse.to_dense()"
            )
        if isinstance(dtype, pd.CategoricalDtype):
            return "category"
        if pd.api.types.is_bool_dtype(dtype):
            return "boolean"
        if pd.api.types.is_complex_dtype(dtype):
            raise InputError(f"column {name!r} holds complex numbers; split or drop the column")
        if pd.api.types.is_numeric_dtype(dtype):
            return "number"
        if _is_date(dtype):
            return "date"
        return "category"

    def take(self, column: Column, positions: Ints) -> Column:
        """Return the values at these positions."""
        return column.take(positions)

    def floats(self, column: Column) -> Floats:
        """Ordered numbers; missing is NaN."""
        if isinstance(column, np.ndarray):
            return arrays.floats(column)
        if not _is_date(column.dtype):
            out: Floats = column.to_numpy(dtype=np.float64, na_value=np.nan)
            return out
        values = _as_integers(column).astype(np.float64)
        values[self.missing(column)] = np.nan
        return values

    def objects(self, column: Column) -> list[Any]:
        """Return the values as Python objects."""
        return column.tolist() if isinstance(column, np.ndarray) else list(column)

    def missing(self, column: Column) -> Masks:
        """``(n,)`` which values are missing."""
        if isinstance(column, np.ndarray):
            return arrays.missing(column)
        return np.asarray(column.isna(), dtype=np.bool_)

    def from_floats(self, like: Column, values: Floats) -> Column:
        """Floats as a column of the same dtype."""
        if isinstance(like, np.ndarray):
            return arrays.from_floats(like, values)
        import pandas as pd

        gone = np.isnan(values)
        if _is_date(like.dtype):
            ticks = arrays.rounded(np.where(gone, 0.0, values), np.dtype(np.int64))
            ticks[gone] = np.iinfo(np.int64).min  # pandas' NaT
            return self.from_ticks(like, ticks)
        if not pd.api.types.is_integer_dtype(like.dtype):
            return pd.array(values, dtype=like.dtype)
        width = getattr(like.dtype, "numpy_dtype", np.dtype(np.int64))
        out = pd.array(arrays.rounded(np.where(gone, 0.0, values), width), dtype=like.dtype)
        out[gone] = pd.NA
        return out

    def ticks(self, column: Column) -> int | None:
        """Return the first date as its dtype's own integer."""
        if isinstance(column, np.ndarray) or _is_arrow(column.dtype):
            return None
        return int(_as_integers(column)[0])

    def from_ticks(self, like: Column, ticks: Ints) -> Column:
        """Dates from their own integers."""
        import pandas as pd

        dtype = like.dtype
        if isinstance(dtype, pd.PeriodDtype):
            periods: Any = pd.PeriodIndex  # its stubs miss from_ordinals
            return periods.from_ordinals(ticks, freq=dtype.freq).array
        if isinstance(dtype, pd.DatetimeTZDtype):
            naive = pd.DatetimeIndex(np.asarray(ticks).view(f"M8[{dtype.unit}]"))
            return naive.tz_localize("UTC").tz_convert(dtype.tz).array
        if _is_arrow(dtype):
            return pd.array(np.asarray(ticks).view("M8[us]"), dtype=dtype)
        return pd.array(np.asarray(ticks).view(dtype), dtype=dtype)

    def cell(self, like: Column, kind: Kind, value: Any, name: str) -> Column:
        """One value as a column of one row."""
        if isinstance(like, np.ndarray):
            return arrays.cell(like, kind, value, name)
        one = like[:1].copy()
        if is_missing(value):
            one[0] = None
            return one
        fitting = self._fitting(like, kind, value, name)
        try:
            one[0] = fitting
        except (TypeError, ValueError, OverflowError, KeyError) as error:
            categories = getattr(like.dtype, "categories", None)
            if categories is not None:
                known = ", ".join(repr(plain(c)) for c in list(categories)[:8])
                more = ", …" if len(categories) > 8 else ""
                raise InputError(
                    f"column {name!r} has no category {plain(value)!r}; it knows {known}{more}: "
                    "pass one of them, or add the category to the training data's dtype"
                ) from None
            raise InputError(
                f"column {name!r} has dtype {like.dtype}, which cannot hold {plain(value)!r} "
                f"({type(value).__name__}): {error}; pass a value of that dtype"
            ) from None
        return one

    @staticmethod
    def _fitting(like: Column, kind: Kind, value: Any, name: str) -> Any:
        """Return the value in the type the extension array wants, checked to be lossless."""
        import pandas as pd

        if kind == "date":
            if isinstance(value, bool | int | float | np.number) and not isinstance(
                value, np.timedelta64
            ):
                raise InputError(
                    f"column {name!r} has dtype {like.dtype}, but the instance has the number "
                    f"{value!r} there; pass a date"
                )
            plain_date = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
            return pd.Timestamp(value) if plain_date else value
        if isinstance(like.dtype, pd.CategoricalDtype):
            return plain(value)
        if kind == "boolean":
            return as_bool(value, name)
        if pd.api.types.is_numeric_dtype(like.dtype):
            number = as_number(value, name)
            if pd.api.types.is_integer_dtype(like.dtype):
                if number != number // 1:
                    raise arrays.not_whole(name, number, like.dtype)
                return int(number)
            return number
        return value

    def same(self, like: Column, other: Any) -> bool:
        """Whether the other column has the same dtype and needs no check of its values."""
        if isinstance(like, np.ndarray):
            return (
                isinstance(other, np.ndarray)
                and other.dtype == like.dtype
                and not like.dtype.hasobject
            )
        import pandas as pd

        if isinstance(like.dtype, pd.CategoricalDtype) or type(other) is not type(like):
            return False  # equal categorical dtypes may still number their categories differently
        return bool(other.dtype == like.dtype)

    def append(self, column: Column, one: Column) -> Column:
        """Return the column with one more row."""
        if isinstance(column, np.ndarray):
            return np.concatenate([column, one])
        out = column.take(np.append(np.arange(len(column)), 0))
        out[len(column)] = one[0]
        return out

    def frame(self, columns: Sequence[Column], index: Any) -> Native:
        """Columns as a frame with the training data's column index."""
        import pandas as pd

        if index is None:
            index = pd.RangeIndex(len(columns[0]))
        # A bare object array of strings would be guessed to be of dtype str.
        known = {
            j: pd.Series(column, index=index, dtype=object, copy=False)
            if isinstance(column, np.ndarray) and column.dtype == object
            else column
            for j, column in enumerate(columns)
        }
        data = pd.DataFrame(known, index=index, copy=False)
        data.columns = self.columns
        return data

    def block_frame(self, block: NDArray[Any], index: Any) -> Native:
        """Return a buffer as a frame, without a copy."""
        import pandas as pd

        return pd.DataFrame(block, columns=self.columns, index=index, copy=False)

    def take_index(self, index: Any, positions: Ints) -> Any:
        """Row labels at these positions; ``None`` is the default index."""
        return None if index is None else index.take(positions)

    def one_label(self, index: Any, label: Any) -> Any:
        """Return the instance's own label if it fits the index, else the first training label."""
        if index is None:
            return None
        import pandas as pd

        if label is not None:
            try:
                if isinstance(index, pd.MultiIndex):
                    return pd.MultiIndex.from_tuples([label], names=index.names)
                return pd.Index([label], name=index.name).astype(index.dtype)
            except (TypeError, ValueError):
                pass  # a label of another type, such as the name a user gave to the Series
        return index[:1]

    def concat(self, natives: Sequence[Native]) -> Native:
        """Stack frames; a default index stays a default index."""
        import pandas as pd

        return pd.concat(list(natives), ignore_index=not self.has_index)


def default_index(index: Any) -> Any:
    """Return the row labels, or ``None`` for an unnamed default index."""
    import pandas as pd

    plain_range = isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1
    return None if plain_range and index.name is None else index


def columns_of(data: Any) -> list[Column]:
    """All columns of a frame: plain numpy arrays where possible, else extension arrays."""
    out: list[Column] = []
    for j in range(data.shape[1]):
        series = data.iloc[:, j]
        numpy_backed = isinstance(series.dtype, np.dtype) and series.dtype.kind not in "mM"
        out.append(series.to_numpy() if numpy_backed else series.array)
    return out


def block_of(data: Any) -> NDArray[Any] | None:
    """Return the ``(n, p)`` buffer of a frame with one numeric or boolean numpy dtype."""
    dtypes = set(data.dtypes)
    if len(dtypes) != 1:
        return None
    dtype = dtypes.pop()
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iufb":
        return None
    return np.array(data.to_numpy(), dtype=dtype, order="C", copy=True)


def _shown(label: Any) -> str:
    return " / ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _is_arrow(dtype: Any) -> bool:
    return type(dtype).__name__ == "ArrowDtype"


def _is_date(dtype: Any) -> bool:
    import pandas as pd

    return bool(
        pd.api.types.is_datetime64_any_dtype(dtype)
        or pd.api.types.is_timedelta64_dtype(dtype)
        or isinstance(dtype, pd.PeriodDtype)
    )


def _as_integers(column: Column) -> Ints:
    if _is_arrow(column.dtype):
        filled = np.asarray(column.to_numpy(dtype="M8[us]", na_value=np.datetime64("NaT")))
        return filled.view(np.int64)
    return np.asarray(column.view("i8"), dtype=np.int64)
