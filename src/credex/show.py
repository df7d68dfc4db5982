"""Explanations for people: a table in the terminal, a table in a notebook."""

from __future__ import annotations

import html as markup
import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from credex.explanation import Explanation

ROWS = 20
"""Features printed at most."""


def decimals(estimate: float, half_width: float) -> int:
    """Decimals that the uncertainty supports: two digits of the interval's half-width."""
    size = half_width if math.isfinite(half_width) and half_width > 0 else abs(estimate) / 100
    if size <= 0 or not math.isfinite(size):
        return 2
    return int(min(max(1 - math.floor(math.log10(size)), 0), 12))


def number(x: float, places: int) -> str:
    """Format ``x`` with ``places`` decimals, a real minus sign, and no negative zero."""
    if not math.isfinite(x):
        return "∞" if x > 0 else "−∞" if x < 0 else "?"
    if abs(x) >= 1e7 or (x != 0 and abs(x) < 1e-6):
        return f"{x:.3g}".replace("-", "−")
    out = f"{x:,.{places}f}"
    if float(out.replace(",", "")) == 0:
        out = out.lstrip("-")
    return out.replace("-", "−")


def value(v: Any) -> str:
    """One cell of the instance, short."""
    if v is None:
        return ""
    if isinstance(v, float | np.floating):
        return "missing" if math.isnan(v) else f"{float(v):.4g}"
    text = str(v)
    return text if len(text) <= 24 else text[:23] + "…"


def rows_of(e: Explanation, output: int, most: int = ROWS) -> tuple[list[int], int]:
    """Positions of the features to show, largest first, and how many are left out."""
    m = e.belief.mean[:, output]
    order = [
        int(i)
        for i in np.argsort(-np.abs(np.nan_to_num(m)), kind="stable")
        if e.selected[i, output]
    ]
    return order[:most], max(len(order) - most, 0)


def headline(e: Explanation, output: int) -> str:
    """What was predicted and what the importances add up to."""
    places = 3
    scale = max(abs(float(e.full[output])), abs(float(e.base[output])))
    if scale > 0:
        places = int(min(max(3 - math.floor(math.log10(scale)), 0), 8))
    name = f" (output {e.outputs[output]})" if len(e.outputs) > 1 or e.outputs[0] != "0" else ""
    full, base = number(float(e.full[output]), places), number(float(e.base[output]), places)
    if e.method == "BayesSHAP":
        return f"prediction {full}{name} = base value {base} + the importances"
    local = number(float(e.local[output]), places)
    r2 = float(e.r2s[output])
    fit = "" if math.isnan(r2) else f", R² {r2:.2f}"
    return f"prediction {full}{name}; the linear explanation says {local}{fit}"


def footer(e: Explanation) -> list[str]:
    """What it cost, why it stopped, how to read it."""
    cost = f"{e.n_queries:,} queries, {e.n_model_rows:,} model rows, {e.seconds:.2g} s"
    if e.exact:
        end = "exact: every coalition was asked" if e.method == "BayesSHAP" else "exact"
    else:
        end = f"stopped by {e.stop_reason}"
        asked_for = e.stop_reason in ("ceiling", "max_queries")
        end += " before the requested precision was met" if asked_for else ""
    lines = [f"{cost}; {end}"]
    unit = sorted({u for u in e.units if u})
    if unit and e.method == "BayesLIME":
        lines.append("importances are " + ", ".join(unit))
    lines.append(f"{e.posterior} posterior, {e.sampler} sampling")
    lines += list(e.notes)
    return lines


def cells(e: Explanation, output: int, i: int) -> list[str]:
    """Formatted cells of one feature."""
    interval = e.belief.interval(e.level)
    lo, hi = float(interval.lower[i, output]), float(interval.upper[i, output])
    m = float(e.belief.mean[i, output])
    places = decimals(m, (hi - lo) / 2)
    p = float(e.belief.prob_positive()[i, output])
    chance = ">0.99" if 0.995 < p < 1 else "<0.01" if 0 < p < 0.005 else f"{p:.2f}"
    shown = e.labels[i] if e.method == "BayesLIME" else e.names[i]
    between = "exact" if lo == hi else f"{number(lo, places)} … {number(hi, places)}"
    return [shown, value(e.values[i]), number(m, places), between, chance]


def text(e: Explanation) -> str:
    """The explanation as a table for the terminal."""
    lines = [f"{e.method}: {headline(e, 0)}"]
    head = ["feature", "value", "importance", f"{e.level:.0%} interval".replace("%", " %"), "P(>0)"]
    for j in range(len(e.outputs)):
        if j:
            lines += ["", headline(e, j)]
        at, left_out = rows_of(e, j)
        table = [head] + [cells(e, j, i) for i in at]
        widths = [min(max(len(r[c]) for r in table), 44) for c in range(len(head))]
        for n, r in enumerate(table):
            row = [
                _fit(c, w).ljust(w) if i < 2 else _fit(c, w).rjust(w)
                for i, (c, w) in enumerate(zip(r, widths, strict=True))
            ]
            lines.append("  " + "  ".join(row).rstrip())
            if n == 0:
                lines.append("  " + "  ".join("─" * w for w in widths))
        if left_out:
            lines.append(f"  … and {left_out} more")
    return "\n".join(lines + footer(e))


def html(e: Explanation) -> str:
    """The explanation as an HTML table for notebooks; readable in light and dark themes."""
    out = ['<div style="font-family:system-ui,sans-serif;font-size:13px;line-height:1.5">']
    for j in range(len(e.outputs)):
        title = f"{e.method}: {headline(e, j)}"
        out.append(f'<div style="margin:4px 0">{markup.escape(title)}</div>')
        at, left_out = rows_of(e, j)
        out.append('<table style="border-collapse:collapse"><thead><tr>')
        heads = ["feature", "value", "importance", f"{e.level:.0%} interval", "P(>0)", ""]
        out += [f'<th style="text-align:left;padding:2px 10px">{h}</th>' for h in heads]
        out.append("</tr></thead><tbody>")
        reach = _reach(e, j, at)
        for i in at:
            row = "".join(
                f'<td style="text-align:{"left" if c < 2 else "right"};padding:2px 10px;'
                f'font-variant-numeric:tabular-nums">{markup.escape(v)}</td>'
                for c, v in enumerate(cells(e, j, i))
            )
            out.append(f'<tr>{row}<td style="padding:2px 10px">{_bar(e, j, i, reach)}</td></tr>')
        out.append("</tbody></table>")
        if left_out:
            out.append(f"<div>… and {left_out} more</div>")
    notes = "<br>".join(markup.escape(line) for line in footer(e))
    out.append(f'<div style="opacity:.7;margin-top:4px">{notes}</div></div>')
    return "".join(out)


def _reach(e: Explanation, j: int, at: list[int]) -> float:
    interval = e.belief.interval(e.level)
    ends = np.abs(np.concatenate([interval.lower[at, j], interval.upper[at, j]]))
    ends = ends[np.isfinite(ends)]
    return float(ends.max()) if len(ends) and ends.max() > 0 else 1.0


def _bar(e: Explanation, j: int, i: int, reach: float) -> str:
    """A whisker from lower to upper with the estimate as a dot, zero in the middle."""
    interval = e.belief.interval(e.level)
    lo, hi = float(interval.lower[i, j]), float(interval.upper[i, j])
    m = float(e.belief.mean[i, j])
    if not all(map(math.isfinite, (lo, hi, m))):
        return ""

    def x(v: float) -> float:
        return 70 + 66 * v / reach

    colour = "#0072b2" if m < 0 else "#d55e00"
    return (
        '<svg width="140" height="14" role="img" aria-label="interval">'
        '<line x1="70" x2="70" y1="0" y2="14" stroke="currentColor" stroke-opacity=".35"/>'
        f'<line x1="{x(lo):.1f}" x2="{x(hi):.1f}" y1="7" y2="7" stroke="{colour}" '
        'stroke-width="3" stroke-opacity=".55"/>'
        f'<circle cx="{x(m):.1f}" cy="7" r="4" fill="{colour}"/></svg>'
    )


def _fit(s: str, width: int) -> str:
    return s if len(s) <= width else s[: width - 1] + "…"
