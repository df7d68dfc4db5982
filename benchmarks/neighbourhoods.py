"""Real models on bundled tables, with the surrogate each of their neighbourhoods really has.

The target of BayesLIME on a table is the weighted regression over an endless neighbourhood. It is
taken from 200,000 perturbations, once, and kept in ``benchmarks/data/``: their own sampling error
is a fourteenth of that of 1,000.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, SVR

import credex as cx
from benchmarks.games import DATA, INSTANCES, scaled

REFERENCE = 200_000
"""Perturbations that stand for an endless neighbourhood."""

REFERENCE_SEED = 999_999


@dataclass(frozen=True)
class Table:
    """A fitted model on a table.

    Attributes
    ----------
    name : what it is called in tables.
    explainers : one for each instance (each explains the class predicted for it).
    rows : (n, d) the instances.
    truth : (n, d) coefficients of the weighted regression over the whole neighbourhood.
    """

    name: str
    explainers: list[cx.BayesLIME]
    rows: np.ndarray
    truth: np.ndarray

    @property
    def d(self) -> int:
        """Number of columns."""
        return int(self.rows.shape[1])

    @property
    def scale(self) -> float:
        """Mean size of a coefficient: errors are printed relative to it."""
        return float(np.abs(self.truth).mean())


def digits16() -> tuple[np.ndarray, np.ndarray]:
    """The 16 pixels of the 8×8 digits that vary most."""
    X, y = datasets.load_digits(return_X_y=True)
    return X[:, np.argsort(-X.var(axis=0), kind="stable")[:16]], y


def bundled(load: Callable[..., Any]) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """Return a reader of a data set of scikit-learn."""
    return lambda: load(return_X_y=True)


TABLES: dict[str, tuple[Callable[[], tuple[np.ndarray, np.ndarray]], Callable[[], Any]]] = {
    "diabetes_rfr": (
        bundled(datasets.load_diabetes),
        lambda: RandomForestRegressor(40, random_state=0),
    ),
    "diabetes_svr": (bundled(datasets.load_diabetes), lambda: scaled(SVR(C=100.0))),
    "wine_svm": (
        bundled(datasets.load_wine),
        lambda: scaled(SVC(probability=True, random_state=0)),
    ),
    "wine_rf": (bundled(datasets.load_wine), lambda: RandomForestClassifier(40, random_state=0)),
    "cancer_gb": (
        bundled(datasets.load_breast_cancer),
        lambda: GradientBoostingClassifier(random_state=0),
    ),
    "cancer_knn": (bundled(datasets.load_breast_cancer), lambda: scaled(KNeighborsClassifier(9))),
    "iris_rf": (bundled(datasets.load_iris), lambda: RandomForestClassifier(40, random_state=0)),
    "digits16_mlp": (
        digits16,
        lambda: scaled(MLPClassifier((64, 32), max_iter=600, random_state=0)),
    ),
}
"""Data and model of each table."""


def load_table(name: str) -> Table:
    """Fit the model, and read or make the targets of its first test rows."""
    read, make = TABLES[name]
    X, y = read()
    X, X_test, y, _ = train_test_split(X, y, test_size=0.3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unconverged network is a model like any other
        model = make().fit(X, y)
    rows = X_test[:INSTANCES]
    explainers = [cx.BayesLIME(function(model, x), X) for x in rows]
    path = DATA / f"lime_{name}.npz"
    if not path.exists():
        start = time.perf_counter()
        print(f"{name}: {REFERENCE:,} perturbations of {INSTANCES} rows …", flush=True)
        truth = [
            ex.explain(x, queries=REFERENCE, seed=REFERENCE_SEED, posterior="linear").mean
            for ex, x in zip(explainers, rows, strict=True)
        ]
        DATA.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")  # a build cut short leaves no broken table
        np.savez_compressed(part, truth=truth)
        part.replace(path)
        print(f"{name}: done in {time.perf_counter() - start:.1f} s", flush=True)
    with np.load(path) as saved:
        return Table(name, explainers, rows, saved["truth"])


def function(model: Any, x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Probability of the class predicted for ``x``, or the regression."""
    if not hasattr(model, "predict_proba"):
        return model.predict
    k = int(model.predict_proba(x[None]).argmax())
    return lambda R: model.predict_proba(R)[:, k]
