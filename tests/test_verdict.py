"""Every sentence of a verdict is true of one posterior and left out of another."""

import dataclasses
import re
from html import escape

import numpy as np
import pytest

import credex as cx
from credex.posteriors import Belief
from credex.verdict import judge, judge_batch

NAMES = ("priors_count", "age", "race", "sex")
GAME = cx.BayesSHAP(lambda m: m @ [4.0, 3.0, 2.0, 1.0], cx.Masks(4, names=NAMES)).explain()


def made(mean, sd, e=GAME, *, dof=100.0, method="BayesSHAP", estimate=None, **changes):
    """An explanation with the posterior given, as if 200 queries had been asked of a table."""
    mean = np.asarray(mean, dtype=float)
    scale = np.diag(np.broadcast_to(np.square(np.asarray(sd, dtype=float)), len(mean)))[:, :, None]
    belief = Belief(mean[:, None], scale, dof)
    fit = dataclasses.replace(e.estimate, belief=belief, exact=False, **(estimate or {}))
    history = dataclasses.replace(e.history, n_queries=200, n_model_rows=400)
    instance = dataclasses.replace(e.instance, data_digest="a table's")
    defaults = {"estimate": fit, "history": history, "seconds": 2.0, "converged": True}
    defaults |= {"instance": instance, "stop_reason": "width", "method": method}
    return dataclasses.replace(e, **(defaults | changes))


def words(*args, output=None, level=None, row_cost=None, **changes):
    return str(judge(made(*args, **changes), output, level, row_cost))


# -- the ranking -----------------------------------------------------------------------------------


def test_a_certain_leader_is_named_with_its_probability():
    text = words([4.0, 1.0, 0.9, 0.1], 0.3)
    assert re.search(r"priors_count is the most important feature \(P > 0\.99", text)
    assert "then" not in text
    assert "priors_count is the most" not in words([1.05, 1.0, 0.9, 0.1], 0.3)


def test_the_probability_is_that_of_the_ranking():
    e = made([1.2, 0.4, 0.0, 0.0], 0.25)
    said = re.search(r"priors_count is the most important feature \(P = (0\.\d+)\)", str(judge(e)))
    assert float(said.group(1)) == pytest.approx(e.rank_probabilities()[0, 0], abs=0.004)


def test_an_order_is_said_as_far_as_it_is_settled():
    assert "priors_count is the most important feature, then age and race" in words(
        [9.0, 6.0, 3.0, 0.1], 0.2
    )
    assert "priors_count is the most important feature, then age (P" in words(
        [9.0, 6.0, 1.0, 0.99], 0.2
    )


def test_one_of_two_leaders():
    text = words([4.0, 3.95, 0.2, 0.1], 0.1)
    assert "priors_count or age is the most important feature (P > 0.999)" in text
    assert " or " not in words([4.0, 3.0, 0.2, 0.1], 0.1)


def test_what_cannot_be_told_apart_has_a_price():
    """P(|age| > |race|) reaches 0.95 at z = 1.645: that takes (1.645·√2·0.3/0.25)² as much."""
    text = words([9.0, 2.25, 2.0, 0.0], 0.3, dof=1e6)
    found = re.search(
        r"age and race cannot be told apart yet: about ([\d,]+) more rows, ([\d.]+) s, would", text
    )
    growth = (1.645 * np.sqrt(2) * 0.3 / 0.25) ** 2
    assert float(found.group(1).replace(",", "")) == pytest.approx(400 * (growth - 1), rel=0.05)
    assert float(found.group(2)) == pytest.approx(2.0 * (growth - 1), rel=0.06)
    assert "told apart" not in words([9.0, 4.0, 2.0, 0.0], 0.1)


def test_settled_means_settled_when_the_rows_are_asked():
    e = made([9.0, 2.25, 2.0, 0.0], 0.3)
    b = e.belief
    rows = float(re.search(r"about ([\d,]+) more rows", str(judge(e))).group(1).replace(",", ""))
    later = dataclasses.replace(b, scale=b.scale / (1 + rows / 400))
    assert later.prob_greater(1, 2, 0, signed=False) == pytest.approx(0.95, abs=0.005)


def test_equal_importances_are_not_promised_to_be_told_apart():
    text = words([9.0, 2.0, 2.0, 0.0], 0.3)
    assert "age and race cannot be told apart: they may be equally important" in text
    assert "equally" not in words([9.0, 2.3, 2.0, 0.0], 0.3)


def test_others_that_are_close_are_counted():
    assert "(1 more is close)" in words([9.0, 2.2, 2.1, 2.0], 0.3)
    assert "close" not in words([9.0, 2.2, 2.1, 0.0], 0.3)


def test_a_price_is_named_if_rows_have_one():
    text = words([9.0, 2.25, 2.0, 0.0], 0.3, row_cost=0.01)
    rows = float(re.search(r"about ([\d,]+) more rows", text).group(1).replace(",", ""))
    price = float(re.search(r"at a price of ([\d.,]+),", text).group(1).replace(",", ""))
    assert price == pytest.approx(0.01 * rows, rel=0.06)
    assert "price" not in words([9.0, 2.25, 2.0, 0.0], 0.3)
    with pytest.raises(cx.InputError, match="row_cost"):
        words([9.0, 2.25, 2.0, 0.0], 0.3, row_cost=-1)


def test_all_coalitions_of_a_mask_game_are_the_most_it_can_cost():
    e = made([9.0, 2.05, 2.0, 0.0], 0.3)
    coalitions = dataclasses.replace(
        e,
        instance=dataclasses.replace(e.instance, data_digest=None),
        history=dataclasses.replace(e.history, n_queries=10, n_model_rows=10),
    )
    assert "about 6 more rows" in str(judge(coalitions))


# -- directions ------------------------------------------------------------------------------------


def test_directions_are_counted():
    text = words([4.0, 3.0, -2.0, 0.1], 0.2)
    assert "At 95 %, 2 features raise the prediction and 1 lowers it; for 1 the direction" in text
    assert "1 feature raises the prediction; for 3 the" in words([4.0, 0.1, 0.1, 0.1], 0.2)
    assert "4 features lower the prediction." in words([-4.0, -3.0, -2.0, -1.0], 0.1)


def test_the_level_decides():
    e = made([1.0, 0.0, 0.0, 0.0], 0.45)
    assert "1 feature raises the prediction" in str(judge(e, level=0.9))
    assert "every 99 % interval includes 0" in str(judge(e, level=0.99))


def test_no_direction_known_is_a_reason_for_caution():
    text = words([0.3, 0.2, 0.1, 0.0], 0.5, dof=1e6)
    found = re.search(r"^Caution: every 95 % interval includes 0, .*; about ([\d,]+) more", text)
    assert float(found.group(1).replace(",", "")) == pytest.approx(
        400 * ((1.96 * 0.5 / 0.3) ** 2 - 1), rel=0.06
    )
    assert "Caution" not in words([4.0, 3.0, 2.0, 0.1], 0.2)


# -- widths, fit, cautions -------------------------------------------------------------------------


def test_a_run_that_ends_at_its_ceiling_is_no_failure():
    e = made([4.0, 3.0, 2.0, 0.1], 0.2, dof=1e6, converged=False, stop_reason="ceiling")
    text = str(judge(e))
    assert "This may be precise enough: the widest interval is 0.78, 20 % of the largest" in text
    assert "half as wide takes about 1,200 more rows, 6 s" in text
    whole = str(e).lower()
    assert not re.search(r"caution|ran out|fail|not met|warning", whole)
    assert "default limit of queries" in whole
    assert "may be precise enough" not in words([4.0, 3.0, 2.0, 0.1], 0.2)


def test_a_good_and_a_poor_linear_fit():
    def fit(r2, local=4.0):
        changes = {"r2": np.array([r2]), "local_prediction": np.array([local])}
        return words([4.0, 3.0, 2.0, 0.1], 0.2, method="BayesLIME", estimate=changes)

    assert "accounts for 83 % of how the model varies" in fit(0.83)
    assert "Caution: the model is far from linear around this instance (R² 0.21)" in fit(0.21)
    assert "far from linear" not in fit(0.83)
    assert "accounts for" not in fit(0.21)
    assert "accounts for over 99 %" in fit(0.9999)
    off = float(GAME.prediction) - 5.0
    assert "the linear explanation is off by 5.000" in fit(0.9, local=off)
    assert "off by" not in fit(0.9, local=off + 2.0)
    assert "linear" not in words([4.0, 3.0, 2.0, 0.1], 0.2, estimate={"r2": np.array([0.2])})


def test_the_base_value_has_its_interval_if_it_is_an_estimate():
    known = {"base_sd": np.array([0.1]), "base_dof": 1e6}
    assert "base value is itself an estimate: 0.00 ± 0.20" in words(
        [4.0, 3.0, 2.0, 0.1], 0.2, estimate=known
    )
    assert "base value" not in words([4.0, 3.0, 2.0, 0.1], 0.2)


def test_few_degrees_of_freedom_are_a_reason_for_caution():
    assert "few independent answers (3 degrees" in words([4.0, 3.0, 2.0, 0.1], 0.2, dof=3.0)
    assert "degrees" not in words([4.0, 3.0, 2.0, 0.1], 0.2, dof=30.0)


def test_a_failed_model_is_said():
    text = words([4.0, 3.0, 2.0, 0.1], 0.2, stop_reason="model error")
    assert "Caution: the model failed before the run was done" in text
    assert "failed" not in words([4.0, 3.0, 2.0, 0.1], 0.2)


def test_what_was_not_measured_is_named_and_the_rest_is_judged():
    text = words([4.0, 3.0, 1.0, 0.1], [0.2, 0.2, np.inf, 0.2])
    assert "Caution: nothing is known of race: no query measured it" in text
    assert "priors_count is the most important feature" in text
    nothing = words([np.nan] * 4, np.inf)
    assert nothing == "Caution: too few queries were answered to say anything."


def test_exact_and_zero_importances():
    assert str(judge(GAME)) == (
        "priors_count is the most important feature, then age and race (exactly).\n"
        "4 features raise the prediction."
    )
    flat = cx.BayesSHAP(lambda m: np.full(len(m), 3.0), cx.Masks(4))
    assert str(judge(flat.explain())) == "No feature changes the prediction (exactly)."
    assert "in any query so far" in words([0.0] * 4, 0.0)


def test_one_feature_has_no_rivals():
    e = cx.BayesSHAP(lambda m: m @ [2.0], cx.Masks(1)).explain()
    assert str(judge(e)) == "1 feature raises the prediction."


def test_the_model_is_not_asked():
    calls = []

    def model(masks):
        calls.append(len(masks))
        return np.sin(masks @ np.arange(12.0))

    e = cx.BayesSHAP(model, cx.Masks(12)).explain(queries=60)
    before = len(calls)
    str(e), e.verdict(row_cost=2.0), e._repr_html_()
    assert len(calls) == before


def test_print_html_and_method_say_the_same():
    e = made([9.0, 2.25, 2.0, 0.0], 0.3)
    lines = e.verdict().splitlines()
    assert len(lines) >= 3
    flat = " ".join(str(e).split())
    for line in lines:
        assert line in flat
        assert escape(line) in e._repr_html_()


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a\nb", "x" * 5000, "שלום", '"q"'])
def test_hostile_names_stay_names(name):
    e = made([9.0, 2.25, 2.0, 0.0], 0.3)
    e = dataclasses.replace(e, instance=dataclasses.replace(e.instance, names=(name, *NAMES[1:])))
    text = e.verdict()
    assert "\n" not in text.splitlines()[0]
    assert len(text) < 600
    assert "is the most important feature" in text
    assert ("\u2068שלום\u2069" in text) == (name == "שלום")  # numbers beside it keep their place


# -- batches ---------------------------------------------------------------------------------------


def batch(mean, sd, n=12):
    rng = np.random.default_rng(0)
    return [made(np.asarray(mean) * rng.choice([-1, 1]), sd) for _ in range(n)]


def test_a_batch_has_a_leader_or_says_that_it_has_none():
    text = str(judge_batch(batch([4.0, 1.0, 0.5, 0.1], 0.2), 0))
    assert "priors_count is the most important feature on average over 12 rows" in text
    assert "priors_count in 12 of 12 rows" in text
    text = str(judge_batch(batch([2.0, 2.0, 0.5, 0.1], 0.4), 0))
    assert "may each be the most important feature on average" in text


def test_rows_lost_and_rows_without_a_direction_are_said():
    text = str(judge_batch(batch([0.1, 0.1, 0.0, 0.0], 1.0), 0, n_lost=3))
    assert "Caution: 3 of 15 rows have no explanation" in text
    assert "In 12 of 12 rows no direction is known" in text
    text = str(judge_batch(batch([4.0, 1.0, 0.5, 0.1], 0.2), 0))
    assert "no explanation" not in text
    assert "no direction" not in text
    assert "3 of 3 rows" in str(judge_batch([], 0, n_lost=3))
