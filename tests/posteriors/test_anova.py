"""The process over model inputs: distances, the kernel, its closed-form Shapley values, its fit."""

import numpy as np
import pytest

from credex.posteriors import assisted
from credex.posteriors.assisted import AnovaKernel, InputSpace, fit_kernel, similarity
from tests.games import shapley

SPACES = {
    "numbers": InputSpace(((0,), (1,), (2,), (3,), (4,)), np.zeros(5, dtype=bool)),
    "groups": InputSpace(((0, 3), (1,), (4, 2)), np.zeros(5, dtype=bool)),
    "categories": InputSpace(
        ((0,), (1,), (2,), (3,), (4,)), np.array([False, True, False, False, True])
    ),
    "groups with categories": InputSpace(
        ((1, 0), (2,), (3,), (4,)), np.array([False, True, False, False, True])
    ),
}
SIZES = {"nearly additive": -5.0, "interactions": -1.0, "mostly interactions": 2.0}


def rows(space, n, seed=0):
    rng = np.random.default_rng(seed)
    out = np.where(rng.random((n, 5)) < 0.1, -1.0, rng.random((n, 5)))  # ranks, some missing
    out[:, space.categorical] = rng.integers(0, 3, (n, int(space.categorical.sum())))
    return out


def kernel_of(space, size, seed=0):
    amplitudes = np.random.default_rng(seed).lognormal(SIZES[size], 1, space.d)
    return AnovaKernel(amplitudes, 1.7, 0.01)


def correlation(r):
    """Matérn 3/2 of length 0.7 with a tenth of Matérn 1/2 of length 0.5."""
    return 0.9 * (1 + 3**0.5 * r / 0.7) * np.exp(-(3**0.5) * r / 0.7) + 0.1 * np.exp(-r / 0.5)


def by_definition(kernel, space, u, v):
    """k(u, v) as the module's docstring prints it, feature by feature."""
    out = kernel.variance
    for j, columns in enumerate(space.columns):
        steps = [float(u[c] != v[c]) if space.categorical[c] else abs(u[c] - v[c]) for c in columns]
        a, similar = kernel.amplitudes[j], np.prod([correlation(r) for r in steps])
        out *= (1 + a * similar) / (1 + a)
    return out


def enumerated(kernel, space, x, b, basis):
    """Shapley values ``(d, m)`` of k(·, u) on one background row, and its value there ``(m,)``."""
    masks = ((np.arange(2**space.d)[:, None] >> np.arange(space.d)) & 1).astype(bool)
    on = np.zeros((len(masks), 5), dtype=bool)
    for j, columns in enumerate(space.columns):
        on[:, list(columns)] = masks[:, [j]]
    hybrids = np.where(on, x, b)
    table = np.array([[by_definition(kernel, space, u, v) for v in basis] for u in hybrids])
    return shapley(table), table[0]


def test_similarities_of_numbers_missing_values_categories_and_groups():
    space = InputSpace(((0,), (1,), (0, 1)), np.array([False, True]))
    a = np.array([[0.25, 2.0], [-1.0, 0.0]])
    b = np.array([[1.0, 2.0], [-1.0, 7.0], [0.5, 0.0]])
    assert space.d == 3
    numbers = correlation(np.array([[0.75, 1.25, 0.25], [2.0, 0.0, 1.5]]))
    words = correlation(np.array([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]))
    for j, expected in enumerate((numbers, words, numbers * words)):
        np.testing.assert_allclose(space.similar(j, a[:, None], b), expected, rtol=1e-14)
        np.testing.assert_allclose(space.similar(j, a, b[:2]), np.diag(expected[:, :2]), rtol=1e-14)
    np.testing.assert_array_equal(similarity(np.zeros(3)), 1.0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_the_kernel_is_its_formula(space, size):
    kernel, a, b = kernel_of(space, size), rows(space, 7), rows(space, 4, seed=1)
    expected = [[by_definition(kernel, space, u, v) for v in b] for u in a]
    np.testing.assert_allclose(kernel.between(space, a, b), expected, rtol=1e-12)
    np.testing.assert_allclose(np.diag(kernel.between(space, a, a)), kernel.variance, rtol=1e-12)
    assert np.linalg.eigvalsh(kernel.between(space, a, a)).min() > -1e-9


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_shapley_values_over_all_rows_are_those_of_enumeration(space, size, monkeypatch):
    kernel, x = kernel_of(space, size), rows(space, 1, seed=2)
    background, basis = rows(space, 6, seed=3), rows(space, 5, seed=4)
    weights = np.random.default_rng(0).dirichlet(np.ones(6))
    each = [enumerated(kernel, space, x, b, basis) for b in background]
    expected = sum(w * phi for w, (phi, _) in zip(weights, each, strict=True))
    base = sum(w * value for w, (_, value) in zip(weights, each, strict=True))
    coefficients = np.random.default_rng(1).normal(size=(5, 2))
    for cells in (assisted.CHUNK_CELLS, 2 * 6 * space.d, 1):
        monkeypatch.setattr(assisted, "CHUNK_CELLS", cells)
        fit = {"basis": basis, "coefficients": coefficients}
        got = kernel.shapley(space, x, background, weights, **fit)
        np.testing.assert_allclose(got.phi, expected, atol=1e-10)
        np.testing.assert_allclose(got.base, base, atol=1e-10)
        np.testing.assert_allclose(got.by_row, [phi @ coefficients for phi, _ in each], atol=1e-10)
        bases = [value @ coefficients for _, value in each]
        np.testing.assert_allclose(got.base_by_row, bases, atol=1e-10)


@pytest.mark.parametrize("size", SIZES)
def test_a_feature_without_amplitude_has_no_share(size):
    space = SPACES["numbers"]
    kernel = kernel_of(space, size)
    kernel.amplitudes[2] = 1e-9
    x, background, basis = rows(space, 1), rows(space, 8, seed=1), rows(space, 3, seed=2)
    fit = {"basis": basis, "coefficients": np.eye(3)}
    got = kernel.shapley(space, x, background, np.full(8, 1 / 8), **fit)
    phi, base = got.phi, got.base
    assert not phi[2].any()
    assert 2 not in kernel.relevant
    np.testing.assert_allclose(
        phi.sum(axis=0), kernel.between(space, x, basis)[0] - base, atol=1e-10
    )


def test_few_nodes_are_enough_for_many_features():
    """Four nodes against as many as are exact."""
    rng, d = np.random.default_rng(5), 40
    space = InputSpace(tuple((j,) for j in range(d)), np.zeros(d, dtype=bool))
    background, basis = rng.random((20, d)), rng.random((6, d))
    x, weights = rng.random((1, d)), np.full(20, 1 / 20)
    for amplitudes in (np.full(d, 10 / d), 10 / d * rng.lognormal(0, 1.5, d)):
        kernel, fit = (
            AnovaKernel(amplitudes, 2.0, 0.05),
            {"basis": basis, "coefficients": np.eye(6)},
        )
        few = kernel.shapley(space, x, background, weights, **fit).phi
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(assisted, "MAX_NODES", d // 2)
            exact = kernel.shapley(space, x, background, weights, **fit).phi
        total = kernel.between(space, x, basis)[0] - weights @ kernel.between(
            space, background, basis
        )
        np.testing.assert_allclose(exact.sum(axis=0), total, rtol=1e-9)
        assert 0 < np.abs(few - exact).max() < 1e-4 * np.abs(exact).max()


def test_the_unfitted_kernel_has_equal_shares():
    kernel = AnovaKernel.unfitted(4)
    np.testing.assert_array_equal(kernel.amplitudes, np.full(4, 2.5))
    assert (kernel.variance, kernel.noise) == (2.0, 0.05)


def test_many_features_with_large_amplitudes_do_not_overflow():
    space = InputSpace(tuple((j,) for j in range(600)), np.zeros(600, dtype=bool))
    kernel, u = (
        AnovaKernel(np.full(600, 50.0), 2.0, 0.05),
        np.random.default_rng(0).random((5, 600)),
    )
    fit = {"basis": u, "coefficients": np.eye(5)}
    got = kernel.shapley(space, u[:1], u, np.full(5, 0.2), **fit)
    assert all(np.all(np.isfinite(part)) for part in (got.phi, got.base, got.by_row))


# -- fitting -------------------------------------------------------------------------------------


def fitted_data(space, n=24, k=2):
    u = rows(space, n)
    y = np.column_stack([np.sin(3 * u[:, 0]) + u[:, 2] * u[:, 3], u[:, 0] - u[:, 4] ** 2])[:, :k]
    return u, (y - y.mean(axis=0)) / y.std(axis=0)


def minus_log_posterior(space, u, y, p):
    """The loss, from the kernel as it is used and the priors as they are described."""
    d = space.d
    a, (variance, noise) = np.exp(p[:d]), np.exp(p[d:])
    K = AnovaKernel(a, variance, noise).between(space, u, u) + noise * np.eye(len(u))
    z = (p - np.log([*[10 / d] * d, 2.0, 0.05])) / np.array([*[1.5] * d, 2.0, 3.0])
    fit = 0.5 * np.sum(y * np.linalg.solve(K, y)) + 0.5 * y.shape[1] * np.linalg.slogdet(K)[1]
    return fit + 0.5 * z @ z


def parameters(kernel):
    return np.log([*kernel.amplitudes, kernel.variance, kernel.noise])


@pytest.fixture
def optimiser(monkeypatch):
    """What `fit_kernel` hands to the optimiser."""
    import scipy.optimize

    seen, original = {}, scipy.optimize.minimize

    def spy(fun, x0, **kwargs):
        seen.update(fun=fun, x0=x0, bounds=kwargs["bounds"])
        return original(fun, x0, **kwargs)

    monkeypatch.setattr(scipy.optimize, "minimize", spy)
    return seen


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_the_gradient_of_the_fit_is_that_of_its_loss(space, optimiser):
    u, y = fitted_data(space)
    fit_kernel(space, u, y, seed=0)
    rng, h = np.random.default_rng(0), 1e-5
    for p in (optimiser["x0"], optimiser["x0"] + rng.normal(size=space.d + 2)):
        value, gradient = optimiser["fun"](p)
        np.testing.assert_allclose(value, minus_log_posterior(space, u, y, p), rtol=1e-9)
        steps = h * np.eye(len(p))
        numeric = [
            (minus_log_posterior(space, u, y, p + s) - minus_log_posterior(space, u, y, p - s))
            / (2 * h)
            for s in steps
        ]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("k", [1, 2])
def test_a_fit_is_likelier_than_its_start_and_inside_its_bounds(space, k, optimiser):
    u, y = fitted_data(space, k=k)
    found = parameters(fit_kernel(space, u, y, seed=0))
    start = minus_log_posterior(space, u, y, optimiser["x0"])
    assert minus_log_posterior(space, u, y, found) < start - 1
    low, high = np.transpose(optimiser["bounds"])
    assert np.all((low - 1e-9 <= found) & (found <= high + 1e-9))


def test_a_fit_finds_what_matters():
    space = SPACES["numbers"]
    u = np.random.default_rng(0).random((80, 5))
    y = np.sin(4 * u[:, [1]])
    kernel = fit_kernel(space, u, (y - y.mean()) / y.std(), seed=0)
    assert kernel.amplitudes[1] > 10 * np.delete(kernel.amplitudes, 1).max()


def test_many_rows_are_thinned_by_the_seed(monkeypatch):
    space = SPACES["numbers"]
    u, y = fitted_data(space, n=60)
    monkeypatch.setattr(assisted, "MAX_FIT_ROWS", 30)
    one, again, other = (parameters(fit_kernel(space, u, y, seed=s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_constant_outputs_and_equal_rows_can_be_fitted():
    space = SPACES["numbers"]
    u = np.repeat(rows(space, 4), 5, axis=0)
    for y in (np.zeros((20, 1)), np.tile([[1.0], [-1.0]], (10, 1))):
        kernel = fit_kernel(space, u, y, seed=0)
        assert np.all(np.isfinite(parameters(kernel)))
