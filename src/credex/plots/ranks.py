"""The heat map of the probabilities of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.errors import InputError, check_count
from credex.explanation_base import ExplanationBase
from credex.formatting import View
from credex.plots.canvas import (
    LUMA,
    axes,
    bare,
    caption,
    label,
    points,
    row_labels,
    shades,
    title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PRINTED = 0.05
"""Probabilities above this are printed."""

MIN_POINTS = 5.5
"""Smallest letters, in points."""


def draw(e: ExplanationBase, output: Any, most: int, ax: Axes | None) -> Axes:
    """Draw the heat map; see `credex.plots.Plots.ranks`."""
    from matplotlib.colors import to_rgb, to_rgba

    view = View.of(e, output)
    view.check_known("rank the features")
    open_ = [e.names[i] for i in np.flatnonzero(~np.isfinite(view.upper - view.lower))]
    if open_:
        msg = f"no query measured {open_[0]!r}: its rank is open, and so are those of the others;"
        raise InputError(f"{msg} plot.intervals() is for all")
    features, left_out = formatting.largest(e, view.output, check_count("most", most))
    n = len(features)
    p = e.rank_probabilities(output=view.output)[features]
    heads = [str(r + 1) for r in range(n)]
    if left_out:
        p = np.column_stack([p[:, :n], p[:, n:].sum(axis=1)])
        heads.append("later")
    p = p[:, : len(heads)]
    ax, room, longest = axes(ax, 3.6 + 0.42 * len(heads), 1.5 + 0.32 * n)
    # Five letters of a probability fit into a cell, or it is left to the colour.
    size = min(72 * room / len(heads) / 3.2, points("small"))

    # A blue as dense as the rank is likely, over whatever the background is.
    ground = np.array(to_rgba(ax.get_facecolor())[:3])
    tint = np.array(to_rgb(shades(ax)[1]))
    dense = p**0.7
    ax.imshow(np.dstack([np.broadcast_to(tint, (*p.shape, 3)), dense]), aspect="auto")
    for row, column in np.argwhere(p > PRINTED) if size >= MIN_POINTS else ():
        opacity = dense[row, column]
        light = (ground * (1 - opacity) + tint * opacity) @ LUMA > 0.5
        words = "1" if e.exact else formatting.chance(float(p[row, column]))
        style: dict[str, Any] = {"color": "black" if light else "white", "fontsize": size}
        ax.text(column, row, words, ha="center", va="center", **style)
    ax.set_xticks(range(len(heads)), heads, fontsize=max(size, MIN_POINTS))
    row_labels(ax, [label(e, i, longest) for i in features])
    bare(ax)
    words = "rank by the size of the importance (1 is the largest)"
    caption(ax, min(room, 0.7 + 0.42 * len(heads)), words)
    more = f"; {left_out} more features are not shown" if left_out else ""
    title(ax, room, e, view.output, f"probability of each rank{more}")
    return ax
