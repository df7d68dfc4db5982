"""Noise of a random model, from what was asked more than once."""

from __future__ import annotations

import numpy as np

from credex.posteriors.shapley import Noise
from credex.typing import Floats, Ints, Masks, Outputs


def with_noise(
    masks: Masks, y: Outputs, other: Outputs | None, anchor: Floats, anchor_repeats: int
) -> tuple[Masks, Outputs, Outputs | None, Noise]:
    """Average units that were asked more than once, and pool what their spread says of the noise.

    ``anchor (k,)`` is the variance among repeats of the empty and the full coalition.
    """
    packed = np.packbits(masks, axis=1)
    _, at, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    count = np.bincount(group).astype(np.float64)
    sets = (y,) if other is None else (y, other)
    means = [_averaged(v, group, count) for v in sets]
    squares = sum(np.sum((v - m[group]) ** 2, axis=0) for v, m in zip(sets, means, strict=True))
    dof = 2.0 * max(anchor_repeats - 1, 0)
    own = len(sets) * float((count - 1).sum())
    variance = (anchor * dof + squares) / max(dof + own, 1.0)
    order = np.argsort(at, kind="stable")  # as they were first asked
    noise = Noise(np.asarray(variance), max(dof + own, 1.0), count[order], anchor_repeats)
    second = means[1][order] if other is not None else None
    return masks[at[order]], means[0][order], second, noise


def _averaged(y: Outputs, group: Ints, count: Floats) -> Outputs:
    sums = np.zeros((len(count), y.shape[1]))
    np.add.at(sums, group, y)
    return sums / count[:, None]
