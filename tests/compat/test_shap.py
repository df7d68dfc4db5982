"""shap's tutorials on both packages: the same shapes, values within the intervals.

The tolerance. Where all coalitions are asked, both are exact: equal to 1e-8 of the largest value.
Elsewhere shap's sampling error is measured over `SEEDS` seeds (standard deviation, pooled over the
features of a row), and |credex − shap's mean| ≤ 4·√(credex's sd² + shap's sd²/SEEDS), which a
normal error exceeds once in 16,000 comparisons.
"""

import warnings
from functools import cache

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt

import credex as cx
from credex.compat import shap as ours
from tests.compat import scenarios
from tests.needs import need

theirs = need("shap")

SEEDS = 4
SIGMAS = 4.0


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shap's own
        yield
    plt.close("all")


@cache
def runs(scenario):
    """What credex found, and what shap found with each seed."""
    before, peers = np.random.get_state(), []
    for seed in range(SEEDS):
        np.random.seed(seed)
        peers.append(scenario(theirs))
    np.random.set_state(before)
    return scenario(ours), peers


@pytest.fixture(params=scenarios.SHAP, ids=lambda s: s.__name__)
def both(request):
    return runs(request.param)


def test_results_have_the_same_shape(both):
    found, (peer, *_) = both
    assert found.values.shape == peer.values.shape
    assert found.values.dtype == peer.values.dtype
    assert np.shape(found.explainer.expected_value) == np.shape(peer.explainer.expected_value)
    np.testing.assert_allclose(found.explainer.expected_value, peer.explainer.expected_value)


def intervals(found, scenario):
    """Standard deviations of credex's values, in the shape of the values."""
    n = {"probabilities": 100, "neighbours": 600, "one_reference": 400, "superpixels": 1000}
    batch = found.explainer.explain_many(found.X, nsamples=n.get(scenario.__name__, "auto"))
    i = batch.interval(0.95)
    return batch, ((i.upper - i.lower) / 3.92).reshape(found.values.shape)


@pytest.mark.parametrize("scenario", scenarios.SHAP, ids=lambda s: s.__name__)
def test_values_agree(scenario):
    found, peers = runs(scenario)
    batch, own = intervals(found, scenario)
    shap = np.array([p.values for p in peers])
    difference = np.abs(found.values - shap.mean(axis=0))
    if batch[0].exact:
        assert difference.max() <= 1e-8 * np.abs(shap).max()
        return
    features = 0 if found.values.ndim == 1 else 1
    sd = np.sqrt(shap.var(axis=0, ddof=1).mean(axis=features, keepdims=True) / SEEDS)
    error = np.hypot(own, sd)
    assert np.all(difference <= SIGMAS * error), (difference / error).max()
    assert np.mean(difference <= 1.96 * error) > 0.85


def test_there_are_exact_and_sampled_scenarios():
    exact = [intervals(runs(s)[0], s)[0][0].exact for s in scenarios.SHAP]
    assert 2 <= sum(exact) <= 5


def test_values_add_up(both):
    found, _ = both
    f = found.explainer._averaged(np.atleast_2d(np.asarray(found.X, dtype=float))[:, None])
    total = np.asarray(found.values).sum(axis=0 if np.ndim(found.X) == 1 else 1)
    if found.explainer.link == "identity":
        expected = np.squeeze(f) - found.explainer.expected_value
        np.testing.assert_allclose(np.squeeze(total), np.squeeze(expected), atol=1e-9)


def test_model_rows_are_counted():
    rows = []

    def model(x):
        rows.append(len(x))
        return x[:, 0] * x[:, 1] + np.sin(x).sum(axis=1)

    X = np.random.default_rng(0).normal(size=(50, 12))
    explainer = ours.KernelExplainer(model, X[:7])
    assert sum(rows) == 7
    rows.clear()
    batch = explainer.explain_many(X[:3], nsamples=60)
    assert batch.n_model_rows == sum(rows)
    assert batch[0].n_queries <= 62


def test_the_explanation_that_plots_take():
    found, (peer, *_) = runs(scenarios.called)
    own, shap = found.explanation, peer.explanation
    assert type(own) is type(shap)
    for name in ("values", "base_values", "data"):
        assert getattr(own, name).shape == getattr(shap, name).shape, name
    np.testing.assert_allclose(own.base_values, shap.base_values)
    np.testing.assert_allclose(own.data, shap.data)
    assert own.feature_names == shap.feature_names
    assert np.all(own.lower_bounds <= own.values)
    for draw in (ours.plots.beeswarm, ours.plots.bar, ours.plots.heatmap):
        draw(own[:, :, 1], show=False)
        plt.gcf().canvas.draw()
    ours.plots.waterfall(own[0, :, 1], show=False)
    plt.gcf().canvas.draw()


def test_legacy_plots_of_the_tutorials():
    found, _ = runs(scenarios.disease)
    ours.summary_plot(found.values, found.X, show=False)
    ours.dependence_plot("bmi", found.values, found.X, show=False, interaction_index=None)
    ours.force_plot(
        found.explainer.expected_value,
        found.values[0],
        found.X.iloc[0],
        matplotlib=True,
        show=False,
    )
    plt.gcf().canvas.draw()
    found, _ = runs(scenarios.probabilities)
    expected = found.explainer.expected_value[0]
    assert ours.force_plot(expected, found.values[..., 0], found.X, link="logit") is not None


def test_one_output_in_an_array_of_its_own_keeps_its_axis():
    X = np.random.default_rng(0).normal(size=(20, 4))
    for package in (theirs, ours):
        explainer = package.KernelExplainer(lambda x: x[:, :1] * x[:, 1:2], X[:5])
        assert explainer.shap_values(X[0], silent=True).shape == (4, 1)
        assert explainer.shap_values(X[:2], silent=True).shape == (2, 4, 1)
        assert explainer(X[:2], silent=True).values.shape == (2, 4, 1)
        assert np.shape(explainer(X[:2], silent=True).base_values) == (2, 1)
        assert np.shape(explainer.expected_value) == (1,)


def test_groups_of_columns():
    from shap.utils._legacy import DenseData

    X = np.random.default_rng(0).normal(size=(6, 4))
    data = DenseData(X, ["a", "b"], [np.array([0, 2]), np.array([1, 3])])
    model = lambda x: x[:, 0] * x[:, 1] + x[:, 2] ** 2  # noqa: E731
    values = [p.KernelExplainer(model, data).shap_values(X[0] + 1) for p in (theirs, ours)]
    assert values[0].shape == (2,)
    np.testing.assert_allclose(values[0], values[1])


def test_num_features_keeps_as_many_as_in_shap():
    rng = np.random.default_rng(0)
    w = np.sort(rng.normal(size=15))
    for package in (theirs, ours):
        explainer = package.KernelExplainer(lambda x: x @ w, np.zeros((1, 15)))
        values = explainer.shap_values(np.ones(15), nsamples=200, l1_reg="num_features(4)")
        assert (np.abs(values) > 1e-9).sum() == 4
        assert values.sum() == pytest.approx(w.sum())


def test_shaps_other_names_are_shaps():
    assert ours.kmeans is theirs.kmeans
    assert ours.Explanation is theirs.Explanation
    with pytest.raises(AttributeError):
        ours.no_such_name  # noqa: B018


def test_explanations_have_intervals():
    found, _ = runs(scenarios.neighbours)
    e = found.explainer.explain_many(found.X[:1], nsamples=100)[0]
    assert isinstance(e, cx.Explanation)
    assert np.all(e.interval().width > 0)
    assert "background rows" in str(e)
