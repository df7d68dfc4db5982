"""Where words and sentences begin and end, in any script, with the standard library only."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

__all__ = ["Span", "sentences", "trimmed", "words"]

Span = tuple[int, int]
"""Start and end of a piece of text, in characters, the end not included."""

JOINERS = frozenset("'’.,\u200c\u200d\u00ad\u05f3\u05f4")
"""Marks that belong to a word (don’t, צה״ל) or number (1,000.5) between two characters of it."""

DIGIT_JOINERS = frozenset(".,")

IDEOGRAPHS = re.compile(
    "[\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Chinese characters and hiragana."""

CLOSERS = "\"'”’»)\\]}›」』"
BREAK = re.compile(
    rf"(?P<end>[.!?…؟۔।॥።။]+[{CLOSERS}]*(?=\s)|[。！？｡]+[{CLOSERS}]*)|(?P<gap>\n[^\S\n]*\n)"
)
ABBREVIATIONS = frozenset(
    (
        *("mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "inc", "ltd", "co", "dept"),
        *("vs", "etc", "e.g", "i.e", "cf", "no", "vol", "fig", "approx"),
    )
)
LAST_WORD = re.compile(r"[^\W\d_](?:[^\W_]|\.(?=\w))*\Z")


def words(text: str) -> list[Span]:
    """Spans of the words of ``text``; punctuation and white space lie between them.

    A word is a run of letters, digits and the marks that combine with them. Apostrophes inside a
    word and points or commas inside a number belong to it; a hyphen does not. Chinese characters
    and hiragana are one word each, as Unicode's rules have it; a run of symbols such as emoji is
    a word. Scripts that write without spaces otherwise (Thai, Khmer) need a tokenizer.

    Examples
    --------
    >>> text = "Don't pay 1,000.50 — it's free! 😀"
    >>> [text[a:b] for a, b in words(text)]
    ["Don't", 'pay', '1,000.50', "it's", 'free', '😀']
    """
    out: list[Span] = []
    kinds = [_kind(c) for c in text]
    n, i = len(text), 0
    while i < n:
        start, kind = i, kinds[i]
        i += 1
        if kind not in ("word", "single", "symbol"):
            continue
        while i < n and (
            (kind != "single" and kinds[i] == kind)
            or (kinds[i] == "joiner" and _joins(text, kinds, i))
            or kinds[i] == "mark"
        ):
            i += 1
        out.append((start, i))
    return out


def _kind(c: str) -> str:
    """Class of a character for `words`; ``""`` separates words."""
    category = unicodedata.category(c)
    if c in JOINERS:
        return "joiner"
    if category[0] == "M" or category == "Sk":
        return "mark"
    if category[0] in "LN" or category == "Pc":
        return "single" if IDEOGRAPHS.match(c) else "word"
    return "symbol" if category == "So" else ""


def _joins(text: str, kinds: list[str], i: int) -> bool:
    """Whether the joiner at ``i`` has letters (a point or comma: digits) on both sides."""
    if i + 1 >= len(text):
        return False
    if text[i] in DIGIT_JOINERS:
        return text[i - 1].isdigit() and text[i + 1].isdigit()
    if text[i] == "\u200d" and kinds[i + 1] == "symbol":  # families of emoji
        return True
    return kinds[i - 1] in ("word", "mark") and kinds[i + 1] == "word"


def sentences(text: str) -> list[Span]:
    """Spans of the sentences of ``text``, without the white space between them.

    A sentence ends at ``.``, ``!``, ``?`` or its like in other scripts before white space, at
    ``。`` anywhere, and at an empty line. A point does not end it after an initial or a common
    English abbreviation, or before a small letter.

    Examples
    --------
    >>> text = "Dr. Who left. Was it 3.5 miles? Yes"
    >>> [text[a:b] for a, b in sentences(text)]
    ['Dr. Who left.', 'Was it 3.5 miles?', 'Yes']
    """
    cuts = [0]
    for match in BREAK.finditer(text):
        if match["gap"] is not None:
            cuts.append(match.start())
        elif not _continues(text, match):
            cuts.append(match.end())
    cuts.append(len(text))
    return [s for a, b in pairwise(cuts) if (s := trimmed(text, a, b))]


def _continues(text: str, match: re.Match[str]) -> bool:
    """Whether a point ends an abbreviation and not the sentence."""
    if match[0] != ".":
        return False
    if text[match.end() :].lstrip()[:1].islower():
        return True
    before = LAST_WORD.search(text, max(match.start() - 24, 0), match.start())
    if before is None:
        return False
    word = before[0]
    return word.casefold() in ABBREVIATIONS or (len(word) == 1 and word.isupper())


def trimmed(text: str, start: int, end: int) -> Span | None:
    """Return the span without white space at its ends; ``None`` if nothing is left."""
    piece = text[start:end]
    kept = piece.strip()
    first = start + len(piece) - len(piece.lstrip())
    return (first, first + len(kept)) if kept else None
