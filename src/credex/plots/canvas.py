"""What the pictures share: axes of the right size, and labels that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from credex import show
from credex.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from credex.explanation import Explanation

LABEL = 44
"""Longest label, in columns of text."""

PLAIN: dict[str, Any] = {"parse_math": False}
"""For texts of the user's: a dollar sign in a name is a dollar sign."""


def axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return ``ax``, or the axes of a new figure of that many inches."""
    from matplotlib.axes import Axes

    if ax is None:
        from matplotlib import pyplot as plt

        return plt.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, Axes):
        msg = f"ax must be matplotlib Axes, for example of plt.subplots(); got {type(ax).__name__}"
        raise InputError(msg)
    return ax


def label(e: Explanation, i: int) -> str:
    """``age = 41``; BayesLIME: its condition, ``29 < age ≤ 41``."""
    name, value = show.feature(e, i)
    if e.method == "BayesLIME" or not value:
        return show.shorten(name, LABEL)
    value = show.shorten(value, 18)
    return f"{show.shorten(name, LABEL - 3 - show.columns(value))} = {value}"


def output_of(e: Explanation, output: Any) -> int:
    """Position of the output that is meant; an error lists them if it is not clear."""
    return e._output(output)  # noqa: SLF001 - one way to name an output


def title(ax: Axes, first: str, second: str) -> None:
    """Write two lines above the axes, flush left."""
    text = ax.set_title(f"{first}\n{second}", loc="left", fontsize="medium", linespacing=1.4)
    text.set_parse_math(False)
