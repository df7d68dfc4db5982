"""The paper's posterior: against lime, against Monte Carlo, and against itself."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from credex import InputError, LinearPosterior, Prior, perturbations_to_go
from credex.posteriors import regression
from tests.needs import need


def data(seed=0, n=120, d=5, k=None, offset=0.0):
    rng = np.random.default_rng(seed)
    z = rng.random((n, d)) < 0.5
    beta = rng.normal(size=d if k is None else (d, k))
    noise = rng.normal(size=n if k is None else (n, k))
    y = z @ beta + 0.3 * noise + 0.4 * (z[:, 0] & z[:, 1])[(...,) + (None,) * (noise.ndim - 1)]
    return z, y + offset, rng.random(n) + 0.05


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_mean_is_limes_ridge(offset):
    z, y, w = data(offset=offset)
    lime = need("lime.lime_base").LimeBase(kernel_fn=lambda distances: distances)
    intercept, weights, score, local = lime.explain_instance_with_data(
        z.astype(float), y[:, None], w, 0, num_features=5, feature_selection="none"
    )
    p = LinearPosterior.fit(z, y, w)
    theirs = np.array([v for _, v in sorted(weights)])
    np.testing.assert_allclose(p.mean, theirs, atol=1e-8)
    assert p.intercept == pytest.approx(intercept, abs=1e-8 * max(1, offset))
    assert p.r2 == pytest.approx(score, abs=1e-8)
    here = p.intercept + z[0].astype(float) @ p.mean
    assert here == pytest.approx(local[0], abs=1e-8 * max(1, offset))


def test_intervals_are_those_of_the_papers_posterior_by_monte_carlo():
    """200,000 draws of σ² and then φ, written out from the paper's Eq. 5-7 without an intercept."""
    z, y, w = data(n=40, d=4)
    p = LinearPosterior.fit(z, y, w, intercept="none")
    n, d = z.shape
    zf = z.astype(float)
    v = np.linalg.inv(zf.T @ np.diag(w) @ zf + np.eye(d))
    phi = v @ zf.T @ (w * y)
    s2 = ((y - zf @ phi) @ (w * (y - zf @ phi)) + phi @ phi) / n
    assert p.s2 == pytest.approx(s2, rel=1e-10)
    np.testing.assert_allclose(p.mean, phi, rtol=1e-10)
    rng = np.random.default_rng(1)
    dof, tau2 = 1e-6 + n, (1e-6 * 1e-6 + n * s2) / (1e-6 + n)
    sigma2 = dof * tau2 / rng.chisquare(dof, size=200_000)
    chol = np.linalg.cholesky(v)
    draws = phi + np.sqrt(sigma2)[:, None] * (rng.normal(size=(200_000, d)) @ chol.T)
    lower, upper = np.quantile(draws, [0.025, 0.975], axis=0)
    i = p.interval(0.95)
    # standard error of a 2.5 % quantile is about sd·2.7/√n; six of them never fail by chance
    tolerance = 6 * 2.7 / np.sqrt(200_000) * draws.std(axis=0)
    assert np.all(np.abs(i.lower - lower) < tolerance)
    assert np.all(np.abs(i.upper - upper) < tolerance)
    own = p.sample(200_000, seed=2)
    assert np.all(np.abs(np.quantile(own, 0.975, axis=0) - i.upper) < tolerance)
    np.testing.assert_allclose(own.std(axis=0), np.sqrt(np.diag(p.covariance)), rtol=0.02)
    eps = rng.normal(size=200_000) * np.sqrt(sigma2)
    density = np.mean(np.abs(eps) < 0.02 * np.sqrt(s2)) / (0.04 * np.sqrt(s2))
    assert p.error.density_at_zero == pytest.approx(density, rel=0.1)
    assert p.error.dof == pytest.approx(dof)


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("intercept", ["flat", "none"])
def test_single_updates_equal_one_fit(offset, intercept):
    z, y, w = data(n=300, offset=offset)
    whole = LinearPosterior.fit(z, y, w, intercept=intercept)
    p = LinearPosterior.fit(z[:1], y[:1], w[:1], intercept=intercept)
    for i in range(1, len(z)):
        p = p.update(z[i : i + 1], y[i : i + 1], w[i : i + 1])
    # without an intercept φ itself is of the offset's size
    scale = 1.0 if intercept == "flat" else max(1.0, offset)
    np.testing.assert_allclose(p.mean, whole.mean, rtol=0, atol=1e-9 * scale)
    np.testing.assert_allclose(p.interval().width, whole.interval().width, atol=1e-9 * scale)
    np.testing.assert_allclose(
        p.interval(robust=True).width, whole.interval(robust=True).width, atol=1e-9 * scale
    )
    assert p.n == whole.n


def test_an_update_leaves_the_old_posterior_as_it_was():
    z, y, w = data()
    p = LinearPosterior.fit(z[:50], y[:50], w[:50])
    before = p.mean.copy()
    p.update(z[50:], y[50:], w[50:])
    np.testing.assert_array_equal(p.mean, before)
    assert p.n == 50


def test_many_outputs_equal_one_by_one():
    z, y, w = data(k=3)
    p = LinearPosterior.fit(z, y, w)
    for j in range(3):
        one = LinearPosterior.fit(z, y[:, j], w)
        np.testing.assert_allclose(p.mean[:, j], one.mean, atol=1e-12)
        np.testing.assert_allclose(p.interval().upper[:, j], one.interval().upper, atol=1e-12)
        np.testing.assert_allclose(
            p.robust_covariance()[:, :, j], one.robust_covariance(), atol=1e-12
        )
        assert p.error.scale[j] == pytest.approx(one.error.scale)
    assert p.covariance.shape == (5, 5, 3)
    assert p.sample(7).shape == (7, 5, 3)


def test_robust_covariance_is_hc3_written_out():
    z, y, w = data()
    prior = Prior(mean=0.3, precision=2.0)
    p = LinearPosterior.fit(z, y, w, prior=prior)
    x = np.column_stack([np.ones(len(z)), z])
    lam = np.diag([0.0] + [2.0] * 5)
    v = np.linalg.inv(x.T @ (w[:, None] * x) + lam)
    beta = v @ (x.T @ (w * y) + lam @ np.array([0, 0.3, 0.3, 0.3, 0.3, 0.3]))
    np.testing.assert_allclose(p.mean, beta[1:], rtol=1e-10)
    h = w * np.einsum("ij,jk,ik->i", x, v, x)
    pull = np.concatenate([[0.0], 2.0 * (beta[1:] - 0.3) / (1 - 2.0 * np.diag(v)[1:])])
    bias = v @ pull
    np.testing.assert_allclose(p.bias, bias[1:], rtol=1e-8)
    e = y - x @ (beta + bias)
    meat = x.T @ (((w * e / (1 - h)) ** 2)[:, None] * x)
    expected = v @ meat @ v + np.outer(bias, bias)
    np.testing.assert_allclose(p.robust_covariance(), expected[1:, 1:], rtol=1e-8)
    assert p.robust_dof == pytest.approx(len(z) - h.sum())


def test_an_informative_prior_pulls_and_says_so():
    z, y, w = data(n=20)
    free = LinearPosterior.fit(z, y, w)
    told = LinearPosterior.fit(
        z, y, w, prior=Prior(mean=[9, 0, 0, 0, 0], precision=[1e6, 1, 1, 1, 1])
    )
    assert told.mean[0] == pytest.approx(9, abs=1e-3)
    assert abs(free.mean[0] - 9) > 1


def test_predictive_variance_is_equation_11():
    z, y, w = data(n=60)
    p = LinearPosterior.fit(z, y, w, intercept="none")
    zf = z.astype(float)
    v = np.linalg.inv(zf.T @ (w[:, None] * zf) + np.eye(5))
    expected = (np.einsum("ij,jk,ik->i", zf, v, zf) + 1) * p.s2 * 60 / 58
    np.testing.assert_allclose(p.predictive_variance(z), expected, rtol=1e-9)


def test_perturbations_to_go_is_the_papers_formula_with_a_half_width():
    rng = np.random.default_rng(0)
    z = rng.random((200, 10)) < 0.5
    y = z @ rng.normal(size=10) + rng.normal(size=200)
    p = LinearPosterior.fit(z, y, intercept="none")
    g = perturbations_to_go(p, 0.1, 0.95)
    assert g == pytest.approx(4 * p.s2 / (0.1 / 1.959964) ** 2 - 200, rel=1e-6)
    # with that many rows the half-width (not the width) is about what was asked for
    n = int(g) + 200
    z = rng.random((n, 10)) < 0.5
    y = z @ rng.normal(size=10) + rng.normal(size=n)
    half = LinearPosterior.fit(z, y, intercept="none").interval().width.mean() / 2
    assert half == pytest.approx(0.1, rel=0.25)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(8, 60),
    d=st.integers(1, 6),
    cut=st.floats(0.1, 0.9),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_any_split_gives_the_same_posterior(seed, n, d, cut, scale):
    z, y, w = data(seed, n, max(d, 2))
    z, y = z[:, :d], y * scale
    at = max(1, int(cut * n))
    whole = LinearPosterior.fit(z, y, w)
    halves = LinearPosterior.fit(z[:at], y[:at], w[:at]).update(z[at:], y[at:], w[at:])
    np.testing.assert_allclose(halves.mean, whole.mean, atol=1e-9 * scale)
    np.testing.assert_allclose(halves.error.scale, whole.error.scale, rtol=1e-6, atol=1e-12 * scale)


@pytest.mark.parametrize(
    ("z", "y", "w", "word"),
    [
        (np.ones((3, 2)), np.ones(4), None, "same n"),
        (np.ones((3, 2)), np.array([1.0, np.nan, 2.0]), None, "finite"),
        (np.ones((3, 2)), np.ones(3), [1.0, -1.0, 1.0], "weights"),
        (np.ones(3), np.ones(3), None, "same n"),
    ],
)
def test_bad_arrays_are_named(z, y, w, word):
    with pytest.raises(InputError, match=word):
        LinearPosterior.fit(z, y, w)


def test_bad_priors_are_named():
    with pytest.raises(InputError, match="n0"):
        Prior(n0=-1)
    with pytest.raises(InputError, match="precision"):
        Prior(precision=[1, -1])
    with pytest.raises(InputError, match=r"mean=.*order of the features.*dict.*age"):
        Prior(mean="age")
    with pytest.raises(InputError, match=r"precision=.*≥ 0.*-1"):
        Prior(precision={"age": -1.0})
    with pytest.raises(InputError, match=r"by feature name.*named"):
        LinearPosterior.fit(np.eye(4), np.ones(4), prior=Prior(mean={"age": 1.0}))
    with pytest.raises(InputError, match=r"'agee', which is not there; .*sex, age"):
        Prior(mean={"agee": 1.0}).named(("sex", "age"))
    with pytest.raises(InputError, match=r"n0=.*finite number.*many"):
        Prior(n0="many")
    with pytest.raises(InputError, match="3 numbers"):
        LinearPosterior.fit(np.eye(4), np.ones(4), prior=Prior(mean=[1, 2, 3]))


def test_priors_by_name_are_those_of_a_list():
    prior = Prior(n0=2.0, mean={"b": 0.5}, precision={"b": 50, "c": 0})
    assert prior.named(("a", "b", "c")) == Prior(2.0, 1e-6, [0, 0.5, 0], [1, 50, 0])
    plain = Prior(mean=[1.0, 2.0])
    assert plain.named(("a", "b")) is plain
    with pytest.raises(InputError, match="2 numbers"):
        plain.named(("a", "b", "c"))


@pytest.mark.parametrize("n", [40, 9000])  # one chunk, several chunks
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("intercept", ["flat", "none"])
def test_robust_intervals_are_those_of_the_robust_covariance(n, cluster, intercept):
    rng = np.random.default_rng(n)
    z, y, w = rng.random((n, 6)) < 0.4, rng.normal(size=(n, 2)), rng.random(n)
    p = LinearPosterior.fit(z, y, w, intercept=intercept, cluster=cluster)
    sd = np.sqrt(np.einsum("iik->ik", p.robust_covariance(fraction=0.2)))
    width = p.interval(0.9, robust=True, fraction=0.2).width
    np.testing.assert_allclose(width, 2 * stats.t.ppf(0.95, p.robust_dof) * sd, rtol=1e-10)


def test_copies_and_pickles_give_the_same_intervals():
    z, y, w = data()
    p = LinearPosterior.fit(z, y, w)
    twins = [copy.copy(p), pickle.loads(pickle.dumps(p)), replace(p)]
    for twin in twins:
        np.testing.assert_array_equal(
            twin.interval(robust=True).width, p.interval(robust=True).width
        )


def test_a_constant_column_is_unidentified():
    rng = np.random.default_rng(0)
    z = rng.random((80, 4)) < 0.5
    z[:, 2] = False
    p = LinearPosterior.fit(z, z @ np.arange(4.0) + rng.normal(size=80))
    assert p.interval(0.95, robust=True).width[2] >= p.interval(0.95).width[2]
    assert p.unidentified.tolist() == [False, False, True, False]
    z[:, 2] = True
    again = LinearPosterior.fit(z, rng.normal(size=80))
    assert again.unidentified.tolist() == p.unidentified.tolist()


def test_a_variance_from_few_rows_is_wider(monkeypatch):
    rng = np.random.default_rng(0)
    z = rng.random((300, 3)) < 0.5
    z[:, 2] = np.arange(300) >= 3
    y = rng.normal(size=300)
    p, again = (LinearPosterior.fit(z, y, prior=Prior(precision=1e-6)) for _ in range(2))
    variance = np.diag(p.robust_covariance())
    monkeypatch.setattr(regression, "ENOUGH_ROWS", 0.0)  # no widening
    factor = variance / np.diag(again.robust_covariance())
    few, many = stats.t.ppf(0.975, [4, p.robust_dof])  # three rows and one more
    assert factor[2] == pytest.approx((few / many) ** 2, rel=0.05)
    np.testing.assert_allclose(factor[:2], 1.0)


@pytest.mark.parametrize("robust", [True, False])
@pytest.mark.parametrize("size", [1e160, 1e200, 1e300])
def test_intervals_of_huge_outputs_are_those_of_small_ones(size, robust):
    """Their squares are beyond the largest float."""
    z, y, w = data(k=2)
    z[:, 4] = True  # unidentified
    prior = Prior(precision=1e-3)
    small = LinearPosterior.fit(z, y, w, prior=prior)
    huge = LinearPosterior.fit(z[:50], y[:50] * size, w[:50], prior=prior)
    huge = huge.update(z[50:], y[50:] * size, w[50:])
    a, b = small.interval(robust=robust), huge.interval(robust=robust)
    assert np.isfinite(b.width).all()
    np.testing.assert_allclose(b.lower / size, a.lower, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(b.upper / size, a.upper, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(huge.mean / size, small.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(huge.error.scale / size, small.error.scale, rtol=1e-6)
    np.testing.assert_allclose(huge.r2, small.r2, rtol=1e-9)
    with pytest.raises(InputError, match="Divide the model's outputs"):
        _ = huge.robust_covariance() if robust else huge.covariance
