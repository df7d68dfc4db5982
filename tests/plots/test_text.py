"""Texts and series as pictures: what is drawn, and what must never get through."""

import html.parser
import re

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

mpl.use("Agg")

from matplotlib import pyplot as plt

import credex as cx
from credex.plots.text import visible

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def score(rows):
    return np.array(
        [3.0 * ("free" in t) - 1.0 * ("meeting" in t) + 0.2 * len(t) % 0.7 for t in rows]
    )


def explained(text, queries=80, **options):
    return cx.BayesSHAP(score, cx.Text(**options)).explain(text, queries=queries)


E = explained("a free phone for you, the sender, before this meeting or the next one")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


class Page(html.parser.HTMLParser):
    """Tags in order, and the text between them by the class of the tag around it."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.parts, self.stack = [], [], []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.stack.append(dict(attrs))

    def handle_endtag(self, tag):
        if tag not in ("meta", "br"):
            self.stack.pop()

    def handle_data(self, data):
        inside = any(a.get("class") == "words" for a in self.stack)
        if inside:
            self.parts.append((data, self.stack[-1]))

    @property
    def text(self):
        return "".join(data for data, _ in self.parts)

    def word(self, word):
        return next(attrs for data, attrs in self.parts if data == word)


def test_colour_by_importance_and_underline_by_certainty():
    page = Page(E.plot.text().html)
    assert page.text == E.payload["text"]
    free, meeting = page.word("free"), page.word("meeting")
    assert free["class"] == "up sure"
    assert meeting["class"] == "down sure"

    def alpha(attrs):
        return float(attrs["style"].removeprefix("--a:"))

    ratio = abs(E.mean[E.names.index("meeting")] / E.mean[E.names.index("free")])
    assert alpha(meeting) / alpha(free) == pytest.approx(ratio, abs=0.01)
    assert alpha(free) == pytest.approx(0.72)
    i = E.interval()
    for name, lower, upper in zip(E.names, i.lower, i.upper, strict=True):
        attrs = page.word(name.split(" #")[0])
        if " #" not in name and attrs.get("class"):
            assert attrs["class"].endswith(" sure") == (lower > 0 or upper < 0), name
    assert "free: " in free["title"]
    assert "…" in free["title"]


def test_level_decides_certainty():
    loose, strict = E.plot.text(level=0.5), E.plot.text(level=0.999999)
    sure = [sum(p.certain for p in t.pieces) for t in (loose, strict)]
    assert sure[0] > sure[1]
    assert "50 %" in loose.html
    with pytest.raises(cx.InputError, match="level"):
        E.plot.text(level=95)


def test_page_is_whole_and_needs_nothing_else():
    page = E.plot.text().html
    assert page.startswith("<!doctype html>")
    assert "prefers-color-scheme:dark" in page
    assert "http" not in page
    assert "<script" not in page
    assert 'dir="auto"' in page
    assert E.plot.text()._repr_html_() in page


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=40))
def test_any_text_is_escaped_and_harmless(text):
    try:
        e = explained(text, queries=None, unit=re.compile(r"\S+"))
    except cx.InputError:
        assume(False)
    plot = e.plot.text()
    page = Page(plot.html)
    expected = visible(text)
    assert page.text == expected
    assert set(page.tags) <= {
        *("html", "head", "meta", "title", "style", "body"),
        *("div", "span", "b", "i", "br"),
    }
    assert not any(ord(c) < 32 and c not in "\n\t" for c in plot.html)
    assert ESCAPE.sub("", plot.terminal(colour=True)).count("\x1b") == 0
    assert "\x1b" not in plot.terminal(colour=False)


def test_markup_and_control_characters():
    text = '<script>alert("free")</script> & \x1b[31m free\u202e \x07 \x85'
    page = explained(text).plot.text().html
    assert "<script" not in page
    assert "&lt;" in page
    assert "&amp;" in page
    assert "\x1b" not in page
    assert "␛" in page
    assert "␇" in page
    assert "\u202e" not in page
    named = explained("x y", unit={'"><img src=x onerror=y>': (0, 1), "</style>": (2, 3)})
    page = named.plot.text().html
    assert "<img" not in page
    assert page.count("</style>") == page.count("<style>") == 2


def test_terminal():
    plot = E.plot.text()
    plain = plot.terminal(colour=False)
    assert "[+++free]" in plain
    assert "-meeting]" in plain
    assert "\x1b" not in plain
    coloured = plot.terminal(colour=True)
    assert "\x1b[4;38;5;16;48;5;208mfree\x1b[0m" in coloured
    assert E.payload["text"] in ESCAPE.sub("", coloured)
    assert str(plot) == plain  # a pipe is no terminal
    assert "14 parts" in repr(plot)


def test_colour_follows_the_terminal(monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" in str(E.plot.text())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in str(E.plot.text())


def test_colours_end_with_their_line():
    e = explained("one free\nphone. The meeting.", unit="sentence")
    for line in e.plot.text().terminal(colour=True).split("\n"):
        assert line.count("\x1b[0m") == len(ESCAPE.findall(line)) / 2


def test_right_to_left_and_shared_words():
    e = explained("שלום free עולם, free", repeats="shared")
    page = Page(e.plot.text().html)
    assert page.text == "שלום free עולם, free"
    styles = [a["style"] for data, a in page.parts if data == "free"]
    assert len(styles) == 2
    assert styles[0] == styles[1]
    assert "unicode-bidi:plaintext" in e.plot.text().html


def test_save(tmp_path):
    plot = E.plot.text()
    assert plot.save(tmp_path / "why.html").read_text(encoding="utf-8") == plot.html
    assert "[+++free]" in plot.save(tmp_path / "why.txt").read_text(encoding="utf-8")
    with pytest.raises(cx.InputError, match=r"why\.pdf.*\.html"):
        plot.save(tmp_path / "why.pdf")


def test_after_json_and_zoom():
    e = cx.Explanation.from_json(E.to_json())
    assert e.plot.text().html == E.plot.text().html
    shap = cx.BayesSHAP(score, cx.Text(unit="sentence"))
    first = shap.explain("A free phone. See you at the meeting. Bye now.")
    fine = shap.zoom(first, most=1, queries=100)
    page = Page(fine.plot.text().html)
    assert page.word("free")["class"] == "up sure"
    assert page.text == "A free phone. See you at the meeting. Bye now."


def test_nothing_matters_and_nothing_is_known():
    flat = cx.BayesSHAP(lambda rows: np.ones(len(rows)), cx.Text()).explain("a b c")
    assert 'class="up' not in flat.plot.text()._repr_html_().split('class="small key"')[0]
    for state in cx.BayesSHAP(score, cx.Text()).iterate(" ".join("abcdefghijkl"), queries=60):
        assert state.explanation.plot.text().html


def test_several_outputs_need_one_named():
    e = cx.BayesSHAP(lambda t: np.stack([score(t), -score(t)], axis=1), cx.Text()).explain("free a")
    with pytest.raises(cx.InputError, match="output"):
        e.plot.text()
    assert Page(e.plot.text(output=1).html).word("free")["class"].startswith("down")


def test_only_texts_and_only_series():
    game = cx.BayesSHAP(lambda m: m.sum(axis=1), cx.Masks(3)).explain()
    with pytest.raises(cx.InputError, match=r"cx\.Text"):
        game.plot.text()
    with pytest.raises(cx.InputError, match=r"cx\.Series"):
        game.plot.series()


@pytest.mark.parametrize(("channels", "axes"), [("together", 3), (["x", "y"], 4)])
def test_series(channels, axes):
    x = np.stack([np.sin(np.arange(60) / 5), np.linspace(0, 3, 60)], axis=1)
    shap = cx.BayesSHAP(
        lambda X: (X[:, 20:40, 0] ** 2).sum(axis=1), cx.Series(6, channels=channels)
    )
    e = cx.Explanation.from_json(shap.explain(x, queries=60).to_json())
    grid = e.plot.series()
    assert len(grid) == axes
    np.testing.assert_array_equal(grid[0].lines[0].get_ydata(), x[:, 0])
    labels = [ax.get_ylabel() for ax in grid]
    assert labels.count("importance") == (1 if channels == "together" else 2)
    bars = [ax for ax in grid if ax.get_ylabel() == "importance"]
    assert len({ax.get_ylim() for ax in bars}) == 1
    dots = [line.get_ydata()[0] for line in bars[0].lines if line.get_marker() == "o"]
    np.testing.assert_allclose(dots, e.mean[:6])
    grid[0].figure.canvas.draw()


def hatches(grid):
    return [p for ax in grid for p in ax.patches if p.get_hatch()]


@pytest.mark.parametrize(("noise", "hatched"), [(0.0, False), (3.0, True)])
def test_the_legend_of_a_series_names_what_is_drawn(noise, hatched):
    def model(X):
        jumps = np.sign(np.sin(1e3 * X.sum(axis=1)))  # hard to fit: wide intervals
        return X[:, 20:30].sum(axis=1) * X[:, 30:40].sum(axis=1) + noise * jumps

    domain = cx.Series(12, fill=0.0)
    e = cx.BayesSHAP(model, domain).explain(np.linspace(1, 2, 60), queries=40)
    grid = e.plot.series()
    assert bool(hatches(grid)) == hatched
    legend = grid[-1].get_xlabel()
    assert ("hatched" in legend) == hatched
    i = e.interval()
    assert ("hollow" in legend) == bool(np.any((i.lower <= 0) & (i.upper >= 0)))


def test_series_of_one_channel():
    e = cx.BayesSHAP(lambda X: X[:, :5].sum(axis=1), cx.Series(3)).explain(np.arange(12.0))
    grid = e.plot.series(level=0.5)
    assert [ax.get_ylabel() for ax in grid] == ["value", "importance"]
    assert "50 % intervals" in grid[-1].get_xlabel()
    assert not hatches(grid)
    assert "hatched" not in grid[-1].get_xlabel()
    assert "hollow" not in grid[-1].get_xlabel()  # exact
