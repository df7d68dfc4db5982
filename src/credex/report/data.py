"""An explanation as plain values for the page: its posterior in numbers, the verdict in words.

The page draws intervals at every level of a grid by itself: mean ± quantile · scale. What follows
from the posterior by a longer rule, sentences and ranks, is worked out here for each level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from credex import formatting
from credex.cells import clean, display
from credex.explanation_base import ExplanationBase
from credex.formatting import View
from credex.posteriors.student import quantile
from credex.verdict import Verdict, judge

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
"""Levels that a reader can choose, beside the explanation's own."""

MAX_FEATURES = 1_000
"""Most features of one output; those with the largest importances are kept."""

MAX_NAME, MAX_VALUE, MAX_LINE = 120, 80, 400
"""Longest name, value and remark, in columns of text."""


def levels_of(own: float, levels: Sequence[float] = LEVELS) -> list[float]:
    """Return the grid of levels with the explanation's own."""
    return sorted({*levels, own})


def explanation_data(
    e: ExplanationBase,
    *,
    levels: Sequence[float] = LEVELS,
    said: Sequence[float] | None = None,
    outputs: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Return what ``credex.explanation(element).show(data)`` draws; JSON without NaN.

    Parameters
    ----------
    e
        The explanation.
    levels
        Levels to choose from; the explanation's own is added.
    said
        Levels with a verdict and ranks, by default all: each takes about 30 ms for each output.
    outputs
        Which outputs; by default up to 10 whose prediction differs most from the base value.
    """
    grid = levels_of(e.level, levels)
    spoken = {*grid} if said is None else {*said}
    chosen = formatting.shown_outputs(e) if outputs is None else list(outputs)
    words = [formatting.feature(e, i) for i in range(len(e.names))]
    return {
        "method": e.method,
        "label": None if e.label is None else row_name(e.label),
        "level": grid.index(e.level),
        "levels": [formatting.percent(level) for level in grid],
        "quantiles": [number(quantile(level, e.dof)) for level in grid],
        "half": number(quantile(0.5, e.dof)),
        "names": [formatting.shorten(name or "(no name)", MAX_NAME) for name, _ in words],
        "values": [formatting.shorten(value, MAX_VALUE) for _, value in words],
        "outputs": [_output(e, j, grid, spoken) for j in chosen],
        "more_outputs": len(e.outputs) - len(chosen),
        "footer": [formatting.shorten(line, MAX_LINE) for line in formatting.footer(e)],
    }


def row_name(label: Any) -> str:
    """Return a row's label for a title: ``Row 12`` if it is a number."""
    shown = display(label) or "(no label)"
    return formatting.shorten(f"Row {shown}" if shown.isdigit() else shown, MAX_NAME)


def _output(e: ExplanationBase, j: int, grid: list[float], spoken: set[float]) -> dict[str, Any]:
    """Return the numbers and sentences of one output."""
    view = View.of(e, j)
    features, left_out = formatting.largest(e, j, MAX_FEATURES)
    shown = np.stack([view.mean, view.lower, view.upper])[:, features]
    peak = float(np.abs(shown[np.isfinite(shown)]).max(initial=0.0))
    power = formatting.power_of(peak)
    unit = 10.0**power
    halves = (shown[2] - shown[1]) / 2 / unit
    halves = halves[np.isfinite(halves) & (halves > 0)]
    middle = float(np.median(halves)) if len(halves) else 0.0
    scale = np.where(shown[1] == shown[2], 0.0, e.belief.deviation[features, j] / unit)
    exact = not e.exact and not scale.any()
    full = float(np.atleast_1d(e.prediction)[j])
    return {
        "name": formatting.shorten(clean(e.outputs[j]), MAX_NAME),
        "headline": formatting.headline(e, j),
        "prediction": formatting.amount(full, abs(full)),
        "features": features,
        "mean": list(map(number, shown[0] / unit)),
        "scale": list(map(number, scale)),
        "p": [number(p, 4) for p in e.belief.prob_positive()[features, j]],
        "unit": formatting.times(power),
        "places": max(formatting.decimals(middle, peak / unit), 0),
        "exact": formatting.ALIKE if exact else "exact",
        "left_out": left_out,
        "verdicts": [sentences(judge(e, j, lv)) if lv in spoken else None for lv in grid],
        "ranks": [_ranks(e, j, features, lv) if lv in spoken else None for lv in grid],
    }


def _ranks(e: ExplanationBase, j: int, features: list[int], level: float) -> list[str] | None:
    """Return the range of each feature's rank: ``1-3``."""
    if e.selected[:, j].all() and len(e.names) <= MAX_FEATURES:
        low, high = e.rank_range(output=j, level=level)
        return [f"{low[i]}-{high[i]}" if low[i] < high[i] else str(low[i]) for i in features]
    return None


def sentences(v: Verdict) -> list[list[str]]:
    """Return pairs of a kind (caution, certain, open, fit) and a sentence."""
    kinds = [
        kind for kind in ("caution", "certain", "open", "fit") for _ in range(len(getattr(v, kind)))
    ]
    return [[kind, line] for kind, line in zip(kinds, v.lines, strict=True)]


def number(x: float, digits: int = 6) -> float | None:
    """Round to some digits; ``None`` for NaN and infinity, which JSON does not have."""
    return float(f"{x:.{digits}g}") if math.isfinite(x) else None
