"""What the pictures share: colours that colour-blind readers tell apart, and how they are saved."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

__all__ = ["COLOURS", "GREY", "blank", "plain", "tidy", "write"]

COLOURS = {
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "yellow": "#E69F00",
}
"""Okabe and Ito's."""

GREY = "#6b6b6b"


def blank() -> Figure:
    """Return an empty figure on white, readable on a dark page too."""
    figure = Figure(figsize=(8.6, 4.2), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def tidy(ax: Axes) -> Axes:
    """No box, a light grid behind."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#e6e6e6", linewidth=0.7)
    ax.set_axisbelow(True)
    return ax


def plain(axis: Axis) -> None:
    """Label a logarithmic axis at 1, 2 and 5, in plain numbers."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")


def write(figure: Figure, path: Path) -> None:
    """Save as PNG, without the date, so that the same figure is the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"font.size": 10}):
        figure.savefig(path, dpi=130, metadata={"Software": None})
