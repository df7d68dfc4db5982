"""`Text`: words, tokens, sentences or spans of a string, removed or replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.cells import decode, encode_or_text
from credex.domains.masked import MaskedDomain, MaskedNeighbourhood
from credex.domains.text.spans import SplitText, called, span_finder, split_text, zoomed
from credex.errors import InputError
from credex.typing import Ints, Masks

__all__ = ["Text", "TextNeighbourhood"]

Mask = str | Callable[[str], str] | None


class Text(MaskedDomain):
    r"""A domain of strings: the model receives a list of strings, whole texts with parts missing.

    Parameters
    ----------
    unit
        What is switched on and off: ``"word"`` (punctuation stays where it is), ``"sentence"``, a
        compiled pattern (``re.compile(r"\S+")``: words with their punctuation), a tokenizer of
        ``tokenizers`` or ``transformers``, a function that maps the text to ``(start, end)`` pairs
        or to its tokens in order, the pairs themselves, or ``{name: pairs}``.
    mask
        What replaces a part that is off: nothing (``None``: it is cut out, with the white space
        after it), a text such as ``"[MASK]"`` or ``"…"``, or a function of the part's text.
    repeats
        ``"separate"``: a word that occurs twice is two features, ``free`` and ``free #2``;
        ``"shared"``: one feature, on and off everywhere at once; or a function whose value is the
        same for parts that are shared (``str.casefold`` ignores case).

    Examples
    --------
    >>> here = Text().at("Win a free phone, free!")
    >>> here.names
    ('Win', 'a', 'free', 'phone', 'free #2')
    >>> import numpy as np
    >>> here.coalition_inputs(np.array([[True, False, True, True, False]]))[0]
    ['Win free phone, !']
    >>> Text(mask="[MASK]", repeats="shared").at("so so good").base_inputs()
    ['[MASK] [MASK] [MASK]']
    """

    batch = "a list of strings"

    def __init__(self, unit: Any = "word", *, mask: Mask = None, repeats: Any = "separate") -> None:
        span_finder(unit)  # raises for an unknown unit
        if not (mask is None or isinstance(mask, str) or callable(mask)):
            msg = f"mask is {mask!r}; use None (remove), a text such as '[MASK]', or a function"
            raise InputError(msg)
        if isinstance(mask, str):
            _check_encodable(mask, "mask")
        known = isinstance(repeats, str) and repeats in ("separate", "shared")
        if not known and not callable(repeats):
            msg = f"repeats is {repeats!r}; use 'separate', 'shared', or a function (str.casefold)"
            raise InputError(msg)
        self.unit, self.mask, self.repeats = unit, mask, repeats

    def at(self, x: Any) -> TextNeighbourhood:
        """Return the neighbourhood of one string (or of what `restore` or `zoom` returned)."""
        if isinstance(x, str | np.str_):
            x = self._split_one(str(x))
        if isinstance(x, SplitText):
            return TextNeighbourhood(x, self.mask)
        msg = f"x is a {type(x).__name__}; a text is one string"
        if isinstance(x, list | tuple):
            msg += "; explain_many takes a list of them"
        raise InputError(msg)

    def _split_one(self, text: str, label: Any = None) -> SplitText:
        """Split one text into its parts, or raise an `InputError`."""
        if not text.strip():
            what = "empty" if not text else "only white space"
            raise InputError(f"the text is {what}: there is nothing to switch off")
        _check_encodable(text, "the text")
        return split_text(text, self.unit, self.repeats, label)

    def split(self, X: Any) -> list[Any]:
        """Split a batch: a list, array or series of strings; a series keeps its labels."""
        labels = getattr(X, "index", None)
        if labels is None or callable(labels):  # a list has a method of that name
            return super().split(X)
        return [self._labelled(t, label) for t, label in zip(X, labels, strict=True)]

    def _labelled(self, text: Any, label: Any) -> Any:
        """Return the text with its label; a bad text as it is: `at` raises for it alone."""
        try:
            return self._split_one(text, label) if isinstance(text, str) else text
        except InputError:
            return text

    def restore(self, payload: Any) -> SplitText:
        """Turn `TextNeighbourhood.payload` back into what `at` takes."""
        if not isinstance(payload, dict) or payload.get("kind") != "text":
            raise InputError("this explanation is not of a text; use the domain it was made with")
        return SplitText(
            payload["text"],
            tuple(tuple((int(a), int(b)) for a, b in part) for part in payload["spans"]),
            tuple(payload["names"]),
            payload["unit"],
            payload["note"],
            decode(payload["label"]),
        )

    def zoom(self, payload: Any, which: Sequence[int], note: str) -> SplitText:
        """Return the same text with the words of the parts ``which`` as parts of their own."""
        return zoomed(self.restore(payload), which, note)


class TextNeighbourhood(MaskedNeighbourhood):
    """One text and the texts with some of its parts removed or replaced."""

    def __init__(self, source: SplitText, mask: Mask) -> None:
        self.source, self._mask = source, mask
        self.names, self.label, self.part = source.names, source.label, source.unit
        self.removal = _removal(mask, source.unit) + (f"; {source.note}" if source.note else "")

    @cached_property
    def row_bytes(self) -> int:
        """At most four bytes a character, and the overhead of a Python string."""
        return 64 + 4 * len(self.source.text)

    @cached_property
    def _replacements(self) -> dict[int, str]:
        """What replaces a span that is off, by the span's first character."""
        text, mask = self.source.text, self._mask
        spans = [span for part in self.source.spans for span in part]
        if callable(mask):
            return {a: _masked(mask, text[a:b]) for a, b in spans}
        return {a: mask or "" for a, _ in spans}

    @cached_property
    def active(self) -> Masks:
        """``(d,)``: false where a part is replaced by itself."""
        text, new = self.source.text, self._replacements
        return np.array([any(text[a:b] != new[a] for a, b in part) for part in self.source.spans])

    @cached_property
    def _pieces(self) -> tuple[NDArray[Any], NDArray[Any], Ints]:
        """The text in pieces: each as it is when its part is on, when it is off, and that part."""
        text, new = self.source.text, self._replacements
        ordered = sorted((a, b, i) for i, part in enumerate(self.source.spans) for a, b in part)
        following = [*(a for a, *_ in ordered[1:]), len(text)]
        on, off, part_of = [], [], []
        end = 0
        for (a, b, i), stop in zip(ordered, following, strict=True):
            before, end = end, b
            if self._mask is None and (a == 0 or text[a - 1].isspace()):
                end = stop - len(text[b:stop].lstrip())  # the white space goes with the part
            on.append(text[before:end])
            off.append(text[before:a] + new[a])
            part_of.append(i)
        rest = text[end:]  # the same whether the last part is on or off
        on[-1], off[-1] = on[-1] + rest, off[-1] + rest
        return np.array(on, dtype=object), np.array(off, dtype=object), np.array(part_of)

    def inputs(self, masks: Masks) -> list[str]:
        """Return one text for each of ``(n, d)`` masks."""
        on, off, part_of = self._pieces
        return ["".join(row) for row in np.where(masks[:, part_of], on, off)]

    def payload(self) -> dict[str, Any]:
        """Return the text, its parts, and what replaces them."""
        source, new = self.source, self._replacements
        each = [[new[a] for a, _ in part] for part in source.spans]
        return {
            "kind": "text",
            "text": source.text,
            "unit": source.unit,
            "names": list(source.names),
            "spans": [[[a, b] for a, b in part] for part in source.spans],
            "mask": each if callable(self._mask) else self._mask,
            "note": source.note,
            "label": encode_or_text(source.label),
        }


def _masked(mask: Callable[[str], Any], piece: str) -> str:
    """Return what the user's function puts in place of a piece of text."""
    new = called(mask, "mask", piece)
    if not isinstance(new, str):
        msg = f"the function given as mask= returned {new!r} for {piece!r}; it must return a text"
        raise InputError(msg)
    return new


def _check_encodable(text: str, what: str) -> None:
    """Raise if ``text`` has a lone surrogate, which no tokenizer takes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as cause:
        at = cause.start
        msg = f"{what} has a lone surrogate, {text[at]!r}, at character {at}: it was decoded "
        msg += "wrongly. Decode the bytes again, or text.encode(errors='replace').decode()"
        raise InputError(msg) from None


def _removal(mask: Mask, word: str) -> str:
    """Say how a part is switched off."""
    if mask is None:
        return f"a {word} is cut out"
    new = repr(mask) if isinstance(mask, str) else f"{getattr(mask, '__name__', 'a function')}()"
    return f"a {word} is replaced by {new}"
