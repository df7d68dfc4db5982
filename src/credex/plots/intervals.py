"""The forest plot: importances and their intervals, a row for each feature."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.errors import check_count
from credex.explanation_base import ExplanationBase
from credex.formatting import View
from credex.options import LINKS
from credex.plots.canvas import PLAIN, axes, columns, label, sign_colour, title
from credex.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALE = 0.5
"""Opacity of intervals that include zero."""


def draw(
    e: ExplanationBase, output: Any, most: int, level: float | None, ax: Axes | None, *, sort: bool
) -> Axes:
    """Draw the forest plot; see `credex.plots.Plots.intervals`."""
    view = View.of(e, output, level)
    features, left_out = formatting.largest(e, view.output, check_count("most", most))
    features = features if sort else sorted(features)
    n_lines = len(features) + bool(left_out)
    own_figure = ax is None
    ax, room, longest = axes(ax, 8.5, 1.75 + 0.3 * n_lines)

    half = View.of(e, view.output, 0.5)
    for y, i in enumerate(features):
        _row(ax, y, view, i, thick=(half.lower[i], half.upper[i]))
    more = [f"… and {left_out} more"] if left_out else []
    ax.set_yticks(range(n_lines), [label(e, i, longest) for i in features] + more, **PLAIN)
    ax.set_ylim(n_lines - 0.4, -1.2 if own_figure else -0.6)
    power = _dress(ax, np.stack([view.mean, view.lower, view.upper])[:, features])
    if np.isnan(view.mean[features]).all():
        ax.set_xticks([0.0])
        words = "too little was asked to say more"
        ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center")
    elif own_figure:
        _numbers(ax, e, view, features)
    start = formatting.prediction(e, view.output)[1].replace("R² ", "R²\u00a0")
    title(ax, room, e, view.output, start)
    _below(ax, e, view.level, room, power, own_figure=own_figure)
    return ax


def draw_panels(e: ExplanationBase, most: int, level: float | None, *, sort: bool) -> Any:
    """Draw a forest plot for each output below each other; return an array of axes."""
    from matplotlib import pyplot as plt

    n_lines = min(len(e.names), check_count("most", most)) + (len(e.names) > most)
    size = (8.5, len(e.outputs) * (1.6 + 0.27 * n_lines))
    grid: Any = plt.subplots(len(e.outputs), figsize=size, layout="constrained")[1]
    for j, ax in enumerate(grid):
        draw(e, j, most, level, ax, sort=sort)
    return grid


def _row(ax: Axes, y: int, view: View, i: int, *, thick: tuple[float, float]) -> None:
    """Draw feature ``i``: the thin interval, the thick one, the dot."""
    mean, thin, unclear = view.mean[i], (view.lower[i], view.upper[i]), view.unclear[i]
    if not np.isfinite(mean):
        return
    if np.isinf(thin).any():  # nothing is known
        ax.axhline(y, color=formatting.NEUTRAL, lw=1.4, ls=(0, (4, 3)))
        return
    known = thin[0] == thin[1]
    neutral = abs(mean) <= 1e-12 * view.peak
    colour = formatting.NEUTRAL if neutral else sign_colour(mean)
    if not known:
        pale = PALE if unclear else 1.0
        style: dict[str, Any] = {"color": colour, "alpha": pale, "marker": "", "ls": "-"}
        ax.plot(thin, [y, y], lw=1.4, **style)
        ax.plot(thick, [y, y], lw=4.5, solid_capstyle="butt", **style)
    face = ax.get_facecolor() if unclear else colour
    marker, size = ("D", 5.5) if known else ("o", 7)
    ax.plot([mean], [y], marker=marker, ms=size, ls="", mec=colour, mfc=face, mew=1.4, zorder=3)


def _dress(ax: Axes, ends: Floats) -> int:
    """Draw zero line and guides, format the axis; return the power of ten of its numbers."""
    from matplotlib import rcParams
    from matplotlib.ticker import MaxNLocator, ScalarFormatter, StrMethodFormatter

    ink = rcParams["axes.labelcolor"]
    finite = np.append(ends[np.isfinite(ends)], 0.0)
    peak = float(np.abs(finite).max())
    margin = 0.04 * float(np.ptp(finite)) or 1.0
    ax.set_xlim(float(finite.min()) - margin, float(finite.max()) + margin)
    ax.axvline(0.0, color=ink, lw=0.9, alpha=0.7, zorder=1)
    ax.grid(visible=False)
    ax.yaxis.grid(visible=True, color=ink, alpha=0.13, lw=0.8, ls="-")
    ax.set_axisbelow(True)
    ax.spines[["left", "right", "top"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    power = formatting.power_of(peak)
    numbers = ScalarFormatter(useOffset=False, useMathText=True)
    numbers.set_scientific(bool(power))
    numbers.set_powerlimits((power, power))
    thousands = power == 0 and peak >= 1000
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}") if thousands else numbers)
    ax.xaxis.get_offset_text().set_visible(False)  # the label says it
    return power


def _numbers(ax: Axes, e: ExplanationBase, view: View, features: list[int]) -> None:
    """Print the numbers in columns to the right of the rows."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    rows, power = formatting.table(e, view, features)
    font = FontProperties(size="small")
    means = [f"importance{formatting.times(power)}", *(r.estimate for r in rows)]
    between = [f"{formatting.percent(view.level)} interval", *(r.interval for r in rows)]
    right = 4.0
    for column in (means, between):
        sizes = (text_to_path.get_text_width_height_descent(c, font, ismath=False) for c in column)
        right += 16 + max(width for width, _, _ in sizes)  # in points
        for y, words in enumerate(column, start=-1):
            ax.annotate(
                words,
                xy=(1.0, max(y, -0.9)),
                xycoords=ax.get_yaxis_transform(),
                xytext=(right, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                fontsize="small",
                alpha=0.75 if y < 0 else 1.0,
                annotation_clip=False,
            )


def _below(
    ax: Axes, e: ExplanationBase, level: float, room: float, power: int, *, own_figure: bool
) -> None:
    """Write the label of the axis and, below it, queries, levels and reason for stopping."""
    lines = "" if e.exact else f"thin: {formatting.percent(level)}, thick: 50 % · "
    footer = f"{e.n_queries:,} queries · {lines}{formatting.ending(e)}"
    footer = footer if own_figure else textwrap.fill(footer, columns(room, "small"))
    unit = "change of the prediction" + LINKS[e.settings.get("link", "identity")]
    if e.method == "BayesLIME":
        unit += ", " + " or ".join(dict.fromkeys(e.units))
    words = f"importance{formatting.times(power)} ({unit})"
    words = textwrap.fill(words, columns(room, "medium"))
    gap = "\n" * (footer.count("\n") + 1)  # the label keeps the place free
    ax.set_xlabel(words + gap, **PLAIN)
    ax.annotate(
        footer,
        xy=(0.01 if own_figure else 0.0, 0.0),
        xycoords=("figure fraction" if own_figure else "axes fraction", ax.xaxis.label),
        va="bottom",
        fontsize="small",
        alpha=0.75,
        annotation_clip=False,
        in_layout=False,
        **PLAIN,
    )
