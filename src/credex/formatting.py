"""Explanations for people: a table in the terminal, a table in a notebook."""

from __future__ import annotations

import datetime as dt
import math
import unicodedata
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from credex.explanation import Explanation

ALIKE = "all alike so far"
"""In place of intervals when all that was asked gave the same: not the same as exact."""

ROWS, OUTPUTS = 20, 10
"""Features of one output and outputs shown at most."""

POSITIVE, NEGATIVE, NEUTRAL = "#d55e00", "#0072b2", "#808080"
"""Okabe and Ito's vermillion and blue: apart for every kind of eye, on white and on black."""

ENDS = {
    "queries": "the queries were used up",
    "width": "the requested width is met",
    "relative width": "the intervals are narrow beside the largest importance",
    "ranking settled": "the ranking is settled",
    "wall clock": "the time was up",
    "ceiling": "the queries ran out before the precision was met (raise max_queries=)",
    "max_queries": "the queries ran out before the precision was met",
    "model error": "the model failed",
    "running": "not finished yet",
}


def clean(text: str) -> str:
    """``text`` on one line: white space and control characters become single spaces."""
    return " ".join("".join(" " if unicodedata.category(c) == "Cc" else c for c in text).split())


def columns(text: str) -> int:
    """Columns that ``text`` takes in a terminal: wide characters two, combining marks none."""
    seen = (c for c in text if unicodedata.category(c) not in ("Mn", "Me", "Cf"))
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in seen)


def shorten(text: str, most: int) -> str:
    """``text`` in at most ``most`` columns; what is left out of its middle becomes ``…``."""
    if columns(text) <= most:
        return text
    head, tail = text, ""
    while columns(text[-len(tail) - 1 :]) <= (most - 1) * 2 // 5:
        tail = text[-len(tail) - 1 :]
    while columns(head) > most - 1 - columns(tail):
        head = head[:-1]
    return f"{head.rstrip()}…{tail.lstrip()}"


def decimals(half_width: float, peak: float) -> int:
    """Decimals for two digits of the half-width (−1: tens), at most 6 of ``peak``; exact: 4."""
    size = math.floor(math.log10(peak)) if math.isfinite(peak) and peak > 0 else 0
    if not math.isfinite(half_width) or half_width <= 0:
        return 3 - size if peak > 0 else 0
    return min(1 - math.floor(math.log10(half_width)), 5 - size)


def number(x: float, places: int) -> str:
    """Format ``x`` with ``places`` decimals, a real minus sign, and no negative zero."""
    if not math.isfinite(x):
        return "∞" if x > 0 else "−∞" if x < 0 else "?"
    return f"{round(x, places) + 0.0:,.{max(places, 0)}f}".replace("-", "−")


def power_of(peak: float) -> int:
    """Power of ten to take out of numbers up to ``peak``; 0 unless they are huge or tiny."""
    size = math.floor(math.log10(peak)) if math.isfinite(peak) and peak > 0 else 0
    return 0 if -4 <= size < 7 else 3 * (size // 3)


def times(power: int) -> str:
    """`` ×10⁹``, or nothing for 0."""
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f" ×10{raised}" if power else ""


def amount(x: float, peak: float) -> str:
    """``x`` with the decimals that give ``peak`` four digits."""
    unit = 10.0 ** power_of(peak)
    return number(x / unit, max(decimals(0.0, peak / unit), 0)) + times(power_of(peak))


def percent(level: float) -> str:
    """``95 %``."""
    return f"{100 * level:.10g} %"


def chance(p: float) -> str:
    """A probability with two decimals that never claims certainty."""
    return "?" if math.isnan(p) else "<0.01" if p < 0.005 else ">0.99" if p > 0.995 else f"{p:.2f}"


def value(v: Any) -> str:
    """One cell of the instance, short."""
    if v is None or (isinstance(v, float | np.floating) and math.isnan(v)):
        return "missing"
    if isinstance(v, dt.datetime) and v.time() == dt.time():
        return str(v.date())
    if isinstance(v, int | float | np.number):
        x = float(v)  # .4g alone would write 452600.0 as 4.526e+05
        short = f"{x:.0f}" if 1000 <= abs(x) < 1e9 else f"{x + 0.0:.4g}".replace("inf", "∞")
        return (str(v) if isinstance(v, int | np.integer) else short).replace("-", "−")
    return clean(str(v))


def feature(e: Explanation, i: int) -> tuple[str, str]:
    """Name (BayesLIME: condition) of a feature and its value, unless the name says it already."""
    name, label, v = clean(e.names[i]), clean(e.labels[i]), e.values[i]
    if v == "present" and label == name:  # a part of a mask
        return name, ""
    if e.method != "BayesLIME":
        return name, value(v)
    return label, "" if label.startswith((f"{name} = ", f"{name}: ", f"{name} mis")) else value(v)


def prediction(e: Explanation, output: int) -> tuple[str, str]:
    """What was predicted, and what the importances start from."""
    full, base, name = float(e.full[output]), float(e.base[output]), clean(e.outputs[output])
    peak = float(np.nanmax(np.abs([full, base, 0.0])))
    unit = " in log-odds" if e.settings.get("link") == "logit" else ""
    of = f" for output {name}" if name.isdigit() else f" for {shorten(name, 40)}"
    said = f"prediction {amount(full, peak)}{unit}{'' if e.outputs == ('0',) else of}"
    start = f"base value {amount(base, peak)}"
    if e.method == "BayesLIME":
        r2 = float(e.r2s[output])
        fit = "" if math.isnan(r2) else f", R² {number(r2, 2)}"
        local = amount(float(e.local[output]), peak)
        start = f"linear explanation {local} (intercept {amount(base, peak)}{fit})"
    return said, start


def headline(e: Explanation, output: int) -> str:
    """What was predicted and how the importances relate to it."""
    said, start = prediction(e, output)
    if np.isnan(e.belief.mean[:, output]).all():
        return f"{said}; too little was asked to say more"
    return f"{said} = {start} + the importances" if e.method == "BayesSHAP" else f"{said}; {start}"


def ending(e: Explanation) -> str:
    """Why the run ended, in words."""
    if e.exact:
        what = "exact: every coalition was asked"
        return what + (", for this background" if any("background:" in n for n in e.notes) else "")
    return f"stopped: {ENDS.get(e.stop_reason, e.stop_reason)}"


def footer(e: Explanation) -> list[str]:
    """What it cost, why it stopped, how to read it."""
    s = e.seconds
    time = "<0.01" if s < 0.01 else f"{s:.2g}" if s < 9.5 else f"{s:,.0f}"
    lines = [f"{e.n_queries:,} queries, {e.n_model_rows:,} model rows, {time} s; {ending(e)}"]
    if e.method == "BayesLIME":
        unit = " or ".join(dict.fromkeys(e.units))
        lines.append(f"importances are changes of the prediction, {unit}")
    if np.isfinite(e.belief.mean).any():
        lines.append(f"{e.posterior} posterior, {e.sampler} sampling")
    return lines + [clean(n) for n in e.notes]


class Row(NamedTuple):
    """One feature, formatted; ``lower`` and ``upper`` are empty if the importance is exact."""

    feature: str
    value: str
    estimate: str
    lower: str
    upper: str
    chance: str


def rows_of(e: Explanation, output: int, most: int) -> tuple[list[int], int]:
    """Positions of the features to show, largest first, and how many are left out."""
    m = e.belief.mean[:, output]
    order = [int(i) for i in np.argsort(-np.abs(m), kind="stable") if e.selected[i, output]]
    return order[:most], max(len(order) - most, 0)


def table(e: Explanation, output: int, at: list[int], level: float) -> tuple[list[Row], int]:
    """Rows of the features ``at``, and the power of ten that was taken out of their numbers."""
    interval, mean = e.belief.interval(level), e.belief.mean[at, output]
    lower, upper = interval.lower[at, output], interval.upper[at, output]
    ends = np.abs(np.concatenate([mean, lower, upper]))
    peak = float(np.max(ends[np.isfinite(ends)], initial=0.0))
    power = power_of(peak)
    s, likely, rows = 10.0**power, e.belief.prob_positive()[at, output], []
    for i, m, lo, hi, p in zip(at, mean / s, lower / s, upper / s, likely, strict=True):
        places = decimals((hi - lo) / 2, peak / s)
        rest = ("", "", "–") if lo == hi else (number(lo, places), number(hi, places), chance(p))
        rows.append(Row(*feature(e, i), number(m, places), *rest))
    return rows, power


class Part(NamedTuple):
    """One output's table: columns with their heads; the first ``left`` of them hold words."""

    output: int
    at: list[int]
    columns: list[list[str]]
    left: int
    more: list[str]


def parts(e: Explanation, blank: str) -> Iterator[Part]:
    """Yield a table for each output; ``blank`` pads numbers to put decimal points in one line."""
    k = len(e.outputs)
    moved = np.nan_to_num(np.abs(e.full - e.base), nan=-1.0)
    outputs = sorted(np.argsort(-moved, kind="stable")[:OUTPUTS].tolist())
    for n, j in enumerate(outputs, start=1):
        at, left_out = rows_of(e, j, ROWS if k <= 3 else max(5, 60 // len(outputs)))
        more = [f"… and {left_out} more: e.to_frame() has all"] if left_out else []
        if n < k and n == len(outputs):
            more.append(f"… and {k - n} more outputs, which moved less: target= chooses one")
        if np.isnan(e.belief.mean[at, j]).all():
            yield Part(j, at, [], 0, [])
            continue
        rows, power = table(e, j, at, e.level)
        ends = zip(*(_points([r[c] for r in rows], blank) for c in (3, 4)), rows, strict=True)
        alike = not e.exact and not any(r.lower for r in rows)
        between = (f"{lo} … {hi}" if r.lower else ALIKE if alike else "exact" for lo, hi, r in ends)
        names = ["feature", *(shorten(r.feature, 46) for r in rows)]
        values = (
            [["value", *(shorten(r.value, 20) for r in rows)]] if any(r[1] for r in rows) else []
        )
        means = [f"importance{times(power)}", *_points([r.estimate for r in rows], blank)]
        likely = ["P(>0)", *(r.chance for r in rows)]
        interval = [f"{percent(e.level)} interval", *between]
        yield Part(j, at, [names, *values, means, interval, likely], 1 + len(values), more)


def _points(numbers: list[str], blank: str) -> list[str]:
    tails = [len(n) - n.find(".") if "." in n else 0 for n in numbers]
    padded = [n + blank * (max(tails) - t) for n, t in zip(numbers, tails, strict=True)]
    return [n.rjust(max(map(len, padded)), blank) for n in padded]


def text(e: Explanation) -> str:
    """The explanation as a table for the terminal."""
    lines: list[str] = []
    for part in parts(e, blank=" "):
        said = headline(e, part.output)
        lines += ["", said] if lines else [f"{e.method}: {said}"]
        padded = []
        for n, cells in enumerate(part.columns):
            width = max(map(columns, cells))
            pads = [" " * (width - columns(c)) for c in cells]
            column = [c + p if n < part.left else p + c for c, p in zip(cells, pads, strict=True)]
            padded.append([column[0], "─" * width, *column[1:]])
        lines += ["  " + "  ".join(row).rstrip() for row in zip(*padded, strict=True)]
        lines += [f"  {line}" for line in part.more]
    return "\n".join(lines + footer(e))


def html(e: Explanation) -> str:
    """The explanation as an HTML table for notebooks; readable in light and dark themes."""
    out = ['<div style="font-family:system-ui,sans-serif;font-size:13px;line-height:1.5">']
    for part in parts(e, blank="\u2007"):  # as wide as a digit
        title = f"<b>{e.method}</b>: {escape(headline(e, part.output))}"
        out.append(f'<div style="margin-top:8px">{title}</div><table style="font-size:inherit;')
        out.append('border-collapse:collapse;font-variant-numeric:tabular-nums">')
        bars = ["", *_bars(e, part.output, part.at)]
        for bar, row in zip(bars, zip(*part.columns, strict=True), strict=False):
            tag, cells = "td" if bar else "th", ""
            for n, cell in enumerate(row):
                side = "left" if n < part.left else "right"
                style = f"padding:1px 10px;white-space:nowrap;text-align:{side}"
                cells += f'<{tag} style="{style}">{escape(cell)}</{tag}>'
            out.append(f'<tr>{cells}<td style="padding:0 10px">{bar}</td></tr>')
        out += ["</table>", *(f"<div>{escape(line)}</div>" for line in part.more)]
    notes = "<br>".join(map(escape, footer(e)))
    return "".join([*out, f'<div style="opacity:.75;margin-top:4px">{notes}</div></div>'])


def _bars(e: Explanation, j: int, at: list[int]) -> list[str]:
    """Whiskers from lower to upper, thick over the middle half, hollow if zero is inside."""
    spans = [e.belief.interval(level) for level in (e.level, 0.5)]
    ends = np.stack([e.belief.mean[at, j], *(a[at, j] for i in spans for a in (i.lower, i.upper))])
    seen = np.append(ends[np.isfinite(ends)], 0.0)
    shift, scale = float(np.min(seen)), 146 / max(float(np.ptp(seen)), 1e-300)
    zero, out = 7 - shift * scale, []
    for x in ((ends - shift) * scale + 7).T:
        m, lo, hi, low, high = x.tolist()
        colour = POSITIVE if m > zero else NEGATIVE if m < zero else NEUTRAL
        fill = "var(--jp-layout-color0,Canvas)" if lo <= zero <= hi and lo < hi else colour
        drawn = f'<path d="M{lo:.1f} 11H{hi:.1f}" stroke-width="1.5"/>'
        drawn += f'<path d="M{low:.1f} 11H{high:.1f}" stroke-width="4"/>'
        drawn += f'<circle cx="{m:.1f}" cy="11" r="3.5" style="fill:{fill}" stroke-width="1.5"/>'
        drawn = f'<g stroke="{colour}">{drawn}</g>' if np.isfinite(x).all() else ""
        axis = f'<path d="M{zero:.1f} 0V22" stroke="currentColor" stroke-opacity=".4"/>'
        out.append(f'<svg width="160" height="22" style="display:block">{axis}{drawn}</svg>')
    return out
