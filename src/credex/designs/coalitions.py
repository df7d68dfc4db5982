"""Coalitions of one instance (BayesSHAP): masks over features that differ from the background."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from credex.designs.bernoulli import BernoulliSequence
from credex.designs.design import Context, Design, coalition_query, coalitions_of, instance_query
from credex.designs.samplers import Candidates, MaskStream, Predictive
from credex.designs.shapley import Sequence, ShapleySequence
from credex.domains import Neighbourhood
from credex.errors import BudgetError, InputError
from credex.game import Query, Result
from credex.history import History
from credex.options import Options
from credex.seeds import Purpose, child
from credex.typing import Masks, Outputs

__all__ = ["CoalitionDesign"]

END_REPEATS = 4
"""How often a noisy model is asked for the empty and the full coalition, at least …"""

END_SHARE = 40
"""… and once more for every so many other queries."""

MAX_END_REPEATS = 100
"""Most repeats of both if there is nothing else to ask (one feature, noisy model)."""

PROCESS_UNITS = 1_000
"""Units (pairs, or single coalitions) a Gaussian process is fitted on: its cost grows as n³."""


class CoalitionDesign(Design):
    """One instance and its coalitions."""

    end_queries = n_ends = 2

    def __init__(
        self, nb: Neighbourhood, options: Options, context: Context, history: History
    ) -> None:
        super().__init__(nb, options, context, history)
        self.active = np.asarray(nb.active, dtype=np.bool_)
        if options.paper:  # the paper has no notion of features known beforehand
            self.active = np.ones(len(self.active), dtype=np.bool_)
        self.weights = np.asarray(nb.background_weights, dtype=np.float64)
        self.rows_per_query = len(self.weights)
        self.paired = bool(options.sampler.paired) and not options.paper
        self.d = int(self.active.sum())
        self.ends_suffice = self.d <= 1
        self._later: MaskStream | None = None
        if options.background_uncertainty and nb.by_masks:
            msg = "background_uncertainty=True needs a background; masks have none"
            raise InputError(msg)
        continued = history.full is not None
        if options.background_uncertainty and continued and history.base_by_row is None:
            msg = "what was asked before does not say which background row gave what: explain "
            msg += "anew with background_uncertainty=True"
            raise InputError(msg)

    @property
    def uniform(self) -> bool:
        """Whether masks are drawn uniformly within coalition sizes."""
        return bool(getattr(self.options.sampler, "uniform", False))

    # -- sizes ---------------------------------------------------------------------------------

    @cached_property
    def everything(self) -> float:
        """All coalitions, the empty and the full one included."""
        return np.inf if self.options.noisy and self.d > 1 else coalitions_of(self.d)

    @property
    def repeat_cost(self) -> int:
        """1 if a query is one model row."""
        return 1 if len(self.weights) == 1 and not self.options.noisy else 0

    def unasked(self, h: History) -> float:
        """Coalitions that were not asked yet."""
        noisy = self.options.noisy and self.d > 1
        return np.inf if noisy else coalitions_of(self.d) - 2 - h.rows.n

    def is_complete(self, h: History) -> bool:
        """Whether every coalition was asked, of a noisy model at least once."""
        return self.d <= 1 or h.rows.n >= coalitions_of(self.d) - 2

    def room(self, h: History, ceiling: int, coming: int = 0) -> int:
        """Perturbations that fit under ``ceiling`` queries after ``coming`` others."""
        if self.d <= 1:
            return 0
        if not self.options.noisy:
            return super().room(h, ceiling, coming)
        left = ceiling - h.n_queries - coming
        due = max(self._end_repeats(h.rows.n + left) - h.end_repeats, 0)
        return max(left - 2 * due, min(left, 2), 0)

    def _end_repeats(self, others: int) -> int:
        """How often to ask for both ends: now and then, and as often as any other coalition."""
        return int(max(others // END_SHARE, others / (coalitions_of(self.d) - 2)))

    # -- asking --------------------------------------------------------------------------------

    def ends_due(self, h: History, ceiling: int) -> int:
        """Once, of a noisy model several times."""
        noisy, left = self.options.noisy, ceiling - h.n_queries
        if h.full is not None:
            return max(min(left // 2, MAX_END_REPEATS), 0) if noisy and self.d <= 1 else 0
        if not noisy:
            return 1
        others = self.unit * (self.d + 1) if self.d > 1 else 0
        most = END_REPEATS if self.d > 1 else MAX_END_REPEATS
        return max(min(most, (left - others) // 2), 1)

    def extra_ends(self, h: History, n: int, ceiling: int) -> int:
        """Further repeats of both ends that a noisy model is due."""
        if not self.options.noisy or h.full is None:
            return 0
        due = self._end_repeats(h.rows.n + n) - h.end_repeats
        return int(max(min(due, (ceiling - h.n_queries - n) // 2), 0))

    def end_pair(self) -> list[Query]:
        """Return the queries for the empty and the full coalition."""
        nb, o = self.neighbourhood, self.options
        alone = o.noisy or nb.base_key is None
        base = Query(
            lambda _a, _b: (nb.base_inputs(), None),
            1,
            self.weights,
            nb.row_bytes,
            nb.form,
            share=None if alone else ("base", nb.base_key, o.background_uncertainty),
            keep_rows=o.background_uncertainty,
        )
        if not o.noisy or len(self.weights) == 1:
            return [base, instance_query(nb)]
        # f(x) of a noisy model is an average of as many rows as the others, with the same noise
        ones = np.ones((1, len(self.active)), dtype=np.bool_)
        return [base, coalition_query(nb, ones, self.weights, merge=False)]

    def perturbation_query(self, candidates: Candidates) -> Query:
        """Return the query for the coalitions; inactive features are on."""
        masks, o = candidates.design, self.options
        if self.d < len(self.active):
            wide = np.ones((len(masks), len(self.active)), dtype=np.bool_)
            wide[:, self.active] = masks
            masks = wide
        return coalition_query(
            self.neighbourhood,
            masks,
            self.weights,
            merge=not o.noisy,
            keep_rows=o.background_uncertainty,
            unit=self.unit,
        )

    def absorb_rows(
        self, h: History, candidates: Candidates, y: Outputs, result: Result, *, whole: bool
    ) -> dict[str, Any]:
        """Add the coalitions; all weigh the same until the regression weighs their sizes."""
        del whole
        by_row = [b for b in (h.by_row, result.by_row) if b is not None]
        return {
            "rows": h.rows.add(candidates.design, y, np.ones(len(y))),
            "by_row": np.concatenate(by_row) if by_row else None,
        }

    def choose(
        self, h: History, n: int, fit: Predictive | None, rng: np.random.Generator
    ) -> Candidates:
        """Let the sampler choose; beyond `PROCESS_UNITS` an adaptive one gives way to chance."""
        adaptive = self.options.posterior == "gp" and not self.uniform and not self.options.noisy
        if not adaptive:
            return super().choose(h, n, fit, rng)
        left = self.unit * PROCESS_UNITS - h.rows.n
        if left > 0:
            return super().choose(h, min(n, left), fit, rng)
        if not self.paired:
            msg = f"posterior='gp' with sampler={self.options.sampler_name!r} goes up to "
            msg += f"{PROCESS_UNITS:,} queries; use sampler='focused', 'paired' or 'random'"
            raise BudgetError(msg, minimum=PROCESS_UNITS)
        with self.context.lock:
            if self._later is None:
                seed = child(self.options.seed, Purpose.AFTER_PROCESS)
                known = h.rows.design()[0::2]
                self._later = MaskStream(ShapleySequence(self.d, seed, paired=True), known)
            return self._later.take(n)

    def fresh_stream(self, h: History) -> MaskStream:
        """Return the coalitions that were not asked yet, in the order of the seed."""
        known = h.rows.design()[:: self.unit] if h.rows.n else None
        recycle = float(getattr(self.options.sampler, "recycle", 0.0))
        return MaskStream(self._sequence(), known, repeat=self.options.noisy, recycle=recycle)

    def _sequence(self) -> Sequence:
        d, seed, once = self.d, int(self.options.seed), self.context.once
        if self.options.paper:
            return once(("coins", d, seed), lambda: BernoulliSequence(d, seed, skip=(0, d)))
        key = ("shapley", d, seed, self.paired)
        return once(key, lambda: ShapleySequence(d, seed, paired=self.paired))

    def units(self, h: History) -> tuple[Masks, Outputs, Outputs | None]:
        """Masks (of each pair the first), their values, and their complements' values."""
        masks, y = h.rows.design(), h.rows.y()
        if not self.paired:
            return masks, y, None
        n = len(y) // 2 * 2  # a call may have failed between the two of a pair
        return np.ascontiguousarray(masks[0:n:2]), y[0:n:2], y[1:n:2]
