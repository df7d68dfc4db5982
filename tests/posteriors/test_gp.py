"""The Gaussian process over masks: closed forms, exactness, honesty."""

import numpy as np
import pytest

import credex as cx
from credex.designs.focused import plan, signs
from credex.designs.sequences import ShapleySequence, all_masks
from credex.posteriors.evidence import Evidence, default_kernel
from credex.posteriors.gp import Conditioned, at_least_noise, fit_kernel
from credex.posteriors.mask_kernel import MaskKernel
from tests.games import random_game, shapley, smooth_game, table_game


def pairs(table, n, seed=0):
    """Signs and half differences of ``n`` pairs; row 0 is the full mask."""
    d = int(np.log2(len(table)))
    v = table_game(table)
    z = np.vstack([np.ones((1, d), bool), ShapleySequence(d, seed, paired=True).units(0, n)])
    return signs(z), ((v(z) - v(~z)) / 2).reshape(len(z), -1)


@pytest.mark.parametrize("d", [1, 2, 3, 7, 8])
def test_closed_forms_match_enumeration(d):
    rng = np.random.default_rng(d)
    s = signs(all_masks(d))
    b = rng.normal(size=d)
    k = MaskKernel(rng.normal(size=d) - 1, 0.2, rng.normal(size=4), b / np.linalg.norm(b))
    gram = k.gram(s, s)
    np.testing.assert_allclose(gram, -k.gram(s, -s), atol=1e-12)
    np.testing.assert_allclose(np.diag(gram), k.diagonal(s))
    cross = np.array([shapley(column) for column in gram.T]).T
    np.testing.assert_allclose(k.cross(s), cross, atol=1e-8)
    both = np.array([shapley(row) for row in cross])
    np.testing.assert_allclose(k.prior_covariance(), both, atol=1e-8)


@pytest.mark.parametrize("d", [6, 30])
def test_gradient(d):
    rng = np.random.default_rng(1)
    s = signs(ShapleySequence(d, 0, paired=True).units(0, 20))
    ev = Evidence(s, rng.normal(size=(20, 2)))
    theta = ev.mean + 0.3 * rng.normal(size=d + 5)
    b = np.ones(d) / np.sqrt(d)
    steps = 1e-5 * np.eye(d + 5)
    numeric = [(ev.loss(theta + e, b)[0] - ev.loss(theta - e, b)[0]) / 2e-5 for e in steps]
    np.testing.assert_allclose(ev.loss(theta, b)[1], numeric, atol=1e-6 * np.abs(numeric).max())


def test_extending_equals_rebuilding():
    s, y = pairs(smooth_game(12, 0), 40)
    k = fit_kernel(s, y)
    whole = Conditioned.of(k, s, y)
    grown = Conditioned.of(k, s[:25], y[:25]).extend(s[25:], y[25:])
    np.testing.assert_allclose(grown.mean, whole.mean, atol=1e-7)
    np.testing.assert_allclose(grown.unit_covariance(), whole.unit_covariance(), atol=1e-7)


def test_the_posterior_is_plain_gaussian_conditioning():
    """Against the textbook formula on the whole table of a small game."""
    d = 6
    s, y = pairs(random_game(d, 0), 12)
    k = default_kernel(d)
    state = Conditioned.of(k, s, y)
    gram = k.gram(s) + 1e-9 * np.mean(k.diagonal(s)) * np.eye(len(s))
    gain = k.cross(s) @ np.linalg.inv(gram)
    np.testing.assert_allclose(state.mean, gain @ y, atol=1e-8)
    np.testing.assert_allclose(
        state.unit_covariance(), k.prior_covariance() - gain @ k.cross(s).T, atol=1e-8
    )


def test_planned_reductions_come_true():
    """What the plan says a pick takes off the variance is what conditioning on it takes off."""
    s, y = pairs(smooth_game(10, 1), 30)
    state = Conditioned.of(fit_kernel(s, y), s, y)
    pool = signs(ShapleySequence(10, 9, paired=True).units(0, 200))
    seen = {r.tobytes() for r in s} | {(-r).tobytes() for r in s}
    pool = pool[[r.tobytes() not in seen for r in pool]]
    picks, gains = plan(state, pool, 5)
    assert len(set(picks)) == 5
    after = state.extend(pool[picks], np.zeros((5, 1)))
    took = np.diag(state.unit_covariance()) - np.diag(after.unit_covariance())
    np.testing.assert_allclose(gains.sum(axis=0), took, rtol=0.05, atol=1e-6)
    random = state.extend(pool[:5], np.zeros((5, 1)))
    assert np.trace(after.unit_covariance()) < np.trace(random.unit_covariance())


@pytest.mark.parametrize("sampler", ["paired", "focused"])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e6])
def test_importances_add_up_and_scale(sampler, scale):
    table = smooth_game(11, 3)
    one = cx.BayesSHAP(table_game(table), cx.Masks(11), posterior="gp", sampler=sampler)
    big = cx.BayesSHAP(
        table_game(scale * table + 3 * scale), cx.Masks(11), posterior="gp", sampler=sampler
    )
    a, b = one.explain(queries=80), big.explain(queries=80)
    total = scale * (table[-1] - table[0])
    assert abs(b.mean.sum() - total) <= 1e-9 * max(1, 4 * scale)
    np.testing.assert_allclose(b.mean / scale, a.mean, atol=2e-3)


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_everything_asked_is_exact(d):
    table = random_game(d, d)
    e = cx.BayesSHAP(table_game(table), cx.Masks(d), posterior="gp").explain(queries=2**d)
    np.testing.assert_allclose(e.mean, shapley(table), atol=1e-9)
    np.testing.assert_array_equal(e.interval().width, 0)
    assert e.exact


def test_all_pairs_run_out_on_the_way():
    table = random_game(5, 0)
    e = cx.BayesSHAP(table_game(table), cx.Masks(5), posterior="gp").explain(queries=300)
    np.testing.assert_allclose(e.mean, shapley(table), atol=1e-9)
    assert e.stop_reason == "exact"


def test_far_fewer_queries_than_the_regression_needs():
    """RMSE over ten smooth games at 120 queries: at most half of the linear posterior's."""
    errors = {"gp": [], "linear": []}
    for g in range(10):
        table = smooth_game(14, g)
        for name, found in errors.items():
            e = cx.BayesSHAP(table_game(table), cx.Masks(14), posterior=name).explain(queries=120)
            found.append(np.mean((e.mean - shapley(table)) ** 2))
    assert np.sqrt(np.mean(errors["gp"])) < 0.5 * np.sqrt(np.mean(errors["linear"]))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["paired", "focused"])
def test_intervals_hold_on_games_they_were_not_tuned_on(sampler):
    """40 runs of random smooth games: 0.91–0.995 at 95 % (standard error 0.012)."""
    hits = []
    for g in range(20):
        table = smooth_game(12, 500 + g, curvature=1.0 + g / 10)
        ex = cx.BayesSHAP(table_game(table), cx.Masks(12), posterior="gp", sampler=sampler)
        for seed in range(2):
            i = ex.explain(queries=96, seed=seed).interval()
            hits.append(i.covers(shapley(table)).mean())
    assert 0.91 <= np.mean(hits) <= 0.995


def test_a_width_is_honoured_and_forecast():
    table = smooth_game(14, 1, curvature=2.0)
    ex = cx.BayesSHAP(table_game(table), cx.Masks(14), posterior="gp")
    width = 0.1 * np.abs(shapley(table)).max()
    f = ex.forecast(width=width, seed_queries=40)
    e = ex.explain(width=width, start=f)
    assert e.converged
    assert np.all(e.interval().width <= width)
    assert f.queries > 0
    assert 0.4 < f.total / e.n_queries < 2.5


@pytest.mark.parametrize("queries", [5, 6, 9])
def test_a_budget_below_d_says_so_with_wide_intervals(queries):
    table = smooth_game(12, 0)
    e = cx.BayesSHAP(table_game(table), cx.Masks(12), posterior="gp").explain(queries=queries)
    assert e.n_queries <= queries
    assert np.all(e.interval().width > np.abs(shapley(table)).max() / 4)


def test_a_constant_game_and_twins():
    e = cx.BayesSHAP(lambda z: np.full(len(z), 7.0), cx.Masks(9), posterior="gp").explain(
        queries=40
    )
    np.testing.assert_allclose(e.mean, 0, atol=1e-9)
    table = smooth_game(10, 2)
    v = table_game(table)

    def twins(z):
        merged = z.copy()
        merged[:, 1] = z[:, 0] | z[:, 1]
        merged[:, 0] = merged[:, 1]
        return v(merged)

    e = cx.BayesSHAP(twins, cx.Masks(10), posterior="gp").explain(queries=200)
    assert e.mean[0] == pytest.approx(e.mean[1], abs=5 * e.interval().width.max())


def test_a_model_that_fails_midway_keeps_what_was_learned():
    v, asked = table_game(smooth_game(13, 0)), [0]

    def failing(z):
        asked[0] += len(z)
        if asked[0] > 150:
            message = "out of credit"
            raise OSError(message)
        return v(z)

    ex = cx.BayesSHAP(failing, cx.Masks(13), posterior="gp")
    with pytest.raises(cx.ModelRaisedError, match="out of credit") as info:
        ex.explain(queries=300)
    partial = info.value.partial
    assert partial.n_queries > 60
    assert np.all(np.isfinite(partial.mean))
    asked[0] = -10_000
    more = ex.refine(partial, queries=300)
    assert more.n_queries >= 299


def test_several_outputs_share_the_kernel():
    tables = np.stack([smooth_game(10, s) for s in range(3)], axis=1)
    v = lambda z: tables[z @ (1 << np.arange(10))]  # noqa: E731
    e = cx.BayesSHAP(v, cx.Masks(10), posterior="gp").explain(queries=150)
    truth = shapley(tables)
    assert e.mean.shape == (10, 3)
    assert np.sqrt(np.mean((e.mean - truth) ** 2)) < 0.1 * np.abs(truth).mean()


def test_what_does_not_go_together_is_said():
    v = table_game(smooth_game(6, 0))
    with pytest.raises(cx.InputError, match="gp"):
        cx.BayesSHAP(v, cx.Masks(6), posterior="linear", sampler="focused").explain(queries=30)
    with pytest.raises(cx.InputError, match="BayesSHAP"):
        cx.BayesLIME(v, cx.Masks(6), posterior="gp", sampler="focused").explain(queries=30)
    with pytest.raises(cx.InputError, match="random"):
        cx.BayesLIME(v, cx.Masks(6), posterior="gp", sampler="paired").explain(queries=30)
    with pytest.raises(cx.InputError, match="linear"):
        cx.BayesLIME(v, cx.Masks(6), posterior="gp", features=2).explain(queries=30)


def test_repeatable():
    ex = cx.BayesSHAP(table_game(smooth_game(12, 5)), cx.Masks(12), posterior="gp")
    a, b = ex.explain(queries=100, seed=4), ex.explain(queries=100, seed=4)
    np.testing.assert_array_equal(a.mean, b.mean)


def test_known_noise_is_no_rough_function():
    """Distinct pairs of a noisy game: what repeats say of the noise is kept in the kernel."""
    rng = np.random.default_rng(0)
    s, y = pairs(smooth_game(10, 0), 45)
    y = y + 0.3 * rng.normal(size=y.shape)
    fitted = fit_kernel(s, y, noisy=True)
    known = at_least_noise(fitted, s, y, np.array([0.09]))
    state = Conditioned.of(known, s, y)
    white = np.exp(known.log_weights[3]) * (state.W**2).mean()
    assert white >= 0.09 * 0.95
    np.testing.assert_array_equal(known.log_weights[:3], fitted.log_weights[:3])
    assert at_least_noise(known, s, y, np.array([1e-9])).log_weights[3] == known.log_weights[3]
