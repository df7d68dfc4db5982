"""Measured coverage on the user's own model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.checks import check_count
from credex.errors import InputError
from credex.explanation import Explanation
from credex.explanations import Explanations
from credex.goals import Goals
from credex.options import Options
from credex.typing import Floats

if TYPE_CHECKING:
    from credex.explainer import Explainer

MOST_EXACT = 4_096
"""Coalitions up to which the reference is exact."""

ROUNDING = 1e-12
"""Values this close, relative to f(x), are equal: a linear model's intervals have no width left."""

TIMES = 20
"""A sampled reference spends this many times the queries of what it checks, 10,000 at least."""


@dataclass(frozen=True, slots=True, eq=False)
class Verification:
    """How often the intervals held the reference value.

    Attributes
    ----------
    coverage, low, high
        Share of features inside, and its own 95 % interval, clustered by row.
    level
        What was promised.
    rows, features
        Rows explained; features counted (those known exactly are not).
    width
        Mean width of the intervals.
    by_row
        ``(rows,)`` share inside for each row; NaN where nothing was uncertain.
    exact
        Whether the reference is exact for every row.
    n_model_rows
        What the check cost.
    """

    coverage: float
    low: float
    high: float
    level: float
    rows: int
    features: int
    width: float
    by_row: Floats
    exact: bool
    n_model_rows: int

    @property
    def verdict(self) -> str:
        """In words."""
        if self.features == 0:
            return "nothing to check: every importance is known exactly"
        if self.high < self.level:
            return "too narrow: they hold less often than promised on this model"
        if self.low > self.level:
            return "on the safe side: they hold more often than promised"
        return "they hold their level, as far as this many rows can tell"

    def __str__(self) -> str:
        if self.features == 0:
            return self.verdict
        against = "exact values" if self.exact else "a much larger run"
        return (
            f"{self.coverage:.1%} of {self.features} intervals at level {self.level:g} hold the "
            f"value of {against} ({self.low:.1%} to {self.high:.1%}, {self.rows} rows): "
            f"{self.verdict}"
        )


def verify(
    explainer: Explainer,
    X: Any,
    n: int,
    *,
    goals: Goals,
    options: Options,
    progress: bool | None,
) -> Verification:
    """Explain ``n`` rows as asked, and again with far more queries, and compare."""
    check_count("n", n)
    rows = explainer.domain.split(X)
    if not rows:
        msg = "X has no rows to verify on"
        raise InputError(msg)
    rng = np.random.default_rng([int(options.seed), 23])
    at = np.sort(rng.choice(len(rows), min(n, len(rows)), replace=False))
    chosen = [rows[i] for i in at]
    kept: dict[str, Any] = {"progress": progress}
    found = explainer.explain_many(
        chosen,
        width=goals.width,
        queries=goals.queries,
        max_queries=goals.max_queries,
        stop=goals.stop,
        **kept,
        **options.as_keywords(),
    )
    reference = [_reference(explainer, x, e, options) for x, e in zip(chosen, found, strict=True)]
    return compared(found, reference, options.level)


def _reference(explainer: Explainer, x: Any, e: Explanation, options: Options) -> Explanation:
    if e.exact:
        return e
    keywords = options.as_keywords()
    keywords["seed"] = int(options.seed) + 1_000_003
    keywords["sampler"] = "auto"
    changing = int(np.sum(e.belief.deviation.max(axis=1) > 0))
    small = 2**changing <= MOST_EXACT if changing < 62 else False
    if small and not options.noisy and e.method == "BayesSHAP" and options.recipe != "paper":
        keywords["posterior"] = "exact"
        return explainer.explain(x, **keywords)
    keywords["posterior"] = "linear"
    return explainer.explain(x, queries=max(TIMES * e.n_queries, 10_000), **keywords)


def compared(found: Explanations, reference: list[Explanation], level: float) -> Verification:
    """Count how often the intervals of ``found`` hold the means of ``reference``."""
    by_row, counted, widths = [], 0, []
    for e, r in zip(found, reference, strict=True):
        i = e.belief.interval(level)
        free = i.width > 0
        slack = ROUNDING * np.maximum(np.abs(e.prediction), np.abs(e.base_value))  # perfect fits
        near = np.abs(e.belief.mean - r.belief.mean) <= slack
        inside = (i.covers(r.belief.mean) | near)[free]
        by_row.append(float(inside.mean()) if free.any() else np.nan)
        counted += int(free.sum())
        widths.append(float(i.width[free].mean()) if free.any() else np.nan)
    shares = np.array(by_row)
    some = shares[np.isfinite(shares)]
    mean = float(some.mean()) if len(some) else np.nan
    se = float(some.std(ddof=1) / np.sqrt(len(some))) if len(some) > 1 else np.nan
    return Verification(
        coverage=mean,
        low=max(mean - 1.96 * se, 0.0),
        high=min(mean + 1.96 * se, 1.0),
        level=level,
        rows=len(found),
        features=counted,
        width=float(np.nanmean(widths)) if len(some) else 0.0,
        by_row=shares,
        exact=all(r.exact for r in reference),
        n_model_rows=found.n_model_rows + sum(r.n_model_rows for r in reference),
    )
