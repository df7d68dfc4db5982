"""`Explainer`: batches, forecasts, refinement and checks, for `BayesLIME` and `BayesSHAP`."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from credex.aggregate import Aggregate
from credex.batch import Job, check_jobs, explain_batch
from credex.disk import explain_to_folder
from credex.errors import BudgetError, InputError, check_count, check_positive
from credex.estimators.forecast import Forecast
from credex.explainer_base import Case, on_screen
from credex.explanation import Explanation
from credex.explanations import Explanations
from credex.importance.methods import LossMethods
from credex.importance.plan import plan_portfolio
from credex.options import Options, OptionsDict
from credex.portfolio import Work, blocks_of, dense
from credex.posteriors import Prior
from credex.progress import progress_bar
from credex.run import states
from credex.seeds import Purpose, child, spawn
from credex.stopping import CallDict, Goals, Width, split_call
from credex.verify import (
    MAX_EXACT,
    MAX_EXACT_ROWS,
    REFERENCE_FACTOR,
    REFERENCE_QUERIES,
    Verification,
    compare,
)
from credex.zoom import largest_parts, zoom_note

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Explainer"]

CALIBRATION = 32
"""Queries that `Explainer.calibrate` asks, twice, or as many as a fit takes."""

PARTITION_ROWS = 1_000
"""Rows of one file of a batch on disk: what a job that is killed may lose."""

SEED_QUERIES = 200
"""Default number of queries a forecast spends."""


class Explainer(LossMethods):
    """The interface that `BayesLIME` and `BayesSHAP` share. Immutable; safe to share."""

    def forecast(
        self,
        x: Any = None,
        *,
        width: float | Sequence[float],
        seed_queries: int = SEED_QUERIES,
        row_cost: float | None = None,
        cohort: Any = None,
        **options: Unpack[OptionsDict],
    ) -> Forecast:
        """Spend ``seed_queries`` and say how many more ``width`` takes (perturbations-to-go).

        ``explain(x, width=…, start=forecast)`` continues from the seed queries. With the price
        ``row_cost`` of a model row, the forecast has a ``cost``, too.
        """
        limits = Width(width)
        if row_cost is not None:
            check_positive("row_cost", row_cost)
        opts = self.options.override(options)
        goals = Goals(queries=check_count("seed_queries", seed_queries))
        queue = self._queue(opts)
        run = self._begin(Case(x, cohort), goals, opts, queue)
        *_, last = states(run, queue)
        run.estimator.forecasting = True
        found = run.estimator.forecast(run.history, limits, opts.level)
        if found is None:
            msg = f"{seed_queries} seed queries are too few for a forecast"
            raise BudgetError(msg, minimum=run.estimator.minimum)
        cost = None if row_cost is None else found.model_rows * row_cost
        return replace(found, asked=last.explanation, cost=cost)

    def refine(self, explanation: Explanation, **call: Unpack[CallDict]) -> Explanation:
        """Continue an explanation: what was asked is kept and never asked again.

        Takes the keywords of `explain`; ``queries`` and ``max_queries`` count what was already
        spent.
        """
        check_explanation("refine", explanation)
        kept = _settings(explanation)
        kept.update(call)
        x, cohort = self.domain.restore(explanation.payload), explanation.settings.get("cohort")
        return self.explain(x, start=explanation, cohort=cohort, **kept)

    def _recalled(self, explanation: Explanation) -> Options:
        """Return the options that an explanation was made with."""
        return split_call(_settings(explanation), self.options)[1]

    def zoom(
        self,
        explanation: Explanation,
        *,
        most: int = 3,
        output: Any = None,
        **call: Unpack[CallDict],
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
        **call
            ``width``, ``queries``, ``max_queries``, ``stop`` and options as in `explain`.
        """
        check_explanation("zoom", explanation)
        finer = getattr(self.domain, "zoom", None)
        if finer is None:
            msg = "zoom is for texts, cx.Text(unit='sentence'); the domain of this explainer is "
            msg += f"{type(self.domain).__name__}"
            raise InputError(msg)
        goals, opts = split_call(call, self.options)
        parts = largest_parts(explanation, check_count("most", most), output)
        x = finer(explanation.payload, parts, zoom_note(explanation, parts))
        queue = self._queue(opts)
        run = self._begin(Case(x), goals, opts, queue)
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
        *_, last = states(run, queue)
        return last.explanation

    def explain_many(
        self,
        X: Any,
        *,
        start: Explanations | None = None,
        cohort: Any = None,
        n_jobs: int | None = None,
        workers: str = "auto",
        on_error: str = "raise",
        progress: bool | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        overwrite: bool = False,
        partition_rows: int = PARTITION_ROWS,
        id: str | None = None,  # noqa: A002 - the word for it
        keep: Sequence[str] = (),
        **call: Unpack[CallDict],
    ) -> Any:
        """Explain every row of ``X``; the same numbers as one by one, in far fewer model calls.

        Returns `Explanations`, or with ``out=`` a `SavedBatch`.

        Parameters
        ----------
        X
            A frame, a 2-D array, a sparse matrix (its rows reach the model as dense arrays), a list
            of instances, or an iterator over frames, arrays or instances.
        start
            An interrupted batch to continue.
        cohort
            One cohort for all rows, or one for each.
        n_jobs
            Workers; −1 takes one for each core. By default one, or those of
            ``joblib.parallel_config``, whose backend has the workers then.
        workers
            ``"processes"`` (cloudpickle carries lambdas), ``"threads"``, or ``"auto"``: processes
            if the model can be pickled and rows do not share their perturbations, else threads.
            The result says which.
        on_error
            ``"raise"``, or ``"record"`` to keep a `Failure` in the row's place.
        progress
            A bar; by default only on a terminal.
        out
            Folder for the results, as tidy frames in Parquet files (see `frames` and `SavedBatch`)
            of ``partition_rows`` rows each: memory stays flat, and a job that was stopped loses
            the parts in progress only. Errors are recorded.
        resume, overwrite
            What to do if ``out`` holds a batch: go on with it, if it is of the same model, data and
            settings, or delete it. With neither, that is an error.
        partition_rows, id, keep
            Rows of a part; ids and kept columns as in `frames`. With ``out=`` only.
        **call
            ``width``, ``queries``, ``max_queries``, ``stop`` and options as in `explain`, for
            every row. `WallClock` counts from the start of each row, not of the batch, unless it
            has ``batch=True``; rows that run side by side share the model, so each has fewer
            queries than alone.
        """
        goals, opts = split_call(call, self.options)
        if out is not None:
            if start is not None or workers == "threads" or not _is_one(cohort):
                msg = "out= takes no start= (give resume=True), no workers='threads', one cohort"
                raise InputError(msg)
            return explain_to_folder(
                Work(self, goals, opts, id, tuple(keep), cohort),
                X,
                out,
                resume=resume,
                overwrite=overwrite,
                partition_rows=check_count("partition_rows", partition_rows),
                n_workers=check_jobs(n_jobs),
                progress=progress,
            )
        if resume or overwrite or id is not None or keep:
            raise InputError("resume=, overwrite=, id= and keep= go with out='folder'")
        if hasattr(X, "__next__"):
            blocks = blocks_of(X, PARTITION_ROWS, self.domain)
            rows = [row for block in blocks for row in self.domain.split(dense(block))]
        else:
            rows = self.domain.split(dense(X))
        shares = self._kind == "perturbations" and getattr(self.domain, "around", "") == "training"
        return explain_batch(
            Job(self, rows, _cohorts(cohort, len(rows)), goals, opts),
            start=start,
            n_jobs=n_jobs,
            workers=workers,
            shares_rows=shares,
            on_error=on_error,
            progress=progress,
        )

    def explain_global(
        self,
        X: Any,
        *,
        by: Any = None,
        max_rows: int | None = None,
        progress: bool | None = None,
        **call: Unpack[CallDict],
    ) -> Aggregate:
        """Average importances over the rows of ``X`` with as few model rows as it takes.

        For BayesSHAP on tables. Rows are chosen at random; each is asked a few coalitions of its
        own, a surrogate of the model learns from all of them, and says what it can of the other
        rows. Intervals are about the mean over all rows of ``X``, whatever the surrogate misses
        (see docs/method.md).

        Parameters
        ----------
        X
            The portfolio: a frame, a 2-D array or a list of rows, 10 or more.
        by
            Cohorts that are averaged apart: a column of ``X``, or one label for each row.
        max_rows
            Rows of ``X`` to ask about, at most.
        progress
            A bar of the model rows sent; by default on a terminal only.
        **call
            ``width``: stop when every interval of a mean |φ| (upper − lower) is at most this wide.
            ``stop``: a rule, such as ``RankingSettled(3, 0.95)``, which is about the means of |φ|,
            or ``RelativeWidth(0.1)``. ``queries``: spend this many model rows. ``max_queries``:
            ceiling for the others, 20,000 by default. By default intervals are at most 20 % of the
            largest mean |φ|. And the options ``target``, ``level``, ``seed``, ``link``, ``noisy``,
            ``batch_rows``, ``concurrency``.

        Examples
        --------
        >>> import numpy as np, credex as cx
        >>> X = np.random.default_rng(0).normal(size=(300, 3))
        >>> shap = cx.BayesSHAP(lambda rows: rows @ [3.0, 1.0, 0.0], X[:100])
        >>> found = shap.explain_global(X, queries=300)
        >>> found.order
        [0, 1, 2]
        """
        goals, opts = split_call(call, self.options)
        run = plan_portfolio(self, X, goals, opts, by=by, max_rows=max_rows)
        limit = goals.ceiling[0]
        with progress_bar("explaining", limit, show=on_screen(progress)) as bar:
            run.queue.on_call = bar.update
            return run.run()

    def forecast_global(
        self,
        X: Any,
        *,
        width: float,
        seed_queries: int = 2 * SEED_QUERIES,
        row_cost: float | None = None,
        **options: Unpack[OptionsDict],
    ) -> Forecast:
        """Spend ``seed_queries`` model rows and say how many more `explain_global` takes.

        The surrogate is taken to learn as it did on other tables. From ``low`` to ``high`` is a
        range for what is not known yet: how fast it learns here, and how wide intervals are.
        """
        if row_cost is not None:
            check_positive("row_cost", row_cost)
        opts, limits = self.options.override(options), Width(width)
        goals = Goals(queries=check_count("seed_queries", seed_queries))
        return plan_portfolio(self, X, goals, opts).forecast(limits.width, row_cost)

    def frames(
        self,
        frames: Iterable[Any],
        *,
        id: str | None = None,  # noqa: A002 - the word for it
        keep: Sequence[str] = (),
        cohort: Any = None,
        **call: Unpack[CallDict],
    ) -> Iterator[pd.DataFrame]:
        """Explain frame after frame: each becomes a tidy frame with the columns of `schema`.

        A pure function of the rows: the numbers of a row do not depend on the rows beside it, so
        any engine may divide them (`credex.engines` has adapters), bit by bit the same where the
        model's answers do not depend on its batch, such as those of forests. A row that cannot be
        explained has one line, with its ``error``.

        Parameters
        ----------
        frames
            Iterator over frames, 2-D arrays, sparse matrices or lists of instances.
        id
            Column that identifies a row; by default the index of the frames, or the position in
            the whole input if they have none (or pandas' default one).
        keep
            Further columns that the result repeats, such as a region. Columns of ``id`` and
            ``keep`` that are no features are kept from the model.
        cohort
            As in `explain`.
        **call
            ``width``, ``queries``, ``max_queries``, ``stop`` and options as in `explain`.
        """
        goals, opts = split_call(call, self.options)
        return Work(self, goals, opts, id, tuple(keep), cohort).frames(frames)

    def schema(
        self,
        like: Any = None,
        *,
        id: str | None = None,  # noqa: A002 - the word for it
        keep: Sequence[str] = (),
    ) -> dict[str, str]:
        """Return the columns of the frames of `frames` and their pandas dtypes.

        ``row`` (the id), the columns of ``keep``, then ``output``, ``feature``, ``value`` (NaN if
        it is no number), ``value_text``, ``estimate``, ``lower``, ``upper``, ``prob_positive``,
        ``rank_low``, ``rank_high``, ``base_value``, ``prediction``, ``n_queries``, ``converged``,
        ``stop_reason`` and ``error``. Give an example of the rows, ``like``, to learn the dtypes of
        ids and kept columns; without one ids are whole numbers and kept columns texts.
        """
        work = Work(self, Goals(), self.options, id, tuple(keep))
        return work.schema if like is None else work.of_type(like).schema

    def calibrate(self, x: Any = None, *, cohort: Any = None, progress: bool | None = None) -> Self:
        """Measure the cost of a query, once, and return an explainer that knows it.

        ``posterior="auto"`` then takes the Gaussian process where fewer queries pay. Asks the
        model twice for 32 perturbations of ``x``, more if a fit takes more; a bar (``progress``; by
        default on a terminal only) says how many model rows that is, before they are asked. Give
        ``query_seconds=`` yourself to save them.
        """
        run = self._begin(Case(x, cohort), Goals(), self.options, self._queue(self.options))
        queries = min(run.plan.ceiling, max(run.estimator.minimum, CALIBRATION))
        seconds, rows = [], 2 * queries * run.design.rows_per_query
        with progress_bar("measuring the cost of a query", rows, show=on_screen(progress)) as bar:
            for _ in range(2):  # the first call of a model is often slow
                e = self.explain(
                    x, queries=queries, cohort=cohort, posterior="linear", sampler="auto"
                )
                seconds.append(e.model_seconds / max(e.n_queries, 1))
                bar.update(e.n_model_rows)
        known = copy.copy(self)
        known.options = replace(self.options, query_seconds=max(min(seconds), 1e-9))
        return known

    def verify(
        self, X: Any, n: int = 50, *, progress: bool | None = None, **call: Unpack[CallDict]
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
        progress, **call
            As in `explain_many`: the settings to be checked.
        """
        check_count("n", n)
        _, opts = split_call(call, self.options)
        rows = self.domain.split(X)
        if not rows:
            raise InputError("X has no rows to verify on")
        rng = spawn(int(opts.seed), Purpose.VERIFIED_ROWS)
        chosen = [rows[i] for i in np.sort(rng.choice(len(rows), min(n, len(rows)), replace=False))]
        found = self.explain_many(chosen, progress=progress, **call)
        reference = [self._reference(x, e, opts) for x, e in zip(chosen, found, strict=True)]
        return compare(found, reference, opts.level)

    def _reference(self, x: Any, e: Explanation, opts: Options) -> Explanation:
        """Explain a row again, exactly or with another seed and far more queries."""
        if e.exact:
            return e
        seed = child(int(opts.seed), Purpose.REFERENCE)
        known = opts.as_keywords() | {"seed": seed, "sampler": "auto"}
        uncertain = int(np.sum(e.belief.deviation.max(axis=1) > 0))
        rows = len(self._neighbourhood(Case(x, e.settings.get("cohort"))).background_weights)
        small = uncertain < 62 and 2**uncertain <= min(MAX_EXACT, MAX_EXACT_ROWS // rows)
        if small and not opts.noisy and self._kind == "coalitions" and not opts.literal:
            return self.explain(x, **(known | {"posterior": "exact"}))
        if opts.published is not None and e.history.kept is not None:
            names = tuple(np.array(e.names, dtype=object)[e.history.kept])
            known["recipe"] = replace(opts.published, features=names)
        queries = max(REFERENCE_FACTOR * e.n_queries, REFERENCE_QUERIES)
        return self.explain(x, queries=queries, **(known | {"posterior": "linear"}))


def _is_one(cohort: Any) -> bool:
    return cohort is None or isinstance(cohort, str) or not hasattr(cohort, "__len__")


def _cohorts(cohort: Any, n: int) -> list[Any]:
    if _is_one(cohort):
        return [cohort] * n
    if len(cohort) != n:
        raise InputError(f"cohort has {len(cohort)} entries for {n} rows")
    return list(cohort)


def _settings(explanation: Explanation) -> CallDict:
    """Return the options of an explanation as keywords of `Explainer.explain`."""
    kept: CallDict = {"seed": explanation.settings["seed"], "level": explanation.level}
    kept.update(explanation.settings["options"])
    if "prior" in kept:
        kept["prior"] = Prior(*explanation.settings["options"]["prior"])
    return kept


def check_explanation(name: str, e: object) -> None:
    """Raise if ``e`` is no explanation."""
    if not isinstance(e, Explanation):
        raise InputError(f"{name} takes an Explanation; got {type(e).__name__}")
