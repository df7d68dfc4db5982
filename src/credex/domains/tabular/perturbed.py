"""Perturbed rows of a table: real training values, or numbers moved by a normal step."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from credex.domains.tabular.backend import Column
from credex.domains.tabular.table import take_cells
from credex.domains.tabular.training import Training
from credex.typing import Design, Floats, Ints, Native

__all__ = ["Perturbations"]

_MAX_DISTINCT = 0.7  # merge repeated rows only if at most this share is distinct


@dataclass(frozen=True, slots=True, eq=False)
class Perturbations:
    """Perturbed rows around one instance; model inputs are made when they are asked for.

    Attributes
    ----------
    design
        ``(n, d)`` rows that describe the inputs: booleans if every feature is binary, else floats.
    key
        Equal keys mean identical inputs, whatever the instance; ``None`` if they depend on it. A
        tuple whose last part is the ``range`` of positions in the stream.
    training
        Where values are taken from.
    rows
        ``(n, p)`` training row that each value is taken from.
    codes
        ``(p,)`` bin or category of the instance.
    moved
        Columns of features that moved instead of being drawn.
    """

    design: Design
    key: Hashable | None
    training: Training
    rows: Ints
    codes: Ints
    moved: Mapping[int, Column]

    def __len__(self) -> int:
        return len(self.design)

    def inputs(self) -> Native:
        """Return the n rows in the form the model expects.

        Row labels are those of the training rows that the first column was drawn from.
        """
        return self.training.table.gather(self.rows, self.rows[:, 0], self.moved)

    def pick(self, positions: Ints) -> Native:
        """Return the rows at ``(m,)`` positions only."""
        rows = self.rows[positions]
        moved = {j: column[positions] for j, column in self.moved.items()}
        return self.training.table.gather(rows, rows[:, 0], moved)

    def coordinates(self) -> Floats:
        """``(n, p)`` numbers that say where each row lies.

        Numbers and dates are in training standard deviations from the training mean; a missing
        value lies one standard deviation below the smallest value, infinities one beyond the
        extremes. Categories and booleans are 0 where they equal the instance's and 1 elsewhere.
        """
        table = self.training.table
        out = np.empty(self.rows.shape)
        for j, ordered in enumerate(self.training.features.ordered):
            marginal, rows = self.training.marginal(j), self.rows[:, j]
            if not ordered:
                out[:, j] = marginal.codes[rows] != self.codes[j]
                continue
            moved = j in self.moved
            values = table.backend.floats(self.moved[j]) if moved else table.floats(j)[rows]
            scaled = marginal.scaled(values)
            scaled[np.isnan(scaled) | (scaled == -np.inf)] = marginal.low - 1.0
            scaled[scaled == np.inf] = marginal.high + 1.0
            out[:, j] = scaled
        return out

    def unique(self) -> tuple[Native, Ints | None]:
        """Return the distinct rows and the ``(n,)`` position of each row among them.

        Rows are searched for repeats only if every column has at most 256 distinct values and
        none moved, and merged only if at most 0.7·n are distinct. Otherwise the positions are
        ``None`` and the rows are all n in order.
        """
        codes = None if self.moved or len(self) == 0 else self.training.value_codes
        if codes is None:
            return self.inputs(), None
        cells = take_cells(codes, self.rows)
        whole = cells.view(f"V{cells.shape[1] * cells.itemsize}").reshape(-1)
        _, first, index = np.unique(whole, return_index=True, return_inverse=True)
        if len(first) > _MAX_DISTINCT * len(self):
            return self.inputs(), None
        return self.pick(first), index.reshape(-1).astype(np.int64)
