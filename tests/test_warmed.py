"""`BayesSHAP.warmed`: a surrogate fitted once, for all rows of a batch."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import credex as cx


@pytest.fixture(scope="module")
def forest():
    X, y = load_diabetes(return_X_y=True)
    X = X[:, :6]
    return X, RandomForestRegressor(30, min_samples_leaf=3, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def truth(forest):
    X, model = forest
    exact = cx.BayesSHAP(model, X, posterior="exact")
    return [exact.explain(X[i]).mean for i in range(4)]


def counted(model):
    rows = []

    def predict(X):
        rows.append(len(X))
        return model.predict(X)

    return predict, rows


@pytest.mark.parametrize("posterior", ["linear", "gp"])
def test_smaller_error_at_equal_queries_and_honest_intervals(forest, truth, posterior):
    X, model = forest
    plain = cx.BayesSHAP(model, X, posterior=posterior)
    warm = plain.warmed()
    square, inside = {plain: [], warm: []}, []
    for i, phi in enumerate(truth):
        for seed in range(8):
            for ex in (plain, warm):
                e = ex.explain(X[i], queries=100, seed=seed)
                square[ex].append(((e.mean - phi) ** 2).mean())
            inside.append(e.interval().covers(phi).mean())
    assert np.mean(square[warm]) < 0.6 * np.mean(square[plain])
    assert 0.88 < np.mean(inside) < 0.995


def test_the_rows_are_asked_once_and_named(forest):
    X, model = forest
    predict, rows = counted(model)
    warm = cx.BayesSHAP(predict, X).warmed(500)
    assert sum(rows) == 500
    e = warm.explain(X[0], queries=60)
    assert sum(rows) == 500 + e.n_model_rows
    assert any("500 other model rows" in note for note in e.notes)
    np.testing.assert_allclose(e.mean.sum(), e.prediction - e.base_value, atol=1e-9)


def test_alone_in_a_batch_on_workers_and_pickled_the_same_bits(forest):
    X, model = forest
    warm = cx.BayesSHAP(model, X).warmed(600)
    again = cx.BayesSHAP(model, X).warmed(600)
    batch = warm.explain_many(X[:3], queries=80)
    two = again.explain_many(X[:3], queries=80, n_jobs=2)
    copied = pickle.loads(pickle.dumps(warm))
    for i, e in enumerate(batch):
        alone = copied.explain(X[i], queries=80)
        np.testing.assert_array_equal(e.mean, alone.mean)
        np.testing.assert_array_equal(e.mean, two[i].mean)
        np.testing.assert_array_equal(e.interval().upper, alone.interval().upper)


def test_the_original_is_unchanged(forest):
    X, model = forest
    plain = cx.BayesSHAP(model, X)
    before = plain.explain(X[1], queries=60)
    plain.warmed(300)
    np.testing.assert_array_equal(plain.explain(X[1], queries=60).mean, before.mean)


def test_refine_continues_with_and_without_the_surrogate(forest):
    X, model = forest
    warm = cx.BayesSHAP(model, X).warmed(600)
    e = warm.explain(X[1], queries=80)
    np.testing.assert_allclose(
        warm.refine(e, queries=160).mean, warm.explain(X[1], queries=160).mean, rtol=1e-9
    )
    assert cx.BayesSHAP(model, X).refine(e, queries=160).n_queries >= 159


def test_categories_missing_values_groups_and_several_outputs():
    rng = np.random.default_rng(0)
    n = 200
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "c": rng.choice(["u", "v", "w"], n),
            "d": rng.integers(0, 5, n),
        }
    )

    def model(t):
        v = t["a"] + t["b"].fillna(2) * (t["c"] == "u") + 0.3 * t["d"]
        p = 1 / (1 + np.exp(-v.to_numpy(dtype=float)))
        return np.column_stack([1 - p, p])

    domain = cx.Tabular(X, groups={"both": ["a", "d"]})
    warm = cx.BayesSHAP(model, domain).warmed(400)
    x = X.iloc[0].copy()
    x["c"] = "never seen"
    e = warm.explain(x, queries=100)
    np.testing.assert_allclose(e.mean.sum(axis=0), e.prediction - e.base_value, atol=1e-9)
    np.testing.assert_allclose(e.mean[:, 0], -e.mean[:, 1], atol=1e-9)


def test_bad_input(forest):
    X, model = forest
    with pytest.raises(cx.InputError, match="tables"):
        cx.BayesSHAP(lambda z: z.sum(axis=1), cx.Masks(4)).warmed()
    with pytest.raises(cx.InputError, match="rows"):
        cx.BayesSHAP(model, X).warmed(0)
    with pytest.raises(cx.InputError, match="background"):
        cx.BayesSHAP(model, X[:1]).warmed()
    with pytest.raises(cx.InputError, match="recipe"):
        cx.BayesSHAP(model, X, recipe="paper").warmed()
    cohorts = cx.Tabular(X, cohort=(X[:, 1] > 0).astype(int))
    warm = cx.BayesSHAP(model, cohorts).warmed(300)
    with pytest.raises(cx.InputError, match="another cohort"):
        warm.explain(X[0], cohort=1, queries=50)
    with pytest.raises(cx.CredexError):
        cx.BayesSHAP(lambda z: 1 / 0, X).warmed(10)
