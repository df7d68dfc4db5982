"""Tables that are polars frames. polars is imported only by those who already use it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.cells import as_bool, as_number, is_missing, plain
from credex.domains.tabular.backend import NAT, Backend, Column, Kind, as_integer, listed, rounded
from credex.errors import InputError
from credex.typing import Floats, Ints, Native

__all__ = ["PolarsBackend"]


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

        fitting = None if is_missing(value) else _fitting(like, kind, value, name)
        if like.dtype.is_float() and fitting is None and value is not None:
            fitting = float("nan")
        try:
            return pl.Series(like.name, [fitting], dtype=like.dtype, strict=True)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            known = list(like.dtype.categories) if isinstance(like.dtype, pl.Enum) else None
            hint = "" if known is None else f"; it knows {listed(known)}"
            raise InputError(
                f"column {name!r} has dtype {like.dtype}, which cannot hold {plain(value)!r} "
                f"({type(value).__name__}){hint}; pass a value of that dtype"
            ) from None

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


def _fitting(like: Column, kind: Kind, value: Any, name: str) -> Any:
    """Return the value in the Python type polars wants, checked to be lossless."""
    value = plain(value)
    if kind == "number":
        whole = like.dtype.is_integer()
        return as_integer(value, name, like.dtype) if whole else as_number(value, name)
    if kind == "boolean":
        return as_bool(value, name)
    if kind == "date":
        return _date(like, value, name)
    if str(like.dtype).startswith("Categorical"):
        known = like.unique().to_list()
        if value not in known:
            raise InputError(
                f"column {name!r} has no category {value!r}; it knows "
                f"{listed(sorted(v for v in known if v is not None))}: pass one of them, or use a "
                "String column if new values are expected"
            )
    return value


def _date(like: Column, value: Any, name: str) -> Any:
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
