"""How often the interval of the total of `explain_loss` holds, shares of sure models, forecasts.

``python -m benchmarks.loss_totals [RUNS]``; with 70 runs it takes about twenty minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import credex as cx
from benchmarks.loss_cases import enumerated, losses


class Case(NamedTuple):
    """A model with labelled rows and a background."""

    name: str
    loss: str
    predict: Callable[[Any], Any]
    X: np.ndarray
    y: np.ndarray
    background: np.ndarray

    def run(self, seed: int, **goal: Any) -> cx.LossShares:
        """Explain the loss."""
        shap = cx.BayesSHAP(self.predict, self.background)
        return shap.explain_loss(self.X, self.y, loss=self.loss, seed=seed, **goal)


def ordinary() -> Iterator[Case]:
    """Models that are not nearly always sure."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    B, w = X[:60], np.array([2.0, 1.0, 0.5, 0.0])

    def line(r: Any) -> Any:
        return np.asarray(r) @ w

    yield Case("linear", "squared error", line, X, X @ w, B)
    yield Case("linear, background apart", "squared error", line, X, X @ w, B + 0.7)
    yield Case("linear, noisy labels", "squared error", line, X, X @ w + rng.normal(size=300), B)
    T = rng.normal(size=(400, 4))
    f, g = (r[:, 0] * r[:, 1] + np.sin(2 * r[:, 2]) + r[:, 3] for r in (X, T))
    forest = RandomForestRegressor(60, random_state=0, min_samples_leaf=3)
    forest.fit(T, g + 0.5 * rng.normal(size=400))
    yield Case("forest", "squared error", forest.predict, X, f + 0.5 * rng.normal(size=300), B)
    known, y = ((rng.random(len(r)) < 1 / (1 + np.exp(-(r @ w)))).astype(int) for r in (T, X))
    logistic = LogisticRegression().fit(T, known)
    yield Case("logistic", "cross-entropy", logistic.predict_proba, X, y, B)

    def one(r: Any) -> Any:
        return logistic.predict_proba(r)[:, 1]

    yield Case("logistic, Brier", "squared error", one, X, y.astype(float), B)
    trees = RandomForestClassifier(60, random_state=0, min_samples_leaf=5).fit(T, known)
    yield Case("forest of classes", "cross-entropy", trees.predict_proba, X, y, B)


def sure() -> Iterator[Case]:
    """Models that are nearly always sure; the tree was not looked at when constants were chosen."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(120, 3)), np.array([2.0, 1.0, 0.0])
    y = (rng.random(120) < 1 / (1 + np.exp(-(X @ w)))).astype(int)
    for slope in (8.0, 20.0, np.inf):

        def predict(r: Any, slope: float = slope) -> Any:
            z = np.asarray(r) @ w
            steep = 1 / (1 + np.exp(-np.clip(slope * z, -50, 50)))
            return (z > 0).astype(float) if slope == np.inf else steep

        yield Case(f"slope {slope:g}", "cross-entropy", predict, X, y, X[:40])
    X, T = rng.normal(size=(200, 5)), rng.normal(size=(400, 5))
    y, known = (
        (rng.random(len(r)) < 1 / (1 + np.exp(-3 * (r[:, 0] * r[:, 1] + r[:, 2])))).astype(int)
        for r in (X, T)
    )
    tree = DecisionTreeClassifier(random_state=0).fit(T, known)
    yield Case("tree", "cross-entropy", tree.predict_proba, X, y, T[:40])


def total_of(c: Case) -> float:
    """Exact loss without features less that of the model."""
    mean = np.repeat(np.asarray(c.predict(c.background)).mean(axis=0, keepdims=True), len(c.y), 0)
    base, full = (losses(c.loss, np.asarray(f), c.y) for f in (mean, c.predict(c.X)))
    return float((base - full).mean())


def main(runs: int) -> None:
    """Print what holds."""
    for c in ordinary():
        exact = total_of(c)
        tolerance = 1e-12 * abs(exact)
        for queries in (400, 900):
            found = [c.run(seed, queries=queries).total for seed in range(runs)]
            held = [t.lower[0] - tolerance <= exact <= t.upper[0] + tolerance for t in found]
            print(f"total   {c.name:26} {queries} rows: {np.mean(held):.3f}", flush=True)
    for c in sure():
        phi = enumerated(c.loss, c.predict, c.X, c.y, c.background).mean(axis=0)
        every = [c.run(seed, queries=900) for seed in range(runs)]
        covers = np.mean([(e.lower <= phi) & (phi <= e.upper) for e in every], axis=0)
        print(f"sure    {c.name:26} {covers.mean():.3f}, worst feature {covers.min():.3f}")
    ratios = []
    for c in ordinary():
        shap = cx.BayesSHAP(c.predict, c.background)
        for seed in range(4):
            width = 0.6 * float(c.run(seed, queries=800).interval().width.max())
            ahead = shap.forecast_loss(c.X, c.y, loss=c.loss, width=width, seed=seed)
            need = c.run(seed, width=width, max_queries=60_000).n_model_rows
            ratios.append(ahead.total / need)
    low, middle, high = np.quantile(ratios, [0.1, 0.5, 0.9])
    print(f"forecast ÷ need: median {middle:.2f}, eight of ten {low:.2f} to {high:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 70)
