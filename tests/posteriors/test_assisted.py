"""Surrogates corrected by left-out units: refits, derivatives, and how far to believe the units."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from credex.domains import Tabular
from credex.posteriors import assisted
from credex.posteriors.assisted import (
    AnovaKernel,
    Correction,
    InputSpace,
    Surrogate,
    combine,
    effective_units,
)
from credex.posteriors.sample import Sample

SPACE = InputSpace(((0,), (1, 2), (3,), (4,)), np.array([False, False, True, False, False]))
KERNELS = {
    "unfitted": AnovaKernel.unfitted(4),
    "fitted": AnovaKernel(np.array([0.9, 0.3, 0.1, 1.7]), 2.4, 0.02),
}
BASES = ["rows", "others"]
UNITS = {
    "rows": np.arange(1, 13)[:, None],
    "pairs": np.arange(1, 31).reshape(-1, 2),
    "triplets": np.array([[0, 7, 30], [2, 3, 21]]),
}


def rows(n, seed):
    rng = np.random.default_rng(seed)
    out = rng.random((n, 5))
    out[:, 2] = rng.integers(0, 3, n)
    return out


def outputs(u, k=2):
    y = np.column_stack([np.sin(5 * u[:, 0]) * u[:, 3], u[:, 4] + (u[:, 2] == 1), u[:, 1] ** 2])
    return (y / y.std(axis=0))[:, :k]


def surrogate(kernel, basis, u, y):
    return Surrogate(kernel, SPACE, u, y, None if basis == "rows" else rows(12, seed=9))


def predict(s, u):
    return s.kernel.between(SPACE, u, s.basis) @ s.coefficients


def unexplained(kernel, u):
    """Mean variance of the rows that the basis of other rows cannot express."""
    basis = rows(12, seed=9)
    K = kernel.between(SPACE, basis, basis) + assisted.JITTER * kernel.variance * np.eye(12)
    cross = kernel.between(SPACE, u, basis)
    explained = np.einsum("ij,ji->i", cross, np.linalg.solve(K, cross.T)).mean()
    return max(kernel.variance - explained, 0.0)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_on_its_own_rows_a_surrogate_is_a_gaussian_process(kernel):
    u, other = rows(31, 0), rows(10, 1)
    s = surrogate(kernel, "rows", u, outputs(u))
    K = kernel.between(SPACE, u, u) + kernel.noise * np.eye(31)
    mean = kernel.between(SPACE, other, u) @ np.linalg.solve(K, outputs(u))
    np.testing.assert_allclose(predict(s, other), mean, atol=1e-6)
    np.testing.assert_allclose(s.residual, outputs(u) - predict(s, u), atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_a_basis_of_enough_rows_changes_little(kernel):
    u, other = rows(31, 0), rows(10, 1)
    whole = surrogate(kernel, "rows", u, outputs(u))
    same = Surrogate(kernel, SPACE, u, outputs(u), u)
    np.testing.assert_allclose(predict(same, other), predict(whole, other), atol=1e-5)


@pytest.mark.parametrize("units", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_residuals_of_left_out_units_are_those_of_really_leaving_them_out(kernel, basis, units):
    u = rows(31, 0)
    y = outputs(u)
    left = surrogate(kernel, basis, u, y).left_out(units)
    assert left.shape == (*units.shape, 2)
    for unit, residual in zip(units, left, strict=True):
        rest, again = np.delete(np.arange(31), unit), kernel
        if basis == "others":  # the noise of the whole fit
            extra = unexplained(kernel, u) - unexplained(kernel, u[rest])
            again = replace(kernel, noise=kernel.noise + extra)
        refit = surrogate(again, basis, u[rest], y[rest])
        np.testing.assert_allclose(residual, y[unit] - predict(refit, u[unit]), atol=1e-8)


def test_rows_are_taken_in_pieces(monkeypatch):
    u = rows(31, 0)
    whole = surrogate(KERNELS["fitted"], "others", u, outputs(u))
    monkeypatch.setattr(assisted, "CHUNK_ROWS", 7)
    pieces = surrogate(KERNELS["fitted"], "others", u, outputs(u))
    np.testing.assert_allclose(pieces.coefficients, whole.coefficients, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_sensitivity_is_the_derivative_in_the_outputs(kernel, basis):
    u, x, background = rows(31, 0), rows(1, 2), rows(9, 3)
    y = outputs(u, k=1)
    s = surrogate(kernel, basis, u, y)
    functional = s.shapley(x, background, np.full(9, 1 / 9)).phi
    got = s.sensitivity(functional)
    assert got.shape == (4, 31)

    def phi(change):
        return (functional @ surrogate(kernel, basis, u, y + change[:, None]).coefficients)[:, 0]

    h = 1e-3  # the fit is linear in the outputs: no step is too large
    numeric = np.transpose([(phi(h * e) - phi(-h * e)) / (2 * h) for e in np.eye(31)])
    np.testing.assert_allclose(got, numeric, atol=1e-6)
    np.testing.assert_allclose(got @ y[:, 0], phi(np.zeros(31)), atol=1e-6)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_shapley_values_of_the_fit_add_up_and_average_over_rows(kernel, basis):
    u, x, background = rows(31, 0), rows(1, 2), rows(9, 3)
    weights = np.random.default_rng(0).dirichlet(np.ones(9))
    s = surrogate(kernel, basis, u, outputs(u))
    got = s.shapley(x, background, weights)
    base, phi = got.base, got.phi @ s.coefficients
    np.testing.assert_allclose(
        phi.sum(axis=0), predict(s, x)[0] - weights @ predict(s, background), atol=1e-8
    )
    np.testing.assert_allclose(base @ s.coefficients, weights @ predict(s, background), atol=1e-8)
    np.testing.assert_allclose(np.einsum("n,ndk->dk", weights, got.by_row), phi, atol=1e-9)


# -- combining -----------------------------------------------------------------------------------


def drawn(d, m, bias, seed, surrogate=0.1):
    """A correction by ``m`` units whose mean is ``bias`` at standard error 1 for each feature."""
    rng = np.random.default_rng(seed)
    influence = rng.normal(size=(d, m)) / np.sqrt(m)
    own = surrogate * rng.normal(size=(d, m)) / np.sqrt(m)
    return Correction(bias + rng.normal(size=d), influence, own)


def share(phi, corrections, spread):
    """λ, which features of one size and all outputs must have in common."""
    mean, _, _ = combine(phi, corrections, spread, np.ones_like(phi))
    shares = (mean - phi) / np.column_stack([c.value for c in corrections])
    np.testing.assert_allclose(shares, shares[0, 0], rtol=1e-9, atol=1e-12)
    return float(shares[0, 0])


@pytest.mark.parametrize("d", [8, 40, 200])
def test_corrections_that_are_noise_are_shrunk_the_more_features_say_so(d):
    found = [share(np.zeros((d, 1)), [drawn(d, 60, 0.0, s)], np.ones(1)) for s in range(40)]
    noise = np.sqrt(2 / d)  # the bias is measured to about one standard error
    assert np.mean(found) < 1.35 * noise / (1 + noise) + 0.03
    assert max(found) < 0.75


@pytest.mark.parametrize("d", [2, 8, 40])
def test_a_large_bias_is_corrected_in_full(d):
    for s in range(20):
        assert 0.999 < share(np.zeros((d, 1)), [drawn(d, 60, 100.0, s)], np.ones(1)) <= 1.0


def test_the_share_grows_with_the_bias():
    shares = [share(np.zeros((20, 1)), [drawn(20, 60, b, 0)], np.ones(1)) for b in (0, 1, 3, 10)]
    assert shares == sorted(shares)
    assert shares[0] < 0.4
    assert shares[-1] > 0.95


def test_all_outputs_share_one_lambda_whatever_their_units():
    phi = np.random.default_rng(0).normal(size=(6, 2))
    biased, unbiased = drawn(6, 60, 30.0, 0), drawn(6, 60, 0.0, 1)
    one = share(phi, [biased, unbiased], np.ones(2))
    assert one > 0.99
    assert share(phi[:, :1], [unbiased], np.ones(1)) < 0.6
    large = Correction(*(1e3 * v for v in (biased.value, biased.influence, biased.surrogate)))
    scaled = share(phi * [1e3, 1.0], [large, unbiased], np.array([1e3, 1.0]))
    np.testing.assert_allclose(scaled, one, rtol=1e-9)
    dwarfed = share(phi, [biased, unbiased], np.array([1e6, 1.0]))
    np.testing.assert_allclose(dwarfed, share(phi[:, :1], [unbiased], np.ones(1)), rtol=1e-6)


def test_opposite_outputs_stay_opposite():
    """Probabilities of two classes: importances add up to zero."""
    c = drawn(5, 30, 0.5, 0)
    phi = np.random.default_rng(1).normal(size=(5, 1))
    opposite = Correction(-c.value, -c.influence, -c.surrogate)
    mean, covariance, _ = combine(
        np.hstack([phi, -phi]), [c, opposite], np.full(2, 0.3), np.ones((len(phi), 2))
    )
    np.testing.assert_allclose(mean.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(covariance[:, :, 0], covariance[:, :, 1], atol=1e-12)


@pytest.mark.parametrize("bias", [0.0, 1.0, 50.0])
def test_the_covariance_holds_sampling_and_what_is_left_of_the_bias(bias):
    d, c = 10, drawn(10, 40, bias, 3)
    phi = np.zeros((d, 1))
    lam = share(phi, [c], np.ones(1))
    _, covariance, dof = combine(phi, [c], np.ones(1), np.ones_like(phi))
    influence = (1 - lam) * c.surrogate + lam * c.influence
    units = effective_units(influence)
    covariance *= (stats.t.ppf(0.975, dof) / stats.t.ppf(0.975, units)) ** 2  # the same at 95 %
    left = covariance[:, :, 0] - influence @ influence.T
    difference = ((c.influence - c.surrogate) ** 2).sum(axis=1).mean()
    square = max((c.value**2).mean() - difference, 0.0)
    own, total = (influence**2).sum(axis=1), np.diag(covariance[:, :, 0])
    of_bias = ((1 - lam) ** 2 * (square + difference)) ** 2 / d
    rates = (own**2 / units + of_bias) / total**2  # Satterthwaite
    assert dof == pytest.approx(min(units, max(1 / rates.clip(0, 1).mean(), 5)))
    square += 0.25 / d * (square + difference)  # a quarter of a feature more
    np.testing.assert_allclose(np.diag(left), (1 - lam) ** 2 * square, atol=1e-10)
    np.testing.assert_allclose(left.sum(axis=0), 0, atol=1e-10)  # the sum is known
    assert np.linalg.eigvalsh(covariance[:, :, 0]).min() > -1e-10


def test_features_that_do_more_are_corrected_more():
    d, c = 10, drawn(10, 40, 0.5, 3)
    phi, size = np.zeros((d, 1)), np.arange(d, dtype=float)[:, None]
    mean, covariance, _ = combine(phi, [c], np.ones(1), size)
    shares = mean[:, 0] / c.value
    assert np.all(np.diff(shares) > 0)
    np.testing.assert_array_equal(combine(phi, [c], np.ones(1), 7 * size)[0], mean)
    assert np.linalg.eigvalsh(covariance[:, :, 0]).min() > -1e-10


def test_phi_is_not_changed_in_place_and_units_are_the_fewest_of_all_outputs():
    phi = np.ones((4, 2))
    few = drawn(4, 50, 5.0, 0)
    few.influence[:, 1:] *= 1e-3
    many = drawn(4, 50, 5.0, 1)
    _, _, units = combine(phi, [few, many], np.ones(2), np.ones_like(phi))
    np.testing.assert_array_equal(phi, 1.0)
    assert units < 5
    assert combine(phi, [many, many], np.ones(2), np.ones_like(phi))[2] > 40


def test_without_any_residual_nothing_is_uncertain():
    zero = Correction(np.zeros(3), np.zeros((3, 7)), np.zeros((3, 7)))
    mean, covariance, units = combine(np.ones((3, 1)), [zero], np.ones(1), np.ones((3, 1)))
    np.testing.assert_array_equal(mean, 1.0)
    assert not covariance.any()
    assert units == 6


def test_few_units_with_most_of_the_influence_count_as_few():
    assert effective_units(np.ones((3, 20))) == 19
    assert effective_units(np.zeros((3, 20))) == 19
    assert effective_units(np.ones((3, 2))) == 1
    one = np.full((1, 50), 1e-6)
    one[0, 0] = 1.0
    assert 1.0 <= effective_units(one) < 2.5
    even, uneven = np.ones((1, 50)), np.linspace(0, 1, 50)[None] ** 6
    assert effective_units(one) < effective_units(uneven) < effective_units(even)


def sampled(n=2_000, size=400, seed=0, p=4, degree=4):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.random((n, p)))
    table[p - 1] = rng.choice(["u", "v", "w"], n)
    nb = Tabular(table).at(table.iloc[0])
    background = nb.encode(np.arange(n))
    rows = background[rng.choice(n, size, replace=False)]
    return background, Sample.calibrated(rows, *nb.auxiliary(rows, degree), 1 - size / n)


def test_a_calibrated_sample_has_the_marginals_of_all_rows():
    background, sample = sampled()
    assert sample.weights.sum() == pytest.approx(1.0, abs=1e-12)
    for power in (1, 2, 3, 4):
        every = (background[:, :3] ** power).mean(axis=0)
        np.testing.assert_allclose(sample.weights @ sample.rows[:, :3] ** power, every, atol=1e-12)
    for code in range(3):
        share = (background[:, 3] == code).mean()
        assert sample.weights @ (sample.rows[:, 3] == code) == pytest.approx(share, abs=1e-12)
    assert sample.left_out == pytest.approx(0.8)


def test_the_variance_of_a_calibrated_mean_is_its_squared_error():
    def function(rows):  # a curve of one column, a product of two, and a category
        return np.sin(4 * rows[:, 0]) + 3 * rows[:, 1] * rows[:, 2] + (rows[:, 3] == 1)

    square, variance, plain = [], [], []
    for seed in range(200):
        background, sample = sampled(seed=seed)
        values, truth = function(sample.rows), function(background).mean()
        square.append((sample.weights @ values - truth) ** 2)
        plain.append((values.mean() - truth) ** 2)
        variance.append(sample.variance(values[:, None, None])[0, 0, 0])
    assert np.mean(square) == pytest.approx(np.mean(variance), rel=0.3)
    assert np.mean(square) < 0.2 * np.mean(plain)


def test_too_many_columns_are_not_calibrated():
    _, sample = sampled(n=600, size=100, p=40, degree=0)
    assert sample.auxiliary is None
    np.testing.assert_array_equal(sample.weights, 0.01)
    assert sample.variance(sample.rows[:, :2, None]).shape == (2, 2, 1)
