"""Interactions of pairs: error against shapiq, coverage. Run it with ``make bench-interactions``.

Real games whose coalitions are all known, and tables whose interactions over all background rows
were enumerated. Nothing in the estimator of interactions was chosen on them. ``--quick`` measures
two games and writes nothing.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
from joblib import Parallel, delayed

import credex as cx
from benchmarks.games import REAL, all_masks, load
from benchmarks.peers import Counted
from benchmarks.row_cases import build
from benchmarks.timing import publish, table
from credex.estimators.interactions import interaction_weights

BUDGETS = (100, 300, 1_000)
LEVELS = (0.5, 0.8, 0.95, 0.99)
INSTANCES, SEEDS = 3, 2
TABLES = ("wine10_mlp", "digits8_knn", "mixed_hgb", "cancer10_gb")
PEERS = ("KernelSHAPIQ", "InconsistentKernelSHAPIQ", "SVARMIQ", "SHAPIQ", "PermutationSamplingSII")

INTRODUCTION = (
    "Shapley interaction indices of all pairs, from the queries of `explain(queries=N)` with "
    "random pairs of coalitions. Errors are root mean squares over pairs, relative to that of the "
    f"exact indices; {INSTANCES} instances and {SEEDS} seeds each. The peer is shapiq {{version}}: "
    "its best approximator of each cell counts."
)


def exact(v: np.ndarray) -> np.ndarray:
    """Interaction indices ``(d, d)`` of a table ``(2^d,)``."""
    masks = all_masks(len(v).bit_length() - 1).astype(bool)
    out = np.zeros((masks.shape[1], masks.shape[1]))
    for part in (slice(s, s + 4_096) for s in range(0, len(masks), 4_096)):
        out += np.einsum("nij,n->ij", interaction_weights(masks[part]), v[part] - v[0])
    return out


def shapiq_pairs(name: str, game: Counted, budget: int, seed: int) -> np.ndarray:
    """Interaction indices ``(d, d)`` by one of shapiq's approximators."""
    import shapiq

    make, options = getattr(shapiq, name), {"max_order": 2, "index": "SII"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = make(n=game.d, random_state=seed, **options).approximate(budget, game)
    out = np.zeros((game.d, game.d))
    for i in range(game.d):
        for j in range(i + 1, game.d):
            out[i, j] = out[j, i] = found[(i, j)]
    return out


class Cell:
    """What was measured at one budget of one game."""

    def __init__(self) -> None:
        self.squares: dict[str, list[float]] = {}
        self.hits: list[np.ndarray] = []
        self.main: list[np.ndarray] = []
        self.seconds: list[float] = []

    def add(self, found: cx.Interactions, truth: np.ndarray, main: np.ndarray) -> None:
        """Count our own estimate."""
        pairs = np.triu_indices(len(truth), 1)
        inside, of_main = [], []
        for level in LEVELS:
            i = found.interval(level)
            inside.append(((2 * i.lower <= truth) & (truth <= 2 * i.upper))[pairs].mean())
            of_main.append(((np.diag(i.lower) <= main) & (main <= np.diag(i.upper))).mean())
        self.hits.append(np.array(inside))
        self.main.append(np.array(of_main))
        self.error("credex", 2 * found.values, truth)

    def error(self, who: str, found: np.ndarray, truth: np.ndarray) -> None:
        """Add a squared relative error."""
        pairs = np.triu_indices(len(truth), 1)
        off = (found - truth)[pairs]
        self.squares.setdefault(who, []).append(float((off**2).mean() / (truth[pairs] ** 2).mean()))

    def relative(self, who: str) -> float:
        """Root mean square error."""
        return float(np.sqrt(np.mean(self.squares[who])))


def measure_game(name: str, budgets: tuple[int, ...]) -> dict[tuple[str, int], Cell]:
    """All budgets of one game."""
    game, cells = load(name), {}
    budgets = tuple(b for b in budgets if b < 2**game.d)
    for budget in budgets:
        cells[name, budget] = cell = Cell()
        for v in game.tables[:INSTANCES]:
            truth = exact(v)
            phi = cx.BayesSHAP(Counted(v), cx.Masks(game.d))
            for seed in range(SEEDS):
                e = phi.explain(queries=budget, seed=seed, sampler="paired", posterior="linear")
                start = time.process_time()
                found = phi.interactions(e)
                cell.seconds.append(time.process_time() - start)
                shapley = game.phi[np.flatnonzero((game.tables == v).all(axis=1))[0]]
                cell.add(found, truth, shapley - 0.5 * truth.sum(axis=1))
                for peer in PEERS:
                    try:
                        got = shapiq_pairs(peer, Counted(v), budget, seed)
                    except (IndexError, ValueError, np.linalg.LinAlgError):
                        continue  # too few coalitions for it
                    cell.error(peer, got, truth)
    print(name, "done", flush=True)
    return cells


def measure_table(name: str, budgets: tuple[int, ...]) -> dict[tuple[str, int], Cell]:
    """All budgets of one table, with its whole background."""
    case, cells = build(name, INSTANCES), {}
    explainer = cx.BayesSHAP(case.predict, case.X)
    frame = hasattr(case.X, "iloc")
    for i in case.instances:
        x = case.X.iloc[i] if frame else case.X[i]
        reference = explainer.interactions(explainer.explain(x, posterior="exact"))
        main = np.diag(reference.values)
        for budget in budgets:
            cell = cells.setdefault((name, budget), Cell())
            for seed in range(SEEDS):
                e = explainer.explain(x, queries=budget, seed=seed)
                start = time.process_time()
                found = explainer.interactions(e)
                cell.seconds.append(time.process_time() - start)
                cell.add(found, 2 * reference.values, main)
    print(name, "done", flush=True)
    return cells


def errors(cells: dict[tuple[str, int], Cell]) -> str:
    """Errors of ours and of the best peer, game by game."""
    lines, ratios = [], {}
    for (name, budget), cell in cells.items():
        peers = {p: cell.relative(p) for p in PEERS if len(cell.squares.get(p, [])) > 0}
        best = min(peers, key=lambda p: peers[p])
        ratio = cell.relative("credex") / peers[best]
        ratios.setdefault(budget, []).append(ratio)
        lines.append(
            [
                *(name, f"{budget:,}", f"{cell.relative('credex'):.3f}"),
                *(f"{peers[best]:.3f}", best, f"{ratio:.2f}", f"{np.mean(cell.seconds):.2f}"),
            ]
        )
    summary = [
        f"N = {budget:,}: median {np.median(r):.2f}, largest {max(r):.2f}"
        for budget, r in ratios.items()
    ]
    head = ["game", "N", "credex", "shapiq", "its approximator", "ratio", "credex, s"]
    return f"Error of credex over that of shapiq: {'; '.join(summary)}.\n\n" + table(head, lines)


def coverage(cells: dict[tuple[str, int], Cell]) -> str:
    """Coverage pooled over games, by budget."""
    lines = []
    for budget in sorted({b for _, b in cells}):
        own = {n: c for (n, b), c in cells.items() if b == budget}
        for label, kind in (("pairs", "hits"), ("main effects", "main")):
            each = {n: np.mean(getattr(c, kind), axis=0) for n, c in own.items()}
            pooled = np.mean(list(each.values()), axis=0)
            worst = min(each, key=lambda n: each[n][2])
            shares = [f"{p:.3f}" for p in pooled]
            lines.append([f"{budget:,}", label, *shares, f"{each[worst][2]:.3f} ({worst})"])
    head = ["N", "of", *(f"{level:.0%}" for level in LEVELS), "worst at 95 %"]
    return table(head, lines)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two games, one table")
    quick = parser.parse_args().quick
    budgets = BUDGETS[:1] if quick else BUDGETS
    games = ("wine_svm", "iris8_rf") if quick else tuple(REAL)
    tables = TABLES[:1] if quick else TABLES

    def run(measure: Callable[..., dict[tuple[str, int], Cell]], names: tuple[str, ...]) -> dict:
        parts = Parallel(n_jobs=2)(delayed(measure)(n, budgets) for n in names)
        return {key: cell for part in parts for key, cell in part.items()}

    of_games, of_tables = run(measure_game, games), run(measure_table, tables)
    body = (
        INTRODUCTION.format(version=version("shapiq"))
        + "\n\n## Games\n\n"
        + errors(of_games)
        + "\n\n"
        + coverage(of_games)
        + "\n\n## Tables, over all background rows\n\n"
        + coverage(of_tables)
    )
    title = "Interactions: error and coverage"
    publish("interactions", title, "make bench-interactions", body, quick=quick)


if __name__ == "__main__":
    main()
