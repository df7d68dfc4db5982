"""Coverage on games of other kinds: other models, other data, labels, votes.

Constants of the intervals were chosen on the games of `benchmarks.games`, and a few on games of the
kinds below with eleven players. Here they have ten, and models, instances and seeds are others.
Part of ``make bench-coverage``; ``--quick`` measures three kinds and writes nothing.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn import datasets
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from tqdm import tqdm

from benchmarks.games import Game, all_masks, columns, enumerate_game, exact_shapley, scaled
from benchmarks.reliability import BAND, HEAD, LEAST, SETTINGS, arguments, by_game, measure, rows_of
from benchmarks.timing import publish, table

D = 10
INSTANCES, SEEDS = 8, 3
BACKGROUND = 4
FIRST_SEED = 900_000
QUICK = ("votes", "sigmoid", "boosting, labels")

Table = np.ndarray
Draw = Callable[[np.random.Generator, np.ndarray], Table]
"""Makes the values ``(2^d,)`` of all coalitions ``(2^d, d)``."""


def votes(rng: np.random.Generator, Z: np.ndarray) -> Table:
    """1 with more than half of the weight; few players have most of it."""
    w = rng.pareto(1.5, D) + 0.2
    return (w.sum() / 2 < Z @ w).astype(float)


def gloves(rng: np.random.Generator, Z: np.ndarray) -> Table:
    """Pairs of a left and a right glove."""
    left = rng.integers(0, 2, D).astype(bool)
    return np.minimum((Z & left).sum(1), (Z & ~left).sum(1)).astype(float)


def parity(rng: np.random.Generator, Z: np.ndarray) -> Table:
    """Product of the signs of five players."""
    return (2.0 * Z[:, rng.choice(D, 5, replace=False)] - 1).prod(axis=1)


def formula(rng: np.random.Generator, Z: np.ndarray) -> Table:
    """1 if one of four conjunctions of two or three players holds."""
    terms = [rng.choice(D, rng.integers(2, 4), replace=False) for _ in range(4)]
    return np.any([Z[:, t].all(axis=1) for t in terms], axis=0).astype(float)


def largest(rng: np.random.Generator, Z: np.ndarray) -> Table:
    """The largest of the numbers present."""
    return np.where(Z, rng.exponential(size=D), 0.0).max(axis=1)


def sigmoid(rng: np.random.Generator, Z: np.ndarray) -> Table:
    """A logistic model."""
    w = 1.5 * rng.normal(size=D)
    return 1 / (1 + np.exp(-(Z @ w - w.sum() / 2 + rng.normal())))


def steep(rng: np.random.Generator, Z: np.ndarray) -> Table:
    """A logistic model that is nearly always sure."""
    w = 6 * rng.normal(size=D)
    return 1 / (1 + np.exp(-(Z @ w - w.sum() / 2 + rng.normal())))


def stairs(rng: np.random.Generator, Z: np.ndarray) -> Table:
    """A sum, rounded down to thirds."""
    return np.floor(3 * (Z @ rng.normal(size=D))) / 3


def waves(rng: np.random.Generator, Z: np.ndarray) -> Table:
    """Cosines in forty directions."""
    return np.cos(Z @ (0.4 * rng.normal(size=(D, 40))) + rng.uniform(0, 6.3, 40)) @ rng.normal(
        size=40
    )


def rough(rng: np.random.Generator, Z: np.ndarray) -> Table:
    """Sines, and a little that no mask tells about another."""
    smooth = np.sin(Z @ rng.normal(size=(D, 30)) / 2 + rng.normal(size=30)) @ rng.normal(size=30)
    return smooth / 5 + 0.1 * rng.normal(size=len(Z))


def products(rng: np.random.Generator, Z: np.ndarray) -> Table:
    """A product of factors."""
    return np.where(Z, rng.uniform(0.5, 1.6, D), 1.0).prod(axis=1)


SYNTHETIC: dict[str, Draw] = {
    "votes": votes,
    "gloves": gloves,
    "parity of five": parity,
    "formula": formula,
    "largest": largest,
    "sigmoid": sigmoid,
    "steep sigmoid": steep,
    "stairs": stairs,
    "waves": waves,
    "rough": rough,
    "products": products,
}


def made(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of ten columns, six of which tell something."""
    return datasets.make_classification(700, D, n_informative=6, flip_y=0.1, random_state=seed)  # type: ignore[return-value]


def cancer() -> tuple[np.ndarray, np.ndarray]:
    """Ten columns of the breast-cancer data."""
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return X[:, 20:30], y


def threes() -> tuple[np.ndarray, np.ndarray]:
    """Ten pixels of the digits, threes against the rest."""
    X, y = datasets.load_digits(return_X_y=True)
    return X[:, 26:36], (y == 3).astype(int)


def numbers() -> tuple[np.ndarray, np.ndarray]:
    """A regression."""
    return datasets.make_regression(600, D, n_informative=7, noise=5, random_state=4)  # type: ignore[return-value]


REAL: dict[str, tuple[tuple[np.ndarray, np.ndarray], Any, str]] = {
    "boosting, labels": (made(1), GradientBoostingClassifier(random_state=4), "predict"),
    "network, labels": (
        made(2),
        scaled(MLPClassifier((40,), max_iter=800, random_state=4)),
        "predict",
    ),
    "logistic, labels": (cancer(), scaled(LogisticRegression()), "predict"),
    "tree, labels": (made(3), DecisionTreeClassifier(max_depth=6, random_state=4), "predict"),
    "tree": (cancer(), DecisionTreeClassifier(max_depth=6, random_state=4), "predict_proba"),
    "3 neighbours": (made(4), KNeighborsClassifier(3), "predict_proba"),
    "boosting": (cancer(), GradientBoostingClassifier(random_state=4), "predict_proba"),
    "AdaBoost": (made(5), AdaBoostClassifier(random_state=4), "predict_proba"),
    "histogram boosting": (made(6), HistGradientBoostingClassifier(max_iter=60), "predict_proba"),
    "forest": (threes(), RandomForestClassifier(50, random_state=4), "predict_proba"),
    "forest, numbers": (numbers(), RandomForestRegressor(50, random_state=4), "predict"),
    "network": (
        threes(),
        scaled(MLPClassifier((40,), max_iter=800, random_state=4)),
        "predict_proba",
    ),
    "naive Bayes": (made(7), GaussianNB(), "predict_proba"),
    "SVM, margin": (made(8), scaled(SVC(gamma=0.3)), "decision_function"),
}


def load(name: str) -> Game:
    """Build a game: tables of its instances and their exact Shapley values."""
    rng = np.random.default_rng(sum(map(ord, name)))
    if name in SYNTHETIC:
        tables = [SYNTHETIC[name](rng, all_masks(D)) for _ in range(INSTANCES)]
    else:
        (X, y), model, answer = REAL[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a network that could be trained longer will do
            model.fit(X, y)
        f = getattr(model, answer)
        one = (lambda R: f(R)[:, 1]) if answer == "predict_proba" else (lambda R: 1.0 * f(R))
        background = X[rng.choice(len(X), BACKGROUND, replace=False)]
        tables = []
        for i in rng.permutation(len(X)):
            v = enumerate_game(one, X[i], background, columns(D))
            if np.ptp(v) > 0:  # a label that no feature changes has nothing to explain
                tables.append(v)
            if len(tables) == INSTANCES:
                break
    return Game(name, np.array(tables), np.array([exact_shapley(v) for v in tables]))


def main() -> None:
    """Measure, print, write."""
    given = arguments(__doc__)
    start = time.perf_counter()
    seeds = 1 if given.quick else SEEDS
    games = [load(n) for n in (QUICK if given.quick else (*SYNTHETIC, *REAL))]
    work = [
        delayed(measure)(game, posterior, sampler, stopped, seeds, first=FIRST_SEED + 50_000 * k)
        for k, game in enumerate(games)
        for posterior, sampler in SETTINGS
        for stopped in ("budget", "width")
    ]
    done = Parallel(n_jobs=given.jobs, return_as="generator")(work)
    cells = list(tqdm(done, total=len(work), disable=None, unit="cell"))
    body = table(HEAD, rows_of(cells))
    body += f"\n\n{len(games)} games of {D} players, {INSTANCES} instances × "
    body += f"{seeds} seeds each, clustered by instance. Band and limit as on"
    body += (
        f" the page of [reliability](reliability.md): {BAND[0]}–{BAND[1]}, no game surely below"
        f" {LEAST}. What was chosen on what: most constants of the intervals on the games of"
        " [reliability](reliability.md), those for discrete outputs and tails on 21 kinds of games"
        " with eleven players, among them votes, gloves, parity, labels and boosting. Here players,"
        " models, instances and seeds are others; the kinds are partly the same. Game by game,"
        " coverage of 95 % intervals:\n\n"
    )
    body += by_game(cells)
    body += f"\n\n{(time.perf_counter() - start) / 60:.0f} minutes."
    title = "Coverage on other games"
    publish("other_games", title, "make bench-coverage", body, quick=given.quick)


if __name__ == "__main__":
    main()
