"""Explanations in the forms of shap, lime and ArviZ."""

import sys
import warnings
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.container import ErrorbarContainer

import credex as cx
from credex.compat import lime
from tests.needs import need

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, 200),
        "city": RNG.choice(["Rome", "Oslo", "Lima"], 200),
        "income": RNG.normal(size=200),
        "member": RNG.random(200) < 0.3,
    }
)
HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>'",
    "x" * 5000,
    "🦊" * 3,
    "مرحبا \u202ebidi",
    "two\nlines\tand a tab",
    "--><script>alert(2)</script><!--",
    "&lt;b&gt; $\\frac{1}{0}$",
]


def model(X):
    return X["age"] / 80 + (X["city"] == "Oslo") * X["income"] + X["member"]


def two(X):
    return np.column_stack([model(X), -model(X)])


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def one():
    return cx.BayesSHAP(model, FRAME).explain(FRAME.iloc[0], queries=80)


@pytest.fixture(scope="module")
def batch():
    return cx.BayesSHAP(model, FRAME).explain_many(FRAME.iloc[:30], queries=60)


@pytest.fixture(scope="module")
def outputs():
    return cx.BayesSHAP(two, FRAME).explain(FRAME.iloc[0], queries=80)


# -- shap ----------------------------------------------------------------------------------------


@pytest.fixture
def shap():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shap's own
        yield need("shap")


def test_to_shap_of_one(shap, one):
    s = one.to_shap()
    np.testing.assert_array_equal(s.values, one.mean)
    assert s.base_values == one.base_value
    assert list(s.feature_names) == list(one.names)
    assert s.data[0] == FRAME["age"][0]
    assert list(s.display_data)[1] == FRAME["city"][0]
    np.testing.assert_array_equal(s.lower_bounds, one.interval().lower)
    np.testing.assert_array_equal(s.error_std, one.sd)
    assert s.values.sum() + s.base_values == pytest.approx(one.prediction)


def test_to_shap_of_a_batch(shap, batch):
    s = batch.to_shap()
    np.testing.assert_array_equal(s.values, batch.mean)
    assert s.base_values.shape == (30,)
    assert s.data.shape == (30, 4)
    # codes tell cities apart as their names do
    cities = dict(zip(s.data[:, 1], s.display_data[:, 1], strict=True))
    assert len(cities) == FRAME["city"][:30].nunique()
    assert [cities[code] for code in s.data[:, 1]] == list(FRAME["city"][:30])


def test_to_shap_of_several_outputs(shap, outputs):
    s = outputs.to_shap()
    assert s.values.shape == (4, 2)
    assert s.base_values.shape == (2,)
    np.testing.assert_array_equal(s[:, 1].values, outputs.mean[:, 1])
    rows = cx.BayesSHAP(two, FRAME).explain_many(FRAME.iloc[:3], queries=60).to_shap()
    assert rows.values.shape == (3, 4, 2)
    assert rows.base_values.shape == (3, 2)


def test_every_plot_of_shap_draws_it(shap, one, batch, outputs):
    s, rows, several = one.to_shap(), batch.to_shap(), outputs.to_shap()
    p = shap.plots
    drawings = [
        lambda: p.bar(s, show=False),
        lambda: p.bar(rows, show=False),
        lambda: p.waterfall(s, show=False),
        lambda: p.waterfall(rows[3], show=False),
        lambda: p.waterfall(several[:, 1], show=False),
        lambda: p.beeswarm(rows, show=False),
        lambda: p.scatter(rows[:, "income"], color=rows, show=False),
        lambda: p.scatter(rows[:, "city"], show=False),
        lambda: p.heatmap(rows, show=False),
        lambda: p.force(s, matplotlib=True, show=False),
        lambda: p.decision(
            s.base_values, rows.values, feature_names=list(rows.feature_names), show=False
        ),
        lambda: p.violin(rows, show=False),
        lambda: p.group_difference(
            rows.values, FRAME["member"][:30].to_numpy(), list(FRAME.columns), show=False
        ),
    ]
    for draw in drawings:
        draw()
        figure = plt.gcf()
        figure.canvas.draw()
        pixels = np.asarray(figure.canvas.buffer_rgba())
        assert pixels[..., :3].std() > 1, draw  # something is there
        plt.close("all")
    # shap's page of many rows takes one base value
    assert "Rome" in p.force(rows.base_values.mean(), rows.values, rows.display_data).html()


def test_the_waterfall_of_shap_has_our_intervals_as_whiskers(shap, one):
    shap.plots.waterfall(one.to_shap(), show=False)
    bars = [c for ax in plt.gcf().axes for c in ax.containers if isinstance(c, ErrorbarContainer)]
    ends = [np.diff(line[:, 0])[0] for bar in bars for line in bar.lines[2][0].get_segments()]
    np.testing.assert_allclose(np.sort(ends), np.sort(one.interval().width), rtol=0.01)


def test_texts_in_shaps_text_plot(shap):
    def count(texts):
        return [len(t.split()) + 4.0 * ("free" in t) for t in texts]

    explainer = cx.BayesSHAP(count, cx.Text())
    e = explainer.explain("Win a free phone, now!")
    s = e.to_shap()
    assert "".join(s.data) == "Win a free phone, now!"
    assert list(s.feature_names) == list(e.names)
    assert "free" in shap.plots.text(s, display=False)
    shap.plots.bar(s, show=False)
    rows = explainer.explain_many(["a free phone", "hello dear friend of mine"]).to_shap()
    assert "friend" in shap.plots.text(rows, display=False)
    assert list(rows[1].data)[-1] == "mine"


def test_failed_rows_are_left_out_with_a_warning(shap):
    def picky(X):
        if (X["income"] > 900).any():
            raise ValueError("too rich")
        return model(X)

    rows = FRAME.iloc[:4].copy()
    rows.loc[2, "income"] = 1000.0
    found = cx.BayesSHAP(picky, FRAME).explain_many(rows, queries=60, on_error="record")
    warnings.resetwarnings()
    with pytest.warns(UserWarning, match="1 of 4 rows have no explanation and are left out"):
        s = found.to_shap()
    assert s.values.shape == (3, 4)


def test_lime_explanations_warn_that_they_do_not_add_up(shap):
    e = cx.BayesLIME(model, FRAME).explain(FRAME.iloc[0], queries=100)
    warnings.resetwarnings()
    with pytest.warns(UserWarning, match=r"local_prediction at most, not to f\(x\)"):
        e.to_shap()


def test_without_shap_the_error_says_what_to_install(one, monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(cx.MissingExtraError, match=r"credex\[shap\]"):
        one.to_shap()


# -- lime ----------------------------------------------------------------------------------------


def test_as_list_and_as_map(one, outputs):
    assert [w for _, w in one.as_list()] == [w for _, w in one.as_map()[0]]
    assert one.as_list()[0] == (one.labels[one.as_map()[0][0][0]], one.as_map()[0][0][1])
    assert outputs.as_list(label=1) == outputs.as_list(output=1)
    assert set(outputs.as_map()) == {0, 1}
    with pytest.raises(cx.InputError, match="say which output"):
        outputs.as_list()


def test_a_target_is_a_label():
    e = cx.BayesSHAP(two, FRAME, target=1).explain(FRAME.iloc[0], queries=80)
    assert list(e.as_map()) == [1]
    assert e.as_list(label=1) == e.as_list()
    with pytest.raises(cx.InputError, match="no output 2"):
        e.as_list(label=2)


def test_figures_pages_and_notebooks(outputs, tmp_path, monkeypatch):
    assert isinstance(outputs.as_pyplot_figure(label=1), plt.Figure)
    outputs.save_to_file(tmp_path / "all.html")
    outputs.save_to_file(str(tmp_path / "one.html"), labels=[1])
    both, single = ((tmp_path / f).read_text("utf-8") for f in ("all.html", "one.html"))
    assert both.count("<table>") == 2
    assert single.count("<table>") == 1
    shown = []
    monkeypatch.setattr(need("IPython.display"), "display", shown.append)
    outputs.show_in_notebook()
    assert shown[0].data.count("<table>") == 2


class Strict(HTMLParser):
    """Raises on anything that could run."""

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "img", "iframe", "object", "embed", "link"), tag
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert "javascript:" not in (value or "")


@pytest.mark.filterwarnings("ignore:Glyph")
def test_hostile_names_values_and_labels(tmp_path):
    frame = pd.DataFrame({name: RNG.normal(size=50) for name in HOSTILE[:-1]})
    frame[HOSTILE[-1]] = RNG.choice(HOSTILE, 50)

    def predict(X):
        y = X.iloc[:, 0] + X.iloc[:, 1] ** 2 + (X.iloc[:, -1] == HOSTILE[0])
        return pd.DataFrame({HOSTILE[0]: y, HOSTILE[2]: -y, HOSTILE[6]: 2 * y})

    for kind in (cx.BayesSHAP, cx.BayesLIME):
        e = kind(predict, frame).explain(frame.iloc[0], queries=80)
        path = tmp_path / "why <b>&'🦊.html"
        e.save_to_file(path)
        page = path.read_text(encoding="utf-8")
        Strict().feed(page)
        assert "alert" in page  # shown as text
        assert len(page) < 200_000
        e.as_pyplot_figure(label=0).canvas.draw()
        assert len(e.as_list(label=2)) == 8


def test_hostile_texts_and_classes_of_the_compat_explainers():
    text = " ".join(HOSTILE)

    def classify(texts):
        p = np.array([0.1 + 0.8 * ("alert" in t) for t in texts])
        return np.column_stack([1 - p, p])

    names = [HOSTILE[0], HOSTILE[6]]
    found = lime.LimeTextExplainer(class_names=names).explain_instance(
        text, classify, num_samples=200
    )
    Strict().feed(found.as_html())
    X = RNG.normal(size=(60, 8))
    table = lime.LimeTabularExplainer(X, feature_names=HOSTILE, class_names=names)
    found = table.explain_instance(
        X[0], lambda x: classify(["alert" if v > 0 else "" for v in x[:, 0]])
    )
    Strict().feed(found.as_html())
    assert any(name.startswith(HOSTILE[0]) or HOSTILE[0] in name for name, _ in found.as_list())


# -- ArviZ ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_arviz_summarises_the_posterior(one, outputs):
    az = need("arviz")
    data = one.to_arviz(draws=500, chains=2, seed=1)
    drawn = data.posterior["importance"]
    assert drawn.dims == ("chain", "draw", "feature")
    assert drawn.shape == (2, 500, 4)
    summary = az.summary(data, round_to=None)
    np.testing.assert_allclose(summary["mean"], one.mean, atol=6 * one.sd.max() / np.sqrt(1000))
    assert summary.index[0] == "importance[age]"
    np.testing.assert_allclose(summary["sd"][one.sd > 0], one.sd[one.sd > 0], rtol=0.25)
    several = outputs.to_arviz(draws=50)
    assert several.posterior["importance"].dims == ("chain", "draw", "feature", "output")
    assert several.posterior["importance"].shape == (4, 50, 4, 2)
    az.plot_forest(data, combined=True)
    plt.gcf().canvas.draw()
    with pytest.raises(cx.InputError, match="draws"):
        one.to_arviz(draws=0)


def test_without_arviz_the_error_says_what_to_install(one, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(cx.MissingExtraError, match=r"credex\[arviz\]"):
        one.to_arviz()
