"""What all plots share: axes of the right size, titles and labels that fit."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.errors import InputError
from credex.explanation_base import ExplanationBase

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LABEL = 46
"""Longest label, in columns of text, of a figure of our own."""

ROOM = 5.0
"""Inches to the right of the labels in a figure of our own."""

LUMA = np.array([0.299, 0.587, 0.114])
"""Weights of red, green and blue in brightness."""

PLAIN: dict[str, Any] = {"parse_math": False}
"""For names given by the user: a dollar sign does not begin a formula."""


def sign_colour(mean: float) -> str:
    """Orange for what raises the prediction, blue for what lowers it."""
    return formatting.POSITIVE if mean > 0 else formatting.NEGATIVE


def axes(ax: Axes | None, width: float, height: float) -> tuple[Axes, float, int]:
    """Return axes, the inches there are for titles, and the columns there are for labels.

    Without ``ax`` these are axes of a new figure; its size in inches is for letters of 10 points.
    """
    from matplotlib.axes import Axes

    if ax is None:
        from matplotlib import pyplot as plt

        high = height * points("medium") / 10
        return plt.subplots(figsize=(width, high), layout="constrained")[1], ROOM, MAX_LABEL
    if not isinstance(ax, Axes):
        msg = f"ax must be matplotlib Axes, for example of plt.subplots(); got {type(ax).__name__}"
        raise InputError(msg)
    inches = _cell_width(ax)
    return ax, 0.6 * inches, columns(0.4 * inches, "medium")


def label(e: ExplanationBase, i: int, max_columns: int) -> str:
    """Return ``age = 41`` (BayesLIME: ``29 < age ≤ 41``) in at most ``max_columns``."""
    name, value = formatting.feature(e, i)
    if e.method == "BayesLIME" or not value:
        return formatting.shorten(name, max_columns)
    left = max_columns - 3
    value = formatting.shorten(value, max(max_columns * 2 // 5, left - formatting.columns(name)))
    return f"{formatting.shorten(name, left - formatting.columns(value))} = {value}"


def _cell_width(ax: Axes) -> float:
    """Return the width in inches that the axes and their labels share."""
    figure: Any = ax.figure
    share, spec = ax.get_position().width, ax.get_subplotspec()
    if spec is not None:
        ratios = np.asarray(spec.get_gridspec().get_width_ratios(), dtype=float)
        share = float(ratios[list(spec.colspan)].sum() / ratios.sum())
    return float(share * figure.bbox.width / figure.dpi)


def columns(inches: float, size: str) -> int:
    """Return about how many columns of text of a font size (``"small"``, …) fit."""
    return max(int(72 * inches / (0.55 * points(size))), 16)


def points(size: str) -> float:
    """Return a font size in points, in the current style."""
    from matplotlib.font_manager import FontProperties

    return FontProperties(size=size).get_size_in_points()


def title(ax: Axes, inches: float, e: ExplanationBase, output: int, *more: str) -> None:
    """Write method, prediction and ``more`` lines above the axes, flush left."""
    lines = [f"{e.method}: {formatting.prediction(e, output)[0]}", *more]
    text = "\n".join(textwrap.fill(line, columns(inches, "medium")) for line in lines)
    ax.set_title(text, loc="left", fontsize="medium", linespacing=1.4).set_parse_math(False)


def bare(ax: Axes) -> None:
    """Remove grid, box and tick marks."""
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
