"""Endless-looking sequences of distinct masks that depend on the seed and d only.

Entry i of a sequence is the same however it is read: in one piece, in batches, for one row or
for a thousand. That is what makes a batch equal to its rows and a refined run equal to a long one.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import combinations
from math import comb
from typing import Protocol

import numpy as np

from credex.posteriors.strata import strata
from credex.typing import Ints, Masks

GOLDEN = 0.6180339887498949
"""Step of the low-discrepancy walk over the strata."""

ENUMERATE = 8192
"""Strata (and cubes) up to this size are listed and shuffled; larger ones are drawn."""

BLOCK = 32
"""Subsets of one size drawn at a time, whatever is asked for: so batches change nothing."""

COINS = 256
"""Masks of fair coins drawn at a time, likewise."""


class Sequence(Protocol):
    """Distinct masks by position."""

    paired: bool

    @property
    def capacity(self) -> float:
        """How many units there are in all."""
        ...

    def units(self, start: int, stop: int) -> Masks:
        """Units ``start`` to ``stop``, fewer at the end: masks, or the first of each pair."""
        ...


class ShapleySequence:
    """Coalitions from the Shapley distribution, no unit twice, empty and full left out.

    Sizes follow a low-discrepancy walk over the strata, so every prefix is close to proportional;
    within a size masks are uniform without replacement. A size asked in full leaves the walk.
    """

    def __init__(self, d: int, seed: int, *, paired: bool) -> None:
        self.d, self.paired = d, paired
        self._strata = strata(d, paired=paired)
        self._left = self._strata.count.copy()
        self._start = float(np.random.default_rng([seed, d, 7]).random())
        self._walked = 0
        self._layers = [
            _Layer(d, s + 1, halve=paired and 2 * (s + 1) == d, entropy=[seed, d, 11, s])
            for s in range(len(self._left))
        ]
        self._masks = np.empty((0, d), dtype=np.bool_)

    @cached_property
    def capacity(self) -> float:
        """Number of coalitions (of pairs) there are."""
        return float(self._strata.count.sum())

    def units(self, start: int, stop: int) -> Masks:
        """Units ``start`` to ``stop``, ``(≤ stop − start, d)``."""
        if stop > len(self._masks):
            self._masks = np.concatenate([self._masks, self._draw(stop - len(self._masks))])
        return self._masks[start:stop]

    def _draw(self, n: int) -> Masks:
        layer = self._walk(n)
        out = np.empty((len(layer), self.d), dtype=np.bool_)
        for s in np.unique(layer):
            at = np.flatnonzero(layer == s)
            out[at] = self._layers[s].take(len(at))
        return out

    def _walk(self, n: int) -> Ints:
        pieces: list[Ints] = []
        while n > 0:
            live = np.flatnonzero(self._left > 0)
            if len(live) == 0:
                break
            mass = np.cumsum(self._strata.mass[live])
            u = (self._start + GOLDEN * np.arange(self._walked, self._walked + n)) % 1.0
            pick = live[np.minimum(np.searchsorted(mass, u * mass[-1], "right"), len(live) - 1)]
            cut = n
            wanted = np.bincount(pick, minlength=len(self._left))
            for s in np.flatnonzero(wanted > self._left):
                # up to the first unit that a layer no longer has
                cut = min(cut, int(np.flatnonzero(pick == s)[int(self._left[s])]))
            piece = pick[:cut]
            self._left -= np.bincount(piece, minlength=len(self._left))
            self._walked += cut
            n -= cut
            pieces.append(piece)
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)


class BernoulliSequence:
    """Fair coins for every feature, no mask twice; ``skip`` leaves out given sizes.

    ``paired``: of each mask and its complement only the one that holds feature 0, and neither the
    empty nor the full mask.
    """

    def __init__(
        self, d: int, seed: int, *, skip: tuple[int, ...] = (), paired: bool = False
    ) -> None:
        self.d, self.paired = d, paired
        self.skip = (0, d) if paired else skip
        self._rng = np.random.default_rng([seed, d, 13])
        self._masks = np.empty((0, d), dtype=np.bool_)
        self._seen: set[bytes] = set()
        if 2**d <= ENUMERATE:
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
        if 2**self.d <= ENUMERATE:
            return self._masks[start:stop]
        blocks = [self._masks]
        have = len(self._masks)
        while have < min(stop, self.capacity):
            block = self._rng.random((COINS, self.d)) < 0.5
            block = block[~np.isin(block.sum(axis=1), self.skip)]
            block = block ^ ~block[:, :1] if self.paired else block
            fresh = _unseen(block, self._seen)
            have += len(fresh)
            blocks.append(fresh)
        self._masks = np.concatenate(blocks)
        return self._masks[start:stop]


class _Layer:
    """Subsets of one size, uniform without replacement. ``halve``: only one of each pair."""

    def __init__(self, d: int, size: int, *, halve: bool, entropy: list[int]) -> None:
        self.d, self.size, self.halve = d, size, halve
        self._entropy = entropy
        self._seen: set[bytes] = set()
        self._ready: Masks | None = None

    @cached_property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self._entropy)

    def take(self, n: int) -> Masks:
        """Take the next ``n`` subsets."""
        if self._ready is None:
            small = comb(self.d, self.size) <= ENUMERATE
            self._ready = self._enumerate() if small else np.empty((0, self.d), dtype=np.bool_)
        parts, have = [self._ready], len(self._ready)
        while have < n:
            z = np.zeros((BLOCK, self.d), dtype=np.bool_)
            chosen = np.argpartition(self._rng.random((BLOCK, self.d)), self.size, axis=1)
            np.put_along_axis(z, chosen[:, : self.size], values=True, axis=1)
            if self.halve:
                z ^= ~z[:, :1]  # the one of the pair that holds feature 0
            fresh = _unseen(z, self._seen)
            have += len(fresh)
            parts.append(fresh)
        ready = np.concatenate(parts) if len(parts) > 1 else parts[0]
        self._ready = ready[n:]
        return ready[:n]

    def _enumerate(self) -> Masks:
        z = _subsets(self.d, self.size, halve=self.halve)
        return z[self._rng.permutation(len(z))]


@lru_cache(maxsize=32)
def _subsets(d: int, size: int, *, halve: bool) -> Masks:
    """All subsets of ``size`` as masks; ``halve``: those that hold feature 0."""
    rest, k = (range(1, d), size - 1) if halve else (range(d), size)
    subsets = list(combinations(rest, k))
    chosen = np.array(subsets, dtype=np.int64).reshape(len(subsets), k)
    z = np.zeros((len(subsets), d), dtype=np.bool_)
    np.put_along_axis(z, chosen, values=True, axis=1)
    if halve:
        z[:, 0] = True
    z.flags.writeable = False
    return z


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
