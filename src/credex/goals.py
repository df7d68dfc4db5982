"""What a run is asked to reach, as stopping rules, a ceiling and a first look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from credex.auto import first_look
from credex.checks import check_count, check_width
from credex.designs.design import Design
from credex.errors import BudgetError, InputError
from credex.estimators.base import Estimator
from credex.options import Options, OptionsDict
from credex.stopping import AnyOf, RankingSettled, RelativeWidth, Rule, Width

__all__ = ["CallDict", "Goals", "Plan", "split_call"]

RELATIVE_WIDTH = 0.2
"""Default precision: every interval at most this share of the largest importance."""

MAX_EXHAUSTIVE = 2**20
"""Maximum number of coalitions that are enumerated."""

FIRST_LOOK = 64
"""Queries before the first look, or four for each feature if that is more."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """When to look and when to stop.

    Attributes
    ----------
    rules
        Looked at after every fit; none: all queries are asked at once.
    ceiling, ceiling_reason
        Maximum number of queries, and the ``stop_reason`` of reaching it.
    first_look
        Queries before the first look.
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
        given: Any = self.stop
        if given is not None and (not isinstance(given, Rule) or isinstance(given, type)):
            msg = f"stop must be a rule such as RankingSettled(3, 0.95); got {given!r}"
            raise InputError(msg)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Stopping rules; none if only ``queries`` was given."""
        out: list[Rule] = [] if self.width is None else [Width(self.width)]
        if self.stop is not None:
            out += list(self.stop.rules) if isinstance(self.stop, AnyOf) else [self.stop]
        if not out and self.queries is None:
            out.append(RelativeWidth(RELATIVE_WIDTH))
        return tuple(out)

    @property
    def ceiling(self) -> tuple[int | None, str]:
        """Maximum number of queries (``None``: the default), and its name."""
        known = [(n, name) for n, name in self._limits() if n is not None]
        return min(known, key=lambda limit: limit[0]) if known else (None, "ceiling")

    def _limits(self) -> tuple[tuple[int | None, str], ...]:
        return (self.queries, "queries"), (self.max_queries, "max_queries")

    def check_ranking(self, d: int) -> None:
        """Raise if the top k are all d features: their set is settled before a query is asked."""
        for rule in self.rules if len(self.rules) == 1 else ():
            if isinstance(rule, RankingSettled) and rule.k >= d and not rule.ordered:
                msg = f"RankingSettled(k={rule.k}) says nothing of {d} features: all of them are "
                msg += f"always among the top {rule.k}. Use a smaller k, or ordered=True"
                raise InputError(msg)

    def plan(
        self,
        design: Design,
        estimator: Estimator,
        default_ceiling: int,
        query_seconds: float | None = None,
    ) -> Plan:
        """Plan the run of one instance; too small a budget fails here, before any query.

        ``query_seconds``: cost of a query, if another estimator may take over.
        """
        ceiling, reason = self.ceiling
        exhaustive = design.options.sampler_name == "exhaustive"
        least = _all_coalitions(design) if exhaustive else estimator.minimum
        if ceiling is not None and ceiling < least:
            kind = "gp" if design.options.posterior == "gp" else "linear"
            what = "to enumerate all coalitions" if exhaustive else f"with the {kind} posterior"
            msg = f"{reason}={ceiling} is too few for {design.d} features {what}: "
            msg += f"it takes at least {least}"
            raise BudgetError(msg, minimum=least)
        if ceiling is None:
            ceiling = least if exhaustive else max(default_ceiling, least)
        usual = max(FIRST_LOOK, 4 * (design.d + 2))
        first = first_look(design.d, query_seconds, usual)
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
    if design.everything > MAX_EXHAUSTIVE:
        msg = f"{design.d} features have 2^{design.d} coalitions; at most {MAX_EXHAUSTIVE:,} "
        msg += "are enumerated. Leave sampler='exhaustive' and posterior='exact' out"
        raise BudgetError(msg, minimum=MAX_EXHAUSTIVE + 1)
    return int(design.everything)
