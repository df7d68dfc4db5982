"""A surrogate of the model that is fitted once and assists every explanation of a table."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from credex.posteriors.assisted import (
    BASIS_ROWS,
    MAX_EXACT_ROWS,
    InputSpace,
    Surrogate,
    fit_kernel,
)
from credex.posteriors.sample import Sample
from credex.typing import Floats

__all__ = ["Warmed"]


class Warmed:
    """A surrogate of the model that was fitted once, before the instance was known.

    Estimates start from its Shapley values and learn what it gets wrong. ``key`` says of which
    function and background it is.
    """

    def __init__(
        self, space: InputSpace, rows: Floats, y: Floats, seed: int, key: Hashable
    ) -> None:
        self.n_rows, self.key = len(rows), key
        self.middle, spread = y.mean(axis=0), y.std(axis=0)
        self.spread = np.where(spread > 0, spread, 1.0)
        standard = (y - self.middle) / self.spread
        kernel = fit_kernel(space, rows, standard, seed)
        basis = rows[:BASIS_ROWS] if len(rows) > MAX_EXACT_ROWS else None
        self._fit = Surrogate(kernel, space, rows, standard, basis)

    def predict(self, rows: Floats) -> Floats:
        """Values ``(n, k)`` at encoded rows."""
        return np.asarray(self.middle + self.spread * self._fit.predict(rows))

    def shapley(self, x: Floats, sample: Sample) -> tuple[Floats, Floats]:
        """Values on each background row: Shapley ``(n, d, k)`` and of the row itself ``(n, k)``."""
        f = self._fit.shapley(x, sample.rows, sample.weights)
        return f.by_row * self.spread, self.middle + f.base_by_row * self.spread
