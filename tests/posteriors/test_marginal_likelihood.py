"""The marginal likelihood of a kernel: gradients, discrete outputs, warm starts."""

import numpy as np
import pytest

from credex.designs.coalitions import ShapleySequence
from credex.posteriors.functionals import (
    ShapleyFromCoalitions,
    ShapleyFromPairs,
    SurrogateOverPool,
)
from credex.posteriors.marginal_likelihood import MarginalLikelihood
from credex.posteriors.process import Observations, fit_kernel
from tests.games import table_game
from tests.posteriors.test_discrete_outputs import votes


def observed(kind, d, n, *, labels=False):
    rng = np.random.default_rng(1)
    y = rng.normal(size=(n, 2))
    y = np.sign(y[:, :1]) if labels else y
    if kind == "table":
        rows = rng.normal(size=(n, d))
        pool = SurrogateOverPool(rows, rows, np.ones(n))
        return Observations(pool, rows, y, coordinates=rows)
    functional = ShapleyFromPairs(d) if kind == "pairs" else ShapleyFromCoalitions(d)
    return Observations(functional, ShapleySequence(d, 0, paired=True).units(0, n), y)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("d", [6, 30])
@pytest.mark.parametrize("kind", ["pairs", "coalitions", "table"])
def test_gradient(kind, d, labels):
    data = observed(kind, d, 25, labels=labels)
    posterior = MarginalLikelihood(data.inputs, data.Y, data.default_kernel(), 1.5)
    assert (posterior.discrete.white > 0) == labels
    b = None if kind == "table" else np.ones(d) / np.sqrt(d)
    theta = posterior.mean + 0.3 * np.random.default_rng(2).normal(size=d + 5)
    steps = 1e-5 * np.eye(d + 5)
    loss = lambda t: posterior.loss(t, b)[0]  # noqa: E731 - short
    numeric = [(loss(theta + e) - loss(theta - e)) / 2e-5 for e in steps]
    gradient = posterior.loss(theta, b)[1]
    np.testing.assert_allclose(gradient, numeric, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.parametrize("kind", ["pairs", "coalitions", "table"])
def test_a_fit_improves_and_keeps_the_direction(kind):
    data = observed(kind, 6, 25)
    start = data.default_kernel()
    posterior = MarginalLikelihood(data.inputs, data.Y, start, 1.0)
    fitted = posterior.fit(start)
    assert fitted.direction is start.direction
    before, after = (posterior.loss(k.theta, k.direction)[0] for k in (start, fitted))
    assert after < before


def test_a_fitted_kernel_keeps_its_white_part_on_a_warm_start():
    v = table_game(votes(9, 3))
    z = np.vstack([np.ones((1, 9), bool), ShapleySequence(9, 0, paired=True).units(0, 40)])
    data = Observations(ShapleyFromPairs(9), z, ((v(z) - v(~z)) / 2).reshape(-1, 1))
    first = fit_kernel(data)
    again = fit_kernel(data, start=first)
    discrete = MarginalLikelihood(data.inputs, data.Y, first, 1.5).discrete
    least = discrete.white * (again.shares @ again.weights[:3])
    assert least > 0
    assert again.weights[3] >= least
    assert again.weights[3] == pytest.approx(first.weights[3], rel=0.5)
