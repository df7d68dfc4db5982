"""Stopping rules, and the goals of a call with the plan that follows from them.

A rule is any object with ``check(look)`` that returns a reason to stop or ``None``; ``precise``
says whether stopping there means that the requested precision was met. Rules combine with ``|``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from credex.designs.design import Design
from credex.errors import BudgetError, InputError, check_count, check_positive, check_width
from credex.options import Options, OptionsDict
from credex.posteriors import Belief
from credex.typing import Floats

RELATIVE_WIDTH = 0.2
"""Default precision: every interval at most this share of the largest importance."""

MAX_EXHAUSTIVE = 2**20
"""Maximum number of coalitions that are enumerated."""

FIRST_LOOK = 64
"""Queries before the first look, or four for each feature if that is more."""

RANK_DRAWS = 4_000
"""Posterior draws that `RankingSettled` takes at each look."""


class Look(Protocol):
    """What a rule may see of a run."""

    @property
    def belief(self) -> Belief | None:
        """Belief about the importances, ``None`` before the first fit."""

    @property
    def level(self) -> float:
        """Level of the intervals."""

    @property
    def n_queries(self) -> int:
        """Queries spent."""

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""


@runtime_checkable
class Rule(Protocol):
    """The extension point."""

    @property
    def precise(self) -> bool:
        """Whether stopping here means that a requested precision was met."""

    def check(self, look: Look) -> str | None:
        """Return the reason to stop, or ``None`` to go on."""


class Combines:
    """Gives a rule the operator ``|``."""

    __slots__ = ()

    def __or__(self, other: Any) -> AnyOf:
        if not _is_rule(other):
            msg = f"only rules combine with |; got {other!r}"
            raise InputError(msg)
        return AnyOf((*_parts(self), *_parts(other)))


@dataclass(frozen=True, slots=True)
class AnyOf(Combines):
    """Stops as soon as one of its rules does."""

    rules: tuple[Rule, ...]
    precise: bool = False

    def check(self, look: Look) -> str | None:
        """Return the first reason found."""
        return next((r for r in (rule.check(look) for rule in self.rules) if r is not None), None)


def _is_rule(rule: Any) -> bool:
    """Whether an object is a rule, and not the class of one."""
    return isinstance(rule, Rule) and not isinstance(rule, type)


def _parts(rule: Any) -> tuple[Rule, ...]:
    """Return the rules that a combined rule consists of."""
    return rule.rules if isinstance(rule, AnyOf) else (rule,)


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
        """Stop when every interval is narrow enough."""
        return "width" if _narrow(self, look) else None


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
        """Stop when every interval is narrow enough."""
        return "relative width" if _narrow(self, look) else None


def _narrow(rule: Width | RelativeWidth, look: Look) -> bool:
    """Whether every interval keeps the rule's limit."""
    if look.belief is None:
        return False
    width = look.belief.interval(look.level).width
    return bool(np.all(width <= rule.limits(look.belief.mean)))


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
    """Stop after ``seconds``, looked at between model calls.

    In `explain_many` every row has a clock of its own, which starts with the row. With
    ``batch=True`` there is one clock for all rows: when it stops, rows in progress end where they
    are and the others are not begun.
    """

    seconds: float
    precise: bool = False
    batch: bool = False

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


@dataclass(slots=True, eq=False)
class Plan:
    """When to look and when to stop.

    The ``rules`` are looked at after every fit; without any, all queries are asked at once. The
    first look is after ``first_look`` queries, the last after ``ceiling`` queries, for
    ``ceiling_reason``.
    """

    rules: tuple[Rule, ...]
    ceiling: int
    ceiling_reason: str
    first_look: int


@dataclass(frozen=True, slots=True)
class Goals:
    """``width``, ``queries``, ``max_queries`` and ``stop`` of a call; checked when made."""

    width: float | Sequence[float] | None = None
    queries: int | None = None
    max_queries: int | None = None
    stop: Rule | None = None

    def __post_init__(self) -> None:
        if self.width is not None:
            check_width(self.width)
        for name in ("queries", "max_queries"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.stop is not None and not _is_rule(self.stop):
            msg = f"stop must be a rule such as RankingSettled(3, 0.95); got {self.stop!r}"
            raise InputError(msg)

    def stored(self) -> dict[str, Any]:
        """Return what was given, as plain values."""
        given = {"queries": self.queries, "max_queries": self.max_queries}
        out: dict[str, Any] = {name: int(n) for name, n in given.items() if n is not None}
        if self.width is not None:
            out["width"] = np.asarray(self.width, dtype=np.float64).tolist()
        return out if self.stop is None else {**out, "stop": repr(self.stop)}

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Stopping rules; none if only ``queries`` was given."""
        rules: tuple[Rule, ...] = () if self.width is None else (Width(self.width),)
        if self.stop is not None:
            rules += _parts(self.stop)
        if not rules and self.queries is None:
            rules = (RelativeWidth(RELATIVE_WIDTH),)
        return rules

    @property
    def batch_seconds(self) -> float | None:
        """Time for all rows of a batch, if a `WallClock` sets it."""
        clocks = [r.seconds for r in self.rules if isinstance(r, WallClock) and r.batch]
        return min(clocks, default=None)

    def with_time(self, seconds: float) -> Goals:
        """Return the goals of a row for which so much is left of the time of its batch."""
        rules = _parts(self.stop) if self.stop is not None else ()
        kept = tuple(r for r in rules if not (isinstance(r, WallClock) and r.batch))
        return replace(self, stop=AnyOf((*kept, WallClock(seconds))))

    @property
    def ceiling(self) -> tuple[int | None, str]:
        """Maximum number of queries (``None``: the default), and its name."""
        limits = {"queries": self.queries, "max_queries": self.max_queries}
        given = [(n, name) for name, n in limits.items() if n is not None]
        return min(given, key=lambda limit: limit[0], default=(None, "ceiling"))

    def check_ranking(self, d: int) -> None:
        """Raise if the top k are all d features: their set is settled before a query is asked."""
        for rule in self.rules if len(self.rules) == 1 else ():
            if isinstance(rule, RankingSettled) and rule.k >= d and not rule.ordered:
                msg = f"RankingSettled(k={rule.k}) says nothing of {d} features: all of them are "
                msg += f"always among the top {rule.k}. Use a smaller k, or ordered=True"
                raise InputError(msg)

    def plan(
        self, design: Design, minimum: int, default_ceiling: int, *, dear: bool = False
    ) -> Plan:
        """Plan the run of one instance; too small a budget fails here, before any query.

        ``minimum``: queries of the smallest fit. ``dear``: queries are expensive, and another
        estimator may take over: look sooner.
        """
        ceiling, reason = self.ceiling
        exhaustive = design.options.sampler_name == "exhaustive"
        least = _all_coalitions(design) if exhaustive else minimum
        if ceiling is not None and ceiling < least:
            kind = "gp" if design.options.posterior == "gp" else "linear"
            what = "to enumerate all coalitions" if exhaustive else f"with the {kind} posterior"
            msg = f"{reason}={ceiling} is too few for {design.d} features {what}: "
            msg += f"it takes at least {least}"
            raise BudgetError(msg, minimum=least)
        if ceiling is None:
            ceiling = least if exhaustive else max(default_ceiling, least)
        first = max(FIRST_LOOK, 4 * (design.d + 2))
        first = min(first, 3 * (design.d + 2)) if dear else first
        return Plan(self.rules, ceiling, reason, max(min(first, ceiling), min(least, ceiling)))


class CallDict(OptionsDict, total=False):
    """Keywords of a call: goals and options."""

    width: float | Sequence[float] | None
    queries: int | None
    max_queries: int | None
    stop: Rule | None


def split_call(call: Mapping[str, Any], defaults: Options) -> tuple[Goals, Options]:
    """Split the keywords of a call into its goals and the options that replace the defaults."""
    goals = {name: call[name] for name in Goals.__dataclass_fields__ if name in call}
    given = {name: value for name, value in call.items() if name not in goals}
    return Goals(**goals), defaults.override(given)


def _all_coalitions(design: Design) -> int:
    """Queries that enumerating takes, if it can be done at all."""
    if design.options.noisy or not design.enumerable:
        msg = "sampler='exhaustive' needs masks and a model without noise"
        raise InputError(msg)
    if design.everything > MAX_EXHAUSTIVE * design.query_cost:
        msg = f"{design.d} features have 2^{design.d} coalitions; at most {MAX_EXHAUSTIVE:,} "
        msg += "are enumerated. Leave sampler='exhaustive' and posterior='exact' out"
        raise BudgetError(msg, minimum=MAX_EXHAUSTIVE + 1)
    return int(design.everything)
