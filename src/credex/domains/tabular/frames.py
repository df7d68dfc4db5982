"""Backends of pandas and polars frames. This module is imported by those who pass a frame."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from credex.cells import is_missing, plain
from credex.domains.tabular.columns import NAT, Backend, Column, Kind, as_scalar, listed, rounded
from credex.errors import InputError
from credex.typing import Floats, Ints, Native

__all__ = ["PandasBackend", "PolarsBackend", "read_pandas"]


@dataclass(frozen=True)
class PandasBackend(Backend):
    """Columns are numpy arrays where pandas has them so, else pandas extension arrays.

    ``columns`` is the frame's own column index; ``has_index`` says whether rows have labels other
    than the default 0, 1, 2, …
    """

    columns: Any
    has_index: bool

    def kind(self, column: Column, name: str) -> Kind:
        """Tell how a column is treated; a categorical dtype is always a category."""
        if isinstance(column, np.ndarray):
            return super().kind(column, name)
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
        if pd.api.types.is_numeric_dtype(dtype):
            return "number"
        return "date" if _is_date(dtype) else "category"

    def _numbers_to_floats(self, column: Column) -> Floats:
        if isinstance(column, np.ndarray):
            return super()._numbers_to_floats(column)
        if _is_date(column.dtype):  # of Arrow
            nat = np.datetime64("NaT")
            return self.floats(np.asarray(column.to_numpy(dtype="M8[us]", na_value=nat)))
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))

    def _floats_to_numbers(self, like: Column, values: Floats) -> Column:
        if isinstance(like, np.ndarray):
            return super()._floats_to_numbers(like, values)
        if _is_date(like.dtype):  # of Arrow
            return pd.array(self.from_floats(np.empty(0, "M8[us]"), values), dtype=like.dtype)
        if not pd.api.types.is_integer_dtype(like.dtype):
            return pd.array(values, dtype=like.dtype)
        gone = np.isnan(values)
        width = getattr(like.dtype, "numpy_dtype", np.dtype(np.int64))
        out = pd.array(rounded(np.where(gone, 0.0, values), width), dtype=like.dtype)
        out[gone] = pd.NA
        return out

    def ticks(self, column: Column) -> Ints | None:
        """``(n,)`` dates as the integers their dtype stores; ``None`` if it stores none."""
        if isinstance(column, np.ndarray):
            return super().ticks(column)
        if type(column.dtype).__name__ == "ArrowDtype" or not _is_date(column.dtype):
            return None
        return np.asarray(column.view("i8"), dtype=np.int64)

    def from_ticks(self, like: Column, ticks: Ints) -> Column:
        """Return dates of ``like``'s dtype from their integers."""
        dtype = like.dtype
        if isinstance(dtype, pd.PeriodDtype):
            periods: Any = pd.PeriodIndex  # its stubs miss from_ordinals
            return periods.from_ordinals(ticks, freq=dtype.freq).array
        if isinstance(dtype, pd.DatetimeTZDtype):
            naive = pd.DatetimeIndex(ticks.view(f"M8[{dtype.unit}]"))
            return naive.tz_localize("UTC").tz_convert(dtype.tz).array
        dates = ticks.view(dtype)
        return dates if isinstance(like, np.ndarray) else pd.array(dates, dtype=dtype)

    def cell(self, like: Column, kind: Kind, value: Any, name: str) -> Column:
        """Return one value as a column of one row, or raise an `InputError`."""
        if isinstance(like, np.ndarray):
            one = super().cell(like, kind, value, name)
            return one.astype(object) if kind == "boolean" and is_missing(value) else one
        one = like[:1].copy()
        if is_missing(value):
            one[0] = None
            return one
        fitting = _for_pandas(like, kind, value, name)
        try:
            one[0] = fitting
        except (TypeError, ValueError, OverflowError, KeyError) as error:
            categories = getattr(like.dtype, "categories", None)
            if categories is not None:
                raise InputError(
                    f"column {name!r} has no category {plain(value)!r}; it knows "
                    f"{listed([plain(c) for c in categories])}: pass one of them, or add the "
                    "category to the training data's dtype"
                ) from None
            raise InputError(
                f"column {name!r} has dtype {like.dtype}, which cannot hold {plain(value)!r} "
                f"({type(value).__name__}): {error}; pass a value of that dtype"
            ) from None
        return one

    def append(self, column: Column, one: Column) -> Column:
        """Return the column with one more row."""
        if isinstance(column, np.ndarray):
            return np.concatenate([column, one])
        return column.insert(len(column), one[0])

    def frame(self, data: NDArray[Any] | Sequence[Column], index: Any) -> Native:
        """Return an array (without a copy) or columns as a frame with the training columns."""
        if isinstance(data, np.ndarray):
            return pd.DataFrame(data, columns=self.columns, index=index, copy=False)
        if index is None:
            index = pd.RangeIndex(len(data[0]))
        # A bare object array of strings would be guessed to be of dtype str.
        known = {
            j: pd.Series(column, index=index, dtype=object, copy=False)
            if isinstance(column, np.ndarray) and column.dtype == object
            else column
            for j, column in enumerate(data)
        }
        out = pd.DataFrame(known, index=index, copy=False)
        out.columns = self.columns
        return out

    def index_of(self, label: Any, index: Any) -> Any:
        """Return an index of one label if it fits into ``index``, else of the first one there."""
        if index is None:
            return None
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
        return pd.concat(natives, ignore_index=not self.has_index)


def read_pandas(data: Any) -> tuple[PandasBackend, Sequence[Column] | NDArray[Any], Any]:
    """Return backend, columns and row labels; those of a default index are ``None``.

    The columns are one array if all have the same numeric or boolean numpy dtype.
    """
    index = data.index
    default = isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1
    if default and index.name is None:
        index = None
    labels = tuple(data.columns)
    names = tuple(" / ".join(map(str, c)) if isinstance(c, tuple) else str(c) for c in labels)
    backend = PandasBackend(names, labels, data.columns, index is not None)
    dtypes = set(data.dtypes)
    if len(dtypes) == 1 and all(isinstance(t, np.dtype) and t.kind in "iufb" for t in dtypes):
        return backend, data.to_numpy().T, index
    columns = [data.iloc[:, j] for j in range(data.shape[1])]
    # Dates stay extension arrays: pandas keeps their time zones and units there.
    arrays = [isinstance(c.dtype, np.dtype) and c.dtype.kind not in "mM" for c in columns]
    native = [c.to_numpy() if a else c.array for c, a in zip(columns, arrays, strict=True)]
    return backend, native, index


def _for_pandas(like: Column, kind: Kind, value: Any, name: str) -> Any:
    """Return the value in the type the extension array wants, checked to be lossless."""
    if kind == "date":
        number = isinstance(value, bool | int | float | np.number)
        if number and not isinstance(value, np.timedelta64):
            raise InputError(
                f"column {name!r} has dtype {like.dtype}, but the instance has the number "
                f"{value!r} there; pass a date"
            )
        plain_date = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
        return pd.Timestamp(value) if plain_date else value
    if kind == "category":
        return plain(value) if isinstance(like.dtype, pd.CategoricalDtype) else value
    integers = pd.api.types.is_integer_dtype(like.dtype)
    return as_scalar(kind, value, name, like.dtype, integers=integers)


def _is_date(dtype: Any) -> bool:
    return bool(
        pd.api.types.is_datetime64_any_dtype(dtype)
        or pd.api.types.is_timedelta64_dtype(dtype)
        or isinstance(dtype, pd.PeriodDtype)
    )


class PolarsBackend(Backend):
    """Columns are polars Series; there are no row labels and null is native to every dtype."""

    def kind(self, column: Column, name: str) -> Kind:
        """Tell how a column is treated."""
        dtype = column.dtype
        if dtype.is_nested():
            raise InputError(
                f"column {name!r} has dtype {dtype}; unnest it into plain columns, or drop it"
            )
        if dtype.is_numeric():
            return "number"
        if dtype.is_temporal():
            return "date"
        return "boolean" if str(dtype) == "Boolean" else "category"

    def _numbers_to_floats(self, column: Column) -> Floats:
        import polars as pl

        return np.array(column.cast(pl.Float64).fill_null(float("nan")).to_numpy())

    def _floats_to_numbers(self, like: Column, values: Floats) -> Column:
        import polars as pl

        dtype, gone = like.dtype, np.isnan(values)
        if dtype.is_float():
            return pl.Series(like.name, values).cast(dtype)
        if dtype.is_decimal():
            numbers = pl.Series(like.name, values).cast(dtype, strict=False)
        else:
            width = "int64" if str(dtype).endswith("128") else str(dtype).lower()
            numbers = pl.Series(like.name, rounded(np.where(gone, 0.0, values), np.dtype(width)))
        return numbers.set(pl.Series(gone), None).cast(dtype)

    def ticks(self, column: Column) -> Ints | None:
        """``(n,)`` dates as the integers their dtype stores; ``None`` if it stores none."""
        import polars as pl

        if not column.dtype.is_temporal():
            return None
        return np.array(column.to_physical().cast(pl.Int64).fill_null(NAT).to_numpy())

    def from_ticks(self, like: Column, ticks: Ints) -> Column:
        """Return dates of ``like``'s dtype from their integers."""
        import polars as pl

        series = pl.Series(like.name, ticks).set(pl.Series(ticks == NAT), None)
        return series.cast(like[:0].to_physical().dtype).cast(like.dtype)

    def cell(self, like: Column, kind: Kind, value: Any, name: str) -> Column:
        """Return one value as a column of one row, or raise an `InputError`."""
        import polars as pl

        fitting = None if is_missing(value) else _for_polars(like, kind, value, name)
        if like.dtype.is_float() and fitting is None and value is not None:
            fitting = float("nan")
        with suppress(TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            one = pl.Series(like.name, [fitting], dtype=like.dtype, strict=True)
            if one.dtype == like.dtype:  # a length of time given for a date keeps its own
                return one
        known = list(like.dtype.categories) if isinstance(like.dtype, pl.Enum) else None
        hint = "" if known is None else f"; it knows {listed(known)}"
        raise InputError(
            f"column {name!r} has dtype {like.dtype}, which cannot hold {plain(value)!r} "
            f"({type(value).__name__}){hint}; pass a value of that dtype"
        )

    def append(self, column: Column, one: Column) -> Column:
        """Return the column with one more row."""
        import polars as pl

        return pl.concat([column, one])

    def frame(self, data: NDArray[Any] | Sequence[Column], index: Any) -> Native:  # noqa: ARG002
        """Return columns as a frame."""
        import polars as pl

        return pl.DataFrame([c.alias(name) for c, name in zip(data, self.names, strict=True)])

    def concat(self, natives: Sequence[Native]) -> Native:
        """Stack frames."""
        import polars as pl

        return pl.concat(natives)


def _for_polars(like: Column, kind: Kind, value: Any, name: str) -> Any:
    """Return the value in the Python type polars wants, checked to be lossless."""
    value = plain(value)
    if kind in ("number", "boolean"):
        return as_scalar(kind, value, name, like.dtype, integers=like.dtype.is_integer())
    if kind == "date":
        return _polars_date(like, value, name)
    if str(like.dtype).startswith("Categorical"):
        known = like.unique().to_list()
        if value not in known:
            raise InputError(
                f"column {name!r} has no category {value!r}; it knows "
                f"{listed(sorted(v for v in known if v is not None))}: pass one of them, or use a "
                "String column if new values are expected"
            )
    return value


def _polars_date(like: Column, value: Any, name: str) -> Any:
    """Return a date, datetime, duration or time as polars takes it."""
    dtype = str(like.dtype)
    if isinstance(value, str):
        with suppress(ValueError):
            kinds: dict[str, Any] = {"Date": dt.date, "Time": dt.time}
            value = kinds.get(dtype, dt.datetime).fromisoformat(value)
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime(warn=False)
    if hasattr(value, "to_pytimedelta"):
        value = value.to_pytimedelta()
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = value.astype("M8[us]" if isinstance(value, np.datetime64) else "m8[us]").item()
    if dtype == "Date" and isinstance(value, dt.datetime):
        if value.time() == dt.time():
            return value.date()
    elif isinstance(value, dt.date | dt.time | dt.timedelta):
        zone = getattr(like.dtype, "time_zone", None)
        if not isinstance(value, dt.datetime) or (value.tzinfo is None) == (zone is None):
            return value
    raise InputError(
        f"column {name!r} has dtype {like.dtype}, but the instance has {value!r} "
        f"({type(value).__name__}) there; pass a date of the same sort"
    )
