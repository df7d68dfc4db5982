"""Coverage where the model answers differently every time. Part of ``make bench-lime``.

Values of real games, each answer multiplied by 1 + u, u uniform within ±5 %, drawn anew for every
answer. The truth is that of the game without noise, by enumeration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import credex as cx
from benchmarks.games import INSTANCES, Game, index_of

NOISE = 0.05
SEEDS = 5
BUDGETS = (100, 300)
GAMES = (
    "cancer_gb",
    "digits_mlp",
    "wine_svm",
    "diabetes_gbr",
    "friedman_svr",
    "madelon_hgb",
    "cancer_et",
    "iris8_rf",
)
WAYS: dict[str, tuple[type[cx.BayesLIME | cx.BayesSHAP], dict[str, str]]] = {
    "BayesSHAP linear": (cx.BayesSHAP, {"posterior": "linear"}),
    "BayesSHAP gp, random pairs": (cx.BayesSHAP, {"posterior": "gp", "sampler": "paired"}),
    "BayesSHAP gp, focused": (cx.BayesSHAP, {"posterior": "gp", "sampler": "focused"}),
    "BayesLIME linear": (cx.BayesLIME, {"posterior": "linear"}),
    "BayesLIME gp": (cx.BayesLIME, {"posterior": "gp"}),
}


class Noisy:
    """A value function that reads a table ``(2^d,)`` and adds noise of its own generator."""

    def __init__(self, values: np.ndarray, seed: int) -> None:
        self.values, self.rng = values, np.random.default_rng([seed, 5])

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        """Values of masks ``Z (n, d)``, different every time."""
        y = self.values[index_of(Z)]
        return y * (1 + self.rng.uniform(-NOISE, NOISE, len(y)))


@dataclass
class Hits:
    """Shares of true values inside the intervals, run by run, and the instance of each run."""

    shares: list[float] = field(default_factory=list)
    clusters: list[tuple[str, int]] = field(default_factory=list)
    zero: int = 0
    """Intervals of no width at all."""

    def add(self, e: cx.Explanation, truth: np.ndarray, cluster: tuple[str, int]) -> None:
        """Count one explanation; widths of zero are counted apart."""
        interval = e.interval()
        counted = interval.width > 0
        self.zero += int(np.sum(~counted))
        if counted.any():
            self.shares.append(float(interval.covers(truth)[counted].mean()))
            self.clusters.append(cluster)

    def merge(self, other: Hits) -> None:
        """Take those of another cell in."""
        self.shares += other.shares
        self.clusters += other.clusters
        self.zero += other.zero

    @property
    def share(self) -> float:
        """Coverage."""
        return float(np.mean(self.shares))

    @property
    def error(self) -> float:
        """Half of its 95 % interval, runs of the same instance being one cluster."""
        means: dict[tuple[str, int], list[float]] = {}
        for c, s in zip(self.clusters, self.shares, strict=True):
            means.setdefault(c, []).append(s)
        each = np.array([np.mean(s) for s in means.values()])
        if len(each) < 2:
            return float("nan")
        return float(1.96 * each.std(ddof=1) / np.sqrt(len(each)))

    def within(self, low: float, high: float) -> bool:
        """Whether its 95 % interval touches the band."""
        return self.share + self.error >= low and self.share - self.error <= high

    def __str__(self) -> str:
        return f"{self.share:.3f} ± {self.error:.3f}"


def cell(game: Game, targets: np.ndarray, way: str, budget: int, seeds: int) -> Hits:
    """One way on one game with noise; ``targets (n, d)`` are the surrogate's coefficients."""
    method, options = WAYS[way]
    truth = targets if method is cx.BayesLIME else game.phi
    out = Hits()
    for i in range(INSTANCES):
        for s in range(seeds):
            seed = 1000 * (i + 1) + s
            v = Noisy(game.tables[i], seed)
            ex = method(v, cx.Masks(game.d), noisy=True, **options)
            out.add(ex.explain(queries=budget, seed=seed), truth[i], (game.name, i))
    return out
