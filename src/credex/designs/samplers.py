"""Samplers: which perturbations to ask next. They see designs and posteriors, never a model.

A sampler is any object with ``paired`` (bool) and ``select(stream, n, posterior, rng)`` that takes
candidates from the stream and returns those to ask::

    class LargestFirst:
        paired = False

        def select(self, stream, n, posterior, rng):
            pool = stream.take(4 * n)
            order = np.argsort(-pool.design.sum(axis=1), kind="stable")
            return pool.pick(order[:n])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from credex.checks import check_count, check_positive
from credex.errors import InputError
from credex.typing import Design, Floats, Ints


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
    """Where candidates come from; masks taken and not chosen come back when all others are gone."""

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
    """Return at most ``n`` of what a sampler chose; complain if it is no choice at all.

    ``trusted``: the sampler is known to hand on pairs as they come.
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
    """Candidates as they come: every mask alone."""

    paired: bool = False
    uniform: bool = True
    name: str = "random"

    def select(
        self, stream: Stream, n: int, posterior: Predictive | None, rng: np.random.Generator
    ) -> Candidates:
        """Take the next ``n``."""
        del posterior, rng
        return stream.take(n)


@dataclass(frozen=True, slots=True)
class Paired:
    """Every mask with its complement: interactions of even order cancel."""

    paired: bool = True
    uniform: bool = True
    name: str = "paired"

    def select(
        self, stream: Stream, n: int, posterior: Predictive | None, rng: np.random.Generator
    ) -> Candidates:
        """Take the next ``n // 2`` pairs."""
        del posterior, rng
        return stream.take(n - n % 2)


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
