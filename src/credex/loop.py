"""The loop: ask, fit, look, again. A generator, so that anyone can drive it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from credex.blackbox import BlackBox
from credex.calls import TRUST, UNUSED, Pace, along, open_with
from credex.errors import InterruptedRun, ModelError
from credex.estimators.base import Estimate, Recipe, Talk
from credex.history import History
from credex.model_queue import Answer, Ask
from credex.posteriors import Belief
from credex.stopping import RelativeWidth, Rule, WallClock, Width
from credex.threads import one_blas_thread
from credex.typing import Floats

if TYPE_CHECKING:
    from credex.explanation import Explanation

FORECAST_FEATURES = 200
"""Features up to which every look is planned by a forecast; above, looks are a quarter apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """When to look and when to stop.

    Attributes
    ----------
    rules
        Looked at after every fit.
    ceiling, ceiling_reason
        Most queries, and what reaching it is called.
    seeds
        Queries before the first look.
    """

    rules: tuple[Rule, ...]
    ceiling: int
    ceiling_reason: str
    seeds: int

    @property
    def fixed(self) -> bool:
        """Nothing to look at: all queries can be asked at once."""
        return not self.rules


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """One look at a running explanation.

    Attributes
    ----------
    fitted
        The fit; ``None`` if too little was asked.
    asked
        Everything asked so far.
    level
        Level of the intervals.
    n_queries, n_model_rows, seconds
        Spent so far.
    stop_reason
        Why this is the last state, or ``None``.
    converged
        Whether a requested precision was met or the answer is exact.
    """

    fitted: Estimate | None
    asked: History
    level: float
    n_queries: int
    n_model_rows: int
    seconds: float
    stop_reason: str | None
    converged: bool
    make: Callable[[State], Explanation]

    @property
    def belief(self) -> Belief | None:
        """Belief about the importances."""
        return None if self.fitted is None else self.fitted.belief

    @property
    def width(self) -> Floats:
        """Width of every interval, ``(d, k)``; infinite before the first fit."""
        b = self.belief
        return np.array([[np.inf]]) if b is None else b.interval(self.level).width

    @property
    def explanation(self) -> Explanation:
        """The explanation as it stands."""
        return self.make(self)


Run = Generator[list[Ask] | State, list[Answer] | None, None]


def run(
    recipe: Recipe,
    plan: Plan,
    make: Callable[[State], Explanation],
    *,
    batch_rows: int,
    box: BlackBox | None,
    by: object,
) -> Run:
    """Yield asks (send the answers back) and states until a rule, the ceiling or exactness stops.

    Parameters
    ----------
    recipe
        The instance being explained.
    plan
        When to look and stop.
    make
        Turns a state into an explanation.
    batch_rows
        Most rows of one ask.
    box
        The model: calls are kept short if it is slow, and few if it is quick. ``None`` in a batch,
        where calls are stacked anyway.
    by
        Stands for the model: what it asked before is not doubted.
    """
    clock = _Clock(recipe, plan, make)
    most: Callable[[], int] = (lambda: batch_rows) if box is None else Pace(recipe, batch_rows)
    recipe.limit, recipe.looks = plan.ceiling, not plan.fixed
    recipe.unsure = recipe.unsure and recipe.asked.by is not by
    recipe.asked = replace(recipe.asked, by=by)
    try:
        yield from _opened(recipe, clock, box, batch_rows, most)
        while True:
            with one_blas_thread():
                state = clock.look()
            if state is not None:
                yield state
                if state.stop_reason is not None:
                    clock.settle(box)
                    return
            with one_blas_thread():
                n = clock.step()
                if n == 0:  # another posterior took over: look at what is there
                    continue
                adaptive = not getattr(recipe.settings.sampler, "uniform", False)
                fit = recipe.predictive() if adaptive else None
                chosen = recipe.choose(n, fit, clock.rng if adaptive else UNUSED)
            if len(chosen) == 0:
                yield clock.end("exhausted")
                return
            yield from recipe.ask(chosen, most_rows=most)
    except ModelError as error:
        clock.settle(box, good=False)
        error.answers = ()
        error.partial = clock.end("model error").explanation
        raise
    except KeyboardInterrupt as stop:
        raise interrupted(clock.end("interrupted")) from stop


def interrupted(state: State) -> InterruptedRun:
    """Return what to raise when somebody stopped a run in this state."""
    error = InterruptedRun("interrupted; what was asked is in .partial")
    error.partial = state.explanation
    return error


def _opened(
    recipe: Recipe,
    clock: _Clock,
    box: BlackBox | None,
    batch_rows: int,
    most: Callable[[], int],
) -> Talk[None]:
    """Ask for the fixed points, alone or along with others."""
    n, ceiling = along(recipe, clock.plan, box, batch_rows), clock.plan.ceiling
    if box is not None and n:
        box.trust -= 1
    clock.together = n > 0 and (yield from open_with(recipe, n, ceiling, most))
    if not clock.together:
        yield from recipe.open(ceiling)


class _Clock:
    """Decides when to look, how far to go, and why to stop."""

    def __init__(self, recipe: Recipe, plan: Plan, make: Callable[[State], Explanation]) -> None:
        self.recipe, self.plan, self.make = recipe, plan, make
        self.start = time.perf_counter()
        self.fresh = recipe.asked.full is None
        self.together = False
        """Whether f(x) and its repeat were asked in one call."""

    @cached_property
    def rng(self) -> np.random.Generator:
        """For samplers that draw."""
        return np.random.default_rng([self.recipe.settings.seed, 17, self.recipe.asked.rows.n])

    def settle(self, box: BlackBox | None, *, good: bool = True) -> None:
        """Note whether the model is to be trusted with one call."""
        if box is None:
            return
        if not good:
            box.trust = 0
        elif self.fresh and self.recipe.asked.checked and not self.together:
            box.trust = TRUST

    def look(self) -> State | None:
        """Fit and check, unless there is nothing to look at yet."""
        r, plan = self.recipe, self.plan
        spent = r.room(plan.ceiling) < (2 if r.settings.sampler.paired else 1)
        complete = r.asked.n_queries >= r.everything or r.d <= 1
        if self._time_is_up():
            return self._state(r.fit(), "wall clock", converged=False)
        early = plan.fixed or (r.asked.n_queries < plan.seeds and r.asked.rows.n == 0)
        if early and not spent and not complete:
            return None
        fitted = r.fit()
        if fitted is not None and fitted.exact:
            for rule in plan.rules:
                if isinstance(rule, Width):
                    rule.limits(fitted.belief.mean)  # as many widths as outputs?
            return self._state(fitted, "exact", converged=True)
        state = self._state(fitted, None, converged=False) if plan.rules or not spent else None
        if state is not None and r.settings.sampler_name != "exhaustive" and fitted is not None:
            known = fitted.measured
            look = state if known is fitted else replace(state, fitted=known)
            for rule in plan.rules:
                reason = rule.check(look)
                if reason is not None:
                    return self._state(fitted, reason, converged=rule.precise)
        if spent:
            return self._other_look() or self._state(
                fitted, self._ceiling_reason(), converged=False
            )
        return state

    def _ceiling_reason(self) -> str:
        return "exhausted" if self.recipe.unasked < 1 else self.plan.ceiling_reason

    def _other_look(self) -> State | None:
        """Look again if the recipe has another posterior, for which what was asked may do."""
        r = self.recipe
        for rule in self.plan.rules:
            if isinstance(rule, Width | RelativeWidth) and r.d <= FORECAST_FEATURES:
                forecast = r.forecast(rule, r.settings.level)
                if forecast is None:
                    continue
                never = replace(forecast, queries=np.inf, low=np.inf)  # nothing is left to ask
                if r.reconsider(rule, never):
                    return self.look()
        return None

    def _time_is_up(self) -> bool:
        if self.plan.fixed:
            return False
        gone = time.perf_counter() - self.start
        return any(isinstance(r, WallClock) and gone >= r.seconds for r in self.plan.rules)

    def _room(self) -> int:
        """Queries that fit under the ceiling and, as far as can be told, into the time."""
        r = self.recipe
        room = r.room(self.plan.ceiling)
        if self.plan.fixed:
            return room
        limits = [rule.seconds for rule in self.plan.rules if isinstance(rule, WallClock)]
        if limits and r.asked.n_queries:
            left = min(limits) - (time.perf_counter() - self.start)
            each = r.asked.model_seconds / max(r.asked.n_model_rows, 1) * r.rows_per_query
            if each > 0:
                room = min(room, max(int(left / each), 2))
        return room

    def step(self) -> int:
        """How many perturbations to the next look; none if the recipe changed its posterior."""
        r, plan = self.recipe, self.plan
        room = self._room()
        if plan.fixed or r.settings.sampler_name == "exhaustive":
            return room
        n = r.asked.n_queries
        if n < plan.seeds:
            return min(room, max(plan.seeds - n, 2))
        more = 0.25 * n
        for rule in plan.rules:
            if isinstance(rule, Width | RelativeWidth) and r.d <= FORECAST_FEATURES:
                forecast = r.forecast(rule, r.settings.level)
                if forecast is not None:
                    if r.reconsider(rule, forecast):
                        return 0
                    # most of the way, never more than twice what is there: forecasts err
                    more = min(max(0.8 * forecast.queries, 0.05 * n, 4), 2.0 * n)
        return int(min(room, max(np.ceil(more), 2)))

    def end(self, reason: str) -> State:
        """The last state, for whatever reason."""
        return self._state(self.recipe.fit(), reason, converged=False)

    def _state(self, fitted: Estimate | None, reason: str | None, *, converged: bool) -> State:
        a = self.recipe.asked
        return State(
            fitted,
            a,
            self.recipe.settings.level,
            a.n_queries,
            a.n_model_rows,
            time.perf_counter() - self.start,
            reason,
            converged,
            self.make,
        )
