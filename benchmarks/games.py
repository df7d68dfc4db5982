"""Games with exact Shapley values: real models on bundled data, and hard synthetic ones.

A real game is v(z) = mean over background rows b of f(x where z, b elsewhere), for five test rows
x; classifiers answer with the probability of the class they predict for x. All 2^d coalitions are
enumerated once and kept in ``benchmarks/data/``; delete a file there to have it built again.
``python -m benchmarks.games`` builds them all.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln
from sklearn import datasets
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

DATA = Path(__file__).resolve().parent / "data"
INSTANCES = 5
CHUNK = 400_000
"""Model rows evaluated in one call."""


@dataclass(frozen=True)
class Game:
    """Instances of a game.

    Attributes
    ----------
    name : what it is called in tables.
    tables : (n, 2^d) value of every coalition; entry m has player j if bit j of m is set.
    phi : (n, d) exact Shapley values.
    """

    name: str
    tables: np.ndarray
    phi: np.ndarray

    @property
    def d(self) -> int:
        """Number of players."""
        return int(self.phi.shape[1])

    @property
    def scale(self) -> float:
        """Mean |φ| over all instances: errors are printed relative to it."""
        return float(np.abs(self.phi).mean())


@dataclass(frozen=True)
class Data:
    """A data set, the columns that form each player, and how many background rows to use."""

    X: np.ndarray
    y: np.ndarray
    groups: list[np.ndarray]
    background: int


def all_masks(d: int) -> np.ndarray:
    """All coalitions, boolean ``(2^d, d)``: row m holds the bits of m."""
    return ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)


def index_of(Z: np.ndarray) -> np.ndarray:
    """Rows of a table for masks ``Z (n, d)``: Σ_j z_j 2^j."""
    return Z.astype(np.int64) @ (1 << np.arange(Z.shape[1], dtype=np.int64))


def exact_shapley(v: np.ndarray) -> np.ndarray:
    """φ_i = Σ_{S without i} |S|! (d − |S| − 1)!/d! (v(S + i) − v(S)), from a table ``v (2^d,)``."""
    d = len(v).bit_length() - 1
    s = np.arange(d)
    weight = np.exp(gammaln(s + 1) + gammaln(d - s) - gammaln(d + 1))
    m = np.arange(2**d)
    size = all_masks(d).sum(axis=1)
    phi = np.empty(d)
    for i in range(d):
        without = m[(m >> i) & 1 == 0]
        phi[i] = weight[size[without]] @ (v[without | (1 << i)] - v[without])
    return phi


def enumerate_game(
    f: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    background: np.ndarray,
    groups: list[np.ndarray],
) -> np.ndarray:
    """Value of every coalition of column groups, ``(2^d,)``."""
    d = len(groups)
    Z = all_masks(d).astype(np.float32)
    member = np.zeros((d, x.size), dtype=np.float32)
    for j, columns in enumerate(groups):
        member[j, columns] = 1
    step = max(1, CHUNK // len(background))
    edges = [*range(0, 2**d, step), 2**d]
    out = np.empty(2**d)
    for a, b in pairwise(edges):
        kept = Z[a:b] @ member > 0
        rows = np.where(kept[:, None, :], x, background[None])
        out[a:b] = f(rows.reshape(-1, x.size)).reshape(b - a, -1).mean(axis=1)
    return out


# Data. Each takes the generator that also draws the background rows.


def columns(d: int) -> list[np.ndarray]:
    """Every column is a player."""
    return [np.array([j]) for j in range(d)]


def digits(_rng: np.random.Generator) -> Data:
    """8×8 images, 16 superpixels of 2×2."""
    X, y = datasets.load_digits(return_X_y=True)
    pixel = np.arange(64).reshape(8, 8)
    corners = [(r, c) for r in range(0, 8, 2) for c in range(0, 8, 2)]
    return Data(X / 16.0, y, [pixel[r : r + 2, c : c + 2].ravel() for r, c in corners], 10)


def cancer(rng: np.random.Generator) -> Data:
    """30 measurements in 15 random pairs."""
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return Data(X, y, list(rng.permutation(30).reshape(15, 2)), 30)


def cancer18(_rng: np.random.Generator) -> Data:
    """The first 18 measurements."""
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return Data(X[:, :18], y, columns(18), 20)


def wine(_rng: np.random.Generator) -> Data:
    """13 measurements, three classes."""
    X, y = datasets.load_wine(return_X_y=True)
    return Data(X, y, columns(13), 30)


def diabetes(_rng: np.random.Generator) -> Data:
    """10 columns, a regression."""
    X, y = datasets.load_diabetes(return_X_y=True)
    return Data(X / X.std(axis=0), y, columns(10), 40)


def friedman(_rng: np.random.Generator) -> Data:
    """Friedman's first regression with 12 columns, 7 of them noise."""
    X, y = datasets.make_friedman1(800, n_features=12, noise=0.5, random_state=3)
    return Data(X, y, columns(12), 30)


def madelon(_rng: np.random.Generator) -> Data:
    """Clusters on the corners of a cube in 9 of 14 columns, after the Madelon challenge."""
    X, y = datasets.make_classification(
        1500,
        n_features=14,
        n_informative=9,
        n_redundant=3,
        n_clusters_per_class=4,
        random_state=5,
    )
    return Data(X, y, columns(14), 30)


def iris8(_rng: np.random.Generator) -> Data:
    """4 measurements and their squares."""
    X, y = datasets.load_iris(return_X_y=True)
    return Data(np.hstack([X, X**2]), y, columns(8), 40)


def scaled(model: Any) -> Any:
    """The model behind a standard scaler."""
    return make_pipeline(StandardScaler(), model)


REAL: dict[str, tuple[Callable[[np.random.Generator], Data], Callable[[], Any]]] = {
    "cancer_gb": (cancer, lambda: GradientBoostingClassifier(random_state=0)),
    "cancer_et": (cancer18, lambda: ExtraTreesClassifier(40, random_state=0)),
    "cancer_mlp": (
        cancer,
        lambda: scaled(MLPClassifier((64, 32), max_iter=600, random_state=0)),
    ),
    "digits_mlp": (
        digits,
        lambda: scaled(MLPClassifier((64, 32), max_iter=600, random_state=0)),
    ),
    "digits_rf": (digits, lambda: RandomForestClassifier(60, random_state=0)),
    "wine_svm": (wine, lambda: scaled(SVC(probability=True, random_state=0))),
    "wine_knn": (wine, lambda: scaled(KNeighborsClassifier(9))),
    "diabetes_rfr": (diabetes, lambda: RandomForestRegressor(60, random_state=0)),
    "diabetes_gbr": (diabetes, lambda: GradientBoostingRegressor(random_state=0)),
    "friedman_svr": (friedman, lambda: scaled(SVR(C=30.0))),
    "friedman_mlpr": (
        friedman,
        lambda: scaled(
            MLPRegressor(hidden_layer_sizes=(48, 24), max_iter=1500, random_state=0),
        ),
    ),
    "madelon_hgb": (madelon, lambda: HistGradientBoostingClassifier(random_state=0)),
    "madelon_knn": (madelon, lambda: scaled(KNeighborsClassifier(9))),
    "iris8_rf": (iris8, lambda: RandomForestClassifier(60, random_state=0)),
}
"""Data and model of each real game."""


def real_tables(name: str) -> list[np.ndarray]:
    """Fit the model on 70 % of the rows and enumerate the first test rows."""
    load_data, make = REAL[name]
    rng = np.random.default_rng(7)
    data = load_data(rng)
    X, X_test, y, _ = train_test_split(data.X, data.y, test_size=0.3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unconverged network is a model like any other
        model = make().fit(X, y)
        background = X[rng.choice(len(X), data.background, replace=False)]
        tables = []
        for x in X_test[:INSTANCES]:
            f = model.predict
            if hasattr(model, "predict_proba"):
                label = int(model.predict_proba(x[None]).argmax())
                f = lambda R, k=label: model.predict_proba(R)[:, k]  # noqa: E731
            tables.append(enumerate_game(f, x, background, data.groups))
    return tables


# Synthetic games: tables ``(2^d,)`` from a generator.


def polynomial(d: int, rng: np.random.Generator) -> np.ndarray:
    """A weak linear part and 12 products of 2 to 6 signs."""
    S = 2.0 * all_masks(d) - 1
    v = S @ rng.normal(size=d) * 0.3
    for _ in range(12):
        T = rng.choice(d, rng.integers(2, 7), replace=False)
        v += rng.normal() * S[:, T].prod(axis=1)
    return v


def conjunctions(d: int, rng: np.random.Generator) -> np.ndarray:
    """12 rules that need 1 to 6 players together."""
    Z = all_masks(d)
    v = np.zeros(2**d)
    for _ in range(12):
        T = rng.choice(d, rng.integers(1, 7), replace=False)
        v += rng.normal() * Z[:, T].all(axis=1)
    return v


def parity(d: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """The product of the signs of k players."""
    T = rng.choice(d, k, replace=False)
    return (2.0 * all_masks(d)[:, T] - 1).prod(axis=1)


def additive(d: int, rng: np.random.Generator) -> np.ndarray:
    """No interaction at all."""
    return 3.0 + all_masks(d) @ rng.normal(size=d)


SYNTHETIC: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "poly16": lambda rng: polynomial(16, rng),
    "ands14": lambda rng: conjunctions(14, rng),
    "parity13": lambda rng: parity(13, 13, rng),
    "parity5of12": lambda rng: parity(12, 5, rng),
    "additive15": lambda rng: additive(15, rng),
}


def load(name: str) -> Game:
    """Read a game from ``benchmarks/data/``, built first if it is not there."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        start = time.perf_counter()
        print(f"building {name}: all coalitions of {INSTANCES} instances …", flush=True)
        if name in SYNTHETIC:
            tables = [SYNTHETIC[name](np.random.default_rng(100 + i)) for i in range(INSTANCES)]
        else:
            tables = real_tables(name)
        DATA.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")  # a build cut short leaves no broken table
        np.savez_compressed(part, tables=tables, phi=[exact_shapley(v) for v in tables])
        part.replace(path)
        print(f"built {name} in {time.perf_counter() - start:.1f} s", flush=True)
    with np.load(path) as saved:
        return Game(name, saved["tables"], saved["phi"])


def main() -> None:
    """Build the games named, or all."""
    for name in sys.argv[1:] or (*REAL, *SYNTHETIC):
        game = load(name)
        print(f"{name:14} d = {game.d:2}  mean |φ| = {game.scale:.4g}", flush=True)


if __name__ == "__main__":
    main()
