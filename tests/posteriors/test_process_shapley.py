"""BayesSHAP's Gaussian process, over pairs and over single coalitions: sharp, exact, honest."""

import numpy as np
import pytest

import credex as cx
from credex.posteriors.mask_functionals import ShapleyFromCoalitions
from credex.posteriors.process import Observations
from tests.games import random_game, shapley, smooth_game, table_game


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
    """Forecasts from 40 queries: within a factor of 3 in the median of five games."""
    ratios = []
    for game in range(1, 6):
        table = smooth_game(14, game, curvature=2.0)
        ex = cx.BayesSHAP(table_game(table), cx.Masks(14), posterior="gp")
        width = 0.1 * np.abs(shapley(table)).max()
        f = ex.forecast(width=width, seed_queries=40)
        e = ex.explain(width=width, start=f)
        assert e.converged
        assert np.all(e.interval().width <= width)
        assert f.queries > 0
        ratios.append(f.total / e.n_queries)
    assert 1 / 3 < np.median(ratios) < 3


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


def test_single_coalitions_are_sharper_than_the_regression_and_honest():
    """30 smooth games, 100 queries: at most 0.55 of its RMSE; coverage at least 0.92 (se 0.012)."""
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
    assert np.mean(errors["gp"]) < 0.3 * np.mean(errors["linear"])
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
    more = ex.refine(cx.Explanation.from_json(e.to_json()), width=size / 20)
    assert more.n_queries > e.n_queries
    assert ex.forecast(width=size / 50).queries > 0
    own = cx.PaperFocused(seed_queries=30, batch=10, pool=50)
    assert ex.explain(queries=60, sampler=own).n_queries == 60


def test_noise_is_never_certain():
    rng = np.random.default_rng(0)
    v = table_game(smooth_game(6, 2))
    noisy = lambda z: v(z) + rng.normal(scale=0.05, size=len(z))  # noqa: E731 - short
    ex = cx.BayesSHAP(noisy, cx.Masks(6), posterior="gp", sampler="random", noisy=True)
    assert np.all(ex.explain(queries=120).interval().width > 0)


@pytest.mark.parametrize("sampler", ["random", "paired", "focused"])
def test_a_right_prior_helps_the_process_and_a_wrong_one_is_overruled(sampler):
    table = smooth_game(12, 3)
    truth = shapley(table)
    ex = cx.BayesSHAP(table_game(table), cx.Masks(12), posterior="gp", sampler=sampler)

    def error(queries, prior=None):
        runs = [ex.explain(queries=queries, seed=s, prior=prior).mean - truth for s in range(8)]
        return np.sqrt(np.mean(np.square(runs)))

    right, wrong = cx.Prior(mean=truth), cx.Prior(mean=-3 * truth)
    assert error(16, right) < 0.8 * error(16)
    assert error(16, wrong) > error(16, right)
    assert error(400, wrong) < 0.3 * error(60)
    e = ex.explain(queries=40, prior=wrong)
    assert e.mean.sum() == pytest.approx(table[-1] - table[0], abs=1e-9)


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


def test_few_pairs_tell_which_of_many_features_matter():
    """Features without interactions have small prior variances (errors of 0.70 without)."""
    d, errors = 60, []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        w = np.zeros(d)
        w[rng.choice(d, 5, replace=False)] = rng.choice([-1.0, 1.0], 5) * rng.uniform(1, 2, 5)
        some = np.flatnonzero(w)[:3]

        def v(z, w=w, some=some):
            return z @ w + np.all(z[:, some], axis=1)

        phi = w.copy()
        phi[some] += 1 / 3
        e = cx.BayesSHAP(v, cx.Masks(d), posterior="gp").explain(queries=2 * d, seed=seed)
        errors.append(np.sqrt(np.mean((e.mean - phi) ** 2)) / np.abs(phi).mean())
    assert np.mean(errors) < 0.4


def test_main_effects_of_labels_are_not_tied_to_interactions():
    rng = np.random.default_rng(0)
    masks = rng.random((40, 8)) < 0.5
    score = masks @ rng.normal(size=8)
    numbers, labels = score[:, None], 1.0 * (score > np.median(score))[:, None]
    functional = ShapleyFromCoalitions(8)
    assert Observations(functional, masks, numbers).default_kernel().tie == functional.tie > 0
    assert Observations(functional, masks, labels).default_kernel().tie < 0.1 * functional.tie
