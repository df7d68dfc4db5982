"""Linear functionals of a Gaussian process: closed forms against enumeration; rare columns."""

import numpy as np
import pandas as pd
import pytest

import credex as cx
from credex.designs.perturbations import all_masks
from credex.posteriors.functionals import SurrogateOverPool, projector
from credex.posteriors.kernel import Kernel
from credex.posteriors.mask_functionals import (
    ShapleyFromCoalitions,
    ShapleyFromPairs,
    SurrogateOverMasks,
)
from credex.posteriors.process import Observations
from tests.games import shapley


def random_kernel(d, seed, **options):
    rng = np.random.default_rng(seed)
    b = rng.normal(size=d)
    return Kernel(rng.normal(size=d) - 1, 0.2, rng.normal(size=4), b / np.linalg.norm(b), **options)


def least_squares(d, weights):
    """Coefficients of the weighted least squares over all masks, (d+1, 2^d)."""
    Z = np.column_stack([np.ones(2**d), all_masks(d)])
    root = np.sqrt(weights[all_masks(d).sum(1)])[:, None]
    return np.linalg.lstsq(root * Z, np.eye(2**d) * root, rcond=None)[0]


def shapley_values(d):
    return shapley(np.eye(2**d))


WEIGHTS = np.exp(-np.arange(9.0)[::-1] / 3)


@pytest.mark.parametrize("d", [2, 3, 6])
@pytest.mark.parametrize("ease", [False, True])
@pytest.mark.parametrize("kind", [ShapleyFromPairs, ShapleyFromCoalitions, SurrogateOverMasks])
def test_closed_forms_match_enumeration(kind, d, ease):
    surrogate = kind is SurrogateOverMasks
    functional = kind(WEIGHTS[-d - 1 :]) if surrogate else kind(d)
    A = least_squares(d, WEIGHTS[-d - 1 :]) if surrogate else shapley_values(d)
    k = random_kernel(d, d, odd=functional.odd, ease=np.arange(1.0, d + 1) if ease else 1.0)
    masks = functional.inputs(all_masks(d))
    white = np.eye(2**d) - (np.eye(2**d)[::-1] if functional.odd else 0)  # complements mirror
    K = k.gram(masks, masks) + k.weights[3] * white
    np.testing.assert_allclose(functional.cross(k, masks), A @ K, atol=1e-8)
    nothing = np.zeros((0, len(A)))
    found = functional.covariance(k, masks[:0], np.zeros((0, 0)), nothing)
    np.testing.assert_allclose(found, A @ K @ A.T, atol=1e-8)


@pytest.mark.parametrize("d", [1, 7, 8])
def test_shapley_values_of_pairs_match_enumeration(d):
    k, functional = random_kernel(d, d, odd=True), ShapleyFromPairs(d)
    masks = functional.inputs(all_masks(d))
    K = k.gram(masks, masks) + k.weights[3] * (np.eye(2**d) - np.eye(2**d)[::-1])
    np.testing.assert_allclose(functional.cross(k, masks), shapley_values(d) @ K, atol=1e-8)


def test_noise_is_no_part_of_the_explanation():
    functional, d = ShapleyFromCoalitions(4), 4
    masks = functional.inputs(all_masks(d))
    k = random_kernel(d, 0, noisy=True)
    found = functional.cross(k, masks)
    np.testing.assert_allclose(found, shapley_values(d) @ k.gram(masks, masks), atol=1e-8)


def test_a_draft_is_close_to_the_covariance():
    functional = ShapleyFromPairs(16)
    masks = functional.inputs(np.random.default_rng(0).random((200, 16)) < 0.5)
    k = Observations(functional, masks.on, np.zeros((200, 1))).default_kernel()
    exact, draft = functional.cross(k, masks), functional.cross(k, masks, draft=True)
    np.testing.assert_allclose(draft, exact, atol=1e-3 * np.abs(exact).max())


def test_projector_is_weighted_least_squares():
    rng = np.random.default_rng(0)
    M, w, y = rng.normal(size=(50, 3)), rng.random(50), rng.normal(size=50)
    root = np.sqrt(w)[:, None]
    Z = np.column_stack([np.ones(50), M])
    beta = np.linalg.lstsq(root * Z, root[:, 0] * y, rcond=None)[0]
    np.testing.assert_allclose(projector(M, w) @ y, beta, atol=1e-10)
    np.testing.assert_allclose(projector(M, 1e-300 * w) @ y, beta, atol=1e-10)


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1005037815259212])
def test_a_column_that_is_constant_up_to_rounding_has_no_coefficient(value):
    rng = np.random.default_rng(0)
    M = rng.normal(size=(500, 3))
    M[:, 1] = value * (1 + 1e-16 * rng.normal(size=500))
    A = projector(M, np.exp(-(M[:, 0] ** 2)))
    np.testing.assert_array_equal(A[2], 0)
    others = projector(M[:, [0, 2]], np.exp(-(M[:, 0] ** 2)))
    np.testing.assert_allclose(A[[0, 1, 3]], others, atol=1e-12)
    pool = SurrogateOverPool(M, M, np.ones(500))
    assert np.abs(pool.linear).max() < 100


def rarely_one(share, seed):
    """A table with an integer column that is 1 in a share of the rows, and a model of it."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(1000, 2)), columns=["a", "b"])
    table["rare"] = (rng.random(1000) < share).astype(int)
    return table, lambda t: np.asarray(t["a"] * t["b"] + t["rare"], dtype=float)


@pytest.mark.parametrize("share", [0.01, 0.013, 0.02])
@pytest.mark.parametrize("at", [0, 1])
def test_a_column_that_hardly_varies_is_not_explained_by_rounding(share, at):
    """Normal steps of a standard deviation of 0.1 are rounded to 0: estimates were up to 1e12."""
    for seed in range(3):
        table, model = rarely_one(share, seed)
        x = table.iloc[int(np.argmax(table["rare"] == at))]
        explainer = cx.BayesLIME(model, cx.Tabular(table, bins=None), posterior="gp")
        e = explainer.explain(x, queries=60, seed=seed)
        assert np.abs(e.mean).max() < 3  # standard deviation of the outputs: 1
        width = e.interval().width
        assert width[2] > 2  # infinite if no step was large enough
        assert width[2] < 50 or "not measured" in str(e)
        assert (width[:2] < 3).all()
