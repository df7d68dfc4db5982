import dataclasses
import io
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.colors import same_color

import credex as cx
from credex import formatting
from credex.plots.canvas import PALE
from credex.posteriors import Belief


def v(masks):
    m = masks * 1.0
    return m @ np.linspace(-2, 3, 16) + 0.5 * m[:, 0] * m[:, 1] - 3 * m[:, 2] * m[:, 3] * m[:, 4]


NAMES = [f"f{i}" for i in range(16)]
E = cx.BayesSHAP(v, cx.Masks(16, names=NAMES)).explain(queries=60)
EXACT = cx.BayesSHAP(lambda m: m @ [3.0, -2.0, 0.0], cx.Masks(3)).explain()
THREE = cx.BayesSHAP(lambda m: m @ np.eye(3)[:, ::-1], cx.Masks(3)).explain()


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def labels(ax):
    return [t.get_text() for t in ax.get_yticklabels()]


def texts(ax):
    return " | ".join(t.get_text().replace("\n", " ") for t in ax.texts)


def lines_at(ax, y):
    """The thin line, the thick one and the stroke of a row."""
    rows = [ln for ln in ax.lines if len(set(ln.get_ydata())) == 1 and ln.get_ydata()[0] == y]
    thin = [ln for ln in rows if len(ln.get_xdata()) == 5]
    thick = [ln for ln in rows if len(ln.get_xdata()) == 2 and ln.get_linestyle() == "-"]
    return thin, thick, next(ln for ln in rows if len(ln.get_xdata()) == 1)


def with_belief(e, mean, sd):
    scale = np.diag(np.broadcast_to(np.square(np.asarray(sd, dtype=float)), len(mean)))[:, :, None]
    belief = Belief(np.asarray(mean)[:, None], scale, 50.0)
    return dataclasses.replace(
        e, estimate=dataclasses.replace(e.estimate, belief=belief, exact=False)
    )


def renamed(e, names):
    instance = dataclasses.replace(e.instance, names=tuple(names), labels=tuple(names))
    return dataclasses.replace(e, instance=instance)


def render(ax):
    buffer = io.BytesIO()
    ax.figure.savefig(buffer, format="png")
    return buffer


def test_rows_are_the_largest_importances_in_order():
    ax = E.plot.intervals(most=5)
    assert labels(ax) == [*E.top(5), "… and 11 more"]
    top, bottom = ax.get_ylim()[1], ax.get_ylim()[0]
    assert top < 0  # the first row is on top
    assert bottom > 5  # the last is inside


def test_unsorted_keeps_the_order_of_the_columns():
    ax = E.plot.intervals(most=5, sort=False)
    assert labels(ax)[:5] == [n for n in NAMES if n in E.top(5)]


@pytest.mark.parametrize("level", [None, 0.8])
def test_lines_end_where_the_intervals_end(level):
    ax = E.plot.intervals(level=level, most=16)
    outer, inner = E.interval(level), E.interval(0.5)
    for y, name in enumerate(E.top(16)):
        i = NAMES.index(name)
        (thin,), thick, stroke = lines_at(ax, y)
        left, a, _, b, right = thin.get_xdata()
        assert (left, right) == (pytest.approx(outer.lower[i]), pytest.approx(outer.upper[i]))
        for line in thick:
            assert tuple(line.get_xdata()) == (pytest.approx(a), pytest.approx(b))
        assert (a, b) == (pytest.approx(inner.lower[i]), pytest.approx(inner.upper[i]))
        assert stroke.get_xdata()[0] == pytest.approx(E.mean[i])
    low, high = ax.get_xlim()
    assert low < min(0.0, outer.lower.min())
    assert high > max(0.0, outer.upper.max())


def test_the_stroke_at_the_mean_does_not_hide_the_50_percent_bar():
    ax = E.plot.intervals()
    _, (bar,), stroke = lines_at(ax, 0)
    assert stroke.get_marker() == "|"
    assert stroke.get_markeredgewidth() < 3  # points
    assert bar.get_linewidth() < stroke.get_markersize()


def test_colours_tell_the_sign_and_doubt_is_hollow_and_pale():
    e = with_belief(EXACT, [3.0, -2.0, 0.1], [0.1, 0.1, 1.0])
    ax = e.plot.intervals()
    rows = [lines_at(ax, y) for y in range(3)]
    colours = [stroke.get_color() for _, _, stroke in rows]
    assert colours == [formatting.POSITIVE, formatting.NEGATIVE, formatting.POSITIVE]
    assert [len(thick) for _, thick, _ in rows] == [1, 1, 2]  # two lines are a hollow box
    assert [thin[0].get_alpha() for thin, _, _ in rows] == [1.0, 1.0, PALE]
    (top, bottom) = (line.get_transform().transform((0, 0)) for line in rows[2][1])
    assert abs(top[1] - bottom[1]) > 4  # pixels


def test_exact_is_marked():
    ax = EXACT.plot.intervals()
    thin, thick, dot = lines_at(ax, 0)
    assert (thin, thick) == ([], [])
    assert dot.get_marker() == "D"
    assert "exact" in texts(ax)
    assert same_color(lines_at(ax, 2)[2].get_markerfacecolor(), formatting.NEUTRAL)


def test_words_around_the_picture():
    ax = E.plot.intervals()
    title = ax.get_title(loc="left")
    assert f"prediction {E.prediction:.2f}" in title
    assert "base value" in title
    assert ax.get_xlabel().strip() == "importance (change of the prediction)"
    assert f"{E.n_queries} queries" in texts(ax)
    assert "95 %" in texts(ax)
    assert "the queries were used up" in texts(ax)


def test_numbers_are_printed_in_a_figure_of_our_own_only():
    view, features = formatting.View.of(E, 0), formatting.largest(E, 0, 3)[0]
    rows, _ = formatting.table(E, view, features, same=True)
    assert len({len(r.lower.partition(".")[2]) for r in rows}) == 1  # one format of decimals
    own = texts(E.plot.intervals(most=3))
    assert all(f"{r.lower} … {r.upper}" in own for r in rows)
    _, ax = plt.subplots()
    assert rows[0].lower not in texts(E.plot.intervals(most=3, ax=ax))


def test_lime_shows_conditions_and_unit():
    X = np.random.default_rng(0).normal(size=(200, 3))
    e = cx.BayesLIME(lambda X: X[:, 0] - 2 * X[:, 1], cx.Tabular(X)).explain(X[0], queries=200)
    ax = e.plot.intervals()
    assert sorted(labels(ax)) == sorted(e.labels)
    assert "per same bin" in ax.get_xlabel()


def test_values_stand_beside_names_and_log_odds_are_named():
    X = np.random.default_rng(0).normal(size=(50, 2))
    shap = cx.BayesSHAP(lambda X: 1 / (1 + np.exp(-X[:, 0] - X[:, 1] / 9)), X, link="logit")
    ax = shap.explain([1.25, -0.5]).plot.intervals()
    assert labels(ax) == ["x0 = 1.25", "x1 = −0.5"]
    assert "log-odds" in ax.get_xlabel()


def test_axes_are_used_and_returned():
    fig, axes = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
    before = plt.get_fignums()
    assert E.plot.intervals(ax=axes[1]) is axes[1]
    assert E.plot.ranks(ax=axes[0]) is axes[0]
    assert plt.get_fignums() == before
    render(axes[0])
    assert fig.axes == list(axes)  # nothing added


def test_height_follows_the_rows():
    heights = [E.plot.intervals(most=n).figure.get_figheight() for n in (2, 8, 16)]
    assert heights == sorted(set(heights))


@pytest.mark.parametrize("style", ["default", "dark_background", "ggplot"])
def test_nothing_is_cut_off(style):
    long = [f"a rather long name of a feature that nobody shortened, number {i}" for i in range(16)]
    e = renamed(E, long)
    with plt.style.context(style):
        for ax in (e.plot.intervals(), e.plot.ranks()):
            ax.figure.draw_without_rendering()
            whole = ax.figure.bbox
            words = [*ax.get_yticklabels(), *ax.texts, ax.xaxis.label, ax._left_title]
            for t in words:
                box = t.get_window_extent()
                assert box.x0 >= whole.x0 - 1, t.get_text()
                assert box.x1 <= whole.x1 + 1, t.get_text()
                assert box.y0 >= whole.y0 - 1, t.get_text()
                assert box.y1 <= whole.y1 + 1, t.get_text()
            assert all("…" in t for t in labels(ax))
            assert ax.get_position().width > 0.2


def test_text_follows_the_style():
    with plt.style.context("dark_background"):
        ax = E.plot.intervals()
        assert same_color(ax.get_yticklabels()[0].get_color(), "white")
        assert all(same_color(t.get_color(), "white") for t in ax.texts)
        zero = next(ln for ln in ax.lines if list(ln.get_xdata()) == [0.0, 0.0])
        assert same_color(zero.get_color(), "white")


def test_dollar_signs_are_not_formulas():
    names = ("$x_1$", "cost $", "a_b^c")
    ax = renamed(EXACT, names).plot.intervals()
    render(ax)
    assert labels(ax) == list(names)
    assert not any(t.get_parse_math() for t in ax.get_yticklabels())


def test_several_outputs_are_panels_or_have_a_name():
    panels = THREE.plot.intervals()
    assert len(panels) == 3
    assert len({ax.get_xlim() for ax in panels}) == 1
    assert labels(panels[2]) == labels(THREE.plot.intervals(output=2))
    render(panels[0])
    with pytest.raises(cx.InputError, match="say which output"):
        THREE.plot.ranks()
    # The game hands part 0's whole share to output 2, and so on.
    assert labels(THREE.plot.intervals(output=2))[0] == "part 0"
    assert labels(THREE.plot.intervals(output="0"))[0] == "part 2"
    assert "for output 2" in THREE.plot.intervals(output=2).get_title(loc="left")


@pytest.mark.parametrize("bad", [0, -1, 2.5, True])
def test_most_is_checked(bad):
    with pytest.raises(cx.InputError, match="most"):
        E.plot.intervals(most=bad)
    with pytest.raises(cx.InputError, match="most"):
        E.plot.ranks(most=bad)


def test_level_and_axes_are_checked():
    with pytest.raises(cx.InputError, match="level"):
        E.plot.intervals(level=95)
    with pytest.raises(cx.InputError, match="matplotlib Axes"):
        E.plot.intervals(ax=plt.figure())


@pytest.mark.parametrize(
    ("mean", "sd"),
    [
        ([np.nan] * 3, np.inf),
        ([1.0, np.nan, 2.0], 0.1),
        ([1.0, 2.0, 3.0], [np.inf, 0.1, 0.1]),
        ([1e-9, -3e-9, 2e-9], 1e-10),
        ([1e9, -3e9, 2e9], 1e8),
        ([0.0, 0.0, 0.0], 0.0),
    ],
)
def test_odd_numbers_are_drawn_without_a_crash(mean, sd):
    ax = with_belief(EXACT, mean, sd).plot.intervals()
    render(ax)
    assert np.isfinite(ax.get_xlim()).all()
    assert ("too little was asked" in texts(ax)) == np.isnan(mean).all()


def test_ranks_print_what_is_likely():
    ax = E.plot.ranks(most=6)
    p = E.rank_probabilities()[[NAMES.index(n) for n in E.top(6)]]
    p = np.column_stack([p[:, :6], p[:, 6:].sum(axis=1)])
    assert labels(ax) == E.top(6)
    assert [t.get_text() for t in ax.get_xticklabels()] == [*"123456", "later"]
    printed = {(int(t.get_position()[1]), int(t.get_position()[0])): t.get_text() for t in ax.texts}
    assert set(printed) == {tuple(map(int, c)) for c in np.argwhere(p > 0.05)}
    for cell, words in printed.items():
        if words not in (">0.99", "<0.01"):
            assert float(words) == pytest.approx(p[cell], abs=0.0051)
    opacity = ax.images[0].get_array()[..., 3]
    assert np.argsort(opacity.ravel()).tolist() == np.argsort(p.ravel()).tolist()


def test_ranks_of_all_features_have_no_later():
    ax = EXACT.plot.ranks()
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "2", "3"]
    assert [t.get_text() for t in ax.texts] == ["1", "1", "1"]


def test_ranks_need_importances():
    with pytest.raises(cx.InputError, match="too little"):
        with_belief(EXACT, [np.nan] * 3, np.inf).plot.ranks()


def test_settings_and_backend_are_left_alone():
    with plt.style.context("default"):  # whatever other tests did
        before, backend = dict(mpl.rcParams), mpl.get_backend()
        render(E.plot.intervals())
        render(E.plot.ranks())
        assert dict(mpl.rcParams) == before
        assert mpl.get_backend() == backend


def test_matplotlib_is_imported_late():
    code = "import sys, credex, credex.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603
