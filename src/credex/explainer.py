"""`Explainer`: the interface that `BayesLIME` and `BayesSHAP` share."""

from __future__ import annotations

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, Unpack

import numpy as np

from credex.batch import explain_batch
from credex.blackbox import BlackBox
from credex.checks import check_count, check_width
from credex.designs.design import Context, Design, resolve_sampler
from credex.designs.samplers import check_still_random
from credex.domains import Domain, Neighbourhood, Tabular
from credex.errors import BudgetError, InputError
from credex.estimators.base import Estimate, Estimator
from credex.estimators.switch import Switch
from credex.explanation import Explanation
from credex.explanation_base import Instance
from credex.explanations import Explanations
from credex.game import LOGIT_CLIP
from credex.goals import Goals
from credex.history import History
from credex.model_queue import ModelQueue
from credex.options import Options, OptionsDict
from credex.posteriors import Belief, Prior
from credex.run import Run, State, drive
from credex.seeds import Purpose, child, spawn
from credex.stopping import Forecast, Rule, Width
from credex.verify import MAX_EXACT, REFERENCE_FACTOR, REFERENCE_QUERIES, Verification, compare
from credex.zoom import largest_parts, zoom_note

__all__ = ["Explainer"]

CALIBRATION = 32
"""Queries that `Explainer.calibrate` asks, twice, or as many as a fit takes."""

SEED_QUERIES = 200
"""Default number of queries a forecast spends."""

WITHOUT_REMAINDER = "all that was asked adds up without a remainder; what was not asked need not"
"""Note on intervals without width that are not exact: a rare interaction would not show."""

Start = Explanation | Forecast | None
"""What a run may continue."""


@dataclass(frozen=True, slots=True, eq=False)
class _Case:
    """One instance to explain, its cohort, and the explanation to continue from."""

    x: Any
    cohort: Any = None
    start: Explanation | None = None


class Explainer(ABC):
    """What `BayesLIME` and `BayesSHAP` have in common. Immutable; safe to share."""

    method: ClassVar[str]
    _kind: ClassVar[Literal["coalitions", "perturbations"]]
    _default_sampler: ClassVar[str]
    _default_prior: ClassVar[Prior]
    _default_ceiling: ClassVar[int]

    def __init__(
        self,
        model: Any,
        data: Any,
        *,
        groups: Mapping[str, Sequence[str]] | None = None,
        **options: Unpack[OptionsDict],
    ) -> None:
        if isinstance(data, Domain):
            if groups is not None:
                msg = "give groups= to the domain (cx.Tabular(X, groups=…)), not to the explainer"
                raise InputError(msg)
            self.domain: Domain = data
        else:
            self.domain = Tabular(data, groups=groups)
        self.model = model
        self.options = Options().override(options)
        self._boxes: dict[Any, BlackBox] = {}
        self._context = Context()
        self._box(self.options.target)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without what can be made again."""
        return {k: v for k, v in self.__dict__.items() if k not in ("_boxes", "_context")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._boxes, self._context = {}, Context()

    def __repr__(self) -> str:
        model = self.model if isinstance(self.model, type) else type(self.model)
        name = getattr(self.model, "__name__", model.__name__)
        return f"<{self.method} of {name} on {type(self.domain).__name__}>"

    # -- one instance --------------------------------------------------------------------------

    def explain(
        self,
        x: Any = None,
        *,
        width: float | Sequence[float] | None = None,
        queries: int | None = None,
        max_queries: int | None = None,
        stop: Rule | None = None,
        start: Start = None,
        cohort: Any = None,
        **options: Unpack[OptionsDict],
    ) -> Explanation:
        """Explain one prediction.

        Parameters
        ----------
        x
            The instance; nothing for `Masks`.
        width
            Stop when every interval (upper − lower, at ``level``) is at most this wide.
        queries
            Ask this many, never more; fewer only if the answer is exact or one mask is short of
            a pair.
        max_queries
            Ceiling on ``width`` and ``stop``; by default 2,000 (BayesLIME: 5,000), or the fewest
            that a fit takes if that is more. A run that hits it has ``converged`` False.
        stop
            A rule, or several joined with ``|``, such as ``RankingSettled(3, 0.95)``.
        start
            A forecast or an explanation of the same instance to continue.
        cohort
            Background of this cohort only, if the domain has cohorts.
        **options
            Any option of the constructor, for this call only: ``target``, ``level``,
            ``posterior``, ``sampler``, ``seed``, ``prior``, ``link``, ``noisy``, ``recipe``,
            ``robust``, ``features``, ``selection``, ``kernel``, ``background_uncertainty``,
            ``batch_rows``, ``query_seconds``; see `credex.options.Options`.

        With neither ``width``, ``queries`` nor ``stop``, the run ends when every interval is at
        most 20 % of the largest importance, or at the ceiling.
        """
        goals = Goals(width, queries, max_queries, stop)
        opts = self.options.override(options)
        case = _Case(x, cohort, self._started(start, opts))
        return self._last(case, goals, opts).explanation

    def iterate(
        self,
        x: Any = None,
        *,
        width: float | Sequence[float] | None = None,
        queries: int | None = None,
        max_queries: int | None = None,
        stop: Rule | None = None,
        start: Start = None,
        cohort: Any = None,
        **options: Unpack[OptionsDict],
    ) -> Iterator[State]:
        """Yield a frozen state at every look; the last one has a ``stop_reason``.

        Break whenever you like: ``state.explanation`` is complete at each step.
        """
        goals = Goals(width, queries, max_queries, stop)
        opts = self.options.override(options)
        case = _Case(x, cohort, self._started(start, opts))
        queue = self._queue(opts)
        run = self._begin(case, goals, opts, queue, self._context)
        if not run.plan.rules:  # somebody wants to watch
            run.plan = replace(run.plan, rules=(_Never(),))
            run.estimator.sequential = True
        return drive(run, queue)

    def forecast(
        self,
        x: Any = None,
        *,
        width: float | Sequence[float],
        seed_queries: int = SEED_QUERIES,
        cohort: Any = None,
        **options: Unpack[OptionsDict],
    ) -> Forecast:
        """Spend ``seed_queries`` and say how many more ``width`` takes (perturbations-to-go).

        ``explain(x, width=…, start=forecast)`` continues from the seed queries.
        """
        limits = Width(check_width(width))
        opts = self.options.override(options)
        goals = Goals(queries=check_count("seed_queries", seed_queries))
        queue = self._queue(opts)
        run = self._begin(_Case(x, cohort), goals, opts, queue, Context())
        *_, last = drive(run, queue)
        found = run.estimator.forecast(run.history, limits, opts.level)
        if found is None:
            msg = f"{seed_queries} seed queries are too few for a forecast"
            raise BudgetError(msg, minimum=run.estimator.minimum)
        return replace(found, asked=last.explanation)

    def refine(
        self,
        explanation: Explanation,
        *,
        width: float | Sequence[float] | None = None,
        queries: int | None = None,
        max_queries: int | None = None,
        stop: Rule | None = None,
        **options: Unpack[OptionsDict],
    ) -> Explanation:
        """Continue an explanation: what was asked is kept and never asked again.

        ``queries`` and ``max_queries`` count what was already spent.
        """
        _check_explanation("refine", explanation)
        kept: OptionsDict = {"seed": explanation.settings["seed"], "level": explanation.level}
        kept.update(explanation.settings["options"])
        if "prior" in kept:
            kept["prior"] = Prior(*explanation.settings["options"]["prior"])
        kept.update(options)
        return self.explain(
            self.domain.restore(explanation.payload),
            width=width,
            queries=queries,
            max_queries=max_queries,
            stop=stop,
            start=explanation,
            cohort=explanation.settings.get("cohort"),
            **kept,
        )

    def zoom(
        self,
        explanation: Explanation,
        *,
        most: int = 3,
        output: Any = None,
        width: float | Sequence[float] | None = None,
        queries: int | None = None,
        max_queries: int | None = None,
        stop: Rule | None = None,
        **options: Unpack[OptionsDict],
    ) -> Explanation:
        """Go from sentences to words: explain again with the largest parts taken apart.

        For long texts (`Text`): explain sentences first, then ``zoom``. The features of the result
        are the words of the ``most`` parts with the largest importances, and the other parts as
        they were. The queries of ``explanation`` are counted in the result's, in ``queries`` and
        in ``max_queries``; they are not used again, because they say nothing about single words.

        Parameters
        ----------
        explanation
            Of a text, from this explainer.
        most
            How many parts to take apart into words.
        output
            Which output decides; by default the largest importance of any.
        width, queries, max_queries, stop, **options
            As in `explain`.
        """
        _check_explanation("zoom", explanation)
        finer = getattr(self.domain, "zoom", None)
        if finer is None:
            msg = "zoom is for texts, cx.Text(unit='sentence'); the domain of this explainer is "
            msg += f"{type(self.domain).__name__}"
            raise InputError(msg)
        goals, opts = Goals(width, queries, max_queries, stop), self.options.override(options)
        parts = largest_parts(explanation, check_count("most", most), output)
        x = finer(explanation.payload, parts, zoom_note(explanation, parts))
        queue = self._queue(opts)
        run = self._begin(_Case(x), goals, opts, queue, self._context)
        spent, least, plan = explanation.n_queries, run.estimator.minimum, run.plan
        ceiling = plan.ceiling if goals.ceiling[0] is not None else plan.ceiling + spent
        if ceiling < least + spent:
            msg = f"{plan.ceiling_reason}={ceiling} is too few: {spent} are spent, and "
            msg += f"{run.design.d} features take at least {least} more"
            raise BudgetError(msg, minimum=least + spent)
        run.plan = replace(plan, ceiling=ceiling, first_look=plan.first_look + spent)
        run.history = replace(
            run.history,
            n_queries=spent,
            n_model_rows=explanation.n_model_rows,
            model_seconds=explanation.model_seconds,
        )
        *_, last = drive(run, queue)
        return last.explanation

    # -- many instances ------------------------------------------------------------------------

    def explain_many(
        self,
        X: Any,
        *,
        width: float | Sequence[float] | None = None,
        queries: int | None = None,
        max_queries: int | None = None,
        stop: Rule | None = None,
        start: Explanations | None = None,
        cohort: Any = None,
        n_jobs: int = 1,
        workers: str = "auto",
        on_error: str = "raise",
        progress: bool | None = None,
        **options: Unpack[OptionsDict],
    ) -> Explanations:
        """Explain every row of ``X``; the same numbers as one by one, in far fewer model calls.

        Parameters
        ----------
        X
            A frame or 2-D array.
        start
            An interrupted batch to continue.
        cohort
            One cohort for all rows, or one for each.
        n_jobs
            Workers; −1 takes one for each core.
        workers
            ``"processes"`` (cloudpickle carries lambdas), ``"threads"``, or ``"auto"``: processes
            if the model can be pickled and rows do not share their perturbations, else threads.
            The result says which.
        on_error
            ``"raise"``, or ``"record"`` to keep a `Failure` in the row's place.
        progress
            A bar; by default only on a terminal.
        width, queries, max_queries, stop, **options
            As in `explain`, for every row: `WallClock` limits the time of each row, not of the
            batch.
        """
        goals, opts = Goals(width, queries, max_queries, stop), self.options.override(options)
        rows = self.domain.split(X)
        shares = self._kind == "perturbations" and getattr(self.domain, "around", "") == "training"
        return explain_batch(
            _Job(self, rows, _cohorts(cohort, len(rows)), goals, opts),
            start=start,
            n_jobs=n_jobs,
            workers=workers,
            shares_rows=shares,
            on_error=on_error,
            progress=progress,
        )

    def calibrate(self, x: Any = None, *, cohort: Any = None) -> Self:
        """Measure the cost of a query, once, and return an explainer that knows it.

        ``posterior="auto"`` then takes the Gaussian process where fewer queries pay. Asks the
        model for a few coalitions of ``x``; give ``query_seconds=`` yourself to save that.
        """
        queue = self._queue(self.options)
        run = self._begin(_Case(x, cohort), Goals(), self.options, queue, Context())
        queries = min(run.plan.ceiling, max(run.estimator.minimum, CALIBRATION))
        seconds = []
        for _ in range(2):  # the first call of a model is often slow
            e = self.explain(x, queries=queries, cohort=cohort, posterior="linear", sampler="auto")
            seconds.append(e.model_seconds / max(e.n_queries, 1))
        known = copy.copy(self)
        known.options = replace(self.options, query_seconds=max(min(seconds), 1e-9))
        return known

    def verify(
        self,
        X: Any,
        n: int = 50,
        *,
        width: float | Sequence[float] | None = None,
        queries: int | None = None,
        max_queries: int | None = None,
        stop: Rule | None = None,
        progress: bool | None = None,
        **options: Unpack[OptionsDict],
    ) -> Verification:
        """Measure how often the intervals hold on your own model.

        Explains ``n`` rows of ``X`` (chosen by the seed) as asked, then each again exactly if it
        has few enough features, else with twenty times the queries (10,000 at least) of a seed of
        its own, and counts.

        Parameters
        ----------
        X
            Rows to choose from.
        n
            How many rows; all if there are fewer.
        width, queries, max_queries, stop, progress, **options
            As in `explain_many`: the settings to be checked.
        """
        check_count("n", n)
        opts = self.options.override(options)
        rows = self.domain.split(X)
        if not rows:
            msg = "X has no rows to verify on"
            raise InputError(msg)
        rng = spawn(int(opts.seed), Purpose.VERIFIED_ROWS)
        chosen = [rows[i] for i in np.sort(rng.choice(len(rows), min(n, len(rows)), replace=False))]
        found = self.explain_many(
            chosen,
            width=width,
            queries=queries,
            max_queries=max_queries,
            stop=stop,
            progress=progress,
            **opts.as_keywords(),
        )
        reference = [self._reference(x, e, opts) for x, e in zip(chosen, found, strict=True)]
        return compare(found, reference, opts.level)

    def _reference(self, x: Any, e: Explanation, opts: Options) -> Explanation:
        """Explain a row again exactly, or with far more queries of another seed."""
        if e.exact:
            return e
        seed = child(int(opts.seed), Purpose.REFERENCE)
        known = opts.as_keywords() | {"seed": seed, "sampler": "auto"}
        uncertain = int(np.sum(e.belief.deviation.max(axis=1) > 0))
        small = uncertain < 62 and 2**uncertain <= MAX_EXACT
        if small and not opts.noisy and self._kind == "coalitions" and not opts.paper:
            return self.explain(x, **(known | {"posterior": "exact"}))
        queries = max(REFERENCE_FACTOR * e.n_queries, REFERENCE_QUERIES)
        return self.explain(x, queries=queries, **(known | {"posterior": "linear"}))

    # -- from an instance and options to a run -------------------------------------------------

    @abstractmethod
    def _pieces(
        self, nb: Neighbourhood, goals: Goals, options: Options, context: Context, history: History
    ) -> tuple[Design, Estimator, Switch | None, tuple[str, ...]]:
        """Choose design, estimator and, if the estimator may change, a switch; and say why."""

    @abstractmethod
    def _labels(self, nb: Neighbourhood) -> tuple[str, ...]:
        """Return each feature as a condition or with its value."""

    @abstractmethod
    def _units(self, nb: Neighbourhood) -> tuple[str, ...]:
        """Return what one unit of each importance means."""

    def _notes(self, nb: Neighbourhood, options: Options) -> tuple[str, ...]:
        """Return what a reader should know of the data and the link."""
        notes = [f"switched off: {nb.removal}"] if nb.removal else []
        if options.link == "logit":
            clip = f"{LOGIT_CLIP:.0e}".replace("e-0", "e-")
            notes.append(f"in log-odds; probabilities are kept {clip} away from 0 and 1")
        return tuple(notes)

    def _begin(
        self, case: _Case, goals: Goals, options: Options, queue: ModelQueue, context: Context
    ) -> Run:
        """Plan the run of one instance; every check that needs no model happens here."""
        if self.domain.names is not None:  # else instances differ in their features
            goals.check_ranking(len(self.domain.names))
        nb = self._neighbourhood(case)
        history, start = History(), case.start
        if start is not None:
            self._check_instance(nb, start)
            history = start.history
            if options.posterior == "auto" and start.sampler == "focused":
                options = replace(options, posterior="gp")  # a regression needs random pairs
        resolved = self._resolved(options)
        if resolved.prior is not None:
            resolved.prior.check(len(nb.names))
        design, estimator, switch, why = self._pieces(nb, goals, resolved, context, history)
        if start is not None:
            sampler = design.options.sampler
            check_still_random(start.sampler, sampler, design.options.sampler_name)
        cost = None if switch is None else switch.query_seconds
        plan = goals.plan(design, estimator, self._default_ceiling, cost)
        notes = (*why, *self._notes(nb, options))
        run = Run(
            *(design, estimator, plan, history),
            lambda state: self._explanation(run, state, options, notes, case.cohort),
            model=queue.box.token,
            together=queue.is_quick(nb.row_bytes),
            switch=switch,
        )
        return run

    def _explanation(
        self, run: Run, state: State, options: Options, notes: tuple[str, ...], cohort: Any
    ) -> Explanation:
        """Make the explanation of a state."""
        nb, h = run.design.neighbourhood, state.history
        k = 1 if h.full is None else len(h.full)
        estimate = state.estimate or Estimate.unknown(len(nb.names), k)
        if not estimate.exact and fits_exactly(estimate.belief):
            notes = (*notes, *estimate.notes, WITHOUT_REMAINDER)
        else:
            notes = (*notes, *estimate.notes)
        if h.failed_rows:
            notes += (f"{h.failed_rows:,} model rows were sent in calls that failed",)
        instance = Instance(
            names=tuple(nb.names),
            feature_values=tuple(nb.values),
            labels=self._labels(nb),
            units=self._units(nb),
            label=nb.label,
            payload=nb.payload(),
            data_digest=self._digest(nb),
        )
        settings = {
            **self._fingerprint(options),
            "seed": int(options.seed),
            "sampler": run.design.options.sampler_name,
            "cohort": cohort,
            "options": options.stored(),
        }
        return Explanation(
            method=self.method,
            instance=instance,
            outputs=self._box(options.target).output_names(k),
            estimate=estimate,
            history=run.design.without_repeat(h),
            level=state.level,
            seconds=state.seconds,
            stop_reason=state.stop_reason or "running",
            converged=state.converged,
            settings=settings,
            notes=notes,
        )

    def _resolved(self, options: Options) -> Options:
        """Return the options with sampler and prior as objects."""
        prior = options.prior
        if prior is None:
            prior = Prior() if options.paper else self._default_prior
        sampler = resolve_sampler(
            options.sampler, self._default_sampler, posterior=options.posterior
        )
        return replace(options, sampler=sampler, prior=prior)

    def _last(self, case: _Case, goals: Goals, options: Options) -> State:
        """Return the last state of a run."""
        queue = self._queue(options)
        *_, last = drive(self._begin(case, goals, options, queue, self._context), queue)
        return last

    def _queue(self, options: Options, shared: Any = None) -> ModelQueue:
        return ModelQueue(self._box(options.target), self.domain.concat, options.batch_rows, shared)

    def _box(self, target: Any) -> BlackBox:
        """Return the model with this target: the same one each time, which knows its speed."""
        key = (type(target), target)  # 1 and True are not the same target
        try:
            return self._boxes.setdefault(key, self._boxes.get(key) or BlackBox(self.model, target))
        except TypeError:  # not hashable
            return BlackBox(self.model, target)

    def _neighbourhood(self, case: _Case) -> Neighbourhood:
        if case.cohort is None:
            return self.domain.at(case.x)
        if not isinstance(self.domain, Tabular):
            msg = "cohort= works with cx.Tabular only"
            raise InputError(msg)
        return self.domain.at(case.x, cohort=case.cohort)

    # -- continuing ----------------------------------------------------------------------------

    def _started(self, start: Start, options: Options) -> Explanation | None:
        e = start.asked if isinstance(start, Forecast) else start
        if e is None:
            return None
        if not isinstance(e, Explanation):
            msg = f"start must be a Forecast or an Explanation; got {type(e).__name__}"
            raise InputError(msg)
        names = self.domain.names  # None: the instances themselves are compared
        if e.method != self.method or (names is not None and e.names != tuple(names)):
            msg = f"this explanation is a {e.method} of other features; it cannot be gone on from"
            raise InputError(msg)
        for key, value in self._fingerprint(options).items():
            if e.settings.get(key) != value:
                msg = f"this explanation was made with {key}={e.settings.get(key)!r}, "
                msg += f"now it is {value!r}: what was asked does not fit"
                raise InputError(msg)
        return e

    def _check_instance(self, nb: Neighbourhood, start: Explanation) -> None:
        """Raise if ``start`` explains another instance, or was made of other data."""
        if json.dumps(nb.payload(), default=str) != json.dumps(start.payload, default=str):
            msg = "start= is an explanation of another instance; leave it out"
            raise InputError(msg)
        digest = self._digest(nb)
        if start.data_digest is not None and digest is not None and digest != start.data_digest:
            msg = "this explanation was made of other data (rows, weights or bins) than the "
            msg += "explainer has now: what was asked does not fit. Begin anew"
            raise InputError(msg)

    def _digest(self, nb: Neighbourhood) -> str | None:
        """Return the hash of the data behind a table's neighbourhood."""
        found = getattr(nb, "digest", None)
        return None if found is None else str(found(self._kind))

    def _fingerprint(self, o: Options) -> dict[str, Any]:
        """Return what must agree for two runs to share what was asked."""
        target = o.target if o.target is None or isinstance(o.target, str) else int(o.target)
        return {
            "target": target,
            "link": o.link,
            "noisy": o.noisy,
            "recipe": o.recipe,
            "paired": bool(self._resolved(o).sampler.paired),
            "kernel": repr(o.kernel),
        }


@dataclass(frozen=True, eq=False)
class _Job:
    """A batch of an explainer's rows; see `credex.batch.Job`."""

    explainer: Explainer
    rows: Sequence[Any]
    cohorts: Sequence[Any]
    goals: Goals
    options: Options

    def queue(self, shared: Any) -> ModelQueue:
        """Return a queue to the model that keeps shared answers."""
        return self.explainer._queue(self.options, shared)  # noqa: SLF001

    def begin(self, i: int, begun: Explanation | None, queue: ModelQueue) -> Run:
        """Start row ``i``, or continue it from ``begun``."""
        case = _Case(self.rows[i], self.cohorts[i], begun)
        e = self.explainer
        return e._begin(case, self.goals, self.options, queue, e._context)  # noqa: SLF001

    def check_same(self, i: int, done: Explanation) -> None:
        """Raise if ``done`` was not made of row ``i`` and the present data."""
        nb = self.explainer._neighbourhood(_Case(self.rows[i], self.cohorts[i]))  # noqa: SLF001
        if json.dumps(nb.payload(), default=str) != json.dumps(done.payload, default=str):
            msg = f"start= has another row at position {i}: it belongs to another X"
            raise InputError(msg)
        self.explainer._check_instance(nb, done)  # noqa: SLF001


def _cohorts(cohort: Any, n: int) -> list[Any]:
    if cohort is None or isinstance(cohort, str) or not hasattr(cohort, "__len__"):
        return [cohort] * n
    if len(cohort) != n:
        msg = f"cohort has {len(cohort)} entries for {n} rows"
        raise InputError(msg)
    return list(cohort)


def _check_explanation(name: str, e: object) -> None:
    if not isinstance(e, Explanation):
        msg = f"{name} takes an Explanation; got {type(e).__name__}"
        raise InputError(msg)


def fits_exactly(belief: Belief) -> bool:
    """Whether nothing is left over but rounding, although not all importances are zero."""
    largest = float(np.abs(belief.mean).max(initial=0.0))
    return largest > 0 and bool(belief.deviation.max(initial=0.0) <= 1e-6 * largest)


class _Never:
    """A rule that never stops: it makes a fixed budget be looked at on the way."""

    precise = False

    def check(self, look: Any) -> str | None:
        """Go on."""
        del look
        return None
