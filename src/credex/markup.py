"""HTML of results: styles for light and dark pages, tables, and interval marks with an axis as SVG.

Text takes the colour of the page around it. Nothing is filled with the colour of the background, so
that marks look the same on any.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple, Self

from credex.errors import InputError

UP, DOWN, GREY = "#d55e00", "#0072b2", "#808080"
"""Okabe and Ito's vermillion and blue, which colour-blind readers can tell apart, and a grey."""

LIGHT = "--credex-up:#c25100;--credex-down:#0072b2;--credex-grey:#6f6f6f"
DARK = "--credex-up:#ff9a4d;--credex-down:#5db5ee;--credex-grey:#a0a0a0"

STYLE = f"""
.credex{{{LIGHT};font:13px/1.5 system-ui,sans-serif;overflow-x:auto}}
@media (prefers-color-scheme:dark){{.credex{{{DARK}}}}}
[data-jp-theme-light=true] .credex,.vscode-light .credex,[data-theme=light] .credex{{{LIGHT}}}
[data-jp-theme-light=false] .credex,.vscode-dark .credex,[data-theme=dark] .credex{{{DARK}}}
.credex table{{border-collapse:collapse;font-size:inherit;font-variant-numeric:tabular-nums;
margin:4px 0}}
.credex tr{{background:none}}
.credex th,.credex td{{padding:1px 10px;white-space:nowrap;text-align:right;font-weight:normal}}
.credex thead th{{font-weight:600;border-bottom:1px solid color-mix(in srgb,currentColor 30%,
transparent)}}
.credex .l{{text-align:left}}
.credex .title{{margin-top:8px;overflow-wrap:anywhere}}
.credex p{{margin:2px 0;max-width:60em;overflow-wrap:anywhere}}
.credex .verdict{{margin:6px 0}}
.credex .caution{{border-left:3px solid var(--credex-up);padding-left:8px}}
.credex .small{{opacity:.75;font-size:12px;overflow-wrap:anywhere}}
.credex svg{{display:block;overflow:visible}}
.credex svg .up{{stroke:var(--credex-up);fill:var(--credex-up)}}
.credex svg .down{{stroke:var(--credex-down);fill:var(--credex-down)}}
.credex svg .grey{{stroke:var(--credex-grey);fill:var(--credex-grey)}}
.credex svg .open{{fill:none}}
.credex svg text{{font-size:11px;fill:currentColor;stroke:none;opacity:.8}}
"""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title>
<style>:root{{color-scheme:light dark}}body{{margin:1.5em;background:Canvas;color:CanvasText}}
</style></head><body>
{body}
</body></html>
"""

CAUTION, LEFT, OPEN = ' class="caution"', ' class="l"', ' class="open" fill="none"'

WIDTH, PAD, HEIGHT = 220, 12, 22
"""Size of a mark in pixels, and the margin on its left and right."""


def fragment(*parts: str) -> str:
    """Put HTML into a block that carries its styles."""
    return f'<div class="credex"><style>{STYLE}</style>{"".join(parts)}</div>'


def page(title: str, body: str, path: str | Path | None = None) -> str:
    """Return (and write) a page that needs no other file, in the reader's light or dark mode."""
    text = PAGE.format(title=escape(title), body=body)
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def paragraphs(lines: Iterable[str], kind: str = "") -> str:
    """Return escaped lines as paragraphs; those that warn are marked."""
    out = "".join(
        f"<p{' class=caution' if s.startswith('Caution') else ''}>{escape(s)}</p>" for s in lines
    )
    return f'<div class="{kind}">{out}</div>' if out else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], n_left: int) -> str:
    """Return a table of HTML cells; the first ``n_left`` columns are flush left."""

    def line(cells: Sequence[str], tag: str) -> str:
        out = []
        for n, cell in enumerate(cells):
            kind = "th" if tag == "th" or n == 0 else "td"
            scope = f' scope="{"col" if tag == "th" else "row"}"' if kind == "th" else ""
            out.append(f"<{kind}{scope}{LEFT if n < n_left else ''}>{cell}</{kind}>")
        return f"<tr>{''.join(out)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"


class Scale(NamedTuple):
    """A horizontal axis: data from ``low`` to ``high``, with ``ticks`` at round numbers."""

    low: float
    high: float
    ticks: tuple[float, ...]
    places: int

    @classmethod
    def over(cls, values: Iterable[float], *, n_ticks: int = 5) -> Self:
        """Return an axis over finite values, with about ``n_ticks`` ticks."""
        finite = [v for v in values if math.isfinite(v)]
        if not finite:
            raise InputError("an axis needs at least one finite number")
        low, high = min(finite), max(finite)
        span = (high - low) or abs(high) or 1.0
        raw = max(span / n_ticks, 1e-300)
        unit = 10.0 ** math.floor(math.log10(raw))
        step = unit * next(f for f in (1, 2, 5, 10) if f * unit >= raw * (1 - 1e-9))
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        places = max(-math.floor(math.log10(step) + 1e-9), 0)
        return cls(low, low + span, tuple(n * step for n in range(first, last + 1)), places)

    def x(self, value: float) -> float:
        """Position in pixels."""
        return PAD + (WIDTH - 2 * PAD) * (value - self.low) / (self.high - self.low)

    def axis(self) -> str:
        """Draw the axis with its numbers."""
        out = f"M{PAD} 1H{WIDTH - PAD}"
        words = ""
        for t in self.ticks:
            out += f"M{self.x(t):.1f} 1v4"
            words += f'<text x="{self.x(t):.1f}" y="17" text-anchor="middle">{self._said(t)}</text>'
        line = f'<path d="{out}" fill="none" stroke="currentColor" stroke-opacity=".5"/>'
        return f'<svg width="{WIDTH}" height="20" aria-hidden="true">{line}{words}</svg>'

    def _said(self, value: float) -> str:
        if self.places > 4:
            return f"{value:.2g}".replace("-", "−")
        return f"{value + 0.0:,.{self.places}f}".replace("-", "−")

    def mark(
        self,
        mean: float,
        wide: tuple[float, float],
        half: tuple[float, float] | None = None,
        *,
        zero: float | None = 0.0,
        colour: str | None = None,
    ) -> str:
        """Draw an interval: thin ``wide``, thick ``half``, a stroke at ``mean``.

        A line marks ``zero``. If that is inside, the thick part is hollow. Of unknown ends nothing
        but the line is drawn.
        """
        out = ""
        if zero is not None:
            at = self.x(zero)
            out += (
                f'<path d="M{at:.1f} -2V{HEIGHT + 2}" stroke="currentColor" stroke-opacity=".4"/>'
            )
        if all(map(math.isfinite, (mean, *wide))):
            over = zero is not None and wide[0] <= zero <= wide[1] and wide[0] < wide[1]
            sign = 0.0 if zero is None else mean - zero
            kind = colour or ("up" if sign > 0 else "down" if sign < 0 else "grey")
            ink = {"up": UP, "down": DOWN, "grey": GREY}[kind]
            m, lo, hi = (self.x(v) for v in (mean, *wide))
            a, b = (self.x(v) for v in half or (mean, mean))
            drawn = f'<path d="M{lo:.1f} 11H{a:.1f}M{b:.1f} 11H{hi:.1f}" stroke-width="1.5"/>'
            drawn += (
                f'<rect x="{a:.1f}" y="8" width="{b - a:.1f}" height="6"{OPEN if over else ""}/>'
            )
            drawn += f'<path d="M{m:.1f} 4V18" stroke-width="2"/>'
            out += f'<g class="{kind}" stroke="{ink}" fill="{ink}">{drawn}</g>'
        return f'<svg width="{WIDTH}" height="{HEIGHT}" aria-hidden="true">{out}</svg>'
