"""Perturbations of one instance (BayesLIME): masks of fair coins, or perturbed rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import Any, Literal, cast

import numpy as np

from credex.designs.design import Context, Design, coalitions_of
from credex.designs.samplers import MAX_SHUFFLED, Candidates, MaskSequence, MaskStream, unseen
from credex.domains import Neighbourhood
from credex.domains.tabular.neighbourhood import Perturbations, TabularNeighbourhood
from credex.errors import InputError
from credex.game import Query
from credex.history import History
from credex.options import Options
from credex.seeds import Purpose, blocks, child, spawn
from credex.typing import Design as Rows
from credex.typing import Floats, Ints, Masks, Native, Weights

__all__ = ["BernoulliSequence", "Exponential", "PerturbationDesign", "all_masks"]

BLOCK = 256
"""Masks drawn at a time, whatever is asked for, so that batches change nothing."""


def all_masks(d: int) -> Masks:
    """All ``2^d`` masks, ``(2^d, d)``; bit j of the row number is feature j."""
    return ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(np.bool_)


COSINE_WIDTH = 0.25
"""Width of ``lime``'s kernel for images (its text kernel is the same on distances times 100)."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """``lime``'s kernel √exp(−D²/width²).

    Parameters
    ----------
    width
        ``None`` means lime's default: 0.75·√d for Euclidean distance, 0.25 for cosine.
    distance
        ``"euclidean"`` between design rows, or ``"cosine"`` (for masks: 1 − √(|z|/d)).
    root
        ``False`` leaves the root out: exp(−D²/width²), as the paper prints it.

    Examples
    --------
    >>> import numpy as np
    >>> from credex import Exponential
    >>> Exponential(width=1.0).weights(np.array([[True, True], [True, False]]), np.ones(2)).round(4)
    array([1.    , 0.6065])
    """

    width: float | None = None
    distance: Literal["euclidean", "cosine"] = "euclidean"
    root: bool = True

    def __post_init__(self) -> None:
        if self.width is not None and not (np.isfinite(self.width) and self.width > 0):
            msg = f"the kernel's width must be a positive number or None; got {self.width!r}"
            raise InputError(msg)
        if self.distance not in ("euclidean", "cosine"):
            msg = f"distance must be 'euclidean' or 'cosine'; got {self.distance!r}"
            raise InputError(msg)

    def weights(self, design: Rows, origin: Floats) -> Weights:
        """Weights of the rows ``design (n, d)`` seen from ``origin (d,)``."""
        if self.distance == "cosine":
            z = design.astype(np.float64)
            norms = np.sqrt(np.einsum("ij,ij->i", z, z)) * np.sqrt(origin @ origin)
            cos = np.divide(z @ origin, norms, out=np.zeros(len(z)), where=norms > 0)
            squared = np.maximum(1.0 - cos, 0.0) ** 2
            width = COSINE_WIDTH
        else:
            if design.dtype == np.bool_:  # z² = z
                squared = design @ (1.0 - 2.0 * origin) + origin @ origin
            else:
                steps = design - origin
                squared = np.einsum("ij,ij->i", steps, steps)
            width = 0.75 * sqrt(design.shape[1])
        width = width if self.width is None else self.width
        power = -0.5 if self.root else -1.0
        return np.asarray(np.exp(squared * (power / width**2)))


ON_MASKS, ON_TABLES = Exponential(distance="cosine"), Exponential()
"""lime's kernels."""


class BernoulliSequence(MaskSequence):
    """Masks of fair coins, none twice; ``skip`` leaves out given sizes.

    ``paired``: of each mask and its complement only the one that holds feature 0. A size that is
    skipped should then be with its complement's.
    """

    def __init__(
        self, d: int, seed: int, *, skip: tuple[int, ...] = (), paired: bool = False
    ) -> None:
        super().__init__(d, paired=paired)
        self.skip = skip
        self.capacity = (coalitions_of(d) - len(skip)) / (2 if paired else 1)
        self._rng = spawn(seed, Purpose.BERNOULLI_MASKS, d)
        self._drawn: set[bytes] = set()
        if 2**d <= MAX_SHUFFLED:
            every = self._wanted(all_masks(d))
            every = every[every[:, 0]] if paired else every
            self._masks = every[self._rng.permutation(len(every))]
            self.capacity = float(len(every))

    def _wanted(self, masks: Masks) -> Masks:
        return masks[~np.isin(masks.sum(axis=1), self.skip)]

    def _more(self, n: int) -> Masks:
        del n
        block = self._wanted(self._rng.random((BLOCK, self.d)) < 0.5)
        block = block ^ ~block[:, :1] if self.paired else block
        return block[unseen(block, self._drawn)]


def fair_coins(seed: int, start: int, stop: int, d: int, *, skip: tuple[int, ...] = ()) -> Masks:
    """Draws ``start`` to ``stop`` of masks of fair coins that may repeat, ``(stop − start, d)``.

    Masks of a size in ``skip`` are drawn again; there must be other sizes.
    """
    masks = np.asarray(blocks(seed, "uniform", start, stop, d) < 0.5)
    while (again := np.isin(masks.sum(axis=1), skip)).any():
        seed = child(seed, Purpose.COINS_AGAIN)
        masks[again] = (blocks(seed, "uniform", start, stop, d) < 0.5)[again]
    return masks


class PerturbationStream:
    """Perturbations from position ``start`` on; ``perturb(start, stop).design`` describes them."""

    drawn: Any
    """The perturbations taken last."""

    def __init__(self, perturb: Callable[[int, int], Any], start: int) -> None:
        self.perturb = perturb
        self.first = self.at = start
        """Positions of the first perturbation taken last, and of the next one."""

    def take(self, n: int) -> Candidates:
        """Take the next ``n`` perturbations."""
        self.first, self.at = self.at, self.at + n
        self.drawn = self.perturb(self.first, self.at)
        return Candidates(self.drawn.design, np.arange(self.first, self.at))

    def place(self, asked: Candidates, n: int) -> int:
        """Position that the next run goes on from."""
        # candidates that an adaptive sampler passed over are not offered again
        return self.at if n == len(asked) else int(asked.position[n - 1]) + 1


class PerturbationDesign(Design):
    """One instance and its perturbations, weighted by proximity."""

    def __init__(
        self, nb: Neighbourhood, options: Options, context: Context, history: History
    ) -> None:
        super().__init__(nb, options, context, history)
        self.by_masks = self.enumerable = bool(nb.by_masks)
        self.end_queries = int(self.by_masks)  # a table's f(x) is no query
        self.repeat_cost = int(self.by_masks and not options.noisy)
        self.origin = np.asarray(nb.design_at, dtype=np.float64)
        self.d = len(self.origin)
        endless = not self.by_masks or options.noisy
        self.everything = np.inf if endless else coalitions_of(self.d)
        self.paired = bool(options.sampler.paired)
        if self.paired and not self.by_masks:
            msg = "sampler='paired' needs masks; a table's perturbed rows have no complement. "
            msg += "Use sampler='random'"
            raise InputError(msg)
        kernel = options.kernel or (ON_MASKS if self.by_masks else ON_TABLES)
        self.kernel = replace(kernel, root=False) if options.paper else kernel

    def perturbation_queries(self, candidates: Candidates) -> list[Query]:
        """Return the query for the perturbed inputs."""
        stream = self._stream
        if not isinstance(stream, PerturbationStream):
            return [self.mask_query(candidates.design)]
        as_drawn = candidates.design is stream.drawn.design
        chosen = None if as_drawn else candidates.position - stream.first
        return [self.rows_query(stream.drawn, stream.first, chosen)]

    def rows_query(self, drawn: Perturbations, first: int, chosen: Ints | None) -> Query:
        """Query for rows of a table that were drawn from position ``first`` on; ``None``: all."""
        n, seed, noisy = len(drawn), int(self.options.seed), self.options.noisy
        if chosen is not None and not np.array_equal(chosen, np.arange(n)):
            return self.query(lambda a, b: (drawn.pick(chosen[a:b]), None), len(chosen))

        def make(a: int, b: int) -> tuple[Native, Ints | None]:
            rows = drawn if b - a == n else self.perturb(seed, first + a, first + b)
            return (rows.inputs(), None) if noisy else rows.unique()

        share = None
        if drawn.key is not None and not noisy:
            share = ("perturb", *drawn.key[:-1])  # one key for all positions of the stream
        return self.query(make, n, share=share, first=first)

    @property
    def perturb(self) -> Callable[[int, int, int], Perturbations]:
        """Function of seed, start and stop: perturbed rows of a table's stream."""
        table = cast("TabularNeighbourhood", self.neighbourhood)
        return partial(table.perturb, oversample=not self.options.literal)

    def row_weights(self, design: Rows) -> Weights:
        """Weights of perturbations: proximity to the instance, times importance weights."""
        weights = np.asarray(self.kernel.weights(design, self.origin))
        if self.by_masks or self.options.literal:
            return weights
        return weights * cast("TabularNeighbourhood", self.neighbourhood).importance(design)

    def fresh_stream(self, h: History) -> MaskStream | PerturbationStream:
        """Return the perturbations that were not asked yet, in the order of the seed."""
        d, seed, paired, noisy = self.d, int(self.options.seed), self.paired, self.options.noisy
        if not self.by_masks:
            return PerturbationStream(partial(self.perturb, seed), h.cursor)
        # f(x) is known; of a noisy model it is a value like any other, asked as often as others
        skip = () if noisy else ((0, d) if paired else (d,))
        sequence = self.context.once(
            ("coins", d, seed, paired, skip),
            lambda: BernoulliSequence(d, seed, skip=skip, paired=paired),
        )
        return MaskStream(sequence, self.known_units(h), repeat=noisy)
