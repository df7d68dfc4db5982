"""Masks of fair coins, as a function of the seed and d only."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from credex.seeds import Purpose, spawn
from credex.typing import Masks

__all__ = ["BernoulliSequence", "all_masks"]

MAX_SHUFFLED = 8192
"""Up to this many masks are listed and shuffled; more are drawn."""

BLOCK = 256
"""Masks drawn at a time, whatever is asked for, so that batches change nothing."""


class BernoulliSequence:
    """Fair coins for every feature, no mask twice; ``skip`` leaves out given sizes.

    ``paired``: of each mask and its complement only the one that holds feature 0. A size that is
    skipped should then be with its complement's.
    """

    def __init__(
        self, d: int, seed: int, *, skip: tuple[int, ...] = (), paired: bool = False
    ) -> None:
        self.d, self.paired = d, paired
        self.skip = skip
        self._rng = spawn(seed, Purpose.BERNOULLI_MASKS, d)
        self._masks = np.empty((0, d), dtype=np.bool_)
        self._seen: set[bytes] = set()
        if 2**d <= MAX_SHUFFLED:
            every = all_masks(d)
            every = every[~np.isin(every.sum(axis=1), self.skip)]
            every = every[every[:, 0]] if paired else every
            self._masks = every[self._rng.permutation(len(every))]

    @cached_property
    def capacity(self) -> float:
        """Number of masks there are."""
        if self.d >= 1000:
            return np.inf
        return float(2**self.d - len(self.skip)) / (2 if self.paired else 1)

    def units(self, start: int, stop: int) -> Masks:
        """Masks ``start`` to ``stop``."""
        if 2**self.d <= MAX_SHUFFLED:
            return self._masks[start:stop]
        blocks = [self._masks]
        have = len(self._masks)
        while have < min(stop, self.capacity):
            block = self._rng.random((BLOCK, self.d)) < 0.5
            block = block[~np.isin(block.sum(axis=1), self.skip)]
            block = block ^ ~block[:, :1] if self.paired else block
            fresh = _unseen(block, self._seen)
            have += len(fresh)
            blocks.append(fresh)
        self._masks = np.concatenate(blocks)
        return self._masks[start:stop]


def all_masks(d: int) -> Masks:
    """All ``2^d`` masks, ``(2^d, d)``; bit j of the row number is feature j."""
    return ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(np.bool_)


def _unseen(masks: Masks, seen: set[bytes]) -> Masks:
    packed = np.packbits(masks, axis=1)
    keep = np.zeros(len(masks), dtype=np.bool_)
    for i, row in enumerate(packed):
        key = row.tobytes()
        if key not in seen:
            seen.add(key)
            keep[i] = True
    return masks[keep]
