"""The heat map of a batch: rows against features, with doubtful cells marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.cells import display
from credex.explanation_base import ExplanationBase
from credex.plots.canvas import (
    PLAIN,
    axes,
    bare,
    caption,
    drawable,
    heading,
    ink,
    number_axis,
    row_labels,
    shades,
    unit,
)
from credex.row_estimates import largest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_NAMED = 40
"""Most rows whose labels are written."""


def draw(
    batch: Sequence[ExplanationBase],
    output: Any,
    most: int,
    level: float | None,
    ax: Axes | None,
) -> Axes:
    """Draw the heat map; see `credex.plots.BatchPlots.heatmap`."""
    from matplotlib.colors import to_rgb

    names, mean, unclear, features, level = largest(batch, output, most, level)
    n, d = len(batch), len(features)
    own_figure = ax is None
    ax, room, longest = axes(ax, 6.8, 2.0 + 0.3 * d)
    phi = mean[:, features].T
    peak = float(np.abs(phi[np.isfinite(phi)]).max(initial=0.0)) or 1.0
    strength = np.nan_to_num(np.abs(phi) / peak) ** 0.8
    raises, lowers = map(to_rgb, shades(ax))
    colours = np.where((phi > 0)[..., None], raises, lowers)
    ax.imshow(np.dstack([colours, strength]), aspect="auto", interpolation="nearest")
    # A doubtful cell has a dot, whose size follows the room there is.
    rows, cols = np.nonzero(unclear[:, features].T)
    dot = float(np.clip(250 / max(n, 1), 0.6, 3.0))
    ax.plot(cols, rows, ls="", marker=".", ms=dot, mew=0, color=ink(), alpha=0.65)
    labels = [drawable(formatting.shorten(names[i], longest)) for i in features]
    row_labels(ax, labels)
    if n <= MAX_NAMED:
        said = [display(i if e.label is None else e.label) for i, e in enumerate(batch)]
        words = [drawable(formatting.shorten(s, 12)) for s in said]
        turned = max(map(len, words)) > 2 or n > 20
        ax.set_xticks(range(n), words, rotation=90 if turned else 0, fontsize="small", **PLAIN)
    bare(ax)
    ax.set_xlim(-0.5, n - 0.5)
    ax.set_ylim(d - 0.5, -0.5)
    power = formatting.power_of(peak)
    if own_figure:
        _colour_bar(ax, peak, power)
    of = formatting.output_name(batch[0], output)
    heading(ax, room, f"{batch[0].method}: importances of {n} rows{of}")
    words = [f"{len(names) - d} more features are not shown"] if d < len(names) else []
    words += [f"dots: the {formatting.percent(level)} interval includes 0"] * bool(rows.size)
    caption(ax, room, "row", " · ".join(words), unit(batch[0]))
    return ax


def _colour_bar(ax: Axes, peak: float, power: int) -> None:
    """Explain the colours in a new figure: the same opacities over the same background."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize, to_rgb

    ground = np.array(to_rgb(ax.get_facecolor()))
    shares = np.linspace(-1, 1, 129)
    raises, lowers = map(to_rgb, shades(ax))
    tints = np.where((shares > 0)[:, None], raises, lowers)
    opacity = (np.abs(shares) ** 0.8)[:, None]
    colours = ListedColormap((ground * (1 - opacity) + tints * opacity).tolist())
    limit = peak / 10.0**power
    figure: Any = ax.figure
    bar = figure.colorbar(
        ScalarMappable(Normalize(-limit, limit), colours), ax=ax, aspect=30, pad=0.02
    )
    number_axis(bar.ax.yaxis, limit)
    bar.set_label(f"importance{formatting.times(power)}", fontsize="small")
    bar.ax.tick_params(labelsize="small")
    bar.outline.set_visible(False)
