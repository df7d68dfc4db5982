"""One value of a table: missing or not, as a number, as text, in JSON and back."""

from __future__ import annotations

import datetime as dt
import math
import unicodedata
from decimal import Decimal
from typing import Any

import numpy as np

from credex.errors import InputError

_MISSING_TYPES = ("NAType", "NaTType")  # pandas' NA and NaT, without importing pandas
_CHECKED = (float, np.floating, np.datetime64, np.timedelta64, Decimal)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    if type(value) is float:  # nearly every cell: the others take ten times as long
        return value != value  # noqa: PLR0124 - NaN
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return True
    return isinstance(value, _CHECKED) and bool(value != value)  # noqa: PLR0124 - NaN and NaT


def plain(value: Any) -> Any:
    """Turn NumPy scalars (and 0-d arrays) into Python's, and missing values into ``None``."""
    if type(value) is float:  # nearly every cell
        return value if value == value else None  # noqa: PLR0124 - NaN
    if is_missing(value):
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        return value  # .item() would turn nanoseconds into a bare integer
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    return value


def as_number(value: Any, column: str) -> int | float:
    """Return a Python number; raise an error that names the column if it is none."""
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


def as_float(value: Any) -> float:
    """Return a number (or a truth value, 0 or 1) as a float, anything else as NaN."""
    if type(value) is float:
        return value
    value = plain(value)
    return float(value) if isinstance(value, int | float | Decimal) else math.nan


DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of the text around them; shown as �."""


def clean(text: str) -> str:
    """Put ``text`` on one line: white space and control characters become single spaces.

    Characters that would turn the text around them, and halves of characters, become �.
    """
    return " ".join("".join(map(_shown, text)).split())


def _shown(c: str) -> str:
    if c.isascii():
        return " " if c < " " or c == "\x7f" else c
    kind = unicodedata.category(c)
    return " " if kind == "Cc" else "\ufffd" if kind == "Cs" or c in DIRECTIONS else c


def display(value: Any) -> str:
    """Return a short readable text of one value, on one line."""
    value = plain(value)
    if value is None:
        return "missing"
    if isinstance(value, float):  # .4g alone would write 452600.0 as 4.526e+05
        short = f"{value:.0f}" if 1000 <= abs(value) < 1e9 else f"{value + 0.0:.4g}"
        return short.replace("inf", "∞").replace("-", "−")
    if isinstance(value, int):
        return str(value).replace("-", "−")
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return str(value.date())
    return clean(str(value))


def encode(value: Any) -> Any:  # noqa: C901, PLR0911 - one case a type
    """Turn a value into an exact JSON form that `decode` reads; raise `TypeError` without one."""
    if type(value) is float and math.isfinite(value):  # most are
        return value
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return None
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64 | np.timedelta64):
        value = value.item()
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, tuple):
        return {"tuple": [encode(part) for part in value]}
    if isinstance(value, np.datetime64):
        return {"date": str(value)}
    if isinstance(value, dt.date | dt.time):
        kind = "date" if isinstance(value, dt.datetime) else "day"
        return {"time" if isinstance(value, dt.time) else kind: value.isoformat()}
    if type(value) is dt.timedelta:
        return {"timedelta": value // dt.timedelta(microseconds=1), "unit": "us"}
    if isinstance(value, dt.timedelta):  # pandas' Timedelta, which counts nanoseconds
        value = value.to_timedelta64().astype("timedelta64[ns]")  # type: ignore[attr-defined]
    if isinstance(value, np.timedelta64):
        unit, step = np.datetime_data(value.dtype)
        return {"timedelta": int(value.astype(np.int64)) * step, "unit": unit}
    raise TypeError(type(value).__name__)


def encode_or_text(value: Any) -> Any:
    """Like `encode`, but a value without an exact JSON form becomes its text."""
    try:
        return encode(value)
    except TypeError:
        return str(value)


def decode(value: Any) -> Any:
    """Read what `encode` wrote.

    Dates with a time come back as pandas' Timestamp, durations in nanoseconds as its Timedelta.
    """
    if not isinstance(value, dict):
        return value
    for kind, read in _READ.items():
        if kind in value:
            return read(value[kind])
    if "timedelta" in value:
        return _duration(value["timedelta"], value["unit"])
    raise InputError(f"cannot read {value!r} in a stored instance; was the file edited?")


def _date(text: str) -> Any:
    import pandas as pd

    try:
        return pd.Timestamp(text)
    except ValueError:
        return np.datetime64(text)


def _duration(count: int, unit: Any) -> Any:
    if unit == "us":
        return dt.timedelta(microseconds=count)
    if unit != "ns":
        return np.timedelta64(count, unit)
    import pandas as pd

    return pd.Timedelta(count, unit="ns")


_READ: dict[str, Any] = {
    "float": float,
    "decimal": Decimal,
    "day": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "tuple": lambda parts: tuple(map(decode, parts)),
    "date": _date,
}
