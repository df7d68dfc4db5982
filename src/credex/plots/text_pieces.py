"""A text with its importances, ready to be drawn: pieces, their strength and their certainty."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.checks import check_level
from credex.errors import InputError
from credex.plots.canvas import output_of

if TYPE_CHECKING:
    from credex.explanation import Explanation

ROUNDING = 1e-9
"""Importances below this share of the largest are rounding: they are drawn as nothing."""

DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that turn the text around them; shown, not obeyed."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the text.

    Attributes
    ----------
    text
        Safe to print: control characters are visible.
    name, mean, lower, upper
        Of the feature it belongs to; an empty name if it belongs to none.
    strength
        Importance over the largest one, −1 to 1; 0 if there is nothing to show.
    certain
        Whether the interval excludes zero.
    """

    text: str
    name: str = ""
    mean: float = 0.0
    lower: float = 0.0
    upper: float = 0.0
    strength: float = 0.0
    certain: bool = False


@dataclass(frozen=True, slots=True)
class Marked:
    """All pieces in order, and what they are measured by."""

    pieces: tuple[Piece, ...]
    output: int
    level: float
    peak: float


def marked(e: Explanation, output: Any, level: float | None) -> Marked:
    """Take the text of an explanation apart into pieces."""
    payload = e.payload
    if not isinstance(payload, dict) or payload.get("kind") != "text":
        msg = "plot.text() is for explanations of texts (cx.Text); plot.intervals() is for all"
        raise InputError(msg)
    j = output_of(e, output)
    at = e.level if level is None else check_level(level)
    interval = e.belief.interval(at)
    mean, lower, upper = e.belief.mean[:, j], interval.lower[:, j], interval.upper[:, j]
    known = np.abs(mean[np.isfinite(mean)])
    peak = float(np.max(known, initial=0.0))
    made = {
        i: Piece("", e.names[i], float(m), float(lo), float(hi), *_weight(m, lo, hi, peak))
        for i, (m, lo, hi) in enumerate(zip(mean, lower, upper, strict=True))
    }
    return Marked(tuple(_pieces(payload, made)), j, at, peak)


def _weight(mean: float, lower: float, upper: float, peak: float) -> tuple[float, bool]:
    """Strength and certainty of one feature."""
    if not np.isfinite(mean) or abs(mean) <= ROUNDING * peak:
        return 0.0, False
    return float(mean / peak), bool(lower > 0 or upper < 0)


def _pieces(payload: dict[str, Any], made: dict[int, Piece]) -> Iterator[Piece]:
    text, at = payload["text"], 0
    ordered = sorted((a, b, i) for i, part in enumerate(payload["spans"]) for a, b in part)
    for a, b, i in ordered:
        if at < a:
            yield Piece(visible(text[at:a]))
        p = made[i]
        yield Piece(visible(text[a:b]), p.name, p.mean, p.lower, p.upper, p.strength, p.certain)
        at = b
    if at < len(text):
        yield Piece(visible(text[at:]))


def visible(text: str) -> str:
    r"""Return ``text`` with control characters as pictures (␛) and nothing that turns it around.

    Examples
    --------
    >>> visible("a\x1b[31mb")
    'a␛[31mb'
    """
    plain = text.replace("\r\n", "\n")
    if plain.isprintable():
        return plain
    return "".join(_shown(c) for c in plain)


def _shown(c: str) -> str:
    if c in "\n\t":
        return c
    if ord(c) < 0x20:
        return chr(0x2400 + ord(c))
    if c == "\x7f":
        return "␡"
    return "\ufffd" if unicodedata.category(c) in ("Cc", "Cs") or c in DIRECTIONS else c
