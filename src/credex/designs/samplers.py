"""Samplers: which perturbations to ask next, and the stream of masks they take them from.

A sampler is any object with ``paired`` (bool) and ``select(stream, n, posterior, rng)`` that takes
candidates from the stream and returns those to ask; docs/extending.md has one in ten lines. It
sees designs and posteriors, never a model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from credex.errors import InputError
from credex.posteriors.kernel import Inputs, solve_lower
from credex.posteriors.process import Conditioned
from credex.typing import Design, Floats, Ints, Masks

MAX_SHUFFLED = 8192
"""Sets of masks up to this size are listed and shuffled; larger ones are drawn from."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Perturbations that could be asked.

    Attributes
    ----------
    design
        ``(n, d)`` rows the posterior is fitted on.
    position
        ``(n,)`` place of each in its stream.
    """

    design: Design
    position: Ints

    def pick(self, index: Ints) -> Candidates:
        """Only those at ``index``, in that order."""
        return Candidates(self.design[index], self.position[index])

    def __len__(self) -> int:
        return len(self.design)


class Stream(Protocol):
    """Where candidates come from; masks not chosen are offered again when all others are gone."""

    def take(self, n: int) -> Candidates:
        """Take the next ``n`` candidates; fewer only if there are no more.

        If the sampler is paired they come as z, 1−z, z', 1−z', …
        """

    def place(self, asked: Candidates, n: int) -> int:
        """Return where to go on after the first ``n`` of ``asked``; 0 if that is found by masks."""


class Predictive(Protocol):
    """What an adaptive sampler may ask a posterior."""

    def predictive_variance(self, Z: Design) -> Floats:
        """Return the variance of the model's output at the rows ``Z``."""


class Sampler(Protocol):
    """The extension point; docs/extending.md has an example."""

    @property
    def paired(self) -> bool:
        """Whether candidates come as z, 1−z."""

    def select(
        self, stream: Stream, n: int, posterior: Predictive | None, rng: np.random.Generator
    ) -> Candidates:
        """Choose at most ``n`` candidates."""


@dataclass(frozen=True, slots=True)
class Random:
    """Candidates in the order of the seed, every mask alone."""

    paired: bool = False
    uniform: bool = True
    name: str = "random"

    def select(
        self, stream: Stream, n: int, posterior: Predictive | None, rng: np.random.Generator
    ) -> Candidates:
        """Take the next ``n``, of pairs the next ``n // 2``."""
        del posterior, rng
        return stream.take(n - n % 2 if self.paired else n)


@dataclass(frozen=True, slots=True)
class Paired(Random):
    """Candidates in the order of the seed, every mask with its complement.

    Interactions of even order cancel in the difference of a pair.
    """

    paired: bool = True
    name: str = "paired"


@dataclass(frozen=True, slots=True)
class Focused:
    """Asks the pairs that lower the total variance of the importances most, batch by batch.

    Greedily takes from a pool of unasked pairs the one with the largest Σ_i cov(φ_i, g)²/var g
    under the Gaussian process. After each choice the covariances are downdated as if it had been
    asked, for which no value is needed. The process is refitted after every batch. Needs
    ``posterior="gp"``.

    Parameters
    ----------
    pool
        Candidate pairs compared for a batch, at least.
    batch, growth
        A batch is ``batch`` pairs, or ``growth`` times the pairs asked so far if that is more.
    recycle
        Maximum share of the pool that pairs passed over before may take, ahead of new ones.
    paired
        Whether coalitions come with their complements; if not, read "coalitions" for "pairs".
    """

    pool: int = 600
    batch: int = 16
    growth: float = 0.25
    recycle: float = 1.0
    paired: bool = True
    uniform: bool = False
    name: str = "focused"

    def select(
        self, stream: Stream, n: int, posterior: Any, rng: np.random.Generator
    ) -> Candidates:
        """Choose the next batch of pairs."""
        del rng
        if not isinstance(posterior, Conditioned) or posterior.kernel.odd != self.paired:
            msg = "sampler='focused' reads a Gaussian process: use posterior='gp'"
            raise InputError(msg)
        f, unit = posterior.functional, 2 if self.paired else 1
        asked = len(posterior.data.Y) - f.n_ends
        want = max(8, f.d) if asked == 0 else max(self.batch, int(self.growth * asked))
        want = min(want, n // unit)
        pool = stream.take(unit * max(self.pool, 2 * want))
        picks, _ = plan(posterior, pool.design[::unit], want)
        return pool.pick((unit * picks[:, None] + np.arange(unit)).reshape(-1))


def plan(state: Conditioned, masks: Masks, n: int) -> tuple[Ints, Floats]:
    """Choose ``n`` pairs (or coalitions) as `Focused` does, given one mask ``(m, d)`` of each.

    Returns
    -------
    picks : (n,) rows of ``masks``, best first.
    reductions : (n, d) by how much each pick lowers the unit variance of each importance; taken
        off ``state.covariance`` one after the other, they forecast widths before any query.
    """
    k, known = state.kernel, state.data.inputs
    pool = state.functional.inputs(masks)
    m, white = len(pool), k.weights[3]
    A = solve_lower(state.L, k.gram(known, pool))
    prior = k.diagonal(pool)
    var = prior - np.einsum("nm,nm->m", A, A)
    both = Inputs(np.vstack([pool.z, known.z]))
    draft = state.functional.cross(k, both, draft=True)
    cov = draft[:, :m] - solve_lower(state.L, draft[:, m:].T).T @ A
    n = min(n, m)
    rows = np.empty((n, m))
    picks = np.empty(n, int)
    reductions = np.empty((n, state.functional.d))
    free = np.ones(m, bool)
    for i in range(n):
        score = np.where(free, (cov**2).sum(0) / np.maximum(var, 1e-9 * prior), -1.0)
        j = int(np.argmax(score))
        row = k.gram(pool[j : j + 1], pool)[0]
        row[j] += white
        row = row - A[:, j] @ A - rows[:i, j] @ rows[:i]
        sd = np.sqrt(max(row[j], 1e-9 * prior[j]))
        rows[i] = row / sd
        gain = cov[:, j] / sd
        cov = cov - np.outer(gain, rows[i])
        var = var - rows[i] ** 2
        picks[i], reductions[i], free[j] = j, gain**2, False
    return picks, reductions


def resolve_sampler(sampler: Sampler | str, default: str, *, posterior: Any) -> Sampler:
    """Return the sampler that a name stands for; an object is returned as it is.

    ``default`` is the explainer's own: ``"paired"`` or ``"random"``.
    """
    if not isinstance(sampler, str):
        return sampler
    if sampler == "auto":
        sampler = "focused" if posterior == "gp" and default == "paired" else default
    if sampler == "focused":
        return Focused()
    if posterior == "exact" or sampler == "exhaustive":
        return Paired(name="exhaustive") if default == "paired" else Random(name="exhaustive")
    return Paired() if sampler == "paired" else Random()


def check_still_random(before: str, sampler: Sampler, name: str) -> None:
    """Raise if what the sampler ``before`` chose would be taken for a random sample now."""
    chosen = before not in ("random", "paired", "exhaustive", name)
    if chosen and getattr(sampler, "uniform", False) and name != "exhaustive":
        msg = f"this explanation's masks were chosen by sampler={before!r}: they are no random "
        msg += f"sample, as sampler={name!r} would take them for. Go on with sampler={before!r}"
        msg += ", or begin anew"
        raise InputError(msg)


def checked(chosen: Candidates, n: int, *, paired: bool) -> Candidates:
    """Return at most ``n`` of what a sampler chose; raise if it returned something else."""
    if not isinstance(chosen, Candidates):
        msg = f"the sampler's select() must return candidates (pool.pick(…)), not {type(chosen)}"
        raise InputError(msg)
    z = chosen.design
    if paired and (len(z) % 2 or not np.array_equal(z[0::2], ~z[1::2])):
        msg = "the sampler says that it is paired, but select() did not return pairs z, 1−z"
        raise InputError(msg)
    n -= n % 2 if paired else 0
    return chosen if len(chosen) <= n else chosen.pick(np.arange(n))


class MaskSequence(ABC):
    """Distinct masks in an order that depends on the seed and d only.

    A unit is a mask, or, if ``paired``, the first of a mask and its complement. Unit i is the same
    however a sequence is read: in one piece, in batches, for one row or for a thousand. So a batch
    equals its rows, and a refined run equals a long one.
    """

    capacity: float
    """Number of units in all."""

    def __init__(self, d: int, *, paired: bool) -> None:
        self.d, self.paired = d, paired
        self._masks = np.empty((0, d), dtype=np.bool_)

    def units(self, start: int, stop: int) -> Masks:
        """Units ``start`` to ``stop``, ``(≤ stop − start, d)``; fewer at the end."""
        parts, have = [self._masks], len(self._masks)
        while have < min(stop, self.capacity):
            parts.append(self._more(stop - have))
            have += len(parts[-1])
        if len(parts) > 1:
            self._masks = np.concatenate(parts)
        return self._masks[start:stop]

    @abstractmethod
    def _more(self, n: int) -> Masks:
        """Return the next units, about ``n``; there are some left."""


def mask_keys(masks: Masks) -> list[bytes]:
    """Return the bits of each mask: equal for equal masks."""
    packed = np.packbits(masks, axis=1)
    keys: list[bytes] = packed.view(f"V{packed.shape[1]}").reshape(-1).tolist()
    return keys


def unseen(masks: Masks, seen: set[bytes]) -> NDArray[np.bool_]:
    """Whether each mask is new, ``(n,)``: not in ``seen``, to which all are added."""
    new = []
    for key in mask_keys(masks):
        new.append(key not in seen)
        seen.add(key)
    return np.array(new, dtype=np.bool_)


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
        Share of the masks taken that may be ones taken before and not chosen. 0: those are
        offered again only when there are no new ones.
    """

    def __init__(
        self,
        sequence: MaskSequence,
        known: Masks | None = None,
        *,
        repeat: bool = False,
        recycle: float = 0.0,
    ) -> None:
        self.sequence, self.repeat, self.recycle = sequence, repeat, recycle
        self._known = set() if known is None else set(mask_keys(known))
        self._at = 0
        if repeat and known is not None and len(self._known) >= sequence.capacity:
            self._known, self._at = set(), int(len(known) % sequence.capacity)
        self._taken: Candidates | None = None
        self._left = sequence.units(0, 0)

    def take(self, n: int) -> Candidates:
        """Take the next ``n`` masks; of a paired sequence ``n // 2`` pairs z, 1−z."""
        start, units = self._at, n // 2 if self.sequence.paired else n
        parts = [self._leftovers(int(self.recycle * units))]
        missing = units - len(parts[0])
        while missing > 0:
            found = self._new(missing)
            if len(found) == 0:
                found = self._leftovers(missing)
            if len(found) == 0:
                if not self.repeat or self.sequence.capacity == 0:
                    break
                self._at, self._known = 0, set()
            parts.append(found)
            missing -= len(found)
        z = np.concatenate(parts)
        if self.sequence.paired:
            z = np.concatenate([z, ~z], axis=1).reshape(-1, z.shape[1])
        self._taken = Candidates(z, np.arange(start, start + len(z)))
        return self._taken

    def place(self, asked: Candidates, n: int) -> int:
        """Return 0: masks that were asked are skipped wherever they come."""
        del asked, n
        return 0

    def _new(self, n: int) -> Masks:
        """Return the next ``n`` units that are not known; fewer only at the end."""
        found = self.sequence.units(self._at, self._at + n + len(self._known))
        if not self._known:
            self._at += len(found)
            return found
        new = np.flatnonzero([key not in self._known for key in mask_keys(found)])[:n]
        self._at += int(new[-1]) + 1 if len(new) == n else len(found)
        return found[new]

    def _leftovers(self, n: int) -> Masks:
        """At most ``n`` units that were taken before and not chosen."""
        found, self._left = self._left[:n], self._left[n:]
        return found

    def keep_rest(self, chosen: Candidates) -> None:
        """Keep what was taken last and not chosen, to be offered again."""
        taken = self._taken
        if taken is None or len(chosen) == len(taken):
            return
        rest = taken.design[~np.isin(taken.position, chosen.position)]
        rest = rest[0::2] if self.sequence.paired else rest
        self._left = np.concatenate([self._left, rest])
