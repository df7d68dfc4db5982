"""Tables that are polars frames. polars is imported only by those who already use it."""

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

__all__ = ["PolarsForm"]

_WIDTHS = {"8": np.int8, "16": np.int16, "32": np.int32, "64": np.int64}
_UNSIGNED = {"8": np.uint8, "16": np.uint16, "32": np.uint32, "64": np.uint64}


@dataclass(frozen=True, slots=True)
class PolarsForm:
    """Columns are polars Series; there are no row labels and null is native to every dtype."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, data: Any) -> PolarsForm:
        """Read the form of a frame."""
        return cls(tuple(data.columns))

    @property
    def labels(self) -> tuple[Any, ...]:
        """The names."""
        return self.names

    def kind(self, column: Column, name: str) -> Kind:
        """How the column is treated."""
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

    def take(self, column: Column, positions: Ints) -> Column:
        """Return the values at these positions."""
        return column.gather(positions)

    def floats(self, column: Column) -> Floats:
        """Ordered numbers; missing is NaN."""
        import polars as pl

        numbers = column.to_physical() if column.dtype.is_temporal() else column
        out = numbers.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        return np.array(out, dtype=np.float64)

    def objects(self, column: Column) -> list[Any]:
        """Return the values as Python objects."""
        values: list[Any] = column.to_list()
        return values

    def missing(self, column: Column) -> Masks:
        """``(n,)`` which values are null or NaN."""
        gone = column.is_null()
        if column.dtype.is_float():
            gone = gone | column.is_nan().fill_null(value=True)
        return np.array(gone.to_numpy(), dtype=np.bool_)

    def from_floats(self, like: Column, values: Floats) -> Column:
        """Floats as a column of the same dtype."""
        import polars as pl

        dtype = like.dtype
        if dtype.is_float() or dtype.is_decimal():
            out = pl.Series(like.name, values).cast(dtype, strict=False)
            return out if dtype.is_float() else out.set(pl.Series(np.isnan(values)), None)
        gone = np.isnan(values)
        table = _UNSIGNED if str(dtype).startswith("U") else _WIDTHS
        width = table.get("".join(c for c in str(dtype) if c.isdigit()), np.int64)
        if dtype.is_temporal():
            width = np.int32 if str(dtype) == "Date" else np.int64
        whole = arrays.rounded(np.where(gone, 0.0, values), np.dtype(width))
        series = pl.Series(like.name, whole).set(pl.Series(gone), None)
        return self._dates(like, series) if dtype.is_temporal() else series.cast(dtype)

    @staticmethod
    def _dates(like: Column, ticks: Column) -> Column:
        return ticks.cast(like.to_physical().dtype).cast(like.dtype)

    def ticks(self, column: Column) -> int | None:
        """Return the first date as its dtype's own integer."""
        value = column.to_physical()[0]
        return None if value is None else int(value)

    def from_ticks(self, like: Column, ticks: Ints) -> Column:
        """Dates from their own integers."""
        import polars as pl

        return self._dates(like, pl.Series(like.name, np.asarray(ticks, dtype=np.int64)))

    def cell(self, like: Column, kind: Kind, value: Any, name: str) -> Column:
        """One value as a column of one row."""
        import polars as pl

        fitting = None if is_missing(value) else self._fitting(like, kind, value, name)
        if like.dtype.is_float() and fitting is None and value is not None:
            fitting = float("nan")
        try:
            one = pl.Series(like.name, [fitting], dtype=like.dtype, strict=True)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            known = getattr(like.dtype, "categories", None)
            hint = (
                f"; it knows {', '.join(map(repr, list(known)[:8]))}" if known is not None else ""
            )
            if str(like.dtype).startswith("Categorical"):
                hint = ""
            raise InputError(
                f"column {name!r} has dtype {like.dtype}, which cannot hold {plain(value)!r} "
                f"({type(value).__name__}){hint}; pass a value of that dtype"
            ) from None
        return one

    @staticmethod
    def _fitting(like: Column, kind: Kind, value: Any, name: str) -> Any:
        """Return the value in the Python type polars wants, checked to be lossless."""
        value = plain(value)
        if kind == "number":
            number = as_number(value, name)
            if like.dtype.is_integer():
                if number != number // 1:
                    raise arrays.not_whole(name, number, like.dtype)
                return int(number)
            return number
        if kind == "boolean":
            return as_bool(value, name)
        if kind == "date":
            return _moment(like, value, name)
        if str(like.dtype).startswith("Categorical"):
            known = like.unique().to_list()
            if value not in known:
                shown = ", ".join(sorted(repr(v) for v in known if v is not None)[:8])
                raise InputError(
                    f"column {name!r} has no category {value!r}; it knows {shown}: pass one of "
                    "them, or use a String column if new values are expected"
                )
        return value

    def same(self, like: Column, other: Any) -> bool:
        """Whether the other column has the same dtype (categories are checked by value)."""
        return (
            type(other) is type(like)
            and other.dtype == like.dtype
            and not str(like.dtype).startswith(("Categorical", "Object"))
        )

    def append(self, column: Column, one: Column) -> Column:
        """Return the column with one more row."""
        import polars as pl

        return pl.concat([column, one])

    def frame(self, columns: Sequence[Column], index: None) -> Native:  # noqa: ARG002
        """Columns as a frame."""
        import polars as pl

        return pl.DataFrame(
            [column.alias(name) for column, name in zip(columns, self.names, strict=True)]
        )

    def block_frame(self, block: NDArray[Any], index: None) -> Native:
        """Polars keeps columns apart, so there is no buffer to wrap."""
        raise NotImplementedError

    def take_index(self, index: None, positions: Ints) -> None:
        """Polars has no row labels."""

    def one_label(self, index: None, label: Any) -> None:
        """Polars has no row labels."""

    def concat(self, natives: Sequence[Native]) -> Native:
        """Stack frames."""
        import polars as pl

        return pl.concat(list(natives))


def _moment(like: Column, value: Any, name: str) -> Any:  # noqa: C901 - one line a type
    """Return a date, datetime, duration or time as polars takes it."""
    if isinstance(value, str):
        try:
            text = str(like.dtype)
            value = (
                dt.date.fromisoformat(value)
                if text == "Date"
                else dt.time.fromisoformat(value)
                if text == "Time"
                else dt.datetime.fromisoformat(value)
            )
        except ValueError:
            value = str(value)
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime(warn=False)
    if hasattr(value, "to_pytimedelta"):
        value = value.to_pytimedelta()
    if isinstance(value, np.datetime64):
        value = value.astype("M8[us]").item()
    if isinstance(value, np.timedelta64):
        value = value.astype("m8[us]").item()
    if str(like.dtype) == "Date" and isinstance(value, dt.datetime):
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
