"""More populations that the intervals of ``explain_global`` were chosen on: effects in few rows.

Thresholds, rare categories, conjunctions and products of signs that no surrogate of pairs guesses,
and six ordinary ones beside them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn import datasets, ensemble, svm, tree

from benchmarks.global_cases import Population, Predict, additive, functions, trees
from benchmarks.global_cases import build as build_other


def _uniform(name: str, n: int, d: int, f: Predict, b: int = 100) -> Population:
    X = np.random.default_rng(11).random((n, d))
    return functions(name, lambda r: np.asarray(f(r), dtype=float), X, b)


def _gate(name: str) -> Population:
    return _uniform(
        name, 560, 6, lambda r: 3 * (r[:, 0] > 0.7) * r[:, 1] + r[:, 2] + 0.5 * r[:, 3] * r[:, 4]
    )


def _centred_gate(name: str) -> Population:
    return _uniform(
        name,
        560,
        6,
        lambda r: 5 * (r[:, 0] > 0.85) * (r[:, 1] - 0.5) + 1.5 * r[:, 2] + np.abs(r[:, 3] - 0.4),
    )


def _rare_level(name: str) -> Population:
    rng = np.random.default_rng(12)
    X = rng.random((620, 6))
    X[:, 0], X[:, 1] = rng.integers(0, 8, 620), rng.integers(0, 2, 620)

    def f(r: np.ndarray) -> np.ndarray:
        rare = 4 * (r[:, 0] == 3) * (2 * r[:, 1] - 1) * (r[:, 2] > 0.3)
        return np.asarray(rare + r[:, 3] + 0.7 * (r[:, 0] > 5), dtype=float)

    return functions(name, f, X, 100)


def _either(name: str) -> Population:
    return _uniform(
        name,
        520,
        6,
        lambda r: 2.0 * ((r[:, 0] > 0.5) ^ (r[:, 1] > 0.35)) + r[:, 2] + 0.3 * r[:, 3],
    )


def _signs(name: str) -> Population:
    return _uniform(
        name,
        520,
        6,
        lambda r: 1.5 * np.sign((r[:, 0] - 0.5) * (r[:, 1] - 0.5) * (r[:, 2] - 0.4)) + r[:, 3],
    )


def _four(name: str) -> Population:
    def f(r: np.ndarray) -> np.ndarray:
        all_of = (r[:, 0] > 0.35) & (r[:, 1] > 0.3) & (r[:, 2] < 0.6) & (r[:, 3] > 0.4)
        return np.asarray(8.0 * all_of + 2 * r[:, 4])

    return _uniform(name, 500, 7, f, 90)


def _double_gate(name: str) -> Population:
    def f(r: np.ndarray) -> np.ndarray:
        both = 5 * (r[:, 0] > 0.55) * (r[:, 1] < 0.5) * (r[:, 2] - 0.5)
        return np.asarray(both + 1.2 * r[:, 3] + r[:, 4] * (r[:, 5] > 0.75))

    return _uniform(name, 520, 6, f)


def _spike(name: str) -> Population:
    return _uniform(
        name, 600, 5, lambda r: 6.0 * (r[:, 0] > 0.94) + r[:, 1] * r[:, 2] + np.sin(4 * r[:, 3])
    )


def _tree(name: str) -> Population:
    X, y = datasets.make_friedman1(700, n_features=6, noise=1, random_state=3)
    return functions(
        name, tree.DecisionTreeRegressor(max_depth=7, random_state=0).fit(X, y).predict, X, 100
    )


def _friedman2(name: str) -> Population:
    X, y = datasets.make_friedman2(700, noise=1, random_state=2)
    model = ensemble.GradientBoostingRegressor(n_estimators=60, max_depth=3, random_state=0)
    return trees(name, model, X, y / y.std(), 150)


def _cosines(name: str) -> Population:
    X, size = np.random.default_rng(13).random((800, 8)), 0.75 ** np.arange(8)
    return additive(name, lambda r: size * (np.cos(4 * r) + r), X, 120)


def _heavy(name: str) -> Population:
    X, size = np.random.default_rng(14).standard_t(4, size=(600, 6)), [1, 0.8, 0.5, 0.3, 0.1, 0.0]
    return additive(name, lambda r: r * np.array(size), X, 100)


def _vectors(name: str) -> Population:
    X = np.random.default_rng(15).normal(size=(500, 5))
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3]
    return functions(name, svm.SVR(C=5).fit(X, y).predict, X, 100)


def _forest(name: str) -> Population:
    X, y = datasets.make_classification(600, 8, n_informative=5, random_state=5)
    model = ensemble.RandomForestClassifier(30, max_depth=6, random_state=0)
    return trees(name, model, X, y, 120)


RARE: dict[str, Callable[[str], Population]] = {
    "slope above a threshold": _gate,
    "centred slope above a threshold": _centred_gate,
    "rare category with a sign": _rare_level,
    "one of two thresholds": _either,
    "product of three signs": _signs,
    "four thresholds": _four,
    "slope behind two thresholds": _double_gate,
    "step in a twentieth": _spike,
    "deep tree": _tree,
    "friedman2, boosted trees": _friedman2,
    "cosines": _cosines,
    "linear, heavy tails": _heavy,
    "support vectors": _vectors,
    "classes, forest": _forest,
}


def build(name: str) -> Population:
    """Return a population by its name."""
    return RARE[name](name) if name in RARE else build_other(name)
