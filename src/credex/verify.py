"""Measured coverage on the user's own model."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from credex import markup
from credex.explanation import Explanation
from credex.explanations import Explanations
from credex.plots import reliability
from credex.posteriors.student import quantile
from credex.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Verification", "compare"]

MAX_EXACT_ROWS = 300_000
"""Model rows up to which the reference of a row of a table is exact."""

MAX_EXACT = 4_096
"""Coalitions up to which the reference is exact."""

REFERENCE_FACTOR, REFERENCE_QUERIES = 20, 10_000
"""A sampled reference spends this many times the queries of what it checks, and at least these."""

ROUNDING = 1e-12
"""Values this close, relative to f(x), are equal: a linear model's intervals have no width left."""

MIN_ROWS = 2
"""Rows from which a spread between rows can be seen."""

WITHIN_ROW = 0.1
"""Correlation of the hits of one row, at least; where all intervals hold, none can be measured.

On 22 tables and four budgets its mean was 0.02, and below 0.1 on nine of ten.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Verification:
    """Measured coverage: how often the intervals contain the reference value.

    Attributes
    ----------
    coverage, low, high
        Share of features inside, and its own 95 % interval: exact binomial with the effective
        number of features, as those of one row hold or miss together (Korn and Graubard).
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
    curve
        ``(m, 4)`` for other levels: level, coverage, and the ends of its interval.
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
    curve: Floats = field(default_factory=lambda: np.empty((0, 4)))

    @property
    def too_few(self) -> bool:
        """Whether misses may be twice as frequent as promised, or as promised."""
        return self.low < 1 - 2 * (1 - self.level) and self.high >= self.level

    @property
    def _enough(self) -> int:
        """Rows from which that could be told, at this coverage or the promised one."""
        counted = max(int(np.isfinite(self.by_row).sum()), 1)
        hold, each = max(self.coverage, self.level), self.features / counted
        n = 2 * counted
        while _interval(hold, each, n, 1.0)[0] < 1 - 2 * (1 - self.level) and n < 10_000:
            n = int(1.1 * n) + 1
        return -(-n // 10) * 10

    @property
    def verdict(self) -> str:
        """The result in words."""
        if self.features == 0:
            return "nothing to check: every importance is known exactly"
        if self.too_few:
            return f"too few rows to tell: give about n={self._enough}"
        if self.high < self.level:
            return "too narrow: they hold less often than promised on this model"
        if self.low > self.level:
            return "on the safe side: they hold more often than promised"
        return "they hold their level, as far as this many rows can tell"

    def __str__(self) -> str:
        if self.features == 0:
            return self.verdict
        against = "exact value" if self.exact else "value of a much larger run"
        rows = f"{self.rows} row{'s' if self.rows > 1 else ''}"
        between = f"{self.low:.1%} to {self.high:.1%}, "
        return (
            f"{self.coverage:.1%} of {self.features} intervals at level {self.level:g} hold the "
            f"{against} ({between}{rows}): {self.verdict}"
        )

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the reliability diagram: how often intervals hold, at every level."""
        against = "exact values" if self.exact else "a much larger run"
        size = f"{self.features:,} intervals of {self.rows:,} rows, against {against}"
        return reliability.draw(self.curve, self.verdict, size, self.level, ax)

    def to_html(self, path: str | Path | None = None) -> str:
        """Write (and return) a page that needs no other file, in light and dark."""
        return markup.page("Measured coverage", self._repr_html_(), path)

    def _repr_html_(self) -> str:
        said = f'<div class="title"><b>Verification</b>: {escape(str(self))}</div>'
        if self.features == 0:
            return markup.fragment(said)
        some = self.by_row[np.isfinite(self.by_row)].tolist()
        scale = markup.Scale.over([self.low, self.level, 1.0, *some])
        ends = f"{self.low:.1%} … {self.high:.1%}"
        colour = "up" if self.high < self.level else "down"
        measured = scale.mark(self.coverage, (self.low, self.high), zero=self.level, colour=colour)
        rows = [
            ["all rows", f"{self.coverage:.1%}", ends, measured],
            [
                "worst row",
                f"{min(some):.1%}",
                "",
                scale.mark(min(some), (min(some),) * 2, zero=self.level, colour="grey"),
            ],
            ["", "", "", scale.axis()],
        ]
        head = ["", "inside", "95 % interval", f"promised: {self.level:g}"]
        foot = f"mean width of the intervals {self.width:.3g}; {self.n_model_rows:,} model rows"
        return markup.fragment(
            said, markup.table(head, rows, 1), markup.paragraphs([foot], "small")
        )


LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Levels of the reliability diagram, beside the one that is verified."""


def compare(found: Explanations, reference: list[Explanation], level: float) -> Verification:
    """Count how often the intervals of ``found`` hold the means of ``reference``."""
    shares, counted, width = _held(found, reference, level)
    some = shares[np.isfinite(shares)]
    low, high = _ends(some, counted)
    curve = []
    for other in sorted({*LEVELS, level}) if len(some) else ():
        held = _held(found, reference, other)[0]
        held = held[np.isfinite(held)]
        curve.append((other, held.mean(), *_ends(held, counted)))
    return Verification(
        coverage=float(some.mean()) if len(some) else np.nan,
        low=low,
        high=high,
        level=level,
        rows=len(found),
        features=counted,
        width=width,
        by_row=shares,
        exact=all(r.exact for r in reference),
        n_model_rows=found.n_model_rows + sum(r.n_model_rows for r in reference),
        curve=np.array(curve, dtype=np.float64).reshape(-1, 4),
    )


def _held(
    found: Explanations, reference: list[Explanation], level: float
) -> tuple[Floats, int, float]:
    """Return the share of each row's intervals that hold, how many there are, and their width."""
    by_row, counted, widths = [], 0, []
    for e, r in zip(found, reference, strict=True):
        i = e.belief.interval(level)
        free = i.width > 0
        size = np.maximum(np.abs(e.prediction), np.abs(e.base_value))
        slack = ROUNDING * np.atleast_1d(size)  # where nothing is left over
        near = np.abs(e.belief.mean - r.belief.mean) <= slack
        inside = (i.covers(r.belief.mean) | near)[free]
        by_row.append(float(inside.mean()) if free.any() else np.nan)
        counted += int(free.sum())
        widths.append(float(i.width[free].mean()) if free.any() else np.nan)
    return np.array(by_row), counted, float(np.nanmean(widths)) if counted else 0.0


def _ends(some: Floats, counted: int) -> tuple[float, float]:
    """Return the 95 % interval of the mean of the rows' shares."""
    if not len(some):
        return np.nan, np.nan
    mean, each = float(some.mean()), counted / len(some)
    binomial = mean * (1 - mean) / max(each, 1)
    effect = some.var(ddof=1) / binomial if len(some) >= MIN_ROWS and binomial > 0 else 1.0
    return _interval(mean, each, len(some), effect)


def _interval(share: float, each: float, rows: int, effect: float) -> tuple[float, float]:
    """Return the 95 % interval of a share of ``rows`` clusters of ``each`` features.

    ``effect`` is the measured design effect: the variance between rows, relative to that of
    independent features.
    """
    from scipy.special import betaincinv

    n = rows * each / max(effect, 1 + (each - 1) * WITHIN_ROW)
    n *= (quantile(0.95, max(rows * each - 1, 1.0)) / quantile(0.95, max(rows - 1, 1))) ** 2
    hits = share * n
    low = betaincinv(hits, n - hits + 1, 0.025) if hits > 0 else 0.0
    high = betaincinv(hits + 1, n - hits, 0.975) if hits < n else 1.0
    return float(low), float(high)
