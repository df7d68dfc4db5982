"""What a run is asked to reach, turned into rules, a ceiling and a first look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from credex.auto import first_look
from credex.checks import check_count, check_width
from credex.errors import BudgetError, InputError
from credex.estimators.base import Recipe
from credex.loop import Plan
from credex.stopping import AnyOf, RankingSettled, RelativeWidth, Rule, Width

RELATIVE_WIDTH = 0.2
"""Default precision: every interval at most this share of the largest importance."""

MOST_EXHAUSTIVE = 2**20
"""Coalitions that are enumerated at most."""

FIRST_LOOK = 64
"""Queries before the first look, or four for each feature if that is more."""


@dataclass(frozen=True, slots=True)
class Goals:
    """``width``, ``queries``, ``max_queries`` and ``stop`` of a call; checked when made."""

    width: float | Sequence[float] | None = None
    queries: int | None = None
    max_queries: int | None = None
    stop: Rule | None = None

    rules: tuple[Rule, ...] = field(init=False)
    """Rules to look at; none if only ``queries`` was given."""
    ceiling: int | None = field(init=False)
    """Most queries (``None``: the default)."""
    reason: str = field(init=False)
    """What reaching the ceiling is called."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "rules", self._rules())
        ceiling, reason = self._ceiling()
        put(self, "ceiling", ceiling)
        put(self, "reason", reason)

    @classmethod
    def of(
        cls,
        width: float | Sequence[float] | None,
        queries: int | None,
        max_queries: int | None,
        stop: Rule | None,
    ) -> Goals:
        """Goals of a call; those that are nothing but a number of queries are made once."""
        if type(queries) is int and width is None and max_queries is None and stop is None:
            return _fixed(queries)
        return cls(width, queries, max_queries, stop)

    def _rules(self) -> tuple[Rule, ...]:
        out: list[Rule] = []
        if self.width is not None:
            out.append(Width(check_width(self.width)))
        if self.stop is not None:
            given: Any = self.stop
            if not isinstance(given, Rule) or isinstance(given, type):
                msg = f"stop must be a rule such as RankingSettled(3, 0.95); got {given!r}"
                raise InputError(msg)
            out += list(given.rules) if isinstance(given, AnyOf) else [given]
        if not out and self.queries is None:
            out.append(RelativeWidth(RELATIVE_WIDTH))
        return tuple(out)

    def _ceiling(self) -> tuple[int | None, str]:
        out: tuple[int | None, str] = (None, "ceiling")
        if self.queries is not None:
            out = check_count("queries", self.queries), "queries"
        if self.max_queries is not None:
            most = check_count("max_queries", self.max_queries)
            out = (most, "max_queries") if out[0] is None or most < out[0] else out
        return out

    @staticmethod
    def _all_of(recipe: Recipe) -> int:
        """How many queries enumerating takes, if it can be done at all."""
        if recipe.settings.noisy or not recipe.enumerable:
            msg = "sampler='exhaustive' needs masks and a model without noise"
            raise InputError(msg)
        if recipe.everything > MOST_EXHAUSTIVE:
            msg = f"{recipe.d} features have 2^{recipe.d} coalitions; at most {MOST_EXHAUSTIVE:,} "
            msg += "are enumerated. Leave sampler='exhaustive' and posterior='exact' out"
            raise BudgetError(msg, minimum=MOST_EXHAUSTIVE + 1)
        return int(recipe.everything)

    def check_ranking(self, d: int) -> None:
        """Raise if the top k are all there is: their set is settled before a query is asked."""
        for rule in self.rules if len(self.rules) == 1 else ():
            if isinstance(rule, RankingSettled) and rule.k >= d and not rule.ordered:
                msg = f"RankingSettled(k={rule.k}) says nothing of {d} features: all of them are "
                msg += f"always among the top {rule.k}. Use a smaller k, or ordered=True"
                raise InputError(msg)

    def plan(self, recipe: Recipe, default_ceiling: int) -> Plan:
        """Make the plan for one instance; too small a budget fails here, before any query."""
        ceiling, reason = self.ceiling, self.reason
        exhaustive = recipe.settings.sampler_name == "exhaustive"
        least = recipe.minimum
        if exhaustive:
            least = self._all_of(recipe)
        if ceiling is not None and ceiling < least:
            kind = "gp" if recipe.settings.posterior == "gp" else "linear"
            what = "to enumerate all coalitions" if exhaustive else f"with the {kind} posterior"
            msg = f"{reason}={ceiling} is too few for {recipe.d} features {what}: "
            msg += f"it takes at least {least}"
            raise BudgetError(msg, minimum=least)
        if ceiling is None:
            ceiling = least if exhaustive else max(default_ceiling, 4 * recipe.minimum)
        usual = max(FIRST_LOOK, 4 * (recipe.d + 2))
        first = first_look(recipe.d, recipe.settings.query_seconds, usual)
        first = max(min(first, ceiling), min(least, ceiling))
        return Plan(self.rules, ceiling, reason, first)


@lru_cache(maxsize=64)
def _fixed(queries: int) -> Goals:
    return Goals(queries=queries)
