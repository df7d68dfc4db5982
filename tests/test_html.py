"""HTML of results: escaped, well formed, with an axis, in light and dark."""

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import credex as cx
from credex.markup import DARK, LIGHT, Scale
from credex.posteriors import Belief

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "it's \"quoted\" & 'more'",
    "x" * 5000,
    "🙂👩‍👩‍👧 emoji",
    "שלום עולם",
    "مرحبا",
    "line\nbreak\tand\x00nul",
    "turned \u202e around",
    "$x_1^{2$ \\frac{",
    "half \ud83d a character",
    "",
]
VOID = {"meta", "br", "img", "path", "rect"}


class Page(HTMLParser):
    """Tags in use, those left open, and the text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], set(), [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text.append(data)


def checked(text):
    page = Page(text)
    assert page.open == []
    assert not page.tags & {"script", "img", "iframe", "link", "object"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert not [v for name, v in page.attributes if name in ("href", "src")]
    assert not re.search(r"https?://|url\(|@import", text)
    assert "nan" not in "".join(page.text).lower().replace("nance", "")
    return page


def hostile_model(k=1):
    w = np.linspace(-2, 3, len(HOSTILE) * k).reshape(-1, k)

    def v(masks):
        y = masks @ w + np.sin(3 * masks @ w[::-1])
        return y[:, 0] if k == 1 else y

    return cx.BayesSHAP(v, cx.Masks(len(HOSTILE), names=HOSTILE))


E = hostile_model().explain(queries=60)


def with_belief(e, mean, sd):
    mean, sd = np.asarray(mean, dtype=float), np.asarray(sd, dtype=float)
    belief = Belief(mean[:, None], np.diag(np.broadcast_to(sd**2, len(mean)))[:, :, None], 1e6)
    estimate = dataclasses.replace(e.estimate, belief=belief, exact=False)
    return dataclasses.replace(e, estimate=estimate)


def test_hostile_names_and_outputs_stay_text():
    text = " ".join(checked(E._repr_html_()).text)
    assert "<script>alert(1)</script>" in text
    assert "\u202e" not in text
    assert "\ud83d" not in text
    assert max(map(len, text.split())) < 60  # 5,000 letters are shortened
    two = dataclasses.replace(hostile_model(2).explain(queries=60), outputs=tuple(HOSTILE[:2]))
    checked(two._repr_html_())


def test_hostile_values_labels_and_failures_stay_text():
    instance = dataclasses.replace(
        E.instance, feature_values=tuple(HOSTILE), labels=tuple(HOSTILE), label=HOSTILE[1]
    )
    e = dataclasses.replace(E, instance=instance, notes=tuple(HOSTILE))
    checked(e.to_html())
    failed = cx.Failure(HOSTILE[0], ValueError(HOSTILE[1]))
    batch = cx.Explanations((e, failed, None), 9, 2, 1.0, HOSTILE[0], complete=False)
    page = checked(batch.to_html())
    assert "Caution: 2 of 3 rows have no explanation." in page.text


def test_a_page_is_written_and_needs_nothing_else(tmp_path):
    path = tmp_path / "why <1>.html"
    assert E.to_html(path) == path.read_text(encoding="utf-8")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert len(E.to_html()) < 60_000


def test_marks_show_sign_and_doubt_without_the_colour_of_the_ground():
    e = cx.BayesSHAP(lambda m: m @ [1.0, 1, 1, 1], cx.Masks(4)).explain()
    page = with_belief(e, [3.0, -2.0, 0.1, -0.1], [0.25, 0.25, 0.5, 0.5])._repr_html_()
    marks = re.findall(r'<g class="(\w+)".*?</g>', page)
    assert marks == ["up", "down", "up", "down"]
    groups = re.findall(r'<g class="\w+".*?</g>', page)
    assert ['class="open"' in g for g in groups] == [False, False, True, True]
    assert "Canvas" not in "".join(groups)  # hollow marks are not filled at all
    assert 'fill="none"' in groups[2]


def test_marks_stand_where_the_axis_says():
    scale = Scale.over([0.0, -1.0, 4.0])
    assert scale.ticks == (-1, 0, 1, 2, 3, 4)
    drawn = scale.mark(2.0, (1.0, 3.0), (1.5, 2.5))
    ends = [float(x) for x in re.findall(r"[MH]([\d.]+)[ H\"M]", drawn.split("<g")[1])]
    assert scale.x(1.0) == pytest.approx(ends[0], abs=0.06)
    assert scale.x(3.0) in [pytest.approx(x, abs=0.06) for x in ends]
    words = re.findall(r'<text x="([\d.]+)"[^>]*>([^<]+)</text>', scale.axis())
    assert [(float(x), t) for x, t in words] == [
        (pytest.approx(scale.x(t), abs=0.06), f"{t:g}".replace("-", "−")) for t in scale.ticks
    ]
    assert float(re.search(r'd="M([\d.]+) -2V', drawn).group(1)) == pytest.approx(
        scale.x(0.0), abs=0.06
    )


@pytest.mark.parametrize("values", [[0.0], [1e-300, 2e-300], [-1e200, 1e200], [5.0, 5.0]])
def test_odd_scales(values):
    scale = Scale.over(values)
    checked(scale.axis() + scale.mark(values[0], (values[0], values[-1])))
    assert 1 <= len(scale.ticks) <= 8
    assert all(0 <= scale.x(v) <= 220 for v in values)


@pytest.mark.parametrize("sd", [np.inf, [np.inf, 0.1, 0.1, 0.1], 0.0])
def test_unknown_and_exact_importances(sd):
    e = cx.BayesSHAP(lambda m: m @ [1.0, 1, 1, 1], cx.Masks(4)).explain()
    mean = np.full(4, np.nan) if np.isscalar(sd) and np.isinf(sd) else [1.0, 2, 3, 4]
    checked(with_belief(e, mean, sd)._repr_html_())


def contrast(first, second):
    def luminance(colour):
        c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        c = np.where(c <= 0.03928, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
        return float(c @ [0.2126, 0.7152, 0.0722])

    a, b = sorted((luminance(first), luminance(second)))
    return (b + 0.05) / (a + 0.05)


@pytest.mark.parametrize(("theme", "ground"), [(LIGHT, "#ffffff"), (DARK, "#121212")])
def test_colours_are_seen_in_light_and_dark(theme, ground):
    colours = re.findall(r"#\w{6}", theme)
    assert len(colours) == 3
    assert min(contrast(c, ground) for c in colours) >= 4.5
    assert theme in E.to_html()


def test_a_forecast_says_and_draws_what_is_spent_and_to_come():
    f = cx.Forecast(800, 500, 1300, 1600, 2.5, 200, 0.05, 0.95, cost=1.25)
    page = checked(f.to_html())
    assert str(f) in "".join(page.text)
    assert "1,000 (700 … 1,500)" in page.text
    assert dict(page.attributes)  # an axis and two marks
    assert f._repr_html_().count("<svg") == 3
    never = dataclasses.replace(f, queries=np.inf, low=np.inf, high=np.inf)
    assert "cannot be reached" in "".join(checked(never._repr_html_()).text)
    checked(dataclasses.replace(f, high=np.inf)._repr_html_())


def test_a_verification_shows_coverage_against_the_promise():
    v = cx.Verification(0.7, 0.6, 0.8, 0.95, 9, 90, 0.1, np.array([0.5, np.nan, 0.9]), True, 4000)
    page = checked(v.to_html())
    assert "too narrow" in "".join(page.text)
    assert 'class="up"' in v._repr_html_()  # a colour that warns
    good = dataclasses.replace(v, coverage=0.95, low=0.92, high=0.98)
    assert 'class="up"' not in good._repr_html_()
    nothing = dataclasses.replace(v, features=0, by_row=np.array([np.nan]))
    assert "known exactly" in "".join(checked(nothing._repr_html_()).text)


def test_a_batch_lists_features_and_rows():
    X = np.random.default_rng(0).normal(size=(30, 3))
    shap = cx.BayesSHAP(lambda Z: Z[:, 0] * 3 + Z[:, 1] * Z[:, 2], X)
    batch = shap.explain_many(X[:25], queries=40, progress=False)
    page = checked(batch._repr_html_())
    assert "… and 5 more rows" in page.text
    assert page.text.count("x0") > 3
    assert batch.verdict().splitlines()[0].startswith("x0 is the most important feature on average")
    assert batch.verdict().splitlines()[0].replace("φ", "φ") in "".join(page.text)
    checked(cx.Explanations((), 0, 0, 0.0, "none")._repr_html_())
