"""`Survey`: which rows of a portfolio are asked, with which coalitions and background rows.

Rows come in the order of the seed. Each is asked as it is, and with pairs of coalitions z and 1 − z
on one background row; every row has coalitions and background rows of its own, so that errors
average out. Some background rows are asked as they are, for the base value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from credex.designs.background import BackgroundDesign, pair_scale
from credex.designs.design import ONE_ROW, Context
from credex.domains import Tabular
from credex.domains.tabular.neighbourhood import TabularNeighbourhood
from credex.errors import InputError
from credex.formatting import ROUNDING
from credex.game import Query
from credex.history import History
from credex.importance.estimate import Residuals
from credex.importance.surrogate import FOLDS, PairSurrogate, amplitudes_of
from credex.model_queue import ModelQueue
from credex.options import Options
from credex.posteriors.assisted import MAX_FIT_ROWS, InputSpace
from credex.seeds import Purpose, child, one_blas_thread, spawn
from credex.typing import Floats, Ints, Masks

__all__ = ["Answers", "Survey"]

MAX_POPULATION = 5_000
"""Rows at which the surrogate is evaluated; of a larger portfolio these are a random sample."""

MIN_BASE_ROWS = 10
"""Background rows asked as they are, at least, if there are so many."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What was asked of n rows with p pairs each, and of b background rows; k outputs.

    ``full (n, k)``, ``pairs (n, p, 2, k)``, ``base (b, k)``. On several background rows a pair has
    twice as many answers: those of z and 1 − z on the first, then on the second.
    """

    full: Floats
    pairs: Floats
    base: Floats

    @property
    def all(self) -> Floats:
        """Every answer, ``(m, k)``."""
        each = (self.full, self.pairs, self.base)
        return np.concatenate([x.reshape(-1, x.shape[-1]) for x in each])


@dataclass(frozen=True, slots=True, eq=False)
class Left:
    """What surrogates leave of the answers: folds ``(n,)``, pairs ``(n, p, q, 2, k)``, base."""

    fold: Ints
    pairs: Floats
    base: Floats


class Survey:
    """The rows of a portfolio in the order of a seed, and the answers so far."""

    copies = 1
    """Background rows on which each pair is asked."""

    def __init__(
        self,
        domain: Tabular,
        rows: Sequence[Any],
        options: Options,
        cohorts: Sequence[Masks] = (),
    ) -> None:
        self._options, self.size = options, len(rows)
        order = spawn(int(options.seed), Purpose.PORTFOLIO_ROWS, len(rows)).permutation(len(rows))
        if cohorts:  # cohorts take turns, large ones more often
            turn = np.empty(len(rows))
            for at in cohorts:
                turn[order[at[order]]] = (np.arange(at.sum()) + 0.5) / np.sqrt(at.sum())
            order = order[np.argsort(turn[order], kind="stable")]
        self.order: Ints = order[:MAX_POPULATION]
        self.instances: list[TabularNeighbourhood] = [domain.at(rows[i]) for i in self.order]
        self._nb = domain.at_background()
        self.d = len(self._nb.names)
        if self.d < 2:
            msg = "explain_global takes two features or more: with one, φ is f(x) − base. Use "
            raise InputError(msg + "explain_many and credex.aggregate")
        self._encoded = np.concatenate([nb.encoded for nb in self.instances])
        self._design = self._pair_design(-1)
        self.weights = self._design.weights
        self._background = self._nb.encode(np.arange(len(self.weights)))
        self.space = InputSpace(self._nb.members, self._nb.categorical)
        self.answers: Answers | None = None
        self._amplitudes: Floats | None = None
        self.r2 = np.nan

    # -- asking --------------------------------------------------------------------------------

    def _pair_design(self, t: int) -> BackgroundDesign:
        """Return the coalitions and background rows of pair ``t`` of all rows."""
        seed = child(
            child(int(self._options.seed), Purpose.PORTFOLIO_PAIRS) + 1 + t, Purpose.PAIR_MASKS
        )
        design = BackgroundDesign(self._nb, replace(self._options, seed=seed), Context(), History())
        design.active, design.d = np.ones(self.d, dtype=np.bool_), self.d
        return design

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, pairs of each, and background rows that were asked."""
        a = self.answers
        return (0, 0, 0) if a is None else (*a.pairs.shape[:2], len(a.base))

    @property
    def alike(self) -> bool:
        """Whether all answers so far are equal but for rounding."""
        if self.answers is None:
            return True
        y = self.answers.all
        return bool(np.all(np.ptp(y, axis=0) <= ROUNDING * np.abs(y).max(axis=0)))

    @property
    def rounding(self) -> Floats:
        """Importances ``(k,)`` below which there is only rounding."""
        assert self.answers is not None  # noqa: S101 - `extend` comes first
        return np.asarray(ROUNDING * np.abs(self.answers.all).max(axis=0))

    def base_rows(self, n: int, p: int) -> int:
        """Background rows to ask as they are beside n rows with p pairs."""
        share = round(2 * n * p / (pair_scale(self.d) + 1.0))
        return min(max(share, MIN_BASE_ROWS), len(self.weights))

    def cost(self, n: int, p: int) -> int:
        """Model rows of n rows with p pairs each, from the beginning."""
        return n * (1 + 2 * p) + self.base_rows(n, p)

    def pairs(self, n: int, p: int) -> tuple[Masks, Ints]:
        """Coalitions ``(n, p, d)`` and background rows ``(n, p)`` of the first n rows."""
        designs = [self._pair_design(t) for t in range(p)]
        return (
            np.stack([design.pair_masks(0, n) for design in designs], axis=1),
            np.stack([design.pair_rows(0, n) for design in designs], axis=1),
        )

    def extend(self, n: int, p: int, queue: ModelQueue) -> None:
        """Ask what is missing of n rows with p pairs each. Nothing is kept if that fails."""
        old_n, old_p, old_b = self.shape
        n, p = max(n, old_n), max(p, old_p)
        queries = self._row_queries(n, p)
        at, base = list(queries), self._design.base_rows(old_b, max(self.base_rows(n, p), old_b))
        asked = list(queries.values())
        if len(base):
            off = np.zeros((len(base), self.d), dtype=np.bool_)
            asked.append(self._design.query(partial(_inputs, self._nb, off, base), len(base)))
        values = []
        for [result] in queue.answer([[query] for query in asked]):
            if result.error is not None:
                raise result.error
            values.append(np.asarray(self._design.values(result)))
        if not values:
            return
        k = values[0].shape[1]
        full, known = np.empty((n, k)), np.empty((0, k))
        pairs = np.empty((n, p, 2 * self.copies, k))
        if self.answers is not None:
            known = self.answers.base
            full[:old_n], pairs[:old_n, :old_p] = self.answers.full, self.answers.pairs
        if len(base):
            known = np.concatenate([known, values.pop()])
        for i, y in zip(at, values, strict=True):
            new = int(i >= old_n)
            full[i] = y[0] if new else full[i]
            pairs[i, 0 if new else old_p :] = y[new:].reshape(-1, 2 * self.copies, k)
        self.answers = Answers(full, pairs, known)

    def _row_queries(self, n: int, p: int) -> dict[int, Query]:
        """Queries of the rows of which something is missing: the row itself, then its pairs."""
        old_n, old_p, _ = self.shape
        masks, origin = self.pairs(n, p)
        out = {}
        for i, nb in enumerate(self.instances[:n]):
            first = old_p if i < old_n else 0
            z, new = np.repeat(masks[i, first:], self.copies, axis=0), i >= old_n
            on = np.stack([z, ~z], axis=1).reshape(-1, self.d)
            rows = np.repeat(origin[i, first:].ravel(), 2)
            if new:
                on = np.concatenate([np.ones((1, self.d), dtype=np.bool_), on])
                rows = np.append(origin[i].ravel()[:1], rows)
            if len(on):
                make = partial(_inputs, nb, on, rows)
                out[i] = Query(make, len(on), ONE_ROW, nb.row_bytes, nb.form)
        return out

    # -- fitting -------------------------------------------------------------------------------

    def folds(self, n: int) -> Ints:
        """Fold of each of the first n rows."""
        return np.arange(n) % FOLDS

    def residuals(self) -> Residuals:
        """Fit the surrogates and return what they leave."""
        assert self.answers is not None  # noqa: S101 - `extend` comes first
        with one_blas_thread():
            return self._residuals(self.answers)

    def _residuals(self, a: Answers) -> Residuals:
        n, p, b = self.shape
        masks, fit, left = self._fit(a)
        u = fit.shapley(self._encoded)
        own = np.take_along_axis(u[:n], left.fold[:, None, None, None], axis=2)[:, :, 0]
        base, base_variance = self._base(fit, a.base, left.base, self._design.base_rows(0, b))
        half = 0.5 * np.diff(left.pairs[:, :, 0], axis=2)[:, :, 0]
        centred = pair_scale(self.d) * (masks - masks.mean(axis=2, keepdims=True))
        each = -centred[..., None] * half[:, :, None]  # (n, p, d, k): unbiased but for their sum
        total = a.full - base - own.sum(axis=1)
        r = each.mean(axis=1) + total[:, None] / self.d
        within = each.var(axis=1, ddof=1) / p
        return Residuals(u, own, r, within, base_variance, float(self.size))

    def _fit(self, a: Answers) -> tuple[Masks, PairSurrogate, Left]:
        """Fit the surrogates: the masks ``(n, p, d)``, the fit, and what it leaves."""
        (n, p, b), q = self.shape, self.copies
        masks, origin = self.pairs(n, p)
        columns = masks[:, :, None, self._nb.feature_of]
        at = self._background[origin.reshape(n, p, q)]
        x = self._encoded[:n, None, None]
        mixed = np.stack([np.where(columns, x, at), np.where(columns, at, x)], axis=3)
        base_at = self._design.base_rows(0, b)
        width = x.shape[3]
        rows = np.concatenate([x[:, 0, 0], mixed.reshape(-1, width), self._background[base_at]])
        y = np.concatenate([a.full, a.pairs.reshape(2 * n * p * q, -1), a.base])
        fold = self.folds(n)
        folds = np.concatenate([fold, np.repeat(fold, 2 * p * q), np.arange(b) % FOLDS])
        shuffled = spawn(int(self._options.seed), Purpose.KERNEL_ROWS, len(y)).permutation(len(y))
        if self._amplitudes is None or len(y) < 4 * MAX_FIT_ROWS:  # more do not change them
            self._amplitudes = amplitudes_of(
                self.space, rows[shuffled], y[shuffled], int(self._options.seed)
            )
        fit = PairSurrogate(
            self.space,
            rows[shuffled],
            y[shuffled],
            folds[shuffled],
            background=self._background,
            weights=self.weights,
            amplitudes=self._amplitudes,
        )
        self.r2 = fit.r2
        left = y - fit.predict(rows, folds)
        pairs = left[n : len(y) - b].reshape(n, p, q, 2, -1)
        return masks, fit, Left(fold, pairs, left[len(y) - b :])

    def _base(
        self, fit: PairSurrogate, y: Floats, left: Floats, rows: Ints
    ) -> tuple[Floats, Floats]:
        """Base value ``(k,)`` and its variance: the surrogate's, corrected by rows asked."""
        weights, all_rows = self._design.base_weights(rows)[:, None], len(self.weights)
        again = self._options.noisy or self._design.weighted
        thin = 1.0 if again else 1.0 - len(rows) / all_rows
        if thin <= 0:  # every background row was asked
            return self.weights[rows] @ y, np.zeros(y.shape[1])
        base = fit.base(self._background, self.weights).mean(axis=0)
        base = base + thin * (weights * left).mean(axis=0)
        if not again:  # of the rows that were asked the answers are known
            each = np.full(len(rows), 1.0 / len(rows))
            known = each @ y - fit.base(self._background[rows], each).mean(axis=0)
            base = base + (1.0 - thin) * known
        variance = thin * (weights * left).var(axis=0, ddof=1) / len(rows)
        return np.asarray(base), np.asarray(variance)


def _inputs(
    nb: TabularNeighbourhood, masks: Masks, rows: Ints, start: int, stop: int
) -> tuple[object, None]:
    return nb.hybrid_inputs(masks[start:stop], rows[start:stop]), None
