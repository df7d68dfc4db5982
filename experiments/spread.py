"""Standard errors of shares and means that were measured on instances and seeds."""

from __future__ import annotations

import numpy as np

__all__ = ["mean_se", "two_way"]


def two_way(values: np.ndarray) -> tuple[float, float]:
    """Mean of ``values (instances, seeds)``, and its standard error clustered both ways.

    Explanations of one instance resemble each other, and so do those of one seed, which share
    their masks: var = var_instances + var_seeds − var_all (Cameron, Gelbach, Miller, 2011), never
    below the larger of the first two. NaN marks a run with nothing to count.
    """
    rows, columns = _means(values, 1), _means(values, 0)
    by_row, by_column = _variance(rows), _variance(columns)
    both = by_row + by_column - _variance(values.reshape(-1))
    if not np.isfinite(values).any():
        return np.nan, np.nan
    return float(np.nanmean(values)), float(np.sqrt(max(both, by_row, by_column)))


def _means(values: np.ndarray, axis: int) -> np.ndarray:
    """Means along an axis, NaN where there is nothing."""
    count = np.isfinite(values).sum(axis=axis)
    return np.where(count > 0, np.nansum(values, axis=axis) / np.maximum(count, 1), np.nan)


def mean_se(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard error of independent values."""
    return float(np.nanmean(values)), float(np.sqrt(_variance(np.asarray(values, dtype=float))))


def _variance(means: np.ndarray) -> float:
    n = int(np.isfinite(means).sum())
    return float(np.nanvar(means, ddof=1) / n) if n > 1 else 0.0
