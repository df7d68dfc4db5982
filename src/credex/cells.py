"""Single values: is it missing, is it a number, how is it shown, how does it go into JSON."""

from __future__ import annotations

import datetime as dt
import math
import sys
from decimal import Decimal
from typing import Any

import numpy as np

from credex.errors import InputError

__all__ = ["as_bool", "as_number", "decode", "display", "encode", "is_missing", "plain"]

_MISSING_TYPES = ("NAType", "NaTType")  # pandas' NA and NaT, without importing pandas
_CHECKED = (float, np.floating, np.datetime64, np.timedelta64, Decimal)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    if type(value).__name__ in _MISSING_TYPES:
        return True
    return isinstance(value, _CHECKED) and bool(value != value)  # noqa: PLR0124 - NaN and NaT


def plain(value: Any) -> Any:
    """Turn numpy scalars (and 0-d arrays) into Python's own; missing values into ``None``."""
    if type(value) is float:  # nearly every cell: the others take ten times as long
        return None if value != value else value  # noqa: PLR0124 - NaN
    if is_missing(value):
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        return value  # .item() would turn nanoseconds into a bare integer
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    return value


def as_number(value: Any, column: str) -> int | float:
    """Return a Python number, or say which column got what instead."""
    value = plain(value)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, int | float):
        return value
    raise InputError(
        f"column {column!r} holds numbers, but the instance has {value!r} "
        f"({type(value).__name__}) there; pass a number"
    )


def as_bool(value: Any, column: str) -> bool:
    """Return a Python boolean from a boolean, 0 or 1."""
    value = plain(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    raise InputError(
        f"column {column!r} holds booleans, but the instance has {value!r} there; "
        "pass True or False (0 and 1 work too)"
    )


def display(value: Any) -> str:
    """Return a short readable text of one value."""
    value = plain(value)
    if value is None:
        return "missing"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return str(value.date())
    return str(value)


def encode(value: Any) -> Any:  # noqa: C901, PLR0911, PLR0912 - one line a type
    """Turn a value into something JSON can hold exactly; `decode` is the inverse.

    Raises
    ------
    TypeError
        If the value has no exact JSON form.
    """
    if type(value) is float and math.isfinite(value):
        return value
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return None
    if isinstance(value, np.datetime64):
        return {"date": str(value)}
    if isinstance(value, np.timedelta64):
        unit, step = np.datetime_data(value.dtype)
        return {"timedelta": int(value.astype(np.int64)) * step, "unit": unit}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, dt.datetime):
        return {"date": value.isoformat()}
    if isinstance(value, dt.date):
        return {"day": value.isoformat()}
    if isinstance(value, dt.time):
        return {"time": value.isoformat()}
    if type(value) is dt.timedelta:
        return {"timedelta": value // dt.timedelta(microseconds=1), "unit": "us"}
    if isinstance(value, dt.timedelta):  # pandas' Timedelta counts nanoseconds
        return {"timedelta": int(np.timedelta64(value, "ns").astype(np.int64)), "unit": "ns"}
    if isinstance(value, tuple):
        return {"tuple": [encode(part) for part in value]}
    raise TypeError(type(value).__name__)


def decode(value: Any) -> Any:  # noqa: PLR0911 - one line a type
    """Read what `encode` wrote."""
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "decimal" in value:
        return Decimal(value["decimal"])
    if "day" in value:
        return dt.date.fromisoformat(value["day"])
    if "time" in value:
        return dt.time.fromisoformat(value["time"])
    if "tuple" in value:
        return tuple(decode(part) for part in value["tuple"])
    if "timedelta" in value:
        if value["unit"] == "us":
            return dt.timedelta(microseconds=value["timedelta"])
        return np.timedelta64(value["timedelta"], value["unit"])
    if "date" in value:
        return _moment(value["date"])
    raise InputError(f"cannot read {value!r} in a stored instance; was the file edited?")


def _moment(text: str) -> Any:
    """Read an ISO moment; pandas keeps nanoseconds where it is loaded."""
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        return pandas.Timestamp(text)
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return np.datetime64(text)
