"""The most important regions of an image, cut out, numbered and listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.checks import check_count
from credex.plots.canvas import PLAIN, axes, output_of, title
from credex.plots.image_scene import Scene, bare, borders, certain_of, framed, known, settle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from credex.explanation import Explanation

SIDE = 4.6
"""Inches of the longer side of the image in a figure of our own."""

DIM = 0.75
"""How far the rest of the image fades into its background."""


def regions(
    e: Explanation, k: int, output: Any, level: float | None, ax: Axes | None, *, signed: bool
) -> Axes:
    """Draw the regions; see `credex.plots.Plots.regions`."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    j = output_of(e, output)
    scene, means = Scene.of(e), known(e, j)
    level = e.level if level is None else level
    certain = certain_of(e, j, level)
    order = np.argsort(-(means if signed else np.abs(means)), kind="stable")
    at = [int(i) for i in order if e.selected[i, j] and (means[i] > 0 or not signed)]
    at = at[: check_count("k", k)]
    own = ax is None
    high, wide = (SIDE * n / max(scene.picture.size) for n in scene.picture.size)
    ax, room, _ = axes(ax, max(wide, 3.6) + 0.4, high + 0.85 + 0.19 * len(at))

    labels = scene.regions.labels
    background = np.array(to_rgb(ax.get_facecolor()))
    chosen = np.isin(labels, at)[:, :, None]
    faint = (1 - DIM) * scene.grey + DIM * background
    ax.imshow(np.where(chosen, scene.colour, faint), interpolation="nearest")
    outside = framed(labels)
    for rank, i in enumerate(at, start=1):
        colour = formatting.POSITIVE if means[i] > 0 else formatting.NEGATIVE
        lines = borders((outside == i).astype(np.int64)) - 1.0
        style = "solid" if certain[i] else (0, (2, 1.5))
        for ink, width in (("white", 3.6), (colour, 1.8)):
            ax.add_collection(
                LineCollection(
                    list(lines), colors=ink, linewidths=width, linestyles=[style], capstyle="round"
                ),
                autolim=False,
            )
        y, x = _inside(labels == i)
        box = {"boxstyle": "circle,pad=0.25", "fc": colour, "ec": "white", "lw": 0.8}
        ax.text(x, y, str(rank), color="white", ha="center", va="center", size="small", bbox=box)
    bare(ax)
    said, _ = formatting.prediction(e, j)
    title(ax, max(wide, 3.6) if own else room, f"{e.method}: {said}")
    _listed(ax, e, j, at, level)
    if own:
        settle(ax)
    return ax


def _listed(ax: Axes, e: Explanation, j: int, at: list[int], level: float) -> None:
    rows, power = formatting.table(e, j, at, level)
    lines = [
        f"{n}  {r.feature}: {r.estimate}" + (f"  ({r.lower} … {r.upper})" if r.lower else ", exact")
        for n, r in enumerate(rows, start=1)
    ]
    head = f"importance{formatting.times(power)} and {formatting.percent(level)} interval"
    ax.set_xlabel("\n".join([head, *lines]), fontsize="small", loc="left", **PLAIN)


def _inside(where: Any) -> tuple[float, float]:
    """Return the point of a region farthest from its border: its number is written there."""
    from scipy.ndimage import distance_transform_edt

    depth = np.asarray(distance_transform_edt(np.pad(where, 1)))[1:-1, 1:-1]
    y, x = np.unravel_index(int(depth.argmax()), depth.shape)
    return float(y), float(x)
