"""Intervals over all background rows hold their level, whatever the surrogate gets wrong.

Truth is exact: every coalition on every row. Seeds are fixed, so these tests do not flicker. Each
states how often it would fail by chance if the seeds were drawn anew and coverage were 0.95.
"""

from functools import lru_cache

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import credex as cx
from tests.strategies import numbers

INSTANCES = 5
BAND = (0.90, 0.99)


def smooth(rows):
    r = np.asarray(rows)
    return np.tanh(r[:, 0] * r[:, 1]) + np.sin(2 * r[:, 2]) + r[:, 3] + 0.3 * r[:, 4] ** 2


def steps(rows):
    r = np.asarray(rows)
    both = (r[:, 0] > 0.5) & (r[:, 1] > 0)
    return np.where(both, 2.0, 0.0) + 0.5 * r[:, 2] * r[:, 3] * r[:, 4]


FOREST = RandomForestRegressor(8, max_depth=5, random_state=0)
FOREST_ROWS = numbers(60, 6, seed=3)
FOREST.fit(
    FOREST_ROWS,
    FOREST_ROWS[:, 0] * FOREST_ROWS[:, 1] + FOREST_ROWS[:, 2] - np.abs(FOREST_ROWS[:, 3]),
)
MODELS = {
    "smooth": (smooth, numbers(60, 5, seed=1)),
    "steps": (steps, numbers(50, 5, seed=2)),
    "forest": (FOREST.predict, FOREST_ROWS),
}


@lru_cache
def truth(name):
    """Exact importances of some instances."""
    model, X = MODELS[name]
    explainer = cx.BayesSHAP(model, X, posterior="exact")
    return [explainer.explain(x + 0.05) for x in X[:INSTANCES]]


def held(posterior, seeds, **goal):
    """Share of the intervals that hold, for each run of three models; ``width`` is relative."""
    out = []
    for name, (model, X) in MODELS.items():
        explainer = cx.BayesSHAP(model, X, posterior=posterior)
        for i, exact in enumerate(truth(name)):
            call = dict(goal)
            if "width" in goal:
                call["width"] = goal["width"] * np.abs(exact.mean).max()
            for s in range(seeds):
                e = explainer.explain(X[i] + 0.05, seed=1000 * i + s, **call)
                assert not e.exact
                assert "width" not in goal or e.converged
                low, high = e.interval().lower, e.interval().upper
                out.append(np.mean((low <= exact.mean) & (exact.mean <= high)))
    return np.array(out)


def inside(shares):
    assert BAND[0] <= shares.mean() <= BAND[1], shares.mean()


@pytest.mark.parametrize("posterior", ["gp", "linear"])
def test_a_hundred_rows(posterior):
    """150 runs, standard error 0.008: below 1e-5 at 0.95 (measured: 0.97, there below 1e-2)."""
    shares = held(posterior, seeds=10, queries=100)
    assert len(shares) == 150
    inside(shares)


@pytest.mark.parametrize(
    "posterior", [pytest.param("gp", marks=pytest.mark.slow), "linear"], ids=str
)
def test_stopping_at_a_width_does_not_spoil_coverage(posterior):
    """150 runs, standard error 0.009: below 1e-5 at 0.95."""
    shares = held(posterior, seeds=10, width=0.7, max_queries=2000)
    assert len(shares) == 150
    inside(shares)


def test_coverage_does_not_fall_with_more_rows():
    """A thousand rows: the interval may not shrink past the error of a fixed kernel.

    60 runs, standard error 0.012: below 1e-3 at 0.95 (measured on 300 runs: 0.972).
    """
    shares = held("linear", seeds=4, queries=1000)
    assert len(shares) == 60
    assert shares.mean() >= 0.90


@pytest.mark.slow
def test_coverage_of_the_process_does_not_fall_with_more_rows():
    """A thousand of 18,600 different rows, so that few are asked twice.

    20 runs, standard error 0.017: below 1e-2 at 0.95 (measured on 60 runs: 0.973).
    """
    shares = []
    for model, seed in ((smooth, 1), (steps, 2)):
        X = numbers(600, 5, seed=seed)
        explainer = cx.BayesSHAP(model, X, posterior="gp")
        for i in range(INSTANCES):
            exact = explainer.explain(X[i] + 0.05, posterior="exact").mean
            for s in range(2):
                e = explainer.explain(X[i] + 0.05, seed=1000 * i + s, queries=1000)
                shares.append(
                    np.mean((e.interval().lower <= exact) & (exact <= e.interval().upper))
                )
    assert np.mean(shares) >= 0.90
