"""The text itself: colour says how much a part matters, its underline how certain that is."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Self

from credex import formatting, markup
from credex.cells import DIRECTIONS, clean
from credex.errors import InputError
from credex.explanation_base import ExplanationBase
from credex.formatting import View

ROUNDING = 1e-9
"""Importances below this share of the largest are rounding errors: they have no colour."""

FAINT = 1 / 6
"""Uncertain parts below this strength have no colour in a terminal, which has no paler shades."""

STRONGEST = 0.72
"""Opacity of the colour behind the largest importance: text on it stays readable."""

STYLE = """
.credex-text{--up:213,94,0;--down:0,114,178;font:15px/1.9 system-ui,sans-serif;max-width:50em}
@media (prefers-color-scheme:dark){.credex-text{--up:235,120,30;--down:50,140,215}}
.credex-text .words{white-space:pre-wrap;unicode-bidi:plaintext;text-align:start;
overflow-wrap:anywhere;margin:.6em 0}
.credex-text .up{background:rgba(var(--up),var(--a))}
.credex-text .down{background:rgba(var(--down),var(--a))}
.credex-text .up,.credex-text .down{border-radius:3px;padding:1px 0;
box-decoration-break:clone;-webkit-box-decoration-break:clone;
text-decoration-skip-ink:none;text-underline-offset:4px}
.credex-text .sure{text-decoration:underline solid 2px}
.credex-text .unsure{text-decoration:underline dotted 1.5px;
text-decoration-color:color-mix(in srgb,currentColor 40%,transparent)}
.credex-text .small{font-size:12.5px;line-height:1.5;opacity:.8}
.credex-text .key span{margin-right:1.2em;white-space:nowrap}
.credex-text .key i{font-style:normal;margin:0;padding:1px 4px}
"""

RAISES, LOWERS = (223, 215, 208), (153, 111, 39)
"""Background colours of a terminal of 256, weak to strong; the letters on them are black."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the text: a feature, or (without a name) what lies between two features.

    ``strength`` is the importance over the largest one, −1 to 1; ``certain`` says that the interval
    excludes zero; ``numbers`` are importance and interval in words.
    """

    text: str
    name: str = ""
    numbers: str = ""
    strength: float = 0.0
    certain: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TextPlot:
    """A text drawn with its importances; a notebook shows it at the end of a cell."""

    explanation: ExplanationBase
    view: View
    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, e: ExplanationBase, output: Any, level: float | None) -> Self:
        """Take the text of an explanation apart; raise if it explains something else."""
        if not isinstance(e.payload, dict) or e.payload.get("kind") != "text":
            msg = "plot.text() is for explanations of texts (cx.Text); plot.intervals() is for all"
            raise InputError(msg)
        view = View.of(e, output, level)
        return cls(e, view, tuple(_pieces(e, view)))

    @property
    def html(self) -> str:
        """A whole page that needs no other file; it follows the reader's light or dark mode."""
        return markup.page(f"{self.explanation.method}: text", self._repr_html_())

    def _repr_html_(self) -> str:
        e, level = self.explanation, escape(formatting.percent(self.view.level))
        head = f"<b>{e.method}</b>: {escape(formatting.headline(e, self.view.output))}"
        up, down = (f'<i class="{c}" style="--a:{STRONGEST}">' for c in ("up", "down"))
        return (
            f'<div class="credex-text"><style>{STYLE}</style><div>{head}</div>'
            f'<div class="words" dir="auto">{"".join(map(_span, self.pieces))}</div>'
            '<div class="small key">'
            f"<span>{up}raises</i> {down}lowers</i> the prediction by up to {self._peak()}</span>"
            f'<span><i class="sure">underlined</i> {level} interval excludes 0</span>'
            '<span><i class="unsure">dotted</i> it does not</span></div>'
            f'<div class="small">{"<br>".join(map(escape, formatting.footer(e)))}</div></div>'
        )

    def _peak(self) -> str:
        """The largest importance, with two digits."""
        power = formatting.power_of(self.view.peak)
        peak = self.view.peak / 10.0**power
        return formatting.number(peak, formatting.decimals(peak, peak)) + formatting.times(power)

    def terminal(self, *, colour: bool | None = None) -> str:
        """Return the text for a terminal.

        Parameters
        ----------
        colour
            ANSI colours and underlines; by default if standard output is a terminal and
            ``NO_COLOR`` is not set. Without colours ``[+++free]`` raises strongly, ``[-dear]``
            lowers weakly; parts whose interval includes zero are left unmarked.
        """
        e, level = self.explanation, formatting.percent(self.view.level)
        if colour is None:
            colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        body = "".join(map(_coloured if colour else _marked, self.pieces))
        if colour:
            up, down = (_paint(w, s, certain=False) for w, s in (("raises", 1.0), ("lowers", -1.0)))
            key = f"{up} {down} the prediction by up to {self._peak()}; "
            key += f"{_paint('underlined', 0.0, certain=True)}: the {level} interval excludes 0"
        else:
            key = f"[+raises] [-lowers] the prediction; +++: by up to {self._peak()}; "
            key += f"unmarked: the {level} interval includes 0"
        head = f"{e.method}: {formatting.headline(e, self.view.output)}"
        return "\n".join([head, "", body, "", key, *formatting.footer(e)])

    def save(self, path: str | Path) -> Path:
        """Write the page to ``path`` (``.html``), or the text without colours (``.txt``)."""
        target = Path(path)
        kind = target.suffix.lower()
        if kind not in (".html", ".htm", ".txt"):
            raise InputError(f"cannot write {target.name!r}: the name must end in .html or .txt")
        text = self.terminal(colour=False) + "\n" if kind == ".txt" else self.html
        target.write_text(text, encoding="utf-8")
        return target

    def __str__(self) -> str:
        return self.terminal()

    def __repr__(self) -> str:
        n = sum(bool(p.name) for p in self.pieces)
        return f"<text of {n} parts; print() it, or .save('why.html')>"


def _pieces(e: ExplanationBase, view: View) -> Iterator[Piece]:
    """Yield the pieces of an explanation's text, in order."""
    rows, power = formatting.table(e, view, list(range(len(e.names))))
    features = []
    for i, row in enumerate(rows):
        numbers = f"{row.estimate} ({row.interval}){formatting.times(power)}"
        piece = Piece("", e.names[i], numbers)
        if abs(view.mean[i]) > ROUNDING * view.peak:  # not if it is unknown
            certain = bool(view.lower[i] > 0 or view.upper[i] < 0)
            piece = replace(piece, strength=float(view.mean[i] / view.peak), certain=certain)
        features.append(piece)
    text, done = e.payload["text"], 0
    spans = ((a, b, i) for i, parts in enumerate(e.payload["spans"]) for a, b in parts)
    for a, b, i in sorted(spans):
        if done < a:
            yield Piece(visible(text[done:a]))
        yield replace(features[i], text=visible(text[a:b]))
        done = b
    if done < len(text):
        yield Piece(visible(text[done:]))


def visible(text: str) -> str:
    r"""Return ``text`` with visible control characters and without changes of direction.

    Examples
    --------
    >>> visible("a\x1b[31mb")
    'a␛[31mb'
    """
    return "".join(map(_visible, text.replace("\r\n", "\n")))


def _visible(c: str) -> str:
    if c in "\n\t":
        return c
    if ord(c) < 0x20:
        return chr(0x2400 + ord(c))
    if c == "\x7f":
        return "␡"
    return "\ufffd" if unicodedata.category(c) in ("Cc", "Cs") or c in DIRECTIONS else c


def _span(p: Piece) -> str:
    """Return a piece as HTML."""
    if not p.name:
        return escape(p.text)
    title = escape(f"{formatting.shorten(clean(p.name), 60)}: {p.numbers}")
    if p.strength == 0.0:
        return f'<span title="{title}">{escape(p.text)}</span>'
    kind = f"{'up' if p.strength > 0 else 'down'} {'sure' if p.certain else 'unsure'}"
    alpha = f"--a:{STRONGEST * abs(p.strength):.3f}"
    return f'<span class="{kind}" style="{alpha}" title="{title}">{escape(p.text)}</span>'


def _third(strength: float) -> int:
    """0, 1 or 2: weak, medium, strong."""
    return min(int(3 * abs(strength)), 2)


def _marked(p: Piece) -> str:
    """Return a piece for a terminal without colours."""
    if not p.certain:
        return p.text
    sign = ("+" if p.strength > 0 else "-") * (_third(p.strength) + 1)
    return f"[{sign}{p.text}]"


def _coloured(p: Piece) -> str:
    """Return a piece for a terminal with colours."""
    if p.strength == 0.0 or (abs(p.strength) < FAINT and not p.certain):
        return p.text
    # A colour that continues over the end of a line would fill the rest of that line.
    lines = p.text.split("\n")
    return "\n".join(_paint(s, p.strength, certain=p.certain) if s else "" for s in lines)


def _paint(text: str, strength: float, *, certain: bool) -> str:
    codes = ["4"] if certain else []
    if strength:
        shade = (RAISES if strength > 0 else LOWERS)[_third(strength)]
        codes += ["38;5;16", f"48;5;{shade}"]
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m"
