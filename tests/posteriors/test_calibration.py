"""Cross-validation of a Gaussian process, and the effective number of rows."""

import numpy as np
import pytest

import credex as cx
from credex.posteriors.calibration import leave_one_out
from credex.posteriors.mask_functionals import ShapleyFromPairs
from credex.posteriors.process import (
    Conditioned,
    CrossFit,
    Observations,
    ProcessPosterior,
    fit_kernel,
)
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


def curved(n, d, seed):
    """Observations of a sum and a sine of pairs of masks, the first full and empty."""
    rng = np.random.default_rng(seed)
    masks = rng.random((n, d)) < 0.5
    masks[0] = True
    y = masks @ rng.normal(size=(d, 1)) + np.sin(3.0 * masks @ rng.normal(size=(d, 1)))
    return masks, y


def test_cross_fitted_kernels_do_not_see_the_row_that_they_judge():
    masks, y = curved(30, 6, 0)
    kernels = []
    for raised in (0.0, 5.0):
        changed = y.copy()
        changed[7] += raised
        kernels.append(CrossFit.of(Observations(ShapleyFromPairs(6), masks, changed)).kernels)
    same = [np.array_equal(a.theta, b.theta) for a, b in zip(*kernels, strict=True)]
    assert same == [False, False, False, True]  # row 7 is in part 3


def test_cross_fitted_errors_are_relative_to_those_of_rows_in_the_fit():
    masks, y = curved(30, 6, 0)
    data = Observations(ShapleyFromPairs(6), masks, y)
    crossed = CrossFit.of(data)
    part = np.arange(30) % 4
    for fold, kernel in enumerate(crossed.kernels):
        r, v = Conditioned(kernel, data).left_out()
        q = (r**2 / v[:, None])[1:]  # row 0 is in every run
        inside = q[part[1:] != fold].mean()
        np.testing.assert_allclose(crossed.squares[part[1:] == fold], q[part[1:] == fold] / inside)
    assert crossed.squares.mean() > 1  # rows in the fit are flattered


def test_spread_between_kernels_is_a_delete_a_group_jackknife():
    masks, y = curved(30, 6, 0)
    data = Observations(ShapleyFromPairs(6), masks, y)
    crossed = CrossFit.of(data)
    means = np.array([Conditioned(kernel, data).mean[:, 0] for kernel in crossed.kernels])
    expected = 3 / 4 * 4 * np.cov(means.T, bias=True)
    np.testing.assert_allclose(crossed.spread[:, :, 0], expected, atol=1e-12)


def test_the_posterior_adds_what_cross_fitting_found():
    masks, y = curved(30, 6, 0)
    data = Observations(ShapleyFromPairs(6), masks, y)
    state = Conditioned(fit_kernel(data), data)
    found, crossed = ProcessPosterior.of(state), CrossFit.of(data)
    r, v = state.left_out()
    sigma2 = np.mean(r[1:, 0] ** 2 / v[1:]) * crossed.squares.mean() * (1 + 0.75 * (6 / 29) ** 2)
    centre = np.eye(6) - 1 / 6
    expected = centre @ (state.covariance * sigma2 + crossed.spread[:, :, 0]) @ centre
    np.testing.assert_allclose(found.scale[:, :, 0], expected, rtol=1e-6, atol=1e-9)
    q = crossed.squares[:, 0]
    assert found.dof == pytest.approx(1 + min(q.sum() ** 2 / (q**2).sum(), 29 / 3))


@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_few_rows_are_no_error(n):
    masks, y = curved(n, 5, 3)
    found = ProcessPosterior.fit(Observations(ShapleyFromPairs(5), masks, y))
    assert np.isfinite(found.scale).all()
    assert found.dof >= 1


def test_a_warm_start_judges_the_same_parts():
    masks, y = curved(24, 5, 1)
    data = Observations(ShapleyFromPairs(5), masks, y)
    first = CrossFit.of(data)
    again = CrossFit.of(data, first.kernels)
    np.testing.assert_allclose(again.squares.mean(), first.squares.mean(), rtol=0.2)


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
