"""Runs that stop at a width, on games that make an estimator sure of what it has not seen.

A run is sure and wrong if it says that it converged and a value is more than three widths off.
Eleven kinds of games of ten players, another game in every run: conjunctions that few coalitions
show, votes, exponentials, rules, saturated probabilities, thresholds, extremes; and a rare value
of a table (BayesLIME). ``python -m benchmarks.sure_and_wrong`` takes 45 minutes on one core;
``--quick`` makes a few runs and writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from tqdm import tqdm

import credex as cx
from benchmarks.games import all_masks, exact_shapley, index_of
from benchmarks.reliability import SETTINGS, arguments
from benchmarks.timing import publish, table

D = 10
RUNS = 91
"""Of each kind, setting and width: more than 10,000 in all."""

WIDTHS = (1.0, 0.3)
"""Asked for, in units of mean |φ|."""

CEILING = 900
WRONG = 3.0
FIRST_SEED = 7_000_000

Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def conjunction(size: int) -> Draw:
    """Additive, and twice as much again where ``size`` features have one pattern."""

    def draw(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
        chosen, pattern = rng.choice(Z.shape[1], size, replace=False), rng.random(size) < 0.5
        hit = np.all(Z[:, chosen] == pattern, axis=1)
        return np.asarray(Z @ rng.normal(size=Z.shape[1]) + 2.0 * hit)

    return draw


def votes(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """Weighted votes, and an additive part of 1e-5."""
    w = rng.exponential(size=Z.shape[1])
    label = Z @ w > rng.uniform(0.3, 0.7) * w.sum()
    return label + 1e-5 * (Z @ rng.normal(size=Z.shape[1]))


def exponential(sd: float) -> Draw:
    """Exponential of a sum of this standard deviation over coalitions."""

    def draw(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
        w = rng.normal(size=Z.shape[1])
        return np.exp(Z @ (2 * sd * w / np.linalg.norm(w)))

    return draw


def rules(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """A list of rules: the first of six conjunctions of two to four players decides."""
    v = np.full(len(Z), rng.normal())
    for k in rng.integers(2, 5, size=6):
        chosen = rng.choice(Z.shape[1], k, replace=False)
        v[np.all(Z[:, chosen] == (rng.random(k) < 0.6), axis=1)] = rng.normal()
    return v


def saturated(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """A steep sigmoid of a sum, as naive Bayes gives."""
    w = rng.normal(size=Z.shape[1])
    return np.asarray(1 / (1 + np.exp(-8 * (Z @ w - rng.normal()))))


def threshold(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """1 if more than a number of players are present."""
    return 1.0 * (Z.sum(axis=1) > rng.integers(3, 8))


def extreme(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """The largest cost present."""
    return np.asarray((Z * rng.exponential(size=Z.shape[1])).max(axis=1))


def size_and_rule(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """More than half are present, and a conjunction of six."""
    chosen = rng.choice(Z.shape[1], 6, replace=False)
    return 1.0 * (Z.sum(axis=1) > Z.shape[1] / 2) + 2.0 * np.all(Z[:, chosen], axis=1)


GAMES: dict[str, Draw] = {
    "conjunction of 4": conjunction(4),
    "conjunction of 5": conjunction(5),
    "conjunction of 6": conjunction(6),
    "votes": votes,
    "exponential, 0.9": exponential(0.9),
    "exponential, 1.2": exponential(1.2),
    "rules": rules,
    "saturated": saturated,
    "threshold": threshold,
    "extreme": extreme,
    "size and a rule": size_and_rule,
}
RARE = "rare value (BayesLIME)"
QUICK = ("conjunction of 5", "rules")


def explained(name: str, setting: tuple[str, str], seed: int, width: float) -> tuple[Any, Any]:
    """One run to a width on a game of its own, and the true values."""
    rng = np.random.default_rng(seed)
    v = GAMES[name](rng, 1.0 * all_masks(D))
    phi = exact_shapley(v)
    shap = cx.BayesSHAP(
        lambda z: v[index_of(z)], cx.Masks(D), posterior=setting[0], sampler=setting[1]
    )
    wanted = max(width * float(np.abs(phi).mean()), 1e-9)
    return shap.explain(width=wanted, max_queries=CEILING, seed=seed), phi


def rare(seed: int, width: float) -> tuple[Any, Any]:
    """BayesLIME where a value of one row in two hundred decides: the effect is 1."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(1000, 4)), rng.permutation(1000) < 5])
    x = np.append(rng.normal(size=4), 1.0)
    lime = cx.BayesLIME(lambda A: 1.0 * (A[:, 4] > 0.5), X)
    return lime.explain(x, width=0.2 * width, seed=seed), np.array([np.nan] * 4 + [1.0])


def measure(name: str, setting: tuple[str, str], runs: int) -> list[Any]:
    """Runs of one setting on one kind of game: how many, converged, hits, sure and wrong, worst."""
    converged, wrong, inside, worst = 0, 0, [], 0.0
    for width, run in product(WIDTHS, range(runs)):
        seed = FIRST_SEED + 1000 * len(name) + run
        e, phi = rare(seed, width) if name == RARE else explained(name, setting, seed, width)
        interval, known = e.interval(), np.isfinite(phi)
        inside.append(interval.covers(phi)[known].mean())
        if e.converged and e.stop_reason != "exact":
            converged += 1
            scale = np.nanmean(np.abs(phi))
            off = np.abs(e.mean - phi)[known] / np.maximum(interval.width[known], 1e-9 * scale)
            worst = max(worst, float(off.max()))
            wrong += bool((off > WRONG).any())
    return [name, *setting, len(inside), converged, float(np.mean(inside)), worst, wrong]


def main() -> None:
    """Measure, print, write."""
    given = arguments(__doc__)
    start = time.perf_counter()
    runs = 3 if given.quick else RUNS
    names = QUICK if given.quick else tuple(GAMES)
    todo = [(name, setting, runs) for name in names for setting in SETTINGS]
    todo.append((RARE, ("linear", "lime's"), runs))
    done = Parallel(n_jobs=given.jobs, return_as="generator")(delayed(measure)(*w) for w in todo)
    cells = list(tqdm(done, total=len(todo), disable=None, unit="cell"))
    rows = [
        [name, posterior, sampler, str(n), str(converged), f"{hits:.3f}", f"{worst:.2f}", str(bad)]
        for name, posterior, sampler, n, converged, hits, worst, bad in cells
    ]
    head = ["kind", "posterior", "sampler", "runs", "converged", "coverage of 95 %"]
    body = table([*head, "farthest, in widths", "sure and wrong"], rows)
    total, converged, wrong = (sum(cell[i] for cell in cells) for i in (3, 4, 7))
    body += (
        f"\n\n{total:,} runs to widths of {WIDTHS[0]:g} and {WIDTHS[1]:g} mean |φ|, at most "
        f"{CEILING} of the 1,024 queries that a game has, another game in every run; "
        f"{converged:,} converged (those that became exact left out), and {wrong} of these were "
        f"sure and wrong: a value more than {WRONG:g} widths off (required: none). Of the table "
        f"only the rare value counts.\n\n{(time.perf_counter() - start) / 60:.0f} minutes."
    )
    title = "Runs that stop sure and wrong"
    publish("sure_and_wrong", title, "python -m benchmarks.sure_and_wrong", body, quick=given.quick)


if __name__ == "__main__":
    main()
