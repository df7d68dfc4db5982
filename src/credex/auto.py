"""What ``"auto"`` takes: pure functions of d, the budget, the cost of a query and forecasts.

Nothing here reads a clock, so that the same seed gives the same numbers. Seconds are those of one
core that multiplies two 2000×2000 matrices in 0.35 s; `make bench-cost` measures how close to the
best choice they lead.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

DEAR = 2.5e-3
"""From this cost of a query on a run to a width begins with the Gaussian process.

It may be done before the regression can have a first look. Below, the regression has that look
(its arithmetic is next to nothing), and then forecasts decide.
"""

DEAR_LOOK = 5e-4
"""From this cost of a query on such a run looks first after three queries a feature, not four."""

GAIN = 5.0
"""Further queries the regression would need for each that the process is given (median, measured).

A budget is a promise about queries, not about error: the process is worth its time if the
regression would spend more on those.
"""

PROBE = 2.0
"""The process is asked how far it has got once the regression's rest takes this many fits of it."""

RIPE = 150
"""Queries from which a forecast is believed that says the width is out of reach."""

GP_PLAYERS = 60
"""Most features for which the process's intervals are used unasked."""

GP_QUERIES = 2_000
"""Most queries for which it is: its cost grows with the cube."""


class Choice(NamedTuple):
    """What was chosen and why; ``open``: a look at the widths may still change it."""

    posterior: Literal["linear", "gp"]
    why: str
    open: bool = False


def run_seconds(n: float) -> float:
    """Arithmetic of a run of the process that ends with ``n`` queries."""
    return 1.2e-3 * n + 4e-6 * n**2


def fit_seconds(n: float) -> float:
    """Arithmetic of one fit of the process to ``n`` queries, hyper-parameters from scratch."""
    return 0.02 + 0.35 * run_seconds(n)


def choose_posterior(
    d: int, budget: float, query_seconds: float | None, *, fixed: bool = True
) -> Choice:
    """Choose for ``d`` features and at most ``budget`` queries.

    Parameters
    ----------
    d, budget
        Features and most queries (exact answers are found by themselves).
    query_seconds
        Cost of a query; ``None``: not known.
    fixed
        The budget will be spent in full; otherwise the run stops at a width, and the number of
        queries is not known.
    """
    if query_seconds is None:
        return Choice("linear", "linear posterior: the cost of a query is not known")
    cost = _milliseconds(query_seconds)
    if d > GP_PLAYERS:
        return Choice("linear", f"linear posterior: more than {GP_PLAYERS} features")
    if fixed and budget > GP_QUERIES:
        return Choice("linear", f"linear posterior: a budget above {GP_QUERIES:,} queries")
    if fixed and GAIN * budget * query_seconds < run_seconds(budget):
        why = f"linear posterior: at {cost} more queries cost less than thinking"
        return Choice("linear", why)
    if not fixed and (query_seconds < DEAR or budget > GP_QUERIES):
        why = f"begun with the linear posterior: at {cost} a first look costs least with it"
        return Choice("linear", why, open=True)
    return Choice("gp", f"Gaussian process: at {cost} fewer queries pay")


class Prospect(NamedTuple):
    """Where a regression on its way to a width stands.

    Attributes
    ----------
    n, left
        Queries asked, and how many remain of the budget.
    more, least
        Queries it needs by its forecast, and by the lower end of that.
    query_seconds
        Cost of a query.
    """

    n: float
    left: float
    more: float
    least: float
    query_seconds: float


def worth_fitting(p: Prospect) -> bool:
    """Whether to fit the process, only to hear how many queries it would need."""
    if p.n > GP_QUERIES:
        return False
    return out_of_reach(p) or p.more * p.query_seconds > PROBE * fit_seconds(p.n)


def out_of_reach(p: Prospect) -> bool:
    """Whether the budget ends before the regression gets there, surely or, past half, likely."""
    return (p.n >= RIPE and p.least > p.left) or (p.n >= p.left and p.more > p.left)


def switch_reason(p: Prospect, process: float) -> str | None:
    """Why the process, which needs ``process`` more queries, takes over; ``None``: it does not.

    It does if the regression cannot reach the width within the budget, or takes more seconds to.
    """
    after = p.n + process
    if after > GP_QUERIES or process > p.left:
        return None
    from_here = f"Gaussian process from query {p.n:.0f} on"
    if out_of_reach(p):
        return f"{from_here}: the regression needs more than the {p.left:,.0f} queries left"
    thinking = run_seconds(after) - run_seconds(p.n)
    if p.more * p.query_seconds <= process * p.query_seconds + thinking:
        return None
    return f"{from_here}: at {_milliseconds(p.query_seconds)} fewer queries pay"


def _milliseconds(query_seconds: float) -> str:
    return f"{1e3 * query_seconds:.2g} ms a query"
