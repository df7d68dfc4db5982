"""Sparse polynomials of odd order: found exactly, and not found in noise."""

import numpy as np
import pytest

from credex.designs.coalitions import ShapleySequence
from credex.posteriors.odd_polynomial import OddPolynomial


def units(d, n, seed=0):
    return ShapleySequence(d, seed, paired=True).units(0, n)


def polynomial(d, terms, seed):
    """Half differences with these terms beside all single players, and their Shapley values."""
    rng = np.random.default_rng(seed)
    terms = [(j,) for j in range(d)] + list(terms)
    w = rng.normal(size=len(terms))
    phi = np.zeros(d)
    for term, x in zip(terms, w, strict=True):
        phi[list(term)] += 2 * x / len(term)

    def g(masks):
        s = 2.0 * masks - 1
        return sum(x * s[:, list(t)].prod(axis=1) for t, x in zip(terms, w, strict=True))

    return g, phi


@pytest.mark.parametrize("d", [12, 40])
def test_terms_of_order_three_are_found_exactly(d):
    rng = np.random.default_rng(d)
    terms = {tuple(sorted(rng.choice(d, 3, replace=False).tolist())) for _ in range(4)}
    g, phi = polynomial(d, terms, d)
    masks = units(d, 400)
    p = OddPolynomial.fit(masks, g(masks))
    new = np.random.default_rng(1).random((50, d)) < 0.5
    assert terms <= set(p.terms)
    np.testing.assert_allclose(p.predict(new), g(new), atol=1e-10)
    np.testing.assert_allclose(p.shapley, phi, atol=1e-10)


def test_higher_orders_grow_from_what_they_contain():
    """A rule of six players has products of all orders; those of order three lead to order five."""
    d = 14
    masks = units(d, 1200)

    def g(z):
        return (z[:, :6].all(axis=1) * 1.0 - (~z[:, :6]).all(axis=1)) / 2

    p = OddPolynomial.fit(masks, g(masks))
    assert max(map(len, p.terms)) == 5
    new = np.random.default_rng(1).random((500, d)) < 0.5
    np.testing.assert_allclose(p.predict(new), g(new), atol=1e-10)
    phi = p.shapley + (1 - p.shapley.sum()) / d
    np.testing.assert_allclose(phi, np.where(np.arange(d) < 6, 1 / 6, 0), atol=1e-10)


def test_sizes_are_free():
    """A game of the size alone takes no terms."""
    masks = units(9, 100)
    size = masks.sum(axis=1) - 4.5
    p = OddPolynomial.fit(masks, size**5)
    assert p.terms == ()
    np.testing.assert_allclose(p.predict(masks), size**5, atol=1e-9)
    assert np.ptp(p.shapley) < 1e-9


def test_noise_has_no_terms():
    """40 samples, 0.27 terms each (sd 0.53, in 400 samples): false alarms below 1e-9."""
    masks = units(12, 500)
    rng = np.random.default_rng(0)
    found = [len(OddPolynomial.fit(masks, rng.normal(size=500)).terms) for _ in range(40)]
    assert np.mean(found) < 0.8


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_outputs_may_exceed_single_precision(scale):
    g, phi = polynomial(12, {(1, 4, 7)}, 3)
    masks = units(12, 300)
    p = OddPolynomial.fit(masks, scale * g(masks))
    np.testing.assert_allclose(p.shapley / scale, phi, atol=1e-10)
