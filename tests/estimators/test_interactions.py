"""Interactions of pairs: exact values, the surrogate's own, intervals, and what is refused."""

from itertools import combinations
from math import factorial

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import credex as cx
from credex.estimators.interactions import Sampled, _functionals, interaction_weights
from credex.posteriors.assisted import AnovaKernel, InputSpace
from credex.posteriors.sample import Sample


def by_definition(v, d):
    """Interaction indices ``(d, d)`` of a game, written out."""
    out = np.zeros((d, d))
    for i, j in combinations(range(d), 2):
        others = [p for p in range(d) if p not in (i, j)]
        for size in range(d - 1):
            weight = factorial(size) * factorial(d - size - 2) / factorial(d - 1)
            for chosen in combinations(others, size):
                z = np.zeros((4, d), dtype=bool)
                z[:, list(chosen)] = True
                z[0, [i, j]] = z[1, i] = z[2, j] = True
                both, one, other, none = v(z)
                out[i, j] += weight * (both - one - other + none)
    return out + out.T


def off_diagonal(a):
    return a[~np.eye(len(a), dtype=bool)]


def game(masks):
    z = np.asarray(masks, dtype=float)
    return (
        np.tanh(z @ [1.0, -2.0, 0.5, 1.5, 0.0, -0.3]) + z[:, 0] * z[:, 3] - z[:, 1:4].prod(axis=1)
    )


def test_all_coalitions_give_exact_interactions():
    explainer = cx.BayesSHAP(game, cx.Masks(6))
    e = explainer.explain(posterior="exact")
    found = explainer.interactions(e)
    truth = by_definition(game, 6)
    assert found.exact
    np.testing.assert_allclose(off_diagonal(2 * found.values), off_diagonal(truth), atol=1e-12)
    np.testing.assert_allclose(found.values, found.values.T, atol=1e-15)
    np.testing.assert_allclose(found.values.sum(axis=1), e.mean, atol=1e-12)
    assert not found.interval().width.any()


def test_a_table_with_every_row_gives_exact_interactions():
    X, y = load_diabetes(return_X_y=True)
    X = X[:40, :5]
    forest = RandomForestRegressor(20, random_state=0).fit(X, y[:40])
    explainer = cx.BayesSHAP(forest, X)
    e = explainer.explain(X[3], posterior="exact")
    rows = X[np.arange(40)]

    def v(masks):
        mixed = np.where(masks[:, None, :], X[3], rows)
        return forest.predict(mixed.reshape(-1, 5)).reshape(len(masks), -1).mean(axis=1)

    found = 2 * explainer.interactions(e).values
    np.testing.assert_allclose(off_diagonal(found), off_diagonal(by_definition(v, 5)), atol=1e-9)


def test_weights_of_coalitions_are_the_definition():
    d = 5
    masks = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)
    y = np.random.default_rng(0).normal(size=2**d)

    def v(z):
        return y[z @ (1 << np.arange(d))]

    got = np.einsum("nij,n->ij", interaction_weights(masks), y)
    np.testing.assert_allclose(off_diagonal(got), off_diagonal(by_definition(v, d)), atol=1e-12)


def test_interactions_of_a_surrogate_are_those_of_its_predictions():
    rng = np.random.default_rng(1)
    space = InputSpace(((0,), (1, 2), (3,), (4,)), np.array([False, False, True, False, False]))
    kernel = AnovaKernel(np.array([0.9, 0.3, 0.1, 1.7]), 2.4, 0.02)

    def rows(n):
        out = rng.random((n, 5))
        out[:, 2] = rng.integers(0, 3, n)
        return out

    x, background, basis = rows(1), rows(7), rows(9)
    weights, c = rng.dirichlet(np.ones(7)), rng.normal(size=(9, 2))
    none = np.empty(0)
    s = Sampled(
        *(space, x, none, none, none, none, none, none, none),
        Sample(background, weights, left_out=0.5),
    )
    f, by_row = _functionals(kernel, s, basis, c)

    def v(z, b):
        on = z[:, [0, 1, 1, 2, 3]]
        return kernel.between(space, np.where(on, x, background[b]), basis) @ c

    i, j = np.triu_indices(4, 1)
    for output in range(2):
        each = [by_definition(lambda z, b=b: v(z, b)[:, output], 4)[i, j] for b in range(7)]  # noqa: B023
        np.testing.assert_allclose(by_row[:, :, output], each, atol=1e-10)
        np.testing.assert_allclose((f @ c)[:, output], weights @ each, atol=1e-10)


@pytest.mark.parametrize("queries", [40, 58])  # of 64: what was asked is known
@pytest.mark.parametrize("sampler", ["paired", "random"])
def test_intervals_of_a_game_hold(sampler, queries):
    explainer = cx.BayesSHAP(game, cx.Masks(6))
    truth = by_definition(game, 6)
    hits = []
    for seed in range(25):
        e = explainer.explain(queries=queries, seed=seed, sampler=sampler, posterior="linear")
        found = explainer.interactions(e)
        np.testing.assert_allclose(found.values.sum(axis=1), e.mean, atol=1e-12)
        i = found.interval(0.95)
        inside = (2 * i.lower <= truth) & (truth <= 2 * i.upper)
        hits.append(off_diagonal(inside).mean())
    assert 0.85 < np.mean(hits) <= 1.0


def test_intervals_over_a_background_hold():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))  # more rows than the surrogate is averaged over
    X[:, 3] = rng.integers(0, 3, 900)

    def model(rows):
        return rows[:, 0] * rows[:, 1] + rows[:, 2] + (rows[:, 3] == 1) * rows[:, 0]

    x = np.array([1.5, -1.0, 0.5, 1.0])
    explainer = cx.BayesSHAP(model, X)
    truth = 2 * explainer.interactions(explainer.explain(x, posterior="exact")).values
    hits, errors = [], []
    for seed in range(12):
        found = explainer.interactions(explainer.explain(x, queries=120, seed=seed))
        i = found.interval(0.95)
        hits.append(off_diagonal((2 * i.lower <= truth) & (truth <= 2 * i.upper)).mean())
        errors.append(np.abs(2 * found.values - truth)[0, 1])
    assert np.mean(hits) > 0.85
    assert np.mean(errors) < 0.25 * abs(truth[0, 1])


def test_features_that_do_not_differ_have_none():
    def model(masks):
        return np.asarray(masks, dtype=float) @ [1.0, 2.0, 3.0]

    X = np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 0.0], [2.0, 1.0, 1.0]])
    explainer = cx.BayesSHAP(model, X)
    found = explainer.interactions(explainer.explain(X[0]))
    assert not found.values[1].any()
    assert not found.values[:, 1].any()
    one = cx.BayesSHAP(model, np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 2.0]]))
    e = one.explain([3.0, 1.0, 2.0])
    np.testing.assert_allclose(one.interactions(e).values, np.diag(e.mean), atol=1e-12)


def test_frame_text_and_outputs():
    def two(masks):
        return np.column_stack([game(masks), -game(masks)])

    explainer = cx.BayesSHAP(two, cx.Masks(6))
    found = explainer.interactions(explainer.explain(queries=40))
    assert found.values.shape == (6, 6, 2)
    np.testing.assert_allclose(found.values[..., 0], -found.values[..., 1], atol=1e-9)
    frame = found.to_frame()
    names = "output feature other estimate lower upper prob_positive"
    assert list(frame) == names.split()
    assert len(frame) == 30
    assert (frame.lower <= frame.estimate).all()
    assert frame.estimate[:15].abs().is_monotonic_decreasing
    largest = np.abs(off_diagonal(found.values[..., 0])).max()
    assert abs(frame.estimate[0]) == pytest.approx(2 * largest)
    assert frame.prob_positive.between(0, 1).all()
    text = str(found)
    assert "×" in text
    assert "5 more pairs" in text
    assert "95 % intervals" in text
    assert isinstance(frame, pd.DataFrame)


def test_they_come_from_saved_explanations_without_the_model():
    calls = []

    def counted(masks):
        calls.append(len(masks))
        return game(masks)

    explainer = cx.BayesSHAP(counted, cx.Masks(6))
    e = explainer.explain(queries=40, seed=3)
    spent = len(calls)
    first = explainer.interactions(e)
    again = explainer.interactions(cx.Explanation.from_json(e.to_json()))
    assert len(calls) == spent
    np.testing.assert_array_equal(first.values, again.values)


def test_what_cannot_be_estimated_is_refused():
    explainer = cx.BayesSHAP(game, cx.Masks(6))
    with pytest.raises(cx.InputError, match="sampler='paired'"):
        explainer.interactions(explainer.explain(queries=30, sampler="focused"))
    for recipe in ("paper", "published"):
        with pytest.raises(cx.InputError, match="default recipe"):
            explainer.interactions(explainer.explain(queries=40, recipe=recipe))
    with pytest.raises(cx.InputError, match="noisy"):
        explainer.interactions(explainer.explain(queries=40, noisy=True))
    with pytest.raises(cx.InputError, match="takes an Explanation"):
        explainer.interactions(7)
    with pytest.raises(cx.InputError, match="BayesLIME"):
        explainer.interactions(cx.BayesLIME(game, cx.Masks(6)).explain(queries=40))
