"""`BayesLIME` and `BayesSHAP`: the pieces that belong together, behind one interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Unpack

import numpy as np

from credex import show
from credex.batch import drive, explain_batch
from credex.blackbox import BlackBox
from credex.domains import Domain, Neighbourhood, Tabular
from credex.errors import BudgetError, InputError
from credex.explanation import Explanation, Explanations
from credex.loop import Plan, Run, State, run
from credex.options import Options, OptionsDict
from credex.posteriors import Belief, ErrorPosterior, Prior
from credex.posteriors.shapley import FLAT
from credex.recipes.base import Asked, Context, Fitted, Recipe, Settings
from credex.recipes.shapley import ShapleyRecipe
from credex.recipes.surrogate import SurrogateRecipe
from credex.stopping import (
    AnyOf,
    Forecast,
    RelativeWidth,
    Rule,
    Width,
    check_count,
    check_width,
)
from credex.value import BATCH_BYTES, Desk

RELATIVE_WIDTH = 0.2
"""Default precision: every interval at most this share of the largest importance."""

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
        self._settings(self.options)  # fails now rather than at the first explanation

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
            Ceiling on ``width`` and ``stop``.
        stop
            A rule, or several joined with ``|``, such as ``RankingSettled(3, 0.95)``.
        start
            A forecast or an explanation of the same instance to go on from.
        cohort
            Background of this cohort only, if the domain has cohorts.
        **options
            Any option of the constructor, for this call only.

        With neither ``width``, ``queries`` nor ``stop``, the run ends when every interval is at
        most 20 % of the largest importance, or at 2,000 queries (BayesLIME: 5,000).
        """
        opts = self.options.override(options)
        last: State | None = None
        for state in self._states(x, width, queries, max_queries, stop, start, cohort, opts):
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
        opts = self.options.override(options)
        return self._states(x, width, queries, max_queries, stop, start, cohort, opts, looks=True)

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
        check_count("seed_queries", seed_queries)
        context = Context()
        recipe, plan = self._prepared(x, None, seed_queries, None, None, None, cohort, opts, context)
        last: State | None = None
        for state in self._drive(recipe, plan, opts, x, cohort):
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
        self._check_same(explanation)
        kept: dict[str, Any] = {"seed": explanation.settings["seed"], "level": explanation.level}
        kept.update(options)
        x = self.domain.restore(explanation.payload)
        return self.explain(
            x,
            width=width,
            queries=queries,
            max_queries=max_queries,
            stop=stop,
            start=explanation,
            cohort=explanation.settings.get("cohort"),
            **kept,
        )

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
        opts = self.options.override(options)
        self._rules(width, queries, max_queries, stop)
        return explain_batch(
            self,
            X,
            goals={"width": width, "queries": queries, "max_queries": max_queries, "stop": stop},
            start=start,
            cohort=cohort,
            n_jobs=n_jobs,
            workers=workers,
            on_error=on_error,
            progress=progress,
            options=opts,
        )

    # -- the pieces ----------------------------------------------------------------------------

    @abstractmethod
    def _recipe(
        self, nb: Neighbourhood, settings: Settings, context: Context, asked: Asked | None
    ) -> Recipe: ...

    def _settings(self, o: Options) -> Settings:
        sampler, name = o.sampler_object(self.default_sampler)
        return Settings(
            sampler=sampler,
            sampler_name=name,
            posterior=o.posterior,  # type: ignore[arg-type]
            prior=self._prior(o),
            seed=int(o.seed),
            level=float(o.level),
            link=o.link,  # type: ignore[arg-type]
            noisy=o.noisy,
            recipe=o.recipe,  # type: ignore[arg-type]
            robust=o.robust,
            features=o.features,
            selection=o.selection,
            background_uncertainty=o.background_uncertainty,
            kernel=o.kernel,
        )

    def _prior(self, o: Options) -> Prior:
        if o.prior is not None:
            return o.prior
        return Prior() if o.recipe == "paper" else self.default_prior

    def _rules(
        self,
        width: float | Sequence[float] | None,
        queries: int | None,
        max_queries: int | None,
        stop: Rule | None,
    ) -> tuple[tuple[Rule, ...], int | None, str]:
        rules: list[Rule] = []
        if width is not None:
            rules.append(Width(check_width(width)))
        if stop is not None:
            if not isinstance(stop, Rule):
                msg = f"stop must be a rule such as RankingSettled(3, 0.95); got {stop!r}"
                raise InputError(msg)
            rules += list(stop.rules) if isinstance(stop, AnyOf) else [stop]
        ceiling, reason = None, "ceiling"
        for name, value in (("queries", queries), ("max_queries", max_queries)):
            if value is not None:
                count = check_count(name, value)
                if ceiling is None or count < ceiling:
                    ceiling, reason = count, name
        if not rules and queries is None:
            rules.append(RelativeWidth(RELATIVE_WIDTH))
        return tuple(rules), ceiling, reason

    def _prepared(
        self,
        x: Any,
        width: float | Sequence[float] | None,
        queries: int | None,
        max_queries: int | None,
        stop: Rule | None,
        start: Start,
        cohort: Any,
        opts: Options,
        context: Context,
    ) -> tuple[Recipe, Plan]:
        rules, ceiling, reason = self._rules(width, queries, max_queries, stop)
        settings = self._settings(opts)
        nb = self._neighbourhood(x, cohort)
        recipe = self._recipe(nb, settings, context, self._started(start))
        least = recipe.minimum
        if settings.sampler_name == "exhaustive":
            least = int(min(recipe.everything, 2**62))
            if not np.isfinite(recipe.everything):
                msg = "sampler='exhaustive' needs masks and a model without noise"
                raise InputError(msg)
        if ceiling is not None and ceiling < least:
            what = "to enumerate them all" if settings.sampler_name == "exhaustive" else ""
            what = what or "with the linear posterior"
            msg = f"{reason}={ceiling} is too few for {recipe.d} features {what}: "
            msg += f"it takes at least {least}"
            raise BudgetError(msg, minimum=least)
        if ceiling is None:
            ceiling = max(self.default_ceiling, 4 * recipe.minimum)
            if settings.sampler_name == "exhaustive":
                ceiling = least
        seeds = min(max(64, 4 * (recipe.d + 2)), ceiling)
        return recipe, Plan(rules, ceiling, reason, max(seeds, min(least, ceiling)))

    def _neighbourhood(self, x: Any, cohort: Any) -> Neighbourhood:
        if cohort is None:
            return self.domain.at(x)
        if not isinstance(self.domain, Tabular):
            msg = "cohort= works with cx.Tabular only"
            raise InputError(msg)
        return self.domain.at(x, cohort=cohort)

    def _started(self, start: Start) -> Asked | None:
        if isinstance(start, Forecast):
            start = start.asked
        if start is None:
            return None
        if not isinstance(start, Explanation):
            msg = f"start must be a Forecast or an Explanation; got {type(start).__name__}"
            raise InputError(msg)
        self._check_same(start)
        return start.asked

    def _check_same(self, e: Explanation) -> None:
        own = self._fingerprint(self.options)
        if e.method != self.method or e.names != tuple(self.domain.names):
            msg = f"this explanation is a {e.method} of other features; it cannot be gone on from"
            raise InputError(msg)
        for key, value in own.items():
            if e.settings.get(key) != value:
                msg = f"this explanation was made with {key}={e.settings.get(key)!r}, "
                msg += f"the explainer has {value!r}: what was asked does not fit"
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
        self,
        x: Any,
        width: float | Sequence[float] | None,
        queries: int | None,
        max_queries: int | None,
        stop: Rule | None,
        start: Start,
        cohort: Any,
        opts: Options,
        *,
        looks: bool = False,
    ) -> Iterator[State]:
        recipe, plan = self._prepared(
            x, width, queries, max_queries, stop, start, cohort, opts, Context()
        )
        if looks and plan.fixed:  # somebody wants to watch
            plan = replace(plan, rules=(_Never(),))
        return self._drive(recipe, plan, opts, x, cohort)

    def _drive(
        self, recipe: Recipe, plan: Plan, opts: Options, x: Any, cohort: Any
    ) -> Iterator[State]:
        desk = self._desk(opts)
        return drive(self._run(recipe, plan, desk, opts, cohort, pace=True), desk)

    def _run(
        self, recipe: Recipe, plan: Plan, desk: Desk, opts: Options, cohort: Any, *, pace: bool
    ) -> Run:
        make = self._maker(recipe, desk.box, opts, cohort)
        return run(recipe, plan, make, batch_rows=desk.batch_rows, pace=pace)

    def _desk(self, opts: Options) -> Desk:
        box = self.box if opts.target == self.options.target else BlackBox(self.model, opts.target)
        columns = len(getattr(self.domain, "column_names", self.domain.names))
        rows = opts.batch_rows or max(BATCH_BYTES // (8 * max(columns, 1)), 256)
        return Desk(box, self.domain, rows)

    def _maker(
        self, recipe: Any, box: BlackBox, opts: Options, cohort: Any
    ) -> Callable[[State], Explanation]:
        def make(state: State) -> Explanation:
            return self._explanation(recipe, state, box, opts, cohort)

        return make

    def _explanation(
        self, recipe: Any, state: State, box: BlackBox, opts: Options, cohort: Any
    ) -> Explanation:
        nb, a, s = recipe.neighbourhood, recipe.asked, recipe.settings
        d = len(nb.names)
        k = 1 if a.full is None else len(a.full)
        unknown = np.full(k, np.nan)
        full = unknown if a.full is None else a.full
        f = state.fitted or _nothing(d, k)
        settings = {**self._fingerprint(opts), "seed": s.seed, "cohort": cohort}
        return Explanation(
            method=self.method,
            names=tuple(nb.names),
            values=tuple(nb.values),
            labels=self._labels(nb),
            units=self._units(nb),
            outputs=box.output_names(k),
            squeeze=k == 1,
            belief=f.belief,
            base=f.intercept if a.base is None else a.base,
            full=full,
            intercepts=f.intercept,
            local=f.local_prediction,
            error_posterior=f.error,
            r2s=f.r2,
            selected=f.selected,
            level=state.level,
            n_queries=state.n_queries,
            n_model_rows=state.n_model_rows,
            seconds=state.seconds,
            model_seconds=a.model_seconds,
            stop_reason=state.stop_reason or "running",
            converged=state.converged,
            exact=f.exact,
            posterior=f.posterior,
            sampler=s.sampler_name,
            recipe=s.recipe,
            notes=self._notes(nb, opts) + f.notes,
            label=nb.label,
            payload=nb.payload(),
            settings=settings,
            asked=a,
        )

    @abstractmethod
    def _notes(self, nb: Neighbourhood, opts: Options) -> tuple[str, ...]: ...

    def _labels(self, nb: Neighbourhood) -> tuple[str, ...]:
        return tuple(nb.feature_labels)

    def _units(self, nb: Neighbourhood) -> tuple[str, ...]:
        return tuple(nb.unit)


class _Never:
    """A rule that never stops: it makes a fixed budget be looked at on the way."""

    precise = False

    def check(self, look: Any) -> str | None:
        """Go on."""
        del look
        return None


class BayesSHAP(Explainer):
    """Shapley values with credible intervals (the paper's BayesSHAP, made honest).

    Parameters
    ----------
    model
        A callable, or anything with ``predict_proba``, else ``predict``.
    data
        Background: a frame, an array, or a domain (`Tabular`, `Masks`, …).
    groups
        Columns that are switched on and off together, if ``data`` is a frame or array.
    **options
        Defaults for every call, see `credex.options.Options`.

    Examples
    --------
    >>> import credex as cx
    >>> def v(masks):  # a game of three players
    ...     return masks @ [1.0, 2.0, 3.0] + masks[:, 0] * masks[:, 1]
    >>> e = cx.BayesSHAP(v, cx.Masks(3)).explain()
    >>> e.mean
    array([1.5, 2.5, 3. ])
    >>> e.stop_reason
    'exact'
    """

    method = "BayesSHAP"
    default_sampler = "paired"
    default_prior = FLAT
    default_ceiling = 2_000

    def _recipe(
        self, nb: Neighbourhood, settings: Settings, context: Context, asked: Asked | None
    ) -> Recipe:
        return ShapleyRecipe(nb, settings, context, asked)

    def _labels(self, nb: Neighbourhood) -> tuple[str, ...]:
        if nb.by_masks:
            return tuple(nb.names)
        return tuple(f"{n} = {show.value(v)}" for n, v in zip(nb.names, nb.values, strict=True))

    def _units(self, nb: Neighbourhood) -> tuple[str, ...]:
        return ("change of the prediction",) * len(nb.names)

    def _notes(self, nb: Neighbourhood, opts: Options) -> tuple[str, ...]:
        notes = [f"background: {nb.background_note}"] if nb.background_note else []
        if opts.link == "logit":
            notes.append("in log-odds; probabilities are kept 1e-6 away from 0 and 1")
        if opts.background_uncertainty:
            notes.append("intervals include the choice of the background rows")
        return tuple(notes)


class BayesLIME(Explainer):
    """A linear surrogate around the instance with credible intervals (the paper's BayesLIME).

    Parameters
    ----------
    model
        A callable, or anything with ``predict_proba``, else ``predict``.
    data
        Training data: a frame, an array, or a domain (`Tabular` with its ``bins``, `Masks`, …).
    groups
        Columns that are perturbed together, if ``data`` is a frame or array.
    **options
        Defaults for every call, see `credex.options.Options`.

    Examples
    --------
    >>> import credex as cx
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> lime = cx.BayesLIME(lambda X: X[:, 0] - 2 * X[:, 1], X)
    >>> e = lime.explain([1.0, 1.0, 1.0], queries=500)
    >>> e.top(1)
    ['x1']
    """

    method = "BayesLIME"
    default_sampler = "random"
    default_prior = Prior()
    default_ceiling = 5_000

    def _recipe(
        self, nb: Neighbourhood, settings: Settings, context: Context, asked: Asked | None
    ) -> Recipe:
        return SurrogateRecipe(nb, settings, context, asked)

    def _notes(self, nb: Neighbourhood, opts: Options) -> tuple[str, ...]:
        del nb
        if opts.link == "logit":
            return ("in log-odds; probabilities are kept 1e-6 away from 0 and 1",)
        return ()


def _nothing(d: int, k: int) -> Fitted:
    """What is known before the first fit: nothing."""
    unknown = np.full(k, np.nan)
    scale = np.zeros((d, d, k))
    scale[np.arange(d), np.arange(d)] = np.inf
    return Fitted(
        Belief(np.full((d, k), np.nan), scale, 1.0),
        ErrorPosterior(1.0, np.full(k, np.inf)),
        unknown,
        exact=False,
        posterior="none yet",
        intercept=unknown,
        local_prediction=unknown,
        selected=np.ones((d, k), dtype=np.bool_),
    )
