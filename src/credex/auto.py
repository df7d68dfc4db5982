"""``posterior="auto"``: regression or Gaussian process, by what a query costs and by forecasts.

Pure functions that read no clock, so that the same seed gives the same numbers. Seconds are those
of one core that multiplies two 2000×2000 matrices in 0.35 s; `make bench-cost` measures how close
to the best choice they lead.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

PROCESS_FIRST = 2.5e-3
"""Seconds per query from which a run to a width begins with the Gaussian process.

It may be done before the regression can have a first look. Below, the regression looks first (its
arithmetic costs next to nothing), and then forecasts decide.
"""

DEAR_LOOK = 5e-4
"""Seconds per query from which such a run looks after three queries a feature instead of four."""

QUERY_RATIO = 5.0
"""Queries the regression needs for each of the process (median over the benchmark games)."""

PROBE_FITS = 2.0
"""The process is fitted once the rest of the regression would take as long as this many fits."""

MIN_QUERIES = 150
"""Queries from which a forecast that says the width is out of reach is believed."""

MAX_FEATURES = 60
"""Maximum number of features for which the process is chosen."""

MAX_QUERIES = 2_000
"""Maximum number of queries for which it is: its cost grows with the cube."""


class Choice(NamedTuple):
    """The posterior that was chosen and why; ``open``: forecasts may still change it."""

    posterior: Literal["linear", "gp"]
    why: str
    open: bool = False


def choose_posterior(
    d: int, budget: float, query_seconds: float | None, *, fixed: bool = True
) -> Choice:
    """Choose for ``d`` features, at most ``budget`` queries and the cost of a query, if known.

    ``fixed``: the budget will be spent in full; otherwise the run stops at a width.
    """
    if query_seconds is None:
        return Choice("linear", "linear posterior: the cost of a query is not known")
    cost = _milliseconds(query_seconds)
    if d > MAX_FEATURES:
        return Choice("linear", f"linear posterior: more than {MAX_FEATURES} features")
    if fixed and budget > MAX_QUERIES:
        return Choice("linear", f"linear posterior: a budget above {MAX_QUERIES:,} queries")
    if fixed and QUERY_RATIO * budget * query_seconds < run_seconds(budget):
        why = f"linear posterior: at {cost} more queries cost less than the arithmetic"
        return Choice("linear", why)
    if not fixed and (query_seconds < PROCESS_FIRST or budget > MAX_QUERIES):
        why = f"begun with the linear posterior: at {cost} a first look costs least with it"
        return Choice("linear", why, open=True)
    return Choice("gp", f"Gaussian process: at {cost} fewer queries pay")


class Prospect(NamedTuple):
    """A regression on its way to a width, after ``n`` queries with ``left`` of the budget.

    It needs ``more`` queries by its forecast, ``least`` by the lower end of the forecast.
    """

    n: float
    left: float
    more: float
    least: float
    query_seconds: float


def worth_fitting(p: Prospect) -> bool:
    """Whether to fit the process, only to forecast how many queries it would need."""
    if p.n > MAX_QUERIES:
        return False
    return out_of_reach(p) or p.more * p.query_seconds > PROBE_FITS * fit_seconds(p.n)


def out_of_reach(p: Prospect) -> bool:
    """Whether the budget ends before the width: by the low forecast or, past half, the forecast."""
    return (p.n >= MIN_QUERIES and p.least > p.left) or (p.n >= p.left and p.more > p.left)


def switch_reason(p: Prospect, process: float) -> str | None:
    """Why the process, which needs ``process`` more queries, takes over; ``None``: it does not.

    It does if the regression cannot reach the width within the budget, or takes more seconds to.
    """
    after = p.n + process
    if after > MAX_QUERIES or process > p.left:
        return None
    from_here = f"Gaussian process from query {p.n:.0f} on"
    if out_of_reach(p):
        return f"{from_here}: the regression needs more than the {p.left:,.0f} queries left"
    arithmetic = run_seconds(after) - run_seconds(p.n)
    if p.more * p.query_seconds <= process * p.query_seconds + arithmetic:
        return None
    return f"{from_here}: at {_milliseconds(p.query_seconds)} fewer queries pay"


def run_seconds(n: float) -> float:
    """Arithmetic of a run of the process that ends with ``n`` queries."""
    return 1.2e-3 * n + 4e-6 * n**2


def fit_seconds(n: float) -> float:
    """Arithmetic of one fit of the process to ``n`` queries, hyper-parameters from scratch."""
    return 0.02 + 0.35 * run_seconds(n)


def _milliseconds(query_seconds: float) -> str:
    return f"{1e3 * query_seconds:.2g} ms a query"


PROCESS_ROWS = 1_000
"""Fixed budgets of model rows up to which the process over inputs is chosen without a known cost.

It takes about a second there, and reaches the error of a fixed kernel with two thirds of the rows.
"""


def choose_for_rows(d: int, ceiling: int, query_seconds: float | None, *, fixed: bool) -> Choice:
    """Choose the surrogate over inputs for a table whose background rows take turns."""
    if d > MAX_FEATURES:
        return Choice("linear", f"fixed kernel: more than {MAX_FEATURES} features")
    if query_seconds is not None:
        if query_seconds >= PROCESS_FIRST:
            return Choice("gp", f"Gaussian process: a row costs {_milliseconds(query_seconds)}")
        return Choice("linear", f"fixed kernel: a row costs {_milliseconds(query_seconds)}")
    if fixed and ceiling <= PROCESS_ROWS:
        return Choice("gp", f"Gaussian process: at most {PROCESS_ROWS:,} rows")
    return Choice("linear", "fixed kernel: the cost of a row is not known")
