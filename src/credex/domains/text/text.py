"""`Text`: words, tokens, sentences or spans of a string, removed or replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import compress
from typing import Any, cast

import numpy as np

from credex.cells import decode, encode
from credex.domains.masked import PartsNeighbourhood
from credex.domains.text.spans import Passage, Repeats, cut, zoomed
from credex.domains.text.tokens import Unit, called, check_unit
from credex.errors import InputError
from credex.typing import Ints, Masks, Native

__all__ = ["Text", "TextNeighbourhood"]

Mask = str | Callable[[str], str] | None


class Text:
    r"""A domain of strings: the model receives a list of strings, whole texts with parts missing.

    Parameters
    ----------
    unit
        What is switched on and off: ``"word"`` (punctuation stays where it is), ``"sentence"``, a
        compiled pattern (``re.compile(r"\S+")``: words with their punctuation), a tokenizer of
        ``tokenizers`` or ``transformers``, a function that maps the text to ``(start, end)`` pairs
        or to its tokens in order, the pairs themselves, or ``{name: pairs}``.
    mask
        What stands in the place of a part that is off: nothing (``None``: it is cut out, with the
        white space after it), a text such as ``"[MASK]"`` or ``"…"``, or a function of the part's
        text.
    repeats
        ``"separate"``: a word that comes twice is two features, ``free`` and ``free #2``;
        ``"shared"``: one feature, on and off everywhere at once; or a function that says which are
        the same (``str.casefold``: whatever their case).

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

    names = None  # every text has its own words

    def __init__(
        self, unit: Unit = "word", *, mask: Mask = None, repeats: Repeats = "separate"
    ) -> None:
        check_unit(unit)
        if not (mask is None or isinstance(mask, str) or callable(mask)):
            msg = f"mask is {mask!r}; use None (remove), a text such as '[MASK]', or a function"
            raise InputError(msg)
        if isinstance(mask, str):
            _encodable(mask, "mask")
        known = isinstance(repeats, str) and repeats in ("separate", "shared")
        if not known and not callable(repeats):
            msg = f"repeats is {repeats!r}; use 'separate', 'shared', or a function such as "
            msg += "str.casefold"
            raise InputError(msg)
        self.unit, self.mask, self.repeats = unit, mask, repeats
        self.summary = f"no background: {_removal(mask)}"

    def at(self, x: Any) -> TextNeighbourhood:
        """Look at one text: a string (or what `restore` or `zoom` returned)."""
        if isinstance(x, Passage):
            return TextNeighbourhood(x, self.mask)
        if isinstance(x, str | np.str_):
            return TextNeighbourhood(cut(_checked(str(x)), self.unit, self.repeats), self.mask)
        msg = f"x is a {type(x).__name__}; a text is one string"
        if isinstance(x, list | tuple):
            msg += "; explain_many takes a list of them"
        raise InputError(msg)

    def split(self, X: Any) -> list[Any]:
        """Take a batch apart: a list, array or series of strings."""
        if isinstance(X, str | bytes) or not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
            msg = f"X is a {type(X).__name__}; pass a list of strings, or use explain for one text"
            raise InputError(msg)
        labels = getattr(X, "index", None)
        if labels is None or callable(labels):  # a list has a method of that name
            return list(X)
        return [
            cut(_checked(t), self.unit, self.repeats, label) if isinstance(t, str) else t
            for t, label in zip(X, labels, strict=True)
        ]

    def concat(self, inputs: Sequence[Native]) -> list[str]:
        """Join lists of strings."""
        return [text for block in inputs for text in block]

    def restore(self, payload: Any) -> Passage:
        """Turn `TextNeighbourhood.payload` back into what `at` takes."""
        if not isinstance(payload, dict) or payload.get("kind") != "text":
            raise InputError("this explanation is not of a text; use the domain it was made with")
        return passage_of(payload)

    def zoom(self, payload: Any, which: Sequence[int], note: str) -> Passage:
        """Return the same text with the words of the parts ``which`` as parts of their own."""
        return zoomed(self.restore(payload), which, note)


def passage_of(payload: dict[str, Any]) -> Passage:
    """The passage that an explanation of a text remembers."""
    spans = tuple(tuple((int(a), int(b)) for a, b in part) for part in payload["spans"])
    return Passage(
        payload["text"],
        spans,
        tuple(payload["names"]),
        payload["unit"],
        payload["note"],
        decode(payload["label"]),
    )


def _checked(text: str) -> str:
    if not text.strip():
        what = "empty" if not text else "only white space"
        raise InputError(f"the text is {what}: there is nothing to switch off")
    return _encodable(text, "the text")


def _encodable(text: str, what: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as cause:
        at = cause.start
        msg = f"{what} has a lone surrogate, {text[at]!r}, at character {at}: it was decoded "
        msg += "wrongly. Decode the bytes again, or text.encode(errors='replace').decode()"
        raise InputError(msg) from None
    return text


def _label(label: Any) -> Any:
    try:
        return encode(label)
    except TypeError:
        return str(label)


def _removal(mask: Mask, word: str = "part") -> str:
    if mask is None:
        return f"a {word} is cut out"
    if isinstance(mask, str):
        return f"a {word} is replaced by {mask!r}"
    return f"a {word} is replaced by {getattr(mask, '__name__', 'a function')}()"


class TextNeighbourhood(PartsNeighbourhood):
    """One text and all texts that are left when parts of it are switched off."""

    def __init__(self, passage: Passage, mask: Mask) -> None:
        self.passage, self._mask = passage, mask
        self.names, self.label = passage.names, passage.label
        self.background_note = "no background: the base is the text with every part switched off"
        self.removal = _removal(mask, passage.unit) + (f"; {passage.note}" if passage.note else "")

    @property
    def unit(self) -> tuple[str, ...]:
        """``"per word present"`` for each part."""
        return (f"per {self.passage.unit} present",) * len(self.names)

    @property
    def row_bytes(self) -> int:
        """At most four bytes a character, and Python's own share."""
        return 64 + 4 * len(self.passage.text)

    @cached_property
    def off(self) -> list[list[str]]:
        """What stands in the place of each span of each part that is off."""
        text, mask = self.passage.text, self._mask
        if mask is None or isinstance(mask, str):
            return [[mask or ""] * len(part) for part in self.passage.spans]
        made = [[called(mask, "mask", text[a:b]) for a, b in part] for part in self.passage.spans]
        for part, given in zip(self.passage.spans, made, strict=True):
            for (a, b), new in zip(part, given, strict=True):
                if not isinstance(cast("object", new), str):
                    msg = f"the function given as mask= returned {new!r} for {text[a:b]!r}; "
                    msg += "it must return a text"
                    raise InputError(msg)
        return made

    @cached_property
    def active(self) -> Masks:
        """``(d,)``: false where a part is replaced by itself."""
        text, cuts = self.passage.text, self._mask is None
        same = [
            not cuts and all(text[a:b] == new for (a, b), new in zip(part, off, strict=True))
            for part, off in zip(self.passage.spans, self.off, strict=True)
        ]
        return ~np.array(same, dtype=np.bool_)

    @cached_property
    def _pieces(self) -> tuple[list[str], Ints, Masks]:
        """The text in pieces; of each, its part (d: none) and whether it stands for "off"."""
        text = self.passage.text
        d, at = len(self.names), 0
        pieces: list[str] = []
        owner: list[int] = []
        stands_off: list[bool] = []
        ordered = sorted(
            (a, b, i, new)
            for i, (part, off) in enumerate(zip(self.passage.spans, self.off, strict=True))
            for (a, b), new in zip(part, off, strict=True)
        )
        for n, (a, b, i, new) in enumerate(ordered):
            end = b
            if self._mask is None and (a == 0 or text[a - 1].isspace()):
                stop = ordered[n + 1][0] if n + 1 < len(ordered) else len(text)
                while end < stop and text[end].isspace():
                    end += 1
            for piece, part_of, off in ((text[at:a], d, False), (text[a:end], i, False)):
                pieces.append(piece)
                owner.append(part_of)
                stands_off.append(off)
            if new:
                pieces.append(new)
                owner.append(i)
                stands_off.append(True)
            at = end
        pieces.append(text[at:])
        owner.append(d)
        stands_off.append(False)
        return pieces, np.array(owner, dtype=np.int64), np.array(stands_off, dtype=np.bool_)

    def coalition_inputs(
        self,
        masks: Masks,
        *,
        merge: bool = True,  # noqa: ARG002 - texts are never merged
    ) -> tuple[list[str], None]:
        """Return one text for each of ``(n, d)`` masks."""
        pieces, owner, stands_off = self._pieces
        n = len(masks)
        out: list[str] = []
        step = max(1_000_000 // len(pieces), 1)  # bounded memory for long texts
        for s in range(0, n, step):
            part = np.asarray(masks[s : s + step], dtype=np.bool_)
            wide = np.concatenate([part, np.ones((len(part), 1), dtype=np.bool_)], axis=1)
            keep = wide[:, owner] != stands_off
            out += ["".join(compress(pieces, row.tobytes())) for row in keep]
        return out, None

    def payload(self) -> dict[str, Any]:
        """The text, its parts, and what stands in their place."""
        p, mask = self.passage, self._mask
        return {
            "kind": "text",
            "text": p.text,
            "unit": p.unit,
            "names": list(p.names),
            "spans": [[[a, b] for a, b in part] for part in p.spans],
            "mask": mask if mask is None or isinstance(mask, str) else self.off,
            "note": p.note,
            "label": _label(p.label),
        }
