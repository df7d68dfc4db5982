"""A forecast: how the widest interval shrinks with queries until it meets the width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.errors import InputError
from credex.estimators.forecast import Forecast
from credex.explanation_base import ExplanationBase
from credex.plots.canvas import PLAIN, axes, caption, heading, ink
from credex.verdict import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(e: ExplanationBase, f: Forecast, ax: Axes | None) -> Axes:
    """Draw the forecast; see `credex.plots.Plots.forecast`."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    if not isinstance(f, Forecast):
        msg = f"plot.forecast() takes what explainer.forecast() returns; got {type(f).__name__}"
        raise InputError(msg)
    limits = np.broadcast_to(np.asarray(f.width, dtype=float), e.belief.mean.shape[1:])
    width = e.belief.interval(f.level).width
    ratio = np.where(limits > 0, width / limits, np.inf)
    if not np.isfinite(ratio).all():
        raise InputError("too little was asked to draw a forecast; give more seed_queries")
    worst = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    now, target = float(width[worst]), float(limits[worst[1]])
    if not now > 0:
        raise InputError("there is nothing to forecast: every importance is known exactly")
    ax, room, _ = axes(ax, 5.8, 3.8)
    n = float(e.n_queries)
    colour = formatting.NEGATIVE
    reached = np.isfinite(f.queries) and f.queries > 0 and now > target
    if reached:
        ends = [n + q if np.isfinite(q) else (n + f.queries) * 10 for q in (f.low, f.high)]
        ax.fill([n, ends[0], ends[1]], [now, target, target], color=colour, alpha=0.18, lw=0)
        ax.plot([n, n + f.queries], [now, target], color=colour, lw=2)
        ax.plot(ends, [target] * 2, color=colour, lw=1.5, marker="|", ms=9, mew=1.5)
        ax.plot([n + f.queries], [target], marker="D", ms=6, color=colour, ls="")
        words = f"{n + f.queries:,.0f} queries in all\n({ends[0]:,.0f} to {ends[1]:,.0f})"
        ax.annotate(
            words,
            (n + f.queries, target),
            xytext=(0, -19),
            textcoords="offset points",
            fontsize="small",
            ha="center",
            va="top",
        )
    ax.plot([n], [now], marker="o", ms=7, color=ink(), ls="")
    ax.annotate(
        f"now: {now:.3g} after {n:,.0f}",
        (n, now),
        xytext=(9, 4),
        textcoords="offset points",
        fontsize="small",
        va="bottom",
    )
    right = 1.6 * max(n + (f.high if reached and np.isfinite(f.high) else 0.0), 2 * n)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(0.8 * n, right)
    ax.set_ylim(0.4 * min(now, target), 1.7 * max(now, target))
    ax.axhline(target, color=ink(), lw=1, ls=(0, (4, 3)), alpha=0.7)
    ax.annotate(
        f"width asked for: {target:.3g}",
        (0.01, target),
        xytext=(0, -4),
        xycoords=ax.get_yaxis_transform(),
        textcoords="offset points",
        ha="left",
        va="top",
        fontsize="small",
    )
    for axis, form in ((ax.xaxis, "{x:,.0f}"), (ax.yaxis, "{x:g}")):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 40 * low else (1.0,)))
        axis.set_major_formatter(StrMethodFormatter(form))
        axis.set_minor_formatter(NullFormatter())
    ax.grid(visible=False)
    ax.spines[["right", "top"]].set_visible(False)
    ax.set_ylabel(f"widest {formatting.percent(f.level)} interval", **PLAIN)
    heading(ax, room, _headline(f, met=now <= target))
    caption(ax, room, "queries", "shaded: the forecast's own range; both axes are logarithmic")
    return ax


def _headline(f: Any, *, met: bool) -> str:
    if met or f.queries == 0:
        return f"Forecast: width {f.width} is met"
    if not np.isfinite(f.queries):
        return f"Forecast: width {f.width} cannot be reached"
    price = "" if f.cost is None else f", at a price of {f.cost:,.4g}"
    rows = f"{f.model_rows:,.0f} more model rows, {duration(f.seconds)}{price}"
    return f"Forecast: {rows}"
