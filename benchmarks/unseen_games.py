"""Coverage on kinds of models that nothing was chosen on, by budget, level and kind.

41 kinds of 8 to 64 players: fitted models on bundled and made data, and eight formulas. None is
among the games of `benchmarks.games`, `benchmarks.large_games` or those that constants were chosen
on. Part of ``make bench-coverage``; ``--quick`` measures three kinds and writes nothing.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn import datasets, discriminant_analysis, ensemble, linear_model, svm
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.tree import DecisionTreeRegressor
from tqdm import tqdm

import credex as cx
from benchmarks import large_games
from benchmarks.games import all_masks, columns, enumerate_game, exact_shapley, index_of, scaled
from benchmarks.reliability import LEVELS, NOMINAL, SETTINGS, arguments, clustered
from benchmarks.timing import publish, table

INSTANCES = 4
BACKGROUND = 5
BUDGETS = ("2d + 5", "100", "400", "width")
SMALL = 2
"""Budgets from 2d + 5 up that most games of 8 players are exact at."""

BAND, LEAST = (0.94, 0.97), 0.90
WRONG = 3.0
"""Widths of an interval; no converged run may be off by more."""

FIRST_SEED = 3_000_000

Rows = tuple[np.ndarray, np.ndarray]
Value = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Kind:
    """Instances of one kind of model: value functions of masks and their Shapley values."""

    name: str
    values: list[Value]
    phi: np.ndarray


def some(load: Callable[..., Any], *chosen: int) -> Rows:
    """Columns ``first`` to ``last`` of a bundled data set."""
    X, y = load(return_X_y=True)
    return X[:, slice(*chosen)], y


def made(d: int, informative: int, seed: int, **options: Any) -> Rows:
    """Clusters of two classes."""
    X, y = datasets.make_classification(
        800, d, n_informative=informative, random_state=seed, flip_y=0.05, **options
    )
    return X, y


def noised(load: Callable[..., Any], d: int) -> Rows:
    """All columns of a bundled data set and columns of noise up to ``d``."""
    X, y = load(return_X_y=True)
    noise = np.random.default_rng(d).normal(size=(len(X), d - X.shape[1]))
    return np.hstack([X, noise]), y


def friedman(make: Callable[..., Any], d: int, seed: int) -> Rows:
    """One of Friedman's regressions of four columns, and columns of noise up to ``d``."""
    X, y = make(600, noise=0.1, random_state=seed)
    rng = np.random.default_rng(seed)
    X = np.hstack([X, rng.uniform(size=(600, d - 4))])
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def counts(d: int, seed: int) -> Rows:
    """Counts whose logarithm is a sum."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(800, d))
    return X, rng.poisson(np.exp(X @ rng.normal(size=d) * 0.5)).astype(float)


def numbers(d: int, seed: int) -> Rows:
    """A regression of which seven columns tell something."""
    X, y = datasets.make_regression(600, d, n_informative=7, noise=5, random_state=seed)
    return X, y / y.std()


cancer, wine, diabetes, digits, iris = (
    datasets.load_breast_cancer,
    datasets.load_wine,
    datasets.load_diabetes,
    datasets.load_digits,
    datasets.load_iris,
)
ENUMERATED: dict[str, tuple[Rows, Any, str]] = {
    "logistic regression": (some(wine, 0, 8), scaled(linear_model.LogisticRegression()), "proba"),
    "boosting": (
        some(wine, 0, 12),
        ensemble.GradientBoostingClassifier(random_state=1),
        "proba",
    ),
    "network, numbers": (
        some(diabetes, 0, 8),
        scaled(MLPRegressor(hidden_layer_sizes=(20,), max_iter=3000, random_state=1)),
        "predict",
    ),
    "5 neighbours, numbers": (
        some(diabetes, 0, 10),
        scaled(KNeighborsRegressor(5)),
        "predict",
    ),
    "tree, numbers": (
        some(diabetes, 1, 10),
        DecisionTreeRegressor(max_depth=5, random_state=1),
        "predict",
    ),
    "AdaBoost": (
        some(cancer, 0, 12),
        ensemble.AdaBoostClassifier(random_state=1),
        "proba",
    ),
    "SVM, probabilities": (some(cancer, 8, 22), scaled(svm.SVC(gamma=0.2)), "sigmoid"),
    "naive Bayes": (some(cancer, 10, 20), GaussianNB(), "proba"),
    "histogram boosting": (
        some(digits, 18, 30),
        ensemble.HistGradientBoostingClassifier(max_iter=40, random_state=1),
        "proba",
    ),
    "extra trees": (
        some(digits, 34, 48),
        ensemble.ExtraTreesClassifier(40, random_state=1),
        "proba",
    ),
    "discriminant analysis": (
        some(digits, 26, 38),
        discriminant_analysis.LinearDiscriminantAnalysis(),
        "proba",
    ),
    "3 neighbours": (some(digits, 42, 54), KNeighborsClassifier(3), "proba"),
    "network": (
        noised(iris, 8),
        scaled(MLPClassifier((16,), max_iter=2000, random_state=1)),
        "proba",
    ),
    "boosting, numbers": (
        friedman(datasets.make_friedman2, 8, 1),
        ensemble.GradientBoostingRegressor(random_state=1),
        "predict",
    ),
    "SVM, numbers": (friedman(datasets.make_friedman3, 10, 2), scaled(svm.SVR(C=10.0)), "predict"),
    "forest": (
        made(12, 7, 11),
        ensemble.RandomForestClassifier(50, random_state=1),
        "proba",
    ),
    "deep network": (
        made(14, 8, 12),
        scaled(MLPClassifier((32, 16), max_iter=1500, random_state=1)),
        "proba",
    ),
    "quadratic discriminant": (
        made(12, 9, 13, n_redundant=0),
        discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=0.1),
        "proba",
    ),
    "Poisson boosting": (
        counts(10, 3),
        ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=60, random_state=1),
        "predict",
    ),
    "bagged trees": (
        some(cancer, 19, 30),
        ensemble.BaggingClassifier(n_estimators=15, random_state=1),
        "proba",
    ),
    "polynomial regression": (
        some(diabetes, 0, 10),
        scaled(make_pipeline(PolynomialFeatures(2), linear_model.Ridge(5.0))),
        "predict",
    ),
    "forest, labels": (
        made(10, 6, 14),
        ensemble.RandomForestClassifier(30, random_state=1),
        "predict",
    ),
    "outlier score": (
        some(wine, 2, 12),
        ensemble.IsolationForest(n_estimators=40, random_state=1),
        "score_samples",
    ),
    "forest, numbers": (
        numbers(13, 5),
        ensemble.RandomForestRegressor(40, random_state=1),
        "predict",
    ),
    "Poisson regression": (counts(11, 4), scaled(linear_model.PoissonRegressor()), "predict"),
    "9 neighbours": (made(11, 6, 15), scaled(KNeighborsClassifier(9)), "proba"),
}

BY_FORMULA: dict[str, tuple[Rows, Any, Callable[..., Any]]] = {
    "extra trees, d = 30": (
        some(cancer, 0, 30),
        ensemble.ExtraTreesClassifier(40, random_state=1),
        large_games.forest,
    ),
    "SVM, d = 30": (some(cancer, 0, 30), svm.SVC(gamma=0.1, C=5.0), large_games.kernel_machine),
    "forest, d = 50": (
        made(50, 20, 16),
        ensemble.RandomForestClassifier(30, random_state=1),
        large_games.forest,
    ),
    "boosting, d = 40": (
        made(40, 15, 17),
        ensemble.GradientBoostingClassifier(n_estimators=60, random_state=1),
        large_games.boosting,
    ),
    "SVM, numbers, d = 50": (
        friedman(datasets.make_friedman2, 50, 3),
        svm.SVR(C=10.0),
        large_games.kernel_machine,
    ),
    "boosting, numbers, d = 20": (
        numbers(20, 6),
        ensemble.GradientBoostingRegressor(random_state=1),
        large_games.boosting,
    ),
    "extra trees, d = 64": (
        some(digits, 0, 64),
        ensemble.ExtraTreesClassifier(30, random_state=1),
        large_games.forest,
    ),
}


def network_of_chance(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """A network with random weights."""
    hidden = np.tanh((Z - 0.5) @ rng.normal(size=(Z.shape[1], 12)) + rng.normal(size=12))
    return np.asarray(hidden @ rng.normal(size=12))


def cover(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """Total worth of the thirty items that at least one player present has."""
    has = rng.random((Z.shape[1], 30)) < 0.15
    return np.asarray((Z @ has > 0) @ rng.exponential(size=30))


def best_of_sums(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """The largest of four sums."""
    return np.asarray((Z @ rng.normal(size=(Z.shape[1], 4)) + rng.normal(size=4)).max(axis=1))


def knapsack(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """Value of what fits: a sum up to a capacity, then flat."""
    w = rng.exponential(size=Z.shape[1])
    return np.minimum(Z @ w, 0.6 * w.sum())


def majority(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """1 if more than half of the weight is present, and a tenth of a sum."""
    w = rng.uniform(0.5, 1.5, Z.shape[1])
    return (Z @ w > w.sum() / 2) + 0.1 * Z @ rng.normal(size=Z.shape[1])


def growth(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """The exponential of a sum."""
    return np.exp(Z @ (2.0 * rng.normal(size=Z.shape[1]) / np.sqrt(Z.shape[1])))


def conjunctions(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """A sum and ten conjunctions of two to five players, some of which have to be absent."""
    v = Z @ rng.normal(size=Z.shape[1])
    for k in rng.integers(2, 6, size=10):
        chosen = rng.choice(Z.shape[1], k, replace=False)
        v += rng.normal() * np.all(Z[:, chosen] == (rng.random(k) < 0.7), axis=1)
    return np.asarray(v)


def airport(rng: np.random.Generator, Z: np.ndarray) -> np.ndarray:
    """The largest cost present."""
    return np.where(Z > 0.5, rng.exponential(size=Z.shape[1]), 0.0).max(axis=1)


FORMULAS: dict[str, tuple[int, Callable[[np.random.Generator, np.ndarray], np.ndarray]]] = {
    "random network": (14, network_of_chance),
    "set cover": (14, cover),
    "best of four sums": (10, best_of_sums),
    "knapsack": (12, knapsack),
    "majority and a sum": (12, majority),
    "exponential of a sum": (12, growth),
    "ten conjunctions": (16, conjunctions),
    "airport": (14, airport),
}

KINDS = (*ENUMERATED, *BY_FORMULA, *FORMULAS)
QUICK = ("logistic regression", "SVM, numbers", "best of four sums")


def output_of(model: Any, answer: str, x: np.ndarray) -> Value:
    """Return the output that is explained, for rows of inputs."""
    if answer == "proba":
        label = int(model.predict_proba(x[None]).argmax())
        return lambda R: model.predict_proba(R)[:, label]
    if answer == "sigmoid":  # the probability that a support vector machine would be given
        return lambda R: 1 / (1 + np.exp(-2.0 * model.decision_function(R)))
    return lambda R: 1.0 * getattr(model, answer)(R)


def load(name: str) -> Kind:
    """Build a kind."""
    if name in FORMULAS:
        rng, (d, draw) = np.random.default_rng(sum(map(ord, name))), FORMULAS[name]
        return of_tables(name, [draw(rng, 1.0 * all_masks(d)) for _ in range(INSTANCES)])
    return fitted(name, *(ENUMERATED | BY_FORMULA)[name], (INSTANCES, BACKGROUND))


def fitted(
    name: str, data: Rows, model: Any, way: str | Callable[..., Any], sizes: tuple[int, int]
) -> Kind:
    """Fit a model and build instances of it.

    ``sizes``: how many, and how many background rows. Those that no player changes are left out.
    """
    rng, (X, y), (n, background) = np.random.default_rng(sum(map(ord, name))), data, sizes
    if not isinstance(way, str):
        X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a network that could be trained longer will do
        model.fit(X, y)
    B = X[rng.choice(len(X), background, replace=False)]
    order = rng.permutation(len(X))
    if not isinstance(way, str):
        formulas = [way(model, X[i], B)[0] for i in order[:n]]
        return Kind(name, formulas, np.array([f.shapley() for f in formulas]))
    tables: list[np.ndarray] = []
    for i in order:
        v = enumerate_game(output_of(model, way, X[i]), X[i], B, columns(X.shape[1]))
        tables += [v] if np.ptp(v) > 0 else []
        if len(tables) == n:
            break
    return of_tables(name, tables)


def of_tables(name: str, tables: list[np.ndarray]) -> Kind:
    """Make a kind of tables ``(2^d,)``."""
    values: list[Value] = [lambda z, v=v: v[index_of(z)] for v in tables]  # type: ignore[misc]
    return Kind(name, values, np.array([exact_shapley(v) for v in tables]))


@dataclass
class Cell:
    """Runs of one setting and budget on one kind."""

    kind: str
    setting: tuple[str, str]
    budget: str
    inside: list[np.ndarray] = field(default_factory=list)  # shares by level, a run each
    widths: list[float] = field(default_factory=list)  # over mean |φ|
    wrong: int = 0  # converged, and off by more than `WRONG` widths

    @property
    def coverage(self) -> float:
        """Of 95 % intervals."""
        return float(np.mean([run[NOMINAL] for run in self.inside]))


def measure(name: str) -> list[Cell]:
    """All runs on one kind."""
    kind = load(name)
    d, scale = kind.phi.shape[1], float(np.abs(kind.phi).mean())
    cells = [Cell(name, setting, budget) for setting in SETTINGS for budget in BUDGETS]
    for cell in cells:
        posterior, sampler = cell.setting
        number = 2 * d + 5 if cell.budget == BUDGETS[0] else cell.budget
        if number != "width" and not 2 * d + 5 <= int(number) < 2**d - SMALL:
            continue
        for i, (value, phi) in enumerate(zip(kind.values, kind.phi, strict=True)):
            shap = cx.BayesSHAP(value, cx.Masks(d), posterior=posterior, sampler=sampler)
            options: dict[str, Any] = {"queries": None if number == "width" else int(number)}
            if number == "width":
                options = {"width": scale}
            e = shap.explain(seed=FIRST_SEED + 1000 * i + len(name), **options)
            width = e.interval().width
            off = np.abs(e.mean - phi) > WRONG * np.maximum(width, 1e-9 * scale)
            cell.wrong += bool(e.converged and off.any())
            if (width > 0).any():
                hits = [e.interval(level).covers(phi)[width > 0].mean() for level in LEVELS]
                cell.inside.append(np.array(hits))
                cell.widths.append(float(width.mean()) / scale)
    return [cell for cell in cells if cell.inside]


def rows_of(cells: list[Cell]) -> list[list[str]]:
    """One printed row for each setting and budget, and one for all budgets."""
    rows = []
    for setting in SETTINGS:
        for budget in (*BUDGETS, "all"):
            group = [c for c in cells if c.setting == setting and budget in (c.budget, "all")]
            means = np.array([np.mean(c.inside, axis=0) for c in group])
            share, low, high = clustered(means[:, NOMINAL])
            by_kind = {k: [c for c in group if c.kind == k] for k in {c.kind for c in group}}
            kinds = {k: float(np.mean([c.coverage for c in v])) for k, v in by_kind.items()}
            worst = min(kinds, key=lambda k: kinds[k])
            rows.append(
                [
                    *setting,
                    budget,
                    f"{share:.3f} ({low:.3f} … {high:.3f})",
                    f"{kinds[worst]:.3f} ({worst})",
                    str(sum(k < LEAST for k in kinds.values())),
                    *(f"{x:.3f}" for x in np.delete(means.mean(axis=0), NOMINAL)),
                    f"{np.exp(np.mean([np.log(np.mean(c.widths)) for c in group])):.2f}",
                    str(sum(c.wrong for c in group)),
                ]
            )
    return rows


HEAD = [
    "posterior",
    "sampler",
    "budget",
    "coverage of 95 % (its own interval)",
    "worst kind",
    f"kinds below {LEAST}",
    "of 50 %",
    "of 80 %",
    "of 99 %",
    "width ÷ mean size",
    "sure and wrong",
]


def by_kind(cells: list[Cell]) -> str:
    """Coverage of 95 % intervals over all budgets, kind by kind."""
    rows = []
    for kind in dict.fromkeys(c.kind for c in cells):
        row = [kind]
        for setting in SETTINGS:
            found = [c.coverage for c in cells if c.kind == kind and c.setting == setting]
            row.append(f"{np.mean(found):.3f}" if found else "–")
        rows.append(row)
    return table(["kind", *(f"{p}, {s}" for p, s in SETTINGS)], rows)


def main() -> None:
    """Measure, print, write."""
    given = arguments(__doc__)
    start = time.perf_counter()
    names = QUICK if given.quick else KINDS
    done = Parallel(n_jobs=given.jobs, return_as="generator")(delayed(measure)(n) for n in names)
    cells = [c for found in tqdm(done, total=len(names), disable=None, unit="kind") for c in found]
    runs = sum(len(c.inside) for c in cells)
    body = table(HEAD, rows_of(cells))
    fitted = len(ENUMERATED) + len(BY_FORMULA)
    body += (
        f"\n\n{len(names)} kinds of models of 8 to 64 players, {fitted} of them fitted ones, "
        f"{INSTANCES} instances each, {runs:,} runs; pooled over kinds. Width: mean |φ| of the "
        "kind; widths are geometric means over kinds. None of these kinds was looked at when the "
        "intervals were chosen (after a first look, fits without a remainder were made wider and "
        f"forecasts changed, for other reasons). Aimed at: pooled {BAND[0]}–{BAND[1]}, no kind "
        f"below {LEAST}. Sure and wrong: converged, and a value more than {WRONG:g} widths off. "
        "With four instances the coverage of one kind is known to about 0.03. Kind by kind, 95 % "
        "intervals, all "
        "budgets:\n\n"
    )
    body += by_kind(cells)
    body += f"\n\n{(time.perf_counter() - start) / 60:.0f} minutes."
    title = "Coverage on kinds of models that were not looked at"
    publish("unseen_games", title, "make bench-coverage", body, quick=given.quick)


if __name__ == "__main__":
    main()
