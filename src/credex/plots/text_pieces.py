"""A text with its importances, ready to be drawn: pieces, their strength and their certainty."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credex.errors import InputError
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


def marked(e: ExplanationBase, output: Any, level: float | None) -> Marked:
    """Take the text of an explanation apart into pieces."""
    payload = e.payload
    if not isinstance(payload, dict) or payload.get("kind") != "text":
        msg = "plot.text() is for explanations of texts (cx.Text); plot.intervals() is for all"
        raise InputError(msg)
    view = View.of(e, output, level)
    peak, features = view.peak, []
    for name, m, lower, upper in zip(e.names, view.mean, view.lower, view.upper, strict=True):
        shown = bool(np.isfinite(m)) and abs(m) > ROUNDING * peak
        strength, certain = (float(m / peak), bool(lower > 0 or upper < 0)) if shown else (0, False)
        features.append(Piece("", name, float(m), float(lower), float(upper), strength, certain))
    return Marked(tuple(_pieces(payload, features)), view.output, view.level, peak)


def _pieces(payload: dict[str, Any], features: list[Piece]) -> Iterator[Piece]:
    text, done = payload["text"], 0
    for a, b, i in sorted((a, b, i) for i, part in enumerate(payload["spans"]) for a, b in part):
        if done < a:
            yield Piece(visible(text[done:a]))
        yield replace(features[i], text=visible(text[a:b]))
        done = b
    if done < len(text):
        yield Piece(visible(text[done:]))


def visible(text: str) -> str:
    r"""Return ``text`` with control characters as pictures (␛) and nothing that turns it around.

    Examples
    --------
    >>> visible("a\x1b[31mb")
    'a␛[31mb'
    """
    return "".join(_shown(c) for c in text.replace("\r\n", "\n"))


def _shown(c: str) -> str:
    if c in "\n\t":
        return c
    if ord(c) < 0x20:
        return chr(0x2400 + ord(c))
    if c == "\x7f":
        return "␡"
    return "\ufffd" if unicodedata.category(c) in ("Cc", "Cs") or c in DIRECTIONS else c
