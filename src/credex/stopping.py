"""When to stop, and how much further it is (perturbations-to-go).

A rule is any object with ``check(state)`` that returns a reason to stop or ``None``; ``precise``
says whether stopping there means that the requested precision was met. Rules combine with ``|``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from credex.checks import check_count, check_level, check_positive, check_width
from credex.errors import InputError
from credex.posteriors.student import quantile
from credex.typing import Floats

if TYPE_CHECKING:
    from credex.posteriors import Belief, LinearPosterior

RANK_DRAWS = 4_000
"""Draws behind `RankingSettled` at each look."""


class Look(Protocol):
    """What a rule may see of a run."""

    @property
    def belief(self) -> Belief | None:
        """Belief about the importances, ``None`` before the first fit."""
        ...

    @property
    def level(self) -> float:
        """Level of the intervals."""
        ...

    @property
    def n_queries(self) -> int:
        """Queries spent."""
        ...

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        ...


@runtime_checkable
class Rule(Protocol):
    """The extension point."""

    @property
    def precise(self) -> bool:
        """Whether stopping here means that a requested precision was met."""
        ...

    def check(self, look: Look) -> str | None:
        """Return the reason to stop, or ``None`` to go on."""
        ...


class Combines:
    """Gives a rule the operator ``|``."""

    __slots__ = ()

    def __or__(self, other: Any) -> AnyOf:
        if not isinstance(other, Rule) or isinstance(other, type):
            msg = f"only rules combine with |; got {other!r}"
            raise InputError(msg)
        first = self.rules if isinstance(self, AnyOf) else (self,)
        second = other.rules if isinstance(other, AnyOf) else (other,)
        return AnyOf((*first, *second))


@dataclass(frozen=True, slots=True)
class AnyOf(Combines):
    """Stops as soon as one of its rules does."""

    rules: tuple[Rule, ...]
    precise: bool = False

    def check(self, look: Look) -> str | None:
        """Return the first reason found."""
        return next((r for r in (rule.check(look) for rule in self.rules) if r is not None), None)


@dataclass(frozen=True, slots=True)
class Width(Combines):
    """Every interval (upper − lower) is at most ``width``; a sequence gives one for each output."""

    width: float | tuple[float, ...]
    precise: bool = True

    def __init__(self, width: float | Sequence[float]) -> None:
        object.__setattr__(self, "width", check_width(width))
        object.__setattr__(self, "precise", True)

    def limits(self, mean: Floats) -> Floats:
        """Return the widths allowed for a ``(d, k)`` array of means."""
        k = mean.shape[1]
        if isinstance(self.width, tuple) and len(self.width) != k:
            outputs = f"{k} outputs" if k > 1 else "one output"
            msg = f"width has {len(self.width)} numbers, but the model has {outputs}"
            raise InputError(msg)
        return np.broadcast_to(np.asarray(self.width, dtype=np.float64), mean.shape)

    def check(self, look: Look) -> str | None:
        """Stop when the widest interval is narrow enough."""
        if look.belief is None:
            return None
        width = look.belief.interval(look.level).width
        return "width" if bool(np.all(width <= self.limits(look.belief.mean))) else None


@dataclass(frozen=True, slots=True)
class RelativeWidth(Combines):
    """Every interval is at most ``share`` of the largest importance of its output."""

    share: float
    precise: bool = True

    def __post_init__(self) -> None:
        check_positive("RelativeWidth(share)", self.share)

    def limits(self, mean: Floats) -> Floats:
        """Return the widths allowed for a ``(d, k)`` array of means."""
        return np.broadcast_to(self.share * np.abs(mean).max(axis=0), mean.shape)

    def check(self, look: Look) -> str | None:
        """Stop when the widest interval is narrow enough."""
        if look.belief is None:
            return None
        width = look.belief.interval(look.level).width
        return "relative width" if bool(np.all(width <= self.limits(look.belief.mean))) else None


@dataclass(frozen=True, slots=True)
class RankingSettled(Combines):
    """The set of the top ``k`` features by |φ| has probability ``prob`` (every output).

    ``ordered``: their order too. ``signed``: by φ instead of |φ|.
    """

    k: int
    prob: float = 0.95
    ordered: bool = False
    signed: bool = False
    precise: bool = True

    def __post_init__(self) -> None:
        check_count("RankingSettled(k=)", self.k)
        if check_positive("RankingSettled(prob=)", self.prob) >= 1:
            msg = f"RankingSettled(prob=) must lie between 0 and 1; got {self.prob!r}"
            raise InputError(msg)

    def check(self, look: Look) -> str | None:
        """Stop when the likeliest top-k is likely enough."""
        b = look.belief
        if b is None or not np.all(np.isfinite(b.scale)):
            return None
        for j in range(b.k):
            x = b.only(j).sample(RANK_DRAWS, 0)[:, :, 0]
            order = np.argsort(-(x if self.signed else np.abs(x)), axis=1, kind="stable")
            top = order[:, : self.k]
            top = top if self.ordered else np.sort(top, axis=1)
            _, counts = np.unique(top, axis=0, return_counts=True)
            if counts.max() < self.prob * RANK_DRAWS:
                return None
        return "ranking settled"


@dataclass(frozen=True, slots=True)
class WallClock(Combines):
    """Stop after ``seconds`` (looked at between batches)."""

    seconds: float
    precise: bool = False

    def __post_init__(self) -> None:
        check_positive("WallClock(seconds)", self.seconds)

    def check(self, look: Look) -> str | None:
        """Stop when the time is up."""
        return "wall clock" if look.seconds >= self.seconds else None


@dataclass(frozen=True, slots=True)
class Queries(Combines):
    """Stop at ``limit`` queries."""

    limit: int
    precise: bool = False

    def __post_init__(self) -> None:
        check_count("queries", self.limit)

    def check(self, look: Look) -> str | None:
        """Stop when they are spent."""
        return "queries" if look.n_queries >= self.limit else None


@dataclass(frozen=True, slots=True)
class Forecast:
    """How much further it is to a width (perturbations-to-go).

    Attributes
    ----------
    queries
        Queries still to ask, after those already spent; 0 if the width is met. Infinite if it
        cannot be met (a noisy limit, or a prior too strong).
    low, high
        A range for ``queries``: the residual variance is itself an estimate.
    model_rows, seconds
        The same in rows of the model and in seconds.
    n_queries
        Seed queries spent on the forecast.
    width, level
        What was asked for.
    asked
        The seed queries themselves: ``explain(x, start=forecast)`` goes on from them.
    """

    queries: float
    low: float
    high: float
    model_rows: float
    seconds: float
    n_queries: int
    width: float | tuple[float, ...]
    level: float
    asked: Any = None

    @property
    def total(self) -> float:
        """Spent and still to ask."""
        return self.n_queries + self.queries

    def __str__(self) -> str:
        if not np.isfinite(self.queries):
            return f"width {self.width} cannot be reached"
        return (
            f"{self.queries:,.0f} more queries ({self.low:,.0f} to {self.high:,.0f}) "
            f"to width {self.width} at level {self.level:g}: about {self.seconds:.2g} s, "
            f"{self.model_rows:,.0f} model rows; {self.n_queries} spent"
        )


def perturbations_to_go(
    posterior: LinearPosterior,
    width: float,
    level: float = 0.95,
    mean_proximity: float | None = None,
) -> float:
    """Return the paper's G (Eq. 9): further perturbations to an interval of HALF-width ``width``.

    G = 4·s² / (π̄ · [W/Φ⁻¹(α)]²) − S, with S the rows of ``posterior`` and π̄ their mean weight.
    W is the half-width here and nowhere else in credex; the formula holds for masks of fair coins
    without an intercept, and for few features it asks for too much. ``explainer.forecast`` does
    better.

    Parameters
    ----------
    posterior
        Estimate on the S seed perturbations.
    width
        Half-width W.
    level
        Two-sided level α.
    mean_proximity
        π̄; by default the mean weight of the posterior's rows.
    """
    w = check_width(width)
    if isinstance(w, tuple):
        msg = "perturbations_to_go takes one width"
        raise InputError(msg)
    z = quantile(check_level(level), np.inf)
    weight = posterior.moments.weight / posterior.n if mean_proximity is None else mean_proximity
    s2 = float(np.max(posterior.s2))
    return float(4 * s2 / (weight * (w / z) ** 2) - posterior.n)
