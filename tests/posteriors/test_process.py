"""The conditioned Gaussian process: Gaussian conditioning, planning, additive games, noise."""

import numpy as np
import pytest

from credex.designs.coalitions import ShapleySequence
from credex.designs.perturbations import all_masks
from credex.designs.samplers import plan
from credex.posteriors.functionals import (
    ShapleyFromCoalitions,
    ShapleyFromPairs,
    SurrogateOverMasks,
    SurrogateOverPool,
)
from credex.posteriors.process import (
    Conditioned,
    Observations,
    ProcessPosterior,
    at_least_noise,
    fit_kernel,
)
from tests.games import random_game, smooth_game, table_game


def pairs(table, n, seed=0, noise=0.0, **options):
    """Half differences of ``n`` pairs after that of the full and the empty mask."""
    d = int(np.log2(len(table)))
    v = table_game(table)
    z = np.vstack([np.ones((1, d), bool), ShapleySequence(d, seed, paired=True).units(0, n)])
    y = ((v(z) - v(~z)) / 2).reshape(len(z), -1)
    y = y + noise * np.random.default_rng(0).normal(size=y.shape)
    return Observations(ShapleyFromPairs(d), z, y, **options)


@pytest.mark.parametrize("kind", ["pairs", "coalitions", "surrogate"])
def test_the_posterior_is_plain_gaussian_conditioning(kind):
    """Mean and covariance against the textbook formula on the whole table of a small game."""
    d, rows = 5, np.array([31, 0, 3, 9, 20, 14, 26])
    functional = {
        "pairs": ShapleyFromPairs(d),
        "coalitions": ShapleyFromCoalitions(d),
        "surrogate": SurrogateOverMasks(np.linspace(0.2, 1, d + 1)),
    }[kind]
    rows = rows[rows != 0] if functional.odd else rows
    masks, y = all_masks(d), np.random.default_rng(0).normal(size=(len(rows), 2))
    data = Observations(functional, masks[rows], y)
    k = fit_kernel(data)
    state = Conditioned(k, data)
    everywhere = functional.inputs(masks)
    white = np.eye(2**d) - (np.eye(2**d)[::-1] if functional.odd else 0)
    K = k.gram(everywhere, everywhere) + k.weights[3] * white
    cross = functional.cross(k, everywhere[rows])
    gain = np.linalg.solve(K[np.ix_(rows, rows)], np.eye(len(rows)))
    np.testing.assert_allclose(state.mean, cross @ gain @ data.Y, atol=1e-5)
    prior = functional.covariance(k, everywhere[:0], np.zeros((0, 0)), np.zeros((0, len(cross))))
    np.testing.assert_allclose(state.covariance, prior - cross @ gain @ cross.T, atol=1e-5)
    left = np.diag(K - K[:, rows] @ gain @ K[rows])
    np.testing.assert_allclose(state.predictive_variance(masks[[1, 2]]), left[[1, 2]], atol=1e-5)
    found = K[:, rows] @ gain @ data.Y + data.constant
    np.testing.assert_allclose(state.predict(masks)[[1, 2]], found[[1, 2]], atol=1e-5)


def test_an_expected_explanation_is_added_back():
    """With the right prior mean and an additive game, predictions are exact without any fit."""
    phi = np.arange(1.0, 8)
    masks = ShapleySequence(7, 0, paired=True).units(0, 5)
    data = Observations(ShapleyFromCoalitions(7), masks, (masks @ phi)[:, None], expected=phi)
    found = ProcessPosterior.fit(data)
    np.testing.assert_allclose(found.mean[:, 0], phi)
    np.testing.assert_allclose(found.state.predict(all_masks(7))[:, 0], all_masks(7) @ phi)


def test_planned_reductions_come_true():
    """What the plan says a pick takes off the variance is what conditioning on it takes off."""
    data = pairs(smooth_game(10, 1), 30)
    state = Conditioned(fit_kernel(data), data)
    pool = ShapleySequence(10, 9, paired=True).units(0, 200)
    known = data.inputs.on
    seen = {r.tobytes() for r in known} | {(~r).tobytes() for r in known}
    pool = pool[[r.tobytes() not in seen for r in pool]]
    picks, gains = plan(state, pool, 5)
    assert len(set(picks)) == 5

    def after(more):
        both = np.vstack([known, more])
        grown = Observations(data.functional, both, np.zeros((len(both), 1)))
        return Conditioned(state.kernel, grown).covariance

    took = np.diag(state.covariance) - np.diag(after(pool[picks]))
    np.testing.assert_allclose(gains.sum(axis=0), took, rtol=0.05, atol=1e-6)
    assert np.trace(after(pool[picks])) < np.trace(after(pool[:5]))


def test_shares_left_are_those_of_conditioning():
    d = 8
    v = table_game(smooth_game(d, 1))
    masks = ShapleySequence(d, 0, paired=False).units(0, 60)
    data = Observations(ShapleyFromCoalitions(d), masks[:50], v(masks[:50])[:, None])
    state = Conditioned(fit_kernel(data), data)
    more = Observations(data.functional, masks, v(masks)[:, None])
    after = Conditioned(state.kernel, more).covariance
    found = state.shares_left(masks[50:])
    np.testing.assert_allclose(found[-1], np.diag(after) / np.diag(state.covariance), rtol=1e-4)
    assert (np.diff(found, axis=0) <= 1e-12).all()


@pytest.mark.parametrize("kind", [ShapleyFromPairs, ShapleyFromCoalitions])
def test_an_additive_game_is_solved_up_to_rounding(kind):
    d = 6
    phi = np.random.default_rng(0).normal(size=(d, 2))
    masks = ShapleySequence(d, 0, paired=True).units(0, 12)
    functional = kind(d)
    data = Observations(functional, masks, functional.columns(masks)[:, -d:] @ phi)
    found = ProcessPosterior.fit(data)
    assert found.state is None
    np.testing.assert_allclose(found.mean, phi, atol=1e-9)
    assert 0 < found.belief.deviation.max() < 1e-6


def test_all_pairs_known_leaves_nothing_uncertain():
    table = random_game(5, 0)
    masks = all_masks(5)[16:][::-1]
    v = table_game(table)
    y = ((v(masks) - v(~masks)) / 2)[:, None]
    found = ProcessPosterior.fit(Observations(ShapleyFromPairs(5), masks, y))
    assert found.belief.deviation.max() < 1e-3
    assert found.mean.sum() == pytest.approx(table[-1] - table[0])


def test_known_noise_is_no_rough_function():
    """Distinct pairs of a noisy game: what repeats say of the noise is kept in the kernel."""
    data = pairs(smooth_game(10, 0), 45, noise=0.3, noisy=True)
    fitted = fit_kernel(data)
    known = at_least_noise(fitted, data, np.array([0.09]))
    white = np.exp(known.log_weights[3]) * (Conditioned(known, data).W ** 2).mean()
    assert white >= 0.09 * 0.95
    np.testing.assert_array_equal(known.log_weights[:3], fitted.log_weights[:3])
    assert at_least_noise(known, data, np.array([1e-9])).log_weights[3] == known.log_weights[3]


@pytest.mark.parametrize("functional", [ShapleyFromPairs(6), ShapleyFromCoalitions(6)])
def test_a_constant_game_has_no_direction_and_no_effects(functional):
    masks = ShapleySequence(6, 0, paired=True).units(0, 9)
    data = Observations(functional, masks, np.zeros((9, 1)))
    found = ProcessPosterior.of(Conditioned(fit_kernel(data), data))
    np.testing.assert_array_equal(found.mean, 0)


def test_a_small_pool_has_a_sampling_error():
    """It falls with the size of the pool: 5,000 rows against 50, a factor of about 100."""
    rows = np.random.default_rng(1).normal(size=(60, 3))
    y = (rows[:, 0] * rows[:, 1])[:, None]

    def error(m):
        X = np.random.default_rng(0).normal(size=(m, 3))
        pool = SurrogateOverPool(X, X, np.exp(-(X**2).sum(1) / 2))
        state = ProcessPosterior.fit(Observations(pool, rows, y, coordinates=rows)).state
        return np.trace(pool.sampling_error(state.kernel, state.data.inputs, state.alpha)[..., 0])

    assert 20 < error(50) / error(5000) < 500
