"""`Backend`: what is asked of a table library. This one is numpy; pandas and polars extend it.

A *column* is a one-dimensional array of one dtype, read with ``column[rows]``: a numpy array, a
pandas extension array or a polars Series. Every method keeps the dtype, so that a model sees rows
that look like those it was fitted on.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from credex.cells import as_bool, as_number, is_missing, plain
from credex.errors import InputError
from credex.typing import Floats, Ints, Native

__all__ = ["NAT", "Backend", "Column", "Kind", "as_integer", "listed", "rounded"]

Column: TypeAlias = Any
"""One native column: a numpy array, a pandas extension array or a polars Series."""

Kind: TypeAlias = Literal["number", "category", "boolean", "date"]
"""How a column is treated: numbers and dates are ordered, the others are not."""

NAT = int(np.iinfo(np.int64).min)
"""The integer of a missing date."""

_KINDS: dict[str, Kind] = {
    **dict.fromkeys("iuf", "number"),
    **dict.fromkeys("UST", "category"),
    **dict.fromkeys("mM", "date"),
    "b": "boolean",
}
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the zero of naive datetimes
_AWARE_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TICK = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class Backend:
    """Tables that are numpy arrays.

    Attributes
    ----------
    names
        p column names as they are shown.
    labels
        p column labels as the library has them.
    """

    names: tuple[str, ...]
    labels: tuple[Any, ...]

    def kind(self, column: Column, name: str) -> Kind:
        """Tell how a column is treated; object columns are judged by their values."""
        if column.dtype.kind == "O":
            return _object_kind(column)
        if column.dtype.kind not in _KINDS:
            raise InputError(
                f"column {name!r} has dtype {column.dtype}; numbers, booleans, text, dates and "
                "objects work: convert or drop the column"
            )
        return _KINDS[column.dtype.kind]

    def floats(self, column: Column) -> Floats:
        """``(n,)`` values of a number or date column; missing is NaN."""
        ticks = self.ticks(column)
        if ticks is None:
            return self._numbers_to_floats(column)
        out = ticks.astype(np.float64)
        out[ticks == NAT] = np.nan
        return out

    def from_floats(self, like: Column, values: Floats) -> Column:
        """Return floats as a column of ``like``'s dtype: integers are rounded, dates are dates.

        A numpy array of integers cannot hold NaN: the result is then float64.
        """
        if self.ticks(like[:0]) is None:
            return self._floats_to_numbers(like, values)
        gone = np.isnan(values)
        ticks = rounded(np.where(gone, 0.0, values), np.dtype(np.int64))
        ticks[gone] = NAT
        return self.from_ticks(like, ticks)

    def _numbers_to_floats(self, column: Column) -> Floats:
        """`floats` of a column that holds numbers, or dates that are Python objects."""
        if column.dtype.kind != "O":
            return np.asarray(column.astype(np.float64))
        return np.array([np.nan if is_missing(v) else _number(v) for v in column.tolist()], float)

    def _floats_to_numbers(self, like: Column, values: Floats) -> Column:
        """`from_floats` for a column that holds numbers, or dates that are Python objects."""
        if like.dtype.kind == "f":
            return values.astype(like.dtype)
        if like.dtype.kind in "iu":
            return values.copy() if np.isnan(values).any() else rounded(values, like.dtype)
        known = [value for value in like.tolist() if not is_missing(value)]
        whole = all(isinstance(value, int | np.integer) for value in known)
        out = np.empty(len(values), dtype=object)
        out[:] = [
            None if is_missing(value) else _object_like(known[0], value, whole=whole)
            for value in values.tolist()
        ]
        return out

    def ticks(self, column: Column) -> Ints | None:
        """``(n,)`` dates as the integers their dtype stores; ``None`` if it stores none."""
        return column.view(np.int64) if column.dtype.kind in "mM" else None

    def from_ticks(self, like: Column, ticks: Ints) -> Column:
        """Return dates of ``like``'s dtype from their integers."""
        return ticks.view(like.dtype)

    def cell(  # noqa: PLR0911 - one line a type
        self, like: Column, kind: Kind, value: Any, name: str
    ) -> Column:
        """Return one value as a column of one row; only a missing value may widen the dtype.

        Raises
        ------
        InputError
            Naming the column and the value that does not fit.
        """
        dtype = like.dtype
        if dtype.kind == "O":
            return _object_cell(kind, value, name)
        if is_missing(value):
            missing = {"number": np.nan, "boolean": np.nan, "date": "NaT", "category": None}[kind]
            return np.array([missing], dtype=dtype if dtype.kind in "fmM" else None)
        if kind == "boolean":
            return np.array([as_bool(value, name)])
        if kind == "date":
            return _date_cell(dtype, value, name)
        if kind == "number" and dtype.kind in "iu":
            return np.array([as_integer(value, name, dtype)], dtype=dtype)
        if kind == "number":
            number = as_number(value, name)
            with np.errstate(over="ignore"):
                out = np.array([number], dtype=np.float64).astype(dtype)
            if np.isinf(out[0]) and abs(number) != np.inf:
                raise InputError(f"column {name!r} is {dtype}, which cannot hold {value!r}")
            return out
        value = plain(value)
        if not isinstance(value, str | bytes):
            raise InputError(
                f"column {name!r} holds text, but the instance has {value!r} "
                f"({type(value).__name__}) there; pass a string"
            )
        return np.array([value])

    def append(self, column: Column, one: Column) -> Column:
        """Return the column with one more row; the dtype is wider only if the row needs it."""
        return np.concatenate([column, one])

    def frame(self, data: NDArray[Any] | Sequence[Column], index: Any) -> Native:  # noqa: ARG002
        """Return an ``(n, p)`` array (without a copy) or p columns as a native table."""
        return data if isinstance(data, np.ndarray) else np.column_stack(data)

    def concat(self, natives: Sequence[Native]) -> Native:
        """Stack native tables."""
        return np.concatenate(natives)


def listed(values: Sequence[Any]) -> str:
    """Return the first eight values as text."""
    return ", ".join(map(repr, values[:8])) + (", …" if len(values) > 8 else "")


def rounded(values: Floats, dtype: np.dtype[Any]) -> NDArray[Any]:
    """``(n,)`` finite floats as the nearest integers that the dtype can hold."""
    info = np.iinfo(dtype)
    whole = np.rint(values)
    out: NDArray[Any] = np.empty(len(whole), dtype=dtype)
    # float(info.max) of 64-bit types is one too large, so the ends are set rather than cast.
    low, high = whole <= float(info.min), whole >= float(info.max)
    middle = ~(low | high)
    out[low], out[high], out[middle] = info.min, info.max, whole[middle].astype(dtype)
    return out


def as_integer(value: Any, name: str, dtype: Any) -> int:
    """Return a whole number, in the range of a numpy dtype; other libraries check ranges."""
    number = as_number(value, name)
    info = np.iinfo(dtype) if isinstance(dtype, np.dtype) else None
    if number != number // 1 or (info is not None and not info.min <= number <= info.max):
        raise InputError(
            f"column {name!r} holds integers ({dtype}), but the instance has {plain(value)!r} "
            "there; pass a whole number in its range, or fit the model and the domain on a float "
            "column"
        )
    return int(number)


def _object_kind(column: NDArray[Any]) -> Kind:
    values = [value for value in column.tolist() if not is_missing(value)]
    types = set(map(type, values))

    def only(*classes: type, but: tuple[type, ...] = ()) -> bool:
        return all(issubclass(t, classes) and not issubclass(t, but) for t in types)

    if not types:
        return "category"
    if only(bool, np.bool_):
        return "boolean"
    if only(int, float, Decimal, np.number, but=(bool, np.timedelta64)):
        return "number"
    if only(dt.datetime):
        return "date" if len({value.tzinfo is None for value in values}) == 1 else "category"
    return "date" if only(dt.date, but=(dt.datetime,)) or only(dt.timedelta) else "category"


def _number(value: Any) -> float:
    """One object as a float: microseconds since 1970, days, microseconds, or the number."""
    if isinstance(value, dt.datetime):
        return (value - (_EPOCH if value.tzinfo is None else _AWARE_EPOCH)) / _TICK
    if isinstance(value, dt.date):
        return float(value.toordinal())
    return value / _TICK if isinstance(value, dt.timedelta) else float(value)


def _object_like(first: Any, value: float, *, whole: bool) -> Any:
    """Inverse of `_number` for a column that holds values like ``first``."""
    if isinstance(first, dt.datetime):
        since = round(value) * _TICK
        aware = first.tzinfo is not None
        moment = (_AWARE_EPOCH + since).astimezone(first.tzinfo) if aware else _EPOCH + since
        stamp: Any = type(first)
        return stamp(moment) if hasattr(first, "to_datetime64") else moment  # pandas.Timestamp
    if isinstance(first, dt.date):
        return dt.date.fromordinal(round(value))
    if isinstance(first, dt.timedelta):
        return round(value) * _TICK
    if isinstance(first, Decimal):
        return Decimal(repr(value))
    return round(value) if whole else value


def _object_cell(kind: Kind, value: Any, name: str) -> NDArray[Any]:
    """Let an object column take any hashable value of the kind it was found to hold."""
    out = np.empty(1, dtype=object)
    out[0] = value
    if is_missing(value):
        return out
    if kind == "number":
        as_number(value, name)
    elif kind == "boolean":
        out[0] = as_bool(value, name)
    elif kind == "date" and not isinstance(value, dt.date | dt.timedelta):
        raise InputError(
            f"column {name!r} holds dates, but the instance has {value!r} "
            f"({type(value).__name__}) there; pass a date"
        )
    try:
        hash(value)
    except TypeError:
        raise InputError(
            f"column {name!r}: {value!r} cannot be compared ({type(value).__name__} is not "
            "hashable); pass text or a number"
        ) from None
    return out


def _date_cell(dtype: np.dtype[Any], value: Any, name: str) -> NDArray[Any]:
    if dtype.kind == "M" and hasattr(value, "to_datetime64") and value.tzinfo is None:
        value = value.to_datetime64()
    if dtype.kind == "m" and hasattr(value, "to_timedelta64"):
        value = value.to_timedelta64()
    allowed = (str, dt.date, np.datetime64) if dtype.kind == "M" else (dt.timedelta, np.timedelta64)
    if isinstance(value, allowed) and getattr(value, "tzinfo", None) is None:
        try:
            return np.array([value]).astype(dtype)
        except (ValueError, TypeError):
            pass  # reported below with the column's name
    raise InputError(
        f"column {name!r} has dtype {dtype}, but the instance has {value!r} "
        f"({type(value).__name__}) there; pass a date of the same sort"
    )
