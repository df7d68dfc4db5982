"""Every plot is rendered: marks are found in the pixels where the numbers say, and nothing is cut.

Each check was seen to fail on a planted defect: a mark moved, a colour or a limit changed.
"""

import dataclasses
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb

import credex as cx
from credex.comparison import compare
from credex.formatting import NEGATIVE, POSITIVE
from credex.plots.canvas import ON_DARK, SERIES
from credex.posteriors import Belief

HOSTILE = (
    "<script>alert(1)</script>",
    "$\\frac{1}{$ cost_2^",
    "x" * 5000,
    "emoji 🙂 and 温度",
    "שלום עולם",
    "line\nbreak 'quoted' \"twice\"",
)
NAMES = ("bmi", "s5", "bp", "age", "sex", "s1")
MEAN = np.array([3.0, -2.0, 1.5, 0.2, -0.1, 0.0])
SD = np.array([0.3, 0.4, 0.3, 0.4, 0.3, 0.2])
GAME = cx.BayesSHAP(lambda m: m @ MEAN, cx.Masks(6, names=list(NAMES))).explain()
GAME_OF_40 = cx.BayesSHAP(lambda m: m.sum(axis=1) * 1.0, cx.Masks(40)).explain(queries=120)


def made(mean=MEAN, sd=SD, names=NAMES, *, values=None, queries=200, cov=0.0):
    mean = np.asarray(mean, dtype=float)
    scale = np.diag(np.broadcast_to(np.square(sd), len(mean))).astype(float)
    scale[0, 1] = scale[1, 0] = cov
    belief = Belief(mean[:, None], scale[:, :, None], 60.0)
    game = GAME if len(mean) == 6 else GAME_OF_40
    estimate = dataclasses.replace(game.estimate, belief=belief, exact=not scale.any())
    values = tuple(range(len(mean))) if values is None else tuple(values)
    instance = dataclasses.replace(game.instance, names=names, labels=names, feature_values=values)
    history = dataclasses.replace(game.history, n_queries=queries, full=np.array([mean.sum()]))
    return dataclasses.replace(
        game, estimate=estimate, instance=instance, history=history, stop_reason="queries"
    )


def batch(names=NAMES, n=30, values=None):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 6))
    rows = [made(MEAN * row, SD, names, values=row if values is None else values) for row in x]
    return cx.Explanations(tuple(rows), n, 1, 1.0, "one by one")


E, OTHER, BATCH = made(), made(MEAN + np.array([0.0, 0.1, -2.0, 0.0, 0.0, 0.0])), batch()
HOSTILE_E, HOSTILE_BATCH = made(names=HOSTILE, values=HOSTILE), batch(HOSTILE, 8)
LOOKS = [made(MEAN * (1 + 1 / k), SD * 3 / k, queries=60 * k) for k in (1, 2, 3)]
CURVE = np.array([[0.5, 0.52, 0.4, 0.64], [0.8, 0.6, 0.5, 0.7], [0.95, 0.93, 0.85, 0.98]])
CHECK = cx.Verification(0.93, 0.85, 0.98, 0.95, 20, 120, 0.1, np.full(20, 0.93), True, 9000, CURVE)
FORECAST = cx.Forecast(600, 400, 900, 600, 1.2, 200, 0.5, 0.95, asked=E)

PLOTS = {
    "intervals": lambda e, b, **k: e.plot.intervals(**k),
    "waterfall": lambda e, b, **k: e.plot.waterfall(most=4, **k),
    "ranks": lambda e, b, **k: e.plot.ranks(**k),
    "pairs": lambda e, b, **k: e.plot.pairs(**k),
    "trace": lambda e, b, **k: e.plot.trace([e, *(with_names(s, e.names) for s in LOOKS)], **k),
    "forecast": lambda e, b, **k: dataclasses.replace(FORECAST, asked=e).plot(**k),
    "reliability": lambda e, b, **k: CHECK.plot(**k),
    "compare": lambda e, b, **k: e.plot.compare(with_names(OTHER, e.names), names=e.names[:2], **k),
    "summary": lambda e, b, **k: b.plot.summary(**k),
    "beeswarm": lambda e, b, **k: b.plot.beeswarm(**k),
    "scatter": lambda e, b, **k: b.plot.scatter(**k),
    "heatmap": lambda e, b, **k: b.plot.heatmap(**k),
}


def with_names(e, names):
    return dataclasses.replace(e, instance=dataclasses.replace(e.instance, names=names))


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def rendered(ax):
    """Pixels of the figure, 0 to 1; the top row first."""
    ax.figure.canvas.draw()
    return np.asarray(ax.figure.canvas.buffer_rgba())[:, :, :3] / 255


def seen(ax, pixels, x, y, colour, reach=2):  # noqa: PLR0917 - a point and what to find there
    """Whether a colour is found within some pixels of a point in data coordinates."""
    across, up = ax.transData.transform((x, y))
    row, column = int(pixels.shape[0] - up), int(across)
    around = pixels[row - reach : row + reach + 1, column - reach : column + reach + 1]
    return bool((np.abs(around - to_rgb(colour)).max(axis=2) < 0.12).any())


def check_layout(ax):
    """Nothing is cut off, and labels of an axis do not overlap."""
    ax.figure.draw_without_rendering()
    whole = ax.figure.bbox
    words = [*ax.texts, ax.xaxis.label, ax.yaxis.label, ax._left_title]
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=False)
        shown = [t for at, t in ticks if low <= at <= high and t.get_text()]
        boxes = [t.get_window_extent() for t in shown]
        for a, b in pairwise(boxes):
            assert not (a.overlaps(b) and a.shrunk(0.8, 0.85).overlaps(b.shrunk(0.8, 0.85)))
        words += shown
    for t in words:
        if t.get_text():
            box = t.get_window_extent()
            assert box.x0 >= whole.x0 - 2, t.get_text()[:80]
            assert box.x1 <= whole.x1 + 2, t.get_text()[:80]
            assert box.y0 >= whole.y0 - 2, t.get_text()[:80]
            assert box.y1 <= whole.y1 + 2, t.get_text()[:80]


@pytest.mark.parametrize("name", PLOTS)
def test_layout_holds_and_names_are_plain_text(name):
    check_layout(PLOTS[name](E, BATCH))
    ax = PLOTS[name](HOSTILE_E, HOSTILE_BATCH)
    check_layout(ax)  # a warning of a missing glyph, or a formula that does not parse, would raise
    assert ax.get_position().width > 0.2
    for t in ax.figure.findobj(mpl.text.Text):
        assert len(t.get_text()) < 400
        assert not (t.get_parse_math() and "frac" in t.get_text())


@pytest.mark.parametrize("name", PLOTS)
def test_given_axes_are_used_at_400_pixels_and_in_the_dark(name):
    before = dict(mpl.rcParams)
    with plt.style.context("dark_background"):
        fig, ax = plt.subplots(figsize=(5, 4), dpi=80, layout="constrained")
        assert PLOTS[name](E, BATCH, ax=ax) is ax
        assert fig.axes == [ax]
        check_layout(ax)
        pixels = rendered(ax)
        assert pixels.shape[1] == 400
        assert (pixels.max(axis=2) > 0.5).mean() > 0.01  # something light is drawn
    assert dict(mpl.rcParams) == before
    with pytest.raises(cx.InputError, match="matplotlib Axes"):
        PLOTS[name](E, BATCH, ax=fig)


LONG = [f"monthly_instalment_as_share_of_income_{i}" if i % 3 == 0 else f"n{i}" for i in range(40)]
MANY = np.random.default_rng(0).normal(size=40) * np.linspace(3, 0.01, 40)
AWKWARD = {
    "many": {"mean": MANY, "sd": 0.3, "names": tuple(LONG), "values": LONG[::-1]},
    "tiny": {"mean": MEAN * 1e-7, "sd": 3e-8},
    "huge": {"mean": MEAN * 1e9, "sd": 2e8},
    "mixed": {"mean": [12345.0, -678.0, 9.0, 0.01, -0.5, 0.0], "sd": [200, 30, 2, 0.5, 0.4, 1e-3]},
    "exact": {"sd": 0.0},
    "unknown": {"sd": [0.3, 0.4, np.inf, 0.4, 0.3, 0.2]},
}
REFUSED = {
    ("ranks", "unknown"): "its rank is open",
    ("forecast", "unknown"): "too little was asked",
    ("summary", "unknown"): "nothing is known of bp",
    ("forecast", "exact"): "known exactly",
}


def awkward_batch(e, n=12):
    factors = np.random.default_rng(1).normal(size=(n, len(e.names)))
    beliefs = [Belief(e.belief.mean * f[:, None], e.belief.scale, 60.0) for f in factors]
    rows = [
        dataclasses.replace(e, estimate=dataclasses.replace(e.estimate, belief=b)) for b in beliefs
    ]
    return cx.Explanations(tuple(rows), n, 1, 1.0, "one by one")


def awkward_plot(name, e, **kwargs):
    other = dataclasses.replace(
        e, estimate=dataclasses.replace(e.estimate, belief=awkward_batch(e)[0].belief)
    )
    if name == "trace":
        early = dataclasses.replace(other.history, n_queries=20)
        return e.plot.trace([dataclasses.replace(other, history=early)], **kwargs)
    if name == "compare":
        return e.plot.compare(other, names=("of March 2026, retrained", "b"), **kwargs)
    if name == "forecast":
        width = e.interval().width
        target = float(width[np.isfinite(width)].max(initial=0.0)) / 7 or 1.0
        f = dataclasses.replace(FORECAST, asked=e, width=target, high=90_000, seconds=1234.5)
        return f.plot(**kwargs)
    return PLOTS[name](e, awkward_batch(e), **kwargs)


def words_of(ax):
    return " ".join(t.get_text() for t in ax.texts).replace("\n", " ")


@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize("name", [p for p in PLOTS if p != "reliability"])
def test_awkward_numbers_and_names_fit_also_at_400_pixels(name, case):
    e = made(**AWKWARD[case])
    if (name, case) in REFUSED:
        with pytest.raises(cx.InputError, match=REFUSED[name, case]):
            awkward_plot(name, e)
        return
    check_layout(awkward_plot(name, e))
    with plt.style.context("dark_background"):
        ax = plt.subplots(figsize=(5, 4), dpi=80, layout="constrained")[1]
        check_layout(awkward_plot(name, e, ax=ax))
        assert ax.get_position().height > 0.3  # words leave room for the picture


def test_captions_speak_of_what_is_drawn_only():
    unsure = made(sd=9.0)
    assert "pale" in words_of(unsure.plot.waterfall())
    assert "pale" not in words_of(certain().plot.waterfall())
    assert "hollow" in words_of(unsure.plot.compare(OTHER))
    assert "hollow" not in words_of(certain().plot.compare(made(sd=1e-3)))
    for name, word in (("beeswarm", "pale"), ("scatter", "hollow"), ("heatmap", "dots")):
        assert word in words_of(PLOTS[name](None, awkward_batch(unsure)))
        assert word not in words_of(PLOTS[name](None, awkward_batch(certain())))
    grey = "not a number"
    assert grey not in words_of(BATCH.plot.beeswarm())
    assert grey in words_of(batch(n=5, values=["pilot"] * 6).plot.beeswarm())
    exact = made(sd=0.0)
    assert "bands" not in words_of(awkward_plot("trace", exact))
    assert "shaded" not in words_of(exact.plot.pairs())
    assert "bands" in words_of(awkward_plot("trace", unsure))


def certain():
    """All intervals exclude zero, and those of the differences to `MEAN`, too."""
    return made(mean=[4.0, -3.0, 4.5, 1.2, -1.1, 1.0], sd=1e-3)


def test_areas_are_lighter_on_dark_backgrounds():
    light = BATCH.plot.heatmap().images[0].get_array()
    with plt.style.context("dark_background"):
        dark = BATCH.plot.heatmap().images[0].get_array()
    assert (dark[..., :3] @ [0.3, 0.59, 0.11]).min() > (light[..., :3] @ [0.3, 0.59, 0.11]).max()


def test_labels_of_many_rows_get_smaller_than_their_rows():
    e = made(**AWKWARD["many"])
    ax = plt.subplots(figsize=(5, 4), dpi=80, layout="constrained")[1]
    awkward_plot("compare", e, ax=ax)
    ax.figure.draw_without_rendering()
    boxes = [t.get_window_extent() for t in ax.get_yticklabels()]
    assert all(b.y0 - a.y1 > -1 for b, a in pairwise(boxes))  # pixels
    own = e.plot.intervals(most=40).get_yticklabels()
    assert {t.get_fontsize() for t in own} == {
        mpl.rcParams["font.size"]
    }  # a figure as high as needed


def test_powers_of_ten_stand_above_the_numbers():
    e = made(**AWKWARD["huge"])
    for ax in (awkward_plot("compare", e), awkward_plot("summary", e)):
        assert any("×10⁹" in t.get_text() for t in ax.texts)
        assert "×10⁹" in ax.get_xlabel()


def test_differences_that_are_unknown_or_exact_are_said_so():
    unknown = [t.get_text() for t in awkward_plot("compare", made(**AWKWARD["unknown"])).texts]
    assert "?" in unknown
    exact = [t.get_text() for t in awkward_plot("compare", made(sd=0.0)).texts]
    assert "1" in exact
    assert ">0.99" not in exact


def test_intervals_are_where_the_numbers_are():
    ax = E.plot.intervals()
    pixels, i = rendered(ax), E.interval()
    for y, f in enumerate([0, 1, 2]):
        colour = POSITIVE if MEAN[f] > 0 else NEGATIVE
        for x in (MEAN[f], i.lower[f] + 0.02, i.upper[f] - 0.02):
            assert seen(ax, pixels, x, y, colour)
        assert not seen(ax, pixels, i.upper[f] + 0.2, y, colour)


def test_a_waterfall_leads_from_the_base_value_to_the_prediction():
    ax = E.plot.waterfall(most=4)
    bars = sorted(ax.patches, key=lambda p: p.get_y())
    ends = [(p.get_x(), p.get_x() + p.get_width()) for p in bars]
    assert ends[0][1] == pytest.approx(float(E.prediction))
    assert ends[-1][0] == pytest.approx(float(E.base_value))
    for upper, lower in pairwise(ends):
        assert upper[0] == pytest.approx(lower[1])
    whiskers = [ln for ln in ax.lines if ln.get_marker() == "|"]
    half = E.interval().width[[0, 1, 2, 3]] / 2
    for line, h, (_, end) in zip(whiskers, half, ends, strict=False):
        assert line.get_xdata().tolist() == [pytest.approx(end - h), pytest.approx(end + h)]
    rest = E.belief.interval(0.95).width[[4, 5], 0] / 2
    width = np.ptp(whiskers[-1].get_xdata()) / 2
    assert width == pytest.approx(np.sqrt((rest**2).sum()))  # of the sum, not the sum of both
    pixels = rendered(ax)
    assert seen(ax, pixels, ends[0][1] - 1.8, 0.2, (213 / 255, 110 / 255, 30 / 255), reach=3)
    assert labels(ax) == ["bmi = 0", "s5 = 1", "bp = 2", "age = 3", "2 other features"]


def labels(ax):
    return [t.get_text() for t in ax.get_yticklabels()]


def test_a_waterfall_of_slopes_is_refused():
    X = np.random.default_rng(0).normal(size=(100, 3)) * 5 + 10
    lime = cx.BayesLIME(lambda Z: Z @ [1.0, 2, 3], cx.Tabular(X, bins=None))
    with pytest.raises(cx.InputError, match="slopes"):
        lime.explain(X[0], queries=100).plot.waterfall()


@pytest.mark.parametrize("cov", [0.0, 0.1])
def test_rings_of_a_pair_hold_what_they_say(cov):
    e = made(cov=cov)
    ax = e.plot.pairs("bmi", "s5")
    outer, inner = (p.get_path() for p in ax.patches[:2])
    draws = e.sample(20_000, seed=3)[:, :2]
    assert outer.contains_points(draws).mean() == pytest.approx(0.95, abs=0.01)
    assert inner.contains_points(draws).mean() == pytest.approx(0.5, abs=0.02)
    assert f"{e.prob_greater('bmi', 's5'):.2f}" in ax.get_title(loc="left")
    pixels = rendered(ax)
    assert not seen(ax, pixels, 3.0, -2.0, "white", reach=0)
    assert labels_of(e.plot.pairs()) == labels_of(ax)  # the two largest


def labels_of(ax):
    return ax.get_xlabel(), ax.get_ylabel()


def test_pairs_check_their_features():
    for wrong in (("bmi", None), ("bmi", "bmi"), ("bmi", "nothing")):
        with pytest.raises(cx.InputError):
            E.plot.pairs(*wrong)


def test_a_trace_ends_at_the_explanation():
    ax = E.plot.trace(LOOKS, most=3)
    assert ax.get_xlim() == (60, 200)
    curves = [ln for ln in ax.lines if len(ln.get_xdata()) == 4]
    assert [ln.get_ydata()[-1] for ln in curves] == MEAN[:3].tolist()
    assert curves[0].get_xdata().tolist() == [60, 120, 180, 200]
    band = ax.collections[0].get_paths()[0].get_extents()
    low, high = E.belief.interval(0.95).lower[0, 0], LOOKS[0].belief.interval(0.95).upper[0, 0]
    assert band.ymax >= high > low
    pixels = rendered(ax)
    assert seen(ax, pixels, 180, curves[0].get_ydata()[2], SERIES[0], reach=3)
    assert [t.get_text() for t in ax.texts[:3]] == ["bmi", "s5", "bp"]
    for wrong, words in (([], "two states"), ([3], "states of iterate")):
        with pytest.raises(cx.InputError, match=words):
            E.plot.trace(wrong)


def test_states_of_a_run_are_traced():
    shap = cx.BayesSHAP(lambda m: np.sin(m @ np.arange(9.0)), cx.Masks(9))
    states = list(shap.iterate(queries=200, stop=cx.Width(1e-6)))
    ax = states[-1].explanation.plot.trace(states)
    assert max(len(ln.get_xdata()) for ln in ax.lines) >= 2


def test_a_forecast_leads_to_the_width():
    ax = FORECAST.plot()
    now = float(E.interval().width.max())
    way = next(ln for ln in ax.lines if ln.get_linewidth() == 2 and len(ln.get_xdata()) == 2)
    assert way.get_xdata().tolist() == [200, 800]
    assert way.get_ydata().tolist() == [pytest.approx(now), 0.5]
    span = next(ln for ln in ax.lines if ln.get_marker() == "|")
    assert span.get_xdata().tolist() == [600, 1100]
    pixels = rendered(ax)
    assert seen(ax, pixels, 800, 0.5, NEGATIVE)
    assert "800 queries in all" in " ".join(t.get_text() for t in ax.texts)
    for queries, words in ((0.0, "is met"), (np.inf, "cannot be reached")):
        f = dataclasses.replace(FORECAST, queries=queries, low=queries, high=queries)
        assert words in f.plot().get_title(loc="left")
    with pytest.raises(cx.InputError, match="no seed queries"):
        dataclasses.replace(FORECAST, asked=None).plot()
    with pytest.raises(cx.InputError, match=r"explainer\.forecast"):
        E.plot.forecast(0.5)


def test_a_reliability_diagram_marks_levels_that_are_not_kept():
    ax = CHECK.plot()
    marks = {ln.get_xdata()[0]: ln for ln in ax.lines if ln.get_marker() in "os"}
    assert [marks[p].get_ydata()[0] for p in (0.5, 0.8, 0.95)] == [0.52, 0.6, 0.93]
    assert [marks[p].get_marker() for p in (0.5, 0.8, 0.95)] == ["o", "s", "o"]
    pixels = rendered(ax)
    assert seen(ax, pixels, 0.8, 0.6, POSITIVE)
    assert seen(ax, pixels, 0.95, 0.93, NEGATIVE)
    assert "less often than promised" in " ".join(t.get_text() for t in ax.texts)
    with pytest.raises(cx.InputError, match="known exactly"):
        dataclasses.replace(CHECK, curve=np.empty((0, 4))).plot()


def test_verify_fills_the_curve():
    X = np.random.default_rng(0).normal(size=(40, 5))
    shap = cx.BayesSHAP(lambda Z: np.sin(2 * Z).prod(axis=1), cx.Tabular(X, background=4))
    v = shap.verify(X, 6, queries=40, progress=False)
    at = v.curve[:, 0].tolist().index(0.95)
    assert tuple(v.curve[at, 1:]) == (v.coverage, v.low, v.high)
    assert np.all(np.diff(v.curve[:, 1]) >= 0)


def test_differences_are_drawn_where_they_are():
    ax = E.plot.compare(OTHER)
    c = compare(E, OTHER)
    assert labels(ax)[:2] == ["bp", "s5"]
    pixels = rendered(ax)
    for x in (c.difference[2], c.lower[2] + 0.03, c.upper[2] - 0.03):
        assert seen(ax, pixels, x, 0, POSITIVE)
    assert not seen(ax, pixels, c.upper[2] + 0.2, 0, POSITIVE)
    assert "1 of 6 differences are real at 95 %" in ax.get_title(loc="left")
    assert ">0.99" in [t.get_text() for t in ax.texts]


def test_a_summary_shows_means_with_intervals():
    ax = BATCH.plot.summary(most=4)
    bars = [p.get_width() for p in ax.patches]
    assert bars == sorted(bars, reverse=True)
    assert labels(ax)[:3] == ["bmi", "s5", "bp"]
    assert labels(ax)[-1] == "… and 2 more"
    x = np.abs([e.mean[0] for e in BATCH.explained]).mean()
    assert bars[0] == pytest.approx(x, rel=0.1)
    pixels = rendered(ax)
    assert seen(ax, pixels, bars[0], 0, NEGATIVE)
    assert "corrected for noise" in " ".join(t.get_text().replace("\n", " ") for t in ax.texts)


def test_a_beeswarm_has_a_dot_for_each_row_and_doubt_is_pale():
    ax = BATCH.plot.beeswarm(most=3)
    dots = [c for c in ax.collections if len(c.get_offsets())]
    assert sum(len(c.get_offsets()) for c in dots) == 3 * 30
    first = np.concatenate([c.get_offsets() for c in dots[:2]])
    np.testing.assert_allclose(sorted(first[:, 0]), sorted(e.mean[0] for e in BATCH.explained))
    assert np.abs(first[:, 1]).max() < 0.5  # stays in its row
    pale = [c for c in dots if c.get_alpha() < 1]
    i = BATCH.interval()
    unclear = (i.lower <= 0) & (i.upper >= 0)
    assert sum(len(c.get_offsets()) for c in pale) == unclear[:, :3].sum()
    assert ax.figure.axes[1].get_ylim() == (0, 1)  # the colour bar
    assert len(rendered(ax)) > 100


def test_a_scatter_has_error_bars():
    ax = BATCH.plot.scatter("bmi")
    bars = np.concatenate([c.get_segments() for c in ax.collections if hasattr(c, "get_segments")])
    i = BATCH.interval()
    np.testing.assert_allclose(np.sort(bars[:, 0, 1]), np.sort(i.lower[:, 0]))
    np.testing.assert_allclose(np.sort(bars[:, 1, 1]), np.sort(i.upper[:, 0]))
    np.testing.assert_allclose(
        np.sort(bars[:, 0, 0]), np.sort([e.feature_values[0] for e in BATCH.explained])
    )
    pixels, e = rendered(ax), BATCH[0]
    colour = POSITIVE if e.mean[0] > 0 else NEGATIVE
    assert seen(ax, pixels, e.feature_values[0], e.mean[0], colour)


def test_values_without_numbers_have_places():
    rows = [made(values=[job] * 6) for job in ["pilot", "cook", "cook", None] * 3]
    ax = cx.Explanations(tuple(rows), 1, 1, 1.0, "").plot.scatter("bmi")
    assert [t.get_text() for t in ax.get_xticklabels()] == ["cook", "missing", "pilot"]
    check_layout(ax)


def test_a_heatmap_dots_what_is_doubtful():
    ax = BATCH.plot.heatmap()
    phi = BATCH.mean[:, [NAMES.index(n) for n in labels(ax)]].T
    colours = ax.images[0].get_array()
    assert np.array_equal(colours[..., 0] > 0.5, phi > 0)  # orange or blue
    strength = colours[..., 3]
    assert np.unravel_index(strength.argmax(), strength.shape) == np.unravel_index(
        np.abs(phi).argmax(), phi.shape
    )
    i = BATCH.interval()
    unclear = ((i.lower <= 0) & (i.upper >= 0)).sum()
    assert len(ax.lines[0].get_xdata()) == unclear
    assert len(rendered(ax)) > 100


def test_plots_of_a_batch_need_rows_with_the_same_features():
    mixed = dataclasses.replace(BATCH, items=(E, with_names(E, tuple("uvwxyz"))))
    with pytest.raises(cx.InputError, match="different features"):
        mixed.plot.beeswarm()
    with pytest.raises(cx.InputError, match="no explanation"):
        dataclasses.replace(BATCH, items=()).plot.summary()


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_a_series_fits_with_long_names_and_large_numbers(style):
    signal = np.column_stack([np.sin(np.arange(48) / 9), np.cos(np.arange(48) / 5)]) * 1e6
    domain = cx.Series(length=12, channels=["a channel with quite a long name", "$x_{2}$"])
    shap = cx.BayesSHAP(lambda X: np.tanh(X[:, 12:24, 1].max(axis=1) / 1e6), domain)
    e = shap.explain(signal, queries=40)
    with plt.style.context(style):
        grid = e.plot.series()
        for ax in grid:
            check_layout(ax)
            bottom, top = ax.get_window_extent().intervaly
            name = ax.yaxis.label.get_window_extent()
            assert name.y0 > bottom - 12
            assert name.y1 < top + 12  # beside its own axes only
        assert "1,000,000" in [t.get_text() for t in grid[0].get_yticklabels()]
        shaded = max(grid[2].patches, key=lambda p: p.get_facecolor()[3])
        raises = e.mean[np.abs(e.mean).argmax()] > 0
        light = (ON_DARK if style == "dark_background" else (POSITIVE, NEGATIVE))[not raises]
        assert np.allclose(shaded.get_facecolor()[:3], to_rgb(light), atol=0.01)
