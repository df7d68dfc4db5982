"""The column verbs on one-dimensional numpy arrays of any dtype.

Both numpy tables and the numpy-backed columns of pandas frames use these.
"""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.cells import as_bool, as_number, is_missing, plain
from credex.domains.tabular.backend import Kind
from credex.errors import InputError
from credex.typing import Floats, Ints, Masks

__all__ = ["cell", "floats", "from_floats", "kind", "missing", "not_whole", "rounded"]

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the zero of naive datetimes
_AWARE_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TICK = dt.timedelta(microseconds=1)


def kind(column: NDArray[Any], name: str) -> Kind:
    """Tell how an ``(n,)`` column is treated; object columns are judged by their values."""
    code = column.dtype.kind
    if code == "O":
        return _object_kind(column)
    if code == "b":
        return "boolean"
    if code in "iuf":
        return "number"
    if code in "mM":
        return "date"
    if code in "US" or column.dtype == np.dtypes.StringDType():
        return "category"
    raise InputError(
        f"column {name!r} has dtype {column.dtype}; numbers, booleans, text, dates and objects "
        "work: convert or drop the column"
    )


def _object_kind(column: NDArray[Any]) -> Kind:  # noqa: PLR0911 - one line a type
    values = [value for value in column.tolist() if not is_missing(value)]
    types = set(map(type, values))
    if not types:
        return "category"
    if all(issubclass(t, bool | np.bool_) for t in types):
        return "boolean"
    if all(issubclass(t, int | float | Decimal | np.number) for t in types) and not any(
        issubclass(t, bool | np.bool_ | np.timedelta64) for t in types
    ):
        return "number"
    if all(issubclass(t, dt.datetime) for t in types):
        zones = {value.tzinfo is None for value in values}
        return "date" if len(zones) == 1 else "category"
    if all(issubclass(t, dt.date) and not issubclass(t, dt.datetime) for t in types):
        return "date"
    if all(issubclass(t, dt.timedelta) for t in types):
        return "date"
    return "category"


def missing(column: NDArray[Any]) -> Masks:
    """``(n,)`` which values are NaN, NaT, None or NA."""
    code = column.dtype.kind
    if code == "f":
        return np.asarray(np.isnan(column))
    if code in "mM":
        return np.asarray(np.isnat(column))
    if code == "O":
        return np.fromiter(map(is_missing, column.tolist()), np.bool_, len(column))
    return np.zeros(len(column), dtype=np.bool_)


def floats(column: NDArray[Any]) -> Floats:
    """``(n,)`` ordered numbers of a number or date column; missing is NaN."""
    code = column.dtype.kind
    if code in "iufb":
        return column.astype(np.float64)
    if code in "mM":
        out = column.view(np.int64).astype(np.float64)
        out[np.isnat(column)] = np.nan
        return out
    values = column.tolist()
    return np.array([np.nan if is_missing(v) else _number_of(v) for v in values], dtype=np.float64)


def _number_of(value: Any) -> float:
    if isinstance(value, dt.datetime):
        return (value - (_EPOCH if value.tzinfo is None else _AWARE_EPOCH)) / _TICK
    if isinstance(value, dt.date):
        return float(value.toordinal())
    if isinstance(value, dt.timedelta):
        return value / _TICK
    return float(value)


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


def from_floats(like: NDArray[Any], values: Floats) -> NDArray[Any]:
    """Floats as an array of ``like``'s dtype: integers rounded, dates again dates.

    NaN in an integer array has no place there: the result is then float64.
    """
    dtype = like.dtype
    if dtype.kind == "f":
        return values.astype(dtype)
    gone = np.isnan(values)
    if dtype.kind in "iu":
        return values.copy() if gone.any() else rounded(values, dtype)
    if dtype.kind in "mM":
        ticks = rounded(np.where(gone, 0.0, values), np.dtype(np.int64)).view(dtype)
        ticks[gone] = np.array("NaT", dtype=dtype)
        return ticks
    first = next((v for v in like.tolist() if not is_missing(v)), 0.0)
    whole = all(isinstance(v, int | np.integer) or is_missing(v) for v in like.tolist())
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values.tolist()):
        out[i] = None if gone[i] else _object_of(value, first, whole=whole)
    return out


def _object_of(value: float, first: Any, *, whole: bool) -> Any:
    """One float as the type of value the object column holds."""
    if isinstance(first, dt.datetime):
        epoch = _EPOCH if first.tzinfo is None else _AWARE_EPOCH.astimezone(first.tzinfo)
        moment = epoch + round(value) * _TICK
        if first.tzinfo is not None:
            moment = (_AWARE_EPOCH + round(value) * _TICK).astimezone(first.tzinfo)
        pandas = sys.modules.get("pandas")
        stamped = pandas is not None and isinstance(first, pandas.Timestamp)
        return pandas.Timestamp(moment) if stamped and pandas is not None else moment
    if isinstance(first, dt.date):
        return dt.date.fromordinal(round(value))
    if isinstance(first, dt.timedelta):
        return round(value) * _TICK
    if isinstance(first, Decimal):
        return Decimal(repr(value))
    return round(value) if whole else value


def not_whole(name: str, value: Any, dtype: Any) -> InputError:
    """Say that a value would be changed by an integer column."""
    return InputError(
        f"column {name!r} holds integers ({dtype}), but the instance has {value!r} there; pass a "
        "whole number in its range, or fit the model and the domain on a float column"
    )


def cell(  # noqa: C901, PLR0911 - one line a type
    like: NDArray[Any], kind: Kind, value: Any, name: str
) -> NDArray[Any]:
    """One value as an array of one element of ``like``'s dtype (wider only if it is missing)."""
    dtype = like.dtype
    code = dtype.kind
    if code == "O":
        return _object_cell(kind, value, name)
    if is_missing(value):
        if code in "mM":
            return np.array(["NaT"], dtype=dtype)
        if code == "b":
            return _object(np.nan)
        if code in "iuf":
            return np.array([np.nan], dtype=dtype if code == "f" else np.float64)
        return _object(None)
    if code == "f":
        number = as_number(value, name)
        with np.errstate(over="ignore"):
            out = np.array([number], dtype=np.float64).astype(dtype)
        if np.isinf(out[0]) and abs(number) != np.inf:
            raise InputError(f"column {name!r} is {dtype}, which cannot hold {value!r}")
        return out
    if code in "iu":
        number = as_number(value, name)
        info = np.iinfo(dtype)
        if number != number // 1 or not info.min <= number <= info.max:
            raise not_whole(name, plain(value), dtype)
        return np.array([int(number)], dtype=dtype)
    if code == "b":
        return np.array([as_bool(value, name)])
    if code in "mM":
        return _date_cell(dtype, value, name)
    value = plain(value)
    if not isinstance(value, str | bytes):
        raise InputError(
            f"column {name!r} holds text, but the instance has {value!r} "
            f"({type(value).__name__}) there; pass a string"
        )
    return np.array([value])


def _object(value: Any) -> NDArray[Any]:
    out = np.empty(1, dtype=object)
    out[0] = value
    return out


def _object_cell(kind: Kind, value: Any, name: str) -> NDArray[Any]:
    """Let an object column take any hashable value of the kind it was found to hold."""
    out = _object(value)
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


def as_ticks(like: NDArray[Any], ticks: Ints) -> NDArray[Any]:
    """Dates from their own integers."""
    return np.asarray(ticks, dtype=np.int64).view(like.dtype)
