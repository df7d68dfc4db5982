"""A background of few real rows that stands for many.

The rows are rows of the data, never averages, so every dtype survives and no model sees a row
that could not exist.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.domains.tabular.factorize import identity
from credex.domains.tabular.table import Table
from credex.errors import MissingExtraError
from credex.typing import Floats, Ints

__all__ = ["Summary", "summarise"]

_FIT_ROWS = 5_000  # k-means is fitted on at most so many rows, and all rows are then assigned
_CHUNK = 524_288  # distances that are computed at once


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Which rows stand for all.

    Attributes
    ----------
    rows
        ``(B,)`` positions of the chosen rows.
    weights
        ``(B,)`` share of the data each stands for; they sum to 1.
    note
        How many rows stand for how many, and how they were chosen.
    """

    rows: Ints
    weights: Floats
    note: str


def summarise(
    table: Table, weights: Floats | None, max_rows: int | None, *, numeric: bool
) -> Summary:
    """Choose at most ``max_rows`` rows (``None``: all) that stand for the table.

    Equal rows are merged into one with their common weight first; if that is few enough, nothing
    is lost. Otherwise numeric tables without missing values are clustered (k-means on columns
    scaled to unit standard deviation) and the row nearest each centroid takes its cluster's
    weight; other tables are sampled systematically: row i is drawn in proportion to its weight, a
    row heavier than 1/max_rows stays with a share of its own.

    Parameters
    ----------
    weights
        ``(n,)`` non-negative, or ``None`` for equal ones.
    numeric
        Whether all columns are to be treated as numbers.
    """
    n = table.n_rows
    share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    first, merged = _distinct(table, share)
    total = f"{n} row" if n == 1 else f"{n} rows"
    if max_rows is None or len(first) <= max_rows:
        note = f"all {total}" if n > 1 else "the only row"
        if len(first) < n:
            note = f"all {total} ({len(first)} distinct)"
        return Summary(first, merged / merged.sum(), note)
    points = _points(table.take(first)) if numeric else None
    if points is None:
        (chosen, weight), how = _systematic(merged, max_rows), "random sample"
    else:
        (chosen, weight), how = _nearest_to_centroids(points, merged, max_rows), "k-means"
    return Summary(first[chosen], weight / weight.sum(), f"{len(chosen)} of {total} ({how})")


def _distinct(table: Table, share: Floats) -> tuple[Ints, Floats]:
    """First position and summed weight of each distinct row, in order of appearance."""
    numbers = identity(table)
    factors = np.random.default_rng(0).integers(2**63, size=table.n_columns, dtype=np.uint64)
    hashes = (numbers ^ (numbers >> np.uint64(32))) @ (factors | np.uint64(1))
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    if not np.array_equal(numbers[first[group]], numbers):  # a hash collision: compare in full
        _, first, group = np.unique(numbers, axis=0, return_index=True, return_inverse=True)
        group = group.reshape(-1)
    summed = _sums(group, share, len(first))
    order = np.argsort(first)
    kept = order[summed[order] > 0]
    return first[kept].astype(np.int64), summed[kept]


def _sums(group: NDArray[np.intp], weights: Floats, count: int) -> Floats:
    """``(count,)`` summed weights of each group."""
    return np.asarray(np.bincount(group, weights=weights, minlength=count), dtype=np.float64)


def _points(table: Table) -> Floats | None:
    """``(n, p)`` columns scaled to unit standard deviation; ``None`` if any value is not finite."""
    values = np.column_stack([table.floats(j) for j in range(table.n_columns)])
    if not np.isfinite(values).all():
        return None
    middle = values.mean(axis=0)
    spread = (values - middle).std(axis=0)
    spread[~(spread > 0)] = 1.0
    scaled: Floats = (values - middle) / spread
    return scaled if np.isfinite(scaled).all() else None


def _systematic(weights: Floats, max_rows: int) -> tuple[Ints, Floats]:
    """Draw rows at ``max_rows`` equally spaced points of the shuffled cumulative weights."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(weights))
    cumulative = np.cumsum(weights[order])
    ticks = (rng.random() + np.arange(max_rows)) / max_rows * cumulative[-1]
    hit = np.minimum(np.searchsorted(cumulative, ticks, side="right"), len(weights) - 1)
    chosen, counts = np.unique(order[hit], return_counts=True)
    return chosen.astype(np.int64), counts / max_rows


def _nearest_to_centroids(points: Floats, weights: Floats, max_rows: int) -> tuple[Ints, Floats]:
    """Cluster, then let the row nearest each centroid stand for its cluster."""
    fitted, fitted_weights = points, weights
    if len(points) > _FIT_ROWS:
        chosen, counts = _systematic(weights, max(_FIT_ROWS, 10 * max_rows))
        if len(chosen) > max_rows:
            fitted, fitted_weights = points[chosen], counts
    centres = _centroids(fitted, fitted_weights, min(max_rows, len(fitted)))
    shares = _sums(_nearest(points, centres), weights, len(centres))
    rows, group = np.unique(_nearest(centres, points), return_inverse=True)
    total = _sums(group.reshape(-1), shares, len(rows))
    kept = total > 0
    return rows[kept].astype(np.int64), total[kept]


def _centroids(points: Floats, weights: Floats, count: int) -> Floats:
    try:
        from sklearn.cluster import KMeans
    except ImportError:
        raise MissingExtraError(
            "summarising a numeric background needs scikit-learn: pip install scikit-learn, or "
            "pass background='all'"
        ) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer clusters than asked for are merged later
        model: Any = KMeans(count, n_init=1, max_iter=30, random_state=0)
        model.fit(points, sample_weight=weights / weights.mean())
    return np.asarray(model.cluster_centers_, dtype=np.float64)


def _nearest(points: Floats, targets: Floats) -> NDArray[np.intp]:
    """For each point the position of the nearest target."""
    best = np.empty(len(points), dtype=np.intp)
    step = max(1, _CHUNK // len(targets))
    norms = np.einsum("ij,ij->i", targets, targets)
    for start in range(0, len(points), step):
        distance = norms - 2.0 * (points[start : start + step] @ targets.T)
        best[start : start + step] = distance.argmin(axis=1)
    return best
