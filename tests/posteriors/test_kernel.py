"""The kernel over masks and table rows."""

import numpy as np
import pytest

from credex.designs.perturbations import all_masks
from credex.posteriors.kernel import Inputs, Kernel, by_size, safe_cholesky, solve_lower


def kernel(p, *, bends=True, **options):
    rng = np.random.default_rng(p)
    b = rng.normal(size=p)
    direction = b / np.linalg.norm(b) if bends else None
    return Kernel(rng.normal(size=p) - 1, 0.2, rng.normal(size=4), direction, **options)


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("ease", [None, np.arange(1.0, 6)])
def test_diagonal_symmetry_and_definiteness(odd, ease):
    k, masks = kernel(5, odd=odd, ease=ease), Inputs.of_masks(all_masks(5))
    K = k.gram(masks)
    np.testing.assert_allclose(K, K.T)
    np.testing.assert_allclose(np.diag(K), k.diagonal(masks))
    assert np.linalg.eigvalsh(k.gram(masks, masks)).min() > -1e-9


def test_half_differences_of_complements_are_opposite():
    k, s = kernel(5, odd=True), Inputs.of_masks(all_masks(5))
    np.testing.assert_allclose(k.gram(s, s), -k.gram(s, Inputs(-s.z)), atol=1e-12)


def test_an_odd_kernel_is_that_of_half_differences():
    """Product and linear part: cov of [v(s) - v(-s)]/2 under the plain kernel."""
    plain, odd = kernel(5), kernel(5, odd=True)
    a = Inputs.of_masks(all_masks(5))
    half = (plain.product(a, a) - plain.product(a, Inputs(-a.z))) / 2
    np.testing.assert_allclose(odd.product(a, a), half, atol=1e-12)


def test_masks_and_the_same_coordinates_agree():
    k = kernel(5, bends=False)
    a = Inputs.of_masks(all_masks(5))
    np.testing.assert_allclose(k.gram(Inputs(a.z, a.z)), k.gram(a), rtol=1e-12)


@pytest.mark.parametrize("bends", [False, True])
def test_factors_sum_to_the_product_part(bends):
    k, a = kernel(5, bends=bends), Inputs.of_masks(all_masks(5))
    found = np.zeros((32, 32))
    for beta, e in k.factors():
        s, t = a.on[:, None], a.on[None]
        found += beta * np.where(s == t, 1, np.where(s, e, np.conj(e))).prod(2).real
    np.testing.assert_allclose(found, k.product(a, a), atol=1e-8)


def test_games_of_the_size_alone():
    s = Inputs.of_masks(all_masks(4)).z
    columns = by_size(s)
    assert columns.shape == (16, 2)
    np.testing.assert_array_equal(columns, -columns[::-1])


def test_cholesky_of_repeated_rows_gets_a_jitter():
    K = np.ones((3, 3))
    L = safe_cholesky(K)
    np.testing.assert_allclose(L @ L.T, K, atol=1e-6)
    np.testing.assert_allclose(solve_lower(L, L), np.eye(3), atol=1e-6)
    np.testing.assert_allclose(solve_lower(L, L.T, transposed=True), np.eye(3), atol=1e-6)
    with pytest.raises(np.linalg.LinAlgError, match="3 rows"):
        safe_cholesky(np.diag([1.0, 1.0, -9.0]))
