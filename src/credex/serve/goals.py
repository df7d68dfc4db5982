"""`Goal`: when an explanation in the page is certain enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from credex.errors import InputError, check_count, check_level, check_positive, check_width
from credex.explainer import Explainer
from credex.stopping import RELATIVE_WIDTH, RankingSettled, RelativeWidth

RANKING_PROBABILITY = 0.95
"""Probability at which the leading features count as settled."""

MAX_QUERIES = 10_000_000
"""Largest number of queries that a request may ask for."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What ends a run: ``kind`` with its ``value``, intervals at ``level``, a ceiling of queries.

    ``"relative"``: every interval at most this share of the largest importance. ``"width"``: at
    most this wide. ``"ranking"``: the set of the top so many features is settled. ``"queries"``: so
    many were asked.
    """

    kind: str
    value: float | tuple[float, ...]
    level: float
    max_queries: int | None = None

    @classmethod
    def proposed(cls, width: float | Sequence[float] | None, explainer: Explainer) -> Goal:
        """Return the goal that the page shows at first."""
        level = float(explainer.options.level)
        if width is None:
            return cls("relative", RELATIVE_WIDTH, level)
        return cls("width", check_width(width), level)

    @classmethod
    def read(cls, raw: Any, proposed: Goal) -> Goal:
        """Read the goal of a request; what it leaves out is as proposed."""
        if raw is None:
            return proposed
        if not isinstance(raw, Mapping):
            raise InputError(f"goal must be an object; got {raw!r:.80}")
        level = check_level(raw.get("level", proposed.level))
        ceiling = raw.get("max_queries")
        if ceiling is not None:
            ceiling = _check_queries("at most", ceiling)
        kind, value = raw.get("kind", proposed.kind), raw.get("value", proposed.value)
        if kind == "width" and value == _listed(proposed.value):
            value = proposed.value  # one for each output
        elif kind == "width":
            value = check_width(value)
        elif kind == "relative":
            value = check_positive("the share of the largest importance", value)
        elif kind == "ranking":
            value = check_count("the number of leading features", value)
        elif kind == "queries":
            value = _check_queries("queries", value)
        else:
            msg = f"the goal is {kind!r:.80}; it can be 'relative', 'width', 'ranking' or 'queries'"
            raise InputError(msg)
        return cls(kind, value, level, ceiling)

    @property
    def keywords(self) -> dict[str, Any]:
        """The goal as keywords of `Explainer.explain`."""
        out: dict[str, Any] = {"level": self.level}
        if self.max_queries is not None:
            out["max_queries"] = self.max_queries
        if self.kind == "relative":
            out["stop"] = RelativeWidth(_one(self.value))
        elif self.kind == "ranking":
            out["stop"] = RankingSettled(int(_one(self.value)), RANKING_PROBABILITY)
        else:
            out[self.kind] = int(_one(self.value)) if self.kind == "queries" else self.value
        return out

    @property
    def as_json(self) -> dict[str, Any]:
        """The goal as `read` takes it."""
        value, ceiling = _listed(self.value), self.max_queries
        return {"kind": self.kind, "value": value, "level": self.level, "max_queries": ceiling}


def _listed(value: float | tuple[float, ...]) -> float | list[float]:
    return list(value) if isinstance(value, tuple) else value


def _one(value: float | tuple[float, ...]) -> float:
    return value[0] if isinstance(value, tuple) else value


def _check_queries(name: str, value: Any) -> int:
    if check_count(name, value) > MAX_QUERIES:
        raise InputError(f"{name} is {value}; at most {MAX_QUERIES:,} queries can be asked")
    return int(value)
