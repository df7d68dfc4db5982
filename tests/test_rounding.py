"""Importances that are only rounding errors count as zero: no rank, no sign, no verdict."""

import numpy as np
import pandas as pd
import pytest

import credex as cx
from credex.averages import Average, Estimates
from credex.report.data import explanation_data

X = np.random.default_rng(0).normal(size=(60, 3))


def nothing(rows):
    """A third, but for the last bits."""
    return 1 / 3 + 1e-16 * np.sign(np.asarray(rows)[:, 0]) + 1e-17


def far_from_zero(rows):
    return 1e6 + 1e-10 * np.asarray(rows)[:, 0]


def check_nothing(found):
    part = found.of()
    for array in (found.mean, found.lower, found.upper, part.size.sd):
        np.testing.assert_array_equal(array, 0.0)
    low, high = found.rank_range()
    assert low.tolist() == [1, 1, 1]
    assert high.tolist() == [3, 3, 3]
    assert found.chance.max() < 0.5


@pytest.mark.parametrize("model", [nothing, far_from_zero])
def test_averages_of_rounding_errors_are_zero_and_tie(model):
    shap = cx.BayesSHAP(model, X[:20])
    batch = shap.explain_many(X[:10], queries=60)
    found = [shap.explain_global(X, queries=400)]
    tidy = pd.concat(shap.frames([X[:10]], queries=60))
    found += [cx.aggregate(source, population="rows") for source in (batch, tidy)]
    for a in found:
        check_nothing(a)
        part = a.of()
        for shares in (part.positive.value, part.negative.value, part.first, part.signed.value):
            np.testing.assert_array_equal(shares, 0.0)


@pytest.mark.parametrize("model", [nothing, far_from_zero])
def test_shares_of_a_loss_that_are_rounding_errors_are_zero_and_tie(model):
    y = model(X) + np.random.default_rng(1).normal(size=60)
    found = cx.BayesSHAP(model, X[:20]).explain_loss(X, y, loss="squared error", queries=500)
    check_nothing(found)
    np.testing.assert_array_equal(found.total.value, 0.0)


def test_entropy_of_a_constant_model():
    y = (X[:, 0] > 0).astype(int)
    shap = cx.BayesSHAP(lambda r: nothing(r) + 0.0, X[:20])
    check_nothing(shap.explain_loss(X, y, loss="cross-entropy", queries=900))


def test_a_ranking_of_rounding_errors_is_never_settled():
    shap = cx.BayesSHAP(nothing, X[:20])
    assert not shap.explain_global(X, stop=cx.RankingSettled(1, 0.95), max_queries=900).converged


def test_a_batch_on_disk_knows_its_predictions(tmp_path):
    frame = pd.DataFrame(X[:6], columns=list("abc"))
    shap = cx.BayesSHAP(nothing, frame)
    check_nothing(cx.aggregate(shap.explain_many(frame, queries=60, out=tmp_path / "batch")))


def test_features_that_are_equal_have_each_others_ranks():
    e = Estimates(*np.zeros((4, 3)))
    draws = np.column_stack([np.ones(100), np.zeros((100, 2))])
    part = Average(("a", "b", "c"), "0", None, 9, 0.95, 9.0, e, e, e, e, np.zeros(3), draws)
    low, high = part.rank_range()
    assert (low.tolist(), high.tolist()) == ([1, 2, 2], [1, 3, 3])


def test_cohorts_that_differ_by_rounding_do_not_differ():
    parts = []
    for cohort, value in (("a", 0.3), ("b", 0.1 + 0.2)):
        e = Estimates(*(np.array([x, 1.0]) for x in (value, value, value)), np.zeros(2))
        parts.append(
            Average(("x", "y"), "0", cohort, 9, 0.95, 9.0, e, e, e, e, np.zeros(2), np.ones((9, 2)))
        )
    assert not cx.Aggregate(tuple(parts), 0.95).differences()[0].real.any()


def test_the_verdict_of_a_feature_that_is_rounding_error():
    """Exact answers: a feature that is 1e-17 neither leads nor raises the prediction."""
    domain = cx.Masks(3)
    shap = cx.BayesSHAP(lambda z: 0.3 * z[:, 0] * (1 + 1e-15 * z[:, 1]), domain)
    e = shap.explain()
    assert e.mean[1] != 0.0
    text = str(e.verdict())
    assert "then" not in text
    assert "1 feature raises the prediction" in text
    data = explanation_data(e)["outputs"][0]
    at = data["features"].index(1)
    assert data["mean"][at] == data["scale"][at] == 0
