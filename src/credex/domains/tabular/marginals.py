"""The distribution of one training column: quantile bins of an ordered one, else categories."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from credex.cells import is_missing
from credex.domains.tabular.factorize import MISSING, UNSEEN
from credex.errors import InputError
from credex.typing import Floats, Ints

__all__ = ["Marginal", "bin_count", "bin_labels", "binned", "number_texts", "quantiles"]


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


def quantiles(values: Floats, count: int, weights: Floats | None = None) -> Floats:
    """``(q,)`` distinct quantiles 1/count, …, (count-1)/count, which are lime's edges of bins.

    Infinite and missing values do not move them.
    """
    finite = np.isfinite(values)
    kept = None if weights is None else weights[finite]
    if not finite.any() or (kept is not None and not kept.sum() > 0):
        return np.empty(0)
    levels = np.arange(1, count) / count
    method: Any = "linear" if kept is None else "inverted_cdf"
    return np.unique(np.quantile(values[finite], levels, weights=kept, method=method))


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """One column's distribution.

    Attributes
    ----------
    codes
        ``(N,)`` bin (ordered columns) or category of each training row.
    edges
        ``(q,)`` increasing edges of an ordered column; bin b holds ``edges[b-1] < value ≤
        edges[b]``, and bin q + 1 missing values. ``None`` if there is no order.
    categories
        Codes by value, if there is no order.
    mean, sd
        Of the finite values; 0 and 1 for unordered or empty columns, ``sd`` is 1 if constant.
    low, high
        Smallest and largest finite value in standard deviations from the mean.
    known
        Whether an ordered column has any finite value.
    """

    codes: Ints
    edges: Floats | None = None
    categories: dict[Any, int] = field(default_factory=dict)
    mean: float = 0.0
    sd: float = 1.0
    low: float = 0.0
    high: float = 0.0
    known: bool = False

    @classmethod
    def of_numbers(cls, values: Floats, count: int, weights: Floats | None = None) -> Marginal:
        """Return the distribution of ``(N,)`` weighted values, in ``count`` quantile bins."""
        edges = quantiles(values, count, weights)
        codes = binned(values, edges)
        finite = np.isfinite(values)
        if weights is not None:
            finite &= weights > 0
        if not finite.any():
            return cls(codes, edges)
        kept = values[finite]
        w = None if weights is None else weights[finite]
        # The first value is subtracted so that dates (large numbers) keep their digits.
        mean = float(kept[0] + np.average(kept - kept[0], weights=w))
        sd = float(np.sqrt(np.average((kept - mean) ** 2, weights=w)))
        if kept.min() == kept.max() or not np.isfinite(sd) or sd <= 0:
            mean, sd = float(kept[0]), 1.0
        low, high = (float(kept.min()) - mean) / sd, (float(kept.max()) - mean) / sd
        return cls(codes, edges, {}, mean, sd, low, high, known=True)

    def code(self, value: Any) -> int:
        """Bin of a float, or code of a category: `MISSING`, or `UNSEEN` in the training data."""
        if self.edges is None:
            return MISSING if is_missing(value) else self.categories.get(value, UNSEEN)
        return len(self.edges) + 1 if math.isnan(value) else bisect_left(self.edges, value)

    def scaled(self, values: Any) -> Any:
        """Values in training standard deviations from the training mean."""
        return (values - self.mean) / self.sd


def binned(values: Floats, edges: Floats) -> Ints:
    """``(n,)`` bin of each value: how many edges lie below it; q + 1 if it is missing."""
    out = np.searchsorted(edges, values, side="left").astype(np.int64)
    out[np.isnan(values)] = len(edges) + 1
    return out


def bin_labels(name: str, edges: list[str]) -> list[str]:
    """Return each bin as a condition, such as ``29 < age ≤ 41``."""
    if not edges:
        return [f"{name} present", f"{name} missing"]
    between = [f"{low} < {name} ≤ {high}" for low, high in pairwise(edges)]
    return [f"{name} ≤ {edges[0]}", *between, f"{name} > {edges[-1]}", f"{name} missing"]


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
