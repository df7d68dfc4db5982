"""A time series with its segments shaded, and the importances with their intervals below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.checks import check_level
from credex.errors import InputError
from credex.plots.canvas import PLAIN, ROOM, output_of, title
from credex.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from credex.explanation import Explanation

FAINT = 0.02
"""Segments below this share of the largest importance are left blank."""

SHADE = 0.55
"""Opacity of the shading behind the largest importance."""


def series(e: Explanation, output: Any, level: float | None) -> Any:
    """Draw the series; see `credex.plots.Plots.series`."""
    from matplotlib import pyplot as plt

    payload = e.payload
    if not isinstance(payload, dict) or payload.get("kind") != "series":
        msg = "plot.series() is for explanations of series (cx.Series); plot.intervals() is for all"
        raise InputError(msg)
    j = output_of(e, output)
    at = e.level if level is None else check_level(level)
    interval = e.belief.interval(at)
    values = np.array(payload["values"], dtype=np.float64).reshape(payload["shape"][0], -1)
    numbers = np.stack([e.belief.mean[:, j], interval.lower[:, j], interval.upper[:, j]])
    bounds, names = payload["bounds"], payload["channels"]
    # below each channel its own importances; below all of them, if they go together
    groups: list[tuple[list[int], Floats]] = [(list(range(values.shape[1])), numbers)]
    if names:
        m = len(bounds)
        groups = [([c], numbers[:, c * m : (c + 1) * m]) for c in range(values.shape[1])]
    ratios = [r for channels, _ in groups for r in [2.0] * len(channels) + [1.6]]
    figure, grid = plt.subplots(
        len(ratios),
        figsize=(8.5, 1.1 + 0.75 * sum(ratios)),
        layout="constrained",
        sharex=True,
        gridspec_kw={"height_ratios": ratios},
    )
    peak = float(np.nanmax(np.abs(numbers[0]), initial=0.0))
    rows = iter(np.atleast_1d(grid))
    for channels, own in groups:
        for c in channels:
            word = names[c] if names else f"channel {c}" if values.shape[1] > 1 else "value"
            _line(next(rows), values[:, c], bounds, own, peak=peak, name=word)
        _bars(next(rows), bounds, own)
    scales = [ax for ax in grid if ax.get_ylabel() == "importance"]
    ends = [edge for ax in scales for edge in ax.get_ylim()]
    for ax in scales:  # one scale for all, or a small importance would look like a large one
        ax.set_ylim(min(ends), max(ends))
    said, start = formatting.prediction(e, j)
    title(grid[0], ROOM, f"{e.method}: {said}", start)
    below = (
        f"time step\n{e.n_queries:,} queries · {formatting.percent(at)} intervals · hatched: the "
    )
    grid[-1].set_xlabel(below + f"interval includes 0 · {formatting.ending(e)}", fontsize="small")
    del figure
    return grid


def _colour(mean: float) -> str:
    return formatting.POSITIVE if mean > 0 else formatting.NEGATIVE


def _line(
    ax: Axes, values: Floats, bounds: list[list[int]], numbers: Floats, *, peak: float, name: str
) -> None:
    """One channel, its segments shaded by their importance."""
    from matplotlib import rcParams

    for (a, b), (mean, lower, upper) in zip(bounds, numbers.T, strict=True):
        if not np.isfinite(mean) or abs(mean) <= FAINT * peak:
            continue
        unclear = lower <= 0 <= upper and lower < upper
        ax.axvspan(
            a - 0.5,
            b - 0.5,
            facecolor=(_colour(mean), SHADE * abs(mean) / peak),
            edgecolor=(rcParams["text.color"], 0.3),
            hatch="///" if unclear else None,
            lw=0,
        )
    ax.plot(np.arange(len(values)), values, color=rcParams["text.color"], lw=1.3)
    for a, _ in bounds[1:]:
        ax.axvline(a - 0.5, color=rcParams["text.color"], lw=0.6, alpha=0.25)
    ax.set_ylabel(formatting.shorten(formatting.clean(name), 24), **PLAIN)
    ax.set_xlim(-0.5, len(values) - 0.5)
    ax.grid(visible=False)
    ax.spines[["right", "top"]].set_visible(False)


def _bars(ax: Axes, bounds: list[list[int]], numbers: Floats) -> None:
    """Importances of the segments, each over its own stretch of time."""
    from matplotlib import rcParams

    ax.axhline(0.0, color=rcParams["text.color"], lw=0.9, alpha=0.7)
    for (a, b), (mean, lower, upper) in zip(bounds, numbers.T, strict=True):
        if not np.isfinite([mean, lower, upper]).all():
            continue
        unclear = lower <= 0 <= upper and lower < upper
        colour, middle = _colour(mean), (a + b - 1) / 2
        ax.plot([a - 0.3, b - 0.7], [mean, mean], color=colour, lw=1.2, alpha=0.5)
        ax.plot([middle, middle], [lower, upper], color=colour, lw=1.6)
        face = ax.get_facecolor() if unclear else colour
        ax.plot([middle], [mean], marker="o", ms=6, mec=colour, mfc=face, mew=1.4, ls="")
    ax.set_ylabel("importance")
    ax.grid(visible=False)
    ax.spines[["right", "top"]].set_visible(False)
