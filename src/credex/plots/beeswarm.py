"""The beeswarm: importances of all rows of a batch, a line for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.cells import as_float
from credex.explanation_base import ExplanationBase
from credex.plots.canvas import (
    axes,
    caption,
    drawable,
    heading,
    is_dark,
    row_labels,
    unit,
    value_axis,
)
from credex.row_estimates import largest
from credex.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = "viridis"
"""From dark to light for all readers, also in print."""

SPREAD = 0.38
"""Height of a swarm above and below its line, in rows."""


def draw(
    batch: Sequence[ExplanationBase],
    output: Any,
    most: int,
    level: float | None,
    ax: Axes | None,
) -> Axes:
    """Draw the swarm; see `credex.plots.BatchPlots.beeswarm`."""
    names, mean, unclear, features, level = largest(batch, output, most, level)
    values = np.array([[as_float(v) for v in e.feature_values] for e in batch])
    own_figure = ax is None
    ax, room, longest = axes(ax, 6.4, 1.9 + 0.42 * len(features))
    finite = mean[:, features][np.isfinite(mean[:, features])]
    step = (float(np.ptp(np.append(finite, 0.0))) or 1.0) / 90
    sheet: Any = None
    n_pale = n_grey = 0
    low, high = (-0.35, 1.0) if is_dark(ax) else (0.0, 1.1)  # never the ground's colour
    for y, i in enumerate(features):
        known = np.isfinite(mean[:, i])
        x, up = mean[known, i], y + _swarm(mean[known, i], step)
        shade = _shades(values[known, i])
        sure = ~unclear[known, i]
        style: dict[str, Any] = {"cmap": COLOURS, "vmin": low, "vmax": high, "s": 17, "zorder": 3}
        blank = np.isnan(shade)
        n_pale, n_grey = n_pale + int((~sure).sum()), n_grey + int(blank.sum())
        for certain in (False, True):
            here = sure == certain
            colour, alpha = here & ~blank, 1.0 if certain else 0.3
            sheet = ax.scatter(x[colour], up[colour], c=shade[colour], alpha=alpha, lw=0, **style)
            grey = here & blank
            ax.scatter(x[grey], up[grey], color=formatting.NEUTRAL, s=17, alpha=alpha, lw=0)
    labels = [drawable(formatting.shorten(names[i], longest)) for i in features]
    row_labels(ax, labels)
    ax.set_ylim(len(features) - 0.4, -0.6)
    power = value_axis(ax, finite)
    if own_figure and sheet is not None:
        _colour_bar(ax, sheet)
    of = formatting.output_name(batch[0], output)
    heading(ax, room, f"{batch[0].method}: importances of {len(batch)} rows{of}")
    words = []
    if len(features) < len(names):
        words.append(f"{len(names) - len(features)} more features are not shown")
    if n_pale:
        words.append(f"pale: the {formatting.percent(level)} interval includes 0")
    words.append("colour: the feature's value" + (", grey: not a number" if n_grey else ""))
    label = f"importance{formatting.times(power)} ({unit(batch[0])})"
    caption(ax, room, label, " · ".join(words))
    return ax


def _swarm(x: Floats, step: float) -> Floats:
    """Offsets that keep dots of nearly equal ``x`` apart: alternately above and below the line."""
    bins = np.round(x / step).astype(np.int64)
    out = np.zeros(len(x))
    most = 1
    for b in np.unique(bins):
        here = np.flatnonzero(bins == b)
        rank = np.arange(len(here))
        out[here] = np.where(rank % 2, 1, -1) * ((rank + 1) // 2)
        most = max(most, len(here))
    return out * min(2 * SPREAD / most, 0.1)


def _shades(values: Floats) -> Floats:
    """Ranks of the values from 0 to 1, so that outliers do not take all colours; NaN stays."""
    known = np.isfinite(values)
    out = np.full(len(values), np.nan)
    different, place = np.unique(values[known], return_inverse=True)
    out[known] = place / max(len(different) - 1, 1)
    return out


def _colour_bar(ax: Axes, sheet: Any) -> None:
    """Explain the colours in a new figure."""
    from matplotlib.cm import ScalarMappable

    figure: Any = ax.figure
    bar = figure.colorbar(ScalarMappable(sheet.norm, sheet.cmap), ax=ax, aspect=40, pad=0.02)
    bar.ax.set_ylim(0, 1)
    bar.set_ticks([0, 1], labels=["low", "high"])
    bar.set_label("value of the feature, by rank", fontsize="small", labelpad=-8)
    bar.outline.set_visible(False)
