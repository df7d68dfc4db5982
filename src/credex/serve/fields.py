"""`Field`: one input of the page, from a column's values to what is typed and back."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np

from credex.cells import clean, display, is_missing, plain
from credex.domains.tabular.columns import Kind
from credex.domains.tabular.table import Table
from credex.errors import InputError

__all__ = ["Field", "FieldError", "field_of"]

MAX_CHOICES = 100
"""Categories of a column that are offered as a list; with more, they are typed."""

MAX_TYPED = 100_000
"""Longest text that is accepted."""

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,4})?")


class FieldError(InputError):
    """What was typed into input number ``field`` cannot be read."""

    def __init__(self, message: str, field: int) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, eq=False)
class Field:
    """An input: what it is called, what it takes, and how a value looks in it.

    ``kind`` is ``"number"``, ``"choice"``, ``"date"`` (a day), ``"text"`` or ``"moment"`` (dates
    with a time, lengths of time). ``known`` are the values of a choice or a text; ``like`` is one
    value of the column. What is typed is a text, an index into ``known`` for a choice, or ``None``
    for a missing value.
    """

    name: str
    kind: str
    known: tuple[Any, ...] = ()
    like: Any = None
    may_miss: bool = False
    whole: bool = False
    hint: str = ""

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The known values as they are shown, no two alike."""
        return tuple(map(self._shown, self.known))

    def _shown(self, value: Any) -> str:
        return display(value) if self._distinct else clean(repr(plain(value)))

    @cached_property
    def _distinct(self) -> bool:
        return len(set(map(display, self.known))) == len(self.known)

    @cached_property
    def _at(self) -> dict[str, int]:
        return {text: i for i, text in enumerate(self.choices)}

    @property
    def as_json(self) -> dict[str, Any]:
        """The input as the page needs it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "choices": self.choices if self.kind == "choice" else (),
            "may_miss": self.may_miss,
            "hint": self.hint,
        }

    def typed(self, value: Any) -> str | int | None:
        """Return what the input holds for a value; −1 is a choice that the column did not have."""
        if is_missing(value):
            return None
        if self.kind == "choice":
            return self._at.get(self._shown(value), -1)
        if self.kind == "number":
            return _number_text(value)
        if self.kind in ("date", "moment"):
            return _date_text(value)
        return value if isinstance(value, str) else self._shown(value)

    def read(self, typed: Any) -> Any:
        """Return the value of what was typed, or raise an `InputError` for the reader of the page.

        Values are checked against the column's dtype later, by the domain.
        """
        if typed is None or (isinstance(typed, str) and self.kind != "text" and not typed.strip()):
            if not self.may_miss:
                raise InputError(f"{self.name}: enter a value; no training row misses it")
            return None
        if self.kind == "choice":
            whole = isinstance(typed, int) and not isinstance(typed, bool)
            if not whole or not 0 <= typed < len(self.known):
                raise InputError(f"{self.name}: {typed!r:.80} is no choice; pick one of the list")
            return self.known[typed]
        if not isinstance(typed, str) or len(typed) > MAX_TYPED:
            raise InputError(f"{self.name}: enter a text of at most {MAX_TYPED:,} characters")
        if self.kind == "number":
            return self._number(typed)
        if self.kind in ("date", "moment"):
            return self._date(typed.strip())
        at = self._at.get(typed)
        return typed if at is None else self.known[at]

    def _number(self, typed: str) -> Any:
        text = typed.strip().replace("−", "-")
        if len(text) > 400 or not _NUMBER.fullmatch(text):
            msg = f"{self.name}: {clean(typed)[:40]!r} is no number; enter one such as "
            raise InputError(f"{msg}{self.typed(self.like) or '0.5'}, with a point for decimals")
        if isinstance(self.like, Decimal):
            return Decimal(text)
        with suppress(ValueError):
            return int(text)
        if self.whole and not float(text).is_integer():
            raise InputError(f"{self.name}: {text} is no whole number; the column holds these only")
        return float(text)

    def _date(self, typed: str) -> Any:
        try:
            if isinstance(self.like, dt.timedelta | np.timedelta64):
                import pandas as pd

                return pd.Timedelta(typed)
            if isinstance(self.like, dt.datetime):
                read = dt.datetime.fromisoformat(typed)
                stamp: Any = type(self.like)  # pandas' has nanoseconds, too
                return stamp(typed) if hasattr(self.like, "to_datetime64") else read
            if isinstance(self.like, dt.date):
                return dt.date.fromisoformat(typed)
            if isinstance(self.like, dt.time):
                return dt.time.fromisoformat(typed)
            if isinstance(self.like, np.datetime64):
                dt.datetime.fromisoformat(typed)
        except ValueError:
            msg = f"{self.name}: {clean(typed)[:40]!r} cannot be read; enter it like "
            raise InputError(f"{msg}{self.typed(self.like)}") from None
        return typed


def field_of(table: Table, j: int, role: Kind, *, may_miss: bool) -> Field:
    """Return the input for column j of the training data; ``role`` is how it is treated."""
    name = clean(table.names[j]) or "(no name)"
    kind = table.kinds[j]
    if kind == "boolean":
        return Field(name, "choice", (False, True), may_miss=may_miss)
    if role == "category":
        known = [value for value in table.factorize(j)[1] if not is_missing(value)]
        if len(known) <= MAX_CHOICES:
            return Field(name, "choice", tuple(_sorted(known)), may_miss=may_miss)
        if kind == "category":
            return Field(name, "text", tuple(known), may_miss=may_miss)
    known = [value for value in table.objects(j) if not is_missing(value)]
    like = known[0] if known else None
    if kind == "date":
        days = all(map(_is_day, known))
        return Field(name, "date" if days else "moment", like=like, may_miss=may_miss)
    whole = all(isinstance(value, int | np.integer) for value in known)
    hint = _range(table, j)
    return Field(name, "number", like=like, may_miss=may_miss, whole=whole, hint=hint)


def _sorted(values: Sequence[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=display)


def _range(table: Table, j: int) -> str:
    numbers = table.floats(j)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return ""
    return f"{display(float(numbers.min()))} to {display(float(numbers.max()))}"


def _number_text(value: Any) -> str:
    """Return the shortest text that is read as the same number."""
    if isinstance(value, float | np.floating) and np.isfinite(value):
        size = abs(float(value))
        if size == 0 or 1e-5 <= size < 1e16:
            return str(np.format_float_positional(value, trim="-"))
    return str(plain(value))


def _is_day(value: Any) -> bool:
    if isinstance(value, dt.datetime):
        return value.tzinfo is None and value.time() == dt.time()
    if isinstance(value, np.datetime64):
        return bool(value == value.astype("M8[D]"))
    return isinstance(value, dt.date)


def _date_text(value: Any) -> str:
    if _is_day(value):
        return str(value)[:10]
    if isinstance(value, np.timedelta64):
        import pandas as pd

        return str(pd.Timedelta(value))
    return value.isoformat(sep=" ") if isinstance(value, dt.datetime) else str(value)
