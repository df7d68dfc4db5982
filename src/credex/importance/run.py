"""Importances over a portfolio: ask, fit, look, and divide what is asked next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credex.aggregate import first_of, share_of
from credex.averages import Aggregate, Average, Estimates
from credex.cells import clean, display
from credex.errors import BudgetError, InputError, InterruptedRun, ModelError
from credex.estimators.forecast import Forecast
from credex.importance.estimate import (
    Means,
    Residuals,
    Sizes,
    mean_sizes,
    plain_means,
    second_moment,
)
from credex.importance.outlook import LEARNS, LEARNS_SD, Outlook
from credex.importance.survey import Survey
from credex.model_queue import ModelQueue
from credex.posteriors import Belief
from credex.posteriors.student import quantile, root
from credex.row_estimates import grouped
from credex.stopping import Goals, RankingSettled, RelativeWidth, Rule, Width
from credex.typing import Floats, Masks

__all__ = ["PortfolioRun", "Request"]

PILOT_ROWS, PILOT_PAIRS = 30, 3
"""Rows and pairs of each before the first look, or fewer if the budget is small."""

LEAST_ROWS, LEAST_PAIRS = 10, 2
"""Fewest rows and pairs that give a variance between rows and one within."""

COHORT_ROWS = 5
"""Rows of every cohort, at least."""

DEFAULT_CEILING = 20_000
"""Model rows that a run to a width or a ranking may take, if ``max_queries`` is not given."""

SHARE, GROWTH = 0.6, 2.0
"""Share of a predicted need that is asked before the next look, and most growth of the cost."""

FORECAST_ERROR = 1.6
"""Factor by which a predicted width may be wrong, beside what the surrogate learns.

The range then held 0.84 of the needs of 56 runs on seven populations, and 0.82 with 1.4.
"""

N_RANK_DRAWS = 2_000
"""Draws for ranks: probabilities are right to 0.011 (one standard error)."""


@dataclass(frozen=True)
class Request:
    """What is wanted: goals, level, cohorts of the rows, and most rows to explain."""

    goals: Goals
    level: float
    cohorts: list[Any] | None = None
    max_rows: int | None = None


@dataclass(frozen=True)
class _Look:
    """What a stopping rule sees: beliefs about mean |φ|, or shares of a loss."""

    belief: Belief
    level: float
    n_queries: int
    seconds: float


class PortfolioRun:
    """One run of ``explain_global``: a survey, a queue to the model, and what is wanted."""

    def __init__(self, survey: Survey, queue: ModelQueue, request: Request, about: Any) -> None:
        self.survey, self.queue, self.request = survey, queue, request
        self._names, self._outputs = about
        self._begun = time.perf_counter()
        self._most = min(request.max_rows or survey.size, len(survey.instances))
        self._groups: list[tuple[Any, Masks, int]] = _cohorts(survey, request.cohorts)
        self._means: list[tuple[Residuals, Sizes, Means]] = []
        self.least = self._least_rows()

    def run(self) -> Aggregate:
        """Ask until a goal is met; an interruption or a failing model keeps the last look."""
        try:
            reason, converged = self._go()
        except (InterruptedRun, ModelError) as stop:
            why = "interrupted" if isinstance(stop, InterruptedRun) else "model error"
            stop.partial = self.result(why, converged=False) if self._means else None
            raise
        return self.result(reason, converged=converged)

    def _go(self) -> tuple[str, bool]:
        goals = self.request.goals
        limit, name = goals.ceiling
        ceiling, n, p = limit or DEFAULT_CEILING, *self._pilot(limit)
        while True:
            self.survey.extend(n, p, self.queue)
            self._fit()
            for rule in goals.rules:
                reason = self._check(rule)
                if reason is not None:
                    return reason, rule.precise
            n, p = self._next(ceiling, fixed=not goals.rules)
            if (n, p) == self.survey.shape[:2]:
                return name, False

    def _pilot(self, limit: int | None) -> tuple[int, int]:
        """Rows and pairs of the first look."""
        least = self.survey.cost(self.least, LEAST_PAIRS)
        if limit is not None and limit < least:
            msg = f"{self.request.goals.ceiling[1]}={limit} is too few: {self.least} rows with "
            msg += f"{LEAST_PAIRS} pairs of coalitions and some background rows take {least}"
            raise BudgetError(msg, minimum=least)
        n = min(max(PILOT_ROWS, self.least), self._most)
        p = PILOT_PAIRS
        if limit is not None and self.survey.cost(n, p) > max(limit // 3, least):
            return self.least, LEAST_PAIRS
        return n, p

    def _least_rows(self) -> int:
        """Rows until every cohort has enough."""
        if self._most < LEAST_ROWS:
            msg = f"explain_global takes {LEAST_ROWS} rows or more; got {self._most}. Use "
            raise InputError(msg + "explain_many, and credex.aggregate with population='rows'")
        least = LEAST_ROWS
        for cohort, at, size in self._groups if self.request.cohorts is not None else ():
            if size < COHORT_ROWS or at[: self._most].sum() < COHORT_ROWS:
                msg = f"cohort {display(cohort)} has {size} of the rows that may be explained; it "
                raise InputError(msg + f"takes {COHORT_ROWS}. Join it with another one")
            least = max(least, int(np.flatnonzero(at)[COHORT_ROWS - 1]) + 1)
        return least

    # -- looking -------------------------------------------------------------------------------

    def _fit(self) -> None:
        f, level = self.survey.residuals(), self.request.level
        n = len(f.r)
        parts = [f.only(at, at[:n], size) for _, at, size in self._groups]
        if self.request.cohorts is None:
            parts = [f]
        tolerance = self.survey.rounding
        self._means = [
            (
                part,
                mean_sizes(part, level).without_rounding(tolerance),
                plain_means(part, level).without_rounding(tolerance),
            )
            for part in parts
        ]

    def _check(self, rule: Rule) -> str | None:
        """Return the reason to stop, if the rule has one; answers that are all alike have none."""
        if rule.precise and self.survey.alike and self.survey.shape[0] < self._most:
            return None
        if isinstance(rule, Width | RelativeWidth):
            met = [np.all(m.upper - m.lower <= rule.limits(m.value)) for _, m, _ in self._means]
            name = "width" if isinstance(rule, Width) else "relative width"
            return name if all(met) else None
        if isinstance(rule, RankingSettled) and any(
            _ties(m.value, rule.k) for _, m, _ in self._means
        ):
            return None
        seconds = time.perf_counter() - self._begun
        found = [
            rule.check(
                _Look(
                    Belief(m.value, m.covariance, m.dof),
                    self.request.level,
                    self.queue.rows_sent,
                    seconds,
                )
            )
            for _, m, _ in self._means
        ]
        return found[0] if all(found) else None

    def _limits(self) -> list[Floats]:
        """Widths that are wanted, or if none are the same for all features of an output."""
        rules = [r for r in self.request.goals.rules if isinstance(r, Width | RelativeWidth)]
        rule = rules[0] if rules else RelativeWidth(1.0)
        out = [np.asarray(rule.limits(m.value), dtype=np.float64) for _, m, _ in self._means]
        return [np.where(at > 0, at, 1.0) for at in out]

    def outlook(self, learning: float | None = None) -> Outlook:
        """Return what the next queries will do; see `Outlook` for ``learning``."""
        return Outlook(
            [(f, m) for f, m, _ in self._means],
            self._limits(),
            shape=self.survey.shape[:2],
            level=self.request.level,
            cost=self.survey.cost,
            size=self._most,
            learning=learning,
        )

    def _next(self, ceiling: int, *, fixed: bool) -> tuple[int, int]:
        """Rows and pairs to have at the next look."""
        outlook, (n, p, _) = self.outlook(), self.survey.shape
        spent = self.survey.cost(n, p)
        wanted = any(isinstance(r, Width | RelativeWidth) for r in self.request.goals.rules)
        need = outlook.cheapest() if wanted else None
        budget = ceiling
        if not fixed:
            budget = int(min(ceiling, GROWTH * spent))
            aim = (
                1.5 * spent
                if need is None
                else spent + max(SHARE * (need.cost - spent), 0.1 * spent)
            )
            budget = int(min(budget, aim + 1))
        best = outlook.best(budget)
        return max(best.n, n), max(best.p, p)

    # -- results -------------------------------------------------------------------------------

    def forecast(self, width: Any, row_cost: float | None) -> Forecast:
        """Run, and return how many more model rows a width takes after those that it asked."""
        self.run()
        self.request = replace(self.request, goals=Goals(width=width))
        spent, now = self.queue.rows_sent, self.survey.cost(*self.survey.shape[:2])

        def more_for(learning: float, factor: float) -> float:
            """Model rows after those asked, for a width that a factor makes harder to reach."""
            need = self.outlook(learning).cheapest(1.0 / factor)
            return np.inf if need is None else max(float(need.cost - now), 0.0)

        more = more_for(LEARNS, 1.0)
        low = min(more_for(LEARNS + LEARNS_SD, 1.0 / FORECAST_ERROR), more)
        high = max(more_for(LEARNS - LEARNS_SD, FORECAST_ERROR), more)
        each = (time.perf_counter() - self._begun) / max(spent, 1)
        return Forecast(
            queries=more,
            low=low,
            high=high,
            model_rows=more,
            seconds=more * each,
            n_queries=spent,
            width=width,
            level=self.request.level,
            cost=None if row_cost is None else more * row_cost,
        )

    def result(self, reason: str, *, converged: bool) -> Aggregate:
        """Return the averages as they stand."""
        n, p, b = self.survey.shape
        parts = [
            self._average(cohort, size, found, j)
            for (cohort, _, size), found in zip(self._groups, self._means, strict=True)
            for j in range(found[1].value.shape[1])
        ]
        about = "Intervals: the choice of rows, noise within rows, and the base value"
        note = (
            f"{n:,} rows with {p} pairs of coalitions each and {b:,} background rows; a surrogate "
        )
        note += f"predicts {100 * max(self.survey.r2, 0.0):.0f} % of the variance of other queries"
        return Aggregate(
            tuple(parts),
            self.request.level,
            about,
            n,
            float(self.survey.size),
            self.queue.rows_sent,
            self.queue.calls,
            time.perf_counter() - self._begun,
            reason,
            converged,
            (note,),
        )

    def _average(
        self, cohort: Any, size: int, found: tuple[Residuals, Sizes, Means], j: int
    ) -> Average:
        """Return the averages of output j."""
        f, sizes, plain = found
        level, n = self.request.level, len(f.r)
        square, error = second_moment(f)
        tau2 = np.maximum(square[:, j], 0.0) + error[:, j]  # rather too large than too small
        noise = f.within[:, :, j].mean(axis=0)
        trust = np.divide(tau2, tau2 + noise, out=np.zeros_like(tau2), where=tau2 > 0)
        centre = f.own[:, :, j] + trust * f.r[:, :, j]
        half = quantile(level, np.inf) * np.sqrt(trust * noise)
        least = self.survey.rounding[j]
        positive = (centre - half > least).sum(axis=0)
        negative = (centre + half < -least).sum(axis=0)
        z = np.random.default_rng(0).standard_normal((N_RANK_DRAWS, len(tau2)))
        draws = sizes.value[:, j] + z @ root(sizes.covariance[:, :, j]).T
        return Average(
            tuple(map(clean, self._names)),
            str(self._outputs(sizes.value.shape[1])[j]),
            cohort,
            n,
            level,
            sizes.dof,
            _estimates(sizes, j),
            _estimates(plain, j),
            share_of(positive, n, size, level),
            share_of(negative, n, size, level),
            first_of(centre, least),
            np.maximum(draws, 0.0),
        )


def _ties(value: Floats, k: int) -> bool:
    """Whether zeros of ``value (d, k)`` make the top k of an output a matter of chance."""
    none = (value == 0).sum(axis=0)
    more = (value > 0).sum(axis=0)
    return bool(np.any((more < k) & (k < more + none)))


def _estimates(m: Means, j: int) -> Estimates:
    sd = np.sqrt(np.einsum("ii->i", m.covariance[:, :, j]))
    return Estimates(m.value[:, j], m.lower[:, j], m.upper[:, j], sd)


def _cohorts(survey: Survey, labels: Sequence[Any] | None) -> list[tuple[Any, Masks, int]]:
    """Labels, which of the listed rows they have, and how many of all rows."""
    if labels is None:
        return [(None, np.ones(len(survey.order), dtype=np.bool_), survey.size)]
    return [(c, at[survey.order], int(at.sum())) for c, at in grouped(list(labels))]
