"""From a user's tokenizer, pattern, function or list to spans of the text."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from credex.domains.text.words import Span, sentences, words
from credex.errors import InputError

__all__ = ["UNITS", "Unit", "called", "check_unit", "found", "unit_word"]

UNITS: dict[str, Callable[[str], list[Span]]] = {"word": words, "sentence": sentences}

Unit = Any
"""``"word"``, ``"sentence"``, a compiled pattern, a tokenizer, a function of the text, spans, or
named spans."""


def unit_word(unit: Unit) -> str:
    """What one part is called, for people."""
    if isinstance(unit, str):
        return unit
    if isinstance(unit, re.Pattern) or not _is_tokenizer(unit):
        return "part"
    return "token"


def check_unit(unit: Unit) -> None:
    """Raise if ``unit`` is nothing that can take a text apart."""
    if isinstance(unit, str):
        if unit not in UNITS:
            msg = f"unit={unit!r}; use 'word', 'sentence', a compiled pattern, a tokenizer, "
            msg += "a function that returns (start, end) pairs, or the pairs themselves"
            raise InputError(msg)
        return
    if isinstance(unit, re.Pattern):
        if not isinstance(unit.pattern, str):
            raise InputError(f"unit is the bytes pattern {unit.pattern!r}; compile a str")
        return
    if _is_tokenizer(unit) or callable(unit):
        return
    if isinstance(unit, bytes) or not isinstance(unit, Iterable):
        msg = f"unit is a {type(unit).__name__}; use 'word', 'sentence', a compiled pattern, a "
        msg += "tokenizer, a function, or (start, end) pairs"
        raise InputError(msg)


def found(unit: Unit, text: str) -> tuple[list[list[Span]], list[str] | None]:
    """Take ``text`` apart.

    Returns
    -------
    spans
        For each part the spans that it is made of.
    names
        The user's names of the parts, or ``None``.
    """
    if isinstance(unit, str):
        return [[s] for s in UNITS[unit](text)], None
    if isinstance(unit, re.Pattern):
        matches = (m.span() for m in unit.finditer(text))
        return [[s] for a, b in matches if (s := _without_space(text, a, b))], None
    if isinstance(unit, Mapping):
        spans = [_pairs(v, text, f"unit[{k!r}]") for k, v in unit.items()]
        return spans, [str(k) for k in unit]
    if _is_tokenizer(unit):
        return [[s] for s in _merged(_offsets(unit, text))], None
    given = called(unit, "unit", text) if callable(unit) else unit
    return [[s] for s in _listed(given, text)], None


def called(function: Callable[[str], Any], option: str, text: str) -> Any:
    """Call a function of the user's on a piece of text; what it raises is an `InputError`."""
    try:
        return function(text)
    except Exception as cause:
        msg = f"the function given as {option}= raised {type(cause).__name__} on {text[:40]!r}: "
        raise InputError(msg + str(cause)) from cause


def _without_space(text: str, start: int, end: int) -> Span | None:
    """Drop white space at the ends of a match, so that removing it leaves the text tidy."""
    piece = text[start:end]
    kept = piece.strip()
    first = start + len(piece) - len(piece.lstrip())
    return (first, first + len(kept)) if kept else None


def _is_tokenizer(unit: Any) -> bool:
    """Whether it is a tokenizer of ``tokenizers`` or ``transformers``, by what it can do."""
    own = hasattr(unit, "encode") and hasattr(unit, "get_vocab")
    return own and not isinstance(unit, type)


def _offsets(tokenizer: Any, text: str) -> list[Span]:
    """Offsets of the tokens, special ones left out."""
    if hasattr(tokenizer, "encode_batch") and not hasattr(tokenizer, "is_fast"):
        if tokenizer.truncation is not None:
            tokenizer = copy.deepcopy(tokenizer)  # the user's own keeps its settings
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


def _nested(spans: Any) -> bool:
    """Whether it is a list of pairs rather than one pair."""
    return not (
        isinstance(spans, Sequence) and len(spans) == 2 and all(isinstance(v, int) for v in spans)
    )


def _listed(given: Any, text: str) -> list[Span]:
    """Spans from pairs, or from the tokens themselves, which are looked for in their order."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        msg = f"the function given as unit= returned {given!r:.60}; it must return a list of "
        msg += "(start, end) pairs, or of the tokens in their order"
        raise InputError(msg)
    items = list(given)
    if items and all(isinstance(t, str) for t in items):
        return _aligned(items, text)
    return _pairs(items, text, "unit")


def _aligned(tokens: list[str], text: str) -> list[Span]:
    out, at = [], 0
    for i, token in enumerate(tokens):
        start = text.find(token, at) if token else -1
        if start < 0:
            msg = f"token {i} of the tokenizer, {token!r}, is not in the text after character "
            msg += f"{at} ({text[at : at + 30]!r}…): it changes the text. Let the function given "
            msg += "as unit= return (start, end) pairs instead of tokens"
            raise InputError(msg)
        at = start + len(token)
        out.append((start, at))
    return out


def _pairs(items: Any, text: str, where: str) -> list[Span]:
    out = []
    for item in items if isinstance(items, Iterable) and _nested(items) else [items]:
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
