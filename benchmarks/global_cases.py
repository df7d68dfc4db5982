"""Populations with exact Shapley values of every row, for ``make bench-global``.

`CHOSEN` are those that the estimators were chosen on; `REPORTED` were not looked at then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
from sklearn import datasets, ensemble
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor

Predict = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Population:
    """A model, its background, the rows of a portfolio, and the exact φ of every row."""

    name: str
    predict: Predict
    X: np.ndarray
    background: np.ndarray
    phi: np.ndarray
    y: np.ndarray | None = None

    @property
    def sizes(self) -> np.ndarray:
        """Mean |φ| over the rows."""
        return np.abs(self.phi).mean(axis=0)


def enumerated(f: Predict, X: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Exact Shapley values of every row from every coalition on every background row."""
    (n, d), b = X.shape, len(background)
    masks = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)
    v = np.empty((2**d, n))
    for i, z in enumerate(masks):
        rows = np.where(z, X[:, None], background).reshape(-1, d)
        v[i] = f(rows).reshape(n, b).mean(axis=1)
    size = masks.sum(axis=1)
    weight = np.array([factorial(s) * factorial(d - s - 1) / factorial(d) for s in range(d)])
    phi = np.empty((n, d))
    for j in range(d):
        off = np.flatnonzero(~masks[:, j])
        phi[:, j] = weight[size[off]] @ (v[off | 1 << j] - v[off])
    return phi


def by_trees(model: Any, X: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Exact values of a tree model by shap's TreeExplainer; values must be whole numbers."""
    import shap

    masker = shap.maskers.Independent(background, max_samples=len(background))
    values = np.asarray(shap.TreeExplainer(model, masker).shap_values(X.astype(np.float32)))
    return values[..., 1] if values.ndim == 3 else values


def whole(X: np.ndarray) -> np.ndarray:
    """Numbers from 0 to 1000 without fractions, which single precision holds exactly."""
    low, high = X.min(axis=0), X.max(axis=0)
    return np.round(1000 * (X - low) / (high - low))


def trees(name: str, model: Any, X: np.ndarray, y: np.ndarray, b: int) -> Population:
    """A population of a tree model; the first rows of a shuffled table are the background."""
    X = whole(X)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    model.fit(X, y)
    predict = model.predict
    if hasattr(model, "predict_proba"):
        predict = lambda rows: model.predict_proba(rows)[:, 1]  # noqa: E731
    return Population(name, predict, X, X[:b], by_trees(model, X, X[:b]), y.astype(float))


def functions(name: str, f: Predict, X: np.ndarray, b: int) -> Population:
    """A population of a function of few features; other rows are the background."""
    X, background = X[b:], X[:b]
    return Population(name, f, X, background, enumerated(f, X, background))


def additive(
    name: str, parts: Callable[[np.ndarray], np.ndarray], X: np.ndarray, b: int
) -> Population:
    """A population of a sum of functions of single features, whose φ have a closed form."""
    X, background = X[b:], X[:b]
    phi = parts(X) - parts(background).mean(axis=0)
    return Population(name, lambda rows: parts(rows).sum(axis=1), X, background, phi)


def build(name: str) -> Population:
    """Return a population by its name."""
    rng = np.random.default_rng(7)
    return BUILDERS[name](name, rng)


def _logistic(name: str, rng: np.random.Generator) -> Population:
    X = rng.normal(size=(500, 6)) @ (np.eye(6) + 0.4)
    y = X @ [2.0, -1.0, 0.5, 0.0, 0.2, 1.0] + rng.normal(size=500) > 0
    model = LogisticRegression().fit(X, y)
    return functions(name, lambda rows: model.predict_proba(rows)[:, 1], X, 100)


def _network(name: str, rng: np.random.Generator) -> Population:
    X = rng.normal(size=(500, 6))
    y = np.tanh(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * np.maximum(X[:, 3], 0)
    model = MLPRegressor(hidden_layer_sizes=(30,), max_iter=800, random_state=0).fit(X, y)
    return functions(name, model.predict, X, 100)


def _neighbours(name: str, rng: np.random.Generator) -> Population:
    X = rng.random((500, 5))
    y = 3 * X[:, 0] + np.sin(6 * X[:, 1]) + (X[:, 2] > 0.7)
    model = KNeighborsRegressor(8).fit(X, y)
    return functions(name, model.predict, X, 80)


def _codes(name: str, rng: np.random.Generator) -> Population:
    """Categories as codes, one of them rare."""
    X = np.column_stack(
        [
            rng.integers(0, 5, 600),
            rng.random(600) < 0.08,
            rng.integers(0, 3, 600),
            rng.random((600, 3)),
        ]
    ).astype(float)
    level = np.array([0.0, 2.0, -1.0, 0.5, 3.0])

    def f(rows: np.ndarray) -> np.ndarray:
        first = level[rows[:, 0].astype(int)]
        return np.asarray(first + 5 * rows[:, 1] * (rows[:, 2] > 0) + 2 * rows[:, 3] * rows[:, 4])

    return functions(name, f, X, 100)


def _additive(name: str, rng: np.random.Generator) -> Population:
    X = rng.random((900, 10))
    size = 0.7 ** np.arange(10)
    return additive(name, lambda rows: size * (np.sin(5 * rows) + rows**2), X, 150)


def _linear(name: str, rng: np.random.Generator) -> Population:
    X = rng.normal(size=(700, 12)) @ np.linalg.cholesky(0.5 * np.eye(12) + 0.5).T
    return additive(name, lambda rows: rows * np.linspace(2, 0, 12), X, 100)


def _conjunctions(name: str, rng: np.random.Generator) -> Population:
    X = rng.random((500, 7))

    def f(rows: np.ndarray) -> np.ndarray:
        both = (rows[:, 0] > 0.5) & (rows[:, 1] > 0.5) & (rows[:, 2] > 0.5)
        return np.asarray(4.0 * both + 2.0 * (rows[:, 3] > 0.8) * rows[:, 4] + rows[:, 5])

    return functions(name, f, X, 80)


def _ratio(name: str, rng: np.random.Generator) -> Population:
    X = np.exp(0.5 * rng.normal(size=(500, 5)))
    return functions(name, lambda r: r[:, 0] * r[:, 1] / (r[:, 2] + 0.5) + r[:, 3], X, 100)


def _product(name: str, rng: np.random.Generator) -> Population:
    X = rng.normal(size=(700, 6))

    def f(r: np.ndarray) -> np.ndarray:
        return np.asarray(
            r[:, 0] * r[:, 1] + 2 * np.sin(2 * r[:, 2]) + 0.5 * r[:, 3] + r[:, 4] * (r[:, 0] > 0)
        )

    return functions(name, f, X, 100)


def _rare(name: str, rng: np.random.Generator) -> Population:
    X = rng.random((700, 6))
    X[:, 5] = X[:, 5] < 0.05
    return functions(
        name,
        lambda r: 3 * r[:, 0] + 8 * r[:, 5] * (r[:, 1] > 0.5) + 4 * np.abs(r[:, 2] - 0.5),
        X,
        100,
    )


def _triple(name: str, rng: np.random.Generator) -> Population:
    X = rng.random((700, 7))

    def f(r: np.ndarray) -> np.ndarray:
        return np.asarray(10.0 * ((r[:, 0] > 0.6) & (r[:, 1] > 0.6) & (r[:, 2] > 0.4)) + r[:, 3])

    return functions(name, f, X, 120)


def _diabetes(name: str, rng: np.random.Generator) -> Population:
    del rng
    X, y = datasets.load_diabetes(return_X_y=True)
    return trees(
        name, ensemble.RandomForestRegressor(40, min_samples_leaf=5, random_state=0), X, y, 150
    )


def _friedman(name: str, rng: np.random.Generator) -> Population:
    del rng
    X, y = datasets.make_friedman1(800, n_features=8, noise=1, random_state=0)
    return trees(
        name,
        ensemble.GradientBoostingRegressor(n_estimators=80, max_depth=4, random_state=0),
        X,
        y,
        150,
    )


def _cancer(name: str, rng: np.random.Generator) -> Population:
    del rng
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return trees(
        name, ensemble.RandomForestClassifier(30, max_depth=6, random_state=0), X[:, :10], y, 150
    )


def _wine(name: str, rng: np.random.Generator) -> Population:
    del rng
    X, y = datasets.load_wine(return_X_y=True)
    return trees(
        name, ensemble.ExtraTreesClassifier(30, max_depth=6, random_state=0), X, y == 0, 80
    )


def _boosted(name: str, rng: np.random.Generator) -> Population:
    del rng
    X, y = datasets.make_friedman3(700, noise=0.1, random_state=1)
    return trees(
        name,
        ensemble.GradientBoostingRegressor(n_estimators=60, max_depth=3, random_state=0),
        X,
        y,
        150,
    )


BUILDERS: dict[str, Callable[[str, np.random.Generator], Population]] = {
    "diabetes, forest": _diabetes,
    "friedman1, boosted trees": _friedman,
    "products": _product,
    "rare category": _rare,
    "triple conjunction": _triple,
    "breast cancer, forest": _cancer,
    "wine, extra trees": _wine,
    "friedman3, boosted trees": _boosted,
    "logistic regression": _logistic,
    "neural network": _network,
    "nearest neighbours": _neighbours,
    "categories": _codes,
    "additive": _additive,
    "linear, correlated": _linear,
    "conjunctions": _conjunctions,
    "ratio": _ratio,
}

CHOSEN = tuple(BUILDERS)[:5]
REPORTED = tuple(BUILDERS)[5:]
