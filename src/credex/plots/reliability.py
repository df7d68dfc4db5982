"""The reliability diagram: how often intervals hold, at every level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.errors import InputError
from credex.plots.canvas import PLAIN, axes, caption, heading, ink
from credex.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(curve: Floats, verdict: str, size: str, level: float, ax: Axes | None) -> Axes:
    """Draw the diagram; ``curve (m, 4)`` holds level, coverage and the ends of its interval.

    ``verdict`` and ``size`` are said in words; the promised ``level`` is marked.
    """
    from matplotlib.ticker import PercentFormatter

    if not len(curve):
        raise InputError("nothing to draw: every importance is known exactly")
    own_figure = ax is None
    ax, room, _ = axes(ax, 4.8, 5.0)
    room = 3.6 if own_figure else room
    promised, measured, low, high = curve.T
    start = max(min(float(promised.min()), float(low.min())) - 0.03, 0.0)
    line: dict[str, Any] = {"color": ink(), "lw": 1, "alpha": 0.6, "zorder": 1}
    ax.plot([0, 1], [0, 1], ls=(0, (4, 3)), **line)
    ax.axvline(level, lw=8, color=ink(), alpha=0.08, zorder=0)
    ax.plot(promised, measured, color=formatting.NEUTRAL, lw=1.2, zorder=2)
    for p, m, a, b in curve:
        colour = formatting.POSITIVE if b < p else formatting.NEGATIVE
        ax.plot([p, p], [a, b], color=colour, lw=1.5, zorder=3, solid_capstyle="butt")
        ax.plot([p], [m], marker="s" if b < p else "o", ms=6, color=colour, ls="", zorder=4)
    ax.set_xlim(start, 1.01)
    ax.set_ylim(start, 1.01)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    ax.set_ylabel("measured coverage", **PLAIN)
    ax.set_box_aspect(1)
    ax.grid(visible=False)
    ax.spines[["right", "top"]].set_visible(False)
    heading(ax, room, f"Measured coverage at {formatting.percent(level)}: {verdict}")
    below = "orange squares: they hold less often than promised"
    shown = np.any(high < promised)
    caption(ax, room, "level of the intervals", size, *([below] if shown else []))
    return ax
