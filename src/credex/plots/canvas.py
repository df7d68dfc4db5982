"""What the pictures share: axes of the right size, and labels that fit."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from credex.explanation import Explanation

LABEL = 46
"""Longest label in a figure of our own, in columns of text."""

ROOM = 5.0
"""Inches to the right of the labels in a figure of our own."""

PLAIN: dict[str, Any] = {"parse_math": False}
"""For texts of the user's: a dollar sign in a name is a dollar sign."""


def axes(ax: Axes | None, width: float, height: float) -> tuple[Axes, float, int]:
    """Axes to draw on, inches there are for titles, and columns there are for labels.

    Without ``ax`` they are those of a new figure, so many inches wide and (for letters of 10
    points) high.
    """
    from matplotlib.axes import Axes

    if ax is None:
        from matplotlib import pyplot as plt

        high = height * points("medium") / 10
        return plt.subplots(figsize=(width, high), layout="constrained")[1], ROOM, LABEL
    if not isinstance(ax, Axes):
        msg = f"ax must be matplotlib Axes, for example of plt.subplots(); got {type(ax).__name__}"
        raise InputError(msg)
    return ax, 0.6 * cell(ax), columns(0.4 * cell(ax), "medium")


def label(e: Explanation, i: int, most: int) -> str:
    """``age = 41`` (BayesLIME: its condition, ``29 < age ≤ 41``) in at most ``most`` columns."""
    name, value = formatting.feature(e, i)
    if e.method == "BayesLIME" or not value:
        return formatting.shorten(name, most)
    value = formatting.shorten(value, max(most * 2 // 5, most - 3 - formatting.columns(name)))
    return f"{formatting.shorten(name, most - 3 - formatting.columns(value))} = {value}"


def output_of(e: Explanation, output: Any) -> int:
    """Position of the output that is meant; an error lists them if it is not clear."""
    return e._output(output)  # noqa: SLF001 - one way to name an output


def cell(ax: Axes) -> float:
    """Inches from left to right that belong to the axes and their labels."""
    figure: Any = ax.figure
    share, spec = ax.get_position().width, ax.get_subplotspec()
    if spec is not None:
        grid = spec.get_gridspec()
        ratios = np.asarray(grid.get_width_ratios(), dtype=float)
        share = float(ratios[list(spec.colspan)].sum() / ratios.sum())
    return float(share * figure.bbox.width / figure.dpi)


def columns(inches: float, size: str) -> int:
    """Columns of text of a font size (``"small"``, …) that about fit."""
    return max(int(72 * inches / (0.55 * points(size))), 16)


def points(size: str) -> float:
    """The font size in points, in the style that is in force."""
    from matplotlib.font_manager import FontProperties

    return FontProperties(size=size).get_size_in_points()


def title(ax: Axes, inches: float, *lines: str) -> None:
    """Write lines above the axes, flush left."""
    most = columns(inches, "medium")
    text = "\n".join(textwrap.fill(line, most) for line in lines)
    ax.set_title(text, loc="left", fontsize="medium", linespacing=1.4).set_parse_math(False)
