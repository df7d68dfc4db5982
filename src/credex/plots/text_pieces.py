"""A text with its importances, ready to be drawn: pieces, their strength and their certainty."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace

from credex import formatting
from credex.explanation_base import ExplanationBase
from credex.plots.canvas import View

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
    name, numbers
        Of the feature it belongs to, and its importance and interval in words; empty if it
        belongs to none.
    strength
        Importance over the largest one, −1 to 1; 0 if there is nothing to show.
    certain
        Whether the interval excludes zero.
    """

    text: str
    name: str = ""
    numbers: str = ""
    strength: float = 0.0
    certain: bool = False


def pieces(e: ExplanationBase, view: View) -> Iterator[Piece]:
    """Take the text of an explanation apart, in order."""
    features = [_feature(name, view, i) for i, name in enumerate(e.names)]
    text, done = e.payload["text"], 0
    spans = ((a, b, i) for i, parts in enumerate(e.payload["spans"]) for a, b in parts)
    for a, b, i in sorted(spans):
        if done < a:
            yield Piece(visible(text[done:a]))
        yield replace(features[i], text=visible(text[a:b]))
        done = b
    if done < len(text):
        yield Piece(visible(text[done:]))


def _feature(name: str, view: View, i: int) -> Piece:
    """What the pieces of feature ``i`` share: ``0.21 (0.18 … 0.24)``, strength, certainty."""
    mean, lower, upper = (float(a[i]) for a in (view.mean, view.lower, view.upper))
    power = formatting.power_of(view.peak)
    unit = 10.0**power
    places = formatting.decimals((upper - lower) / 2 / unit, view.peak / unit)
    shown = [formatting.number(v / unit, places) for v in (mean, lower, upper)]
    numbers = f"{shown[0]} ({shown[1]} … {shown[2]}){formatting.times(power)}"
    if lower == upper:
        numbers = f"{formatting.amount(mean, view.peak)} (exact)"
    if not abs(mean) > ROUNDING * view.peak:  # or unknown
        return Piece("", name, numbers)
    return Piece("", name, numbers, mean / view.peak, lower > 0 or upper < 0)


def visible(text: str) -> str:
    r"""Return ``text`` with control characters as pictures (␛) and nothing that turns it around.

    Examples
    --------
    >>> visible("a\x1b[31mb")
    'a␛[31mb'
    """
    return "".join(map(_shown, text.replace("\r\n", "\n")))


def _shown(c: str) -> str:
    if c in "\n\t":
        return c
    if ord(c) < 0x20:
        return chr(0x2400 + ord(c))
    if c == "\x7f":
        return "␡"
    return "\ufffd" if unicodedata.category(c) in ("Cc", "Cs") or c in DIRECTIONS else c
