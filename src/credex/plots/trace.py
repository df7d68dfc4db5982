"""How importances and intervals changed while a run went on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.cells import clean
from credex.errors import InputError, check_count
from credex.explanation_base import ExplanationBase
from credex.plots.canvas import (
    PLAIN,
    SERIES,
    axes,
    caption,
    drawable,
    ink,
    is_dark,
    number_axis,
    title,
    unit,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(
    e: ExplanationBase,
    states: Iterable[Any],
    output: Any,
    most: int,
    *,
    level: float | None,
    ax: Axes | None,
) -> Axes:
    """Draw the course of a run; see `credex.plots.Plots.trace`."""
    j = e._output(output)  # noqa: SLF001 - outputs are named as in the explanation's methods
    level = e.level if level is None else level
    looks = _looks(e, states)
    n = np.array([queries for queries, _ in looks], dtype=float)
    features = formatting.largest(e, j, min(check_count("most", most), len(SERIES)))[0]
    found = [belief.interval(level) for _, belief in looks]
    mean = np.stack([b.mean[features, j] for _, b in looks])
    lower = np.stack([i.lower[features, j] for i in found])
    upper = np.stack([i.upper[features, j] for i in found])
    ax, room, _ = axes(ax, 6.2, 4.0)
    ax.axhline(0.0, color=ink(), lw=0.9, alpha=0.6, zorder=1)
    colours = SERIES if not is_dark(ax) else SERIES[-1:] + SERIES[1:-1] + SERIES[:1]
    for f, colour in enumerate(colours[: len(features)]):
        ax.fill_between(n, lower[:, f], upper[:, f], color=colour, alpha=0.18, lw=0, zorder=2)
        ax.plot(n, mean[:, f], color=colour, lw=1.8, marker=".", ms=6, zorder=3)
    _scale(ax, n, lower, upper)
    names = [drawable(formatting.shorten(clean(e.names[i]), 24)) for i in features]
    _names_beside(ax, names, mean[-1], colours)
    power = number_axis(ax.yaxis, float(np.abs(ax.get_ylim()).max()))
    ax.set_ylabel(f"importance{formatting.times(power)}", **PLAIN)
    ax.grid(visible=False)
    ax.spines[["right", "top"]].set_visible(False)
    title(ax, room, e, j)
    band = [f"bands: {formatting.percent(level)} intervals"] if np.any(upper > lower) else []
    caption(ax, room, "queries", " · ".join([*band, unit(e), formatting.ending(e)]))
    return ax


def _looks(e: ExplanationBase, states: Iterable[Any]) -> list[tuple[int, Any]]:
    """Return queries and beliefs of the states that have a fit, in order."""
    looks: dict[int, Any] = {}
    for s in states:
        if not (hasattr(s, "belief") and hasattr(s, "n_queries")):
            msg = "plot.trace() takes the states of iterate(), or explanations of one instance; "
            raise InputError(f"{msg}got {type(s).__name__}")
        if s.belief is not None and np.isfinite(s.belief.mean).any():
            if s.belief.mean.shape != e.belief.mean.shape:
                raise InputError("the states are of another instance: they have other features")
            looks[s.n_queries] = s.belief
    looks[e.n_queries] = e.belief
    if len(looks) < 2:
        msg = "plot.trace() needs at least two states: pass list(explainer.iterate(x))"
        raise InputError(msg)
    return sorted(looks.items())


def _scale(ax: Axes, n: Any, lower: Any, upper: Any) -> None:
    """Choose limits: a logarithmic axis if queries grew much; first wild intervals are cut off."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    if n[-1] > 8 * n[0]:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_minor_formatter(NullFormatter())
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.set_xlim(n[0], n[-1])
    half = len(n) // 2
    ends = np.concatenate([lower[half:].ravel(), upper[half:].ravel(), [0.0]])
    ends = ends[np.isfinite(ends)]
    margin = 0.25 * float(np.ptp(ends)) or 1.0
    ax.set_ylim(ends.min() - margin, ends.max() + margin)


def _names_beside(ax: Axes, names: list[str], last: Any, colours: Sequence[str]) -> None:
    """Write the names to the right of the curves' ends, apart from each other."""
    low, high = ax.get_ylim()
    gap = 0.065 * (high - low)
    order = np.argsort(last)
    places = np.array(last, dtype=float)
    for before, i in pairwise(order):
        places[i] = max(places[i], places[before] + gap)
    places -= max(float(places.max()) - (high - gap / 2), 0.0)
    for name, y, colour in zip(names, places, colours, strict=False):
        ax.annotate(
            name,
            xy=(1.0, y),
            xycoords=ax.get_yaxis_transform(),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=colour,
            annotation_clip=False,
            **PLAIN,
        )
