"""The heat map: which regions of an image raise the prediction, which lower it, how certainly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.plots.canvas import axes, output_of, title
from credex.plots.image_scene import (
    Scene,
    bare,
    certain_of,
    colours,
    draw_borders,
    hatch,
    known,
    settle,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from credex.explanation import Explanation

SIDE = 4.6
"""Inches of the longer side of the image in a figure of our own."""


def overlay(e: Explanation, output: Any, level: float | None, ax: Axes | None) -> Axes:
    """Draw the heat map; see `credex.plots.Plots.overlay`."""
    j = output_of(e, output)
    scene, means = Scene.of(e), known(e, j)
    level = e.level if level is None else level
    certain = certain_of(e, j, level)
    own = ax is None
    high, wide = (SIDE * n / max(scene.picture.size) for n in scene.picture.size)
    ax, room, _ = axes(ax, max(wide, 3.2) + 1.7, high + 1.25)
    peak = float(np.abs(means).max())
    ax.imshow(scene.heat(means, peak, certain), interpolation="nearest")
    draw_borders(ax, scene.regions.labels, colors="white", linewidths=0.6, alpha=0.55)
    hatch(ax, ~certain[scene.regions.labels], "#ffffff70")
    bare(ax)
    said, _ = formatting.prediction(e, j)
    title(ax, max(wide, 3.2) + 1.2 if own else room, f"{e.method}: {said}")
    if own:
        bar(ax, peak)
    below(ax, e, certain, level)
    if own:
        settle(ax)
    return ax


def below(ax: Axes, e: Explanation, certain: Any, level: float) -> None:
    """What hatched means, how many regions there are, what it cost."""
    n = int(np.sum(~certain))
    every = "exact" if e.exact else f"no {formatting.percent(level)} interval includes zero"
    hatched = (
        f"hatched: the {formatting.percent(level)} interval includes zero ({n} of {len(certain)})"
    )
    words = f"{hatched if n else every}\n{len(certain)} regions · {e.n_queries:,} queries"
    ax.set_xlabel(words, fontsize="small", alpha=0.85, loc="left")


def bar(ax: Axes, peak: float) -> None:
    """Draw a colour bar from −peak to peak."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    figure: Any = ax.figure
    scale = ScalarMappable(Normalize(-peak or -1.0, peak or 1.0), colours())
    drawn = figure.colorbar(scale, ax=ax, shrink=0.9, pad=0.02, aspect=25)
    drawn.outline.set_visible(False)
    ticks = [float(t) for t in np.linspace(-1, 1, 5) * (peak or 1.0)]
    power = formatting.power_of(peak)
    unit = 10.0**power
    places = max(formatting.decimals(0.0, peak / unit) - 2, 0)  # two digits are enough for colours
    drawn.set_ticks(ticks, labels=[formatting.number(t / unit, places) for t in ticks])
    drawn.ax.tick_params(labelsize="small", length=0)
    drawn.set_label(
        f"lowers      importance{formatting.times(power)}      raises", fontsize="small"
    )
