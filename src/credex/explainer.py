"""The interface of the explainers: explain, forecast, iterate, refine, explain many."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, Unpack

from credex.batch import Case, explain_batch
from credex.checks import check_count, check_width
from credex.engine import Engine, Start
from credex.errors import BudgetError, InputError
from credex.estimators.base import Context
from credex.explanation import Explanation
from credex.explanations import Explanations
from credex.goals import Goals
from credex.loop import State
from credex.options import OptionsDict
from credex.posteriors import Prior
from credex.stopping import Forecast, Rule, Width
from credex.verify import Verification, verify
from credex.zoom import zoom

CALIBRATION = 32
"""Queries that `Explainer.calibrate` asks, twice, or as many as a fit takes."""

SEED_QUERIES = 200
"""Default number of queries a forecast spends."""


class Explainer(Engine):
    """What `BayesLIME` and `BayesSHAP` have in common. Immutable; safe to share."""

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
        goals = Goals.of(width, queries, max_queries, stop)
        opts = self.options.override(options)
        case = Case(x, cohort, None if start is None else self._started(start, opts))
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
