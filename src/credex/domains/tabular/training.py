"""`Population`: training rows (all, or one cohort) as BayesSHAP and BayesLIME look at them.

Both views are made when first asked for: the background of few rows, and the marginal
distribution of each column.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property as once
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.domains.draws import blocks
from credex.domains.tabular.backend import Kind
from credex.domains.tabular.bins import Bins
from credex.domains.tabular.digest import digest
from credex.domains.tabular.factorize import Codes, Likeness
from credex.domains.tabular.indices import Places
from credex.domains.tabular.summary import Summary, summarise
from credex.domains.tabular.table import Table
from credex.typing import Floats, Ints

__all__ = ["Background", "Draws", "Marginal", "Population"]

_FEW = 256  # a column with more distinct values is not searched for repeated rows


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """The rows that stand in for a switched-off feature, with their weights ``(B,)``."""

    table: Table
    summary: Summary
    likeness: Likeness


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """One column's distribution.

    Attributes
    ----------
    rows
        ``(N,)`` bin (ordered columns) or category number of each row.
    mean, sd
        Of the finite values; 0 and 1 for unordered or empty columns, ``sd`` is 1 if constant.
    low, high
        Smallest and largest finite value in standard deviations from the mean.
    bins, codes
        One of them says what ``rows`` means.
    known
        Whether an ordered column has any finite value.
    """

    rows: Ints
    mean: float
    sd: float
    low: float
    high: float
    bins: Bins | None
    codes: Codes | None
    known: bool


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Training rows drawn for n perturbations.

    Attributes
    ----------
    places
        Where each of the ``(n, p)`` values comes from.
    codes
        ``(n, p)`` bin or category number of that value.
    """

    places: Places
    codes: NDArray[Any]


class Population:
    """Training rows with weights.

    Parameters
    ----------
    table
        N rows.
    weights
        ``(N,)`` non-negative, or ``None``.
    roles
        How each of the p columns is treated.
    feature_of
        ``(p,)`` feature each column belongs to.
    bins
        Number of bins of an ordered column.
    most
        Most background rows, or ``None`` for all.
    key
        What tells this population from others.
    """

    def __init__(
        self,
        table: Table,
        weights: Floats | None,
        *,
        roles: tuple[Kind, ...],
        feature_of: Ints,
        bins: int,
        most: int | None,
        key: Hashable,
    ) -> None:
        self.table = table
        self.weights = weights
        self.roles = roles
        self.feature_of = feature_of
        self.key = key
        self._bins = bins
        self._most = most
        self._digests: dict[tuple[Any, ...], str] = {}
        self._marginals: dict[int, Marginal] = {}
        self.labels: dict[tuple[int, int], str] = {}
        self._last: tuple[tuple[int, int, int], Draws] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the last draws, which are quick to make again."""
        return {**self.__dict__, "_last": None}

    def digest(self, *settings: Any) -> str:
        """Name of the rows and weights that perturbations are drawn from."""
        if settings not in self._digests:
            groups = self.feature_of.tolist()
            self._digests[settings] = digest(
                self.table,
                self.roles,
                self.weights,
                self._bins,
                groups,
                *settings,
                known=lambda j: self.marginal(j).codes,
            )
        return self._digests[settings]

    @once
    def background_digest(self) -> str:
        """Name of the rows and weights that stand in for a switched-off feature."""
        made = self.background
        return digest(made.table, self.roles, made.summary.weights, self.feature_of.tolist())

    @once
    def background(self) -> Background:
        """The summary of these rows."""
        numeric = all(role in ("number", "date") for role in self.roles)
        summary = summarise(self.table, self.weights, self._most, numeric=numeric)
        table = self.table.take(summary.rows)
        return Background(table, summary, Likeness.of(table))

    @once
    def cumulative(self) -> Floats | None:
        """``(N,)`` cumulative weights, or ``None`` for equal ones."""
        return None if self.weights is None else np.cumsum(self.weights / self.weights.sum())

    def marginal(self, j: int) -> Marginal:
        """Return the distribution of column j."""
        found = self._marginals.get(j)
        if found is None:
            ordered = self.roles[j] in ("number", "date")
            found = self._ordered(j) if ordered else self._unordered(j)
            self._marginals[j] = found
        return found

    def _unordered(self, j: int) -> Marginal:
        codes = Codes.of(self.table, j)
        return Marginal(codes.rows, 0.0, 1.0, 0.0, 0.0, None, codes, known=False)

    def _ordered(self, j: int) -> Marginal:
        values = self.table.floats(j)
        bins = Bins.of(values, self._bins, self.weights)
        finite = np.isfinite(values)
        if self.weights is not None:
            finite &= self.weights > 0
        if not finite.any():
            return Marginal(bins.index(values), 0.0, 1.0, 0.0, 0.0, bins, None, known=False)
        kept = values[finite]
        weights = None if self.weights is None else self.weights[finite]
        # The first value is subtracted so that dates (large numbers) keep their digits.
        mean = float(kept[0] + np.average(kept - kept[0], weights=weights))
        sd = float(np.sqrt(np.average((kept - mean) ** 2, weights=weights)))
        if kept.min() == kept.max() or not np.isfinite(sd) or sd <= 0:
            mean, sd = float(kept[0]), 1.0
        low, high = (float(kept.min()) - mean) / sd, (float(kept.max()) - mean) / sd
        return Marginal(bins.index(values), mean, sd, low, high, bins, None, known=True)

    @once
    def codes(self) -> NDArray[Any]:
        """``(N, p)`` bin or category number of every training value, in few bytes."""
        rows = [self.marginal(j).rows for j in range(self.table.n_columns)]
        small = max(int(numbers.max()) for numbers in rows) < np.iinfo(np.int16).max
        out = np.empty((self.table.n_rows, len(rows)), dtype=np.int16 if small else np.int32)
        for j, numbers in enumerate(rows):
            out[:, j] = numbers
        return out

    @once
    def _edges(self) -> Floats:
        """``(q, p)`` bin edges of the ordered columns, padded with infinity."""
        bins = [self.marginal(j).bins for j in range(self.table.n_columns)]
        widest = max((len(b.edges) for b in bins if b is not None), default=0)
        out = np.full((widest, len(bins)), np.inf)
        for j, b in enumerate(bins):
            if b is not None:
                out[: len(b.edges), j] = b.edges
        return out

    @once
    def _ordered_columns(self) -> list[bool]:
        """Which of the p columns have an order."""
        return [role in ("number", "date") for role in self.roles]

    @once
    def _all_ordered(self) -> bool:
        return all(self._ordered_columns)

    def locate(self, x: Table) -> Ints:
        """``(p,)`` bin or category number of each value of the one-row table ``x``."""
        ordered = self._ordered_columns
        if x.block is not None and x.block.dtype.kind in "iuf":
            values = x.block[0].astype(np.float64)
        else:
            values = np.array([x.floats(j)[0] if o else 0.0 for j, o in enumerate(ordered)])
        out: Ints = np.add.reduce(self._edges < values, axis=0)
        gone = np.isnan(values)
        for missing in gone.nonzero()[0].tolist() if np.count_nonzero(gone) else ():
            bins = self.marginal(missing).bins
            out[missing] = 0 if bins is None else bins.missing
        if not self._all_ordered:
            for j, is_ordered in enumerate(ordered):
                codes = self.marginal(j).codes
                if not is_ordered and codes is not None:
                    out[j] = codes.number(x.objects(j)[0])
        return out

    @once
    def few(self) -> NDArray[np.int16] | None:
        """``(N, p)`` numbers of the values in their columns; ``None`` if one has above 256."""
        out = np.empty((self.table.n_rows, self.table.n_columns), dtype=np.int16)
        for j in range(self.table.n_columns):
            numbers = self._number_values(j)
            if numbers is None:
                return None
            out[:, j] = numbers
        return out

    def _number_values(self, j: int) -> Ints | None:
        marginal = self.marginal(j)
        if marginal.codes is not None:
            return marginal.rows if len(marginal.codes.values) <= _FEW else None
        values = self.table.floats(j)
        if len(np.unique(values[:2048])) > _FEW:
            return None
        distinct, rows = np.unique(values, return_inverse=True)
        return rows.astype(np.int64) if len(distinct) <= _FEW else None

    def draw(self, seed: int, start: int, stop: int) -> Draws:
        """Draw training rows by weight, one for each feature and perturbation.

        They do not depend on the instance, so a batch shares them: the last ones are kept.
        """
        wanted = (seed, start, stop)
        last = self._last
        if last is not None and last[0] == wanted:
            places = last[1].places
            if places.kept is None and self.table.block is not None:
                places.keep(self.table.block)
            return last[1]
        width = int(self.feature_of.max()) + 1
        uniform = blocks(seed, "uniform", start, stop, width)
        n = self.table.n_rows
        if self.cumulative is None:
            uniform *= n  # stays below n: the largest draw is 1 − 2⁻⁵³
            positions = uniform.astype(np.int64)
        else:
            found = np.searchsorted(self.cumulative, uniform, side="right")
            last_used = int(np.searchsorted(self.cumulative, self.cumulative[-1], side="left"))
            positions = np.minimum(found, last_used).astype(np.int64)
        if width < self.table.n_columns:  # columns of a group come from the same row
            positions = positions[:, self.feature_of]
        places = Places.of_rows(positions)
        draws = Draws(places, places.take(self.codes))
        self._last = (wanted, draws)
        return draws
