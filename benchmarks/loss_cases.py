"""Populations with exact shares of the loss (SAGE values), for ``make bench-global``.

Every coalition of every row is asked on every background row. `CHOSEN` are those that the
estimator was chosen on; `REPORTED` were not looked at then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
from sklearn import datasets, ensemble
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

Predict = Callable[[np.ndarray], np.ndarray]

LEAST = 1e-6
"""Probabilities below this count as this, as in credex."""


@dataclass(frozen=True)
class LossPopulation:
    """A model, labelled rows, a background, and the exact shares of the loss by row."""

    name: str
    loss: str
    predict: Predict
    X: np.ndarray
    y: np.ndarray
    background: np.ndarray
    by_row: np.ndarray

    @property
    def phi(self) -> np.ndarray:
        """Shares of the loss, ``(d,)``."""
        return self.by_row.mean(axis=0)


def losses(loss: str, outputs: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Loss of every row; ``outputs (n,)`` or ``(n, k)``."""
    if loss == "squared error":
        return np.asarray((outputs - y) ** 2)
    p = outputs if outputs.ndim == 2 else np.column_stack([1 - outputs, outputs])
    return -np.log(np.clip(p[np.arange(len(y)), y.astype(int)], LEAST, 1.0))


def enumerated(
    loss: str, f: Predict, X: np.ndarray, y: np.ndarray, background: np.ndarray
) -> np.ndarray:
    """Exact Shapley values of −loss of every row."""
    (n, d), b = X.shape, len(background)
    masks = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)
    v = np.empty((2**d, n))
    for i, z in enumerate(masks):
        out = f(np.where(z, X[:, None], background).reshape(-1, d))
        v[i] = -losses(loss, out.reshape(n, b, *out.shape[1:]).mean(axis=1), y)
    size = masks.sum(axis=1)
    weight = np.array([factorial(s) * factorial(d - s - 1) / factorial(d) for s in range(d)])
    phi = np.empty((n, d))
    for j in range(d):
        off = np.flatnonzero(~masks[:, j])
        phi[:, j] = weight[size[off]] @ (v[off | 1 << j] - v[off])
    return phi


def fitted(
    name: str, model: Any, X: np.ndarray, y: np.ndarray, *, b: int = 50, rows: int = 300
) -> LossPopulation:
    """Fit on half of a shuffled table; explain the last rows, most of them not trained on."""
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order].astype(float), y[order]
    half = len(X) // 2
    model.fit(X[:half], y[:half])
    proba = hasattr(model, "predict_proba")
    predict = model.predict_proba if proba else model.predict
    loss = "cross-entropy" if proba else "squared error"
    background, X, y = X[:b], X[-rows:], y[-rows:]
    return LossPopulation(
        name, loss, predict, X, y, background, enumerated(loss, predict, X, y, background)
    )


def known(
    name: str, f: Predict, X: np.ndarray, noise: float, *, b: int = 50, loss: str = "squared error"
) -> LossPopulation:
    """Explain a function itself, with labels that are noisy values of it (or drawn from it)."""
    rng = np.random.default_rng(1)
    background, X = X[:b], X[b:]
    if loss == "squared error":
        y = f(X) + noise * rng.normal(size=len(X))
    else:
        y = (rng.random(len(X)) < f(X)).astype(int)
    return LossPopulation(name, loss, f, X, y, background, enumerated(loss, f, X, y, background))


def build(name: str) -> LossPopulation:
    """Return a population by its name."""
    return BUILDERS[name](name, np.random.default_rng(11))


# -- chosen on -----------------------------------------------------------------------------------


def _linear(name: str, rng: np.random.Generator) -> LossPopulation:
    X = rng.normal(size=(700, 6)) @ (np.eye(6) + 0.3)
    y = X @ [1.5, -1.0, 0.5, 0.2, 0.0, 0.0] + rng.normal(size=700)
    return fitted(name, LinearRegression(), X, y)


def _friedman1(name: str, rng: np.random.Generator) -> LossPopulation:
    del rng
    X, y = datasets.make_friedman1(800, n_features=6, noise=1, random_state=0)
    model = ensemble.GradientBoostingRegressor(n_estimators=80, max_depth=4, random_state=0)
    return fitted(name, model, X, y)


def _logistic(name: str, rng: np.random.Generator) -> LossPopulation:
    X = rng.normal(size=(700, 5))
    y = (X @ [2.0, -1.0, 0.5, 0.0, 0.2] + rng.logistic(size=700) > 0.5).astype(int)
    return fitted(name, LogisticRegression(), X, y)


def _iris(name: str, rng: np.random.Generator) -> LossPopulation:
    X, y = datasets.load_iris(return_X_y=True)
    X = np.column_stack([X, rng.random((len(X), 2))])
    model = ensemble.RandomForestClassifier(60, min_samples_leaf=3, random_state=0)
    return fitted(name, model, X, y, b=40, rows=120)


def _rare_effect(name: str, rng: np.random.Generator) -> LossPopulation:
    X = rng.random((450, 5))
    X[:, 4] = X[:, 4] < 0.06
    return known(name, lambda r: 2 * r[:, 0] + 6 * r[:, 4] * (r[:, 1] > 0.4) + r[:, 2], X, 0.5)


def _trees(name: str, rng: np.random.Generator) -> LossPopulation:
    X = rng.normal(size=(700, 5))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=700) > 0).astype(int)
    model = ensemble.GradientBoostingClassifier(n_estimators=60, max_depth=3, random_state=0)
    return fitted(name, model, X, y)


def _imbalanced(name: str, rng: np.random.Generator) -> LossPopulation:
    X = rng.normal(size=(1000, 5))

    def f(r: np.ndarray) -> np.ndarray:
        return np.asarray(1 / (1 + np.exp(3.5 - 1.5 * r[:, 0] - r[:, 1] * r[:, 2])))

    return known(name, f, X[:450], 0.0, loss="cross-entropy")


# -- reported ------------------------------------------------------------------------------------


def _diabetes(name: str, rng: np.random.Generator) -> LossPopulation:
    del rng
    X, y = datasets.load_diabetes(return_X_y=True)
    model = ensemble.RandomForestRegressor(40, min_samples_leaf=5, random_state=0)
    return fitted(name, model, X[:, [2, 3, 4, 6, 8, 9]], y, rows=250)


def _network(name: str, rng: np.random.Generator) -> LossPopulation:
    X = rng.normal(size=(700, 6))
    y = np.tanh(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * np.maximum(X[:, 3], 0)
    model = MLPRegressor(hidden_layer_sizes=(30,), max_iter=800, random_state=0)
    return fitted(name, model, X, y + 0.5 * rng.normal(size=700))


def _conjunctions(name: str, rng: np.random.Generator) -> LossPopulation:
    X = rng.random((400, 6))

    def f(r: np.ndarray) -> np.ndarray:
        both = (r[:, 0] > 0.5) & (r[:, 1] > 0.5) & (r[:, 2] > 0.4)
        return np.asarray(4.0 * both + 2.0 * (r[:, 3] > 0.8) * r[:, 4] + r[:, 5])

    return known(name, f, X, 0.7)


def _friedman3(name: str, rng: np.random.Generator) -> LossPopulation:
    del rng
    X, y = datasets.make_friedman3(700, noise=0.1, random_state=1)
    return fitted(name, SVR(C=5.0), X / X.max(axis=0), y)


def _tree(name: str, rng: np.random.Generator) -> LossPopulation:
    X = rng.normal(size=(700, 5))
    y = np.sign(X[:, 0]) * (1 + X[:, 1]) + 0.4 * X[:, 2] ** 2 + 0.5 * rng.normal(size=700)
    return fitted(name, DecisionTreeRegressor(max_depth=6, random_state=0), X, y)


def _rare_category(name: str, rng: np.random.Generator) -> LossPopulation:
    first, rare = rng.integers(0, 4, 400), rng.random(400) < 0.08
    other = [rng.integers(0, 3, 400), rng.random((400, 2))]
    X = np.column_stack([first, rare, *other]).astype(float)
    level = np.array([0.0, 2.0, -1.0, 0.5])

    def f(r: np.ndarray) -> np.ndarray:
        return np.asarray(level[r[:, 0].astype(int)] + 4 * r[:, 1] * (r[:, 2] > 0) + r[:, 3])

    return known(name, f, X, 0.6)


def _cancer(name: str, rng: np.random.Generator) -> LossPopulation:
    del rng
    X, y = datasets.load_breast_cancer(return_X_y=True)
    model = ensemble.RandomForestClassifier(60, min_samples_leaf=5, random_state=0)
    return fitted(name, model, X[:, [1, 7, 20, 21, 24, 27]], y, rows=250)


def _wine(name: str, rng: np.random.Generator) -> LossPopulation:
    del rng
    X, y = datasets.load_wine(return_X_y=True)
    model = ensemble.ExtraTreesClassifier(60, min_samples_leaf=2, random_state=0)
    return fitted(name, model, X[:, [0, 1, 6, 9, 11, 12]], y, b=40, rows=150)


def _classes(name: str, rng: np.random.Generator) -> LossPopulation:
    X = rng.normal(size=(700, 5)) @ (np.eye(5) + 0.3)
    score = X @ rng.normal(size=(5, 4)) + rng.gumbel(size=(700, 4))
    return fitted(name, LogisticRegression(max_iter=500), X, score.argmax(axis=1))


def _classifier(name: str, rng: np.random.Generator) -> LossPopulation:
    X = rng.normal(size=(700, 6))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=700) > 0).astype(int)
    model = MLPClassifier((20,), alpha=1.0, max_iter=600, random_state=0)
    return fitted(name, model, X, y)


def _rare_class(name: str, rng: np.random.Generator) -> LossPopulation:
    X = rng.normal(size=(1200, 5))
    y = (X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.5 * rng.normal(size=1200) > 2.2).astype(int)
    model = ensemble.GradientBoostingClassifier(n_estimators=40, max_depth=2, random_state=0)
    return fitted(name, model, X, y, rows=400)


def _neighbours(name: str, rng: np.random.Generator) -> LossPopulation:
    X = rng.random((700, 4))
    y = (X[:, 0] + 0.5 * np.sin(6 * X[:, 1]) + 0.2 * rng.normal(size=700) > 0.6).astype(int)
    return fitted(name, KNeighborsClassifier(15), X, y)


BUILDERS: dict[str, Callable[[str, np.random.Generator], LossPopulation]] = {
    "linear regression": _linear,
    "friedman1, boosted trees": _friedman1,
    "logistic regression": _logistic,
    "iris, forest": _iris,
    "rare effect": _rare_effect,
    "boosted classifier": _trees,
    "imbalanced": _imbalanced,
    "diabetes, forest": _diabetes,
    "neural network": _network,
    "conjunctions": _conjunctions,
    "friedman3, support vectors": _friedman3,
    "decision tree": _tree,
    "rare category": _rare_category,
    "breast cancer, forest": _cancer,
    "wine, extra trees": _wine,
    "four classes, logistic": _classes,
    "network classifier": _classifier,
    "rare class, boosted": _rare_class,
    "nearest neighbours": _neighbours,
}

CHOSEN = tuple(BUILDERS)[:7]
REPORTED = tuple(BUILDERS)[7:]
