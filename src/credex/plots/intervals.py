"""The forest plot: what each feature adds, and how far that is certain."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.checks import check_count
from credex.plots.canvas import PLAIN, axes, columns, label, output_of, title
from credex.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from credex.explanation import Explanation

PALE = 0.5
"""Opacity of intervals that include zero."""


def intervals(
    e: Explanation, output: Any, most: int, level: float | None, ax: Axes | None, *, sort: bool
) -> Axes:
    """Draw the forest plot; see `credex.plots.Plots.intervals`."""
    j = output_of(e, output)
    outer = e.belief.interval(e.level if level is None else level)
    inner = e.belief.interval(0.5)
    at, left_out = formatting.rows_of(e, j, check_count("most", most))
    at = at if sort else sorted(at)
    lines = len(at) + bool(left_out)
    own = ax is None
    ax, room, longest = axes(ax, 8.5, 1.75 + 0.3 * lines)

    means = e.belief.mean[at, j]
    peak = float(np.max(np.abs(means[np.isfinite(means)]), initial=0.0))
    for y, i in enumerate(at):
        ends = [float(a[i, j]) for a in (outer.lower, outer.upper, inner.lower, inner.upper)]
        _row(ax, y, float(means[y]), ends, peak)
    names = [label(e, i, longest) for i in at] + ([f"… and {left_out} more"] if left_out else [])
    ax.set_yticks(range(lines), names, **PLAIN)
    ax.set_ylim(lines - 0.4, -1.2 if own else -0.6)
    power = _dress(ax, np.concatenate([means, outer.lower[at, j], outer.upper[at, j]]))
    if np.isnan(means).all():
        ax.set_xticks([0.0])
        words = "too little was asked to say more"
        ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center")
    elif own:
        _numbers(ax, e, j, at, outer.level)
    said, start = formatting.prediction(e, j)
    title(ax, room, f"{e.method}: {said}", start.replace("R² ", "R²\u00a0"))
    _below(ax, e, outer.level, room, power, own=own)
    return ax


def panels(e: Explanation, most: int, level: float | None, *, sort: bool) -> Any:
    """One forest plot above the other for each output; returns an array of axes."""
    from matplotlib import pyplot as plt

    rows = min(len(e.names), check_count("most", most)) + (len(e.names) > most)
    size = (8.5, len(e.outputs) * (1.6 + 0.27 * rows))
    figure, grid = plt.subplots(len(e.outputs), figsize=size, layout="constrained")
    for j, ax in enumerate(grid):
        intervals(e, j, most, level, ax, sort=sort)
    del figure
    return grid


def _row(ax: Axes, y: int, mean: float, ends: list[float], peak: float) -> None:
    """One feature: the thin interval, the thick one, the dot."""
    if not np.isfinite(mean):
        return
    lo, hi, low, high = ends
    known, unclear = lo == hi, lo <= 0 <= hi and lo < hi
    colour = formatting.POSITIVE if mean > 0 else formatting.NEGATIVE
    if abs(mean) <= 1e-12 * peak:  # rounding
        colour = formatting.NEUTRAL
    if not known and np.isfinite(ends).all():
        pale = PALE if unclear else 1.0
        ax.plot([lo, hi], [y, y], color=colour, alpha=pale, lw=1.4, marker="", ls="-")
        ax.plot(
            [low, high],
            [y, y],
            color=colour,
            alpha=pale,
            lw=4.5,
            marker="",
            ls="-",
            solid_capstyle="butt",
        )
    ax.plot(
        [mean],
        [y],
        marker="D" if known else "o",
        ms=5.5 if known else 7,
        ls="",
        mec=colour,
        mfc=ax.get_facecolor() if unclear else colour,
        mew=1.4,
        zorder=3,
    )


def _dress(ax: Axes, ends: Floats) -> int:
    """Zero line, guides from label to dot, no box; the power of ten that its numbers are in."""
    from matplotlib import rcParams
    from matplotlib.ticker import MaxNLocator, ScalarFormatter, StrMethodFormatter

    ink = rcParams["axes.labelcolor"]
    seen = np.append(ends[np.isfinite(ends)], 0.0)
    margin = 0.04 * float(np.ptp(seen)) or 1.0
    ax.set_xlim(float(seen.min()) - margin, float(seen.max()) + margin)
    ax.axvline(0.0, color=ink, lw=0.9, alpha=0.7, zorder=1)
    ax.grid(visible=False)
    ax.yaxis.grid(visible=True, color=ink, alpha=0.13, lw=0.8, ls="-")
    ax.set_axisbelow(True)
    ax.spines[["left", "right", "top"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    power = formatting.power_of(float(np.abs(seen).max()))
    numbers = ScalarFormatter(useOffset=False, useMathText=True)
    numbers.set_scientific(bool(power))
    numbers.set_powerlimits((power, power))
    thousands = power == 0 and np.abs(seen).max() >= 1000
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}") if thousands else numbers)
    ax.xaxis.get_offset_text().set_visible(False)  # it would lie on the label, which says it
    return power


def _numbers(ax: Axes, e: Explanation, j: int, at: list[int], level: float) -> None:
    """The numbers themselves, in columns to the right of the rows."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    rows, power = formatting.table(e, j, at, level)
    font = FontProperties(size="small")
    between = [f"{r.lower} … {r.upper}" if r.lower else "exact" for r in rows]
    reach = 4.0
    for column in (
        [f"importance{formatting.times(power)}", *(r.estimate for r in rows)],
        [f"{formatting.percent(level)} interval", *between],
    ):
        widths = [
            text_to_path.get_text_width_height_descent(c, font, ismath=False)[0] for c in column
        ]
        reach += 16 + max(widths)  # flush right, in points
        for y, words in enumerate(column, start=-1):
            ax.annotate(
                words,
                xy=(1.0, max(y, -0.9)),
                xycoords=ax.get_yaxis_transform(),
                xytext=(reach, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                fontsize="small",
                alpha=0.75 if y < 0 else 1.0,
                annotation_clip=False,
            )


def _unit(e: Explanation) -> str:
    """What a step on the axis means, in words."""
    words = "change of the prediction"
    if e.settings.get("link") == "logit":
        words += " in log-odds"
    if e.method == "BayesLIME":
        words += ", " + " or ".join(dict.fromkeys(e.units))
    return words


def _below(ax: Axes, e: Explanation, level: float, room: float, power: int, *, own: bool) -> None:
    """Label of the axis and, below it, what it cost, what the lines are and why it ended."""
    lines = "" if e.exact else f"thin: {formatting.percent(level)}, thick: 50 % · "
    footer = f"{e.n_queries:,} queries · {lines}{formatting.ending(e)}"
    footer = footer if own else textwrap.fill(footer, columns(room, "small"))
    words = f"importance{formatting.times(power)} ({_unit(e)})"
    words = textwrap.fill(words, columns(room, "medium"))
    gap = "\n" * (footer.count("\n") + 1)  # the label keeps the place free
    ax.set_xlabel(words + gap, **PLAIN)
    ax.annotate(
        footer,
        xy=(0.01 if own else 0.0, 0.0),
        xycoords=("figure fraction" if own else "axes fraction", ax.xaxis.label),
        va="bottom",
        fontsize="small",
        alpha=0.75,
        annotation_clip=False,
        in_layout=False,
        **PLAIN,
    )
