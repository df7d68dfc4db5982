"""Dependence: a feature's importance against its value, with error bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.cells import as_float, display
from credex.errors import InputError
from credex.explanation_base import ExplanationBase
from credex.plots.canvas import (
    PALE,
    PLAIN,
    axes,
    caption,
    drawable,
    heading,
    ink,
    number_axis,
    unit,
)
from credex.row_estimates import stacked
from credex.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_KINDS = 12
"""Most values of a feature without numbers that get a place of their own."""


def draw(
    batch: Sequence[ExplanationBase],
    feature: str | int | None,
    output: Any,
    level: float | None,
    ax: Axes | None,
) -> Axes:
    """Draw the points; see `credex.plots.BatchPlots.scatter`."""
    from matplotlib.ticker import MaxNLocator

    names, mean, _, j = stacked(batch, output)
    level = batch[0].level if level is None else level
    i = int(np.argmax(np.nanmean(np.abs(mean), axis=0)))
    if feature is not None:
        i = batch[0]._feature(feature)  # noqa: SLF001 - as in the explanation's methods
    found = [e.belief.interval(level) for e in batch]
    lower, upper = (np.array([getattr(f, end)[i, j] for f in found]) for end in ("lower", "upper"))
    x, kinds = _places([e.feature_values[i] for e in batch])
    known = np.isfinite(x) & np.isfinite(mean[:, i]) & np.isfinite(lower) & np.isfinite(upper)
    if not known.any():
        raise InputError(f"nothing to draw: no row has a known importance of {names[i]!r}")
    x, y, lower, upper = x[known], mean[known, i], lower[known], upper[known]
    ax, room, _ = axes(ax, 5.8, 4.0)
    ax.axhline(0.0, color=ink(), lw=0.9, alpha=0.6, zorder=1)
    unclear = (lower <= 0) & (upper >= 0) & (lower < upper)
    for doubtful in (True, False):
        for sign, colour in ((1, formatting.POSITIVE), (-1, formatting.NEGATIVE)):
            here = (unclear == doubtful) & (np.where(y > 0, 1, -1) == sign)
            style: dict[str, Any] = {"color": colour, "alpha": PALE if doubtful else 1.0}
            ax.vlines(x[here], lower[here], upper[here], lw=1.1, zorder=2, **style)
            face = "none" if doubtful else colour
            ax.scatter(x[here], y[here], s=18, edgecolors=colour, facecolors=face, zorder=3)
    shown = drawable(formatting.shorten(names[i], 36))
    power = number_axis(ax.yaxis, float(np.abs([lower, upper]).max()))
    ax.set_ylabel(f"importance{formatting.times(power)}", **PLAIN)
    across = ""
    if kinds:
        longest = max(60 // len(kinds), 6)
        words = [drawable(formatting.shorten(k, longest)) for k in kinds]
        ax.set_xticks(range(len(kinds)), words, **PLAIN)
        ax.set_xlim(-0.6, len(kinds) - 0.4)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10]))
        across = formatting.times(number_axis(ax.xaxis, float(np.abs(x).max())))
    ax.grid(visible=False)
    ax.spines[["right", "top"]].set_visible(False)
    of = formatting.output_name(batch[0], output)
    heading(ax, room, f"{batch[0].method}: importance of {shown} in {len(x)} rows{of}")
    lost = (
        f" · {len(batch) - len(x)} rows without a number are left out"
        if len(x) < len(batch)
        else ""
    )
    bars = f"bars: {formatting.percent(level)} intervals"
    bars += ", hollow: 0 is inside" if unclear.any() else ""
    caption(ax, room, f"{shown}{across}", f"{bars} · {unit(batch[0])}{lost}")
    return ax


def _places(values: list[Any]) -> tuple[Floats, list[str]]:
    """Positions of the values: numbers themselves, or one place for each kind in order of size.

    Dots of one kind are put a little apart.
    """
    numbers = np.array([as_float(v) for v in values])
    if np.isfinite(numbers).mean() >= 0.5:
        return numbers, []
    words = [display(v) for v in values]
    kinds, counts = np.unique(words, return_counts=True)
    kept = [str(k) for k in kinds[np.argsort(-counts, kind="stable")]]
    if len(kept) > MAX_KINDS:
        kept = [*kept[: MAX_KINDS - 1], "others"]
    place = {k: float(n) for n, k in enumerate(kept)}
    x = np.array([place.get(w, float(len(kept) - 1)) for w in words])
    for n in range(len(kept)):
        here = x == n
        x[here] += np.linspace(-0.25, 0.25, int(here.sum())) if here.sum() > 1 else 0.0
    return x, kept
