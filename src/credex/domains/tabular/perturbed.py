"""Perturbed rows of a table: real training values, or numbers moved by a normal step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.domains.tabular.backend import Column
from credex.domains.tabular.table import Table
from credex.domains.tabular.training import Draws, Population
from credex.typing import Floats, Ints, Native

__all__ = ["TabularRows"]

_PAYS = 0.7  # merge repeated rows only if at most so many are distinct


@dataclass(frozen=True, slots=True, eq=False)
class TabularRows:
    """n perturbed rows, made when asked for.

    Attributes
    ----------
    population
        Where values are taken from.
    draws
        Which training row each column takes its value from.
    at
        ``(p,)`` bin or category number of the instance.
    moved, numbers
        Native columns (and the same as floats) of features that moved instead of being drawn.
    """

    population: Population
    draws: Draws
    at: Ints
    moved: dict[int, Column]
    numbers: dict[int, Floats]

    def inputs(self) -> Native:
        """Return the rows in the user's own form.

        Row labels are those of the training rows that the first feature was drawn from.
        """
        return self.population.table.gather(self.draws.places, self.moved)

    def pick(self, positions: Ints) -> Native:
        """Return the rows at ``(m,)`` positions only."""
        return self.population.table.gather(
            self.draws.places.some(positions),
            {j: self.population.table.form.take(c, positions) for j, c in self.moved.items()},
        )

    def coordinates(self) -> Floats:
        """``(n, p)`` numbers that say where each row lies.

        Numbers and dates are in training standard deviations from the training mean; a missing
        value lies one standard deviation below the smallest value, infinities one beyond the
        extremes. Categories and booleans are 0 where they equal the instance's and 1 elsewhere.
        """
        population = self.population
        out = np.empty(self.draws.codes.shape)
        for j, role in enumerate(population.roles):
            if role not in ("number", "date"):
                out[:, j] = self.draws.codes[:, j] != self.at[j]
                continue
            marginal = population.marginal(j)
            if j in self.numbers:
                values = self.numbers[j]
            else:
                values = population.table.floats(j)[self.draws.places.column(j)]
            scaled = (values - marginal.mean) / marginal.sd
            scaled[np.isnan(scaled) | (scaled == -np.inf)] = marginal.low - 1.0
            scaled[scaled == np.inf] = marginal.high + 1.0
            out[:, j] = scaled
        return out

    def unique(self, then: Table | None = None, times: int = 0) -> tuple[Native, Ints | None]:
        """Distinct rows and the ``(n,)`` position of each row among them.

        Rows are searched for repeats only if every column has at most 256 distinct values and
        none moved, and merged only if at most 0.7·n are distinct. ``then``: one more row,
        ``times`` times behind all of them.
        """
        found = self._distinct()
        if found is None:
            return self.population.table.gather(self.draws.places, self.moved, then, times), None
        first, index = found
        return self.population.table.gather(self.draws.places.some(first), {}, then, times), index

    def _distinct(self) -> tuple[Ints, Ints] | None:
        """Where the distinct rows are, and which of them each row is; ``None``: no merging."""
        population = self.population
        n, p = self.draws.codes.shape
        if self.moved or n == 0:
            return None
        numbers = population.few
        if numbers is None:
            return None
        small = self.draws.places.take(numbers)
        _, first, index = np.unique(
            small.view(f"V{2 * p}").reshape(-1), return_index=True, return_inverse=True
        )
        if len(first) > _PAYS * n:
            return None
        return first, index.reshape(-1).astype(np.int64)
