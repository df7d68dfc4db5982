"""The text itself: colour says how much a part matters, its underline how certain that is."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Self

from credex import formatting
from credex.cells import clean
from credex.errors import InputError
from credex.explanation_base import ExplanationBase
from credex.plots.canvas import View
from credex.plots.text_pieces import Piece, pieces

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

PAGE = """<!doctype html>
<html lang="und"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title>
<style>:root{{color-scheme:light dark}}body{{margin:1.5em;background:Canvas;color:CanvasText}}
</style></head><body>
{body}
</body></html>
"""

RAISES, LOWERS = (223, 215, 208), (153, 111, 39)
"""Background colours of a terminal of 256, weak to strong; the letters on them are black."""


@dataclass(frozen=True, slots=True, eq=False)
class TextPlot:
    """A text drawn with its importances; shown by itself at the end of a notebook's cell.

    Attributes
    ----------
    explanation, view
        What is drawn, and its numbers.
    pieces
        The pieces of the text, in order.
    """

    explanation: ExplanationBase
    view: View
    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, e: ExplanationBase, output: Any, level: float | None) -> Self:
        """From an explanation of a text; anything else is an error."""
        if not isinstance(e.payload, dict) or e.payload.get("kind") != "text":
            msg = "plot.text() is for explanations of texts (cx.Text); plot.intervals() is for all"
            raise InputError(msg)
        view = View.of(e, output, level)
        return cls(e, view, tuple(pieces(e, view)))

    @property
    def html(self) -> str:
        """A whole page that needs no other file; it follows the reader's light or dark mode."""
        title = escape(f"{self.explanation.method}: text")
        return PAGE.format(title=title, body=self._repr_html_())

    def _repr_html_(self) -> str:
        e = self.explanation
        head = f"<b>{e.method}</b>: {escape(formatting.headline(e, self.view.output))}"
        words = "".join(map(_span, self.pieces))
        notes = "<br>".join(map(escape, formatting.footer(e)))
        return (
            f'<div class="credex-text"><style>{STYLE}</style><div>{head}</div>'
            f'<div class="words" dir="auto">{words}</div>'
            f'<div class="small key">{self._key()}</div><div class="small">{notes}</div></div>'
        )

    def _key(self) -> str:
        level = escape(formatting.percent(self.view.level))
        up, down = (f'<i class="{c}" style="--a:{STRONGEST}">' for c in ("up", "down"))
        return (
            f"<span>{up}raises</i> {down}lowers</i> the prediction by up to {self._peak()}</span>"
            f'<span><i class="sure">underlined</i> {level} interval excludes 0</span>'
            '<span><i class="unsure">dotted</i> it does not</span>'
        )

    def _peak(self) -> str:
        """The largest importance, two digits of it."""
        power = formatting.power_of(self.view.peak)
        peak = self.view.peak / 10.0**power
        return formatting.number(peak, formatting.decimals(peak, peak)) + formatting.times(power)

    def terminal(self, *, colour: bool | None = None) -> str:
        """The text for a terminal.

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
        body = "".join(map(_coloured if colour else _plain, self.pieces))
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
            msg = f"cannot write {target.name!r}: the name must end in .html or .txt"
            raise InputError(msg)
        text = self.terminal(colour=False) + "\n" if kind == ".txt" else self.html
        target.write_text(text, encoding="utf-8")
        return target

    def __str__(self) -> str:
        return self.terminal()

    def __repr__(self) -> str:
        n = sum(bool(p.name) for p in self.pieces)
        return f"<text of {n} parts; print() it, or .save('why.html')>"


def _span(p: Piece) -> str:
    if not p.name:
        return escape(p.text)
    title = escape(f"{formatting.shorten(clean(p.name), 60)}: {p.numbers}")
    if p.strength == 0.0:
        return f'<span title="{title}">{escape(p.text)}</span>'
    kind = f"{'up' if p.strength > 0 else 'down'} {'sure' if p.certain else 'unsure'}"
    alpha = f"--a:{STRONGEST * abs(p.strength):.3f}"
    return f'<span class="{kind}" style="{alpha}" title="{title}">{escape(p.text)}</span>'


def _level(strength: float) -> int:
    """0, 1 or 2: weak, middling, strong."""
    return min(int(3 * abs(strength)), 2)


def _plain(p: Piece) -> str:
    if not p.certain:
        return p.text
    sign = ("+" if p.strength > 0 else "-") * (_level(p.strength) + 1)
    return f"[{sign}{p.text}]"


def _coloured(p: Piece) -> str:
    if p.strength == 0.0 or (abs(p.strength) < FAINT and not p.certain):
        return p.text
    # a colour that runs over the end of a line would fill the rest of it
    return "\n".join(
        _paint(line, p.strength, certain=p.certain) if line else "" for line in p.text.split("\n")
    )


def _paint(text: str, strength: float, *, certain: bool) -> str:
    codes = ["4"] if certain else []
    if strength:
        shade = (RAISES if strength > 0 else LOWERS)[_level(strength)]
        codes += ["38;5;16", f"48;5;{shade}"]
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m"
