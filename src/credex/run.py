"""`Run`: the explanation of one instance in progress, as an ask/tell object.

``ask()`` proposes queries, somebody else owns the model and answers, ``tell()`` absorbs the results
and decides whether to go on. `drive` does that for one run or for many side by side.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from credex.seeds import one_blas_thread
from credex.stopping import Plan, RelativeWidth, WallClock, Width
from credex.typing import Floats

__all__ = ["Run", "State", "drive", "states"]

MAX_FORECAST_FEATURES = 200
"""Features up to which looks are planned by a forecast; above, they are a quarter apart."""


@dataclass(frozen=True, eq=False)
class State:
    """Snapshot of a run.

    Attributes
    ----------
    estimate
        The last fit; ``None`` if too little was asked.
    history, seconds
        Everything asked so far, and the time since the run began.
    stop_reason
        Why this is the last state, or ``None``.
    converged
        Whether a requested precision was met or the answer is exact.
    design
        The perturbations of the instance.
    """

    estimate: Estimate | None
    history: History
    level: float
    seconds: float
    stop_reason: str | None
    converged: bool
    design: Design
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
    """The queries, fits and decisions that lead to the explanation of one instance.

    Parameters
    ----------
    design, estimator, plan
        The perturbations, what is fitted to them, and when to look and to stop.
    history
        What was asked before.
    explain
        Makes the explanation of a state.
    model
        Identifies the model: f(x) is not checked again if ``history`` comes from the same one.
    together
        Whether the first perturbations are sent with f(x) in one call: most models take longer to
        begin than for a hundred rows.
    switch
        May replace the estimator during the run.

    Attributes
    ----------
    state
        The run as it stands; it goes on while ``state.stop_reason`` is ``None``.
    error
        Why the run failed; ``None`` if it did not.
    interruption
        What is raised if the run was interrupted.
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
        self.interruption = InterruptedRun("interrupted; what was asked is in .partial")
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
            self._request = self._propose()
        return () if self._request is None else self._request.queries

    def tell(self, results: Sequence[Result]) -> None:
        """Absorb the results of what was asked, look at the estimate and decide."""
        request, self._request = self._request, None
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
                self.interruption = error
                self.end("interrupted")
            elif error is not None:
                self.fail(error)
            else:
                self._look()

    def end(self, reason: str) -> None:
        """End the run with a fit of what was asked."""
        self.state = self._state(self.estimator.fit(self.history), reason)

    def fail(self, error: CredexError) -> None:
        """End the run with an error; that of a model keeps what was learned as ``partial``."""
        self.error = error
        if isinstance(error, ModelError):
            self.end("model error")
            error.partial = self.state.explanation
        else:
            self.state = self._state(None, "error")

    @property
    def expected_rows(self) -> int:
        """Model rows that the run is likely to ask for at first."""
        n = self.plan.first_look if self.plan.rules else self.plan.ceiling
        return n * self.design.rows_per_query

    def rows_to_go(self) -> int:
        """Model rows that are still needed, by the forecasts; at most those of the budget."""
        if self.state.stop_reason is not None:
            return 0
        room = self.design.room(self.history, self.plan.ceiling)
        forecasts = [forecast.queries for _, forecast in self._forecasts()]
        return int(min([room, *forecasts])) * self.design.rows_per_query

    # -- what to ask ---------------------------------------------------------------------------

    def _propose(self) -> Request | None:
        """Return the next request; ``None`` if the run has ended."""
        if not self._opened:
            self._opened = True
            opening = self._opening()
            if opening is not None:
                return opening
            self._look()
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

    def _opening(self) -> Request | None:
        """Return the request for the empty and the full coalition, ``None`` if both are known.

        The first perturbations are added if the model is quick.
        """
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

    def _choose(self, n: int) -> Candidates:
        """Let the sampler choose; an adaptive one reads the posterior."""
        h, sampler = self.history, self.design.options.sampler
        fit = None if getattr(sampler, "uniform", False) else self.estimator.predictive(h)
        return self.design.choose(h, n, fit)

    def _step(self) -> int:
        """How many perturbations to ask before the next look; 0 if the estimator was switched."""
        room, n = self._room(), self.history.n_queries
        if not self.plan.rules or self.design.options.sampler_name == "exhaustive":
            return room
        if n < self.plan.first_look:
            return min(room, max(self.plan.first_look - n, 2))
        more = 0.25 * n
        for limits, forecast in self._forecasts():
            if self._switched(limits, forecast):
                return 0
            # most of the way, never more than twice what is there: forecasts err
            more = min(max(0.8 * forecast.queries, self.design.growth * n, 4), 2.0 * n)
        return int(min(room, max(np.ceil(more), 2)))

    def _forecasts(self) -> Iterator[tuple[Width | RelativeWidth, Forecast]]:
        """Forecast the queries of each rule that asks for a width."""
        if self.design.d > MAX_FORECAST_FEATURES:
            return
        for rule in self.plan.rules:
            if isinstance(rule, Width | RelativeWidth):
                level = self.design.options.level
                forecast = self.estimator.forecast(self.history, rule, level)
                if forecast is not None:
                    yield rule, forecast

    def _switched(self, limits: Width | RelativeWidth, forecast: Forecast) -> bool:
        """Let another estimator take over if the forecast says so."""
        if self.switch is None:
            return False
        reason = self.switch.reason(self.history, self.plan.ceiling, limits, forecast)
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
        """Perturbations that fit under the ceiling and, at the speed so far, into the time."""
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
        """Return the reason to stop, if any, and whether a requested precision was met."""
        if estimate is None:
            return None, False
        if estimate.exact:
            for rule in self.plan.rules:
                if isinstance(rule, Width):
                    rule.limits(estimate.belief.mean)  # as many widths as outputs?
            return "exact", True
        rules = self.plan.rules if self.design.options.sampler_name != "exhaustive" else ()
        if rules and estimate.settled:
            look = self._state(estimate.for_rules, None)
            for rule in rules:
                reason = rule.check(look)
                if reason is not None and rule.precise and estimate.is_partial:
                    return "not measurable", False
                if reason is not None:
                    return reason, rule.precise
        return None, False

    def _switched_at_the_end(self) -> bool:
        """Let another estimator fit what was asked when no queries are left."""
        return self.switch is not None and any(
            self._switched(limits, replace(forecast, queries=np.inf, low=np.inf))
            for limits, forecast in self._forecasts()
        )

    def _state(
        self, estimate: Estimate | None, reason: str | None, *, converged: bool = False
    ) -> State:
        if estimate is not None and self.switch_reason is not None and not estimate.exact:
            estimate = replace(estimate, notes=(self.switch_reason, *estimate.notes))
        level, seconds = self.design.options.level, time.perf_counter() - self._begun
        return State(
            *(estimate, self.history, level, seconds, reason, converged),
            design=self.design,
            explain=self._explain,
        )


def drive(runs: Iterable[Run], queue: ModelQueue) -> Iterator[Run]:
    """Answer the queries of runs side by side; yield a run whenever its state is new.

    As many runs are begun as fill a model call. An error of one run ends only that run (see
    `Run.error`). Ctrl-C ends all that have begun, with the ``stop_reason`` "interrupted".
    """
    waiting, active = iter(runs), list[Run]()
    while True:
        active += _fill_call(active, waiting, queue)
        if not active:
            return
        before = [run.state for run in active]
        try:
            asked = [_ask(run) for run in active]
            for run, results in zip(active, queue.answer(asked), strict=True):
                run.tell(results)
        except KeyboardInterrupt:
            for run in active:
                if run.state.stop_reason is None:
                    run.end("interrupted")
        changed = [run for run, old in zip(active, before, strict=True) if run.state is not old]
        active = [run for run in active if run.state.stop_reason is None]
        yield from changed


def states(run: Run, queue: ModelQueue) -> Iterator[State]:
    """Drive one run and yield its states; the last one has a ``stop_reason``."""
    for _ in drive([run], queue):
        if run.error is not None:
            raise run.error
        if run.state.stop_reason == "interrupted":
            run.interruption.partial = run.state.explanation
            raise run.interruption
        yield run.state


def _fill_call(active: Sequence[Run], waiting: Iterator[Run], queue: ModelQueue) -> list[Run]:
    """Return the runs to begin so that what all are likely to ask fills one model call."""

    def share(run: Run) -> float:
        return run.expected_rows / queue.max_rows(run.design.neighbourhood.row_bytes)

    load = sum(map(share, active))
    new: list[Run] = []
    while load < 1 or not (active or new):
        run = next(waiting, None)
        if run is None:
            break
        new.append(run)
        load += share(run)
    return new


def _ask(run: Run) -> Sequence[Query]:
    try:
        return run.ask()
    except CredexError as error:
        run.fail(error)
        return ()
