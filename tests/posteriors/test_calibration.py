"""Cross-validation of a Gaussian process, and the effective number of rows."""

import numpy as np
import pytest

import credex as cx
from credex.posteriors.calibration import block_scale, leave_one_out
from credex.posteriors.regression import kurtosis_rows


def test_effective_rows_are_all_for_normal_residuals_and_few_for_rare_ones():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(4000, 2))
    rare = np.where(rng.random((4000, 1)) < 0.01, 1.0, 0.0) * rng.normal(size=(4000, 1))
    assert kurtosis_rows(normal) == pytest.approx([4000, 4000], rel=0.1)
    assert kurtosis_rows(rare)[0] < 80
    assert kurtosis_rows(np.ones((5, 1)))[0] == 5  # never more than there are
    assert kurtosis_rows(np.zeros((5, 1)))[0] == 5


def observed(n):
    """Covariance of n rows, outputs, L^-1 and L^-1 outputs."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(n, n))
    K, y = A @ A.T / n + 0.1 * np.eye(n), rng.normal(size=(n, 2))
    inverse = np.linalg.inv(np.linalg.cholesky(K))
    return K, y, inverse, inverse @ y


def test_leave_one_out_is_prediction_without_the_row():
    K, y, inverse, whitened = observed(12)
    r, v = leave_one_out(inverse, whitened)
    for i in range(12):
        rest = np.arange(12) != i
        gain = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
        np.testing.assert_allclose(r[i], y[i] - gain @ y[rest])
        assert v[i] == pytest.approx(K[i, i] - gain @ K[rest, i])


def test_blocks_are_predicted_without_their_neighbours():
    K, y, inverse, whitened = observed(22)
    distance = np.abs(np.subtract.outer(np.arange(22.0), np.arange(22.0)))
    found = block_scale(inverse, whitened, distance, 2)
    ratios = []
    for i in range(2, 22):
        away = np.where(np.arange(22) < 2, np.inf, distance[i])
        rest = np.ones(22, bool)
        rest[np.argsort(away, kind="stable")[:4]] = False
        gain = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
        ratios.append((y[i] - gain @ y[rest]) ** 2 / (K[i, i] - gain @ K[rest, i]))
    np.testing.assert_allclose(found, np.mean(ratios, axis=0))
    np.testing.assert_array_equal(block_scale(inverse[:9, :9], whitened[:9], distance, 2), 0)


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
