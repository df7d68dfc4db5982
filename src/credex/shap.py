"""`BayesSHAP`: Shapley values with credible intervals."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from credex import cells
from credex.auto import choose_for_rows, choose_posterior
from credex.designs.background import BackgroundDesign
from credex.designs.coalitions import CoalitionDesign
from credex.designs.design import Design, coalitions_of
from credex.designs.repeating import ShapleyRepeatingDesign
from credex.designs.samplers import Focused, Paired
from credex.domains import Neighbourhood, Tabular
from credex.domains.tabular.neighbourhood import TabularNeighbourhood
from credex.errors import InputError, check_count
from credex.estimators.background import BackgroundEstimator
from credex.estimators.base import CustomEstimator, Estimator
from credex.estimators.interactions import estimate_pairs
from credex.estimators.process_shapley import CoalitionProcess, PairProcess, Switch
from credex.estimators.shapley import ShapleyEstimator
from credex.estimators.surrogate import SurrogateEstimator
from credex.explainer import Explainer, check_explanation
from credex.explainer_base import Case
from credex.explanation import Explanation
from credex.history import History
from credex.interactions import Interactions
from credex.options import Options
from credex.posteriors.assisted import InputSpace
from credex.posteriors.shapley import FLAT
from credex.posteriors.warmed import Warmed
from credex.seeds import Purpose, one_blas_thread, spawn
from credex.stopping import Goals
from credex.typing import Native

__all__ = ["BayesSHAP"]

MANY_PLAYERS = 25
"""Players from which the focused sampler asks d − 1 pairs rather than twice as many single
coalitions. On the nine games of 24 to 100 players in benchmarks/kernel_games.py errors at 2d
queries are 0.2 to 1.5 times as large so (geometric mean 0.7), on the fourteen of 9 to 14 players
0.4 to 2.0 times (1.1); with fewer queries single coalitions are better."""

ENUMERATED_AT_ONCE = 256
"""Model rows up to which a run to a width asks every coalition on every background row."""


class BayesSHAP(Explainer):
    """Shapley values with credible intervals (the paper's BayesSHAP).

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
    _kind = "coalitions"
    _default_sampler = "paired"
    _default_prior = FLAT
    _default_ceiling = 2_000
    surrogate: Warmed | None = None

    def _pieces(
        self,
        nb: Neighbourhood,
        goals: Goals,
        options: Options,
        history: History,
        *,
        in_turn: bool,
    ) -> tuple[Design, Estimator, Switch | None, tuple[str, ...]]:
        if options.kernel is not None or not options.robust:
            msg = "kernel= and robust=False are for BayesLIME; BayesSHAP's paper version is "
            msg += "recipe='paper'"
            raise InputError(msg)
        if options.published is not None:
            return self._as_published(nb, options, history)
        if in_turn and not self._enumerates(nb, goals, options, history):
            return self._rotated(nb, goals, options, history)
        options, why, may_switch = self._posterior(options, goals, nb)
        if options.posterior == "gp" and options.paper and isinstance(options.sampler, Focused):
            msg = "recipe='paper' draws fair coins: give sampler='random' with posterior='gp', "
            msg += "or leave posterior='gp' out"
            raise InputError(msg)
        if options.posterior != "gp" and isinstance(options.sampler, Focused):
            raise InputError("sampler='focused' reads a Gaussian process: use posterior='gp'")
        options = self._in_singles(options, goals, nb, history)
        design = CoalitionDesign(nb, options, self._context, history)
        kind: type[ShapleyEstimator | PairProcess | CoalitionProcess | CustomEstimator]
        kind = ShapleyEstimator
        if not isinstance(options.posterior, str):
            kind = CustomEstimator
        elif options.posterior == "gp":
            kind = PairProcess if design.paired else CoalitionProcess
        switch = None
        if may_switch and options.query_seconds is not None:
            switch = Switch(design, history, options.query_seconds)
        return design, kind(design), switch, why

    def _in_singles(self, o: Options, goals: Goals, nb: Neighbourhood, h: History) -> Options:
        """Have the focused sampler ask single coalitions where queries are too few for pairs.

        m pairs and f(x) − base are m + 1 equations for d importances. With few players there are
        two more than d, which tell how far an additive function is off. A run that is continued
        goes on as it began.
        """
        if not isinstance(o.sampler, Focused) or o.noisy:
            return o
        if h.rows.n > 1:
            n, z = h.rows.n // 2 * 2, h.rows.design().astype(np.bool_)
            paired = np.array_equal(z[0:n:2], ~z[1:n:2])
        else:
            d, rows = int(nb.active.sum()), len(nb.background_weights)
            ceiling = goals.ceiling[0] or self._default_ceiling
            pairs = (ceiling - 1 - rows) // (2 * rows)  # beside the empty and the full coalition
            paired = o.sampler.paired and pairs >= (d - 1 if d >= MANY_PLAYERS else d + 1)
        return replace(o, sampler=replace(o.sampler, paired=paired))

    def _as_published(
        self, nb: Neighbourhood, options: Options, history: History
    ) -> tuple[Design, Estimator, Switch | None, tuple[str, ...]]:
        """Return the pieces of ``recipe="published"``; asks the model which features to keep."""
        design = ShapleyRepeatingDesign(nb, options, self._context, history)
        if history.kept is None and design.wants_screening:
            query, regressors = design.screening_query()
            [[result]] = self._queue(options).answer([[query]])
            if result.error is not None:
                raise result.error
            design.screen(regressors, result)
        why: tuple[str, ...] = ()
        if not design.active.all():
            count = f"{design.d} of {len(design.active)} features"
            why = (f"{count} take part; the others stay at the instance's value",)
        return design, SurrogateEstimator(design), None, why

    def warmed(self, rows: int = 2_000) -> BayesSHAP:
        """Return an explainer of a table with a surrogate of the model, fitted once for all rows.

        Asks the model for ``rows`` rows that mix background rows, chosen by ``seed``. Explanations
        start from the surrogate's Shapley values, and their queries say what it gets wrong:
        intervals are as honest, and narrower. The ``rows`` pay for themselves in a batch; they are
        not counted in the explanations, whose notes name them.
        """
        check_count("rows", rows)
        if not isinstance(self.domain, Tabular):
            raise InputError(f"warmed() is for tables; got {type(self.domain).__name__}")
        nb, opts = self.domain.at_background(), self._resolved(self.options)
        if not self._in_turn(nb, self.options):
            msg = "warmed() takes several background rows, and the default recipe and sampler"
            raise InputError(msg)
        design = BackgroundDesign(nb, opts, self._context, History())
        rng = spawn(int(opts.seed), Purpose.WARMING_ROWS)
        on = rng.random((rows, len(nb.names))) < rng.random((rows, 1))
        first, second = rng.choice(design.n_background, (2, rows), p=design.weights)

        def make(start: int, stop: int) -> tuple[Native, None]:
            part = slice(start, stop)
            return nb.background_hybrids(on[part], first[part], second[part])[0], None

        [[result]] = self._queue(opts).answer([[design.query(make, rows)]])
        if result.error is not None:
            raise result.error
        space = InputSpace(nb.members, nb.categorical)
        encoded = nb.background_hybrids(on, first, second)[1]
        y = np.asarray(design.values(result))
        known = copy.copy(self)
        known.surrogate = Warmed(space, encoded, y, int(opts.seed), self._warm_key(nb, opts))
        return known

    def interactions(self, explanation: Explanation) -> Interactions:
        """Return Shapley interactions of all pairs of features, with intervals.

        They come from the queries of ``explanation``, which is one of this explainer, and cost no
        further ones; ``refine`` it for narrower intervals. Exact if it is.
        """
        check_explanation("interactions", explanation)
        opts = self._recalled(explanation)
        case = Case(
            self.domain.restore(explanation.payload),
            explanation.settings.get("cohort"),
            self._started(explanation, opts),
        )
        run = self._begin(case, Goals(), opts, self._queue(opts))
        with one_blas_thread():
            found = estimate_pairs(run.estimator, explanation.history)
        active = np.flatnonzero(run.design.neighbourhood.active)
        at, d = np.ix_(active, active), len(explanation.names)
        mean, scale = np.zeros((2, d, d, found.mean.shape[2]))
        mean[at], scale[at] = 0.5 * found.mean, 0.5 * found.scale  # a pair's two entries are halves
        i, b = np.arange(d), explanation.belief
        mean[i, i] = b.mean - mean.sum(axis=1)  # rows add up to importances
        # importances depend on differences of complements, interactions on their sums
        scale[i, i] = b.deviation
        scale[active, active] = np.hypot(b.deviation[active], 0.5 * found.scale_of_sums)
        dof = min(found.dof, float(np.min(b.dof)))
        return Interactions(explanation, mean, scale, dof)

    def _warm_key(self, nb: TabularNeighbourhood, o: Options) -> tuple[Any, ...]:
        """Return what must agree for a surrogate to be of the same function."""
        return nb.digest("coalitions"), self._fingerprint(o)["target"], o.link

    def _warm(self, nb: TabularNeighbourhood, o: Options) -> Warmed | None:
        if self.surrogate is not None and self.surrogate.key != self._warm_key(nb, o):
            msg = "the surrogate of warmed() is of another cohort, target or link: give them to "
            msg += "the explainer, and call warmed() on that"
            raise InputError(msg)
        return self.surrogate

    # -- tables: one background row per query ----------------------------------------------------

    def _in_turn(self, nb: Neighbourhood, options: Options) -> bool:
        """Whether background rows take turns: a table with several, and nothing else asked for.

        A sampler of the user's choice chooses coalitions, each asked on every background row.
        """
        several = isinstance(nb, TabularNeighbourhood) and len(nb.background_weights) > 1
        default = options.sampler in ("auto", "paired", Paired())
        return several and default and not options.literal and isinstance(options.posterior, str)

    def _enumerates(self, nb: Neighbourhood, goals: Goals, o: Options, h: History) -> bool:
        """Whether every coalition is asked on every background row: if wanted, or if cheap.

        A run that is continued goes on as it began; only this kind knows the base value apart.
        """
        if h.full is not None:
            if h.base is None and o.posterior == "exact":
                msg = "this explanation has one background row per query, which posterior='exact' "
                msg += "cannot continue: explain the instance anew"
                raise InputError(msg)
            return h.base is not None
        if o.posterior == "exact" or o.sampler_name == "exhaustive":
            return True
        d, n = int(nb.active.sum()), len(nb.background_weights)
        cheap = goals.ceiling[0] or self._default_ceiling
        if goals.rules:
            cheap = min(cheap, ENUMERATED_AT_ONCE)
        return d > 1 and not o.noisy and (coalitions_of(d) - 1) * n + 1 <= cheap

    def _rotated(
        self, nb: Neighbourhood, goals: Goals, o: Options, history: History
    ) -> tuple[Design, Estimator, Switch | None, tuple[str, ...]]:
        assert isinstance(nb, TabularNeighbourhood)  # noqa: S101 - see `_in_turn`
        why: tuple[str, ...] = ()
        if o.posterior == "auto":
            d, ceiling = int(nb.active.sum()), goals.ceiling[0] or self._default_ceiling
            choice = choose_for_rows(d, ceiling, o.query_seconds, fixed=not goals.rules)
            o, why = replace(o, posterior=choice.posterior), (choice.why,)
        design = BackgroundDesign(nb, replace(o, sampler=Paired()), self._context, history)
        estimator = BackgroundEstimator(design)
        estimator.warmed = self._warm(nb, o)
        if estimator.warmed is not None:
            rows = f"{estimator.warmed.n_rows:,} other model rows"
            why += (f"assisted by a surrogate fitted once to {rows}",)
        return design, estimator, None, why

    def _posterior(
        self, o: Options, goals: Goals, nb: Neighbourhood
    ) -> tuple[Options, tuple[str, ...], bool]:
        """Decide ``posterior="auto"``, say why, and whether a look may change it."""
        if o.posterior != "auto":
            return o, (), False
        if isinstance(o.sampler, Focused):
            return replace(o, posterior="gp"), (), False
        free = not o.paper and o.features is None and not o.background_uncertainty
        d, fixed = int(nb.active.sum()), not goals.rules
        ceiling = goals.ceiling[0] or self._default_ceiling
        exact = fixed and coalitions_of(d) <= ceiling
        if not free or o.sampler_name != "paired" or o.query_seconds is None or d <= 1 or exact:
            return o, (), False  # the regression, exact if it gets that far
        budget = min(ceiling, coalitions_of(min(d, 60)))
        choice = choose_posterior(d, budget, o.query_seconds, fixed=fixed)
        sampler = Focused() if choice.posterior == "gp" else o.sampler
        chosen = replace(o, posterior=choice.posterior, sampler=sampler)
        return chosen, (choice.why,), choice.open

    def _labels(self, nb: Neighbourhood) -> tuple[str, ...]:
        if nb.by_masks:
            return tuple(nb.names)
        pairs = zip(nb.names, nb.values, strict=True)
        return tuple(f"{name} = {cells.display(v)}" for name, v in pairs)

    def _units(self, nb: Neighbourhood) -> tuple[str, ...]:
        return ("change of the prediction",) * len(nb.names)

    def _notes(self, nb: Neighbourhood, options: Options) -> tuple[str, ...]:
        background = getattr(nb, "background_note", "")
        shown = background and not nb.by_masks and options.published is None
        notes = [f"background: {background}"] if shown else []
        notes += super()._notes(nb, options)
        if options.background_uncertainty:
            notes.append("intervals include that the background rows are a sample")
        elif self._in_turn(nb, options):
            notes.append("intervals include coalitions and background rows that were not asked")
        return tuple(notes)
