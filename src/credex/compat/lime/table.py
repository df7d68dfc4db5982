"""lime's neighbourhood of a table's row: bins, and values drawn from normals cut to a bin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from credex.domains.tabular.columns import Marginal, binned
from credex.domains.tabular.tabular import Tabular
from credex.domains.tabular.training import Training
from credex.errors import InputError
from credex.typing import Floats, Ints

__all__ = ["Bins", "LimeTable", "bins_of"]

MIN_ROWS = 4_000
"""Rows of the table that values are drawn from; fewer training rows are repeated.

A bin of a quarter of them has 1,000 quantiles of its normal distribution, which are within 0.05
standard deviations of it in its tails.
"""

PERCENTILES = {"quartile": (25, 50, 75), "decile": tuple(range(10, 100, 10))}


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """The q + 1 bins of one column, and the normal distribution that values in each come from.

    ``edges (q,)`` are increasing: bin b holds ``edges[b-1] < value ≤ edges[b]``. The other arrays
    are ``(q + 1,)``: ends, mean and standard deviation of the values in each bin.
    """

    edges: Floats
    low: Floats
    high: Floats
    mean: Floats
    sd: Floats

    @classmethod
    def of(cls, values: Floats, edges: Floats) -> Bins:
        """Return the bins of a column with these edges."""
        edges = np.unique(edges)
        bin_of, n = np.searchsorted(edges, values), len(edges) + 1
        inside = [values[bin_of == b] for b in range(n)]
        mean = np.array([part.mean() if len(part) else 0.0 for part in inside])
        sd = np.array([part.std() if len(part) else 0.0 for part in inside])
        low, high = np.append(values.min(), edges), np.append(edges, values.max())
        return cls(edges, low, high, mean, sd)

    def label(self, name: str, value: float) -> str:
        """Return the bin of ``value`` as lime writes it: ``0.50 < age <= 1.00``."""
        b, edges = int(np.searchsorted(self.edges, value)), [f"{edge:.2f}" for edge in self.edges]
        if b == 0:
            return f"{name} <= {edges[0]}"
        if b == len(edges):
            return f"{name} > {edges[-1]}"
        return f"{edges[b - 1]} < {name} <= {edges[b]}"

    def spread(self, bin_of: Ints) -> Floats:
        """Return a value for each bin ``(n,)``: evenly spaced quantiles of the bin's normal."""
        from scipy.special import ndtr, ndtri

        out = np.empty(len(bin_of))
        for b in range(len(self.low)):
            at = np.flatnonzero(bin_of == b)
            low, high, mean, sd = self.low[b], self.high[b], self.mean[b], self.sd[b]
            if sd > 0 and low < high:
                first, last = ndtr((low - mean) / sd), ndtr((high - mean) / sd)
                share = (np.arange(len(at)) + 0.5) / max(len(at), 1)
                out[at] = np.clip(mean + sd * ndtri(first + share * (last - first)), low, high)
            else:
                out[at] = mean
        return out


def bins_of(
    data: Floats, numeric: Sequence[int], discretizer: Any, labels: Any, seed: int
) -> dict[int, Bins]:
    """Return the bins of each numeric column: by percentiles, a tree, or lime's own object."""
    if not isinstance(discretizer, str):
        return _bins_of_object(numeric, discretizer)
    if discretizer == "entropy":
        if labels is None:
            raise InputError("discretizer='entropy' splits by training_labels, which are missing")
        return {j: Bins.of(data[:, j], _splits(data[:, j], labels, seed)) for j in numeric}
    if discretizer not in PERCENTILES:
        msg = f"discretizer is {discretizer!r}; use 'quartile', 'decile', 'entropy', or an object "
        raise InputError(msg + "of lime.discretize")
    q = PERCENTILES[discretizer]
    return {j: Bins.of(data[:, j], np.percentile(data[:, j], q)) for j in numeric}


def _splits(column: Floats, labels: Any, seed: int) -> Floats:
    """Return where a tree of depth three splits the column to tell the labels apart."""
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(criterion="entropy", max_depth=3, random_state=seed)
    found = tree.fit(column[:, None], labels).tree_
    splits = found.threshold[found.children_left > -1]
    return np.sort(splits) if len(splits) else np.array([np.median(column)])


def _bins_of_object(numeric: Sequence[int], given: Any) -> dict[int, Bins]:
    """Read the bins of a discretizer of lime's, or of a class derived from it."""
    try:
        fields = [getattr(given, name) for name in ("mins", "maxs", "means", "stds")]
    except AttributeError:
        msg = f"discretizer is a {type(given).__name__}; use 'quartile', 'decile', 'entropy', or "
        raise InputError(msg + "an object of lime.discretize") from None
    out = {}
    for j in numeric:
        if j not in fields[0]:
            raise InputError(f"the discretizer has no bins of column {j}, which is not categorical")
        low, high, mean, sd = (np.asarray(field[j], dtype=np.float64) for field in fields)
        out[j] = Bins(low[1:], low, high, mean, sd)
    return out


class LimeTraining(Training):
    """Training rows whose bins are given."""

    bins_by_column: dict[int, Bins]

    @cached_property
    def marginals(self) -> list[Marginal]:
        """The distribution of each column, with the given edges."""
        out = list(super().marginals)
        for j, bins in self.bins_by_column.items():
            codes = binned(self.table.floats(j), bins.edges)
            out[j] = replace(out[j], edges=bins.edges, codes=codes)
        return out


class LimeTable(Tabular):
    """`Tabular` with lime's neighbourhood; without bins of its ``columns`` it is `Tabular`'s own.

    lime draws a bin by its share of the training rows, and then a value from a normal distribution
    cut to the bin. `Tabular` draws training rows; so the training rows given to it have evenly
    spaced quantiles of these distributions in the place of their own values.
    """

    def __init__(self, data: Any, columns: dict[int, Bins] | None, **options: Any) -> None:
        import pandas as pd

        self._bins = columns or {}
        if self._bins:
            values = np.tile(data.to_numpy(), (-(-MIN_ROWS // len(data)), 1))
            for j, of_column in self._bins.items():
                values[:, j] = of_column.spread(np.searchsorted(of_column.edges, values[:, j]))
            data = pd.DataFrame(values, columns=data.columns)
        super().__init__(data, **options)

    def _part(self, rows: Ints | None, label: Any) -> Training:
        part = super()._part(rows, label)
        if not self._bins:
            return part
        training = LimeTraining(
            part.whole, part.features, part.weights, part.rows, part.max_background, part.key
        )
        training.bins_by_column = self._bins
        return training
