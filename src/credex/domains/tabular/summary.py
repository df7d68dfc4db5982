"""Few rows of a table that stand for many: k-means of numbers, else a systematic sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from credex.domains.tabular.table import Table
from credex.typing import Floats, Ints

__all__ = ["few_rows"]

_MAX_CLUSTERED = 5_000  # k-means is fitted on at most so many rows; all are then assigned
_CHUNK = 524_288  # distances that are computed at once
_MAX_STEPS = 30  # of Lloyd's algorithm: it need not converge, real rows stand for the centroids


def few_rows(
    table: Table, weights: Floats, max_rows: int, *, numeric: bool
) -> tuple[Ints, Floats, str]:
    """Return ``max_rows`` or fewer positions, their weights, and how they were chosen.

    Numeric tables without missing values are clustered (k-means on columns scaled to unit standard
    deviation) and the row nearest each centroid takes its cluster's weight. Other tables are
    sampled systematically: row i is drawn in proportion to its weight, a row heavier than
    1/max_rows stays with a share of its own.
    """
    points = _points(table) if numeric else None
    if points is None:
        return *_systematic(weights, max_rows), "random sample"
    return *_nearest_to_centroids(points, weights, max_rows), "k-means"


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
    if len(points) > _MAX_CLUSTERED:
        chosen, counts = _systematic(weights, max(_MAX_CLUSTERED, 10 * max_rows))
        if len(chosen) > max_rows:
            fitted, fitted_weights = points[chosen], counts
    centres = _centroids(fitted, fitted_weights, min(max_rows, len(fitted)))
    shares = np.bincount(_nearest(points, centres), weights=weights, minlength=len(centres))
    rows, group = np.unique(_nearest(centres, points), return_inverse=True)
    total = np.bincount(group.reshape(-1), weights=shares).astype(np.float64)
    kept = total > 0
    return rows[kept].astype(np.int64), total[kept]


def _centroids(points: Floats, weights: Floats, n_centres: int) -> Floats:
    """Weighted k-means: ``(n_centres, p)`` centroids by Lloyd's algorithm from a k-means++ start.

    Written out because importing scikit-learn takes longer than a first explanation. A centroid
    that loses all its points stays where it is.
    """
    centres = _spread_out(points, weights, n_centres)
    n_centres = len(centres)
    group = _nearest(points, centres)
    for _ in range(_MAX_STEPS):
        mass = np.bincount(group, weights=weights, minlength=n_centres)
        kept = mass > 0
        for column, x in enumerate(points.T):
            sums = np.bincount(group, weights=weights * x, minlength=n_centres)
            centres[kept, column] = sums[kept] / mass[kept]
        before, group = group, _nearest(points, centres)
        if np.array_equal(before, group):
            break
    return centres


def _spread_out(points: Floats, weights: Floats, n_centres: int) -> Floats:
    """Greedy k-means++ (Arthur and Vassilvitskii 2007): points far from those chosen before.

    Of a few candidates, drawn in proportion to weight times squared distance, the one that lowers
    the total most is taken.
    """
    rng = np.random.default_rng(0)
    n_candidates = 2 + int(np.log(n_centres))
    norms = np.einsum("ij,ij->i", points, points)
    rounding = 1e-14 * float(norms.max(initial=0.0))
    distance = np.ones(len(points))  # the first centre is drawn by weight alone
    chosen: list[int] = []
    while len(chosen) < n_centres:
        cumulative = np.cumsum(weights * distance)
        if not cumulative[-1] > 0:  # every row that has a weight is a centre
            break
        drawn = np.searchsorted(cumulative, rng.random(n_candidates) * cumulative[-1], side="right")
        candidates = np.minimum(drawn, len(points) - 1)
        to_each = norms[:, None] + norms[candidates] - 2.0 * (points @ points[candidates].T)
        to_each[to_each < rounding] = 0.0
        nearer = np.minimum(distance[:, None], to_each) if chosen else to_each
        best = int(np.argmin(weights @ nearer))
        chosen.append(int(candidates[best]))
        distance = nearer[:, best]
    return points[chosen]


def _nearest(points: Floats, targets: Floats) -> NDArray[np.intp]:
    """For each point the position of the nearest target."""
    best = np.empty(len(points), dtype=np.intp)
    step = max(1, _CHUNK // len(targets))
    norms = np.einsum("ij,ij->i", targets, targets)
    for start in range(0, len(points), step):
        distance = norms - 2.0 * (points[start : start + step] @ targets.T)
        best[start : start + step] = distance.argmin(axis=1)
    return best
