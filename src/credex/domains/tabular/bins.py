"""Bins of ordered columns, cut at quantiles as lime's discretizers cut them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from credex.errors import InputError
from credex.typing import Floats

__all__ = ["Bins", "bin_count", "number_texts"]


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
    """Half-open intervals between quantiles; missing values have a bin of their own.

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
        if not finite.any():
            return cls(np.empty(0))
        levels = np.arange(1, count) / count
        if weights is None:
            return cls(np.unique(np.quantile(values[finite], levels)))
        kept = weights[finite]
        if not kept.sum() > 0:
            return cls(np.empty(0))
        return cls(
            np.unique(np.quantile(values[finite], levels, weights=kept, method="inverted_cdf"))
        )

    @property
    def missing(self) -> int:
        """The bin of missing values."""
        return len(self.edges) + 1

    def index(self, values: Floats) -> NDArray[np.int64]:
        """``(n,)`` bin of each value, as lime: how many edges lie below it."""
        out = np.searchsorted(self.edges, values, side="left").astype(np.int64)
        out[np.isnan(values)] = self.missing
        return out

    def label(self, position: int, name: str, texts: Callable[[Floats], list[str]]) -> str:
        """Return a readable condition, such as ``29 < age ≤ 41``.

        Parameters
        ----------
        position
            The bin.
        texts
            Turns edges into text; all edges at once, so that they stay distinct.
        """
        if position == self.missing:
            return f"{name} missing"
        if len(self.edges) == 0:
            return f"{name} present"
        shown = texts(self.edges)
        if position == 0:
            return f"{name} ≤ {shown[0]}"
        if position == len(self.edges):
            return f"{name} > {shown[-1]}"
        return f"{shown[position - 1]} < {name} ≤ {shown[position]}"


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
