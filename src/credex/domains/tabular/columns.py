"""Columns of tables: how a library holds them (`Backend`) and their distribution (`Marginal`).

A *column* is a one-dimensional array of one dtype, read with ``column[rows]``: a numpy array, a
pandas extension array or a polars Series. The backend here is numpy; those of pandas and polars
extend it. Every method keeps the dtype, so that a model sees rows like those it was fitted on.
"""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from credex.cells import as_bool, as_number, is_missing, plain
from credex.errors import InputError
from credex.typing import Floats, Ints, Native

__all__ = ["MISSING", "NAT", "Backend", "Column", "Kind", "Marginal", "Ranks"]

Column: TypeAlias = Any
"""One native column: a numpy array, a pandas extension array or a polars Series."""

Kind: TypeAlias = Literal["number", "category", "boolean", "date"]
"""How a column is treated: numbers and dates are ordered, the others are not."""

NAT = int(np.iinfo(np.int64).min)
"""The integer of a missing date."""

MISSING = -1
"""Code of a missing value."""
UNSEEN = -2
"""Code of a category that no training row has."""

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

    ``names`` are the p column names for display, ``labels`` those the library uses.
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

    def cell(self, like: Column, kind: Kind, value: Any, name: str) -> Column:
        """Return one value as a column of one row; only a missing value may widen the dtype.

        A value that does not fit raises an `InputError` that names the column and the value.
        """
        dtype = like.dtype
        if dtype.kind == "O":
            return _object_cell(kind, value, name)
        if is_missing(value):
            missing = {"number": np.nan, "boolean": np.nan, "date": "NaT", "category": None}[kind]
            return np.array([missing], dtype=dtype if dtype.kind in "fmM" else None)
        if kind == "date":
            return _date_cell(dtype, value, name)
        if kind == "category":
            value = plain(value)
            if not isinstance(value, str | bytes):
                raise InputError(
                    f"column {name!r} holds text, but the instance has {value!r} "
                    f"({type(value).__name__}) there; pass a string"
                )
            return np.array([value])
        number = as_scalar(kind, value, name, dtype, integers=dtype.kind in "iu")
        with np.errstate(over="ignore"):
            out = np.array([number], dtype=dtype)
        if math.isinf(out[0]) and abs(number) != np.inf:
            raise InputError(f"column {name!r} is {dtype}, which cannot hold {value!r}")
        return out

    def append(self, column: Column, one: Column) -> Column:
        """Return the column with one more row; the dtype is wider only if the row needs it."""
        return np.concatenate([column, one])

    def frame(self, data: NDArray[Any] | Sequence[Column], index: Any) -> Native:  # noqa: ARG002
        """Return an ``(n, p)`` array (without a copy) or p columns as a native table."""
        return data if isinstance(data, np.ndarray) else np.column_stack(data)

    def index_of(self, label: Any, index: Any) -> Any:  # noqa: ARG002
        """Return an index with one label, like ``index``; arrays have none."""
        return None

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


def as_scalar(
    kind: Kind, value: Any, name: str, dtype: Any, *, integers: bool
) -> bool | int | float:
    """Return a value that fits a column of numbers or booleans; only numpy's ranges are checked."""
    if kind == "boolean":
        return as_bool(value, name)
    number = as_number(value, name)
    if not integers:
        return number
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


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """The distribution of one column.

    ``codes`` are the ``(N,)`` bins (ordered columns) or categories of the training rows. A column
    without an order has the codes of its ``categories``; an ordered one has ``(q,)`` increasing
    ``edges``: bin b holds ``edges[b-1] < value ≤ edges[b]``, and bin q + 1 missing values. ``mean``
    and ``sd`` are those of its finite values (1 if they are constant), ``low`` and ``high`` the
    extremes in standard deviations from the mean; ``known`` says whether there is any.
    """

    codes: Ints
    categories: Mapping[Any, int]
    edges: Floats | None = None
    mean: float = 0.0
    sd: float = 1.0
    low: float = 0.0
    high: float = 0.0
    known: bool = False

    @classmethod
    def of_numbers(cls, values: Floats, count: int, weights: Floats | None = None) -> Marginal:
        """Return the distribution of ``(N,)`` weighted values, in ``count`` quantile bins."""
        edges = quantiles(values, count, weights)
        codes = binned(values, edges)
        finite = np.isfinite(values)
        if weights is not None:
            finite &= weights > 0
        if not finite.any():
            return cls(codes, {}, edges)
        kept = values[finite]
        w = None if weights is None else weights[finite]
        # The first value is subtracted so that dates (large numbers) keep their digits.
        mean = float(kept[0] + np.average(kept - kept[0], weights=w))
        sd = float(np.sqrt(np.average((kept - mean) ** 2, weights=w)))
        if kept.min() == kept.max() or not np.isfinite(sd) or sd <= 0:
            mean, sd = float(kept[0]), 1.0
        low, high = (float(kept.min()) - mean) / sd, (float(kept.max()) - mean) / sd
        return cls(codes, {}, edges, mean, sd, low, high, known=True)

    def code(self, value: Any) -> int:
        """Bin of a float, or code of a category: `MISSING`, or `UNSEEN` in the training data."""
        if self.edges is None:
            return MISSING if is_missing(value) else self.categories.get(value, UNSEEN)
        return len(self.edges) + 1 if math.isnan(value) else bisect_left(self.edges, value)

    def scaled(self, values: Any) -> Any:
        """Values in training standard deviations from the training mean."""
        return (values - self.mean) / self.sd


def quantiles(values: Floats, count: int, weights: Floats | None = None) -> Floats:
    """``(q,)`` distinct quantiles 1/count, …, (count-1)/count, which are lime's edges of bins.

    Infinite and missing values do not move them.
    """
    finite = np.isfinite(values)
    kept = None if weights is None else weights[finite]
    if not finite.any() or (kept is not None and not kept.sum() > 0):
        return np.empty(0)
    levels = np.arange(1, count) / count
    method: Any = "linear" if kept is None else "inverted_cdf"
    return np.unique(np.quantile(values[finite], levels, weights=kept, method=method))


def binned(values: Floats, edges: Floats) -> Ints:
    """``(n,)`` bin of each value: how many edges lie below it; q + 1 if it is missing."""
    out = np.searchsorted(edges, values, side="left").astype(np.int64)
    out[np.isnan(values)] = len(edges) + 1
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """Mean ranks, from 0 to 1, among rows of a column; −1 of a missing value.

    ``values (m,)`` are the distinct values of the rows in ascending order, ``below (m + 1,)`` the
    shares of rows below each of them, and below infinity.
    """

    values: Floats
    below: Floats

    @classmethod
    def among(cls, column: Floats, weights: Floats) -> Ranks:
        """Rank among the known values of ``column (n,)``."""
        known = ~np.isnan(column)
        values, group = np.unique(column[known], return_inverse=True)
        below = np.zeros(len(values) + 1)
        np.cumsum(np.bincount(group, weights[known], len(values)), out=below[1:])
        return cls(values, below / max(below[-1], 1e-300))

    def of(self, column: Floats) -> Floats:
        """Mean rank of each value."""
        first, last = (self.values.searchsorted(column, side) for side in ("left", "right"))
        return np.where(np.isnan(column), -1.0, 0.5 * (self.below[first] + self.below[last]))


def bin_labels(name: str, edges: list[str]) -> list[str]:
    """Return each bin as a condition, such as ``29 < age ≤ 41``."""
    if not edges:
        return [f"{name} present", f"{name} missing"]
    between = [f"{low} < {name} ≤ {high}" for low, high in pairwise(edges)]
    return [f"{name} ≤ {edges[0]}", *between, f"{name} > {edges[-1]}", f"{name} missing"]


def number_texts(values: Floats) -> list[str]:
    """Return short texts of increasing numbers, with as many digits as keep them apart."""
    for digits in range(4, 18):
        texts = [_short(value, digits) for value in values.tolist()]
        if len(set(texts)) == len(texts):
            return texts
    return [repr(value) for value in values.tolist()]


def _short(value: float, digits: int) -> str:
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    whole = len(str(abs(int(value)))) if abs(value) < 1e15 else 1
    return f"{value:.{max(digits, whole)}g}"
