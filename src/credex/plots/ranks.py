"""The heat map of ranks: which order of the features is certain, and which is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.checks import check_count
from credex.errors import InputError
from credex.plots.canvas import PLAIN, axes, label, output_of, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from credex.explanation import Explanation

ON_DARK = "#56b4e9"
"""Okabe and Ito's sky blue, for dark backgrounds."""

LUMA = np.array([0.299, 0.587, 0.114])
"""Weights of red, green and blue in brightness."""

PRINTED = 0.05
"""Smallest probability that is printed."""


def ranks(e: Explanation, output: Any, most: int, ax: Axes | None) -> Axes:
    """Draw the heat map; see `credex.plots.Plots.ranks`."""
    from matplotlib.colors import to_rgb, to_rgba

    j = output_of(e, output)
    if not np.isfinite(e.belief.mean[:, j]).all():
        msg = "too little was asked to rank the features; go on with refine()"
        raise InputError(msg)
    at, left_out = formatting.rows_of(e, j, check_count("most", most))
    p = e.rank_probabilities(output=j)[at]
    heads = [str(r + 1) for r in range(len(at))]
    if left_out:
        p = np.column_stack([p[:, : len(at)], p[:, len(at) :].sum(axis=1)])
        heads.append("later")
    p = p[:, : len(heads)]
    ax, room, longest = axes(ax, 4.0 + 0.5 * len(heads), 1.5 + 0.32 * len(at))

    # A blue as dense as the rank is likely, over whatever the background is.
    ground = np.array(to_rgba(ax.get_facecolor())[:3])
    tint = np.array(to_rgb(formatting.NEGATIVE if ground @ LUMA > 0.5 else ON_DARK))
    dense = p**0.7
    ax.imshow(np.dstack([np.broadcast_to(tint, (*p.shape, 3)), dense]), aspect="auto")
    for (row, column), chance in np.ndenumerate(p):
        if chance > PRINTED:
            opacity = dense[row, column]
            light = (ground * (1 - opacity) + tint * opacity) @ LUMA > 0.5
            ax.text(
                column,
                row,
                "1" if e.exact else formatting.chance(float(chance)),
                ha="center",
                va="center",
                color="black" if light else "white",
                fontsize="small",
            )
    ax.set_xticks(range(len(heads)), heads)
    ax.set_yticks(range(len(at)), [label(e, i, longest) for i in at], **PLAIN)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.set_xlabel("rank by the size of the importance (1 is the largest)")
    more = f"; {left_out} more features are not shown" if left_out else ""
    title(
        ax, room, f"{e.method}: {formatting.prediction(e, j)[0]}", f"probability of each rank{more}"
    )
    return ax
