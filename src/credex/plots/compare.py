"""Two explanations compared: the differences of their importances, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.comparison import compare
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
    sign_colour,
    unit,
    value_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(
    a: ExplanationBase,
    b: ExplanationBase,
    output: Any,
    most: int,
    level: float | None,
    *,
    names: tuple[str, str],
    ax: Axes | None,
) -> Axes:
    """Draw the differences; see `credex.plots.Plots.compare`."""
    c = compare(a, b, output, level)
    half = compare(a, b, output, 0.5)
    order = np.argsort(-np.abs(np.nan_to_num(c.difference)), kind="stable")
    shown = order[: check_count("most", most)].tolist()
    left_out = len(c.names) - len(shown)
    n_lines = len(shown) + bool(left_out)
    own_figure = ax is None
    ax, room, longest = axes(ax, 7.0, 1.9 + 0.3 * n_lines)
    for y, i in enumerate(shown):
        ends, inner = (c.lower[i], c.upper[i]), (half.lower[i], half.upper[i])
        if not np.isfinite([c.difference[i], *ends]).all():
            ax.axhline(y, color=formatting.NEUTRAL, lw=1.4, ls=(0, (4, 3)))
            continue
        colour = sign_colour(c.difference[i]) if c.difference[i] else formatting.NEUTRAL
        unclear = not c.real[i] and ends[0] < ends[1]
        mark(ax, y, c.difference[i], ends, inner, colour=colour, unclear=unclear)
    words = [drawable(formatting.shorten(c.names[i], longest)) for i in shown]
    more = [f"… and {left_out} more"] if left_out else []
    row_labels(ax, words + more)
    ax.set_ylim(n_lines - 0.4, -1.2 if own_figure else -0.6)
    ends_ = np.stack([c.difference, c.lower, c.upper])[:, shown]
    power = value_axis(ax, ends_)
    if own_figure:
        ends_ = ends_ / 10.0**power
        halves = (ends_[2] - ends_[1]) / 2
        finite = halves[np.isfinite(halves) & (halves > 0)]
        peak = float(np.abs(ends_[np.isfinite(ends_)]).max(initial=0.0))
        places = formatting.decimals(float(np.median(finite)) if finite.size else 0.0, peak)
        values = [f"difference{formatting.times(power)}"]
        values += [
            formatting.number(x if np.isfinite(end) else np.nan, places)
            for x, end in zip(ends_[0], ends_[1], strict=True)
        ]
        between = [f"{formatting.percent(c.level)} interval"]
        between += [
            f"{formatting.number(lo, places)} … {formatting.number(hi, places)}"
            if lo < hi
            else "exact"
            for lo, hi in ends_[1:].T
        ]
        exact = ends_[1] == ends_[2]
        chance = ["P(sign)"]
        chance += [
            formatting.chance(c.probability[i]) if not known else "1" if c.difference[i] else "–"
            for i, known in zip(shown, exact, strict=True)
        ]
        beside(ax, [values, between, chance])
    first, second = (formatting.shorten(n, 30) for n in names)
    n_real = int(c.real.sum())
    said = f"{n_real} of {len(c.names)} differences are real at {formatting.percent(c.level)}"
    heading(ax, room, f"{a.method}: {first} − {second}", said)
    ranges = c.lower[shown] < c.upper[shown]
    words = []
    if np.any(ranges & ~c.real[shown]):
        words.append(f"hollow: the {formatting.percent(c.level)} interval includes 0")
    words += ["thick: 50 %"] * bool(ranges.any()) + ["the runs are taken to be independent"]
    label = f"difference of importances{formatting.times(power)} ({unit(a)})"
    caption(ax, room, label, " · ".join(words))
    return ax
