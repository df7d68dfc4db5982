"""Stability of explanations."""

import numpy as np
import pandas as pd
import pytest

import credex as cx


def test_a_linear_explainer_has_its_own_norm():
    A = np.array([[1.0, 0.0], [0.0, 3.0]])
    L = cx.metrics.local_lipschitz(lambda X: X @ A, np.zeros(2), n=500, radius=0.01)
    assert 2.9 < L <= 3.0 + 1e-9  # the largest singular value, approached from below


def test_neighbours_and_scale_as_defined():
    x, others = np.array([1.0, 1.0]), np.array([[1.0, 2.0], [4.0, 5.0]])
    phi = {(1.0, 1.0): (0.0, 0.0), (1.0, 2.0): (0.0, 1.5), (4.0, 5.0): (6.0, 8.0)}

    def explain(X):
        return np.array([phi[tuple(r)] for r in X])

    assert cx.metrics.local_lipschitz(explain, x, others) == pytest.approx(2.0)  # 10 / 5
    # in units of (3, 4): distances 1/4 and √2, ratios 6 and 10/√2
    scaled = cx.metrics.local_lipschitz(explain, x, others, scale=[3.0, 4.0])
    assert scaled == pytest.approx(10 / np.sqrt(2))


def test_drawn_neighbours_lie_in_the_ball_and_follow_the_seed():
    seen = []

    def explain(X):
        seen.append(X)
        return X

    for seed in (0, 0, 1):
        cx.metrics.local_lipschitz(explain, np.ones(3), radius=0.2, n=50, seed=seed)
    assert np.array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], seen[2])
    away = np.linalg.norm(seen[0][1:] - 1, axis=1)
    assert away.max() <= 0.2
    assert away.max() > 0.15
    assert np.array_equal(seen[0][0], np.ones(3))


@pytest.mark.parametrize("method", [cx.BayesLIME, cx.BayesSHAP])
def test_explainers_fit_in_as_they_are(method):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    explainer = method(lambda Z: np.asarray(Z)[:, 0] ** 2, X)
    x = X.iloc[0]
    near = X.iloc[1:4]
    found = explainer.explain_many(pd.concat([X.iloc[:1], near]), queries=30).mean
    ratios = [
        np.linalg.norm(found[i + 1] - found[0]) / np.linalg.norm(near.iloc[i] - x) for i in range(3)
    ]
    L = cx.metrics.local_lipschitz(lambda R: explainer.explain_many(R, queries=30), x, near)
    assert max(ratios) == pytest.approx(L)
    drawn = cx.metrics.local_lipschitz(lambda R: explainer.explain_many(R, queries=30), x, n=3)
    assert np.isfinite(drawn)


def test_images_are_inputs_like_any_other():
    pictures = np.random.default_rng(0).random((4, 5, 5))
    L = cx.metrics.local_lipschitz(lambda X: X.sum(axis=2), pictures[0], pictures[1:])
    ratios = [
        np.linalg.norm(p.sum(axis=1) - pictures[0].sum(axis=1)) / np.linalg.norm(p - pictures[0])
        for p in pictures[1:]
    ]
    assert pytest.approx(max(ratios)) == L


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"neighbours": [[1.0, 2.0], [0.0, 0.0]]}, "neighbour 1 equals x"),
        ({"neighbours": [[1.0, 2.0, 3.0]]}, r"neighbours must be \(m, 2\)"),
        ({"neighbours": np.empty((0, 2))}, "m ≥ 1"),
        ({"scale": [1.0, 0.0]}, "scale must be"),
        ({"scale": [1.0, 1.0, 1.0]}, "scale must be"),
        ({"radius": -1.0}, "radius"),
        ({"n": 0}, "n"),
    ],
)
def test_bad_input_is_named(keywords, words):
    def never(X):
        raise AssertionError("the explainer must not be asked")

    with pytest.raises(cx.InputError, match=words):
        cx.metrics.local_lipschitz(never, [0.0, 0.0], **keywords)


@pytest.mark.parametrize(
    "answer", [np.zeros(3), np.zeros((2, 2)), np.full((11, 2), np.nan), [[1.0], [1.0, 2.0]]]
)
def test_an_answer_of_the_wrong_shape_is_named(answer):
    with pytest.raises(cx.InputError, match="explain must return"):
        cx.metrics.local_lipschitz(lambda X: answer, [0.0, 0.0])


def test_columns_in_another_order_are_an_error():
    x = pd.Series({"a": 0.0, "b": 1.0})
    with pytest.raises(cx.InputError, match="same columns"):
        cx.metrics.local_lipschitz(lambda X: X, x, pd.DataFrame({"b": [2.0], "a": [3.0]}))
