"""Mean |importance| over the rows of a batch, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.aggregate import aggregate
from credex.errors import check_count
from credex.explanation_base import ExplanationBase
from credex.plots.canvas import (
    axes,
    beside,
    caption,
    drawable,
    heading,
    mark,
    row_labels,
    shades,
    unit,
    value_axis,
)
from credex.row_estimates import stacked

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(
    batch: Sequence[ExplanationBase],
    output: Any,
    most: int,
    level: float | None,
    ax: Axes | None,
) -> Axes:
    """Draw the bars; see `credex.plots.BatchPlots.summary`."""
    a = aggregate(batch, output, level, population="rows")
    level = batch[0].level if level is None else level
    features = a.order[: check_count("most", most)]
    left_out = len(a.names) - len(features)
    n_lines = len(features) + bool(left_out)
    own_figure = ax is None
    ax, room, longest = axes(ax, 6.8, 1.75 + 0.3 * n_lines)
    colour = shades(ax)[1]
    exact = stacked(batch, output)[2].max(axis=0) == 0
    ax.barh(range(len(features)), a.mean[features], height=0.62, color=[(colour, 0.25)], zorder=1)
    tiny = 1e-9 * float(a.mean.max())  # an interval that ends at 0 is not exact
    for y, i in enumerate(features):
        ends = (a.mean[i],) * 2 if exact[i] else (a.lower[i], max(a.upper[i], tiny))
        mark(ax, y, a.mean[i], ends, None, colour=colour, unclear=False)
    names = [drawable(formatting.shorten(a.names[i], longest)) for i in features]
    more = [f"… and {left_out} more"] if left_out else []
    row_labels(ax, names + more)
    ax.set_ylim(n_lines - 0.4, -1.2 if own_figure else -0.6)
    power = value_axis(ax, np.append(a.upper[features], a.mean[features]))
    ax.set_xlim(left=0.0)
    if own_figure:
        unit_ = 10.0**power
        peak = float(a.mean.max()) / unit_
        half = float(np.median((a.upper - a.lower)[features])) / 2 / unit_
        places = formatting.decimals(half, peak)
        means = [
            f"mean |φ|{formatting.times(power)}",
            *(formatting.number(a.mean[i] / unit_, places) for i in features),
        ]
        between = [f"{formatting.percent(level)} interval"]
        for i in features:
            low, high = (formatting.number(x[i] / unit_, places) for x in (a.lower, a.upper))
            between.append("exact" if exact[i] else f"{low} … {high}")
        beside(ax, [means, between])
    of = formatting.output_name(batch[0], output)
    heading(ax, room, f"{batch[0].method}: mean |importance| over {a.n_rows} rows{of}")
    footer = f"lines: {formatting.percent(level)} intervals; means are corrected for noise, which "
    footer = "" if exact.all() else footer + "would make them too large"
    caption(ax, room, f"mean |importance|{formatting.times(power)} ({unit(batch[0])})", footer)
    return ax
