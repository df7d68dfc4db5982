"""Tables, models and exact Shapley values over all background rows, for ``make bench-rows``.

`CHOSEN` are the cases that the estimators were chosen on; `REPORTED` were not looked at then.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets, ensemble
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, SVR

Predict = Callable[[Any], np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model as a function of rows, its background, and instances with exact answers."""

    name: str
    predict: Predict
    X: Any
    instances: list[int]
    truth: np.ndarray
    base: float

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])


def enumerated(predict: Predict, X: Any, i: int) -> tuple[np.ndarray, float]:
    """Exact Shapley values over all rows, from every coalition on every row (d ≤ 10)."""
    n, d = X.shape
    masks = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)
    v = np.empty(2**d)
    frame = isinstance(X, pd.DataFrame)
    x = X.iloc[[i] * n].set_index(X.index) if frame else np.broadcast_to(X[i], X.shape)
    step = max(1, 200_000 // n)
    for start in range(0, 2**d, step):
        part = masks[start : start + step]
        if frame:
            rows = pd.concat(
                [X.where(~pd.DataFrame([m] * n, columns=X.columns, index=X.index), x) for m in part]
            ).astype(X.dtypes)
        else:
            rows = np.where(part[:, None, :], x, X).reshape(-1, d)
        v[start : start + step] = predict(rows).reshape(len(part), n).mean(axis=1)
    size = masks.sum(axis=1)
    weight = np.array([factorial(s) * factorial(d - s - 1) / factorial(d) for s in range(d)])
    phi = np.empty(d)
    for j in range(d):
        off = np.flatnonzero(~masks[:, j])
        phi[j] = (weight[size[off]] * (v[off | 1 << j] - v[off])).sum()
    return phi, float(v[0])


def by_trees(model: Any, X: np.ndarray, chosen: list[int]) -> tuple[np.ndarray, float]:
    """Exact values of a tree model by shap's TreeExplainer with all rows; X is float32."""
    import shap

    masker = shap.maskers.Independent(X, max_samples=len(X))
    explainer = shap.TreeExplainer(model, masker)
    values = np.asarray(explainer.shap_values(X[chosen].astype(np.float32)))
    base = np.atleast_1d(explainer.expected_value)
    return (values[..., 1], float(base[1])) if values.ndim == 3 else (values, float(base[0]))


def scaled(model: Any) -> Any:
    """Put a scaler before the model."""
    return make_pipeline(StandardScaler(), model)


def second(model: Any) -> Predict:
    """Probability of the second class."""
    return lambda rows: model.predict_proba(rows)[:, 1]


def single(X: np.ndarray) -> np.ndarray:
    """Round to float32, which trees of scikit-learn compare in."""
    return np.asarray(X.astype(np.float32), dtype=np.float64)


def mixed_table(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers with missing values, and categories."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n).astype(float),
            "income": rng.lognormal(3, 0.6, n),
            "debt": rng.exponential(10, n),
            "years": rng.integers(0, 30, n).astype(float),
            "job": rng.choice(["clerk", "nurse", "pilot", "none"], n, p=[0.4, 0.3, 0.1, 0.2]),
            "town": rng.choice(list("ABCDEFG"), n),
            "owner": rng.choice(["yes", "no"], n),
            "plan": rng.choice(["basic", "gold"], n, p=[0.8, 0.2]),
        }
    )
    X.loc[rng.random(n) < 0.15, "debt"] = np.nan
    pilot, gold = X["job"] == "pilot", X["plan"] == "gold"
    score = 0.03 * X["age"] + 0.05 * X["income"] - 0.04 * X["debt"].fillna(12)
    score = score + 1.5 * pilot - (X["town"] > "D") * (X["owner"] == "no") + 0.8 * gold * pilot
    return X, (score + rng.normal(size=n) > score.median()).to_numpy().astype(int)


def build(name: str, n_instances: int = 3) -> Case:
    """Train the model of a case and compute its exact answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predict, X, trees = MODELS[name]()
    chosen = np.random.default_rng(7).choice(len(X), n_instances, replace=False).tolist()
    if trees is not None:
        truth, base = by_trees(trees, X, chosen)
        assert abs(base - float(predict(X).mean())) < 1e-3 * max(1.0, abs(base))
    else:
        found = [enumerated(predict, X, i) for i in chosen]
        truth, base = np.array([phi for phi, _ in found]), found[0][1]
    return Case(name, predict, X, chosen, truth, base)


def _diabetes_rf() -> tuple[Predict, Any, Any]:
    X, y = datasets.load_diabetes(return_X_y=True)
    model = ensemble.RandomForestRegressor(60, min_samples_leaf=2, random_state=0).fit(X, y)
    return model.predict, X, None


def _friedman_mlp() -> tuple[Predict, Any, Any]:
    X, y = datasets.make_friedman1(1000, 10, noise=1.0, random_state=0)
    model = MLPRegressor(hidden_layer_sizes=(64, 32), max_iter=400, random_state=0)
    return scaled(model).fit(X, y).predict, X, None


def _cancer9_mlp() -> tuple[Predict, Any, Any]:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    model = MLPClassifier(hidden_layer_sizes=(32,), max_iter=600, random_state=0)
    return second(scaled(model).fit(X[:, :9], y)), X[:, :9], None


def _cancer10_gb() -> tuple[Predict, Any, Any]:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    model = ensemble.GradientBoostingClassifier(random_state=1).fit(X[:, 20:], y)
    return second(model), X[:, 20:], None


def _cancer10_svm() -> tuple[Predict, Any, Any]:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    X = X[:, 10:20]
    model = scaled(SVC(C=2.0)).fit(X, y)
    return model.decision_function, X, None


def _wine10_mlp() -> tuple[Predict, Any, Any]:
    X, y = datasets.load_wine(return_X_y=True)
    model = MLPClassifier(hidden_layer_sizes=(24,), alpha=0.1, max_iter=800, random_state=1)
    return second(scaled(model).fit(X[:, 3:], y)), X[:, 3:], None


def _digits8_knn() -> tuple[Predict, Any, Any]:
    X, y = datasets.load_digits(return_X_y=True)
    X = X[:300, [10, 18, 21, 26, 28, 34, 42, 61]]
    return second(KNeighborsClassifier(15).fit(X, y[:300] > 4)), X, None


def _mixed_hgb() -> tuple[Predict, Any, Any]:
    X, y = mixed_table(600, 3)
    words = [c for c in X if X[c].dtype.kind not in "if"]
    encode = make_column_transformer((OrdinalEncoder(), words), remainder="passthrough")
    model = make_pipeline(encode, ensemble.HistGradientBoostingClassifier(max_iter=60)).fit(X, y)
    return second(model), X, None


def _friedman12_large() -> tuple[Predict, Any, Any]:
    X, y = datasets.make_friedman1(20_000, 12, noise=1.0, random_state=5)
    X = single(X)
    model = ensemble.GradientBoostingRegressor(n_estimators=80, max_depth=4, random_state=0)
    return model.fit(X[:4000], y[:4000]).predict, X, model


def _cancer30_et() -> tuple[Predict, Any, Any]:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    X = single(X)
    model = ensemble.ExtraTreesClassifier(60, min_samples_leaf=2, random_state=3).fit(X, y)
    return second(model), X, model


def _synthetic60_rf() -> tuple[Predict, Any, Any]:
    X, y = datasets.make_classification(1000, 60, n_informative=15, n_redundant=5, random_state=11)
    X = single(X)
    model = ensemble.RandomForestClassifier(60, min_samples_leaf=5, random_state=0).fit(X, y)
    return second(model), X, model


def _diabetes10_hgb() -> tuple[Predict, Any, Any]:
    X, y = datasets.load_diabetes(return_X_y=True)
    model = ensemble.HistGradientBoostingRegressor(max_iter=60, random_state=0)
    return model.fit(X, y).predict, X, None


def _diabetes10_svr() -> tuple[Predict, Any, Any]:
    X, y = datasets.load_diabetes(return_X_y=True)
    return scaled(SVR(C=50)).fit(X, y).predict, X, None


def _diabetes8_knn() -> tuple[Predict, Any, Any]:
    X, y = datasets.load_diabetes(return_X_y=True)
    return scaled(KNeighborsRegressor(7)).fit(X[:, :8], y).predict, X[:, :8], None


def _wine8_hgb() -> tuple[Predict, Any, Any]:
    X, y = datasets.load_wine(return_X_y=True)
    model = ensemble.HistGradientBoostingClassifier(max_iter=40, min_samples_leaf=5)
    return second(model.fit(X[:, :8], y == 1)), X[:, :8], None


def _cancer8_logistic() -> tuple[Predict, Any, Any]:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return second(scaled(LogisticRegression(C=5)).fit(X[:, :8], y)), X[:, :8], None


def _digits9_mlp() -> tuple[Predict, Any, Any]:
    X, y = datasets.load_digits(return_X_y=True)
    X, y = X[300:900, [11, 19, 20, 27, 29, 35, 43, 53, 60]], y[300:900] % 2
    model = MLPClassifier(hidden_layer_sizes=(24,), max_iter=400, random_state=0)
    return second(scaled(model).fit(X, y)), X, None


def _friedman7_hgb() -> tuple[Predict, Any, Any]:
    X, y = datasets.make_friedman2(1_500, noise=10, random_state=1)
    X = np.hstack([X, np.random.default_rng(0).normal(size=(1_500, 3))])
    return ensemble.HistGradientBoostingRegressor(max_iter=80).fit(X, y).predict, X, None


def _synthetic10_svm() -> tuple[Predict, Any, Any]:
    X, y = datasets.make_classification(700, 10, n_informative=7, random_state=4)
    return scaled(SVC(C=3)).fit(X, y).decision_function, X, None


def _synthetic6_mlp() -> tuple[Predict, Any, Any]:
    X, y = datasets.make_classification(2_000, 6, n_informative=5, n_redundant=0, random_state=8)
    model = MLPClassifier(hidden_layer_sizes=(32,), max_iter=300, random_state=1)
    return second(scaled(model).fit(X, y)), X, None


MODELS: dict[str, Callable[[], tuple[Predict, Any, Any]]] = {
    "diabetes_rf": _diabetes_rf,
    "friedman_mlp": _friedman_mlp,
    "cancer9_mlp": _cancer9_mlp,
    "cancer10_gb": _cancer10_gb,
    "cancer10_svm": _cancer10_svm,
    "wine10_mlp": _wine10_mlp,
    "digits8_knn": _digits8_knn,
    "mixed_hgb": _mixed_hgb,
    "friedman12_20k": _friedman12_large,
    "cancer30_et": _cancer30_et,
    "synthetic60_rf": _synthetic60_rf,
    "diabetes10_hgb": _diabetes10_hgb,
    "diabetes10_svr": _diabetes10_svr,
    "diabetes8_knn": _diabetes8_knn,
    "wine8_hgb": _wine8_hgb,
    "cancer8_logistic": _cancer8_logistic,
    "digits9_mlp": _digits9_mlp,
    "friedman7_hgb": _friedman7_hgb,
    "synthetic10_svm": _synthetic10_svm,
    "synthetic6_mlp": _synthetic6_mlp,
}
CHOSEN = ("diabetes_rf", "friedman_mlp", "cancer9_mlp")
REPORTED = tuple(name for name in MODELS if name not in CHOSEN)
