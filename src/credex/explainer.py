"""The interface of the explainers: explain, forecast, iterate, refine, explain many."""

from __future__ import annotations

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, Unpack

from credex.assemble import Assembly
from credex.batch import Case, drive, explain_batch
from credex.blackbox import BlackBox
from credex.checks import check_count, check_width
from credex.domains import Domain, Neighbourhood, Tabular
from credex.errors import BudgetError, InputError
from credex.explanation import Explanation, Explanations
from credex.goals import Goals
from credex.loop import Plan, Run, State, run
from credex.options import Options, OptionsDict
from credex.posteriors import Prior
from credex.recipes.base import Asked, Context, Recipe, Settings
from credex.samplers import check_still_random
from credex.stopping import Forecast, Rule, Width
from credex.value import Desk
from credex.verify import Verification, verify
from credex.zoom import zoom

CALIBRATION = 32
"""Queries that `Explainer.calibrate` asks, twice, or as many as a fit takes."""

SEED_QUERIES = 200
"""Default number of queries a forecast spends."""

Start = Explanation | Forecast | None


class Explainer(ABC):
    """What `BayesLIME` and `BayesSHAP` have in common. Immutable; safe to share."""

    method: ClassVar[str]
    default_sampler: ClassVar[str]
    default_prior: ClassVar[Prior]
    default_ceiling: ClassVar[int]

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
        self.box = BlackBox(model, self.options.target)
        self._context = Context()  # masks and factorisations of a seed, made once

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without what can be made again."""
        return {k: v for k, v in self.__dict__.items() if k != "_context"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._context = Context()

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
            Ceiling on ``width`` and ``stop``; by default 2,000 (BayesLIME: 5,000). A run that hits
            it has ``converged`` False.
        stop
            A rule, or several joined with ``|``, such as ``RankingSettled(3, 0.95)``.
        start
            A forecast or an explanation of the same instance to go on from.
        cohort
            Background of this cohort only, if the domain has cohorts.
        **options
            Any option of the constructor, for this call only.

        With neither ``width``, ``queries`` nor ``stop``, the run ends when every interval is at
        most 20 % of the largest importance, or at the ceiling. Options, all with defaults:
        ``target``, ``level``, ``posterior``, ``sampler``, ``seed``, ``prior``, ``link``,
        ``noisy``, ``recipe``, ``features``, ``selection`` and more: see `credex.options.Options`.
        """
        goals = Goals(width, queries, max_queries, stop)
        opts = self.options.override(options)
        case = Case(x, cohort, self._started(start, opts))
        last: State | None = None
        for state in self._states(case, goals, opts):
            last = state
        if last is None:  # pragma: no cover - a run ends with a state
            msg = "the run ended without a state"
            raise AssertionError(msg)
        return last.explanation

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
        return self._states(Case(x, cohort, self._started(start, opts)), goals, opts, looks=True)

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

        ``explain(x, width=…, start=forecast)`` goes on from the seed queries.
        """
        limits = Width(check_width(width))
        opts = self.options.override(options)
        goals = Goals(queries=check_count("seed_queries", seed_queries))
        recipe, plan = self.prepare(Case(x, cohort), goals, opts, Context())
        last: State | None = None
        for state in self._drive(recipe, plan, opts):
            last = state
        found = recipe.forecast(limits, opts.level)
        if last is None or found is None:
            msg = f"{seed_queries} seed queries are too few for a forecast"
            raise BudgetError(msg, minimum=recipe.minimum)
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
        """Go on from an explanation: what was asked is kept and never asked again.

        ``queries`` and ``max_queries`` count what was already spent.
        """
        if not isinstance(explanation, Explanation):
            msg = f"refine takes an Explanation; got {type(explanation).__name__}"
            raise InputError(msg)
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
        if not isinstance(explanation, Explanation):
            msg = f"zoom takes an Explanation; got {type(explanation).__name__}"
            raise InputError(msg)
        opts = self.options.override(options)
        recipe, plan = zoom(
            self,
            explanation,
            most,
            output,
            goals=Goals(width, queries, max_queries, stop),
            options=opts,
            context=self._context,
        )
        *_, last = self._drive(recipe, plan, opts)
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
            An interrupted batch to go on from.
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
            As in `explain`.
        """
        return explain_batch(
            self,
            X,
            goals=Goals(width, queries, max_queries, stop),
            start=start,
            cohort=cohort,
            n_jobs=n_jobs,
            workers=workers,
            on_error=on_error,
            progress=progress,
            options=self.options.override(options),
        )

    def calibrate(self, x: Any = None, *, cohort: Any = None) -> Self:
        """Measure what a query costs, once, and return an explainer that knows it.

        ``posterior="auto"`` then takes the Gaussian process where fewer queries pay. Asks the
        model for a few coalitions of ``x``; give ``query_seconds=`` yourself to save that.
        """
        recipe, plan = self.prepare(Case(x, cohort), Goals(), self.options, Context())
        queries = min(plan.ceiling, max(recipe.minimum, CALIBRATION))
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
        has few enough features, else with twenty times the queries (10,000 at least), and counts.

        Parameters
        ----------
        X
            Rows to choose from.
        n
            How many rows; all if there are fewer.
        width, queries, max_queries, stop, progress, **options
            As in `explain_many`: the settings to be checked.
        """
        goals = Goals(width, queries, max_queries, stop)
        opts = self.options.override(options)
        return verify(self, X, n, goals=goals, options=opts, progress=progress)

    # -- for engines: not part of the public contract ------------------------------------------

    def prepare(
        self, case: Case, goals: Goals, options: Options, context: Context
    ) -> tuple[Recipe, Plan]:
        """Look at one instance and plan its run; every check that needs no model happens here."""
        nb = self._neighbourhood(case)
        asked = None
        if case.start is not None:
            own, given = nb.payload(), case.start.payload
            if json.dumps(own, default=str) != json.dumps(given, default=str):
                msg = "start= is an explanation of another instance; leave it out"
                raise InputError(msg)
            asked = case.start.asked
            if options.posterior == "auto" and case.start.sampler == "focused":
                options = replace(options, posterior="gp")  # a regression needs random pairs
        settings, why = self._decided(options, goals, nb)
        if case.start is not None:
            check_still_random(case.start.sampler, settings.sampler, settings.sampler_name)
        settings.prior.means(len(nb.names)), settings.prior.precisions(len(nb.names))
        recipe = self._recipe(nb, settings, context, asked)
        recipe.why = why
        return recipe, goals.plan(recipe, self.default_ceiling)

    def _decided(
        self, options: Options, goals: Goals, nb: Neighbourhood
    ) -> tuple[Settings, tuple[str, ...]]:
        """Settings with ``posterior="auto"`` decided, and why; nothing to say if it was not."""
        del goals, nb
        return self._settings(options), ()

    def begin(
        self, recipe: Recipe, plan: Plan, desk: Desk, options: Options, *, pace: bool, cohort: Any
    ) -> Run:
        """Return the generator of one run."""
        nb = recipe.neighbourhood
        make = Assembly(
            self.method,
            self._labels(nb),
            self._units(nb),
            (*recipe.why, *self._notes(nb, options)),
            recipe,
            desk.box,
            {
                **self._fingerprint(options),
                "seed": recipe.settings.seed,
                "cohort": cohort,
                "options": options.kept(),
            },
        )
        return run(recipe, plan, make, batch_rows=desk.most_rows(nb.row_bytes), pace=pace)

    def desk(self, options: Options, *, sharing: bool = False) -> Desk:
        """Return a desk for the model with these options."""
        same = options.target == self.options.target
        box = self.box if same else BlackBox(self.model, options.target)
        return Desk(box, self.domain, options.batch_rows, sharing=sharing)

    # -- the pieces ----------------------------------------------------------------------------

    @abstractmethod
    def _recipe(
        self, nb: Neighbourhood, settings: Settings, context: Context, asked: Asked | None
    ) -> Recipe: ...

    @abstractmethod
    def _notes(self, nb: Neighbourhood, options: Options) -> tuple[str, ...]: ...

    @abstractmethod
    def _labels(self, nb: Neighbourhood) -> tuple[str, ...]: ...

    @abstractmethod
    def _units(self, nb: Neighbourhood) -> tuple[str, ...]: ...

    def _settings(self, o: Options) -> Settings:
        sampler, name = o.sampler_object(self.default_sampler)
        prior = o.prior
        if prior is None:
            prior = Prior() if o.recipe == "paper" else self.default_prior
        return Settings(
            sampler=sampler,
            sampler_name=name,
            posterior=o.posterior,
            prior=prior,
            seed=int(o.seed),
            level=float(o.level),
            link=o.link,
            noisy=o.noisy,
            recipe=o.recipe,
            robust=o.robust,
            features=o.features,
            selection=o.selection,
            background_uncertainty=o.background_uncertainty,
            kernel=o.kernel,
        )

    def _neighbourhood(self, case: Case) -> Neighbourhood:
        if case.cohort is None:
            return self.domain.at(case.x)
        if not isinstance(self.domain, Tabular):
            msg = "cohort= works with cx.Tabular only"
            raise InputError(msg)
        return self.domain.at(case.x, cohort=case.cohort)

    def _started(self, start: Start, options: Options) -> Explanation | None:
        if isinstance(start, Forecast):
            start = start.asked
        if start is None:
            return None
        if not isinstance(start, Explanation):
            msg = f"start must be a Forecast or an Explanation; got {type(start).__name__}"
            raise InputError(msg)
        self._check_same(start, options)
        return start

    def _check_same(self, e: Explanation, options: Options) -> None:
        names = self.domain.names  # None: `prepare` compares the instances themselves
        if e.method != self.method or (names is not None and e.names != tuple(names)):
            msg = f"this explanation is a {e.method} of other features; it cannot be gone on from"
            raise InputError(msg)
        for key, value in self._fingerprint(options).items():
            if e.settings.get(key) != value:
                msg = f"this explanation was made with {key}={e.settings.get(key)!r}, "
                msg += f"now it is {value!r}: what was asked does not fit"
                raise InputError(msg)

    def _fingerprint(self, o: Options) -> dict[str, Any]:
        """What must agree for two runs to share what was asked."""
        sampler, _ = o.sampler_object(self.default_sampler)
        target = o.target if o.target is None or isinstance(o.target, str) else int(o.target)
        return {
            "target": target,
            "link": o.link,
            "noisy": o.noisy,
            "recipe": o.recipe,
            "paired": bool(sampler.paired),
            "kernel": repr(o.kernel),
        }

    def _states(
        self, case: Case, goals: Goals, options: Options, *, looks: bool = False
    ) -> Iterator[State]:
        recipe, plan = self.prepare(case, goals, options, self._context)
        if looks and plan.fixed:  # somebody wants to watch
            plan = replace(plan, rules=(_Never(),))
        return self._drive(recipe, plan, options, case.cohort)

    def _drive(
        self, recipe: Recipe, plan: Plan, options: Options, cohort: Any = None
    ) -> Iterator[State]:
        desk = self.desk(options)
        return drive(self.begin(recipe, plan, desk, options, pace=True, cohort=cohort), desk)


class _Never:
    """A rule that never stops: it makes a fixed budget be looked at on the way."""

    precise = False

    def check(self, look: Any) -> str | None:
        """Go on."""
        del look
        return None
