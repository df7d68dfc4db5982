"""Which posterior ``"auto"`` takes: a pure function of d, the budget and the cost of a query."""

from __future__ import annotations

from typing import Literal, NamedTuple

GP_QUERY_SECONDS = 1e-3
"""From this cost of a query on, fewer queries are worth the Gaussian process's arithmetic.

Measured at d = 16 on one core: the process takes about 1.3 ms for each query it is given, up to a
few hundred, and reaches a width with a sixth of the queries of the regression, so it breaks even
near 0.3 ms a query; three times that leaves room for machines that differ.
"""

GP_PLAYERS = 60
"""Most features for which the process's intervals are used unasked."""

GP_QUERIES = 2_000
"""Largest budget for which it is: its cost grows with the cube."""


class Choice(NamedTuple):
    """What was chosen and why."""

    posterior: Literal["linear", "gp"]
    why: str


def choose_posterior(d: int, budget: float, query_seconds: float | None) -> Choice:
    """Choose for ``d`` features and ``budget`` queries (exact answers are found by themselves)."""
    if query_seconds is None:
        return Choice("linear", "linear posterior: the cost of a query is not known")
    cost = f"{1e3 * query_seconds:.2g} ms a query"
    if query_seconds < GP_QUERY_SECONDS:
        return Choice("linear", f"linear posterior: at {cost} more queries cost less than thinking")
    if d > GP_PLAYERS:
        return Choice("linear", f"linear posterior: more than {GP_PLAYERS} features")
    if budget > GP_QUERIES:
        return Choice("linear", f"linear posterior: a budget above {GP_QUERIES:,} queries")
    return Choice("gp", f"Gaussian process: at {cost} fewer queries pay")
