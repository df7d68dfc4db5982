"""A process conditioned in two steps is the process conditioned at once."""

import numpy as np
import pytest

from credex.posteriors.extended import Extended
from credex.posteriors.mask_functionals import ShapleyFromCoalitions, ShapleyFromPairs
from credex.posteriors.process import Conditioned, Observations, fit_kernel


@pytest.mark.parametrize("functional", [ShapleyFromPairs(6), ShapleyFromCoalitions(6)])
@pytest.mark.parametrize("expected", [0.0, 0.3])
def test_two_steps_equal_one(functional, expected):
    rng = np.random.default_rng(0)
    masks = rng.permutation(((np.arange(1, 31)[:, None] >> np.arange(6)) & 1).astype(bool))
    masks = np.vstack([np.ones((1, 6), dtype=bool), masks])
    s = 2.0 * masks - 1
    y = np.column_stack([np.tanh(s @ rng.normal(size=6)), s[:, 0] * s[:, 1] * s[:, 2]])
    prior = np.full(6, expected)
    start = Conditioned(
        fit_kernel(Observations(functional, masks[:15], y[:15], expected=prior)),
        Observations(functional, masks[:15], y[:15], expected=prior),
    )
    start.data.constant = np.zeros(2)  # the mean of fewer rows is another one
    start.data.Y = y[:15] - (start.data.columns[:, -6:] @ prior)[:, None]
    start = Conditioned(start.kernel, start.data)
    whole = Observations(functional, masks[:25], y[:25], expected=prior)
    whole.constant, whole.Y = np.zeros(2), y[:25] - (whole.columns[:, -6:] @ prior)[:, None]
    once = Conditioned(start.kernel, whole)

    twice = Extended(start, masks[15:25], y[15:25] - start.predict(masks[15:25]))
    np.testing.assert_allclose(start.mean + twice.change, once.mean, atol=1e-6)
    np.testing.assert_allclose(twice.covariance, once.covariance, atol=1e-6)
    left = start.predict(masks[25:]) + twice.predict(masks[25:])
    np.testing.assert_allclose(left, once.predict(masks[25:]), atol=1e-6)
    variance = twice.predictive_variance(masks[25:])
    np.testing.assert_allclose(variance, once.predictive_variance(masks[25:]), atol=1e-6)
