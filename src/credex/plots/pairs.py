"""The joint posterior of two features: which combinations of importances are credible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.cells import clean
from credex.errors import InputError, check_level
from credex.explanation_base import ExplanationBase
from credex.plots.canvas import (
    PLAIN,
    axes,
    caption,
    columns,
    drawable,
    ink,
    number_axis,
    shades,
    title,
)
from credex.posteriors.student import root
from credex.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_DOTS = 400
"""Draws from the posterior that are shown as dots."""


def draw(
    e: ExplanationBase,
    first: str | int | None,
    second: str | int | None,
    output: Any,
    *,
    level: float | None,
    ax: Axes | None,
) -> Axes:
    """Draw the joint posterior; see `credex.plots.Plots.pairs`."""
    from scipy.special import fdtri

    j = e._output(output)  # noqa: SLF001 - outputs are named as in the explanation's methods
    level = check_level(e.level if level is None else level)
    a, b = _two(e, first, second, j)
    mean, scale = e.belief.mean[[a, b], j], e.belief.scale[np.ix_([a, b], [a, b])][:, :, j]
    if not (np.isfinite(mean).all() and np.isfinite(scale).all()):
        raise InputError("too little was asked to draw this posterior; go on with refine()")
    own_figure = ax is None
    ax, room, _ = axes(ax, 4.8, 4.9)
    colour = shades(ax)[1]
    exact = not scale.any()
    shape = root(scale)
    turn = np.linspace(0, 2 * np.pi, 181)
    circle = np.stack([np.cos(turn), np.sin(turn)])
    # (φ − mean)ᵀ scale⁻¹ (φ − mean) / 2 is F-distributed with 2 and dof degrees of freedom
    rings = {
        p: mean[:, None] + np.sqrt(2 * fdtri(2, e.dof, p)) * shape @ circle for p in (level, 0.5)
    }
    rng = np.random.default_rng(0)
    dots = (
        rng.standard_normal((N_DOTS, 2))
        @ shape
        / np.sqrt(rng.chisquare(e.dof, (N_DOTS, 1)) / e.dof)
    )
    for (p, ring), alpha in zip(rings.items(), (0.16, 0.32), strict=True):
        ax.fill(
            *ring,
            facecolor=(colour, alpha),
            edgecolor=colour,
            lw=1.2,
            zorder=2,
            label=formatting.percent(p),
        )
    diagonal = _frame(ax, rings[level])
    ax.plot(*(mean[:, None] + dots.T), ls="", marker=".", ms=2.5, color=ink(), alpha=0.35, zorder=3)
    ax.plot(*mean[:, None], marker="+", ms=12, mew=2, color=ink(), ls="", zorder=4)
    longest = 30 if own_figure else columns(0.7 * room, "medium")
    names = [drawable(formatting.shorten(clean(e.names[i]), longest)) for i in (a, b)]
    power = number_axis(ax.xaxis, float(np.abs(ax.get_xlim()).max()))
    high = number_axis(ax.yaxis, float(np.abs(ax.get_ylim()).max()))
    ax.set_ylabel(f"{names[1]}: importance{formatting.times(high)}", **PLAIN)
    greater = formatting.chance(e.prob_greater(a, b, output=j))
    more = "both are known exactly" if exact else f"P(|{names[0]}| > |{names[1]}|): {greater}"
    title(ax, 3.6 if own_figure else 1.5 * room, e, j, more)
    marks = f"shaded: 50 % and {formatting.percent(level)} of the posterior, dots: draws from it"
    caption(
        ax,
        room,
        f"{names[0]}: importance{formatting.times(power)}",
        "" if exact else marks,
        "dashed: both equally large" if diagonal else "",
    )
    return ax


def _two(e: ExplanationBase, first: Any, second: Any, j: int) -> tuple[int, int]:
    """Return the features asked for; by default the two largest."""
    if len(e.names) < 2:
        raise InputError("plot.pairs() needs two features; this explanation has one")
    largest = formatting.largest(e, j, 2)[0]
    if first is None and second is None and len(largest) == 2:
        return largest[0], largest[1]
    if first is None or second is None:
        raise InputError("name two features: plot.pairs('age', 'income')")
    a, b = e._feature(first), e._feature(second)  # noqa: SLF001 - as in the explanation's methods
    if a == b:
        raise InputError(f"plot.pairs() needs two different features; got {first!r} twice")
    return a, b


def _frame(ax: Axes, ring: Floats) -> bool:
    """Set limits around the wider ring, and draw the lines through zero and of equal size.

    Say whether the latter are inside.
    """
    from matplotlib.ticker import MaxNLocator

    # Two exact values have no extent: a tenth of their size is shown around them.
    extent, size = float(np.ptp(ring, axis=1).max()), float(np.abs(ring).max())
    span = extent if extent > 1e-9 * size else 0.1 * size or 1.0
    setters: tuple[Any, Any] = (ax.set_xlim, ax.set_ylim)
    for set_limits, values in zip(setters, ring, strict=True):
        middle = (values.min() + values.max()) / 2
        set_limits(middle - 0.6 * span, middle + 0.6 * span)
    line: dict[str, Any] = {"color": ink(), "lw": 0.9, "alpha": 0.6, "zorder": 1}
    limits = ax.get_xlim(), ax.get_ylim()
    ax.axhline(0.0, **line)
    ax.axvline(0.0, **line)
    for slope in (1, -1):
        ax.axline((0.0, 0.0), slope=slope, ls=(0, (4, 4)), **line)
    ax.set_xlim(limits[0])
    ax.set_ylim(limits[1])
    ax.grid(visible=False)
    ax.spines[["right", "top"]].set_visible(False)
    ax.set_box_aspect(1)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    (left, right), (low, high) = limits
    corners = [(x, y) for x in (left, right) for y in (low, high)]
    return any(len({np.sign(y - s * x) for x, y in corners}) > 1 for s in (1, -1))
