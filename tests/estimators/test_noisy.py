"""Noisy models with few features: repeats, forecasts, sums."""

import numpy as np
import pytest

import credex as cx


def curved(seed, noise=0.1):
    """A function of three masks or more with noise of its own."""
    rng = np.random.default_rng(seed)

    def v(z):
        y = z[:, 0] + 2 * z[:, 1] * z[:, 2] + 3 * z[:, 0] * z[:, 1] * z[:, 2]
        return y + noise * rng.normal(size=len(z))

    return v


@pytest.mark.parametrize("options", [{}, {"sampler": "paired"}, {"posterior": "gp"}])
def test_a_noisy_surrogate_aims_at_the_same_answer(options):
    """f(x) is one of eight masks: asked once and never again it would count for nothing."""
    exact = cx.BayesLIME(curved(0, 0.0), cx.Masks(3)).explain().mean
    e = cx.BayesLIME(curved(0), cx.Masks(3), noisy=True, **options).explain(queries=1000)
    np.testing.assert_allclose(e.mean, exact, atol=0.15)
    assert np.all(e.interval().covers(exact))


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_refining_repeats_as_evenly_as_one_run(method):
    ex = method(curved(1), cx.Masks(3), noisy=True)
    e = ex.explain(queries=20)
    for i in range(20):
        e = ex.refine(e, queries=24 + 8 * i)
    counts = np.unique(e.history.rows.design(), axis=0, return_counts=True)[1]
    assert counts.max() - counts.min() <= 3, counts


@pytest.mark.parametrize("posterior", ["linear", "gp"])
def test_a_forecast_knows_that_a_noisy_model_may_be_asked_again(posterior):
    rng = np.random.default_rng(2)
    ex = cx.BayesSHAP(
        lambda z: z.sum(1) ** 1.5 + 0.1 * rng.normal(size=len(z)), cx.Masks(5), noisy=True
    )
    f = ex.forecast(width=0.03, posterior=posterior)
    e = ex.explain(width=0.03, max_queries=20_000, posterior=posterior)
    assert e.converged
    assert e.n_queries / 2 < f.n_queries + f.queries < 2 * e.n_queries


@pytest.mark.parametrize("sampler", ["focused", "paired", "random"])
def test_importances_of_a_noisy_model_add_up(sampler):
    ex = cx.BayesSHAP(curved(3, 0.5), cx.Masks(8), noisy=True, posterior="gp", sampler=sampler)
    e = ex.explain(queries=60)
    assert e.mean.sum() == pytest.approx(e.prediction - e.base_value, abs=1e-9)
    e = ex.refine(e, queries=120)
    assert e.mean.sum() == pytest.approx(e.prediction - e.base_value, abs=1e-9)


@pytest.mark.parametrize(("d", "queries"), [(2, 4), (2, 6), (3, 8)])
def test_a_small_noisy_game_always_has_numbers(d, queries):
    rng = np.random.default_rng(4)
    v = lambda z: z.sum(1) + 0.1 * rng.normal(size=len(z))  # noqa: E731
    e = cx.BayesSHAP(v, cx.Masks(d), noisy=True, posterior="gp").explain(queries=queries)
    assert np.all(np.isfinite(e.mean))
    assert np.all(e.interval().width > 0)


@pytest.mark.parametrize("d", [1, 2])
def test_a_surrogate_of_one_or_two_features_is_exact_under_the_process_too(d):
    e = cx.BayesLIME(lambda z: z.sum(1) * 1.0, cx.Masks(d), posterior="gp").explain()
    np.testing.assert_allclose(e.mean, 1.0)
    assert e.exact


def test_all_alike_is_not_called_exact():
    """A rule that 12 of 14 features decide together: 100 queries are far from it."""
    rule = lambda z: 1.0 * (z[:, :6].all(1) & ~z[:, 6:12].any(1))  # noqa: E731
    e = cx.BayesSHAP(rule, cx.Masks(14), posterior="gp").explain(queries=100)
    assert not e.exact
    assert "exact" not in str(e)
    assert "all alike so far" in str(e)


def test_the_papers_recipe_has_no_focused_process():
    with pytest.raises(cx.InputError, match="sampler='random'"):
        cx.BayesSHAP(curved(5), cx.Masks(9), posterior="gp", recipe="paper").explain(queries=50)


def test_one_noisy_feature_can_be_refined():
    rng = np.random.default_rng(6)
    ex = cx.BayesSHAP(lambda z: z[:, 0] + 0.5 * rng.normal(size=len(z)), cx.Masks(1), noisy=True)
    e = ex.explain(queries=10)
    more = ex.refine(e, queries=150)
    assert more.n_queries == 150
    assert more.interval().width[0] < 0.5 * e.interval().width[0]
    assert more.interval().covers([1.0])[0]


@pytest.mark.parametrize("posterior", ["linear", "gp"])
@pytest.mark.parametrize("goal", [{"queries": 30}, {"queries": 120}, {"width": 0.4}])
def test_noise_of_single_rows_is_in_the_intervals(posterior, goal):
    X = np.random.default_rng(0).normal(size=(20, 4))
    x = np.array([1.0, -1.0, 0.5, 2.0])

    def f(rows):
        return rows[:, 0] * rows[:, 1] + 2 * rows[:, 2] - rows[:, 3]

    domain = cx.Tabular(X, background=20)
    truth = cx.BayesSHAP(f, domain, posterior="exact").explain(x).mean
    hits, rng = [], np.random.default_rng(1)
    for seed in range(25):
        ex = cx.BayesSHAP(lambda z: f(z) + 0.5 * rng.normal(size=len(z)), domain, noisy=True)
        e = ex.explain(x, posterior=posterior, seed=seed, **goal)
        hits.append(e.interval().covers(truth))
        assert e.n_model_rows == e.n_queries
    assert np.mean(hits) > 0.88, np.mean(hits)


def test_both_ends_are_asked_as_often_as_other_coalitions():
    seen = []

    def v(z):
        seen.append(z.copy())
        return curved(4)(z)

    cx.BayesSHAP(v, cx.Masks(3), noisy=True, posterior="linear").explain(queries=200)
    counts = np.unique(np.concatenate(seen), axis=0, return_counts=True)[1]
    assert len(counts) == 8
    assert counts.max() <= 1.3 * counts.min(), counts
