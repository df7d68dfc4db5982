"""Coalitions of one instance (BayesSHAP): masks over features that differ from the background."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np

from credex.designs.design import Context, Design, coalitions_of
from credex.designs.perturbations import PerturbationStream, fair_coins
from credex.designs.samplers import (
    MAX_SHUFFLED,
    Candidates,
    MaskSequence,
    MaskStream,
    Predictive,
    mask_keys,
    unseen,
)
from credex.domains import Neighbourhood
from credex.errors import InputError
from credex.game import Query, Result
from credex.history import History
from credex.options import Options
from credex.posteriors.shapley import strata
from credex.seeds import Purpose, child, spawn
from credex.typing import Floats, Ints, Masks, Outputs, Weights

__all__ = ["CoalitionDesign", "ShapleySequence", "shapley_kernel"]

GOLDEN = 0.6180339887498949
"""Step of the low-discrepancy walk over the strata."""

MAX_LISTED = 1_000_000
"""Strata above `MAX_SHUFFLED` up to this size are listed once a part of them was drawn."""

END_REPEATS = 4
"""Repeats of the empty and the full coalition that a noisy model is asked for at first."""

END_SHARE = 40
"""Other queries of a noisy model per repeat of the empty and the full coalition, at most."""

MAX_END_REPEATS = 100
"""Maximum number of repeats of both if there is nothing else to ask (one feature, noisy model)."""

PROCESS_UNITS = 1_000
"""Units (pairs, or single coalitions) a Gaussian process is fitted on: its cost grows as n³."""


class ShapleySequence(MaskSequence):
    """Coalitions without replacement, empty and full left out.

    All sizes are drawn equally often (``even``: leverage scores of the Shapley regression), or as
    the Shapley kernel weighs them. Sizes follow a low-discrepancy walk over the strata, so that
    every prefix is close to proportional; within a size masks are uniform. A size asked in full
    leaves the walk.
    """

    def __init__(self, d: int, seed: int, *, paired: bool, even: bool = True) -> None:
        super().__init__(d, paired=paired)
        layers = strata(d, paired=paired)
        self._share, count = layers.turns if even else layers.mass, layers.count
        self.capacity = float(count.sum())
        self._rng = spawn(seed, Purpose.SHAPLEY_MASKS, d)
        self._start = float(self._rng.random())
        self._walked = 0
        # Units still to come from each stratum. Large strata are drawn from only as long as
        # repeats, which are left out, are rare; then the rest is listed.
        drawn = (count > MAX_SHUFFLED) & (count <= MAX_LISTED)
        self._left = np.where(drawn, np.floor(count / 32), count)
        # What is left of listed strata, shuffled: the small ones at once, whether they are reached
        # or not, so that their order does not depend on how the sequence is read.
        small = np.flatnonzero(count <= MAX_SHUFFLED).tolist()
        self._listed = {s: self._rng.permutation(int(count[s])) for s in small}
        self._drawn: set[bytes] = set()

    def _more(self, n: int) -> Masks:
        """Return ``n`` units, less those drawn before or if a stratum has to be listed first."""
        layer = self._walk(n)
        out = np.empty((len(layer), self.d), dtype=np.bool_)
        large = ~np.isin(layer, list(self._listed))
        for s in np.unique(layer[~large]).tolist():
            at = np.flatnonzero(layer == s)
            chosen, self._listed[s] = np.split(self._listed[s], [len(at)])
            out[at] = self._subsets(s)[chosen]
        out[large] = self._draw(layer[large])
        new = ~large
        new[large] = unseen(out[large], self._drawn)
        for s in np.flatnonzero(self._left == 0).tolist():
            if s not in self._listed:  # further draws would mostly be repeats
                keys = mask_keys(self._subsets(s))
                rest = np.flatnonzero([key not in self._drawn for key in keys])
                self._listed[s] = self._rng.permutation(rest)
                self._left[s] = len(rest)
        return out[new]

    def _walk(self, n: int) -> Ints:
        """Return the strata ``(≤ n,)`` of the next units; it ends where one has to be listed."""
        pieces = [np.empty(0, dtype=np.int64)]
        u = (self._start + GOLDEN * np.arange(self._walked, self._walked + n)) % 1.0
        while len(u) and len(live := np.flatnonzero(self._left > 0)):
            upto = self._share[live].cumsum()
            pick = live[upto.searchsorted(u * upto[-1], "right")]  # u < 1: the last is never passed
            wanted = np.bincount(pick, minlength=len(self._left))
            full = live[(wanted >= self._left)[live]].tolist()
            # a stratum leaves the walk at its last unit, wherever a read ends
            last = [int(np.flatnonzero(pick == s)[int(self._left[s]) - 1]) for s in full]
            pick = pick[: min(last, default=len(pick)) + 1]
            self._left -= np.bincount(pick, minlength=len(self._left))
            u = u[len(pick) :]
            self._walked += len(pick)
            pieces.append(pick)
            if any(s not in self._listed for s in live[self._left[live] == 0].tolist()):
                break
        return np.concatenate(pieces)

    def _draw(self, layer: Ints) -> Masks:
        """Draw a subset for each stratum: the features with the smallest of d random keys."""
        keys = self._rng.random((len(layer), self.d))
        last = np.sort(keys, axis=1)[np.arange(len(layer)), layer]
        z = keys <= last[:, None]
        if self.paired and self.d % 2 == 0:
            half = layer == self.d // 2 - 1
            z[half] ^= ~z[half, :1]  # the one of the pair that holds feature 0
        return z

    def _subsets(self, s: int) -> Masks:
        """Return all masks of stratum ``s``, of its pairs if it is its own complement."""
        return _subsets(self.d, s + 1, halve=self.paired and 2 * (s + 1) == self.d)


@lru_cache(maxsize=32)
def _subsets(d: int, size: int, *, halve: bool) -> Masks:
    """All subsets of ``size`` as masks; ``halve``: those that hold feature 0."""
    rest, k = (range(1, d), size - 1) if halve else (range(d), size)
    subsets = list(combinations(rest, k))
    chosen = np.array(subsets, dtype=np.int64).reshape(len(subsets), k)
    z = np.zeros((len(subsets), d), dtype=np.bool_)
    np.put_along_axis(z, chosen, values=True, axis=1)
    if halve:
        z[:, 0] = True
    z.flags.writeable = False
    return z


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
        self.repeat_cost = int(self.rows_per_query == 1 and not options.noisy)
        self.paired = bool(options.sampler.paired) and not options.paper
        self.uniform = bool(getattr(options.sampler, "uniform", False))
        self.d = int(self.active.sum())
        self.ends_suffice = self.d <= 1
        if options.paper:  # N perturbations, which may repeat; its regression does not use the ends
            self.end_queries = self.repeat_cost = 0
        else:  # a query is one model row
            self.query_cost = self.rows_per_query
            self.end_queries = 1 + self.rows_per_query
        self.everything = np.inf
        if self.d <= 1 or not (options.noisy or options.paper):
            self.everything = (coalitions_of(self.d) - 1) * self.query_cost + 1
        self._later: MaskStream | None = None
        if options.background_uncertainty and nb.by_masks:
            msg = "background_uncertainty=True needs a background; masks have none"
            raise InputError(msg)
        if options.background_uncertainty and self.continued and history.base_by_row is None:
            msg = "what was asked before does not say which background row gave what: explain "
            msg += "anew with background_uncertainty=True"
            raise InputError(msg)

    # -- sizes ---------------------------------------------------------------------------------

    @property
    def keeps_rows(self) -> bool:
        """Whether values are wanted by background row: also to average them after the link."""
        return super().keeps_rows or (self.query_cost > 1 and self.options.link != "identity")

    def values(self, result: Result) -> Floats | None:
        """Return the values after the link, which the recipe of the paper takes of the mean."""
        if result.by_row is None or self.options.paper:
            return super().values(result)
        linked: Floats = np.einsum("nbk,b->nk", self.linked(result.by_row), self.weights)
        return linked

    def unasked(self, h: History) -> float:
        """Coalitions that were not asked yet."""
        return np.inf if self.everything == np.inf else coalitions_of(self.d) - 2 - h.rows.n

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
        """How often a noisy model is due the empty and the full coalition, given other queries."""
        return int(max(others // END_SHARE, others / (coalitions_of(self.d) - 2)))

    def affords_repeat(self, ceiling: int) -> bool:
        """Whether f(x) may be repeated: not if that leaves fewer pairs than players and one more.

        So few queries are all needed for the importances; and not if the ceiling is just enough for
        the whole game.
        """
        least = self.end_queries + self.repeat_cost + 2 * (self.d + 1) * self.query_cost
        return ceiling >= min(least, self.everything) and super().affords_repeat(ceiling)

    # -- asking --------------------------------------------------------------------------------

    def ends_due(self, h: History, ceiling: int) -> int:
        """How often to ask for the empty and the full coalition first; once if without noise."""
        noisy, left = self.options.noisy, ceiling - h.n_queries
        if h.full is not None:
            return max(min(left // 2, MAX_END_REPEATS), 0) if noisy and self.d <= 1 else 0
        if not noisy:
            return 1
        others = self.unit * (self.d + 1) if self.d > 1 else 0
        most = END_REPEATS if self.d > 1 else MAX_END_REPEATS
        return max(min(most, (left - others) // 2), 1)

    def extra_ends(self, h: History, n: int, ceiling: int) -> int:
        """Further repeats of the empty and the full coalition that a noisy model is due."""
        if not self.options.noisy or h.full is None:
            return 0
        due = self._end_repeats(h.rows.n + n) - h.end_repeats
        return int(max(min(due, (ceiling - h.n_queries - n) // 2), 0))

    def end_pair(self) -> list[Query]:
        """Return the queries for the empty and the full coalition."""
        nb, o = self.neighbourhood, self.options
        shared = not o.noisy and nb.base_key is not None
        base = self.query(
            lambda _a, _b: (nb.base_inputs(), None),
            1,
            self.weights,
            share=("base", nb.base_key, self.keeps_rows) if shared else None,
            keep_rows=self.keeps_rows,
        )
        if not o.noisy or len(self.weights) == 1:
            return [base, self.instance_query()]
        # f(x) of a noisy model is an average of as many rows as the others, with the same noise
        ones = np.ones((1, len(self.active)), dtype=np.bool_)
        return [base, self.mask_query(ones, self.weights)]

    def perturbation_queries(self, candidates: Candidates) -> list[Query]:
        """Return the query for the coalitions; inactive features are on."""
        return [self.mask_query(self.over_all(candidates.design), self.weights)]

    def choose(self, h: History, n: int, fit: Predictive | None) -> Candidates:
        """Let the sampler choose; beyond `PROCESS_UNITS`, units are random instead of adaptive."""
        adaptive = self.options.posterior == "gp" and not self.uniform and not self.options.noisy
        if not adaptive:
            return super().choose(h, n, fit)
        left = self.unit * PROCESS_UNITS - h.rows.n
        if left > 0:
            return super().choose(h, min(n, left), fit)
        with self.context.lock:
            if self._later is None:
                seed = child(self.options.seed, Purpose.AFTER_PROCESS)
                sequence = ShapleySequence(self.d, seed, paired=self.paired)
                self._later = MaskStream(sequence, self.known_units(h))
            return self._later.take(n)

    def fresh_stream(self, h: History) -> MaskStream | PerturbationStream:
        """Return the coalitions that were not asked yet, in the order of the seed."""
        d, seed, paired, even = self.d, int(self.options.seed), self.paired, self.uniform
        if self.options.paper:

            def coins(start: int, stop: int) -> Candidates:
                masks = fair_coins(seed, start, stop, d, skip=(0, d))
                return Candidates(masks, np.arange(start, stop))

            return PerturbationStream(coins, h.cursor)
        key = ("shapley", d, seed, paired, even)
        sequence = self.context.once(
            key, lambda: ShapleySequence(d, seed, paired=paired, even=even)
        )
        recycle = float(getattr(self.options.sampler, "recycle", 0.0))
        known = self.known_units(h)
        return MaskStream(sequence, known, repeat=self.options.noisy, recycle=recycle)

    def units(self, h: History) -> tuple[Masks, Outputs, Outputs | None]:
        """Masks (of each pair the first), their values, and their complements' values."""
        masks, y = h.rows.design(), h.rows.y()
        if not self.paired:
            return masks, y, None
        n = len(y) // 2 * 2  # a call may have failed between the two of a pair
        return np.ascontiguousarray(masks[0:n:2]), y[0:n:2], y[1:n:2]


def shapley_kernel(sizes: Floats, d: int) -> Weights:
    """Shapley kernel (d−1) / (C(d,s)·s·(d−s)) of coalition sizes s; infinite at 0 and d."""
    s = np.arange(1, d)
    log_binomial = np.log((d - s + 1) / s).cumsum()
    table = np.full(d + 1, np.inf)
    table[1:d] = (d - 1) * np.exp(-log_binomial) / (s * (d - s))
    return table[np.asarray(sizes, dtype=np.int64)]
