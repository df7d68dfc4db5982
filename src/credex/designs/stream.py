"""Streams of candidates: a neighbourhood or a sequence of masks, seen by a sampler."""

from __future__ import annotations

from typing import cast

import numpy as np

from credex.designs.samplers import Candidates
from credex.designs.shapley import Sequence
from credex.domains import Neighbourhood
from credex.domains.tabular.neighbourhood import TabularNeighbourhood
from credex.domains.tabular.perturbed import Perturbations
from credex.typing import Masks

READ = 256
"""Units read from a sequence at least, while known ones are skipped."""


class MaskStream:
    """Masks of a sequence, in order, without those that were asked before.

    Parameters
    ----------
    sequence
        Where they come from.
    known
        ``(n, d)`` masks asked before (units if the sequence is paired): skipped. If ``repeat``,
        as often as they were asked: what was asked less often comes first.
    repeat
        Begin again when the sequence ends (noisy models only).
    recycle
        Offer masks that were taken and not chosen again at once, ahead of new ones; otherwise
        only when there are no new ones.
    """

    def __init__(
        self,
        sequence: Sequence,
        known: Masks | None = None,
        *,
        repeat: bool = False,
        recycle: float = 0.0,
    ) -> None:
        self.sequence, self.repeat, self.recycle = sequence, repeat, recycle
        self._known = set() if known is None else {r.tobytes() for r in np.packbits(known, axis=1)}
        self._at = 0
        if repeat and known is not None and len(self._known) >= sequence.capacity:
            self._known, self._at = set(), int(len(known) % sequence.capacity)
        self._taken: Candidates | None = None
        self._left: list[Masks] = []  # looked at and not chosen: for when the sequence ends

    def take(self, n: int) -> Candidates:
        """Take the next ``n`` masks; of a paired sequence ``n // 2`` pairs z, 1−z."""
        units = n // 2 if self.sequence.paired else n
        parts: list[Masks] = []
        have = 0
        start = self._at
        if self.recycle and self._left:
            parts.append(self._leftovers(int(self.recycle * units)))
            have = len(parts[0])
        while have < units:
            want = units - have if not self._known else max(units - have, READ)
            got = self.sequence.units(self._at, self._at + want)
            if len(got) == 0 and self._left:
                parts.append(self._leftovers(units - have))
                have += len(parts[-1])
                continue
            if len(got) == 0:
                if not self.repeat or self.sequence.capacity == 0:
                    break
                self._at = 0
                self._known = set()
                continue
            if self._known:
                fresh = np.array([r.tobytes() not in self._known for r in np.packbits(got, axis=1)])
                enough = np.flatnonzero(np.cumsum(fresh) == units - have)
                used = int(enough[0]) + 1 if len(enough) else len(got)
                self._at += used
                got = got[:used][fresh[:used]]
            else:
                self._at += len(got)
            parts.append(got)
            have += len(got)
        if not parts:
            parts.append(self.sequence.units(0, 0))
        if self.sequence.paired:
            z = parts[0] if len(parts) == 1 else np.concatenate(parts)
            both = np.empty((2 * len(z), z.shape[1]), dtype=np.bool_)
            both[0::2] = z
            np.logical_not(z, out=both[1::2])
        else:
            both = np.concatenate(parts)  # a copy, always: the sequence keeps what it gave
        self._taken = Candidates(both, np.arange(start, start + len(both)))
        return self._taken

    def _leftovers(self, n: int) -> Masks:
        """At most ``n`` units that were taken before and not chosen."""
        left = np.concatenate(self._left)
        self._left = [left[n:]] if len(left) > n else []
        return left[:n]

    def keep_rest(self, chosen: Candidates) -> None:
        """Put what was taken last and not chosen aside."""
        taken = self._taken
        if taken is None or len(chosen) == len(taken):
            return
        rest = taken.design[~np.isin(taken.position, chosen.position)]
        self._left.append(rest[0::2] if self.sequence.paired else rest)


class PerturbationStream:
    """Perturbed rows of a neighbourhood from position ``start`` on."""

    def __init__(self, neighbourhood: Neighbourhood, seed: int, start: int = 0) -> None:
        self.neighbourhood = cast("TabularNeighbourhood", neighbourhood)
        self.seed, self.at = seed, start
        self._last: Perturbations | None = None
        self._taken: Candidates | None = None
        self._first = start

    def take(self, n: int) -> Candidates:
        """Take the next ``n`` perturbed rows."""
        p = self.neighbourhood.perturb(self.seed, self.at, self.at + n)
        self._last, self._first = p, self.at
        self._taken = Candidates(p.design, np.arange(self.at, self.at + n))
        self.at += n
        return self._taken

    def drawn(self, candidates: Candidates) -> tuple[Perturbations, bool]:
        """Return the perturbations the candidates were taken from, and whether they are all."""
        if self._last is None:  # pragma: no cover - candidates come from take
            msg = "nothing was taken"
            raise AssertionError(msg)
        if candidates is self._taken:
            return self._last, True
        whole = len(candidates) == len(self._last) and bool(
            np.all(candidates.position == np.arange(self._first, self._first + len(candidates)))
        )
        return self._last, whole

    @property
    def first(self) -> int:
        """Position of the first perturbation taken last."""
        return self._first
