"""Games of 30 to 100 players with exact Shapley values: real models, and sparse synthetic ones.

A real game is v(z) = mean over background rows b of f(x where z, b elsewhere), as in
`benchmarks.games`. For trees it is a sum of conjunctions, one for each leaf that x and b can reach
together; for a support vector machine with a Gaussian kernel a sum of products. Both are written as
a `benchmarks.stored_games.Formula` and checked against the model. ``python -m
benchmarks.large_games`` builds them all.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from benchmarks.stored_games import DATA, Formula, Stored, read, write

INSTANCES = 3
BACKGROUND = 10

Model = Callable[[np.ndarray], np.ndarray]
Rows = tuple[np.ndarray, np.ndarray]


def cancer() -> Rows:
    """30 measurements."""
    return datasets.load_breast_cancer(return_X_y=True)


def digits() -> Rows:
    """64 pixels."""
    X, y = datasets.load_digits(return_X_y=True)
    return X / 16.0, y


def large_or_small() -> Rows:
    """64 pixels, and whether the digit is five or more."""
    X, y = digits()
    return X, (y > 4).astype(int)


def friedman() -> Rows:
    """Friedman's first regression with 100 columns, 95 of them noise."""
    return datasets.make_friedman1(1500, n_features=100, noise=0.5, random_state=3)


def clusters() -> Rows:
    """Clusters in 30 of 100 columns, 10 more repeat them."""
    return datasets.make_classification(
        1500, n_features=100, n_informative=30, n_redundant=10, random_state=5
    )


# From a fitted model to a formula. Each takes the model, the instance and the background rows.


def conjunctions(trees: Iterable[tuple[float, Any, int]], x: np.ndarray, B: np.ndarray) -> Formula:
    """Sum of weight × tree, an output column of each, averaged over the background.

    Going down a tree with x and b side by side, a node that sends them apart needs its player
    present (x's way) or absent (b's way).
    """
    found: dict[tuple[int, int], float] = defaultdict(float)
    x, B = x.astype(np.float32), B.astype(np.float32)
    for scale, tree, column in trees:
        values = tree.value[:, 0, column] * (scale / len(B))
        x_left = (x[tree.feature] <= tree.threshold).tolist()
        for b in B:
            b_left = (b[tree.feature] <= tree.threshold).tolist()
            stack = [(0, 0, 0)]
            while stack:
                node, on, off = stack.pop()
                left, right = tree.children_left[node], tree.children_right[node]
                if left == right:
                    found[on, off] += values[node]
                    continue
                bit = 1 << int(tree.feature[node])
                of_x = left if x_left[node] else right
                of_b = left if b_left[node] else right
                if of_x == of_b:
                    stack.append((of_x, on, off))
                    continue
                if not off & bit:
                    stack.append((of_x, on | bit, off))
                if not on & bit:
                    stack.append((of_b, on, off | bit))
    players = range(x.size)
    on = np.array([[key[0] >> j & 1 for j in players] for key in found], dtype=bool)
    off = np.array([[key[1] >> j & 1 for j in players] for key in found], dtype=bool)
    return replace(Formula.empty(x.size), weight=np.array([*found.values()]), on=on, off=off)


def forest(model: Any, x: np.ndarray, B: np.ndarray) -> tuple[Formula, Model]:
    """Probability of the class that a forest predicts."""
    label = int(model.predict_proba(x[None]).argmax())
    share = 1 / len(model.estimators_)
    trees = ((share, tree.tree_, label) for tree in model.estimators_)
    return conjunctions(trees, x, B), lambda R: model.predict_proba(R)[:, label]


def boosting(model: Any, x: np.ndarray, B: np.ndarray) -> tuple[Formula, Model]:
    """Log-odds of the class that boosted trees predict, or the regression's value."""
    score = getattr(model, "decision_function", model.predict)
    several = np.ndim(score(x[None])) == 2
    label = int(score(x[None]).argmax()) if several else 0
    trees = ((model.learning_rate, row[label].tree_, 0) for row in model.estimators_)
    return conjunctions(trees, x, B), lambda R: score(R)[:, label] if several else score(R)


def kernel_machine(model: Any, x: np.ndarray, B: np.ndarray) -> tuple[Formula, Model]:
    """Decision function of a support vector machine with a Gaussian kernel."""
    S, gamma = model.support_vectors_, model._gamma  # noqa: SLF001  what "scale" came to
    at_x = -gamma * (x - S) ** 2
    logs = [-gamma * (b - S) ** 2 for b in B]
    formula = replace(
        Formula.empty(x.size),
        height=np.tile(model.dual_coef_[0] / len(B), len(B)),
        start=np.concatenate([at_b.sum(axis=1) for at_b in logs]),
        slope=np.concatenate([at_x - at_b for at_b in logs]),
    )
    return formula, getattr(model, "decision_function", model.predict)


REAL: dict[str, tuple[Callable[[], Rows], Any, Callable[..., tuple[Formula, Model]]]] = {
    "cancer30_gb": (cancer, GradientBoostingClassifier(random_state=0), boosting),
    "cancer30_rf": (cancer, RandomForestClassifier(60, random_state=0), forest),
    "cancer30_svm": (cancer, SVC(), kernel_machine),
    "digits64_gb": (digits, GradientBoostingClassifier(n_estimators=60, random_state=0), boosting),
    "digits64_rf": (digits, RandomForestClassifier(60, random_state=0), forest),
    "digits64_svm": (large_or_small, SVC(), kernel_machine),
    "clusters100_et": (clusters, ExtraTreesClassifier(40, random_state=0), forest),
    "clusters100_svm": (clusters, SVC(), kernel_machine),
    "friedman100_gbr": (friedman, GradientBoostingRegressor(random_state=0), boosting),
    "friedman100_svr": (friedman, SVR(C=30.0), kernel_machine),
}
"""Data, model and the way to its formula."""


def real_formulas(name: str) -> list[Formula]:
    """Fit the model on 70 % of the rows; the first test rows are the instances."""
    data, model, describe = REAL[name]
    rng = np.random.default_rng(7)
    X, y = data()
    X, X_test, y, _ = train_test_split(X, y, test_size=0.3, random_state=0)
    scale = StandardScaler().fit(X)
    X, X_test = scale.transform(X), scale.transform(X_test)
    model.fit(X, y)
    B = X[rng.choice(len(X), BACKGROUND, replace=False)]
    out = []
    for x in X_test[:INSTANCES]:
        formula, f = describe(model, x, B)
        Z = rng.random((200, x.size)) < rng.random((200, 1))
        rows = np.where(Z[:, None, :], x, B[None]).reshape(-1, x.size)
        values = f(rows).reshape(len(Z), -1).mean(axis=1)
        gap = formula(Z) - values  # a model may have an intercept
        assert np.ptp(gap) < 1e-5 * np.ptp(values), f"{name}: the formula is off by {np.ptp(gap)}"
        out.append(formula)
    return out


# Synthetic games.


def polynomial(d: int, rng: np.random.Generator) -> Formula:
    """A weak linear part and 20 products of 2 to 6 signs."""
    size = [*rng.normal(size=d) * 0.3, *rng.normal(size=20)]
    signs = np.zeros((len(size), d), dtype=bool)
    signs[np.arange(d), np.arange(d)] = True
    for row in signs[d:]:
        row[rng.choice(d, rng.integers(2, 7), replace=False)] = True
    return replace(Formula.empty(d), size=np.array(size), signs=signs)


def rules(d: int, rng: np.random.Generator) -> Formula:
    """``d`` rules that need 1 to 6 players together."""
    on = np.zeros((d, d), dtype=bool)
    for row in on:
        row[rng.choice(d, rng.integers(1, 7), replace=False)] = True
    return replace(Formula.empty(d), weight=rng.normal(size=d), on=on, off=np.zeros_like(on))


SYNTHETIC: dict[str, Callable[[np.random.Generator], Formula]] = {
    "poly30": lambda rng: polynomial(30, rng),
    "ands64": lambda rng: rules(64, rng),
}


def load(name: str) -> Stored:
    """Read a large game, built first if it is not there."""
    if not (DATA / f"{name}.npz").exists():
        print(f"building {name} …", flush=True)
        if name in SYNTHETIC:
            formulas = [SYNTHETIC[name](np.random.default_rng(100 + i)) for i in range(INSTANCES)]
        else:
            formulas = real_formulas(name)
        write(name, formulas)
    return read(name)


def main() -> None:
    """Build the games named, or all."""
    for name in sys.argv[1:] or (*REAL, *SYNTHETIC):
        game = load(name)
        terms = [len(f.weight) + len(f.height) + len(f.size) for f in game.values]
        print(f"{name:16} d = {game.d:3}  mean |φ| = {game.scale:.4g}  terms {terms}", flush=True)


if __name__ == "__main__":
    main()
