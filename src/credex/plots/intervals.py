"""The forest plot: importances and their intervals, a row for each feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.errors import check_count
from credex.explanation_base import ExplanationBase
from credex.formatting import View
from credex.plots.canvas import (
    axes,
    beside,
    caption,
    label,
    mark,
    row_labels,
    sign_colour,
    title,
    unit,
    value_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(
    e: ExplanationBase, output: Any, most: int, level: float | None, ax: Axes | None, *, sort: bool
) -> Axes:
    """Draw the forest plot; see `credex.plots.Plots.intervals`."""
    view = View.of(e, output, level)
    features, left_out = formatting.largest(e, view.output, check_count("most", most))
    features = features if sort else sorted(features)
    n_lines = len(features) + bool(left_out)
    own_figure = ax is None
    ax, room, longest = axes(ax, 6.8, 1.75 + 0.3 * n_lines)
    _rows(ax, e, view, features)
    more = [f"… and {left_out} more"] if left_out else []
    names = [label(e, i, longest) for i in features]
    row_labels(ax, names + more)
    ax.set_ylim(n_lines - 0.4, -1.2 if own_figure else -0.6)
    power = value_axis(ax, np.stack([view.mean, view.lower, view.upper])[:, features])
    if np.isnan(view.mean[features]).all():
        ax.set_xticks([0.0])
        words = "too little was asked to say more"
        ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center")
    elif own_figure:
        _numbers(ax, e, view, features)
    start = formatting.prediction(e, view.output)[1].replace("R² ", "R²\u00a0")
    title(ax, room, e, view.output, start)
    lines = "" if e.exact else f"thin: {formatting.percent(view.level)}, thick: 50 % · "
    footer = f"{e.n_queries:,} queries · {lines}{formatting.ending(e)}"
    caption(ax, room, f"importance{formatting.times(power)} ({unit(e)})", footer)
    return ax


def draw_panels(e: ExplanationBase, most: int, level: float | None, *, sort: bool) -> Any:
    """Draw a forest plot for each output below each other, on one scale; return the axes."""
    from matplotlib import pyplot as plt

    n_lines = min(len(e.names), check_count("most", most)) + (len(e.names) > most)
    size = (6.8, len(e.outputs) * (1.75 + 0.27 * n_lines))
    grid: Any = plt.subplots(len(e.outputs), figsize=size, layout="constrained", sharex=True)[1]
    for ax in grid:
        ax.tick_params(labelbottom=True)
    ends = []
    for j, ax in enumerate(grid):
        draw(e, j, most, level, ax, sort=sort)
        ends.append(ax.get_xlim())
    grid[0].set_xlim(np.min(ends), np.max(ends))
    return grid


def _rows(ax: Axes, e: ExplanationBase, view: View, features: list[int]) -> None:
    """Draw the intervals of some features, one below the other."""
    half = View.of(e, view.output, 0.5)
    for y, i in enumerate(features):
        mean, thin = view.mean[i], (view.lower[i], view.upper[i])
        if not np.isfinite(mean):
            continue
        if np.isinf(thin).any():  # nothing is known
            ax.axhline(y, color=formatting.NEUTRAL, lw=1.4, ls=(0, (4, 3)))
            continue
        neutral = abs(mean) <= 1e-12 * view.peak
        colour = formatting.NEUTRAL if neutral else sign_colour(mean)
        thick = (half.lower[i], half.upper[i])
        mark(ax, y, mean, thin, thick, colour=colour, unclear=bool(view.unclear[i]))


def _numbers(ax: Axes, e: ExplanationBase, view: View, features: list[int]) -> None:
    """Print the numbers in columns to the right of the rows, with the same decimals."""
    found, power = formatting.table(e, view, features, same=True)
    means = [f"importance{formatting.times(power)}", *(r.estimate for r in found)]
    between = [f"{formatting.percent(view.level)} interval", *(r.interval for r in found)]
    beside(ax, [means, between])
