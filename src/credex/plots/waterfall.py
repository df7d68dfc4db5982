"""The waterfall: from the base value to the prediction, one step for each feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.errors import InputError, check_count
from credex.explanation_base import ExplanationBase
from credex.formatting import View
from credex.options import LINKS
from credex.plots.canvas import (
    axes,
    beside,
    caption,
    ink,
    label,
    row_labels,
    sign_colour,
    title,
    value_axis,
)
from credex.posteriors.student import quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(e: ExplanationBase, output: Any, most: int, level: float | None, ax: Axes | None) -> Axes:
    """Draw the waterfall; see `credex.plots.Plots.waterfall`."""
    view = View.of(e, output, level)
    view.check_known("add the importances up")
    j = view.output
    start = float(np.atleast_1d(e.base_value)[j])
    end = (
        float(e.estimate.local_prediction[j])
        if e.method == "BayesLIME"
        else start + float(view.mean.sum())
    )
    if abs(start + view.mean.sum() - end) > 1e-6 * max(abs(start), abs(end), view.peak):
        msg = "the importances of this explanation are slopes, which do not add up to a prediction;"
        raise InputError(f"{msg} plot.intervals() is for all")
    order = np.argsort(-np.abs(view.mean), kind="stable").tolist()
    shown, rest = order[: check_count("most", most)], order[most:]
    steps = [(view.mean[i], (view.upper[i] - view.lower[i]) / 2) for i in shown]
    own_figure = ax is None
    ax, room, longest = axes(ax, 6.8, 1.75 + 0.34 * (len(steps) + bool(rest)))
    names = [label(e, i, longest) for i in shown]
    if rest:
        inner = e.belief.scale[np.ix_(rest, rest)][:, :, j]
        half = quantile(view.level, e.dof) * float(np.sqrt(max(inner.sum(), 0.0)))
        steps.append((view.mean[rest].sum(), half))
        names.append(f"{len(rest)} other features")

    ends = [start, end]
    at = end
    for y, (step, half) in enumerate(steps):  # from the prediction down to the base value
        before = at - step
        unclear = half > abs(step)
        _step(ax, y, (before, at), half, unclear=unclear)
        if y < len(steps) - 1:
            ax.plot([before, before], [y + 0.32, y + 0.68], color=ink(), lw=0.8, alpha=0.4)
        ends += [before, at - half, at + half] if np.isfinite(half) else [before]
        at = before
    row_labels(ax, names)
    ax.set_ylim(len(steps) - 0.4, -1.2 if own_figure else -0.6)
    power = value_axis(ax, np.array(ends), zero=False)
    for x in (start, end):
        ax.axvline(x, color=ink(), lw=0.9, alpha=0.5, ls=(0, (3, 3)), zorder=0)
    if own_figure:
        _numbers(ax, steps, view.level)
    title(ax, room, e, j, f"from {formatting.prediction(e, j)[1]}")
    whiskers = "" if e.exact else f"whiskers: {formatting.percent(view.level)} intervals"
    pale = any(half > abs(step) for step, half in steps)
    whiskers += f"{', pale: the interval includes 0' * pale} · " if whiskers else ""
    caption(
        ax,
        room,
        f"prediction{LINKS[e.settings.get('link', 'identity')]}{formatting.times(power)}",
        f"{e.n_queries:,} queries · {whiskers}{formatting.ending(e)}",
    )
    return ax


def _step(ax: Axes, y: int, ends: tuple[float, float], half: float, *, unclear: bool) -> None:
    """Draw a bar from the value before a feature to that after it, with a whisker at its end."""
    before, after = ends
    colour = sign_colour(after - before) if after != before else formatting.NEUTRAL
    face = (colour, 0.3 if unclear else 0.85)
    ax.barh(y, after - before, left=before, height=0.6, color=[face], edgecolor=colour, lw=1)
    if np.isfinite(half) and half > 0:
        span = [after - half, after + half]
        ax.plot(span, [y, y], color=ink(), lw=1.3, marker="|", ms=6, mew=1.3, zorder=3)


def _numbers(ax: Axes, steps: list[tuple[float, float]], level: float) -> None:
    """Print steps and half-widths beside the rows."""
    peak = float(np.abs([s for s, _ in steps]).max())
    power = formatting.power_of(peak)
    size = 10.0**power
    halves = [h / size for _, h in steps if np.isfinite(h) and h > 0]
    places = formatting.decimals(float(np.median(halves)) if halves else 0.0, peak / size)
    means, errors = [f"importance{formatting.times(power)}"], [f"± {formatting.percent(level)}"]
    for step, half in steps:
        said = formatting.number(step / size, places)
        means.append(said if said.startswith("−") else f"+{said}")
        errors.append("exact" if half == 0 else formatting.number(half / size, places))
    beside(ax, [means, errors])
