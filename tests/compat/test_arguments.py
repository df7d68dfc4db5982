"""Arguments of lime's and shap's explainers: each is used, or a warning or error says why not."""

import importlib
import inspect

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import credex as cx
from credex.compat import lime, shap
from tests.needs import need

X = np.random.default_rng(0).normal(size=(200, 3))


def proba(x):
    p = 1 / (1 + np.exp(-x[:, 0] - x[:, 1] * x[:, 2]))
    return np.column_stack([1 - p, p])


def words(texts):
    p = np.array([0.1 + 0.8 * ("good" in t) for t in texts])
    return np.column_stack([1 - p, p])


def colours(pictures):
    p = np.asarray(pictures)[:, :4].mean(axis=(1, 2, 3)) / 255
    return np.column_stack([1 - p, p])


@pytest.mark.parametrize(
    ("module", "name", "methods"),
    [
        ("lime_tabular", "LimeTabularExplainer", ["__init__", "explain_instance"]),
        ("lime_text", "LimeTextExplainer", ["__init__", "explain_instance"]),
        ("lime_image", "LimeImageExplainer", ["__init__", "explain_instance"]),
    ],
)
def test_signatures_are_limes(module, name, methods):
    theirs = getattr(need(f"lime.{module}"), name)
    for method in methods:
        ours = inspect.signature(getattr(getattr(lime, name), method)).parameters
        for parameter in inspect.signature(getattr(theirs, method)).parameters.values():
            assert parameter.name in ours
            assert ours[parameter.name].default == parameter.default, parameter.name
        assert list(ours) == list(inspect.signature(getattr(theirs, method)).parameters)


@pytest.mark.parametrize(
    "method",
    ["as_list", "as_map", "as_pyplot_figure", "show_in_notebook", "save_to_file", "as_html"],
)
def test_signatures_of_results_are_limes(method):
    theirs = getattr(need("lime.explanation").Explanation, method)
    ours = inspect.signature(getattr(lime.LimeExplanation, method)).parameters
    given = [p for p in inspect.signature(theirs).parameters.values() if p.kind != p.VAR_KEYWORD]
    assert [p.name for p in given] == list(ours)[: len(given)]
    assert [p.default for p in given] == [ours[p.name].default for p in given]


def test_signature_of_the_kernel_explainer_is_shaps():
    theirs = need("shap").KernelExplainer
    for method in ("__init__", "__call__"):
        given = list(inspect.signature(getattr(theirs, method)).parameters)
        ours = list(inspect.signature(getattr(shap.KernelExplainer, method)).parameters)
        assert ours[: len(given) - 1] == given[: len(given) - 1]


TABLE_ERRORS = [
    ({"training_data_stats": {"means": {}}}, "come from the rows of training_data"),
    ({"mode": "ranking"}, "'classification' or 'regression'; got 'ranking'"),
    ({"discretizer": "tertile"}, "'tertile'; use 'quartile', 'decile', 'entropy'"),
    ({"discretizer": "entropy"}, "training_labels, which are missing"),
    ({"discretizer": object()}, "is a object; use"),
    ({"feature_selection": "best"}, "'forward_selection'.*got 'best'"),
    ({"kernel_width": -1.0}, "kernel_width must be a positive number"),
    ({"random_state": "seven"}, "random_state must be.*'seven'"),
    ({"feature_names": ["a", "b"]}, "2 names for 3 columns"),
]


@pytest.mark.parametrize(("options", "message"), TABLE_ERRORS)
def test_errors_of_the_table_explainer(options, message):
    with pytest.raises(cx.InputError, match=message):
        lime.LimeTabularExplainer(X, **options)


def test_data_that_lime_does_not_take():
    import pandas as pd

    with pytest.raises(cx.InputError, match=r"sparse matrix; pass training_data\.toarray"):
        lime.LimeTabularExplainer(csr_matrix(X))
    with pytest.raises(cx.InputError, match=r"frame.*cx\.BayesLIME"):
        lime.LimeTabularExplainer(pd.DataFrame(X))
    with pytest.raises(cx.InputError, match="missing or infinite"):
        lime.LimeTabularExplainer(np.where(X > 2, np.nan, X))
    with pytest.raises(cx.InputError, match=r"numbers.*cx\.BayesLIME"):
        lime.LimeTabularExplainer(np.array([["a", "b"], ["c", "d"]]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: lime.LimeTabularExplainer(X, training_labels=X[:, 0] > 0),
            "training_labels.*entropy",
        ),
        (
            lambda: lime.LimeTabularExplainer(X, sample_around_instance=True),
            "discretize_continuous",
        ),
        (lambda: lime.LimeTextExplainer(mask_string="?"), "mask_string.*bow=False"),
    ],
)
def test_what_changes_nothing_is_said(make, message):
    with pytest.warns(UserWarning, match=message) as seen:
        make()
    assert seen[0].filename == __file__  # it points at the user's line


CALL_ERRORS = [
    ({"labels": (2,)}, "label 2: the model has 2 outputs; labels are 0 to 1"),
    ({"num_samples": 3}, "3"),
    ({"num_features": 0}, "num_features must be a whole number"),
    ({"top_labels": -1}, "top_labels must be a whole number"),
    ({"model_regressor": "lasso"}, r"'lasso'; credex fits a Bayesian.*Ridge\(1\)"),
]


@pytest.mark.parametrize(("options", "message"), CALL_ERRORS)
def test_errors_of_a_call(options, message):
    explainer = lime.LimeTabularExplainer(X)
    with pytest.raises(cx.InputError, match=message):
        explainer.explain_instance(X[0], proba, **options)


def test_a_classifier_without_probabilities():
    explainer = lime.LimeTabularExplainer(X)
    with pytest.raises(cx.InputError, match=r"predict_proba, or use mode='regression'"):
        explainer.explain_instance(X[0], lambda x: x[:, 0])
    with pytest.raises(cx.InputError, match="class_names has 3 names; the model has 2"):
        lime.LimeTabularExplainer(X, class_names=list("abc")).explain_instance(X[0], proba)
    with pytest.raises(cx.InputError, match="data_row has 2 values"):
        explainer.explain_instance(X[0, :2], proba)


def test_a_ridge_is_a_prior():
    """The coefficients are those of Ridge(alpha): shrunk by a strong one, as in lime."""
    from sklearn.linear_model import Lasso, Ridge

    peer = need("lime.lime_tabular").LimeTabularExplainer(X, random_state=0)
    ours = lime.LimeTabularExplainer(X, random_state=0)
    for alpha in (0.1, 500.0):
        options = {"model_regressor": Ridge(alpha=alpha), "num_samples": 4000}
        a = dict(ours.explain_instance(X[0], proba, **options).as_map()[1])
        b = dict(peer.explain_instance(X[0], proba, **options).as_map()[1])
        assert max(abs(a[i] - b[i]) for i in a) < 0.03
    assert max(map(abs, a.values())) < 0.15
    with pytest.raises(cx.InputError, match="Lasso"):
        ours.explain_instance(X[0], proba, model_regressor=Lasso())


@pytest.mark.parametrize("state", [7, np.random.RandomState(7), np.random.default_rng(7), None])
def test_random_states(state):
    found = lime.LimeTabularExplainer(X, random_state=state).explain_instance(X[0], proba)
    assert found.explanation.settings["seed"] == {7: 7, None: 0}.get(
        state if isinstance(state, int | None) else "drawn", found.explanation.settings["seed"]
    )
    assert len(found.as_list()) == 3


def test_every_row_that_the_model_got_is_counted():
    sent = []

    def counted(x):
        sent.append(len(x))
        return proba(x)

    found = lime.LimeTabularExplainer(X).explain_instance(X[0], counted, num_samples=500)
    assert found.explanation.n_model_rows == sum(sent)
    assert found.explanation.n_queries == 500


def test_kernel_and_selection_reach_the_explainer():
    e = lime.LimeTabularExplainer(X, kernel_width=0.5).explain_instance(X[0], proba).explanation
    assert "width=0.5" in e.settings["kernel"]
    text = lime.LimeTextExplainer(kernel_width=50).explain_instance("a good day out", words)
    assert "width=0.5" in text.explanation.settings["kernel"]  # of distances times 100
    sparse = lime.LimeTabularExplainer(X, feature_selection="forward_selection")
    found = sparse.explain_instance(X[0], proba, num_features=2)
    assert len(found.as_list()) == 2
    assert found.explanation.settings["options"]["selection"] == "forward"


def test_batch_size_bounds_the_calls():
    sizes = []

    def model(pictures):
        sizes.append(len(pictures))
        return colours(pictures)

    picture = np.random.default_rng(0).integers(0, 255, (12, 12), dtype=np.uint8)
    grid = np.arange(12)[:, None] // 3 * 4 + np.arange(12) // 3
    found = lime.LimeImageExplainer().explain_instance(
        picture, model, segmentation_fn=lambda image: grid + 1, num_samples=100, batch_size=7
    )
    assert max(sizes) <= 7
    assert found.image.shape == (12, 12, 3)  # grey becomes colour, as in lime
    np.testing.assert_array_equal(found.segments, grid)  # numbered from 0


def test_segmenters():
    with pytest.raises(cx.InputError, match="'quickshift', 'felzenszwalb' or 'slic'; got 'grid'"):
        lime.SegmentationAlgorithm("grid")
    picture = np.random.default_rng(0).random((20, 20, 3))
    labels = lime.SegmentationAlgorithm("slic", n_segments=4)(picture)
    assert labels.shape == (20, 20)
    again = lime.SegmentationAlgorithm("quickshift", kernel_size=2, random_seed=3)(picture)
    assert again.shape == (20, 20)


def test_characters_are_features():
    found = lime.LimeTextExplainer(char_level=True).explain_instance("good!", words)
    assert {name for name, _ in found.as_list()} == set("god!")
    found = lime.LimeTextExplainer(char_level=True, bow=False).explain_instance("good!", words)
    assert len(found.as_list()) == 5


def linear(x):
    return x @ np.arange(1.0, 4.0)


SHAP_ERRORS = [
    ({"keep_index": True}, "cx.BayesSHAP"),
    ({"data_type": 1}, "no argument 'data_type'"),
    ({"link": "probit"}, "'identity' or 'logit'; got 'probit'"),
    ({"feature_names": ["a"]}, "1 names for 3 features"),
]


@pytest.mark.parametrize(("options", "message"), SHAP_ERRORS)
def test_errors_of_the_kernel_explainer(options, message):
    with pytest.raises(cx.InputError, match=message):
        shap.KernelExplainer(linear, X[:5], **options)


def test_arguments_of_shap_values():
    explainer = shap.KernelExplainer(linear, X[:5])
    with pytest.raises(cx.InputError, match="no argument 'n_samples'; there are: nsamples"):
        explainer.shap_values(X[0], n_samples=10)
    with pytest.raises(cx.InputError, match="nsamples must be a whole number"):
        explainer.shap_values(X[0], nsamples=2.5)
    with pytest.raises(cx.InputError, match=r"l1_reg must be.*'lots'"):
        explainer.shap_values(X[0], l1_reg="lots")
    with pytest.raises(cx.InputError, match="X has 2 columns; the background has 3"):
        explainer.shap_values(X[0, :2])
    with pytest.raises(cx.InputError, match=r"X must be a table.*reshape"):
        explainer(X[0])
    for l1_reg in ("aic", "auto", 0.01):
        with pytest.warns(UserWarning, match="l1_reg=.*every feature gets a value"):
            values = explainer.shap_values(X[0], l1_reg=l1_reg)
        np.testing.assert_allclose(values, explainer.shap_values(X[0], l1_reg=False))
    with pytest.warns(UserWarning, match="gc_collect changes nothing"):
        explainer.shap_values(X[0], gc_collect=True)
    with pytest.raises(cx.InputError, match=r"sparse matrix; pass data\.toarray"):
        shap.KernelExplainer(linear, csr_matrix(X[:5]))
    with pytest.raises(cx.InputError, match=r"numbers.*cx\.BayesSHAP"):
        shap.KernelExplainer(linear, [["a", "b", "c"]])


def test_without_shap_the_rest_of_it_is_a_clear_error(monkeypatch):
    monkeypatch.setitem(importlib.sys.modules, "shap", None)
    with pytest.raises(AttributeError, match=r"kmeans is shap's own.*credex\[shap\]"):
        shap.kmeans  # noqa: B018
    assert not hasattr(shap, "pytest_plugins")  # what pytest looks for in every module
    values = shap.KernelExplainer(linear, X[:5]).shap_values(X[:2])  # takes no shap
    assert values.shape == (2, 3)
