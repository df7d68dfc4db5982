"""`ExplainerBase`: from an instance and options to a run, and from its state to an explanation."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from credex.auto import DEAR_LOOK
from credex.blackbox import BlackBox
from credex.designs.design import LOGIT_CLIP, Context, Design
from credex.designs.samplers import Focused, Sampler, check_still_random, resolve_sampler
from credex.domains import Domain, Neighbourhood, Tabular
from credex.errors import InputError
from credex.estimators.base import Estimate, Estimator
from credex.estimators.forecast import Forecast
from credex.estimators.process_shapley import Switch
from credex.explanation import Explanation
from credex.explanation_base import Instance
from credex.history import History
from credex.model_queue import ModelQueue
from credex.options import Options, OptionsDict
from credex.posteriors import Belief, Prior
from credex.run import Run, State, states
from credex.stopping import AnyOf, CallDict, Goals, Rule, split_call

__all__ = ["Case", "ExplainerBase", "Start"]

WITHOUT_REMAINDER = "all that was asked adds up without a remainder; what was not asked need not"
"""Note on intervals without width that are not exact: a rare interaction would not show."""

Start = Explanation | Forecast | None
"""What a run may continue."""


@dataclass(slots=True, eq=False)
class Case:
    """One instance to explain, its cohort, and the explanation to continue from."""

    x: Any
    cohort: Any = None
    start: Explanation | None = None


class ExplainerBase(ABC):
    """Explains one instance; `credex.explainer.Explainer` adds the methods built on that."""

    method: ClassVar[str]
    _kind: ClassVar[Literal["coalitions", "perturbations"]]
    _default_sampler: ClassVar[str]
    _default_prior: ClassVar[Prior]
    _default_ceiling: ClassVar[int]
    _last_resolved: tuple[Options | None, Options] = (None, Options())

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
        return f"<{self.method} of {self._model_name} on {type(self.domain).__name__}>"

    @property
    def _model_name(self) -> str:
        """Name of the model's class, or of the function that it is."""
        return str(getattr(self.model, "__name__", type(self.model).__name__))

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
        progress: bool | None = None,
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
        progress
            A bar of the model rows sent; by default in a terminal or a notebook, and only if it
            takes more than a second.
        **options
            Any option of the constructor, for this call only: ``target``, ``level``,
            ``posterior``, ``sampler``, ``seed``, ``prior``, ``link``, ``noisy``, ``recipe``,
            ``robust``, ``features``, ``selection``, ``kernel``, ``background_uncertainty``,
            ``batch_rows``, ``query_seconds``, ``concurrency``; see `credex.options.Options`.

        Notes
        -----
        With neither ``width``, ``queries`` nor ``stop``, the run ends when every interval is at
        most 20 % of the largest importance, or at the ceiling.
        """
        goals = Goals(width, queries, max_queries, stop)
        opts = self.options.override(options)
        queue = self._queue(opts)
        case = Case(x, cohort, self._started(start, opts))
        run = self._begin(case, goals, opts, queue)
        if on_screen(progress):
            from credex.progress import watch

            return watch(run, queue, at_once=progress is True)
        *_, last = states(run, queue)
        return last.explanation

    def iterate(
        self, x: Any = None, *, start: Start = None, cohort: Any = None, **call: Unpack[CallDict]
    ) -> Iterator[State]:
        """Yield a frozen state at every look; the last one has a ``stop_reason``.

        Takes the keywords of `explain`. Break whenever you like: ``state.explanation`` is complete
        at each step.
        """
        return states(*self._watched(x, start, cohort, call))

    def _watched(
        self, x: Any, start: Start, cohort: Any, call: Mapping[str, Any]
    ) -> tuple[Run, ModelQueue]:
        """Begin a run whose states somebody wants to see."""
        goals, opts = split_call(call, self.options)
        queue = self._queue(opts)
        run = self._begin(Case(x, cohort, self._started(start, opts)), goals, opts, queue)
        if not run.plan.rules:  # look on the way, by a rule without effect
            run.plan = replace(run.plan, rules=(AnyOf(()),))
            run.estimator.sequential = True
        return run, queue

    # -- what the two methods differ in --------------------------------------------------------

    @abstractmethod
    def _pieces(
        self,
        nb: Neighbourhood,
        goals: Goals,
        options: Options,
        history: History,
        *,
        in_turn: bool,
    ) -> tuple[Design, Estimator, Switch | None, tuple[str, ...]]:
        """Return design, estimator, a switch if the estimator may change, and notes on why.

        ``in_turn``: each query has one of several background rows.
        """

    def _in_turn(self, nb: Neighbourhood, options: Options) -> bool:
        """Whether each query has one of several background rows."""
        del nb, options
        return False

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
        elif options.link == "log":
            notes.append("in logarithms: exp(importance) is a factor of the prediction")
        return tuple(notes)

    # -- from an instance to a run and its explanation -----------------------------------------

    def _begin(self, case: Case, goals: Goals, options: Options, queue: ModelQueue) -> Run:
        """Plan the run of one instance; every check that needs no model happens here."""
        if self.domain.names is not None:  # else instances differ in their features
            goals.check_ranking(len(self.domain.names))
        nb, limits = self._neighbourhood(case), goals.stored()
        history, start = History(model=queue.box.token), case.start
        if start is not None:
            other = "start= is an explanation of another instance; leave it out"
            self._check_instance(nb, start, other)
            history = start.history
            if start.exact:
                goals = Goals()  # nothing is left to ask
            if options.posterior == "auto" and start.sampler == "focused":
                options = replace(options, posterior="gp")  # a regression needs random pairs
        resolved = self._resolved(options)
        if options.prior is not None:
            prior = options.prior.named(nb.names)
            if prior is not options.prior:
                resolved = replace(resolved, prior=prior)
        design, estimator, switch, why = self._pieces(
            nb, goals, resolved, history, in_turn=self._in_turn(nb, options)
        )
        if start is not None:
            chosen = design.options
            check_still_random(start.sampler, chosen.sampler, chosen.sampler_name)
        dear = switch is not None and switch.query_seconds >= DEAR_LOOK
        plan = goals.plan(design, estimator.minimum, self._default_ceiling, dear=dear)
        notes = (*why, *self._notes(nb, options))
        return Run(
            design,
            estimator,
            plan,
            history,
            lambda state: self._explanation(state, options, notes, case.cohort, limits),
            model=queue.box.token,
            together=queue.is_quick(nb.row_bytes),
            switch=switch,
        )

    def _explanation(
        self,
        state: State,
        options: Options,
        notes: tuple[str, ...],
        cohort: Any,
        limits: dict[str, Any],
    ) -> Explanation:
        """Make the explanation of a state; ``limits`` are the goals of the call."""
        design, h = state.design, state.history
        nb = design.neighbourhood
        k = 1 if h.full is None else len(h.full)
        estimate = state.estimate or Estimate.unknown(len(nb.names), k)
        notes += estimate.notes
        if not estimate.exact and fits_exactly(estimate.belief):
            notes += (WITHOUT_REMAINDER,)
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
            "model": self._model_name,
            "seed": int(options.seed),
            "sampler": design.options.sampler_name,
            "paired": bool(design.options.sampler.paired),
            "cohort": cohort,
            "limits": limits,
            "options": options.stored(),
        }
        return Explanation(
            method=self.method,
            instance=instance,
            outputs=self._box(options.target).output_names(k),
            estimate=estimate,
            history=design.without_repeat(h),
            level=state.level,
            seconds=state.seconds,
            stop_reason=state.stop_reason or "running",
            converged=state.converged,
            settings=settings,
            notes=notes,
        )

    def _resolved(self, options: Options) -> Options:
        """Return the options with sampler and prior as objects."""
        before, resolved = self._last_resolved
        if before is not options:
            prior = options.prior
            if prior is None:
                prior = Prior() if options.literal else self._default_prior
            resolved = replace(options, sampler=self._sampler(options), prior=prior)
            self._last_resolved = options, resolved
        return resolved

    def _sampler(self, o: Options) -> Sampler:
        default = self._default_sampler if o.published is None else "random"
        return resolve_sampler(o.sampler, default, posterior=o.posterior)

    def _queue(self, options: Options, shared: Any = None) -> ModelQueue:
        about = self._box(options.target), self.domain.concat, options.batch_rows, shared
        if options.concurrency > 1:
            from credex.concurrent_queue import ConcurrentQueue

            return ConcurrentQueue(int(options.concurrency), *about)
        return ModelQueue(*about)

    def _box(self, target: Any) -> BlackBox:
        """Return the model with this target: the same one each time, which knows its speed."""
        key = (type(target), repr(target))  # 1 and True are not the same target
        if key not in self._boxes:
            self._boxes.setdefault(key, BlackBox(self.model, target))
        return self._boxes[key]

    def _neighbourhood(self, case: Case) -> Neighbourhood:
        if case.cohort is None:
            return self.domain.at(case.x)
        if not isinstance(self.domain, Tabular):
            raise InputError("cohort= works with cx.Tabular only")
        return self.domain.at(case.x, cohort=case.cohort)

    # -- continuing ----------------------------------------------------------------------------

    def _started(self, start: Start, options: Options) -> Explanation | None:
        """Return the explanation to continue, if it was made by the same kind of run."""
        e = start.asked if isinstance(start, Forecast) else start
        if e is None:
            return None
        if not isinstance(e, Explanation):
            raise InputError(f"start must be a Forecast or an Explanation; got {type(e).__name__}")
        names = self.domain.names  # None: the instances themselves are compared
        if e.method != self.method or (names is not None and e.names != tuple(names)):
            msg = f"this explanation is a {e.method} of other features; it cannot be continued"
            raise InputError(msg)
        adapts = isinstance(self._sampler(options), Focused)  # pairs or not, as the run began
        for key, value in self._fingerprint(options).items():
            if e.settings.get(key) != value and not (key == "paired" and adapts):
                msg = f"this explanation was made with {key}={e.settings.get(key)!r}, "
                msg += f"now it is {value!r}: what was asked does not fit"
                raise InputError(msg)
        return e

    def _check_instance(self, nb: Neighbourhood, start: Explanation, other: str) -> None:
        """Raise if ``start`` explains another instance (``other`` says so), or other data."""
        if json.dumps(nb.payload(), default=str) != json.dumps(start.payload, default=str):
            raise InputError(other)
        digest = self._digest(nb)
        if start.data_digest is not None and digest is not None and digest != start.data_digest:
            msg = "this explanation was made of other data (rows, weights or bins) than the "
            msg += "explainer has now: what was asked does not fit. Explain it anew"
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
            "recipe": str(o.recipe),
            "paired": bool(self._resolved(o).sampler.paired),
            "kernel": repr(o.kernel),
        }


def on_screen(progress: bool | None) -> bool:  # noqa: FBT001 - the user's option, as it came
    """Whether progress is to be shown: as asked, else in a notebook and on a terminal."""
    if progress is not None:
        return bool(progress)
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


def fits_exactly(belief: Belief) -> bool:
    """Whether the intervals have no width but rounding, although some importance is not zero."""
    largest = float(np.abs(belief.mean).max(initial=0.0))
    variance = belief.scale.diagonal().max(initial=0.0)
    return largest > 0 and bool(variance <= (1e-6 * largest) ** 2)
