"""A time series with its segments shaded, and the importances with their intervals below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.cells import clean
from credex.errors import InputError
from credex.explanation_base import ExplanationBase
from credex.formatting import View
from credex.plots.canvas import PLAIN, ROOM, number_axis, shades, sign_colour, title
from credex.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAINT = 0.02
"""Segments below this share of the largest importance are left blank."""

MAX_NAME = 18
"""Longest name of a channel, in columns of text: the height of its axes."""

SHADE = 0.55
"""Opacity of the shading behind the largest importance."""


def draw(e: ExplanationBase, output: Any, level: float | None) -> Any:
    """Draw the series; see `credex.plots.Plots.series`."""
    from matplotlib import pyplot as plt

    payload = e.payload
    if not isinstance(payload, dict) or payload.get("kind") != "series":
        msg = "plot.series() is for explanations of series (cx.Series); plot.intervals() is for all"
        raise InputError(msg)
    view = View.of(e, output, level)
    values = np.array(payload["values"], dtype=np.float64).reshape(payload["shape"][0], -1)
    bounds, names, n_channels = payload["bounds"], payload["channels"], values.shape[1]
    numbers = np.stack([view.mean, view.lower, view.upper, view.unclear])
    # Named channels have importances of their own, drawn below each; others share theirs.
    groups: list[tuple[list[int], Floats]] = [(list(range(n_channels)), numbers)]
    if names:
        groups = [([c], part) for c, part in enumerate(np.split(numbers, n_channels, axis=1))]
    ratios = [r for channels, _ in groups for r in [2.0] * len(channels) + [1.6]]
    size = (8.5, 1.1 + 0.75 * sum(ratios))
    style: dict[str, Any] = {"height_ratios": ratios, "sharex": True, "layout": "constrained"}
    grid: Any = plt.subplots(len(ratios), figsize=size, **style)[1]
    rows, importances, hatched = iter(grid), [], False
    for channels, part in groups:
        for c in channels:
            word = names[c] if names else f"channel {c}" if n_channels > 1 else "value"
            hatched |= _channel(next(rows), values[:, c], bounds, part, peak=view.peak, name=word)
        importances.append(next(rows))
        _importances(importances[-1], bounds, part)
    ends = [edge for ax in importances for edge in ax.get_ylim()]
    for ax in importances:  # one scale for all, or a small importance would look like a large one
        ax.set_ylim(min(ends), max(ends))
        power = number_axis(ax.yaxis, float(np.abs(ends).max()))
        _dress(ax, f"importance{formatting.times(power)}")
    title(grid[0], ROOM, e, view.output, formatting.prediction(e, view.output)[1])
    words = [f"{e.n_queries:,} queries", f"{formatting.percent(view.level)} intervals"]
    if view.unclear.any():
        marks = "hollow dots, hatched segments" if hatched else "hollow dots"
        words.append(f"{marks}: the interval includes 0")
    legend = " · ".join([*words, formatting.ending(e)])
    grid[-1].set_xlabel(f"time step\n{legend}", fontsize="small")
    return grid


def _channel(
    ax: Axes, values: Floats, bounds: list[list[int]], numbers: Floats, *, peak: float, name: str
) -> bool:
    """Draw a channel with its segments shaded by importance; say whether any is hatched."""
    from matplotlib import rcParams

    ink, hatched = rcParams["text.color"], False
    for (a, b), (mean, _, _, unclear) in zip(bounds, numbers.T, strict=True):
        if not np.isfinite(mean) or abs(mean) <= FAINT * peak:
            continue
        hatched |= bool(unclear)
        shade = (shades(ax)[0 if mean > 0 else 1], SHADE * abs(mean) / peak)
        hatch = "///" if unclear else None
        ax.axvspan(a - 0.5, b - 0.5, facecolor=shade, edgecolor=(ink, 0.3), hatch=hatch, lw=0)
    ax.plot(np.arange(len(values)), values, color=ink, lw=1.3)
    for a, _ in bounds[1:]:
        ax.axvline(a - 0.5, color=ink, lw=0.6, alpha=0.25)
    ax.set_xlim(-0.5, len(values) - 0.5)
    known = np.abs(values[np.isfinite(values)])
    power = number_axis(ax.yaxis, float(known.max(initial=0.0)) or 1.0)
    _dress(ax, formatting.shorten(clean(name), MAX_NAME) + formatting.times(power))
    return hatched


def _importances(ax: Axes, bounds: list[list[int]], numbers: Floats) -> None:
    """Draw the importances of the segments with their intervals."""
    from matplotlib import rcParams

    ax.axhline(0.0, color=rcParams["text.color"], lw=0.9, alpha=0.7)
    for (a, b), (mean, lower, upper, unclear) in zip(bounds, numbers.T, strict=True):
        if not np.isfinite([mean, lower, upper]).all():
            continue
        colour, middle = sign_colour(mean), (a + b - 1) / 2
        ax.plot([a - 0.3, b - 0.7], [mean, mean], color=colour, lw=1.2, alpha=0.5)
        ax.plot([middle, middle], [lower, upper], color=colour, lw=1.6)
        face = ax.get_facecolor() if unclear else colour
        ax.plot([middle], [mean], marker="o", ms=6, mec=colour, mfc=face, mew=1.4, ls="")


def _dress(ax: Axes, name: str) -> None:
    ax.set_ylabel(name, **PLAIN)
    ax.grid(visible=False)
    ax.spines[["right", "top"]].set_visible(False)
