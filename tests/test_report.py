"""Reports: one file that needs nothing else, with the posterior's numbers and the verdict."""

import base64
import dataclasses
import hashlib
import json
import re
from html import unescape

import numpy as np
import pytest
from scipy import stats

import credex as cx
from credex import verdict
from credex.report.assets import json_for_script
from credex.report.batch import MAX_ROWS
from credex.report.data import LEVELS, explanation_data
from credex.verdict import judge
from tests.test_html import HOSTILE, hostile_model, with_belief

FAST = {"queries": 60}


def table_model(k=2, n=40, d=4, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    w = np.linspace(-1, 2, d * k).reshape(d, k)

    def model(Z):
        y = np.tanh(Z @ w) + Z[:, :1] * Z[:, 1:2]
        return y[:, 0] if k == 1 else y

    return model, X


MODEL, X = table_model()
EXPLAINER = cx.BayesSHAP(MODEL, X)
E = EXPLAINER.explain(X[0], **FAST)
BATCH = EXPLAINER.explain_many(X[:6], queries=40, progress=False)


def page_of(thing, tmp_path, **options):
    path = thing.report(tmp_path / "report.html", **options)
    return path.read_text(encoding="utf-8")


def data_of(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def audit_of(text):
    section = text[text.index('<section class="audit"') : text.index("</section>")]
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", section)))


def test_a_page_needs_no_other_file(tmp_path):
    for thing in (E, BATCH):
        text = page_of(thing, tmp_path)
        assert set(re.findall(r"\w+://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}  # a name
        assert not re.search(r"\b(src|href|action)\s*=\s*[\"']|url\(|@import|\bfetch\(", text)
        assert "innerHTML" not in text
        assert len(text) < 200_000


def test_only_the_page_s_own_script_and_style_may_run(tmp_path):
    text = page_of(E, tmp_path)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (own,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_numbers_are_the_posterior_s(tmp_path):
    data = data_of(page_of(E, tmp_path))
    assert data["levels"] == ["50 %", "80 %", "90 %", "95 %", "99 %", "99.9 %"]
    assert data["levels"][data["level"]] == "95 %"
    wide = [stats.t.ppf(0.5 + level / 2, E.dof) for level in LEVELS]
    np.testing.assert_allclose(data["quantiles"], wide, rtol=1e-5)
    for j, shown in enumerate(data["outputs"]):
        features = shown["features"]
        np.testing.assert_allclose(shown["mean"], E.mean[features, j], rtol=1e-5)
        half = np.array(shown["scale"]) * data["quantiles"][data["level"]]
        np.testing.assert_allclose(2 * half, E.interval().width[features, j], rtol=1e-5)
        np.testing.assert_allclose(shown["p"], E.prob_positive[features, j], atol=1e-4)
        assert sorted(features) == [0, 1, 2, 3]


def test_sentences_are_those_of_the_verdict_at_each_level():
    data = explanation_data(E)
    for level, pairs in zip(LEVELS, data["outputs"][1]["verdicts"], strict=True):
        said = judge(E, 1, level)
        assert tuple(words for _, words in pairs) == said.lines
        assert [kind for kind, _ in pairs].count("caution") == len(said.caution)
    low, high = E.rank_range(output=0, level=0.99)
    i = data["outputs"][0]["features"][0]
    shown = data["outputs"][0]["ranks"][LEVELS.index(0.99)][0]
    assert shown == (f"{low[i]}-{high[i]}" if low[i] < high[i] else str(low[i]))


def test_the_own_level_is_on_the_slider_and_levels_can_be_left_unsaid():
    e = dataclasses.replace(E, level=0.85)
    data = explanation_data(e, said=[0.85], outputs=[1])
    assert data["levels"][data["level"]] == "85 %"
    assert [v is not None for v in data["outputs"][0]["verdicts"]] == [
        level == "85 %" for level in data["levels"]
    ]


@pytest.mark.parametrize("sd", [np.inf, [np.inf, 0.1, 0.1, 0.1], 0.0])
def test_unknown_and_exact_importances_are_json(sd, tmp_path):
    e = cx.BayesSHAP(lambda m: m @ [1.0, 1, 1, 1], cx.Masks(4)).explain()
    mean = np.full(4, np.nan) if np.isscalar(sd) and np.isinf(sd) else [1.0, 2, 3, 4]
    data = data_of(page_of(with_belief(e, mean, sd), tmp_path))
    scales = np.array(data["outputs"][0]["scale"], dtype=float)
    assert np.isnan(scales).sum() == np.isinf(np.broadcast_to(sd, 4)).sum()
    assert data["outputs"][0]["exact"] == ("all alike so far" if sd == 0.0 else "exact")


def test_tiny_numbers_have_a_unit(tmp_path):
    e = cx.BayesSHAP(lambda m: 1e-9 * (m @ [1.0, 2, 3]), cx.Masks(3)).explain()
    shown = data_of(page_of(e, tmp_path))["outputs"][0]
    assert shown["unit"] == " ×10⁻⁹"
    np.testing.assert_allclose(shown["mean"], [3, 2, 1], rtol=1e-6)


def hostile_explanation():
    e = hostile_model().explain(queries=60)
    instance = dataclasses.replace(
        e.instance, feature_values=tuple(HOSTILE), labels=tuple(HOSTILE), label=HOSTILE[0]
    )
    settings = {
        **e.settings,
        "model": HOSTILE[1],
        "cohort": HOSTILE[9],
        "limits": {"stop": "</pre>"},
    }
    return dataclasses.replace(
        e, instance=instance, notes=tuple(HOSTILE), outputs=("</script><b>",), settings=settings
    )


def hostile_batch():
    e = hostile_explanation()
    items = [
        dataclasses.replace(e, instance=dataclasses.replace(e.instance, label=label))
        for label in (*HOSTILE[:5], HOSTILE[-1])
    ]
    failed = cx.Failure(HOSTILE[0], ValueError(HOSTILE[1]))
    return cx.Explanations((*items, failed, None), 9, 2, 1.0, HOSTILE[0], complete=False)


@pytest.mark.parametrize("make", [hostile_explanation, hostile_batch])
def test_hostile_words_stay_words(make, tmp_path):
    folder = tmp_path / "<b>'\" & ünïcödé 🙂"
    folder.mkdir()
    for title in (HOSTILE[0], "x" * 5000 + "\u2028"):
        path = make().report(folder / "<script>alert(1).html", title=title)
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"<script[^>]*>", text) == [
            '<script type="application/json" id="data">',
            "<script>",
        ]
        assert text.count("</script>") == 2
        assert not re.search(r"<(img|b|iframe)\b", text)
        assert not set(text) & {"\u202e", "\x00", "\u2028"}
        assert "x" * 500 not in text  # 5,000 letters are shortened
        assert len(text) < 400_000
        data_of(text)


def test_json_for_a_script_cannot_leave_it():
    hard = {"</script><!--&\u2028\u2029": [float(1), None, "half \ud83d a character"]}
    text = json_for_script(hard)
    assert text.isascii()
    assert not set("<>&") & set(text)
    assert json.loads(text) == hard
    with pytest.raises(ValueError, match="JSON"):
        json_for_script(float("nan"))


def test_the_auditor_finds_how_it_was_made(tmp_path):
    said = audit_of(page_of(E, tmp_path))
    for words in (
        "Method BayesSHAP, ",
        "Model model ",
        f"digest) {E.data_digest} ",
        "Seed 0 ",
        "Limits of the call queries=60 ",
        f"{E.n_queries:,}, which took {E.n_model_rows:,} model rows ",
        "the queries were used up",
        "Requested precision none was requested",
        f"by credex {cx.__version__}",
        "background rows that were not asked",
        "errors of the model",
        "causes: ",
        "explain(x, seed=0, level=0.95, queries=60)",
        '"link": "identity"',
        "Not measured for this report. v = explainer.verify(X)",
    ):
        assert words in said, words
    assert re.search(r"Report written 20\d\d-\d\d-\d\d \d\d:\d\d UTC", said)


def test_what_intervals_include_depends_on_the_run(tmp_path):
    masks = cx.BayesSHAP(MODEL, cx.Tabular(X, background=1)).explain(X[0], queries=13)
    include, exclude = audit_of(page_of(masks, tmp_path)).split("They do not include")
    assert "background rows that were not asked" not in include
    assert "a sample from a larger population" in exclude
    exact = cx.BayesSHAP(lambda m: m @ [1.0, 2, 3], cx.Masks(3)).explain()
    assert "so the importances are exact" in audit_of(page_of(exact, tmp_path))
    lime = cx.BayesLIME(MODEL, X).explain(X[0], target=0, queries=80)
    said = audit_of(page_of(lime, tmp_path))
    assert "perturbations of the instance that were not asked" in said
    assert "how far the model is from linear" in said
    assert "larger population" not in said
    population = EXPLAINER.explain(X[0], background_uncertainty=True, **FAST)
    include, exclude = audit_of(page_of(population, tmp_path)).split("They do not include")
    assert "a sample from a larger population" in include
    assert "a sample from a larger population" not in exclude


def test_measured_coverage_is_in_the_page(tmp_path):
    v = EXPLAINER.verify(X[:4], queries=40)
    for thing in (E, BATCH):
        said = audit_of(page_of(thing, tmp_path, verification=v))
        assert str(v) in said
        assert f"the check took {v.n_model_rows:,} model rows" in said
        assert "Not measured" not in said
        assert f"95 % {v.coverage:.1%} {v.low:.1%} … {v.high:.1%}" in said


def test_a_batch_has_means_rows_and_losses(tmp_path):
    items = (*BATCH.items, cx.Failure("last", ValueError("bad cell")), None)
    batch = dataclasses.replace(BATCH, items=items)
    text = page_of(batch, tmp_path)
    data = data_of(text)
    assert [row["label"] for row in data["rows"]] == [f"Row {i}" for i in range(6)]
    assert "names" not in data["rows"][0]  # said once
    summary = data["summary"][1]["levels"]
    assert [s is not None for s in summary] == [True] * 5 + [False]  # draws end at 99 %
    own = summary[data["levels"].index("95 %")]
    assert "\n".join(words for _, words in own["verdict"]) == batch.verdict(output=1)
    widths = [np.subtract(s["upper"], s["lower"]).mean() for s in summary[:5]]
    assert widths == sorted(widths)
    said = audit_of(text)
    assert "row 'last': ValueError: bad cell" in said
    assert "row 7: not reached" in said
    assert "8, of which 6 have an explanation" in said


def test_rows_of_the_page_can_be_chosen(tmp_path):
    data = data_of(page_of(BATCH, tmp_path, rows=[4, 1]))
    assert [row["label"] for row in data["rows"]] == ["Row 4", "Row 1"]
    assert data["note"] == "2 of 6 rows are in this page."
    assert data["heading"] == "Over 6 rows"
    for wrong in ([9], [], ["x"]):
        with pytest.raises(cx.InputError, match="positions of explained rows"):
            page_of(BATCH, tmp_path, rows=wrong)


def test_an_empty_batch_has_a_page(tmp_path):
    text = page_of(cx.Explanations((), 0, 0, 0.0, "none"), tmp_path)
    assert data_of(text) == {"rows": None}
    assert "For the auditor" in text


def test_rows_with_features_of_their_own(tmp_path):
    texts = ["one free phone", "two", "a much longer message about nothing"]
    model = cx.BayesSHAP(lambda t: [len(s) + 9.0 * ("free" in s) for s in t], cx.Text())
    data = data_of(page_of(model.explain_many(texts, progress=False), tmp_path))
    assert [len(row["names"]) for row in data["rows"]] == [3, 1, 6]
    own = data["summary"][0]["levels"][data["levels"].index("95 %")]
    assert own["mean"] is None
    assert "features of their own" in own["verdict"][-1][1]
    assert "".join(piece for piece, _ in data["rows"][0]["text"]) == texts[0]


def test_images_and_series_come_as_pictures(tmp_path):
    image = np.random.default_rng(0).random((24, 24, 3))
    model = cx.BayesSHAP(lambda z: np.asarray(z).mean((1, 2, 3)), cx.Image(cx.Grid(3, 3)))
    series = cx.BayesSHAP(lambda z: np.asarray(z).sum(axis=1), cx.Series(4))
    for e in (model.explain(image, queries=40), series.explain(np.sin(np.arange(40.0)))):
        picture = data_of(page_of(e, tmp_path))["outputs"][0]["picture"]
        drawn = [base64.b64decode(picture[t].partition(",")[2]) for t in ("light", "dark")]
        assert all(png.startswith(b"\x89PNG") for png in drawn)
        assert drawn[0] != drawn[1]
        assert picture["alt"]
    many = cx.Explanations((e,) * 25, 9, 2, 1.0, "none")
    data = data_of(page_of(many, tmp_path))
    assert data["note"] == "Pages of more than 24 rows have no pictures."
    assert "picture" not in data["rows"][0]["outputs"][0]


def test_wrong_paths_and_arguments_are_told_early(tmp_path):
    with pytest.raises(cx.OutputError, match="is a folder; name a file in it"):
        E.report(tmp_path)
    with pytest.raises(cx.OutputError, match="there is no folder"):
        BATCH.report(tmp_path / "none" / "why.html")
    with pytest.raises(cx.InputError, match="path must be a file name"):
        E.report(3)
    with pytest.raises(cx.InputError, match=r"what explainer.verify\(X\) returned; got float"):
        E.report(tmp_path / "why.html", verification=0.95)
    with pytest.raises(cx.OutputError, match="cannot be written"):
        E.report(tmp_path / ("x" * 300 + ".html"))
    assert list(tmp_path.iterdir()) == []


def test_the_call_and_the_model_are_recorded_and_survive_json():
    def my_model(z):
        return z.sum(axis=1)

    run = cx.BayesSHAP(my_model, X)
    rule = cx.RankingSettled(1, 0.9)
    e = run.explain(X[0], width=[0.5], max_queries=50, stop=rule)
    assert e.settings["model"] == "my_model"
    assert e.settings["limits"] == {"width": [0.5], "max_queries": 50, "stop": repr(rule)}
    assert cx.Explanation.from_json(e.to_json()).settings == e.settings
    assert run.explain(X[0]).settings["limits"] == {}


@pytest.mark.slow
@pytest.mark.parametrize(("k", "d"), [(1, 30), (3, 12)])
def test_pages_of_large_batches_are_below_a_megabyte(k, d, tmp_path, monkeypatch):
    monkeypatch.setattr(verdict, "N_DRAWS", 1_000)  # sentences as long, in less time
    model, X = table_model(k, 60, d)
    one = cx.BayesSHAP(model, X).explain(X[0], queries=80, posterior="linear")
    batch = cx.Explanations((one,) * (MAX_ROWS + 50), 9, 2, 1.0, "none")
    text = page_of(batch, tmp_path)
    data = data_of(text)
    assert len(text) < 1_000_000
    assert 100 < len(data["rows"]) <= MAX_ROWS
    assert len(text) > 700_000 or len(data["rows"]) == MAX_ROWS  # and no smaller than need be
    assert f"of {MAX_ROWS + 50} rows are in this page" in data["note"]
    assert data["rows"][0]["outputs"][0]["verdicts"].count(None) == 5  # said at one level only
