"""Model rows of BayesSHAP on tables: one background row per query, all of them in turn.

A query is one model row: the instance where a mask is on, a background row elsewhere. Most queries
come as pairs (z and 1 − z on the same background row); the others are background rows as they are,
which give the base value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from credex.designs.coalitions import END_REPEATS, END_SHARE, GOLDEN
from credex.designs.design import Context, Design
from credex.designs.samplers import Candidates, Predictive, Stream
from credex.domains.tabular.neighbourhood import TabularNeighbourhood
from credex.errors import InputError
from credex.game import Query, Result
from credex.history import History
from credex.options import Options
from credex.seeds import Purpose, blocks, child, spawn
from credex.typing import Floats, Ints, Masks

__all__ = ["BackgroundDesign", "pair_scale"]

MIN_BASE_ROWS = 2
"""Background rows that are asked as they are before anything else: a variance takes two."""


def pair_scale(d: int) -> float:
    """2·Σ 1/s, s = 1 … d − 1: inverse variance of a mask's entries about their mean.

    E[(z_i − z̄)(z_j − z̄)] over the Shapley distribution is (δ_ij − 1/d) divided by this.
    """
    return float(2.0 * (1.0 / np.arange(1, d)).sum())


class BackgroundDesign(Design):
    """One instance, masks of its features, and the rows of a background in turn."""

    paired = False  # history also holds background rows as they are
    enumerable = False
    end_queries = n_ends = 1
    uniform = True
    neighbourhood: TabularNeighbourhood

    def __init__(
        self, nb: TabularNeighbourhood, options: Options, context: Context, history: History
    ) -> None:
        super().__init__(nb, options, context, history)
        self.active = np.asarray(nb.active, dtype=np.bool_)
        self.d = int(self.active.sum())
        self.weights = np.asarray(nb.background_weights, dtype=np.float64)
        self.n_background = len(self.weights)
        # weights decide how often a row is asked, unless every row will be
        self.weighted = bool(np.ptp(self.weights) > 1e-12) and self.d > 1
        self.repeat_cost = 0  # one more model row, which is no query
        self.ends_suffice = self.d == 0
        self.everything = np.inf
        if self.d <= 1:  # φ = f(x) − base: background rows are all there is to ask
            self.everything = 1.0 + (self.n_background if self.d == 1 else 0)
        # Rows of pairs and of the base value cost the same; a base row's residual counts 1/d² in
        # every importance, a pair's 2·pair_scale/N: this share makes their sum small.
        self.base_share = 1.0 / (pair_scale(self.d) + 2.0) if self.d > 1 else 1.0

    @property
    def unit(self) -> int:
        """Rows that are asked together."""
        return 2 if self.d > 1 else 1

    def fresh_stream(self, h: History) -> Stream:
        """Units are a function of their position; no sampler reads a stream."""
        del h
        raise InputError("one background row per query leaves nothing to choose: no sampler")

    # -- units by position ---------------------------------------------------------------------

    def counts(self, h: History) -> tuple[int, int]:
        """Return how many background rows and how many pairs were asked."""
        if h.rows.n == 0:
            return 0, 0
        n_base = int((~h.rows.design().any(axis=1)).sum())
        return n_base, (h.rows.n - n_base) // 2

    def base_rows(self, start: int, stop: int) -> Ints:
        """Background rows asked as they are: each once, or in proportion to their weights."""
        return self._in_turn(Purpose.BASE_ROWS, start, stop)

    def base_weights(self, rows: Ints) -> Floats:
        """Weights of rows asked as they are: one where weights decide how often a row is asked."""
        return np.ones(len(rows)) if self.weighted else self.n_background * self.weights[rows]

    def pair_rows(self, start: int, stop: int) -> Ints:
        """Background row of each pair."""
        return self._in_turn(Purpose.PAIR_ROWS, start, stop)

    def _in_turn(self, purpose: Purpose, start: int, stop: int) -> Ints:
        """Rows in turn: in every cycle each once, in proportion to its weight.

        A cycle of unequal weights is a systematic sample of the shuffled rows.
        """
        n, seed = self.n_background, int(self.options.seed)
        out = []
        for cycle in range(start // n, -(-stop // n)):
            rng = spawn(seed, purpose, n, cycle)
            order = rng.permutation(n)
            if self.weighted:
                points = (rng.random() + np.arange(n)) / n
                at = np.cumsum(self.weights[order]).searchsorted(points, side="right")
                order = rng.permutation(order[np.minimum(at, n - 1)])
            out.append(order[max(start - cycle * n, 0) : stop - cycle * n])
        return np.concatenate(out) if out else np.empty(0, dtype=np.int64)

    def pair_masks(self, start: int, stop: int) -> Masks:
        """First mask of each pair, ``(n, d)``: sizes follow the Shapley distribution."""
        d, seed = self.d, int(self.options.seed)
        sizes = np.arange(1, d)
        mass = np.cumsum(1.0 / (sizes * (d - sizes)))
        origin = spawn(seed, Purpose.SHAPLEY_MASKS, d).random()
        walk = (origin + GOLDEN * np.arange(start, stop)) % 1.0  # even over sizes in every stretch
        size = sizes[np.minimum(mass.searchsorted(walk * mass[-1], "right"), d - 2)]
        keys = blocks(child(seed, Purpose.PAIR_MASKS), "uniform", start, stop, d)
        smallest = np.sort(keys, axis=1)[np.arange(stop - start), size - 1]
        return np.asarray(keys <= smallest[:, None])

    # -- asking --------------------------------------------------------------------------------

    def room(self, h: History, ceiling: int, coming: int = 0) -> int:
        """Rows that fit under ``ceiling`` queries after ``coming`` others and repeats of f(x)."""
        left = super().room(h, ceiling, coming)
        return max(left - self.extra_ends(h, left, ceiling + left), 0)

    def ends_due(self, h: History, ceiling: int) -> int:
        """How often to ask for f(x) first: several times if the model is noisy."""
        most = END_REPEATS if self.options.noisy else 1
        return 0 if h.full is not None else max(min(most, ceiling // 4), 1)

    def extra_ends(self, h: History, n: int, ceiling: int) -> int:
        """Further repeats of f(x) that a noisy model is due along with ``n`` rows."""
        if not self.options.noisy or h.full is None:
            return 0
        due = (h.rows.n + n) // END_SHARE - h.end_repeats
        return int(max(min(due, ceiling - h.n_queries - n), 0))

    def _end_changes(self, h: History, ends: Sequence[Result]) -> dict[str, Any]:
        """Average f(x) of a noisy model over all its answers, which are kept."""
        values = np.stack([y for y in map(self.values, ends) if y is not None])  # (r, 1, k)
        if not self.options.noisy:
            return {"full": values[0, 0]}
        if h.end_values is not None:
            values = np.concatenate([h.end_values, values])
        return {"full": values[:, 0].mean(axis=0), "end_values": values}

    def choose(self, h: History, n: int, fit: Predictive | None) -> Candidates:
        """Return the next units in ``n`` rows; background rows keep their share of the total."""
        del fit
        n_base, n_pairs = self.counts(h)
        share = max(MIN_BASE_ROWS, round(self.base_share * (h.rows.n + n)))
        left = n if self.weighted else self.n_background - n_base
        base = int(np.clip(share - n_base, 0, min(n, left)))
        pairs = (n - base) // 2 if self.d > 1 else 0
        base += min(n - base, left - base) if self.d == 1 else 0
        z = self.pair_masks(n_pairs, n_pairs + pairs) if pairs else np.empty((0, self.d), np.bool_)
        design = np.zeros((base + 2 * pairs, self.d), dtype=np.bool_)
        design[base::2], design[base + 1 :: 2] = z, ~z
        position = np.concatenate(
            [n_base + np.arange(base), np.repeat(n_pairs + np.arange(pairs), 2)]
        )
        return Candidates(design, position)

    def perturbation_queries(self, candidates: Candidates) -> list[Query]:
        """Return a query for background rows, which a batch shares, and one for the pairs."""
        nb, o = self.neighbourhood, self.options
        masks, position = candidates.design, candidates.position
        n_base = int((~masks.any(axis=1)).sum())
        queries = []
        if n_base:
            first = int(position[0])
            rows = self.base_rows(first, first + n_base)
            off = np.zeros((n_base, len(self.active)), dtype=np.bool_)
            share = None if o.noisy else ("base rows", nb.base_key, int(o.seed))
            make = partial(_inputs, nb, off, rows)
            queries.append(self.query(make, n_base, share=share, first=first))
        if n_base < len(masks):
            first, last = int(position[n_base]), int(position[-1]) + 1
            rows = np.repeat(self.pair_rows(first, last), 2)
            on = self.over_all(masks[n_base:])
            queries.append(self.query(partial(_inputs, nb, on, rows), len(on), unit=2))
        return queries

    def answered(
        self, candidates: Candidates, results: Sequence[Result]
    ) -> tuple[Masks, Floats | None]:
        """Return the rows that were answered, pairs only as a whole, and their values."""
        masks = candidates.design
        n_base = int((~masks.any(axis=1)).sum())
        sizes = [n for n in (n_base, len(masks) - n_base) if n]
        kept, values, start = [], [], 0
        for size, result in zip(sizes, results, strict=True):
            y = self.values(result)
            if y is not None:
                whole = len(y) - (len(y) % 2 if start or not n_base else 0)
                kept.append(np.arange(start, start + whole))
                values.append(y[:whole])
            start += size
        if not values:
            return masks[:0], None
        return masks[np.concatenate(kept)], np.concatenate(values)


def _inputs(
    nb: TabularNeighbourhood, masks: Masks, rows: Ints, start: int, stop: int
) -> tuple[object, None]:
    return nb.hybrid_inputs(masks[start:stop], rows[start:stop]), None
