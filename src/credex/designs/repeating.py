"""Perturbations that repeat, with the instance among them: the two recipes of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from credex.designs.coalitions import shapley_kernel
from credex.designs.design import Context, Request
from credex.designs.perturbations import (
    ON_TABLES,
    PerturbationDesign,
    PerturbationStream,
    fair_coins,
)
from credex.designs.samplers import Candidates
from credex.domains import Neighbourhood
from credex.domains.tabular.neighbourhood import TabularNeighbourhood
from credex.errors import InputError
from credex.game import Query, Result
from credex.history import History
from credex.options import Options
from credex.posteriors import LinearPosterior
from credex.recipes import Published
from credex.seeds import Purpose, blocks, child
from credex.typing import Design as Rows
from credex.typing import Floats, Ints, Masks, Native, Weights

__all__ = ["RepeatingDesign", "ShapleyRepeatingDesign"]


class RepeatingDesign(PerturbationDesign):
    """The instance, then random perturbations; none is left out for having been asked before.

    All N count, and f(x), which the check of the model asks again, does not. Perturbations are
    numbered from the instance on; random ones follow lime's stream of the seed.
    """

    n_alone = 0
    """First rows in which one feature is on alone; the instance comes after them."""

    def __init__(
        self, nb: Neighbourhood, options: Options, context: Context, history: History
    ) -> None:
        super().__init__(nb, options, context, history)
        if self.paired:
            msg = f"recipe={options.recipe!r} draws masks one by one: use sampler='random'"
            raise InputError(msg)
        self.everything, self.end_queries, self.repeat_cost = np.inf, 0, 0
        self.active = np.ones(self.d, dtype=np.bool_)
        if options.published is not None:
            self.kernel = ON_TABLES

    @property
    def table(self) -> TabularNeighbourhood:
        """The neighbourhood, if it is a table's."""
        return cast("TabularNeighbourhood", self.neighbourhood)

    def fresh_stream(self, h: History) -> PerturbationStream:
        """Return the perturbations from where the history ends."""
        return PerturbationStream(self._drawn, h.cursor)

    def _drawn(self, start: int, stop: int) -> Candidates:
        """Perturbations at these positions: the first rows, then random ones."""
        fixed, seed = self._first_rows(), int(self.options.seed)
        low, high = (max(n - len(fixed), 0) for n in (start, stop))
        if self.by_masks:
            drawn: Rows = fair_coins(seed, low, high, self.d)
        else:
            drawn = self.perturb(seed, low, high).design[:, self.active]
        rows = np.concatenate([fixed[start:stop].astype(drawn.dtype), drawn])
        return Candidates(rows, np.arange(start, stop))

    def _first_rows(self) -> Floats:
        """Return the rows that come first, ``(n_alone + 1, d)``."""
        return np.vstack([np.eye(self.d)[: self.n_alone], self.origin])

    # -- asking --------------------------------------------------------------------------------

    def perturbation_queries(self, candidates: Candidates) -> list[Query]:
        """Return a query for the instance if it is a candidate, and one for the random rows."""
        if self.by_masks:
            return [self.mask_query(self.over_all(candidates.design))]
        at = candidates.position - self.n_alone - 1  # among the random ones
        out = []
        if (at == -1).any():
            out.append(self.instance_query())
        if (at >= 0).any():
            out.append(self._random_query(at[at >= 0]))
        return out

    def answered(
        self, candidates: Candidates, results: Sequence[Result]
    ) -> tuple[Rows, Floats | None]:
        """Return the rows in the order of the queries, up to the first that was not answered."""
        rows = candidates.design
        if not self.by_masks:
            order = np.clip(candidates.position, self.n_alone - 1, self.n_alone + 1)
            rows = rows[np.argsort(order, kind="stable")]
        known = []
        for y in map(self.values, results):
            if y is None:
                break
            known.append(y)
        values = np.concatenate(known) if known else None
        return rows[: 0 if values is None else len(values)], values

    def _random_query(self, at: Ints) -> Query:
        """Query for the random rows of a table ``at`` positions of its stream."""
        seed, first, stop = int(self.options.seed), int(at.min()), int(at.max()) + 1
        drawn = self.perturb(seed, first, stop)
        if not self.active.all():
            others = np.broadcast_to(~self.active, (len(at), len(self.active)))
            rows, held = drawn.rows[at - first], self.table.held_inputs
            return self.query(lambda a, b: (held(rows[a:b], others[a:b], {}), None), len(at))
        return self.rows_query(drawn, first, at - first)


class ShapleyRepeatingDesign(RepeatingDesign):
    """The published BayesSHAP: the features kept, each alone, the instance, random rows."""

    def __init__(
        self, nb: Neighbourhood, options: Options, context: Context, history: History
    ) -> None:
        super().__init__(nb, options, context, history)
        self.screened: Result | None = None
        if not self.by_masks and self.perturb(int(options.seed), 0, 1).moved:
            msg = "recipe='published' draws BayesSHAP's rows from the bins of the training data: "
            raise InputError(msg + "leave bins= and around= of the domain at their defaults")
        self.keep(self._given() if history.kept is None else history.kept)

    def _given(self) -> Masks:
        """Features that are kept without a screening: those named, or all."""
        wanted, names = self._settings.features, self.neighbourhood.names
        if isinstance(wanted, int):
            return np.ones(len(names), dtype=np.bool_)
        unknown = [name for name in wanted if name not in names]
        if unknown:
            msg = f"Published(features=) names {unknown[0]!r}, but the features are: "
            raise InputError(msg + ", ".join(map(str, names)))
        return np.isin(np.array(names, dtype=object), np.array(wanted, dtype=object))

    @property
    def _settings(self) -> Published:
        assert self.options.published is not None  # noqa: S101 - the recipe of this design
        return self.options.published

    def keep(self, kept: Masks) -> None:
        """Perturb only the features in ``kept (d,)``."""
        self.active, self.d = np.asarray(kept, dtype=np.bool_), int(np.sum(kept))
        self.origin, self.n_alone = np.ones(self.d), self.d

    def row_weights(self, design: Rows) -> Weights:
        """Shapley kernel among the kept features; 1 for none and for all of them."""
        weights = shapley_kernel(design.sum(axis=1), self.d)
        return np.where(np.isfinite(weights), weights, 1.0)

    # -- screening -----------------------------------------------------------------------------

    @property
    def wants_screening(self) -> bool:
        """Whether features are still to be chosen."""
        number = self._settings.features
        return isinstance(number, int) and number < self.d

    def screening_query(self) -> tuple[Query, Floats]:
        """Return the query for the extra perturbations, and what their outputs are regressed on."""
        n, seed = self._settings.screening, child(int(self.options.seed), Purpose.SCREENING)
        if self.by_masks:
            masks = fair_coins(seed, 0, n, self.d)
            return self.mask_query(masks), masks.astype(np.float64)
        drawn = self.perturb(seed, 0, n)
        query = self.query(lambda a, b: (drawn.pick(slice(a, b)), None), n)
        values = self.table.numbers(drawn.rows)
        sd = values.std(axis=0)
        return query, values / np.where(sd > 0, sd, 1.0)

    def screen(self, regressors: Floats, result: Result) -> None:
        """Keep the features with the largest coefficients in a ridge regression."""
        y = self.values(result)
        assert y is not None  # noqa: S101 - a failed call was raised before
        if y.shape[1] > 1:
            msg = f"recipe='published' keeps features for one output; the model has {y.shape[1]}: "
            raise InputError(msg + "choose one with target=")
        size = np.abs(LinearPosterior.fit(regressors, y[:, 0]).mean)
        if not self.by_masks:  # columns of a group count as their largest
            size = np.array([size[list(columns)].max() for columns in self.table.members])
        number = cast("int", self._settings.features)
        largest = np.argsort(-size, kind="stable")[:number]
        self.keep(np.isin(np.arange(len(size)), largest))
        self.screened = result

    def absorb(self, h: History, request: Request, results: Sequence[Result]) -> History:
        """Return the history after the results of a request, with the screening's cost at first."""
        after = replace(super().absorb(h, request, results), kept=self.active)
        if self.screened is not None:
            after, self.screened = after.spend([self.screened], 0), None
        return after

    # -- single features on tables -------------------------------------------------------------

    def perturbation_queries(self, candidates: Candidates) -> list[Query]:
        """Return queries for the rows in which one feature is on alone, and for the others."""
        alone = candidates.position[candidates.position < self.n_alone]
        first = [self._alone_query(alone)] if len(alone) and not self.by_masks else []
        return first + super().perturbation_queries(candidates)

    def _alone_query(self, at: Ints) -> Query:
        alone = np.eye(self.d, dtype=np.bool_)[at]
        seed = child(int(self.options.seed), Purpose.OTHER_BINS)
        uniform = blocks(seed, "uniform", 0, self.d, len(self.active))[at]
        rows, own, numbers = self.table.other_rows(uniform), self.over_all(alone), {}
        if self._settings.slip:
            kept = np.flatnonzero(self.active).tolist()
            pairs = [(j, alone[:, k]) for k, f in enumerate(kept) for j in self.table.members[f]]
            numbers = {j: on.astype(np.float64) for j, on in pairs}

        def make(a: int, b: int) -> tuple[Native, None]:
            part = {j: values[a:b] for j, values in numbers.items()}
            return self.table.held_inputs(rows[a:b], own[a:b], part), None

        return self.query(make, len(at))
