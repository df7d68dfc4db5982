"""Samplers: which perturbations to ask next, and the streams they take them from.

A sampler is any object with ``paired`` (bool) and ``select(stream, n, posterior, rng)`` that takes
candidates from the stream and returns those to ask; docs/extending.md has one in ten lines. It
sees designs and posteriors, never a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import numpy as np

from credex.checks import check_count, check_positive
from credex.designs.shapley import Sequence
from credex.domains import Neighbourhood
from credex.domains.tabular.neighbourhood import Perturbations, TabularNeighbourhood
from credex.errors import InputError
from credex.typing import Design, Floats, Ints, Masks


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
        ...


class Predictive(Protocol):
    """What an adaptive sampler may ask a posterior."""

    def predictive_variance(self, Z: Design) -> Floats:
        """Return the variance of the model's output at the rows ``Z``."""
        ...


@runtime_checkable
class Sampler(Protocol):
    """The extension point; see the module's example."""

    @property
    def paired(self) -> bool:
        """Whether candidates come as z, 1−z."""
        ...

    def select(
        self, stream: Stream, n: int, posterior: Predictive | None, rng: np.random.Generator
    ) -> Candidates:
        """Choose at most ``n`` candidates."""
        ...


def checked(chosen: Candidates, n: int, *, paired: bool, trusted: bool = False) -> Candidates:
    """Return at most ``n`` of what a sampler chose; raise if it returned something else.

    ``trusted``: the sampler is known to return whole pairs.
    """
    if not isinstance(chosen, Candidates):
        msg = f"the sampler's select() must return candidates (pool.pick(…)), not {type(chosen)}"
        raise InputError(msg)
    if paired and not trusted:
        z = chosen.design
        if len(z) % 2 or not np.array_equal(z[0::2], ~z[1::2]):
            msg = "the sampler says that it is paired, but select() did not return pairs z, 1−z"
            raise InputError(msg)
    n -= n % 2 if paired else 0
    return chosen if len(chosen) <= n else chosen.pick(np.arange(n))


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
class PaperFocused:
    """Focused sampling exactly as the paper's Algorithm 1.

    After ``seed_queries`` random ones, each batch is drawn from ``pool`` candidates with
    probability ∝ exp(var ŷ(z)/temperature), without replacement, scored in the space the
    posterior is fitted in. Read literally it can be worse than random sampling (the variance does
    not know the proximity): credex ships it for comparison.

    Parameters
    ----------
    seed_queries, batch, pool, temperature
        The paper's S, B, A and τ. τ is in units of the model's variance; ``None`` takes the
        spread of the candidates' variances, which makes the rule independent of units.
    """

    seed_queries: int = 50
    batch: int = 50
    pool: int = 400
    temperature: float | None = None
    paired: bool = False
    uniform: bool = False
    name: str = "paper-focused"

    def __post_init__(self) -> None:
        for label in ("seed_queries", "batch", "pool"):
            check_count(f"PaperFocused({label}=)", getattr(self, label))
        if self.pool < self.batch:
            msg = f"PaperFocused: pool={self.pool} is smaller than batch={self.batch}"
            raise InputError(msg)
        if self.temperature is not None:
            check_positive("PaperFocused(temperature=)", self.temperature)

    def select(
        self, stream: Stream, n: int, posterior: Predictive | None, rng: np.random.Generator
    ) -> Candidates:
        """Seed queries first; then a batch by predictive variance."""
        if posterior is None:
            return stream.take(min(n, self.seed_queries))
        pool = stream.take(self.pool)
        n = min(n, self.batch, len(pool))
        if n == 0:
            return pool
        variance = np.asarray(posterior.predictive_variance(pool.design), dtype=np.float64)
        variance = variance.mean(axis=1) if variance.ndim > 1 else variance
        tau = float(np.std(variance)) if self.temperature is None else self.temperature
        score = (variance - variance.max()) / tau if tau > 0 else np.zeros(len(pool))
        # adding Gumbel noise and taking the largest draws without replacement from the softmax
        key = score + rng.gumbel(size=len(pool))
        return pool.pick(np.argsort(-key, kind="stable")[:n])


RANDOM_NAMES = ("random", "paired", "exhaustive")
"""Built-in samplers that choose nothing."""


def check_still_random(before: str, sampler: Sampler, name: str) -> None:
    """Raise if what the sampler ``before`` chose would be taken for a random sample now."""
    chosen = before not in RANDOM_NAMES and before != name
    if chosen and getattr(sampler, "uniform", False) and name != "exhaustive":
        msg = f"this explanation's masks were chosen by sampler={before!r}: they are no random "
        msg += f"sample, as sampler={name!r} would take them for. Go on with sampler={before!r}"
        msg += ", or begin anew"
        raise InputError(msg)


MIN_READ = 256
"""Units read from a sequence at a time while known ones are skipped."""


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
        self._left: list[Masks] = []

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
            want = units - have if not self._known else max(units - have, MIN_READ)
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
        """Keep what was taken last and not chosen, for when the sequence ends."""
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
        self.first = start
        """Position of the first perturbation taken last."""
        self._last: Perturbations | None = None

    def take(self, n: int) -> Candidates:
        """Take the next ``n`` perturbed rows."""
        self._last = self.neighbourhood.perturb(self.seed, self.at, self.at + n)
        self.first, self.at = self.at, self.at + n
        return Candidates(self._last.design, np.arange(self.first, self.at))

    def drawn(self, candidates: Candidates) -> tuple[Perturbations, bool]:
        """Return the perturbations the candidates were taken from, and whether they are all."""
        drawn = cast("Perturbations", self._last)
        expected = np.arange(self.first, self.first + len(drawn))
        return drawn, np.array_equal(candidates.position, expected)
