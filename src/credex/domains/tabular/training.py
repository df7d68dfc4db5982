"""`Training`: training rows (all, or one cohort) as BayesSHAP and BayesLIME need them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.cells import is_missing, plain
from credex.domains.draws import blocks
from credex.domains.tabular.factorize import digest, factorize
from credex.domains.tabular.features import Features
from credex.domains.tabular.marginals import Marginal, bin_labels, number_texts
from credex.domains.tabular.summary import Summary, summarise
from credex.domains.tabular.table import Table, take_cells
from credex.typing import Floats, Ints

__all__ = ["Training"]

_MAX_DISTINCT = 256  # a column with more distinct values is not searched for repeated rows


class Training:
    """Training rows with weights; what is derived from them is made when it is first read.

    Parameters
    ----------
    whole
        All rows of the domain.
    features
        Which columns make up which feature.
    weights
        ``(N,)`` non-negative, or ``None``.
    rows
        ``(N,)`` positions of the cohort's rows; ``None``: all.
    max_background
        Largest number of background rows, or ``None`` for all.
    key
        What tells these rows from those of other cohorts and domains.
    """

    def __init__(
        self,
        whole: Table,
        features: Features,
        *,
        weights: Floats | None,
        rows: Ints | None,
        max_background: int | None,
        key: tuple[Hashable, ...],
    ) -> None:
        self.table = whole if rows is None else whole.take(rows)
        self.features = features
        self.weights = weights
        self.key = key
        self._whole = whole
        self._max_background = max_background
        self._bins = features.bins or 4  # numbers inside a group are always compared by bin
        self._marginals: dict[int, Marginal] = {}
        self._labels: dict[int, list[str]] = {}
        self._last: tuple[tuple[int, int, int], tuple[Ints, NDArray[Any]]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the last draws, which are quick to make again."""
        return {**self.__dict__, "_last": None}

    @cached_property
    def digest(self) -> str:
        """Digest of the rows, weights and settings that perturbations are drawn with."""
        f = self.features
        settings = (self._bins, f.feature_of.tolist(), f.bins, f.around)
        return digest(self.table, self._factorized, f.roles, self.weights, settings)

    def _factorized(self, j: int) -> tuple[Ints, dict[Any, int]]:
        return self.marginal(j).codes, self.marginal(j).categories

    @cached_property
    def background_digest(self) -> str:
        """Digest of the rows and weights that stand in for a switched-off feature."""
        table, f = self.background, self.features
        groups = (f.feature_of.tolist(),)
        return digest(table, partial(factorize, table), f.roles, self.summary.weights, groups)

    @cached_property
    def summary(self) -> Summary:
        """Which rows are the background."""
        numeric = all(self.features.ordered)
        return summarise(self.table, self.weights, self._max_background, numeric=numeric)

    @cached_property
    def background(self) -> Table:
        """The B rows that stand in for a switched-off feature."""
        return self.table.take(self.summary.rows)

    def find(self, j: int, value: Any) -> int | None:
        """Return the first row of the domain whose column j equals the value, or ``None``."""
        for i, other in enumerate(self._whole.objects(j)):
            if not is_missing(other) and other == value:
                return i
        return None

    def marginal(self, j: int) -> Marginal:
        """Return the distribution of column j."""
        if j not in self._marginals:
            if self.features.ordered[j]:
                made = Marginal.of_numbers(self.table.floats(j), self._bins, self.weights)
            else:
                codes, categories = factorize(self.table, j)
                made = Marginal(codes, categories=categories)
            self._marginals[j] = made
        return self._marginals[j]

    @cached_property
    def scalable(self) -> dict[int, int]:
        """Column of each feature that is one ordered column with a finite training value."""
        f = self.features
        return {
            feature: columns[0]
            for feature, columns in enumerate(f.members)
            if feature not in f.grouped
            and f.ordered[columns[0]]
            and self.marginal(columns[0]).known
        }

    def bin_labels(self, j: int) -> list[str] | None:
        """Conditions of the bins of column j; ``None`` if it has no order."""
        edges = self.marginal(j).edges
        if edges is not None and j not in self._labels:
            number = self.features.roles[j] == "number"
            texts = number_texts(edges) if number else self._date_texts(j, edges)
            self._labels[j] = bin_labels(self.table.names[j], texts)
        return self._labels.get(j)

    def _date_texts(self, j: int, edges: Floats) -> list[str]:
        """Bin edges of a date column as dates; rounded down, which changes no bin."""
        dates = self.table.backend.from_floats(self.table.columns[j], np.floor(edges))
        values = [plain(value) for value in dates]
        if not all(isinstance(value, dt.datetime) for value in values):
            return [str(value) for value in values]
        times = [value.time() for value in values]
        form = "%Y-%m-%d"
        if any(time != dt.time() for time in times):
            form += " %H:%M:%S" if any(t.second or t.microsecond for t in times) else " %H:%M"
        return [value.strftime(form) for value in values]

    @cached_property
    def codes(self) -> NDArray[Any]:
        """``(N, p)`` bin or category of every training value, in few bytes."""
        columns = [self.marginal(j).codes for j in range(self.table.n_columns)]
        small = max(int(codes.max()) for codes in columns) < np.iinfo(np.int16).max
        return np.column_stack([c.astype(np.int16 if small else np.int32) for c in columns])

    @cached_property
    def value_codes(self) -> NDArray[np.int16] | None:
        """``(N, p)`` codes that are equal if the values are; ``None`` if a column has over 256."""
        columns = []
        for j in range(self.table.n_columns):
            codes = self.marginal(j).codes
            if self.features.ordered[j]:
                values = self.table.floats(j)
                if len(np.unique(values[:2048])) > _MAX_DISTINCT:
                    return None
                codes = np.unique(values, return_inverse=True)[1]
            if codes.max() >= _MAX_DISTINCT:
                return None
            columns.append(codes.astype(np.int16))
        return np.column_stack(columns)

    @cached_property
    def _cumulative(self) -> Floats | None:
        """``(N,)`` cumulative weights, or ``None`` for equal ones."""
        return None if self.weights is None else np.cumsum(self.weights / self.weights.sum())

    def draw(self, seed: int, start: int, stop: int) -> tuple[Ints, NDArray[Any]]:
        """Draw training rows by weight, one for each perturbation and feature.

        They do not depend on the instance, so a batch shares them: the last ones are kept.

        Returns
        -------
        rows, codes
            ``(n, p)`` row that each value is taken from, and its bin or category.
        """
        wanted, last = (seed, start, stop), self._last
        if last is not None and last[0] == wanted:
            return last[1]
        width = len(self.features.names)
        uniform = blocks(seed, "uniform", start, stop, width)
        cumulative = self._cumulative
        if cumulative is None:  # below N: the largest draw is 1 − 2⁻⁵³
            rows = (uniform * self.table.n_rows).astype(np.int64)
        else:
            found = np.searchsorted(cumulative, uniform, side="right")
            last_used = int(np.searchsorted(cumulative, cumulative[-1], side="left"))
            rows = np.minimum(found, last_used).astype(np.int64)
        if width < self.table.n_columns:  # columns of a group come from the same row
            rows = rows[:, self.features.feature_of]
        drawn = rows, take_cells(self.codes, rows)
        self._last = wanted, drawn
        return drawn
