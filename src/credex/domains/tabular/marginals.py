"""The distribution of one training column: quantile bins of an ordered one, else categories."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from credex.cells import is_missing
from credex.domains.tabular.factorize import MISSING, UNSEEN, factorize
from credex.domains.tabular.table import Table
from credex.errors import InputError
from credex.typing import Floats, Ints

__all__ = ["Bins", "Marginal", "bin_count", "number_texts"]


def bin_count(bins: str | int | None) -> int | None:
    """Return how many bins are asked for: 4, 10, an integer ≥ 2, or ``None`` for none."""
    if bins is None:
        return None
    if isinstance(bins, str) and bins in ("quartile", "decile"):
        return {"quartile": 4, "decile": 10}[bins]
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool) and 2 <= bins <= 1000:
        return int(bins)
    raise InputError(
        f"bins is {bins!r}; pass 'quartile', 'decile', a number of bins from 2 to 1000, or None "
        "to leave numbers continuous"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Half-open intervals between quantiles, as lime's; missing values have a bin of their own.

    Attributes
    ----------
    edges
        ``(q,)`` increasing; bin b holds ``edges[b-1] < value ≤ edges[b]``.
    """

    edges: Floats

    @classmethod
    def of(cls, values: Floats, count: int, weights: Floats | None = None) -> Bins:
        """Cut ``(n,)`` values at the distinct quantiles 1/count, …, (count-1)/count.

        Infinite and missing values do not move the edges.
        """
        finite = np.isfinite(values)
        kept = None if weights is None else weights[finite]
        if not finite.any() or (kept is not None and not kept.sum() > 0):
            return cls(np.empty(0))
        levels = np.arange(1, count) / count
        method: Any = "linear" if kept is None else "inverted_cdf"
        return cls(np.unique(np.quantile(values[finite], levels, weights=kept, method=method)))

    @property
    def missing(self) -> int:
        """The bin of missing values."""
        return len(self.edges) + 1

    def index(self, values: Floats) -> Ints:
        """``(n,)`` bin of each value: how many edges lie below it."""
        out = np.searchsorted(self.edges, values, side="left").astype(np.int64)
        out[np.isnan(values)] = self.missing
        return out

    def labels(self, name: str, texts: Callable[[Floats], list[str]]) -> list[str]:
        """Return each bin as a condition, such as ``29 < age ≤ 41``.

        Parameters
        ----------
        texts
            Turns edges into text; all edges at once, so that they stay distinct.
        """
        if len(self.edges) == 0:
            return [f"{name} present", f"{name} missing"]
        shown = texts(self.edges)
        between = [f"{low} < {name} ≤ {high}" for low, high in pairwise(shown)]
        return [f"{name} ≤ {shown[0]}", *between, f"{name} > {shown[-1]}", f"{name} missing"]


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """One column's distribution.

    Attributes
    ----------
    codes
        ``(N,)`` bin (ordered columns) or category of each training row.
    bins, categories
        One of them says what ``codes`` means; categories are codes by value.
    mean, sd
        Of the finite values; 0 and 1 for unordered or empty columns, ``sd`` is 1 if constant.
    low, high
        Smallest and largest finite value in standard deviations from the mean.
    known
        Whether an ordered column has any finite value.
    """

    codes: Ints
    bins: Bins | None = None
    categories: dict[Any, int] | None = None
    mean: float = 0.0
    sd: float = 1.0
    low: float = 0.0
    high: float = 0.0
    known: bool = False

    @classmethod
    def of_categories(cls, table: Table, j: int) -> Marginal:
        """Return the distribution of column j, whose values have no order."""
        codes, categories = factorize(table, j)
        return cls(codes, categories=categories)

    @classmethod
    def of_numbers(cls, values: Floats, count: int, weights: Floats | None) -> Marginal:
        """Return the distribution of ``(N,)`` weighted values, with ``count`` bins."""
        bins = Bins.of(values, count, weights)
        codes = bins.index(values)
        finite = np.isfinite(values)
        if weights is not None:
            finite &= weights > 0
        if not finite.any():
            return cls(codes, bins)
        kept = values[finite]
        w = None if weights is None else weights[finite]
        # The first value is subtracted so that dates (large numbers) keep their digits.
        mean = float(kept[0] + np.average(kept - kept[0], weights=w))
        sd = float(np.sqrt(np.average((kept - mean) ** 2, weights=w)))
        if kept.min() == kept.max() or not np.isfinite(sd) or sd <= 0:
            mean, sd = float(kept[0]), 1.0
        low, high = (float(kept.min()) - mean) / sd, (float(kept.max()) - mean) / sd
        return cls(codes, bins, None, mean, sd, low, high, known=True)

    def code(self, value: Any) -> int:
        """Bin of a float, or code of a category: `MISSING`, or `UNSEEN` in the training data."""
        if self.bins is not None:
            return self.bins.missing if math.isnan(value) else bisect_left(self.bins.edges, value)
        return MISSING if is_missing(value) else (self.categories or {}).get(value, UNSEEN)

    def scaled(self, values: Any) -> Any:
        """Values in training standard deviations from the training mean."""
        return (values - self.mean) / self.sd


def number_texts(values: Floats) -> list[str]:
    """Return short texts of increasing numbers, with as many digits as keep them apart."""
    for digits in range(4, 18):
        texts = [_short(value, digits) for value in values.tolist()]
        if len(set(texts)) == len(texts):
            return texts
    return [repr(value) for value in values.tolist()]


def _short(value: float, digits: int) -> str:
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    whole = len(str(abs(int(value)))) if abs(value) < 1e15 else 1
    return f"{value:.{max(digits, whole)}g}"
