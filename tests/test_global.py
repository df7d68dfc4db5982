"""explain_global: exact where it must be, within its budget, honest about what it is asked."""

import numpy as np
import pandas as pd
import pytest

import credex as cx
from credex.importance.outlook import Outlook
from credex.importance.surrogate import FOLDS, PairSurrogate
from credex.posteriors.assisted import InputSpace
from tests.strategies import Counting

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))
BACKGROUND = RNG.normal(size=(40, 4))


def additive(rows):
    rows = np.asarray(rows, dtype=float)
    return 3 * rows[:, 0] + np.abs(rows[:, 1]) - 0.5 * rows[:, 2]


def pairs(rows):
    rows = np.asarray(rows, dtype=float)
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


def parts(rows):
    return np.column_stack([3 * rows[:, 0], np.abs(rows[:, 1]), -0.5 * rows[:, 2], 0 * rows[:, 3]])


PHI = parts(X) - parts(BACKGROUND).mean(axis=0)


def test_the_surrogates_shapley_values_are_those_of_its_predictions():
    """Against enumeration of all coalitions over the background."""
    rng = np.random.default_rng(1)
    rows, background, x = rng.random((80, 3)), rng.random((7, 3)), rng.random((2, 3))
    weights = rng.dirichlet(np.ones(7))
    space = InputSpace(((0,), (1,), (2,)), np.zeros(3, dtype=bool))
    fit = PairSurrogate(
        space,
        rows,
        np.column_stack([pairs(rows), rows[:, 0]]),
        np.arange(80) % FOLDS,
        background=background,
        weights=weights,
        amplitudes=np.array([1.0, 2.0, 0.5]),
    )
    found = fit.shapley(x)
    for fold in range(FOLDS):
        at = np.full(7, fold)

        def v(mask, i, at=at):
            return weights @ fit.predict(np.where(mask, x[i], background), at)

        for i in range(2):
            masks = (np.arange(8)[:, None] >> np.arange(3)) & 1 == 1
            values = np.array([v(m, i) for m in masks])
            phi0 = (
                2 * (values[1] - values[0])
                + (values[3] - values[2])
                + (values[5] - values[4])
                + 2 * (values[7] - values[6])
            ) / 6
            np.testing.assert_allclose(found[i, 0, fold], phi0, atol=1e-8)
            total = values[7] - values[0]
            np.testing.assert_allclose(found[i, :, fold].sum(axis=0), total, atol=1e-8)
        np.testing.assert_allclose(fit.base(background, weights)[fold], v(np.zeros(3, bool), 0))


def test_an_additive_model_and_every_row_of_the_budget():
    model = Counting(additive)
    found = cx.BayesSHAP(model, BACKGROUND).explain_global(X, queries=700)
    assert found.n_model_rows == model.rows <= 700
    assert found.n_model_rows > 600
    assert found.stop_reason == "queries"
    truth = np.abs(PHI).mean(axis=0)
    assert np.all(np.abs(found.mean - truth) < 0.15)
    assert found.order[0] == 0
    np.testing.assert_allclose(found.signed, PHI.mean(axis=0), atol=0.15)
    # mean φ add up to the mean prediction less the base value
    total = additive(X).mean() - additive(BACKGROUND).mean()
    assert abs(found.signed.sum() - total) < 0.5
    assert np.all(found.lower <= found.mean)
    assert np.all(found.mean <= found.upper)


def test_the_same_seed_gives_the_same_numbers_and_calls_can_be_cut():
    explainer = cx.BayesSHAP(pairs, BACKGROUND)
    one = explainer.explain_global(X, queries=300, seed=3)
    two = explainer.explain_global(X, queries=300, seed=3, batch_rows=17)
    np.testing.assert_array_equal(one.mean, two.mean)
    assert two.n_calls > one.n_calls
    assert not np.array_equal(one.mean, explainer.explain_global(X, queries=300, seed=4).mean)


def test_a_width_is_reached_or_the_ceiling_says_so():
    explainer = cx.BayesSHAP(pairs, BACKGROUND)
    found = explainer.explain_global(X, width=0.35)
    assert found.converged
    assert found.stop_reason == "width"
    assert found.interval().width.max() <= 0.35
    short = explainer.explain_global(X, width=0.001, max_queries=400)
    assert not short.converged
    assert short.stop_reason == "max_queries"
    assert short.n_model_rows <= 400


def test_it_stops_when_the_ranking_is_settled():
    found = cx.BayesSHAP(additive, BACKGROUND).explain_global(X, stop=cx.RankingSettled(1, 0.95))
    assert found.stop_reason == "ranking settled"
    assert found.chance[0] > 0.95
    assert found.n_model_rows < 2_000


def test_cohorts_have_averages_of_their_own_and_real_differences_are_found():
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["a"] = np.where(frame["b"] > 0, 3 * frame["a"], 0.3 * frame["a"])
    labels = np.where(frame["b"] > 0, "high", "low")
    background = pd.DataFrame(BACKGROUND, columns=list("abcd"))
    explainer = cx.BayesSHAP(lambda rows: additive(rows.to_numpy()), background)
    found = explainer.explain_global(frame, by=labels, queries=900)
    assert found.cohorts == ["high", "low"]
    assert found.of(cohort="high").size.value[0] > 3 * found.of(cohort="low").size.value[0]
    (difference,) = found.differences()
    assert difference.real.tolist()[0]
    assert not difference.real[3]
    assert "a matters more in high than in low" in str(found)
    with pytest.raises(cx.InputError, match="several fit"):
        _ = found.mean


def test_several_outputs():
    explainer = cx.BayesSHAP(lambda r: np.column_stack([additive(r), pairs(r)]), BACKGROUND)
    found = explainer.explain_global(X, queries=400)
    assert len(found.outputs) == 2
    assert found.of(output=0).order[0] == 0
    assert "output" in found.to_frame().columns
    with pytest.raises(cx.InputError, match="nothing fits output='x'"):
        found.of(output="x")
    only = explainer.explain_global(X, queries=400, target=1)
    assert len(only.outputs) == 1


def test_small_portfolios_are_asked_whole_and_then_deeper():
    found = cx.BayesSHAP(pairs, BACKGROUND).explain_global(X[:12], queries=900)
    assert found.n_rows == 12
    assert found.n_model_rows > 850


def test_categories_and_missing_values():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"town": rng.choice(list("ABC"), 150), "age": rng.normal(size=150), "debt": rng.random(150)}
    )
    frame.loc[::7, "age"] = np.nan

    def model(rows):
        return 2.0 * (rows["town"] == "B") + rows["age"].fillna(0).to_numpy()

    found = cx.BayesSHAP(model, frame[:50]).explain_global(frame, queries=500)
    assert found.order[-1] == 2
    np.testing.assert_allclose(found.mean[2], 0.0, atol=0.1)


def test_a_forecast_says_about_what_it_takes():
    explainer = cx.BayesSHAP(pairs, BACKGROUND)
    forecast = explainer.forecast_global(X, width=0.3, row_cost=2.0)
    assert forecast.low <= forecast.queries <= forecast.high
    assert forecast.cost == 2 * forecast.queries
    need = explainer.explain_global(X, width=0.3).n_model_rows
    assert need / 3 < forecast.total < 3 * need
    spent = forecast.n_queries
    assert spent + forecast.low <= max(need, spent) <= spent + forecast.high
    assert explainer.forecast_global(X, width=50.0).queries == 0


def test_more_rows_and_more_pairs_make_intervals_narrower():
    run_of = cx.BayesSHAP(pairs, BACKGROUND)
    from credex.importance.plan import plan_portfolio
    from credex.stopping import Goals

    run = plan_portfolio(run_of, X, Goals(queries=300), run_of.options)
    run.run()
    outlook = run.outlook()
    assert isinstance(outlook, Outlook)
    n, p = outlook.n, outlook.p
    assert outlook.ratio(4 * n, p) < outlook.ratio(2 * n, p) < outlook.ratio(n, p)
    assert outlook.ratio(n, 4 * p) < outlook.ratio(n, p)
    assert outlook.best(600).cost <= 600


class Failing:
    """A model that fails, or is interrupted, after some rows."""

    def __init__(self, error, after):
        self.error, self.left = error, after

    def __call__(self, rows):
        self.left -= len(rows)
        if self.left < 0:
            raise self.error
        return pairs(rows)


def test_what_was_learned_before_an_interruption_or_an_error_is_kept():
    model = Failing(KeyboardInterrupt(), 600)
    with pytest.raises(cx.InterruptedRun) as stop:
        cx.BayesSHAP(model, BACKGROUND).explain_global(X, width=0.001)
    assert stop.value.partial.stop_reason == "interrupted"
    assert stop.value.partial.n_model_rows >= 600
    with pytest.raises(cx.ModelError) as failed:
        cx.BayesSHAP(Failing(ValueError("no"), 600), BACKGROUND).explain_global(X, width=0.001)
    assert failed.value.partial.n_rows >= 10
    with pytest.raises(cx.ModelError) as failed:
        cx.BayesSHAP(Failing(ValueError("no"), 10), BACKGROUND).explain_global(X, width=0.001)
    assert failed.value.partial is None


def test_bad_input_is_named_before_the_model_is_asked():
    model = Counting(pairs)
    shap = cx.BayesSHAP(model, BACKGROUND)
    cases = [
        ({"X": X[:0]}, "no rows"),
        ({"X": X[:1]}, "10 rows or more; got 1"),
        ({"X": X[:, :3]}, "3"),
        ({"width": 0.0}, "width must be a positive number"),
        ({"width": -1.0}, "width must be a positive number"),
        ({"queries": 20}, "queries=20 is too few"),
        ({"max_rows": 0}, "max_rows must be"),
        ({"max_rows": 5}, "10 rows or more; got 5"),
        ({"by": "region"}, "by='region' is no column"),
        ({"by": [1, 2]}, "by has 2 labels for 200 rows"),
        ({"by": [np.nan] * 200}, "200 rows have no cohort"),
        ({"by": ["a"] * 199 + ["b"]}, "cohort b has 1 of the rows"),
        ({"features": 2}, "takes no features=2; leave it out"),
        ({"robust": False}, "takes no robust=False.* pass robust=True"),
        ({"posterior": "gp"}, "takes no posterior='gp'.* pass posterior='auto'"),
        ({"query_seconds": 1.0}, "takes no query_seconds=1.0"),
        ({"stop": cx.RankingSettled(4)}, "says nothing of 4 features"),
    ]
    for case, message in cases:
        call = {"X": X, "queries": 300} | case
        if "width" in case or "stop" in case:
            del call["queries"]
        with pytest.raises(cx.InputError, match=message):
            shap.explain_global(call.pop("X"), **call)
    assert model.rows == 0
    with pytest.raises(cx.InputError, match="for BayesSHAP on tables"):
        cx.BayesLIME(pairs, BACKGROUND).explain_global(X)
    with pytest.raises(cx.InputError, match="for BayesSHAP on tables"):
        cx.BayesSHAP(lambda z: z[:, 0], cx.Masks(3)).explain_global(X)
    with pytest.raises(cx.InputError, match="takes no posterior='gp'"):
        cx.BayesSHAP(model, BACKGROUND, posterior="gp").explain_global(X, queries=300)
    calibrated = cx.BayesSHAP(model, BACKGROUND, query_seconds=0.001)
    assert calibrated.explain_global(X, queries=300).n_model_rows == model.rows
