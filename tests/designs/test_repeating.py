"""The recipes of the paper: which rows they ask for, and the regression on them."""

import numpy as np
import pandas as pd
import pytest

import credex as cx


def bent(masks):
    """A game of six players with an interaction."""
    z = np.asarray(masks, dtype=float)
    return z @ [0.5, -0.3, 0.2, 0.1, 0.05, 0.0] + 0.4 * z[:, 0] * z[:, 1] + 0.3


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    out = pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd"))
    out["kind"] = rng.choice(["x", "y", "z"], 400)
    return out


def score(rows):
    return rows["a"].to_numpy() + 2 * rows["b"].to_numpy() * (rows["kind"] == "x").to_numpy()


def dense(Z, y, w, prior):
    """The published regression by hand: a column of ones, and one inverse of all of it."""
    n, d = Z.shape
    X = np.column_stack([Z, np.ones(n)])
    V = np.linalg.inv(X.T @ np.diag(w) @ X + np.eye(d + 1))
    phi = V @ X.T @ np.diag(w) @ y
    rest = y - X @ phi
    s2 = (rest @ np.diag(w) @ rest + phi @ phi) / n
    dof = prior.n0 + n
    scale2 = (prior.n0 * prior.sigma0_sq + n * s2) / dof
    return phi[:d], phi[d], s2, scale2 * V[:d, :d], dof


@pytest.mark.parametrize("method", [cx.BayesLIME, cx.BayesSHAP])
def test_the_published_regression_is_the_dense_one(method):
    e = method(bent, cx.Masks(6), recipe="published").explain(queries=90)
    Z = e.history.rows.design().astype(float)
    if method is cx.BayesLIME:
        w = np.sqrt(np.exp(-((1 - Z) ** 2).sum(axis=1) / (0.75**2 * 6)))
    else:
        from math import comb

        kernel = [1.0, *(5 / (comb(6, s) * s * (6 - s)) for s in range(1, 6)), 1.0]
        w = np.array([kernel[int(s)] for s in Z.sum(axis=1)])
    prior = cx.Prior()
    phi, b, s2, scale, dof = dense(Z, bent(Z), w, prior)
    np.testing.assert_allclose(e.mean, phi, atol=1e-10, rtol=1e-10)
    np.testing.assert_allclose(e.intercept, b, atol=1e-10, rtol=1e-10)
    np.testing.assert_allclose(e.belief.scale[:, :, 0], scale, atol=1e-12, rtol=1e-10)
    assert e.dof == pytest.approx(dof, rel=1e-12)
    p = cx.LinearPosterior.fit(Z, bent(Z), w, intercept="unit")
    np.testing.assert_allclose(p.s2, s2, rtol=1e-10)
    X = np.column_stack([Z, np.ones(len(Z))])
    V = np.linalg.inv(X.T @ np.diag(w) @ X + np.eye(7))
    variance = (1 + np.einsum("ij,jk,ik->i", X, V, X)) * s2 * len(Z) / (len(Z) - 2)
    np.testing.assert_allclose(p.predictive_variance(Z), variance, rtol=1e-10)


def test_lime_rows_begin_with_the_instance_and_repeat(frame):
    for recipe in ("paper", "published"):
        e = cx.BayesLIME(bent, cx.Masks(6), recipe=recipe).explain(queries=200)
        Z = e.history.rows.design()
        assert Z[0].all()
        assert len(Z) == e.n_queries == 200
        assert len(np.unique(Z, axis=0)) < 64 + 1 < 200  # masks repeat
        assert not e.exact
        e = cx.BayesLIME(score, frame, recipe=recipe).explain(frame.iloc[3], queries=50)
        assert e.history.rows.design()[0].all()
        assert e.history.rows.y()[0] == pytest.approx(e.prediction)
        assert e.history.rows.n == 50


def test_shap_rows_begin_with_single_features_and_the_instance():
    e = cx.BayesSHAP(bent, cx.Masks(6), recipe="published").explain(queries=100)
    Z = e.history.rows.design()
    np.testing.assert_array_equal(Z[:6], np.eye(6, dtype=bool))
    assert Z[6].all()
    assert len(Z) == e.n_queries == 100
    assert {0, 6} <= set(Z[7:].sum(axis=1))  # fair coins: none and all come up too


def test_shap_keeps_the_largest_and_counts_the_screening_as_rows_only():
    rng = np.random.default_rng(1)
    weights = rng.permutation(np.arange(1.0, 21.0))
    asked = []

    def model(masks):
        asked.append(len(masks))
        return masks @ weights

    shap = cx.BayesSHAP(model, cx.Masks(20), recipe="published")
    e = shap.explain(queries=60)
    np.testing.assert_array_equal(e.selected[:, 0], weights > 5)
    assert np.all(e.mean[weights <= 5] == 0)
    assert np.all(e.interval().width[weights <= 5] == 0)
    assert e.n_queries == 60
    assert e.n_model_rows == sum(asked) >= 1_000
    assert e.history.rows.design().shape == (60, 15)
    assert any("15 of 20 features take part" in note for note in e.notes)
    names = np.array(e.names)[e.selected[:, 0]]
    same = shap.explain(queries=60, recipe=cx.Published(features=names.tolist()))
    np.testing.assert_array_equal(same.mean, e.mean)
    assert same.n_model_rows < 200  # no screening


def test_tables_perturb_kept_features_only(frame):
    seen = []

    def model(rows):
        seen.append(rows.copy())
        return score(rows)

    x = frame.iloc[5]
    shap = cx.BayesSHAP(model, frame, recipe=cx.Published(features=("a", "kind")))
    e = shap.explain(x, queries=40)
    rows = pd.concat(seen)
    assert (rows[["b", "c", "d"]] == x[["b", "c", "d"]].astype(float)).all(axis=None)
    alone = e.history.rows.design()[:2]
    np.testing.assert_array_equal(alone, np.eye(2, dtype=bool))
    singles = rows[-40:-38]  # the last 40 are those of the regression
    assert singles.iloc[0]["a"] == x["a"]
    assert singles.iloc[0]["kind"] != x["kind"]
    assert singles.iloc[1]["kind"] == x["kind"]
    edges = np.quantile(frame["a"], [0.25, 0.5, 0.75])
    bins = np.searchsorted(edges, [singles.iloc[1]["a"], x["a"]])
    assert bins[0] != bins[1]


def test_the_slip_writes_numbers_of_bins(frame):
    numbers = frame.drop(columns="kind")
    seen = []

    def model(rows):
        seen.append(rows.copy())
        return rows["a"].to_numpy() + rows["b"].to_numpy()

    recipe = cx.Published(features=("a", "b"), slip=True)
    cx.BayesSHAP(model, numbers, recipe=recipe).explain(numbers.iloc[0], queries=30)
    singles = pd.concat(seen)[-30:-28]
    np.testing.assert_array_equal(singles[["a", "b"]], np.eye(2))
    np.testing.assert_array_equal(singles[["c", "d"]], numbers.iloc[[0, 0]][["c", "d"]])
    with pytest.raises(cx.InputError, match=r"slip=True\) writes 0 and 1: 'kind' holds no numbers"):
        cx.BayesSHAP(score, frame, recipe=cx.Published(slip=True)).explain(frame.iloc[0])


@pytest.mark.parametrize("method", [cx.BayesLIME, cx.BayesSHAP])
@pytest.mark.parametrize("recipe", ["paper", "published", cx.Published(features=3)])
def test_a_continued_run_is_the_long_one(method, recipe, frame):
    explainer = method(score, frame, recipe=recipe)
    long = explainer.explain(frame.iloc[1], queries=120)
    short = cx.Explanation.from_json(explainer.explain(frame.iloc[1], queries=60).to_json())
    again = explainer.refine(short, queries=120)
    np.testing.assert_allclose(again.mean, long.mean, rtol=1e-12)
    np.testing.assert_allclose(again.interval().width, long.interval().width, rtol=1e-12)
    other = explainer.explain(frame.iloc[1], queries=120, seed=7, start=short)
    assert other.history.rows.n == 120  # other draws, but the same features
    np.testing.assert_array_equal(other.selected, short.selected)
    many = explainer.explain_many(frame[:3], queries=120)
    np.testing.assert_allclose(many[1].mean, long.mean, rtol=1e-12)


@pytest.mark.parametrize("method", [cx.BayesLIME, cx.BayesSHAP])
def test_focused_sampling_as_published(method):
    rule = cx.PaperFocused(30, 20, 200, 1e-2, score="sd", replacement=method is cx.BayesSHAP)
    e = method(bent, cx.Masks(6), recipe="published", sampler=rule).explain(queries=90)
    assert e.history.rows.n == e.n_queries == 90
    assert e.sampler == "paper-focused"


def test_focused_rule_reads_the_standard_deviation():
    class Known:
        def predictive_variance(self, Z):
            return np.where(Z[:, 0], 4.0, 1.0)

    class Coins:
        def take(self, n):
            from credex.designs.samplers import Candidates

            return Candidates(np.random.default_rng(0).random((n, 3)) < 0.5, np.arange(n))

    rng = np.random.default_rng(0)
    for kind, odds in (("sd", np.exp(1.0)), ("variance", np.exp(3.0))):
        rule = cx.PaperFocused(1, 4_000, 4_000, 1.0, score=kind, replacement=True)
        chosen = rule.select(Coins(), 4_000, Known(), rng)
        on = chosen.design[:, 0].mean()
        assert len(np.unique(chosen.position)) < 4_000  # with replacement
        # a share of 4,000 draws: 0.04 is more than five standard errors
        assert on == pytest.approx(odds / (1 + odds), abs=0.04)


def test_paper_repeats_coalitions_and_stays_a_regression():
    e = cx.BayesSHAP(bent, cx.Masks(6), recipe="paper").explain(queries=500)
    Z = e.history.rows.design()
    assert len(Z) == e.n_queries == 500
    assert len(np.unique(Z, axis=0)) == 62
    assert set(Z.sum(axis=1)) == {1, 2, 3, 4, 5}
    assert not e.exact
    assert e.posterior == "linear"
    few = cx.BayesSHAP(bent, cx.Masks(6), recipe="paper", features=2).explain(queries=500)
    kept = few.selected[:, 0]
    w = cx.shapley_kernel(Z.sum(axis=1), 6)
    p = cx.LinearPosterior.fit(Z[:, kept], bent(Z), w, intercept="none")
    assert kept.sum() == 2
    np.testing.assert_allclose(few.mean[kept], p.mean, rtol=1e-10)
    np.testing.assert_allclose(few.interval().width[kept], p.interval().width, rtol=1e-10)
