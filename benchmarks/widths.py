"""Time to a width: what ``posterior="auto"`` takes against the best choice in hindsight.

The cost of a query is added, not slept: total = own processor time + queries × cost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

import credex as cx
from benchmarks.games import Game, index_of
from benchmarks.timing import table

COSTS = (1e-5, 1e-3, 1e-2, 1e-1)
"""Seconds a query."""

WIDTHS = (0.5, 0.2, 0.1)
"""Requested widths, relative to the largest importance of the instance."""

REPEATS = 2
LIMIT = 1.25
"""Required: auto's time over that of the better posterior, on every cell."""

Outcome = tuple[int, float, bool]
"""Queries, own seconds, and whether the width was reached."""


@dataclass
class Race:
    """One game and one width: outcomes of each way, instance by instance."""

    game: str
    d: int
    width: float
    runs: dict[str, list[Outcome]] = field(default_factory=dict)
    chosen: dict[float, str] = field(default_factory=dict)
    hits: list[bool] = field(default_factory=list)

    def total(self, way: str, cost: float) -> float:
        """Mean seconds over instances; infinite if one of them was not reached."""
        runs = self.runs[way]
        if not all(reached for _, _, reached in runs):
            return np.inf
        return float(np.mean([own + n * cost for n, own, _ in runs]))

    def best(self, cost: float) -> float:
        """The better of the two posteriors, known only afterwards."""
        return min(self.total("linear", cost), self.total("gp", cost))

    def ratio(self, cost: float) -> float:
        """Auto's time over the best; 1 if the width was out of reach for all."""
        auto, best = self.total(auto_at(cost), cost), self.best(cost)
        return 1.0 if np.isinf(auto) and np.isinf(best) else auto / best

    def row(self) -> list[str]:
        """Cells of the printed table."""
        cells = [
            self.game,
            str(self.d),
            f"{self.width:g}",
            self._needs("linear"),
            self._needs("gp"),
        ]
        for cost in COSTS:
            cells += [f"{self.ratio(cost):.2f}", self.chosen[cost]]
        return cells

    def _needs(self, way: str) -> str:
        n = np.mean([n for n, _, _ in self.runs[way]])
        missed = sum(not reached for _, _, reached in self.runs[way])
        return f"{n:.0f}" + (f" ({missed} not reached)" if missed else "")


HEAD = ["game", "d", "width", "queries, linear", "queries, gp"]
for _c in COSTS:
    HEAD += [f"{1e3 * _c:g} ms: auto ÷ best", "took"]


def auto_at(cost: float) -> str:
    """Name of auto told this cost."""
    return f"auto at {1e3 * cost:g} ms"


def run(game: Game, i: int, width: float, seed: int, **options: object) -> cx.Explanation:
    """One explanation; a new explainer, so that nothing is remembered from the last one."""
    values = game.tables[i]
    ex = cx.BayesSHAP(lambda z: values[index_of(z)], cx.Masks(game.d), **options)
    return ex.explain(width=width, seed=seed)


def race(game: Game, width: float, instances: int) -> Race:
    """Let linear, gp and auto at each cost run to the same widths.

    Where auto's run is one of the other two to the last bit, the fastest of all its repeats counts
    for both: on a busy machine milliseconds differ by chance.
    """
    out = Race(game.name, game.d, width)
    ways = {"linear": {"posterior": "linear"}, "gp": {"posterior": "gp"}}
    ways |= {auto_at(c): {"query_seconds": c} for c in COSTS}
    letters: dict[float, str] = dict.fromkeys(COSTS, "")
    for i in range(instances):
        wanted = width * float(np.abs(game.phi[i]).max())
        found: dict[str, cx.Explanation] = {}
        seconds: dict[str, float] = {}
        for _ in range(REPEATS):
            for way, options in ways.items():
                start = time.process_time()
                found[way] = run(game, i, wanted, i, **options)
                took = time.process_time() - start
                seconds[way] = min(seconds.get(way, np.inf), took)
        for cost in COSTS:
            way = auto_at(cost)
            for other in ("linear", "gp"):
                if np.array_equal(found[way].mean, found[other].mean):
                    seconds[way] = seconds[other] = min(seconds[way], seconds[other])
            letters[cost] += found[way].posterior[0]
            interval = found[way].interval()
            counted = interval.width > 0
            out.hits += interval.covers(game.phi[i])[counted].tolist()
        for way, e in found.items():
            out.runs.setdefault(way, []).append((e.n_queries, seconds[way], e.converged))
    out.chosen = letters
    return out


def report(races: list[Race]) -> str:
    """Table, worst cells and the verdict."""
    ratios = np.array([[r.ratio(c) for c in COSTS] for r in races])
    lines = []
    for j, cost in enumerate(COSTS):
        worst = races[int(np.argmax(ratios[:, j]))]
        lines.append(
            f"- {1e3 * cost:g} ms a query: median {np.median(ratios[:, j]):.2f}, worst "
            f"{ratios[:, j].max():.2f} ({worst.game}, width {worst.width:g}), "
            f"{np.mean(ratios[:, j] <= LIMIT):.0%} of {len(races)} cells within {LIMIT}"
        )
    over = int(np.sum(ratios > LIMIT))
    met = "met" if not over else f"NOT MET in {over} of {ratios.size} cells"
    lines.append(f"- at most {LIMIT} times the best on every cell: {met}")
    hits = [h for r in races for h in r.hits]
    lines.append(f"- auto's 95 % intervals held {np.mean(hits):.3f} of {len(hits):,} exact values")
    return table(HEAD, [r.row() for r in races]) + "\n\n" + "\n".join(lines)
