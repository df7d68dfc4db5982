"""Error to exact Shapley values at the same number of queries. Run it with ``make bench-queries``.

BayesSHAP with the Gaussian process against seven estimators of shap and shapiq on the games of
`benchmarks.games`, all in one run. ``--quick`` measures a few cells and writes nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from joblib import Parallel, delayed
from tqdm import tqdm

import credex as cx
from benchmarks.games import INSTANCES, REAL, SYNTHETIC, Game, load
from benchmarks.peers import PEERS, Counted
from benchmarks.timing import publish, table, yardstick

LARGEST = 1000
SEEDS = 5

QUICK_GAMES = ("digits_rf", "wine_knn", "diabetes_gbr", "ands14")
TIE = 1e-6
"""An RMSE below this share of mean |φ| is zero."""

MEDIAN, WORST, FOCUSED = 3.0, 0.95, 4 / 3
"""Required: the median over all cells, every cell, and random pairs ÷ focused."""


@dataclass
class Runs:
    """What the explanations of one cell came to."""

    squares: list[float] = field(default_factory=list)
    hits: list[bool] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def rmse(self) -> float:
        """Pooled over instances, seeds and features; infinite if an answer is not a number."""
        return float(np.nan_to_num(np.sqrt(np.mean(self.squares)), nan=np.inf))

    def add(self, estimate: np.ndarray, truth: np.ndarray) -> None:
        """Count the error of one explanation."""
        self.squares.append(float(np.mean((estimate - truth) ** 2)))


@dataclass(frozen=True)
class Cell:
    """A game at a budget; every RMSE is relative to mean |φ|."""

    game: str
    d: int
    budget: int
    ours: float
    pairs: float
    peers: dict[str, float]
    hits: list[bool]
    pairs_hits: list[bool]
    seconds: float

    @property
    def best(self) -> str:
        """The peer with the smallest error."""
        return min(self.peers, key=self.peers.__getitem__)

    def tied(self, other: float) -> bool:
        """Whether ours and the other are both zero."""
        return max(self.ours, other) < TIE

    def ratio(self, other: float) -> float:
        """The other's RMSE over ours: 1 if both are zero, a lower bound if only ours is."""
        return 1.0 if self.tied(other) else other / max(self.ours, TIE)

    @property
    def against_best(self) -> float:
        """Best peer ÷ ours."""
        return self.ratio(self.peers[self.best])

    @property
    def against_kernel(self) -> float:
        """KernelExplainer ÷ ours."""
        return self.ratio(self.peers["KernelExplainer"])

    @property
    def against_pairs(self) -> float:
        """Random pairs ÷ focused, both with the Gaussian process."""
        return self.ratio(self.pairs)

    def row(self) -> list[str]:
        """Cells of the printed table."""
        return [
            self.game,
            str(self.d),
            str(self.budget),
            error(self.ours),
            self.best,
            error(self.peers[self.best]),
            *(
                "tie" if self.tied(other) else number(self.ratio(other))
                for other in (self.peers[self.best], self.peers["KernelExplainer"], self.pairs)
            ),
            share(self.hits),
            f"{1e3 * self.seconds:.0f}",
        ]


HEAD = [
    "game",
    "d",
    "budget",
    "ours",
    "best peer",
    "its RMSE",
    "best peer ÷ ours",
    "KernelExplainer ÷ ours",
    "random pairs ÷ focused",
    "coverage of 95 %",
    "ms",
]


def error(x: float) -> str:
    """Format a relative RMSE."""
    return f"{x:.4f}" if x >= 1e-4 else f"{x:.0e}"


def number(x: float) -> str:
    """Format a ratio; beyond 1000 the digits mean nothing."""
    return f"{x:.2f}" if x < 1000 else "> 1000"


def share(hits: list[bool]) -> str:
    """Format a coverage; a dash if every width was zero."""
    return f"{np.mean(hits):.3f}" if hits else "–"


def budgets(d: int, *, quick: bool) -> list[int]:
    """Return budgets below 2^d, smallest first."""
    wanted = {8 * d, 256} if quick else {4 * d, 8 * d, 256, LARGEST}
    return sorted(b for b in wanted if b < 2**d)


def draws(*, quick: bool) -> Iterator[tuple[int, int]]:
    """Instances and seeds of a cell; no two runs share a seed."""
    instances, seeds = (2, 1) if quick else (INSTANCES, SEEDS)
    for i in range(instances):
        for s in range(seeds):
            yield i, 1000 * (i + 1) + s


def explain(game: Game, i: int, runs: Runs, *, budget: int, seed: int, sampler: str) -> None:
    """One explanation of ours: error, coverage, time."""
    v = Counted(game.tables[i])
    start = time.perf_counter()
    ex = cx.BayesSHAP(v, cx.Masks(game.d), posterior="gp", sampler=sampler)
    e = ex.explain(queries=budget, seed=seed)
    interval = e.interval()
    runs.seconds.append(time.perf_counter() - start)
    assert v.asked <= budget, f"ours asked {v.asked} of {budget}"
    runs.add(e.mean, game.phi[i])
    counted = interval.width > 0
    runs.hits.extend(interval.covers(game.phi[i])[counted].tolist())


def measure(name: str, budget: int, *, quick: bool) -> tuple[Cell, dict[str, int]]:
    """One cell, and by how much a peer asked more than it may."""
    game = load(name)
    over: dict[str, int] = {}
    focused, pairs = Runs(), Runs()
    peers = {peer: [Runs() for _ in settings] for peer, settings in PEERS.items()}
    for i, seed in draws(quick=quick):
        explain(game, i, focused, budget=budget, seed=seed, sampler="auto")
        explain(game, i, pairs, budget=budget, seed=seed, sampler="paired")
        for peer, settings in PEERS.items():
            for estimate, runs in zip(settings, peers[peer], strict=True):
                v = Counted(game.tables[i])
                runs.add(estimate(v, budget, seed), game.phi[i])
                if v.asked > budget:
                    over[peer] = max(over.get(peer, 0), v.asked - budget)
    cell = Cell(
        game.name,
        game.d,
        budget,
        focused.rmse / game.scale,
        pairs.rmse / game.scale,
        {name: min(r.rmse for r in runs) / game.scale for name, runs in peers.items()},
        focused.hits,
        pairs.hits,
        float(np.median(focused.seconds)),
    )
    return cell, over


def check_exact(game: Game) -> None:
    """With a budget for all coalitions ours must be exact, so that leaving the cell out is fair."""
    runs = Runs()
    for i in range(len(game.phi)):
        explain(game, i, runs, budget=2**game.d, seed=i, sampler="auto")
    assert runs.rmse < TIE * game.scale, f"{game.name}: {runs.rmse} with all coalitions known"


def summary(cells: list[Cell]) -> str:
    """Medians and minima, real and synthetic apart."""
    rows = []
    for label, names in (
        ("real", set(REAL)),
        ("synthetic", set(SYNTHETIC)),
        ("all", {*REAL, *SYNTHETIC}),
    ):
        group = [c for c in cells if c.game in names]
        if not group:
            continue
        row = [label, str(len(group))]
        for ratio in (
            lambda c: c.against_best,
            lambda c: c.against_kernel,
            lambda c: c.against_pairs,
        ):
            row += [number(float(np.median([ratio(c) for c in group]))), worst(group, ratio)]
        row.append(share([h for c in group for h in c.hits]))
        row.append(share([h for c in group for h in c.pairs_hits]))
        rows.append(row)
    head = ["games", "cells"]
    for what in ("best peer ÷ ours", "KernelExplainer ÷ ours", "random pairs ÷ focused"):
        head += [f"{what}: median", "least"]
    return table([*head, "coverage, focused", "coverage, random pairs"], rows)


def worst(cells: list[Cell], ratio: Callable[[Cell], float]) -> str:
    """Name the smallest ratio and where it was."""
    cell = min(cells, key=ratio)
    return f"{number(ratio(cell))} ({cell.game}, {cell.budget})"


def verdicts(cells: list[Cell]) -> str:
    """What is required and what was measured."""
    real = [c for c in cells if c.game in REAL]
    synthetic = [c for c in cells if c.game in SYNTHETIC]
    figures = (
        (
            "best peer ÷ ours, median of all cells",
            np.median([c.against_best for c in cells]),
            MEDIAN,
        ),
        ("best peer ÷ ours, least on a real game", min(c.against_best for c in real), WORST),
        (
            "KernelExplainer ÷ ours, least on a synthetic game",
            min(c.against_kernel for c in synthetic),
            WORST,
        ),
        ("random pairs ÷ focused, median", np.median([c.against_pairs for c in cells]), FOCUSED),
    )
    return "\n".join(
        f"- {what}: {number(float(x))}, required {limit:.2f}: {'met' if x >= limit else 'NOT MET'}"
        for what, x, limit in figures
    )


def notes(over: dict[str, int], matmul: tuple[float, float], minutes: float, *, quick: bool) -> str:
    """How the figures were made."""
    spent = "; ".join(f"{name} by {n}" for name, n in over.items())
    if quick:
        runs = "2 instances × 1 seed (too few for a verdict)"
    else:
        runs = f"{INSTANCES} instances × {SEEDS} seeds"
    return (
        f"RMSE to exact Shapley values, divided by mean |φ| of the game, pooled over {runs}. A "
        "budget counts every coalition asked, the empty and the full one and repeats included. "
        + (f"History more than the budget: {spent}. " if spent else "No peer asked for more. ")
        + "KernelExplainer is the better of its default and `l1_reg=False`, cell by cell. Budgets "
        "of 2^d and more are left out (ours is exact there); a tie is both below "
        f"{TIE:.0e}, and counts as 1 in medians; if only ours is below, the ratio is a "
        "lower bound. Coverage leaves out widths of zero. "
        "Time is the median of an explanation with the focused sampler, one thread, on a machine "
        f"that multiplies two 2000×2000 matrices in {matmul[0]:.2f} s before and {matmul[1]:.2f} s "
        f"after the run, which took {minutes:.1f} min."
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few cells, printed only")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    given = parser.parse_args()
    quick = given.quick
    start = time.perf_counter()
    before = yardstick()
    games = [load(name) for name in (QUICK_GAMES if quick else (*REAL, *SYNTHETIC))]
    for game in games:
        if 2**game.d <= LARGEST:
            check_exact(game)
    todo = [(game.name, b) for game in games for b in budgets(game.d, quick=quick)]
    run = Parallel(n_jobs=given.jobs, return_as="generator")
    done = run(delayed(measure)(name, b, quick=quick) for name, b in todo)
    cells: list[Cell] = []
    over: dict[str, int] = {}
    with tqdm(done, total=len(todo), disable=None, unit="cell") as bar:  # silent without a terminal
        for cell, more in bar:
            cells.append(cell)
            over = {name: max(over.get(name, 0), more.get(name, 0)) for name in {*over, *more}}
            bar.write("  ".join(cell.row()))
    minutes = (time.perf_counter() - start) / 60
    parts = [table(HEAD, [c.row() for c in cells]), summary(cells)]
    if not quick:  # a few runs decide nothing
        parts.append(verdicts(cells))
    parts.append(notes(over, (before, yardstick()), minutes, quick=quick))
    body = "\n\n".join(parts)
    title = "Error at the same number of queries"
    publish("queries", title, "make bench-queries", body, quick=quick)


if __name__ == "__main__":
    main()
