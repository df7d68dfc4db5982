"""`SplitText`: a text and the parts of it that can be switched off, found by a unit."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from credex.domains.text.words import Span, sentences, trimmed, words
from credex.errors import InputError

__all__ = ["SplitText", "called", "span_finder", "split_text", "zoomed"]

UNITS: dict[str, Callable[[str], list[Span]]] = {"word": words, "sentence": sentences}

MAX_NAME = 48
"""Longest name of a part, in characters."""


@dataclass(frozen=True, slots=True)
class SplitText:
    """A text and its d parts: what `Text.at` looks at, and what an explanation keeps."""

    text: str
    spans: tuple[tuple[Span, ...], ...]  # of each part, in order; a shared word has several
    names: tuple[str, ...]  # no two alike
    unit: str  # what one part is called: "word", "sentence", "token" or "part"
    note: str = ""  # how the parts were chosen
    label: Any = None


def split_text(text: str, unit: Any, repeats: Any, label: Any = None) -> SplitText:
    """Split ``text`` into units; repeated ones become one part if they are shared."""
    names: list[str] | None = None
    if isinstance(unit, Mapping):
        names = [str(name) for name in unit]
        parts = [_pairs(pairs, text, f"unit[{name!r}]") for name, pairs in unit.items()]
    else:
        parts = [[span] for span in span_finder(unit)(text)]
    word = unit if isinstance(unit, str) else "token" if _is_tokenizer(unit) else "part"
    if not any(parts):
        msg = f"the text {text[:40]!r} has no {word} that could be switched off"
        if word == "word":
            msg += "; unit=re.compile(r'\\S+') takes punctuation for words"
        raise InputError(msg)
    for (a, b), (c, d) in pairwise(sorted(span for part in parts for span in part)):
        if c < b:
            msg = f"the spans ({a}, {b}) {text[a:b]!r} and ({c}, {d}) {text[c:d]!r} overlap; "
            msg += "a character can belong to one part only"
            raise InputError(msg)
    if names is None:
        parts = _shared(parts, text, repeats)
        names = [text[part[0][0] : part[0][1]] for part in parts]
    spans = tuple(tuple(sorted(part)) for part in parts)
    return SplitText(text, spans, unique(names), word, label=label)


def zoomed(split: SplitText, which: Sequence[int], note: str) -> SplitText:
    """Replace the parts ``which`` by the words inside them; the others stay whole."""
    text = split.text
    parts: list[tuple[Span, ...]] = []
    for i, part in enumerate(split.spans):
        inside = [((a + c, a + d),) for a, b in part for c, d in words(text[a:b]) if i in which]
        parts += inside or [part]
    parts.sort()
    names = unique([text[part[0][0] : part[0][1]] for part in parts])
    return SplitText(text, tuple(parts), names, "part", note, split.label)


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """Shorten names and number repeated ones: a second ``free`` is ``free #2``.

    Examples
    --------
    >>> unique(["free", "now", "free"])
    ('free', 'now', 'free #2')
    """
    lines = [" ".join(name.split()) for name in names]
    short = [s if len(s) <= MAX_NAME else f"{s[: MAX_NAME - 1].rstrip()}…" for s in lines]
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


def span_finder(unit: Any) -> Callable[[str], list[Span]]:
    """Return the function that finds the spans of ``unit`` in a text; raise for an unknown unit."""
    if isinstance(unit, re.Pattern):
        if not isinstance(unit.pattern, str):
            raise InputError(f"unit is the bytes pattern {unit.pattern!r}; compile a str")
        return lambda text: [s for m in unit.finditer(text) if (s := trimmed(text, *m.span()))]
    if isinstance(unit, str) and unit in UNITS:
        return UNITS[unit]
    if _is_tokenizer(unit):
        return lambda text: _merged(_offsets(unit, text))
    if callable(unit):
        return lambda text: _listed(called(unit, "unit", text), text)
    if isinstance(unit, Iterable) and not isinstance(unit, str | bytes):
        return lambda text: _listed(unit, text)
    msg = f"unit={unit!r}; use 'word', 'sentence', a compiled pattern, a tokenizer, a function "
    msg += "of the text that returns (start, end) pairs, or the pairs themselves"
    raise InputError(msg)


def called(function: Callable[[str], Any], option: str, text: str) -> Any:
    """Call the user's function on a piece of text; what it raises becomes an `InputError`."""
    try:
        return function(text)
    except Exception as cause:
        msg = f"the function given as {option}= raised {type(cause).__name__} on {text[:40]!r}: "
        raise InputError(msg + str(cause)) from cause


def _shared(parts: list[list[Span]], text: str, repeats: Any) -> list[list[Span]]:
    """Join the parts for which ``repeats`` returns the same value."""
    if isinstance(repeats, str) and repeats == "separate":
        return parts
    key: Callable[[str], Hashable] = repeats if callable(repeats) else str
    groups: dict[Hashable, list[Span]] = {}
    for part in parts:
        value = called(key, "repeats", text[part[0][0] : part[0][1]])
        try:
            groups.setdefault(value, []).extend(part)
        except TypeError:
            msg = f"the function given as repeats= returned {value!r:.40}, a "
            msg += f"{type(value).__name__}; it must return a text, a number or a tuple"
            raise InputError(msg) from None
    return list(groups.values())


def _is_tokenizer(unit: Any) -> bool:
    """Whether ``unit`` has the methods of a tokenizer of ``tokenizers`` or ``transformers``."""
    has = hasattr(unit, "encode") and hasattr(unit, "get_vocab")
    return has and not isinstance(unit, type)


def _offsets(tokenizer: Any, text: str) -> list[Span]:
    """Return where the tokens lie in the text, without special tokens."""
    if hasattr(tokenizer, "encode_batch") and not hasattr(tokenizer, "is_fast"):
        if tokenizer.truncation is not None:
            tokenizer = copy.deepcopy(tokenizer)  # the user's keeps its settings
            tokenizer.no_truncation()
        return [(a, b) for a, b in tokenizer.encode(text, add_special_tokens=False).offsets]
    if not getattr(tokenizer, "is_fast", False):
        msg = f"{type(tokenizer).__name__} does not say where its tokens lie in the text; use its "
        msg += "fast version (AutoTokenizer.from_pretrained(…, use_fast=True))"
        raise InputError(msg)
    read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False)
    return [(a, b) for a, b in read["offset_mapping"]]


def _merged(offsets: list[Span]) -> list[Span]:
    """Drop empty tokens; tokens that share a character (bytes of an emoji) become one."""
    out: list[Span] = []
    for a, b in sorted(s for s in offsets if s[0] < s[1]):
        if out and a < out[-1][1]:
            out[-1] = (out[-1][0], max(b, out[-1][1]))
        else:
            out.append((a, b))
    return out


def _listed(given: Any, text: str) -> list[Span]:
    """Return the spans of ``(start, end)`` pairs, or of tokens, which are searched in order."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        msg = f"the function given as unit= returned {given!r:.60}; it must return a list of "
        msg += "(start, end) pairs, or of the tokens in their order"
        raise InputError(msg)
    items = list(given)
    if not items or not all(isinstance(token, str) for token in items):
        return _pairs(items, text, "unit")
    out, end = [], 0
    for i, token in enumerate(items):
        start = text.find(token, end) if token else -1
        if start < 0:
            msg = f"token {i} of the tokenizer, {token!r}, is not in the text after character "
            msg += f"{end} ({text[end : end + 30]!r}…): it changes the text. Let the function "
            msg += "given as unit= return (start, end) pairs instead of tokens"
            raise InputError(msg)
        end = start + len(token)
        out.append((start, end))
    return out


def _pairs(items: Any, text: str, where: str) -> list[Span]:
    """Check ``(start, end)`` pairs, or a single pair."""
    one = isinstance(items, Sequence) and len(items) == 2 and all(isinstance(v, int) for v in items)
    out = []
    for item in [items] if one or not isinstance(items, Iterable) else items:
        try:
            start, end = (int(v) for v in item)
        except (TypeError, ValueError):
            msg = f"{where} has {item!r} where a (start, end) pair of characters is needed"
            raise InputError(msg) from None
        if not 0 <= start < end <= len(text):
            msg = f"{where} has the span ({start}, {end}), but the text has {len(text)} "
            msg += "characters; use 0 ≤ start < end ≤ its length"
            raise InputError(msg)
        out.append((start, end))
    return out
