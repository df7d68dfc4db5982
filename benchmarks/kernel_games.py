"""Games that the prior of the Gaussian process over masks was chosen on, and how it does there.

23 fitted models of 9 to 100 players, none of them in `benchmarks.queries` or
`benchmarks.unseen_games`, which report. ``python -m benchmarks.kernel_games`` prints error and
coverage of the three samplers, 2d to 1,000 queries and stopped at a width; it takes an hour.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn import datasets, ensemble, linear_model, svm
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.tree import DecisionTreeClassifier

import credex as cx
from benchmarks.games import scaled
from benchmarks.large_games import Formula, Model, boosting, conjunctions, forest, kernel_machine
from benchmarks.reliability import LEVELS
from benchmarks.timing import table
from benchmarks.unseen_games import (
    Kind,
    Rows,
    cancer,
    diabetes,
    digits,
    fitted,
    friedman,
    made,
    numbers,
    some,
    wine,
)

INSTANCES = 3
BACKGROUND = 6
SEEDS = 2


def waves(d: int, seed: int) -> Rows:
    """Friedman's first regression, of which five columns tell something."""
    X, y = datasets.make_friedman1(900, n_features=d, noise=0.3, random_state=seed)
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def odd_digits() -> Rows:
    """64 pixels, and whether the digit is odd."""
    X, y = digits(return_X_y=True)
    return X / 16.0, y % 2


def regression_forest(model: Any, x: np.ndarray, B: np.ndarray) -> tuple[Formula, Model]:
    """Value of a forest of regression trees."""
    share = 1 / len(model.estimators_)
    return conjunctions(((share, t.tree_, 0) for t in model.estimators_), x, B), model.predict


cubic = make_pipeline(PolynomialFeatures(3, interaction_only=True), linear_model.Ridge(20.0))
seeded: dict[str, Any] = {"random_state": 2}
network = partial(MLPClassifier, max_iter=1500, **seeded)
GAMES: dict[str, tuple[Rows, Any, Any]] = {
    "svc_wine10": (some(wine, 3, 13), scaled(svm.SVC(gamma=0.3)), "sigmoid"),
    "et_diabetes10": (some(diabetes, 0, 10), ensemble.ExtraTreesRegressor(60, **seeded), "predict"),
    "logit_digits12": (
        some(digits, 20, 32),
        scaled(linear_model.LogisticRegression(max_iter=500)),
        "proba",
    ),
    "mlp_cancer12": (some(cancer, 5, 17), scaled(network((24,))), "proba"),
    "hgb_made14": (
        made(14, 7, 31),
        ensemble.HistGradientBoostingClassifier(max_iter=60, **seeded),
        "proba",
    ),
    "krr_waves12": (waves(12, 21), KernelRidge(kernel="rbf", gamma=0.1, alpha=0.5), "predict"),
    "cubic_waves11": (waves(11, 22), cubic, "predict"),
    "rf_digits14": (
        some(digits, 10, 24),
        ensemble.RandomForestClassifier(60, **seeded),
        "proba",
    ),
    "mlp_wine13": (some(wine, 0, 13), scaled(network((30,))), "proba"),
    "knn_cancer13": (some(cancer, 2, 15), scaled(KNeighborsClassifier(7)), "proba"),
    "mlpr_diabetes10": (
        some(diabetes, 0, 10),
        scaled(MLPRegressor(hidden_layer_sizes=(50,), max_iter=2000, **seeded)),
        "predict",
    ),
    "gbr_numbers12": (
        numbers(12, 41),
        ensemble.GradientBoostingRegressor(**seeded),
        "predict",
    ),
    "tree_made12": (made(12, 8, 32), DecisionTreeClassifier(max_depth=7, **seeded), "proba"),
    "knnr_waves9": (waves(9, 23), KNeighborsRegressor(6), "predict"),
    "gb_made30": (
        made(30, 14, 33),
        ensemble.GradientBoostingClassifier(n_estimators=80, max_depth=4, **seeded),
        boosting,
    ),
    "rf_made64": (made(64, 24, 34), ensemble.RandomForestClassifier(30, **seeded), forest),
    "svr_waves60": (waves(60, 24), svm.SVR(C=5.0), kernel_machine),
    "gbr_numbers100": (
        numbers(100, 42),
        ensemble.GradientBoostingRegressor(n_estimators=80, **seeded),
        boosting,
    ),
    "rf_odd64": (odd_digits(), ensemble.RandomForestClassifier(25, **seeded), forest),
    "svc_made90": (made(90, 30, 35), svm.SVC(C=3.0), kernel_machine),
    "gbr_friedman40": (
        friedman(datasets.make_friedman2, 40, 43),
        ensemble.GradientBoostingRegressor(**seeded),
        boosting,
    ),
    "svc_cancer24": (some(cancer, 6, 30), svm.SVC(C=10.0, gamma=0.05), kernel_machine),
    "et_waves50": (
        waves(50, 25),
        ensemble.ExtraTreesRegressor(25, min_samples_leaf=3, **seeded),
        regression_forest,
    ),
}


def load(name: str) -> Kind:
    """Build a game."""
    return fitted(name, *GAMES[name], (INSTANCES, BACKGROUND))


def budgets(d: int) -> dict[str, int | None]:
    """Numbers of queries by name; ``None``: stopped at a width of mean |φ|."""
    wanted = {"2d": 2 * d, "2d + 5": 2 * d + 5, "4d": 4 * d, "300": 300, "1,000": 1000}
    return {k: n for k, n in wanted.items() if n < 2 ** (d - 1)} | {"width": None}


def measure(name: str, sampler: str) -> list[list[Any]]:
    """Rows of the printed table for one game."""
    game, rows = load(name), []
    d, scale = game.phi.shape[1], float(np.abs(game.phi).mean())
    for budget, n in budgets(d).items():
        squares, inside, widths = [], [], []
        for i, (value, phi) in enumerate(zip(game.values, game.phi, strict=True)):
            shap = cx.BayesSHAP(value, cx.Masks(d), posterior="gp", sampler=sampler)
            for seed in range(SEEDS):
                options = {"width": scale} if n is None else {"queries": n}
                e = shap.explain(seed=500 + 100 * i + seed, **options)
                squares.append(np.mean((e.mean - phi) ** 2))
                wide = e.interval().width
                widths.append(wide.mean() / scale)
                if (wide > 0).any():
                    hits = [e.interval(level).covers(phi)[wide > 0].mean() for level in LEVELS]
                    inside.append(hits)
        shares = np.mean(inside, axis=0) if inside else np.full(len(LEVELS), np.nan)
        error = np.sqrt(np.mean(squares)) / scale
        rows.append([name, d, sampler, budget, error, np.mean(widths), *shares])
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", nargs="*", default=list(GAMES), choices=list(GAMES))
    parser.add_argument("--samplers", nargs="*", default=["focused", "paired", "random"])
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    tasks = [(g, s) for s in given.samplers for g in given.games]
    done = Parallel(n_jobs=given.jobs)(delayed(measure)(*task) for task in tasks)
    rows = [row for found in done for row in found]
    head = ["game", "d", "sampler", "queries", "error", "width", *(f"{v:.0%}" for v in LEVELS)]
    print(table(head, [[*map(str, r[:4]), *(f"{x:.3f}" for x in r[4:])] for r in rows]))
    for sampler in given.samplers:
        for budget in dict.fromkeys(r[3] for r in rows):
            some_rows = [r for r in rows if (r[2], r[3]) == (sampler, budget)]
            mean = np.nanmean([r[6:] for r in some_rows], axis=0)
            error = np.exp(np.mean(np.log([max(r[4], 1e-6) for r in some_rows])))
            print(f"{sampler}, {budget}: error {error:.3f}, coverage at {LEVELS}: {mean.round(3)}")


if __name__ == "__main__":
    main()
