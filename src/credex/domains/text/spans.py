"""`Passage`: a text and the parts of it that can be switched off."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from credex.domains.text.tokens import Unit, called, found, unit_word
from credex.domains.text.words import Span, words
from credex.errors import InputError

__all__ = ["Passage", "Repeats", "cut"]

NAME = 48
"""Longest name of a part, in characters."""

Repeats = Any
"""``"separate"``, ``"shared"``, or a function of a part's text: equal keys share a feature."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text taken apart; what `Text.at` looks at, and what an explanation remembers.

    Attributes
    ----------
    text
        As the user gave it.
    spans
        For each of the d parts its spans, in order; a shared word has several.
    names
        The d names, no two alike.
    unit
        What one part is called: ``"word"``, ``"sentence"``, ``"token"`` or ``"part"``.
    note
        How the parts were chosen, if that is worth saying.
    label
        Index label, or ``None``.
    """

    text: str
    spans: tuple[tuple[Span, ...], ...]
    names: tuple[str, ...]
    unit: str
    note: str = ""
    label: Any = None


def cut(text: str, unit: Unit, repeats: Repeats, label: Any = None) -> Passage:
    """Take ``text`` apart into units; repeated ones become one part if they are shared."""
    spans, names = found(unit, text)
    if not spans:
        word = unit_word(unit)
        msg = f"the text {text[:40]!r} has no {word} that could be switched off"
        if word == "word":
            msg += "; unit=re.compile(r'\\S+') takes punctuation for words"
        raise InputError(msg)
    _check_apart([s for part in spans for s in part], text)
    if names is None:
        spans = _shared(spans, text, repeats)
        names = [text[part[0][0] : part[0][1]] for part in spans]
    parts = tuple(tuple(sorted(part)) for part in spans)
    return Passage(text, parts, unique(names), unit_word(unit), label=label)


def _shared(spans: list[list[Span]], text: str, repeats: Repeats) -> list[list[Span]]:
    if isinstance(repeats, str) and repeats == "separate":
        return spans
    key: Callable[[str], Hashable] = repeats if callable(repeats) else str
    groups: dict[Hashable, list[Span]] = {}
    for part in spans:
        own = called(key, "repeats", text[part[0][0] : part[0][1]])
        try:
            groups.setdefault(own, []).extend(part)
        except TypeError:
            msg = f"the function given as repeats= returned {own!r:.40}, a {type(own).__name__}; "
            msg += "it must return a text, a number or a tuple"
            raise InputError(msg) from None
    return list(groups.values())


def _check_apart(spans: list[Span], text: str) -> None:
    """Raise if two spans overlap."""
    ordered = sorted(spans)
    for (a, b), (c, d) in pairwise(ordered):
        if c < b:
            msg = f"the spans ({a}, {b}) {text[a:b]!r} and ({c}, {d}) {text[c:d]!r} overlap; "
            msg += "a character can belong to one part only"
            raise InputError(msg)


def unique(raw: Sequence[str]) -> tuple[str, ...]:
    """Short names, no two alike: a second ``free`` is ``free #2``.

    Examples
    --------
    >>> unique(["free", "now", "free"])
    ('free', 'now', 'free #2')
    """
    short = [_short(name) for name in raw]
    taken, count, out = set(short), dict.fromkeys(short, 0), []
    for name in short:
        count[name] += 1
        numbered = name
        while count[name] > 1 and numbered in taken:
            numbered = f"{name} #{count[name]}"
            count[name] += numbered in taken
        taken.add(numbered)
        out.append(numbered)
    return tuple(out)


def _short(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= NAME else f"{line[: NAME - 1].rstrip()}…"


def zoomed(passage: Passage, which: Sequence[int], note: str) -> Passage:
    """Return the passage with the words of some parts in their place; the others stay whole."""
    chosen = set(which)
    parts: list[tuple[Span, ...]] = []
    for i, part in enumerate(passage.spans):
        inside = [
            ((a + c, a + d),) for a, b in part for c, d in words(passage.text[a:b]) if i in chosen
        ]
        parts += inside or [part]
    parts.sort()
    texts = [passage.text[p[0][0] : p[0][1]] for p in parts]
    return Passage(passage.text, tuple(parts), unique(texts), "part", note, passage.label)
