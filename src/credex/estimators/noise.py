"""Noise of a random model, from what was asked more than once."""

from __future__ import annotations

import numpy as np

from credex.posteriors.shapley import Noise
from credex.typing import Floats, Ints, Masks, Outputs


def with_noise(
    masks: Masks, y: Outputs, other: Outputs | None, anchors: Floats
) -> tuple[Masks, Outputs, Outputs | None, Noise]:
    """Average units that were asked more than once, and pool what their spread says of the noise.

    ``anchors (r, 2, k)`` are the answers for the empty and the full coalition.
    """
    packed = np.packbits(masks, axis=1)
    _, at, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    count = np.bincount(group).astype(np.float64)
    sets = (y,) if other is None else (y, other)
    means = [_averaged(v, group, count) for v in sets]
    squares = sum(np.sum((v - m[group]) ** 2, axis=0) for v, m in zip(sets, means, strict=True))
    dof = 2.0 * (len(anchors) - 1)
    own = len(sets) * float((count - 1).sum())
    known = anchor_variance(anchors) * dof if dof else 0.0
    variance = (known + squares) / max(dof + own, 1.0)
    if dof + own == 0:  # nothing was asked twice: the noise is not known at all
        variance = np.full(y.shape[1], np.nan)
    order = np.argsort(at, kind="stable")  # as they were first asked
    noise = Noise(np.asarray(variance), max(dof + own, 1.0), count[order], len(anchors))
    second = means[1][order] if other is not None else None
    return masks[at[order]], means[0][order], second, noise


def anchor_variance(anchors: Floats) -> Floats:
    """Variance ``(k,)`` of one answer, pooled over both ends; infinite if none was repeated."""
    if len(anchors) < 2:
        return np.full(anchors.shape[2], np.inf)
    return np.asarray(anchors.var(axis=0, ddof=1).mean(axis=0))


def _averaged(y: Outputs, group: Ints, count: Floats) -> Outputs:
    sums = np.zeros((len(count), y.shape[1]))
    np.add.at(sums, group, y)
    return sums / count[:, None]
