"""Perturbations of one instance (BayesLIME): masks of fair coins, or perturbed rows of a table."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from credex.designs.bernoulli import BernoulliSequence
from credex.designs.design import (
    ONE_ROW,
    Context,
    Design,
    coalition_query,
    coalitions_of,
    instance_query,
)
from credex.designs.samplers import Candidates, MaskStream, PerturbationStream
from credex.domains import Neighbourhood
from credex.domains.tabular.neighbourhood import Perturbations, TabularNeighbourhood
from credex.errors import InputError
from credex.game import Query, Result
from credex.history import History
from credex.kernels import Exponential
from credex.options import Options
from credex.typing import Ints, Native, Outputs

__all__ = ["PerturbationDesign"]

ON_MASKS, ON_TABLES = Exponential(distance="cosine"), Exponential()
"""lime's kernels."""


class PerturbationDesign(Design):
    """One instance and its perturbations, weighted by proximity."""

    def __init__(
        self, nb: Neighbourhood, options: Options, context: Context, history: History
    ) -> None:
        super().__init__(nb, options, context, history)
        self.by_masks = bool(nb.by_masks)
        self.enumerable = self.by_masks
        self.end_queries = int(self.by_masks)
        self.origin = np.asarray(nb.design_at, dtype=np.float64)
        self.d = len(self.origin)
        self.paired = bool(options.sampler.paired)
        if self.paired and not self.by_masks:
            msg = "sampler='paired' needs masks; a table's perturbed rows have no complement. "
            msg += "Use sampler='random'"
            raise InputError(msg)
        kernel = options.kernel or (ON_MASKS if self.by_masks else ON_TABLES)
        self.kernel = replace(kernel, root=False) if options.paper else kernel

    @cached_property
    def everything(self) -> float:
        """All masks; a table's perturbations never end."""
        if not self.by_masks or self.options.noisy:
            return np.inf
        return coalitions_of(self.d)

    @property
    def repeat_cost(self) -> int:
        """1 on masks, where a query is one model row; a table's f(x) is no query."""
        return 1 if self.by_masks and not self.options.noisy else 0

    def unasked(self, h: History) -> float:
        """Masks that were not asked yet; a table's perturbations never end."""
        return self.everything - 1 - h.rows.n

    def ends_due(self, h: History, ceiling: int) -> int:
        """f(x), once."""
        del ceiling
        return int(h.full is None)

    def end_pair(self) -> list[Query]:
        """Return the query for f(x)."""
        return [instance_query(self.neighbourhood)]

    def perturbation_query(self, candidates: Candidates) -> Query:
        """Return the query for the perturbed inputs."""
        nb, stream, noisy = self.neighbourhood, self._stream, self.options.noisy
        if not isinstance(stream, PerturbationStream):
            return coalition_query(nb, candidates.design, unit=self.unit)
        drawn, whole = stream.drawn(candidates)
        first, seed = stream.first, int(self.options.seed)
        if not whole:
            chosen = candidates.position - first
            return Query(
                lambda a, b: (drawn.pick(chosen[a:b]), None),
                len(chosen),
                ONE_ROW,
                nb.row_bytes,
                nb.form,
            )

        def make(a: int, b: int) -> tuple[Native, Ints | None]:
            rows = drawn if b - a == len(drawn) else self.perturb(seed, first + a, first + b)
            return (rows.inputs(), None) if noisy else rows.unique()

        shared = None if drawn.key is None or noisy else ("perturb", _without_range(drawn.key))
        return Query(make, len(drawn), ONE_ROW, nb.row_bytes, nb.form, share=shared, first=first)

    def perturb(self, seed: int, start: int, stop: int) -> Perturbations:
        """Perturbed rows ``start`` to ``stop`` of a table's stream."""
        return cast("TabularNeighbourhood", self.neighbourhood).perturb(seed, start, stop)

    def absorb_rows(
        self, h: History, candidates: Candidates, y: Outputs, result: Result, *, whole: bool
    ) -> dict[str, Any]:
        """Add the rows with their proximities; tables remember their place in the stream."""
        del result
        weights = np.asarray(self.kernel.weights(candidates.design, self.origin))
        changes: dict[str, Any] = {"rows": h.rows.add(candidates.design, y, weights)}
        if isinstance(self._stream, PerturbationStream):
            # candidates that an adaptive sampler passed over are not offered again
            changes["cursor"] = self._stream.at if whole else int(candidates.position[-1]) + 1
        return changes

    def fresh_stream(self, h: History) -> MaskStream | PerturbationStream:
        """Return the perturbations that were not asked yet, in the order of the seed."""
        d, seed, pairs = self.d, int(self.options.seed), self.paired
        if not self.by_masks:
            return PerturbationStream(self.neighbourhood, seed, h.cursor)
        known = h.rows.design()[:: self.unit] if h.rows.n else None
        # f(x) is known; of a noisy model it is a value like any other, asked as often as others
        skip = () if self.options.noisy else ((0, d) if pairs else (d,))
        sequence = self.context.once(
            ("coins", d, seed, pairs, skip),
            lambda: BernoulliSequence(d, seed, skip=skip, paired=pairs),
        )
        return MaskStream(sequence, known, repeat=self.options.noisy)


def _without_range(key: object) -> object:
    """Drop the positions from a key of perturbed rows: a stream is shared under one key."""
    if isinstance(key, tuple):
        return tuple(part for part in key if not isinstance(part, range))
    return key
