import dataclasses
import datetime as dt
import re

import numpy as np
import pytest

import credex as cx
from credex import formatting
from credex.cells import display
from credex.history import History
from credex.posteriors import Belief


def game(d=4, k=1, names=None, *, scale=1.0, method=cx.BayesSHAP, **options):
    """An explanation of a small game with interactions, from few enough masks to be uncertain."""
    rng = np.random.default_rng(5)
    w, bend = rng.normal(size=(d, k)), rng.normal(size=(d, k)) / 4

    def v(masks):
        y = masks @ w + np.sin(3 * masks @ bend)
        return scale * (y[:, 0] if k == 1 else y)

    return method(v, cx.Masks(d, names=names)).explain(**options)


def with_belief(e, mean, half, *, exact=True, **changes):
    """The explanation with other importances and half-widths (of 95 % intervals)."""
    mean = np.asarray(mean, dtype=float).reshape(len(e.names), -1)
    half = np.broadcast_to(np.asarray(half, dtype=float).reshape(-1, 1), mean.shape)
    sd = half / _critical(1e6)
    scale = np.zeros((len(mean), len(mean), mean.shape[1]))
    scale[np.arange(len(mean)), np.arange(len(mean))] = sd**2
    estimate = dataclasses.replace(e.estimate, belief=Belief(mean, scale, 1e6), exact=exact)
    return dataclasses.replace(e, estimate=estimate, **changes)


def _critical(dof):
    one = Belief(np.zeros((1, 1)), np.ones((1, 1, 1)), dof)
    return float(one.interval(0.95).upper[0, 0])


def body(text):
    """Lines of the first table, without its head."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if "──" in line) + 1
    stop = next(i for i in range(start, len(lines)) if not lines[i].startswith("  "))
    return [line for line in lines[start:stop] if "…  and" not in line]


EXACT = game()
ROUGH = game(d=14, queries=40)


@pytest.mark.parametrize(
    ("mean", "half", "expected"),
    [
        (0.123456, 0.0123, "0.123"),
        (0.123456, 0.123, "0.12"),
        (-29464.0, 1280.0, "−29,500"),
        (1.5, 12.0, "2"),  # to the even neighbour, as round does
        (-0.001, 0.5, "0.00"),  # no negative zero
    ],
)
def test_digits_follow_the_uncertainty(mean, half, expected):
    e = with_belief(EXACT, [mean, 0, 0, 0], [half, 1, 1, 1])
    row = next(line for line in str(e).splitlines() if line.strip().startswith("part 0"))
    assert row.split()[2] == expected


def test_interval_is_that_of_the_explanation():
    rows, power = formatting.table(ROUGH, formatting.View.of(ROUGH, 0, 0.8), [0, 1, 2])
    i = ROUGH.interval(0.8)
    assert power == 0
    for n, row in enumerate(rows):
        step = 10.0 ** -len(row.lower.partition(".")[2])
        assert float(row.lower.replace("−", "-")) == pytest.approx(i.lower[n], abs=0.51 * step)
        assert float(row.upper.replace("−", "-")) == pytest.approx(i.upper[n], abs=0.51 * step)
        assert step <= i.width[n] / 2 / 9.9  # two digits at least


@pytest.mark.parametrize(("scale", "power"), [(1e-9, "×10⁻"), (1e9, "×10⁹"), (1e4, None)])
def test_huge_and_tiny_numbers_share_one_power(scale, power):
    e = game(d=14, queries=40, scale=scale)
    text = str(e)
    assert (power in text) if power else ("×10" not in text)
    assert "e+" not in text
    assert "e−" not in text
    # The relative digits do not depend on the unit.
    rows, _ = formatting.table(e, formatting.View.of(e, 0), list(range(14)))
    assert [r.feature for r in rows] == list(e.names)


def test_largest_first_and_the_rest_counted():
    e = game(d=30, queries=300)
    lines = body(str(e))
    shown = [re.match(r"\s+(part \d+)", line).group(1) for line in lines[: formatting.MAX_ROWS]]
    assert shown == e.top(formatting.MAX_ROWS)
    assert lines[-1].strip().startswith("… and 10 more")


@pytest.mark.parametrize(
    "names",
    [
        ["温度(摂氏)", "Größe", "e\u0301te\u0301", "emoji 🙂"],
        ["line\nbreak", "tab\tbed", "nul\x00l", "x" * 200],
        ["<script>", "a & b", '"q"', "$x_1$"],
    ],
)
def test_columns_stay_aligned_whatever_the_names(names):
    e = with_belief(game(names=names), [3.0, -2.0, 1.0, 0.5], [0.1, 0.22, 0.3, 0.04])
    lines = str(e).splitlines()
    rule = next(i for i, line in enumerate(lines) if "──" in line)
    rows = lines[rule + 1 : rule + 5]
    ends = {formatting.columns(r) for r in rows}
    assert ends == {formatting.columns(lines[rule])}  # one line a feature, all equally wide
    dots = {formatting.columns(r[: r.index("…", r.index(".")) if "…" in r else 0]) for r in rows}
    assert len(dots) == 1
    assert formatting.columns(lines[rule]) <= 100


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("温度", 4), ("e\u0301te\u0301", 3), ("🙂", 2), ("−…≤×", 4)]
)
def test_columns_are_those_of_a_terminal(text, width):
    assert formatting.columns(text) == width


def test_decimal_points_stand_below_each_other():
    e = with_belief(EXACT, [30.0, -2.0, 1.0, 0.5], [1.0, 0.22, 0.3, 0.004])
    at = {line.index(".") for line in body(str(e))}
    assert len(at) == 1


def test_exact_is_said_and_has_no_probability():
    text = str(EXACT)
    assert "exact: every coalition was asked" in text
    assert all(re.search(r"exact\s+–$", line) for line in body(text))
    assert "0.50" not in " ".join(line.split()[-1] for line in body(text))


def test_intervals_of_rounding_noise_do_not_ask_for_endless_digits():
    e = with_belief(EXACT, [26123.456789, -2000.0, 1.0, 0.5], 1e-10)
    assert [line.split()[2] for line in body(str(e))] == ["26,123.5", "−2,000.0", "1.0", "0.5"]


def test_rounding_noise_is_zero():
    e = with_belief(EXACT, [1.0, 0.5, 0.25, -6.66e-17], 0.0)
    last = body(str(e))[-1].split()
    assert last[2] == "0.000"


@pytest.mark.parametrize("constant", [7.0, 0.3, -1e9, 1e-12])
@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_a_constant_model_has_importances_of_zero(method, constant):
    X = np.random.default_rng(0).normal(size=(60, 4))
    e = method(lambda rows: np.full(len(rows), constant), X).explain(X[0])
    assert "importance ×10" not in str(e)
    assert [line.split()[-3 if e.exact else -6] for line in body(str(e))] == ["0"] * 4
    assert e._repr_html_().count('class="grey"') == 4
    low, high = e.plot.intervals().get_xlim()
    assert high - low > 1  # no axis of rounding errors


def test_small_effects_on_large_outputs_are_not_rounding():
    e = cx.BayesSHAP(lambda z: 1e9 + 0.01 * z[:, 0], cx.Masks(3)).explain()
    assert body(str(e))[0].split()[2].startswith("0.0100")


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize("scale", [1e68, 1e-300, 1e-310])
def test_outputs_near_the_limits_of_floats_are_printed_without_a_question_mark(method, scale):
    def model(z):
        return scale * (z @ np.arange(1.0, 10.0) + z[:, 0] * z[:, 1] * z[:, 2])

    e = method(model, cx.Masks(9)).explain(queries=40)
    text = str(e)
    assert "?" not in text
    assert "nan" not in text + e._repr_html_()
    assert [re.match(r"  part \d  +[\d.,]+  +\S", line) is not None for line in body(text)] == [
        True
    ] * 9


@pytest.mark.parametrize("half", [np.nan, np.inf])
def test_intervals_that_could_not_be_computed_are_infinite(half):
    e = with_belief(EXACT, [1e200, -2e200, 3e200, 4e200], half, exact=False)
    assert all(line.split()[-4:] == ["−∞", "…", "∞", "0.50"] for line in body(str(e)))


def test_certainty_is_not_claimed():
    e = with_belief(EXACT, [1.0, -1.0, 0.0, 0.001], 0.01)
    assert [line.split()[-1] for line in body(str(e))] == [">0.99", "<0.01", "0.58", "0.50"]


def test_nothing_known_yet():
    nan = np.full(4, np.nan)
    e = with_belief(EXACT, nan, np.inf, exact=False, stop_reason="model error", history=History())
    text = str(e)
    assert "too little was asked" in text
    assert "the model failed" in text
    assert "nan" not in text
    assert "nan" not in e._repr_html_()


@pytest.mark.parametrize(
    ("mean", "half"),
    [([np.nan, 1.0, 2.0, 3.0], 0.1), ([1.0, 2.0, 3.0, 4.0], [np.inf, 0.1, 0.1, 0.1])],
)
def test_partly_unknown_does_not_crash(mean, half):
    e = with_belief(EXACT, mean, half)
    assert "?" in str(e) or "∞" in str(e)
    assert "nan" not in e._repr_html_()
    assert "inf" not in e._repr_html_()


def test_several_outputs_each_have_their_table():
    e = game(k=3)
    text = str(e)
    assert text.count("  feature  ") == 3
    assert [f"for output {j}" in text for j in range(3)] == [True] * 3
    assert e._repr_html_().count("<table") == 3


def test_very_many_outputs_are_cut_to_those_that_moved():
    e = game(k=30)
    text = str(e)
    assert text.count("  feature  ") == formatting.MAX_OUTPUTS
    assert "and 20 more outputs" in text
    assert f"for output {int(np.argmax(np.abs(e.prediction - e.base_value)))} " in text


def test_lime_says_its_unit_and_fit():
    X = np.random.default_rng(0).normal(size=(300, 3))
    lime = cx.BayesLIME(lambda X: X[:, 0] - 2 * X[:, 1], cx.Tabular(X))
    e = lime.explain(X[0], queries=200)
    text = str(e)
    assert "per same bin" in text
    assert f"R² {e.r2:.2f}" in text
    for label in e.labels:
        assert label in text


def test_log_odds_are_named():
    X = np.random.default_rng(0).normal(size=(50, 3))
    shap = cx.BayesSHAP(lambda X: 1 / (1 + np.exp(-X[:, 0])), X, link="logit")
    assert "in log-odds" in str(shap.explain(X[0])).splitlines()[0]


def test_logarithms_are_explained_and_named():
    """A product of factors is additive in logarithms: exact, however heavy its tails."""
    X = np.random.default_rng(0).normal(size=(50, 3))
    weights = np.array([3.0, -2.0, 0.5])
    product = cx.BayesSHAP(lambda X: np.exp(X @ weights), cx.Tabular(X), link="log")
    e = product.explain(X[0], posterior="exact")
    np.testing.assert_allclose(e.mean, weights * (X[0] - X.mean(axis=0)), atol=1e-9)
    assert "in logarithms" in str(e).splitlines()[0]
    assert "exp(importance) is a factor" in str(e)
    lime = cx.BayesLIME(lambda X: np.exp(X @ weights), cx.Tabular(X, bins=None), link="log")
    assert lime.explain(X[0], queries=300).r2 > 0.99


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (None, "missing"),
        (float("nan"), "missing"),
        (452600.0, "452600"),
        (0.00012345, "0.0001234"),
        (-1.5, "−1.5"),
        (np.float32(2.5), "2.5"),
        (-3, "−3"),
        (np.int64(2015), "2015"),
        (True, "True"),
        (float("inf"), "∞"),
        (-0.0, "0"),
        (dt.datetime(2024, 1, 4), "2024-01-04"),  # noqa: DTZ001
        (dt.datetime(2024, 1, 4, 12, 30), "2024-01-04 12:30:00"),  # noqa: DTZ001
        ("a\n b", "a b"),
    ],
)
def test_values(raw, shown):
    assert display(raw) == shown


@pytest.mark.parametrize(("level", "said"), [(0.95, "95 %"), (0.999, "99.9 %"), (0.5, "50 %")])
def test_levels_are_not_rounded(level, said):
    assert f"{said} interval" in str(game(d=14, queries=40, level=level))


@pytest.mark.parametrize("text", ["short", "abcdefghijklmnop", "温度温度温度温度", "e\u0301" * 30])
def test_shorten_keeps_both_ends(text):
    out = formatting.shorten(text, 10)
    assert formatting.columns(out) <= 10
    assert out[0] == text[0]
    assert out[-1] == text[-1]
    assert ("…" in out) == (formatting.columns(text) > 10)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.0007, "<0.01 s"), (0.123, "0.12 s"), (123.4, "123 s")]
)
def test_seconds(seconds, said):
    assert said in str(dataclasses.replace(EXACT, seconds=seconds))
