"""``posterior="auto"`` is a pure function of d, the budget and the cost of a query."""

import time

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import credex as cx
from credex.auto import Prospect, choose_posterior, switch_reason, worth_fitting
from tests.games import shapley, smooth_game, table_game

V = table_game(smooth_game(14, 0))


@pytest.mark.parametrize(
    ("d", "budget", "seconds", "chosen"),
    [
        (16, 300, None, "linear"),
        (16, 300, 1e-5, "linear"),
        (16, 300, 2.0, "gp"),
        (200, 300, 2.0, "linear"),
        (16, 50_000, 2.0, "linear"),
        (16, 100, 3e-4, "linear"),
        (16, 100, 4e-4, "gp"),
        (16, 2000, 1e-3, "linear"),
    ],
)
def test_the_choice_for_a_budget(d, budget, seconds, chosen):
    choice = choose_posterior(d, budget, seconds)
    assert choice.posterior == chosen
    assert not choice.open
    assert len(choice.why) > 20


@pytest.mark.parametrize(
    ("d", "budget", "seconds", "chosen", "may_change"),
    [
        (16, 2000, None, "linear", False),
        (16, 2000, 1e-5, "linear", True),
        (16, 2000, 2e-3, "linear", True),
        (16, 2000, 3e-3, "gp", False),
        (16, 50_000, 3e-3, "linear", True),
        (200, 2000, 2.0, "linear", False),
    ],
)
def test_the_choice_for_a_width(d, budget, seconds, chosen, may_change):
    choice = choose_posterior(d, budget, seconds, fixed=False)
    assert (choice.posterior, choice.open) == (chosen, may_change)


def test_handing_over_compares_what_is_left():
    far = Prospect(n=65, left=1935, more=800, least=600, query_seconds=1e-3)
    assert worth_fitting(far)
    assert "query 65" in switch_reason(far, process=60)
    assert switch_reason(far, process=400) is None, "400 queries and their arithmetic take longer"
    near = far._replace(more=50, least=30)
    assert not worth_fitting(near), "the rest takes less time than asking the process"
    cheap = far._replace(query_seconds=1e-5)
    assert not worth_fitting(cheap)
    never = cheap._replace(n=200, left=1800, more=5000, least=2500)
    assert worth_fitting(never)
    assert "left" in switch_reason(never, process=500)
    assert switch_reason(never, process=1900) is None, "beyond the budget for both"
    assert not worth_fitting(never._replace(n=65)), "too early to believe that"


def test_a_regression_hands_over_and_says_so():
    """A curved game at 1 ms a query: the regression alone takes far more queries to the width."""
    ex = cx.BayesSHAP(V, cx.Masks(14))
    truth = shapley(smooth_game(14, 0))
    alone = ex.explain(width=0.05, posterior="linear")
    e = ex.explain(width=0.05, query_seconds=1e-3)
    assert alone.converged
    assert e.converged
    assert np.all(e.interval().width <= 0.05)
    assert (e.posterior, e.sampler) == ("gp", "focused")
    assert e.n_queries < 0.5 * alone.n_queries
    assert any("from query" in n for n in e.notes)
    assert np.abs(e.mean - truth).max() < 0.05
    masks = e.history.rows.design()
    assert len(np.unique(masks, axis=0)) == len(masks), "a coalition was asked twice"
    first = 3 * (14 + 2)
    plain = ex.explain(queries=first, posterior="linear").history.rows.design()
    np.testing.assert_array_equal(masks[: len(plain)], plain)
    np.testing.assert_array_equal(ex.explain(width=0.05, query_seconds=1e-3).mean, e.mean)
    more = ex.refine(cx.Explanation.from_json(e.to_json()), width=0.03, query_seconds=1e-3)
    assert more.posterior == "gp", "focused pairs are no random sample: no regression on them"
    assert more.converged


def test_a_cheap_regression_hands_over_only_if_it_cannot_get_there():
    ex = cx.BayesSHAP(V, cx.Masks(14), query_seconds=1e-6)
    alone = ex.explain(width=0.1, posterior="linear")
    e = ex.explain(width=0.1)
    assert e.posterior == "linear"
    np.testing.assert_array_equal(e.mean, alone.mean)
    for most in (300, 450):  # out of reach; just missed, which shows at the last query only
        assert not ex.explain(width=0.1, max_queries=most, posterior="linear").converged
        tight = ex.explain(width=0.1, max_queries=most)
        assert tight.converged
        assert tight.posterior == "gp"
        assert tight.n_queries <= most


def test_rows_of_a_batch_hand_over_each_for_itself():
    X, y = load_wine(return_X_y=True)
    model = make_pipeline(StandardScaler(), KNeighborsClassifier(9)).fit(X, y)
    ex = cx.BayesSHAP(model, cx.Tabular(X, background=1), target=1, query_seconds=1e-3)
    batch = ex.explain_many(X[60:66], width=0.03)
    assert {e.posterior for e in batch} == {"gp", "linear"}, "all alike: nothing is tested"
    for x, e in zip(X[60:66], batch, strict=True):
        alone = ex.explain(x, width=0.03)
        assert (alone.posterior, alone.n_queries) == (e.posterior, e.n_queries)
        np.testing.assert_allclose(alone.mean, e.mean, atol=1e-9)


def test_few_features_and_dear_queries_take_the_process_too():
    v = table_game(smooth_game(9, 1))
    e = cx.BayesSHAP(v, cx.Masks(9), query_seconds=1.0).explain(width=0.02)
    assert e.converged
    assert e.posterior == "gp"
    assert e.n_queries < 2**9 // 2
    exact = cx.BayesSHAP(v, cx.Masks(9), query_seconds=1.0).explain(queries=2**9)
    assert exact.exact


def test_the_result_says_what_was_chosen_and_why():
    cheap = cx.BayesSHAP(V, cx.Masks(14), query_seconds=1e-6).explain(queries=100)
    dear = cx.BayesSHAP(V, cx.Masks(14), query_seconds=1.0).explain(queries=100)
    assert (cheap.posterior, dear.posterior) == ("linear", "gp")
    assert dear.sampler == "focused"
    assert any("1e+03 ms" in n or "1000 ms" in n for n in dear.notes)
    again = cx.BayesSHAP(V, cx.Masks(14), query_seconds=1.0).explain(queries=100)
    np.testing.assert_array_equal(again.mean, dear.mean)
    plain = cx.BayesSHAP(V, cx.Masks(14)).explain(queries=100)
    np.testing.assert_array_equal(plain.mean, cheap.mean)


def test_an_explicit_wish_is_never_overruled():
    ex = cx.BayesSHAP(V, cx.Masks(14), query_seconds=1.0)
    assert ex.explain(queries=100, posterior="linear").posterior == "linear"
    assert ex.explain(queries=100, sampler="random").posterior == "linear"
    assert ex.explain(queries=100, features=3).posterior == "linear"


def test_calibrate_measures_and_keeps_the_original():
    def slow(z):
        time.sleep(0.004 * len(z))
        return V(z)

    ex = cx.BayesSHAP(slow, cx.Masks(14))
    known = ex.calibrate()
    assert ex.options.query_seconds is None
    assert 0.003 < known.options.query_seconds < 0.02
    assert known.explain(queries=40).posterior == "gp"


@pytest.mark.parametrize("bad", [0, -1.0, "slow", np.nan])
def test_nonsense(bad):
    with pytest.raises(cx.InputError, match="query_seconds"):
        cx.BayesSHAP(V, cx.Masks(14), query_seconds=bad)


@pytest.mark.parametrize("posterior", ["linear", "gp"])
def test_chosen_pairs_are_never_taken_for_a_random_sample(posterior):
    ex = cx.BayesSHAP(V, cx.Masks(14))
    e = ex.explain(queries=40, posterior="gp", sampler="focused")
    with pytest.raises(cx.InputError, match=r"no random sample.*sampler='focused'"):
        ex.refine(e, queries=80, posterior=posterior, sampler="paired")
    assert ex.refine(e, queries=80, posterior="gp", sampler="focused").n_queries > e.n_queries
    paired = ex.explain(queries=40, posterior="linear")
    assert ex.refine(paired, queries=80, posterior="gp", sampler="focused").posterior == "gp"


def test_calibrate_says_what_it_asks_before_it_asks(capsys):
    seen = []

    def model(z):
        seen.append((len(z), capsys.readouterr().err))
        return V(z)

    cx.BayesSHAP(model, cx.Masks(14)).calibrate(progress=True)
    assert "measuring the cost of a query" in seen[0][1]
    assert "0/66" in seen[0][1]
    assert sum(n for n, _ in seen) <= 66 + 2  # f(x) is asked again as a check
    cx.BayesSHAP(model, cx.Masks(14)).calibrate()
    assert capsys.readouterr().err == ""  # not a terminal
