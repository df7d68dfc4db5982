"""Cross-validation of a Gaussian process, and the effective number of rows."""

import numpy as np
import pytest

import credex as cx
from credex.posteriors.calibration import leave_one_out
from credex.posteriors.mask_functionals import ShapleyFromPairs
from credex.posteriors.process import Conditioned, Observations, fit_kernel
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


def test_cross_fitted_kernels_do_not_see_the_row_that_they_judge():
    rng = np.random.default_rng(0)
    masks = rng.random((30, 6)) < 0.5
    masks[0] = True
    y = masks @ rng.normal(size=(6, 1)) + np.sin(3.0 * masks @ rng.normal(size=(6, 1)))
    found, kernels = [], []
    for raised in (0.0, 5.0):
        changed = y.copy()
        changed[7] += raised
        data = Observations(ShapleyFromPairs(6), masks, changed)
        crossed = Conditioned(fit_kernel(data), data).cross_fitted(1, ())
        found.append(crossed.residual)
        kernels.append(crossed.kernels)
    assert found[0][0] == 0  # row 0 is in every fit
    assert found[1][7] - found[0][7] == pytest.approx([5.0])  # a kernel that saw it would adapt
    same = [np.array_equal(a.theta, b.theta) for a, b in zip(*kernels, strict=True)]
    assert same == [False, False, False, True]  # row 7 is in part 3


def test_a_warm_start_judges_the_same_parts():
    rng = np.random.default_rng(1)
    masks = rng.random((24, 5)) < 0.5
    masks[0] = True
    y = masks @ rng.normal(size=(5, 1)) + (masks[:, :3].all(axis=1))[:, None]
    data = Observations(ShapleyFromPairs(5), masks, y)
    state = Conditioned(fit_kernel(data), data)
    first = state.cross_fitted(1, ())
    again = state.cross_fitted(1, first.kernels)
    spread = np.abs(first.residual).max()
    np.testing.assert_allclose(again.residual, first.residual, atol=0.1 * spread)


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
