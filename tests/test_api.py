"""The public contract: names, keywords, defaults."""

import inspect
import re

import numpy as np
import pytest

import credex as cx
from tests.games import smooth_game, table_game
from tests.strategies import Counting, numbers

EXPLAINERS = "BayesLIME BayesSHAP Explanation Explanations Failure Forecast Verification Interval"
EXPLAINERS += " Interactions SavedBatch read_batch Aggregate aggregate LossShares"
DOMAINS = "Masks Tabular Text Series Image Slic Quickshift Felzenszwalb Grid Blur Noise"
SAMPLERS = "Random Paired Focused PaperFocused"
RULES = "Queries RankingSettled RelativeWidth WallClock Width"
PIECES = "LinearPosterior ErrorPosterior Prior Exponential shapley_kernel metrics"
PIECES += " perturbations_to_go Published"
MODELS = "from_pipeline from_onnx from_torch from_http"
ERRORS = (
    "CredexError OutputError InputError BudgetError MissingExtraError InterruptedRun ModelError"
)
ERRORS += " StoppedRun ModelOutputError ModelRaisedError RandomModelError"
NAMES = set(f"{EXPLAINERS} {DOMAINS} {SAMPLERS} {RULES} {PIECES} {MODELS} {ERRORS}".split())


def test_public_names_are_pinned():
    assert set(cx.__all__) == NAMES
    assert len(cx.__all__) == len(NAMES)
    for name in NAMES:
        assert getattr(cx, name) is not None
    assert cx.__version__ == "0.1.0"


FIELDS = "method instance outputs estimate history level seconds stop_reason converged"
NUMBERS = "mean values sd covariance dof interval base_value prediction intercept local_prediction"
NUMBERS += " base_interval"
ABOUT = "names feature_values labels units label payload data_digest selected belief"
MADE = "n_queries n_model_rows model_seconds exact posterior sampler recipe settings notes"
ASKED = "r2 error prob_positive prob_greater rank_probabilities rank_range top sample"
FORMS = "to_html report verdict to_frame to_json from_json plot to_shap to_arviz"
FORMS += " as_list as_map as_pyplot_figure show_in_notebook save_to_file"


def test_attributes_of_explanations_are_pinned():
    e = cx.BayesSHAP(lambda z: 1.0 * z[:, 0], cx.Masks(3)).explain()
    public = {name for name in dir(e) if not name.startswith("_")}
    assert public == set(f"{FIELDS} {NUMBERS} {ABOUT} {MADE} {ASKED} {FORMS}".split())


@pytest.mark.parametrize("cls", [cx.BayesLIME, cx.BayesSHAP])
def test_attributes_of_explainers_are_pinned(cls):
    explainer = cls(lambda z: 1.0 * z[:, 0], cx.Masks(3))
    public = {name for name in dir(explainer) if not name.startswith("_")}
    calls = "explain explain_many frames schema iterate forecast refine zoom calibrate verify"
    calls += " explain_global forecast_global explain_loss forecast_loss"
    own = "warmed surrogate interactions" if cls is cx.BayesSHAP else ""
    assert public == set(f"{calls} model domain options method {own}".split())


def test_public_metrics_are_pinned():
    assert cx.metrics.__all__ == ["local_lipschitz"]
    parameters = inspect.signature(cx.metrics.local_lipschitz).parameters
    assert list(parameters) == ["explain", "x", "neighbours", "scale", "radius", "n", "seed"]
    assert parameters["scale"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("cls", [cx.BayesLIME, cx.BayesSHAP])
@pytest.mark.parametrize("method", ["explain", "iterate", "forecast", "explain_many", "refine"])
def test_options_are_keyword_only(cls, method):
    signature = inspect.signature(getattr(cls, method))
    positional = [
        p
        for p in signature.parameters.values()
        if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    assert len(positional) == 2  # self and the instance
    assert not any(
        p.kind is inspect.Parameter.VAR_POSITIONAL for p in signature.parameters.values()
    )


def test_every_error_is_a_credex_error():
    for name in NAMES:
        thing = getattr(cx, name)
        if isinstance(thing, type) and issubclass(thing, BaseException):
            assert issubclass(thing, cx.CredexError)
    assert issubclass(cx.InputError, ValueError)
    assert issubclass(cx.BudgetError, cx.InputError)
    assert issubclass(cx.InterruptedRun, KeyboardInterrupt)


@pytest.fixture
def explainer():
    v = Counting(table_game(smooth_game(9, 0)))
    return cx.BayesSHAP(v, cx.Masks(9), level=0.8, seed=5, sampler="random")


def test_constructor_options_are_defaults(explainer):
    e = explainer.explain(queries=60)
    assert e.level == 0.8
    assert e.sampler == "random"
    assert e.interval().level == 0.8
    same = cx.BayesSHAP(explainer.model, cx.Masks(9)).explain(
        queries=60, level=0.8, seed=5, sampler="random"
    )
    np.testing.assert_array_equal(e.mean, same.mean)
    np.testing.assert_array_equal(e.interval().lower, same.interval().lower)


def test_keywords_of_explain_win(explainer):
    e = explainer.explain(queries=60, level=0.99, seed=6, sampler="paired")
    assert e.level == 0.99
    assert e.sampler == "paired"
    other = cx.BayesSHAP(explainer.model, cx.Masks(9)).explain(queries=60, seed=6, level=0.99)
    np.testing.assert_array_equal(e.mean, other.mean)
    # and they were for one call only
    again = explainer.explain(queries=60)
    assert again.level == 0.8
    assert again.sampler == "random"


def test_target_of_explain_wins():
    X = numbers()
    explainer = cx.BayesSHAP(lambda r: np.stack([r[:, 0], r[:, 1]], axis=1), X, target=0)
    assert explainer.explain(X[0]).top(1) == ["x0"]
    assert explainer.explain(X[0], target=1).top(1) == ["x1"]
    assert explainer.explain(X[0], target=None).mean.shape == (6, 2)


@pytest.mark.parametrize("method", ["explain", "iterate", "forecast", "explain_many"])
def test_an_unknown_keyword_is_a_clear_error(method):
    X = numbers()
    model = Counting(lambda r: r[:, 0])
    explainer = cx.BayesSHAP(model, X)
    keywords = {"width": 0.1} if method == "forecast" else {}
    x = X[:2] if method == "explain_many" else X[0]
    with pytest.raises(cx.InputError, match=r"num_samples.*queries.*options are.*seed"):
        getattr(explainer, method)(x, num_samples=100, **keywords)
    assert model.calls == 0


def test_an_unknown_keyword_of_the_constructor_and_of_refine():
    X = numbers()
    with pytest.raises(cx.InputError, match="nsamples"):
        cx.BayesSHAP(lambda r: r[:, 0], X, nsamples=3)
    explainer = cx.BayesSHAP(lambda r: r[:, 0], X)
    e = explainer.explain(X[0])
    with pytest.raises(cx.InputError, match="nsamples"):
        explainer.refine(e, nsamples=3)


def test_explainers_do_not_change_while_they_work():
    X = numbers()
    explainer = cx.BayesSHAP(lambda r: np.sin(r).sum(axis=1), X)
    first = explainer.explain(X[0], queries=40)
    explainer.explain(X[1], queries=64, seed=3, level=0.5)
    explainer.explain_many(X[:3], queries=40)
    again = explainer.explain(X[0], queries=40)
    np.testing.assert_array_equal(first.mean, again.mean)
    assert first.n_model_rows == again.n_model_rows
    assert first.level == again.level


def test_lime_and_shap_take_every_domain():
    X = numbers()
    x = X[np.argmax(X[:, 0])]
    for cls in (cx.BayesLIME, cx.BayesSHAP):
        assert cls(lambda r: r[:, 0], X).explain(x, queries=64).top(1) == ["x0"]
        assert cls(lambda r: r[:, 0], cx.Tabular(X)).explain(x, queries=64).top(1) == ["x0"]
        e = cls(lambda z: 1.0 * z[:, 2], cx.Masks(9, names=list("abcdefghi"))).explain(queries=60)
        assert e.top(1) == ["c"]


def test_units_of_lime_are_stated():
    X = numbers()
    binned = cx.BayesLIME(lambda r: r[:, 0], X).explain(X[0], queries=60)
    smooth = cx.BayesLIME(lambda r: r[:, 0], cx.Tabular(X, bins=None)).explain(X[0], queries=60)
    masks = cx.BayesLIME(lambda z: 1.0 * z[:, 0], cx.Masks(8)).explain(queries=60)
    for e, unit in (
        (binned, "per same bin"),
        (smooth, "per standard deviation"),
        (masks, "per part present"),
    ):
        assert set(e.units) == {unit}
        assert unit in str(e)


def test_dir_shows_the_public_names_only():
    assert sorted(dir(cx)) == sorted(cx.__all__)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("num_samples", "queries"),
        ("nsamples", "queries"),
        ("num_features", "features"),
        ("random_state", "seed"),
        ("levels", "level"),
        ("witdh", "width"),
    ],
)
def test_hints_point_at_what_was_meant(given, meant):
    X = numbers()
    with pytest.raises(cx.InputError, match=f"did you mean '{meant}'"):
        cx.BayesSHAP(lambda r: r[:, 0], X).explain(X[0], **{given: 3})


def test_reprs_are_one_line():
    explainer = cx.BayesLIME(table_game(smooth_game(9, 0)), cx.Masks(9))
    forecast = explainer.forecast(width=0.1, seed_queries=60)
    for thing in (explainer, forecast, forecast.asked, forecast.asked.history):
        assert len(repr(thing).splitlines()) == 1
        assert len(repr(thing)) < 200
    assert re.fullmatch(r"<BayesLIME of \w+ on Masks>", repr(explainer))
    assert "more queries" in repr(forecast)


def test_every_option_is_listed_in_the_help_of_explain():
    from dataclasses import fields

    from credex.options import Options

    for option in fields(Options):
        assert f"``{option.name}``" in cx.BayesSHAP.explain.__doc__, option.name


@pytest.mark.parametrize("d", [500, 1200])
def test_the_default_ceiling_is_the_documented_one(d):
    """2,000 queries, or the fewest that a fit takes if that is more."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=d)
    explainer = cx.BayesSHAP(lambda z: np.tanh(z @ weights / 5) * 3 + z @ weights, cx.Masks(d))
    e = explainer.explain(stop=cx.RelativeWidth(1e-9))
    assert e.n_queries <= max(2000, 2 + 1 + 2 * (d + 1))
