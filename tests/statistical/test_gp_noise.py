"""A noisy value function: chosen pairs hold their level where repeats tell of the noise."""

import numpy as np
import pytest

import credex as cx
from tests.games import shapley, smooth_game, table_game


@pytest.mark.parametrize("sampler", ["focused", "paired"])
def test_a_rough_reading_of_noise_is_not_believed(sampler):
    """Noise of the size of the importances; without the ends' repeats focused pairs held 0.8."""
    hits = []
    for seed in range(16):
        table = smooth_game(10, seed % 4)
        truth = shapley(table)
        rng, v = np.random.default_rng(seed), table_game(table)
        size = 0.5 * np.abs(truth).mean()

        def noisy(z, v=v, rng=rng, size=size):
            return v(z) + rng.uniform(-size, size, len(z))

        ex = cx.BayesSHAP(noisy, cx.Masks(10), noisy=True, posterior="gp", sampler=sampler)
        hits.append(ex.explain(queries=100, seed=seed).interval().covers(truth).mean())
    assert np.mean(hits) > 0.89, hits
