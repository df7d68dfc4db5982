"""`Run`: one instance on its way to an explanation, as an ask/tell object.

``ask()`` proposes queries, somebody else owns the model and answers, ``tell()`` absorbs the results
and decides whether to go on. `drive` does that for one run; `credex.batch` for many at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from credex.designs.design import Design, Request
from credex.designs.samplers import Candidates
from credex.errors import CredexError, InterruptedRun, ModelError
from credex.estimators.base import Estimate, Estimator
from credex.estimators.forecast import Forecast
from credex.estimators.process_shapley import Switch
from credex.explanation import Explanation
from credex.game import Query, Result
from credex.history import History
from credex.model_queue import ModelQueue
from credex.posteriors import Belief
from credex.seeds import Purpose, spawn
from credex.stopping import Plan, RelativeWidth, Rule, WallClock, Width
from credex.threads import one_blas_thread
from credex.typing import Floats

__all__ = ["Run", "State", "drive"]

UNUSED = np.random.default_rng(0)
"""Generator for samplers that take perturbations as they come and draw nothing."""

MAX_FORECAST_FEATURES = 200
"""Features up to which looks are planned by a forecast; above, they are a quarter apart."""


@dataclass(frozen=True, eq=False)
class State:
    """A run as it stands.

    Attributes
    ----------
    estimate
        The last fit; ``None`` if too little was asked.
    history
        Everything asked so far.
    level
        Level of the intervals.
    seconds
        Time since the run began.
    stop_reason
        Why this is the last state, or ``None``.
    converged
        Whether a requested precision was met or the answer is exact.
    explain
        Makes the explanation of a state.
    """

    estimate: Estimate | None
    history: History
    level: float
    seconds: float
    stop_reason: str | None
    converged: bool
    explain: Callable[[State], Explanation]

    @property
    def belief(self) -> Belief | None:
        """Belief about the importances."""
        return None if self.estimate is None else self.estimate.belief

    @property
    def width(self) -> Floats:
        """Width of every interval, ``(d, k)``; infinite before the first fit."""
        b = self.belief
        return np.array([[np.inf]]) if b is None else b.interval(self.level).width

    @property
    def n_queries(self) -> int:
        """Queries spent so far."""
        return self.history.n_queries

    @property
    def n_model_rows(self) -> int:
        """Model rows spent so far."""
        return self.history.n_model_rows

    @property
    def explanation(self) -> Explanation:
        """The explanation as it stands."""
        return self.explain(self)


class Run:
    """One instance on its way.

    Parameters
    ----------
    design, estimator
        The perturbations, and what is fitted to them.
    plan
        When to look and when to stop.
    history
        What was asked before.
    explain
        Makes an explanation of a state.
    model
        Identifies the model: what it answered before is not doubted.
    together
        Whether the first perturbations travel with f(x) in one call: most models take longer to
        begin than for a hundred rows.
    switch
        May replace the estimator on the way.

    Attributes
    ----------
    state
        The run as it stands; it goes on while ``state.stop_reason`` is ``None``.
    error
        Why the run failed, with ``error.partial``; ``None`` if it did not.
    """

    def __init__(
        self,
        design: Design,
        estimator: Estimator,
        plan: Plan,
        history: History,
        explain: Callable[[State], Explanation],
        *,
        model: object,
        together: bool = False,
        switch: Switch | None = None,
    ) -> None:
        self.design, self.estimator, self.plan, self.switch = design, estimator, plan, switch
        self.design.recheck = design.recheck and history.model is not model
        self.estimator.sequential = bool(plan.rules)
        history = history.in_pairs() if design.paired else history
        self.history = history if history.model is model else replace(history, model=model)
        self.together = together and not self._clocks
        self.error: CredexError | None = None
        self.switch_reason: str | None = None
        self._begun = time.perf_counter()
        self._opened = False
        self._request: Request | None = None
        self._explain = explain
        self.state = self._state(None, None)

    # -- the protocol --------------------------------------------------------------------------

    def ask(self) -> Sequence[Query]:
        """Return what to ask next; nothing if the run has ended."""
        with one_blas_thread():
            self._request = None
            if not self._opened:
                self._opened = True
                self._request = self._opening()
                if self._request is None:
                    self._look()
            if self._request is None:
                self._request = self._next()
        return () if self._request is None else self._request.queries

    def tell(self, results: Sequence[Result]) -> None:
        """Absorb the results of what was asked, look at the estimate and decide."""
        request = self._request
        if request is None:
            return
        error = next((r.error for r in results if r.error is not None), None)
        with one_blas_thread():
            try:
                self.history = self.design.absorb(self.history, request, results)
                if error is None:
                    self.design.check_repeat(self.history, request, results)
            except CredexError as found:
                error = error or found
            if isinstance(error, InterruptedRun):
                self.end("interrupted")
            elif error is not None:
                self.fail(error)
            else:
                self._look()

    def end(self, reason: str) -> None:
        """End the run here, with what it has."""
        self.state = self._state(self.estimator.fit(self.history), reason)

    def fail(self, error: CredexError) -> None:
        """End the run with an error, which keeps what was learned."""
        self.error = error
        self.end("model error")
        if isinstance(error, ModelError):
            error.partial = self.state.explanation

    # -- what to ask ---------------------------------------------------------------------------

    def _opening(self) -> Request | None:
        """Return the first request: the ends, with the first perturbations if that is quick."""
        design, h, ceiling = self.design, self.history, self.plan.ceiling
        ends = design.ends_due(h, ceiling)
        if ends == 0:
            return None
        candidates = None
        cost = design.end_queries * ends
        if self.together and not design.ends_suffice and h.full is None:
            n = design.room(h, ceiling, cost)
            if self.plan.rules:
                n = min(n, max(self.plan.first_look - h.n_queries - cost, 2))
            if n >= design.unit:
                candidates = self._choose(n)
        return design.request(h, candidates, ceiling, ends=ends)

    def _next(self) -> Request | None:
        """Return the next perturbations; ``None`` if the run has ended."""
        while self.state.stop_reason is None:
            n = self._step()
            if n == 0:  # another estimator took over: look at what is there
                self._look()
                continue
            chosen = self._choose(n)
            if len(chosen):
                return self.design.request(self.history, chosen, self.plan.ceiling)
            self.end("exhausted")
        return None

    def _choose(self, n: int) -> Candidates:
        """Let the sampler choose; an adaptive one reads the posterior and may draw."""
        h, options = self.history, self.design.options
        if getattr(options.sampler, "uniform", False):
            return self.design.choose(h, n, None, UNUSED)
        rng = spawn(int(options.seed), Purpose.SAMPLER, h.rows.n)
        return self.design.choose(h, n, self.estimator.predictive(h), rng)

    def _step(self) -> int:
        """How many perturbations to ask before the next look; 0 if the estimator was switched."""
        room, n, rules = self._room(), self.history.n_queries, self.plan.rules
        if not rules or self.design.options.sampler_name == "exhaustive":
            return room
        if n < self.plan.first_look:
            return min(room, max(self.plan.first_look - n, 2))
        more = 0.25 * n
        for rule in rules:
            forecast = self._forecast(rule)
            if forecast is not None:
                if self._switched(rule, forecast):
                    return 0
                # most of the way, never more than twice what is there: forecasts err
                more = min(max(0.8 * forecast.queries, 0.05 * n, 4), 2.0 * n)
        return int(min(room, max(np.ceil(more), 2)))

    def _forecast(self, rule: Rule) -> Forecast | None:
        if not isinstance(rule, Width | RelativeWidth) or self.design.d > MAX_FORECAST_FEATURES:
            return None
        return self.estimator.forecast(self.history, rule, self.design.options.level)

    def _switched(self, rule: Rule, forecast: Forecast) -> bool:
        """Let another estimator take over if the forecast says so."""
        if self.switch is None or not isinstance(rule, Width | RelativeWidth):
            return False
        reason = self.switch.reason(self.history, self.plan.ceiling, rule, forecast)
        if reason is None:
            return False
        self.design, self.estimator = self.switch.design, self.switch.process
        self.switch, self.switch_reason = None, reason
        return True

    @property
    def _clocks(self) -> list[float]:
        """Time limits among the rules."""
        return [rule.seconds for rule in self.plan.rules if isinstance(rule, WallClock)]

    def _room(self) -> int:
        """Perturbations that fit under the ceiling and, as far as can be told, into the time."""
        h = self.history
        room = self.design.room(h, self.plan.ceiling)
        if self._clocks and h.n_queries:
            left = min(self._clocks) - (time.perf_counter() - self._begun)
            each = h.model_seconds / max(h.n_model_rows, 1) * self.design.rows_per_query
            if each > 0:
                room = min(room, max(int(left / each), 2))
        return room

    # -- looking -------------------------------------------------------------------------------

    def _look(self) -> None:
        """Fit and check the rules, unless there is nothing to look at yet."""
        plan, design, h = self.plan, self.design, self.history
        spent = design.room(h, plan.ceiling) < design.unit
        complete = h.n_queries >= design.everything or design.d <= 1
        if any(time.perf_counter() - self._begun >= limit for limit in self._clocks):
            self.end("wall clock")
            return
        early = not plan.rules or (h.n_queries < plan.first_look and h.rows.n == 0)
        if early and not spent and not complete:
            return
        estimate = self.estimator.fit(h)
        reason, converged = self._verdict(estimate)
        if reason is None and spent:
            if self._switched_at_the_end():
                self._look()
                return
            reason = "exhausted" if design.unasked(h) < 1 else plan.ceiling_reason
        self.state = self._state(estimate, reason, converged=converged)

    def _verdict(self, estimate: Estimate | None) -> tuple[str | None, bool]:
        """Why to stop with this estimate, and whether that means the precision was met."""
        if estimate is None:
            return None, False
        if estimate.exact:
            for rule in self.plan.rules:
                if isinstance(rule, Width):
                    rule.limits(estimate.belief.mean)  # as many widths as outputs?
            return "exact", True
        if self.design.options.sampler_name != "exhaustive":
            look = self._state(estimate.for_rules, None)
            for rule in self.plan.rules:
                reason = rule.check(look)
                if reason is not None:
                    return reason, rule.precise
        return None, False

    def _switched_at_the_end(self) -> bool:
        """Let another estimator try with what was asked: nothing is left to ask."""
        for rule in self.plan.rules:
            forecast = self._forecast(rule)
            if forecast is not None:
                never = replace(forecast, queries=np.inf, low=np.inf)
                if self._switched(rule, never):
                    return True
        return False

    def _state(
        self, estimate: Estimate | None, reason: str | None, *, converged: bool = False
    ) -> State:
        if estimate is not None and self.switch_reason is not None and not estimate.exact:
            estimate = replace(estimate, notes=(self.switch_reason, *estimate.notes))
        level, seconds = self.design.options.level, time.perf_counter() - self._begun
        return State(estimate, self.history, level, seconds, reason, converged, self._explain)


def drive(run: Run, queue: ModelQueue) -> Iterator[State]:
    """Answer a run's queries and yield its states; the last one has a ``stop_reason``."""
    last = run.state
    while last.stop_reason is None:
        try:
            queries = run.ask()
            if queries:
                run.tell(queue.answer([queries])[0])
        except KeyboardInterrupt:
            run.end("interrupted")
        if run.error is not None:
            raise run.error
        if run.state.stop_reason == "interrupted":
            stop = InterruptedRun("interrupted; what was asked is in .partial")
            stop.partial = run.state.explanation
            raise stop
        if run.state is not last:
            last = run.state
            yield last
