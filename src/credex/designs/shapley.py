"""Masks from the Shapley distribution, as a function of the seed and d only.

Entry i of a sequence is the same however it is read: in one piece, in batches, for one row or
for a thousand. So a batch equals its rows, and a refined run equals a long one.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from credex.posteriors.shapley import strata
from credex.seeds import Purpose, spawn
from credex.typing import Floats, Ints, Masks

__all__ = ["Sequence", "ShapleySequence"]

GOLDEN = 0.6180339887498949
"""Step of the low-discrepancy walk over the strata."""

MAX_SHUFFLED = 8192
"""Strata up to this size are listed and shuffled; larger ones are drawn from."""

MAX_LISTED = 1_000_000
"""Larger strata up to this size are listed once a part of them was drawn."""


class Sequence(Protocol):
    """Distinct masks by position."""

    paired: bool

    @property
    def capacity(self) -> float:
        """Number of units (masks, or pairs) in all."""
        ...

    def units(self, start: int, stop: int) -> Masks:
        """Units ``start`` to ``stop``, fewer at the end: masks, or the first of each pair."""
        ...


class ShapleySequence:
    """Coalitions from the Shapley distribution without replacement, empty and full left out.

    Sizes follow a low-discrepancy walk over the strata, so that every prefix is close to
    proportional; within a size masks are uniform. A size asked in full leaves the walk.
    """

    def __init__(self, d: int, seed: int, *, paired: bool) -> None:
        self.d, self.paired = d, paired
        self._strata = strata(d, paired=paired)
        left, small = _rooms(d, paired)
        self._left = left.copy()
        self._rng = spawn(seed, Purpose.SHAPLEY_MASKS, d)
        self._start = float(self._rng.random())
        self._walked = 0
        # Small strata are shuffled at once, whether they are reached or not, so that their order
        # does not depend on how the sequence is read.
        self._order = {s: self._rng.permutation(n) for s, n in small}
        self._taken = dict.fromkeys(self._order, 0)
        self._seen = np.empty(0, dtype=np.uint64)
        self._masks = np.empty((0, d), dtype=np.bool_)

    @cached_property
    def capacity(self) -> float:
        """Number of coalitions (of pairs) there are."""
        return float(self._strata.count.sum())

    def units(self, start: int, stop: int) -> Masks:
        """Units ``start`` to ``stop``, ``(≤ stop − start, d)``."""
        parts, have = [self._masks], len(self._masks)
        while have < stop and len(layer := self._walk(stop - have)):
            parts.append(self._draw(layer))
            have += len(parts[-1])
        if len(parts) > 1:
            self._masks = np.concatenate(parts)
        return self._masks[start:stop]

    def _draw(self, layer: Ints) -> Masks:
        """Draw units of the strata ``layer (n,)``; repeats in large strata are left out."""
        out = np.empty((len(layer), self.d), dtype=np.bool_)
        fresh: Masks | None = None
        wanted = np.bincount(layer, minlength=len(self._left)).tolist()
        by_stratum = np.argsort(layer.astype(np.int16), kind="stable")  # of 16 bits: by radix
        start, large = 0, []
        for stratum, n in enumerate(wanted):
            at = by_stratum[start : start + n]
            start += n
            if not n:
                continue
            if stratum not in self._order:
                large.append(at)
                continue
            first = self._taken[stratum]
            listed = _subsets(self.d, stratum + 1, halve=self._halved(stratum))
            out[at] = listed[self._order[stratum][first : first + n]]
            self._taken[stratum] = first + n
        if large:
            at = np.sort(np.concatenate(large))
            out[at], new = self._large(layer[at])
            if not new.all():
                fresh = np.ones(len(layer), dtype=np.bool_)
                fresh[at] = new
        for s in (self._left == 0).nonzero()[0].tolist():
            if s not in self._order:
                self._list_rest(s)
        return out if fresh is None else out[fresh]

    def _halved(self, s: int) -> bool:
        """Whether stratum ``s`` is its own complement."""
        return self.paired and 2 * (s + 1) == self.d

    def _large(self, layer: Ints) -> tuple[Masks, Masks]:
        """Draw subsets of large strata (the smallest of d random keys), and say which are new."""
        keys = self._rng.random((len(layer), self.d))
        last = np.sort(keys, axis=1)[np.arange(len(layer)), layer]
        z = keys <= last[:, None]
        if self.paired and self.d % 2 == 0:
            half = layer == self.d // 2 - 1
            z[half] ^= ~z[half, :1]  # the one of the pair that holds feature 0
        code = _codes(z)
        fresh = np.zeros(len(code), dtype=np.bool_)
        fresh[np.unique(code, return_index=True)[1]] = True
        if len(self._seen):
            fresh &= ~np.isin(code, self._seen)
        self._seen = np.concatenate([self._seen, code[fresh]])
        return z, fresh

    def _list_rest(self, s: int) -> None:
        """Shuffle the rest of a large stratum: further draws would mostly be repeats."""
        listed = _subsets(self.d, s + 1, halve=self._halved(s))
        rest = np.flatnonzero(~np.isin(_codes(listed), self._seen))
        self._order[s] = self._rng.permutation(rest)
        self._taken[s] = 0
        self._left[s] = len(rest)

    def _walk(self, n: int) -> Ints:
        """Strata of at most ``n`` units more; none when nothing is left."""
        pieces: list[Ints] = []
        full = False
        u = (self._start + GOLDEN * np.arange(self._walked, self._walked + n)) % 1.0
        while len(u) and not full:
            live = (self._left > 0).nonzero()[0]
            if len(live) == 0:
                break
            mass = self._strata.mass[live].cumsum()
            pick = live[mass.searchsorted(u * mass[-1], "right")]  # u < 1: the last is never passed
            wanted = np.bincount(pick, minlength=len(self._left))
            cut = len(u)
            for s in live[(wanted >= self._left)[live]].tolist():
                # a stratum leaves the walk at its last unit, wherever a read ends
                cut = min(cut, int((pick == s).nonzero()[0][int(self._left[s]) - 1]) + 1)
            if cut < len(u):
                pick = pick[:cut]
                wanted = np.bincount(pick, minlength=len(self._left))
            self._left -= wanted
            full = any(s not in self._order for s in live[self._left[live] == 0].tolist())
            u = u[cut:]
            self._walked += cut
            pieces.append(pick)
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)


@lru_cache(maxsize=64)
def _rooms(d: int, paired: bool) -> tuple[Floats, tuple[tuple[int, int], ...]]:  # noqa: FBT001
    """How often each stratum may be drawn from, and index and size of the small ones.

    Large ones only as long as repeats, which are left out, are rare; then the rest is listed.
    """
    count = strata(d, paired=paired).count
    drawn = (count > MAX_SHUFFLED) & (count <= MAX_LISTED)
    small = tuple((s, int(n)) for s, n in enumerate(count.tolist()) if n <= MAX_SHUFFLED)
    return np.where(drawn, np.floor(count / 32), count), small


@lru_cache(maxsize=64)
def _mixers(d: int) -> NDArray[np.float64]:
    """``(d, 2)`` random whole numbers, so small that a sum of d of them is exact."""
    bits = 52 - d.bit_length()
    return np.random.default_rng(d).integers(0, 2**bits, size=(d, 2)).astype(np.float64)


def _codes(masks: Masks) -> NDArray[np.uint64]:
    """Hash codes ``(n,)`` of masks; BLAS adds them up exactly."""
    both = (masks.astype(np.float64) @ _mixers(masks.shape[1])).astype(np.uint64)
    return both[:, 0] + (both[:, 1] << np.uint64(21))


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
