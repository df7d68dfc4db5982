"""Coalition sizes as strata: their numbers of coalitions, and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np

from credex.typing import Floats, Ints, Masks, Weights

MIN_CELL = 2
"""Strata are joined with their neighbour until a cell holds this many draws."""


@dataclass(frozen=True, slots=True, eq=False)
class Strata:
    """Strata of the coalitions of d features by size; complements share one if ``paired``.

    Attributes
    ----------
    d, paired
        What they were made for.
    count
        ``(S,)`` number of coalitions (of pairs) in each stratum; at most 1e300.
    mass
        ``(S,)`` share of the Shapley kernel's total weight, sums to one.
    """

    d: int
    paired: bool
    count: Floats
    mass: Floats

    def index(self, masks: Masks) -> Ints:
        """Stratum of each mask, ``(n,)``; sizes 0 and d are not allowed."""
        size = (masks @ np.ones(self.d)).astype(np.int64)
        return np.asarray((np.minimum(size, self.d - size) if self.paired else size) - 1)

    def weigh(self, stratum: Ints) -> tuple[Weights, Floats]:
        """Weights (mean one) and asked fractions of units drawn uniformly within strata.

        A stratum's units share its mass equally. Strata with fewer than two draws are joined with
        the next one, unless they were asked in full.
        """
        drawn = np.bincount(stratum, minlength=len(self.count))
        cell = self._cells(drawn)
        w = self.mass / np.maximum(drawn, 1)
        got, due = np.bincount(cell, w * drawn), np.bincount(cell, self.mass)
        w *= (due / np.where(got > 0, got, 1.0))[cell]
        w *= len(stratum) / (w @ drawn)
        fraction = (np.bincount(cell, drawn) / np.bincount(cell, self.count))[cell]
        return w[stratum], fraction[stratum]

    def _cells(self, drawn: Ints) -> Ints:
        """Number the cells, ``(S,)``: strata that are weighted together."""
        cells: list[int] = []
        current, members, got = 0, 0, 0
        for n, count in zip(drawn.tolist(), self.count.tolist(), strict=True):
            cells.append(current)
            members, got = members + 1, got + n
            complete = members == 1 and n == count
            if got >= MIN_CELL or complete:
                current, members, got = current + 1, 0, 0
        cell = np.array(cells, dtype=np.int64)
        if members and current > 0:
            cell[cell == current] = current - 1
        return cell


@lru_cache(maxsize=64)
def strata(d: int, *, paired: bool) -> Strata:
    """Return the strata of d ≥ 2 features."""
    sizes = range(1, d // 2 + 1) if paired else range(1, d)
    halves = [2 if paired and 2 * s == d else 1 for s in sizes]
    count = [float(min(comb(d, s), 10**300)) / h for s, h in zip(sizes, halves, strict=True)]
    mass = np.array([1.0 / (s * (d - s)) / h for s, h in zip(sizes, halves, strict=True)])
    return Strata(d, paired, np.array(count), mass / mass.sum())
