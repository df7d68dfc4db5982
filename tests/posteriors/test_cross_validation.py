"""What rows left out say, and how many of them say it."""

import numpy as np
import pytest

import credex as cx
from credex.posteriors.cross_validation import resting


def test_normal_residuals_rest_on_all_rows_and_rare_ones_on_few():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(4000, 2))
    rare = np.where(rng.random((4000, 1)) < 0.01, 1.0, 0.0) * rng.normal(size=(4000, 1))
    v = np.exp(rng.normal(size=4000))
    assert resting(normal * np.sqrt(v)[:, None], v) == pytest.approx([4000, 4000], rel=0.1)
    assert resting(rare * np.sqrt(v)[:, None], v)[0] < 80
    assert resting(np.ones((5, 1)), np.ones(5))[0] == 5  # never more than there are
    assert resting(np.zeros((5, 1)), np.ones(5))[0] == 1


def rare_score(rows):
    """Near zero but where four of ten columns agree."""
    return 1 / (1 + np.exp(-8 * (rows[:, :4].sum(axis=1) - 4.0)))


@pytest.mark.slow
def test_intervals_of_a_rarely_large_output_hold_on_tables():
    X = np.random.default_rng(0).normal(size=(800, 10))
    x = np.full(10, 1.4)
    explainer = cx.BayesLIME(rare_score, X)
    truth = explainer.explain(x, queries=100_000, seed=9).mean
    hits = [
        explainer.explain(x, queries=80, seed=s, posterior="gp").interval().covers(truth)
        for s in range(40)
    ]
    assert np.mean(hits) > 0.9, np.mean(hits)  # 0.86 if all rows counted alike
