"""What the Gaussian process costs, and when it pays. Run it with ``make bench-cost``.

Three questions: seconds of an explanation with a model that is next to free; total time to an
error, for models that cost more, against shap's KernelExplainer; and how far ``"auto"`` is from
the best choice. Own time is processor time on one core; the cost of a query is added to it, not
slept. ``--quick`` measures a little of each and writes nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import credex as cx
from benchmarks.games import INSTANCES, REAL, Game, index_of, load
from benchmarks.peers import Counted, kernel_explainer
from benchmarks.timing import publish, table, yardstick
from benchmarks.widths import COSTS, WIDTHS, race, report
from credex.auto import choose_posterior

YARDSTICK = 0.3
"""Seconds of the matrix product on the machine that the limits below are about."""

LIMITS = {100: 0.150, 300: 0.600}
"""Queries, and the most seconds an explanation with so many may take there."""

RUNS = 9
TARGETS = (0.1, 0.03)
"""Errors to be reached, relative to mean |φ|."""

LADDER = [round(32 * 2 ** (k / 2)) for k in range(19)]
"""Budgets tried, 32 to 16,384, each √2 times the last."""

MOST_GP = 2_000
ACCURACY_GAMES = (
    "cancer_gb",
    "cancer_et",
    "cancer_mlp",
    "digits_mlp",
    "digits_rf",
    "wine_svm",
    "wine_knn",
    "friedman_svr",
    "madelon_hgb",
    "madelon_knn",
)
QUICK_GAMES = ("wine_svm", "madelon_hgb")

ABOUT_SECONDS = (
    "Gaussian process with focused pairs at d = 16, a model next to free, one core, {runs} seeds. "
    "Processor time is what this process used; the wall clock of a shared machine shows its "
    "neighbours too."
)
ABOUT_ERROR = (
    "Own processor time plus queries × cost of a query, for the first budget of "
    f"{', '.join(f'{b:,}' for b in LADDER[:4])}, … at which the RMSE to exact Shapley values, "
    f"pooled over {INSTANCES} instances, is this share of mean |φ|. Median over games; in brackets "
    "on how many it was the quickest. Last column: what auto takes for a budget of the median "
    "number of queries that the process needs."
)
ABOUT_WIDTH = (
    "Widths relative to the largest importance; at most 2,000 queries; mean over {instances} "
    "instances. Took: g for the process, l for the regression, e for exact, instance by instance."
)
END = (
    "The run took {minutes:.1f} min; a 2000×2000 matrix product took {before:.2f} s by the clock "
    "before it and {after:.2f} s after it."
)

Method = Callable[[Game, int, int, int], np.ndarray]
"""Importances ``(d,)`` from a game, an instance, a budget and a seed."""


# Seconds of an explanation


def processor_yardstick() -> float:
    """Processor seconds of the matrix product: the clock of the figures below, others or not."""
    a = np.random.default_rng(0).normal(size=(2000, 2000))
    times = []
    for _ in range(3):
        start = time.process_time()
        a @ a
        times.append(time.process_time() - start)
    return min(times)


def explanation_times(runs: int) -> str:
    """Table of seconds at d = 16, new seed and new explainer each time."""
    game = load("digits_mlp")
    rows = []
    for queries, limit in LIMITS.items():
        own, wall, yard = [], [], []
        for s in range(runs + 1):
            yard.append(processor_yardstick())
            clock, start = time.perf_counter(), time.process_time()
            credex(game, s % INSTANCES, queries, s, posterior="gp", sampler="focused")
            own.append(time.process_time() - start)
            wall.append(time.perf_counter() - clock)
        own, wall = own[1:], wall[1:]  # the first run imports
        there = float(np.median(own) * YARDSTICK / np.median(yard))
        rows.append(
            [
                str(queries),
                f"{1e3 * min(own):.0f} / {1e3 * np.median(own):.0f} ms",
                f"{1e3 * min(wall):.0f} / {1e3 * np.median(wall):.0f} ms",
                f"{np.median(yard):.2f} s",
                f"{1e3 * there:.0f} ms",
                f"{1e3 * limit:.0f} ms",
                "met" if there <= limit else "NOT MET",
            ]
        )
    head = [
        "queries",
        "processor, least / median",
        "wall clock, least / median",
        "matrix product",
        f"median at {YARDSTICK} s",
        "limit there",
        "",
    ]
    return table(head, rows)


# Time to an error


def credex(game: Game, i: int, budget: int, seed: int, **options: object) -> np.ndarray:
    """BayesSHAP with its intervals."""
    values = game.tables[i]
    ex = cx.BayesSHAP(lambda z: values[index_of(z)], cx.Masks(game.d), **options)
    e = ex.explain(queries=budget, seed=seed)
    e.interval()
    return e.mean


def shap(game: Game, i: int, budget: int, seed: int) -> np.ndarray:
    """KernelExplainer without feature selection, which converges; its default does not."""
    return kernel_explainer(Counted(game.tables[i]), budget, seed, l1_reg=False)


METHODS: dict[str, Method] = {
    "linear": partial(credex, posterior="linear"),
    "gp, random pairs": partial(credex, posterior="gp", sampler="paired"),
    "gp, focused": partial(credex, posterior="gp", sampler="focused"),
    "shap.KernelExplainer": shap,
}


def needs(game: Game, method: str, targets: tuple[float, ...]) -> dict[float, tuple[int, float]]:
    """Queries and own seconds to each error: the first budget of the ladder that reaches it."""
    out: dict[float, tuple[int, float]] = {}
    most = 2**game.d if not method.startswith("gp") else min(MOST_GP, 2**game.d)
    for budget in LADDER:
        if budget < 2 * game.d + 6:
            continue
        if budget > most or len(out) == len(targets):
            break
        squares, seconds = [], []
        for i in range(INSTANCES):
            start = time.process_time()
            phi = METHODS[method](game, i, budget, 100 * i)
            seconds.append(time.process_time() - start)
            squares.append(np.mean((phi - game.phi[i]) ** 2))
        error = float(np.sqrt(np.mean(squares))) / game.scale
        for target in targets:
            if error <= target and target not in out:
                out[target] = (budget, float(np.median(seconds)))
    return out


def time_to_error(names: tuple[str, ...], targets: tuple[float, ...]) -> str:
    """Two tables: queries by game, and seconds by cost of a query."""
    found = {}
    by_game = []
    for name in names:
        game = load(name)
        for method in METHODS:
            found[name, method] = needs(game, method, targets)
        for t in targets:
            row = [name, str(game.d), f"{t:g}"]
            row += [entry(found[name, method].get(t)) for method in METHODS]
            by_game.append(row)
            print("  ".join(row), flush=True)
    head = ["game", "d", "error", *(f"{m}: queries (own ms)" for m in METHODS)]
    totals = []
    for t in targets:
        for cost in COSTS:
            seconds = {m: [total(found[n, m].get(t), cost) for n in names] for m in METHODS}
            middle = {m: float(np.median(s)) for m, s in seconds.items()}
            quickest = [min(METHODS, key=lambda m, g=g: seconds[m][g]) for g in range(len(names))]
            queries = [found[n, "gp, focused"].get(t, (MOST_GP, 0.0))[0] for n in names]
            choice = choose_posterior(16, float(np.median(queries)), cost).posterior
            totals.append(
                [
                    f"{t:g}",
                    f"{1e3 * cost:g} ms",
                    *(f"{middle[m]:.3g} s ({quickest.count(m)})" for m in METHODS),
                    choice,
                ]
            )
    foot = ["error", "a query", *(f"{m}: median (quickest on)" for m in METHODS), "auto"]
    return table(foot, totals) + "\n\n" + table(head, by_game)


def total(need: tuple[int, float] | None, cost: float) -> float:
    """Own seconds and those of the queries; infinite if the error was not reached."""
    return np.inf if need is None else need[1] + need[0] * cost


def entry(need: tuple[int, float] | None) -> str:
    """Format queries and own milliseconds."""
    return "not reached" if need is None else f"{need[0]:,} ({1e3 * need[1]:.0f})"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a little of each, printed only")
    quick = parser.parse_args().quick
    begin = time.perf_counter()
    before = yardstick()
    times = explanation_times(2 if quick else RUNS)
    print(times, flush=True)
    games = QUICK_GAMES if quick else tuple(REAL)
    targets = TARGETS[:1] if quick else TARGETS
    errors = time_to_error(QUICK_GAMES if quick else ACCURACY_GAMES, targets)
    races = []
    for name in games:
        game = load(name)
        for width in WIDTHS[1:2] if quick else WIDTHS:
            races.append(race(game, width, 2 if quick else INSTANCES))
            print("  ".join(races[-1].row()), flush=True)
    minutes = (time.perf_counter() - begin) / 60
    parts = [
        "## Seconds of an explanation",
        ABOUT_SECONDS.format(runs=2 if quick else RUNS),
        times,
        "## Time to an error",
        ABOUT_ERROR,
        errors,
        "## Time to a width: auto against the better of linear and gp",
        ABOUT_WIDTH.format(instances=2 if quick else INSTANCES),
        report(races),
        END.format(minutes=minutes, before=before, after=yardstick()),
    ]
    body = "\n\n".join(parts)
    title = "What the Gaussian process costs and saves"
    publish("cost", title, "make bench-cost", body, quick=quick)


if __name__ == "__main__":
    main()
