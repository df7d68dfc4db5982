"""``posterior="auto"`` is a pure function of d, the budget and the cost of a query."""

import time

import numpy as np
import pytest

import credex as cx
from credex.auto import choose_posterior
from tests.games import smooth_game, table_game

V = table_game(smooth_game(14, 0))


@pytest.mark.parametrize(
    ("d", "budget", "seconds", "chosen"),
    [
        (16, 300, None, "linear"),
        (16, 300, 1e-5, "linear"),
        (16, 300, 2.0, "gp"),
        (200, 300, 2.0, "linear"),
        (16, 50_000, 2.0, "linear"),
    ],
)
def test_the_choice(d, budget, seconds, chosen):
    choice = choose_posterior(d, budget, seconds)
    assert choice.posterior == chosen
    assert len(choice.why) > 20


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
