"""The Gaussian process over single coalitions, and what a prior means to a process."""

import numpy as np
import pytest

import credex as cx
from credex.designs.sequences import all_masks
from credex.posteriors.coalitions_gp import AllCoalitions
from credex.posteriors.surrogate_gp import Conditioned
from credex.posteriors.surrogate_kernel import Kernel
from tests.games import random_game, shapley, smooth_game, table_game


def kernel(d, seed):
    rng = np.random.default_rng(seed)
    b = rng.normal(size=d)
    weights = rng.normal(size=4)
    return Kernel(rng.normal(size=d) - 1, 0.2, weights, b / np.linalg.norm(b))


def functional(column):
    """v of the empty coalition, then the Shapley values, by enumeration."""
    return np.concatenate([column[:1], shapley(column)])


@pytest.mark.parametrize("d", [2, 3, 6])
def test_closed_forms_match_enumeration(d):
    k, over = kernel(d, d), AllCoalitions(d)
    m = all_masks(d).astype(float)
    product = k.product(m, m)
    cross = np.array([functional(column) for column in product.T]).T
    np.testing.assert_allclose(over.cross(k, m)[0], cross, atol=1e-8)
    both, white = over.prior(k)
    np.testing.assert_allclose(both, [functional(row) for row in cross], atol=1e-8)
    influence = over.influence(m)
    units = np.array([functional(row) for row in np.eye(2**d)])
    np.testing.assert_allclose(influence, units.T, atol=1e-12)
    np.testing.assert_allclose(white, influence @ influence.T, atol=1e-12)


def test_the_posterior_is_plain_gaussian_conditioning():
    """Mean and covariance against the textbook formula on the whole table of a small game."""
    d = 5
    k, over = kernel(d, 1), AllCoalitions(d)
    m = all_masks(d).astype(float)
    rows = np.array([0, 31, 3, 9, 20, 14, 26])
    y = np.random.default_rng(0).normal(size=(len(rows), 2))
    c = Conditioned(k, m[rows], m[rows], y, over, white=True)
    w = np.exp(k.log_w)
    f = c.features(m)
    K = w[0] * k.product(m, m) + w[1] * f @ f.T + w[2] + w[3] * np.eye(2**d)
    A = np.array([functional(row) for row in np.eye(2**d)]).T
    gain = np.linalg.solve(K[np.ix_(rows, rows)], K[rows])
    np.testing.assert_allclose(c.coef, A @ gain.T @ y, atol=1e-5)
    expected = A @ (K - K[:, rows] @ gain) @ A.T
    np.testing.assert_allclose(over.scale(c, np.ones(1))[:, :, 0], expected, atol=1e-5)
    variance = c.predictive_variance(m[[1, 2]])
    np.testing.assert_allclose(variance, np.diag(K - K[:, rows] @ gain)[[1, 2]], atol=1e-5)


def test_single_coalitions_are_sharper_than_the_regression_and_honest():
    """30 smooth games, 100 queries: at most half of its RMSE; coverage at least 0.92 (se 0.012)."""
    errors, hits = {"gp": [], "linear": []}, []
    for g in range(30):
        table = smooth_game(12, 300 + g)
        truth = shapley(table)
        ex = cx.BayesSHAP(table_game(table), cx.Masks(12), sampler="random")
        for name, found in errors.items():
            e = ex.explain(queries=100, seed=g, posterior=name)
            found.append(np.mean((e.mean - truth) ** 2))
            assert e.n_queries == 100
            assert e.mean.sum() == pytest.approx(table[-1] - table[0], abs=1e-9)
            if name == "gp":
                assert e.posterior == "gp"
                hits.append(e.interval().covers(truth).mean())
    assert np.mean(errors["gp"]) < 0.25 * np.mean(errors["linear"])
    assert np.mean(hits) >= 0.92


def test_all_coalitions_known_is_exact():
    table = random_game(5, 0)
    ex = cx.BayesSHAP(table_game(table), cx.Masks(5), posterior="gp", sampler="random")
    e = ex.explain(queries=32)
    assert e.stop_reason == "exact"
    np.testing.assert_allclose(e.mean, shapley(table), atol=1e-9)
    assert np.all(e.interval().width == 0)


def test_width_refine_and_adaptive_samplers():
    table = smooth_game(10, 7)
    ex = cx.BayesSHAP(table_game(table), cx.Masks(10), posterior="gp", sampler="random")
    size = np.abs(shapley(table)).max()
    e = ex.explain(width=size / 2)
    assert e.converged
    assert np.all(e.interval().width <= size / 2)
    more = ex.refine(cx.Explanation.from_json(e.to_json()), width=size / 4)
    assert more.n_queries > e.n_queries
    assert ex.forecast(width=size / 20).queries > 0
    own = cx.PaperFocused(seed_queries=30, batch=10, pool=50)
    assert ex.explain(queries=60, sampler=own).n_queries == 60


def test_noise_is_never_certain():
    rng = np.random.default_rng(0)
    v = table_game(smooth_game(6, 2))
    noisy = lambda z: v(z) + rng.normal(scale=0.05, size=len(z))  # noqa: E731 - short
    ex = cx.BayesSHAP(noisy, cx.Masks(6), posterior="gp", sampler="random", noisy=True)
    assert np.all(ex.explain(queries=120).interval().width > 0)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["random", "paired", "focused"])
def test_a_right_prior_helps_the_process_and_a_wrong_one_is_overruled(sampler):
    table = smooth_game(12, 3)
    truth = shapley(table)
    ex = cx.BayesSHAP(table_game(table), cx.Masks(12), posterior="gp", sampler=sampler)

    def error(queries, prior=None):
        runs = [ex.explain(queries=queries, seed=s, prior=prior).mean - truth for s in range(8)]
        return np.sqrt(np.mean(np.square(runs)))

    right, wrong = cx.Prior(mean=truth), cx.Prior(mean=-3 * truth)
    assert error(16, right) < 0.7 * error(16)
    assert error(16, wrong) > error(16)
    assert error(400, wrong) < 0.3 * error(60)
    e = ex.explain(queries=40, prior=wrong)
    assert e.mean.sum() == pytest.approx(table[-1] - table[0], abs=1e-9)


def test_lime_takes_the_prior_too():
    ex = cx.BayesLIME(table_game(smooth_game(10, 3)), cx.Masks(10), posterior="gp")
    truth = ex.explain(queries=2**10, posterior="linear", prior=cx.Prior(precision=1e-9)).mean
    plain = np.abs(ex.explain(queries=16).mean - truth).mean()
    told = np.abs(ex.explain(queries=16, prior=cx.Prior(mean=truth)).mean - truth).mean()
    assert told < 0.8 * plain


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_precisions_say_which_features_may_matter(method):
    """Features held together differ less than they do without the prior; only ratios count."""
    ex = method(table_game(smooth_game(10, 5)), cx.Masks(10), posterior="gp")
    held = np.array([1e4] * 5 + [1.0] * 5)
    plain = ex.explain(queries=14).mean
    told = ex.explain(queries=14, prior=cx.Prior(precision=held)).mean
    assert np.ptp(told[:5]) < 0.8 * np.ptp(plain[:5])
    again = ex.explain(queries=14, prior=cx.Prior(precision=10 * held)).mean
    np.testing.assert_allclose(again, told, rtol=1e-6)
    with pytest.raises(cx.InputError, match="must all be above 0"):
        ex.explain(queries=14, prior=cx.Prior(precision=held * (held > 1)))
