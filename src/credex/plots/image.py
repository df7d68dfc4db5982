"""An image's regions coloured by importance, or the most important ones cut out and listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.checks import check_count
from credex.explanation_base import ExplanationBase
from credex.plots.canvas import PLAIN, View, axes, sign_colour, title
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

DIM = 0.75
"""How far the rest of the image fades into its background."""


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
    percent = formatting.percent(view.level)
    words = "exact" if e.exact else f"no {percent} interval includes zero"
    if n:
        words = f"hatched: the {percent} interval includes zero ({n} of {d})"
    image_only(ax, f"{words}\n{d} regions · {e.n_queries:,} queries", alpha=0.85)
    if own_figure:
        colour_bar(ax, view.peak)
        settle(ax)
    return ax


def regions(
    e: ExplanationBase, k: int, output: Any, level: float | None, ax: Axes | None, *, signed: bool
) -> Axes:
    """Draw the regions; see `credex.plots.Plots.regions`."""
    from matplotlib.colors import to_rgb

    view, scene = View.of(e, output, level), Scene.of(e)
    view.check_known("draw the regions")
    order = np.argsort(-(view.mean if signed else np.abs(view.mean)), kind="stable")
    chosen = [int(i) for i in order if e.selected[i, view.output]]
    chosen = [i for i in chosen if view.mean[i] > 0 or not signed][: check_count("k", k)]
    own_figure = ax is None
    high, wide = scene.inches
    wide = max(wide, 3.6)
    ax, room, _ = axes(ax, wide + 0.4, high + 0.85 + 0.19 * len(chosen))

    labels = scene.regions.labels
    faint = (1 - DIM) * scene.grey + DIM * np.array(to_rgb(ax.get_facecolor()))
    kept = np.isin(labels, chosen)[:, :, None]
    ax.imshow(np.where(kept, scene.colour, faint), interpolation="nearest")
    padded = np.pad(labels, 1, constant_values=-1)  # outlines close at the edge of the image
    for rank, i in enumerate(chosen, start=1):
        colour = sign_colour(view.mean[i])
        lines = borders((padded == i).astype(np.int64)) - 1.0
        style = {"linestyles": [(0, (2, 1.5)) if view.unclear[i] else "solid"], "capstyle": "round"}
        draw_borders(ax, lines, colors="white", linewidths=3.6, **style)
        draw_borders(ax, lines, colors=colour, linewidths=1.8, **style)
        x, y = _inside(labels == i)
        box = {"boxstyle": "circle,pad=0.25", "fc": colour, "ec": "white", "lw": 0.8}
        ax.text(x, y, str(rank), color="white", ha="center", va="center", size="small", bbox=box)
    said = f"{e.method}: {formatting.prediction(e, view.output)[0]}"
    title(ax, wide if own_figure else room, said)
    image_only(ax, _listed(e, view, chosen), **PLAIN)
    if own_figure:
        settle(ax)
    return ax


def _listed(e: ExplanationBase, view: View, chosen: list[int]) -> str:
    """The numbers of the chosen regions, a line for each."""
    rows, power = formatting.table(e, view.output, chosen, view.level)
    level = formatting.percent(view.level)
    lines = [f"importance{formatting.times(power)} and {level} interval"]
    for n, r in enumerate(rows, start=1):
        between = f"  ({r.lower} … {r.upper})" if r.lower else ", exact"
        lines.append(f"{n}  {r.feature}: {r.estimate}{between}")
    return "\n".join(lines)


def _inside(where: Any) -> tuple[float, float]:
    """Return the point (x, y) of a region farthest from its border: its number is put there."""
    from scipy.ndimage import distance_transform_edt

    depth = np.asarray(distance_transform_edt(np.pad(where, 1)))[1:-1, 1:-1]
    y, x = np.unravel_index(int(depth.argmax()), depth.shape)
    return float(x), float(y)
