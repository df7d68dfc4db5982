"""Noise of a random model, estimated from what was asked more than once."""

from __future__ import annotations

import numpy as np

from credex.posteriors.shapley import Noise
from credex.typing import Floats, Ints, Masks, Outputs


def with_noise(
    masks: Masks, y: Outputs, complement: Outputs | None, end_values: Floats
) -> tuple[Masks, Outputs, Outputs | None, Noise]:
    """Average units that were asked more than once, and pool the variance among repeats.

    ``end_values (r, 2, k)`` are the answers for the empty and the full coalition.
    """
    packed = np.packbits(masks, axis=1)
    _, first, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    count = np.bincount(group).astype(np.float64)
    sets = (y,) if complement is None else (y, complement)
    means = [_averaged(v, group, count) for v in sets]
    squares = sum(np.sum((v - m[group]) ** 2, axis=0) for v, m in zip(sets, means, strict=True))
    dof = 2.0 * (len(end_values) - 1)
    unit_dof = len(sets) * float((count - 1).sum())
    known = end_variance(end_values) * dof if dof else 0.0
    variance = (known + squares) / max(dof + unit_dof, 1.0)
    if dof + unit_dof == 0:  # nothing was asked twice: the noise is not known at all
        variance = np.full(y.shape[1], np.nan)
    order = np.argsort(first, kind="stable")  # as they were first asked
    noise = Noise(np.asarray(variance), max(dof + unit_dof, 1.0), count[order], len(end_values))
    second = means[1][order] if complement is not None else None
    return masks[first[order]], means[0][order], second, noise


def end_variance(end_values: Floats) -> Floats:
    """Variance ``(k,)`` of one answer, pooled over both ends; infinite if none was repeated."""
    if len(end_values) < 2:
        return np.full(end_values.shape[2], np.inf)
    return np.asarray(end_values.var(axis=0, ddof=1).mean(axis=0))


def _averaged(y: Outputs, group: Ints, count: Floats) -> Outputs:
    sums = np.zeros((len(count), y.shape[1]))
    np.add.at(sums, group, y)
    return sums / count[:, None]
