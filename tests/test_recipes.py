"""Recipes and what they do not go with."""

import numpy as np
import pytest

import credex as cx


def game(masks):
    return masks @ np.arange(1.0, 5.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"recipe": "printed"}, "recipe must be one of 'credex', 'paper', 'published' or a"),
        ({"recipe": 3}, "recipe must be one of"),
        ({"recipe": "published", "posterior": "gp"}, "it has one regression"),
        ({"recipe": "published", "sampler": "paired"}, "use 'random' or cx.PaperFocused"),
        ({"recipe": "paper", "sampler": "paired"}, "use 'random' or cx.PaperFocused"),
        ({"recipe": "paper", "posterior": "exact"}, "so that it never is exact"),
        ({"recipe": "published", "sampler": "focused"}, "use 'random' or cx.PaperFocused"),
        ({"recipe": "published", "kernel": cx.Exponential()}, "a kernel of its own"),
        ({"recipe": "published", "background_uncertainty": True}, "no background rows"),
        ({"recipe": "published", "features": 3}, r"recipe=cx.Published\(features="),
        ({"recipe": cx.Published(slip=True), "features": 3}, r"cx.Published\(features="),
    ],
)
def test_what_does_not_go_together_is_said(options, words):
    for method in (cx.BayesLIME, cx.BayesSHAP):
        with pytest.raises(cx.InputError, match=words):
            method(game, cx.Masks(4), **options)


@pytest.mark.parametrize(
    "settings",
    [
        {"features": 0},
        {"features": ()},
        {"features": ("a", "a")},
        {"features": "a"},
        {"features": [1, 2]},
        {"screening": 0},
        {"slip": 1},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(cx.InputError, match="Published"):
        cx.Published(**settings)


def test_unknown_features_and_several_outputs_are_refused():
    with pytest.raises(cx.InputError, match="names 'age', but the features are"):
        cx.BayesSHAP(game, cx.Masks(4), recipe=cx.Published(features=("age",))).explain()

    def two(masks):
        return np.stack([masks[:, 0], masks[:, 1]], axis=1)

    with pytest.raises(cx.InputError, match="keeps features for one output; the model has 2"):
        cx.BayesSHAP(two, cx.Masks(4), recipe=cx.Published(features=2)).explain()


def test_tables_need_bins_of_the_training_data():
    X = np.random.default_rng(0).normal(size=(50, 3))
    for domain in (cx.Tabular(X, bins=None), cx.Tabular(X, around="instance")):
        with pytest.raises(cx.InputError, match="leave bins= and around= of the domain"):
            cx.BayesSHAP(lambda X: X[:, 0], domain, recipe="published").explain(X[0])


def test_settings_survive_a_round_trip():
    recipe = cx.Published(features=2, slip=True)
    e = cx.BayesSHAP(game, cx.Masks(4), recipe=recipe).explain(queries=30)
    again = cx.Explanation.from_json(e.to_json())
    assert again.recipe == str(recipe)
    more = cx.BayesSHAP(game, cx.Masks(4)).refine(again, queries=40)
    assert more.history.rows.n == 40
    assert cx.BayesSHAP(game, cx.Masks(4), recipe=cx.Published()).options.recipe == "published"
    with pytest.raises(cx.InputError, match="was made with recipe="):
        cx.BayesSHAP(game, cx.Masks(4)).explain(start=again, queries=50)


def test_verify_compares_the_features_that_were_kept():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    shap = cx.BayesSHAP(lambda X: X @ np.arange(6.0), X, recipe=cx.Published(features=3))
    found = shap.verify(X, n=2, queries=60)
    assert 0 <= found.coverage <= 1
