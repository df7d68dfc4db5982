"""The heat map: which regions of an image raise the prediction, which lower it, how certainly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from credex import formatting
from credex.explanation_base import ExplanationBase
from credex.plots.canvas import View, axes, title
from credex.plots.image_scene import (
    Scene,
    borders,
    colour_bar,
    draw_borders,
    hatch,
    image_only,
    settle,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def overlay(e: ExplanationBase, output: Any, level: float | None, ax: Axes | None) -> Axes:
    """Draw the heat map; see `credex.plots.Plots.overlay`."""
    view, scene = View.of(e, output, level), Scene.of(e)
    view.check_known("draw the regions")
    own_figure = ax is None
    high, wide = scene.inches
    wide = max(wide, 3.2)
    ax, room, _ = axes(ax, wide + 1.7, high + 1.25)
    labels, n, d = scene.regions.labels, int(view.unclear.sum()), len(view.mean)
    ax.imshow(scene.heat(view.mean, view.peak, view.unclear), interpolation="nearest")
    draw_borders(ax, borders(labels), colors="white", linewidths=0.6, alpha=0.55)
    hatch(ax, view.unclear[labels], "#ffffff70")
    said = f"{e.method}: {formatting.prediction(e, view.output)[0]}"
    title(ax, wide + 1.2 if own_figure else room, said)
    if own_figure:
        colour_bar(ax, view.peak)
    percent = formatting.percent(view.level)
    words = "exact" if e.exact else f"no {percent} interval includes zero"
    if n:
        words = f"hatched: the {percent} interval includes zero ({n} of {d})"
    image_only(ax, f"{words}\n{d} regions · {e.n_queries:,} queries", alpha=0.85)
    if own_figure:
        settle(ax)
    return ax
