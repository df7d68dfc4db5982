"""Rows left out, alone and with their neighbours."""

import numpy as np
import pytest

import credex as cx
from credex.posteriors.geometry import Geometry
from credex.posteriors.held_out import block_scale, left_out
from credex.posteriors.shapley import ShapleyPosterior, sandwich_total
from credex.sequences import ShapleySequence
from tests.games import shapley, table_game


@pytest.fixture
def rows():
    """Covariance of 21 rows on a line, whitened outputs, and L^-1."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 4, size=21)
    K = np.exp(-((x[:, None] - x) ** 2)) + 0.01 * np.eye(21)
    y = np.column_stack([np.sin(x), rng.normal(size=21)])
    inverse = np.linalg.inv(np.linalg.cholesky(K))
    return x, K, y, inverse


def predicted(K, y, i, without):
    """Mean and variance of row i given all rows but ``without``."""
    rest = np.setdiff1d(np.arange(len(K)), without)
    k = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
    return k @ y[rest], K[i, i] - k @ K[rest, i]


def test_left_out_equals_refitting(rows):
    _, K, y, inverse = rows
    r, v = left_out(inverse, inverse @ y)
    for i in range(len(K)):
        mean, variance = predicted(K, y, i, [i])
        np.testing.assert_allclose(r[i], y[i] - mean, atol=1e-9)
        np.testing.assert_allclose(v[i], variance, atol=1e-9)


def test_blocks_equal_refitting_without_the_neighbours(rows):
    x, K, y, inverse = rows
    distance = np.abs(x[:, None] - x)
    expected = []
    for i in range(1, 21):
        order = np.argsort(np.where(np.arange(21) == 0, np.inf, distance[i]), kind="stable")
        mean, variance = predicted(K, y, i, order[:4])  # 20 rows but the first, a fifth of them
        expected.append((y[i] - mean) ** 2 / variance)
    found = block_scale(inverse, inverse @ y, distance, 1)
    np.testing.assert_allclose(found, np.mean(expected, axis=0), rtol=1e-6)


def test_copies_flatter_one_by_one_but_not_in_blocks():
    """Rows in copies of five: each is known from the others until all five are left out."""
    rng = np.random.default_rng(1)
    which = np.repeat(np.arange(6), 5)
    K = np.where(which[:, None] == which, 1.0, 0.0) + 1e-4 * np.eye(30)
    y = rng.normal(size=6)[which][:, None] * 30
    inverse = np.linalg.inv(np.linalg.cholesky(K))
    r, v = left_out(inverse, inverse @ y)
    assert np.mean(r[:, 0] ** 2 / v) < 0.01
    assert block_scale(inverse, inverse @ y, 2 - 2 * K, 0)[0] > 100


@pytest.mark.parametrize("paired", [True, False])
def test_sandwich_of_left_out_residuals_is_that_of_the_regression(paired):
    d = 6
    masks = ShapleySequence(d, 3, paired=paired).units(0, 20)
    r = np.random.default_rng(2).normal(size=(20, 2))
    g = Geometry.of(masks, paired=paired, uniform=True)
    free = np.sqrt(1 - g.leverage)[:, None] if paired else 1.0
    expected = []
    for j in range(2):
        z = (masks - 0.5) * (g.rows * g.weights * np.sqrt(g.thinning))[:, None] * (r / free)[:, [j]]
        expected.append(np.trace(g.v @ z.T @ z @ g.v))
    np.testing.assert_allclose(sandwich_total(masks, r, paired=paired), expected)
    y = np.zeros((20, 2))
    own = ShapleyPosterior(g, y, y if paired else None, np.zeros(2), np.zeros(2))
    assert own.mean.shape == (d, 2)


@pytest.mark.parametrize(("sampler", "worst"), [("paired", 2.0), ("random", 1.0)])
def test_a_parity_of_a_few_players_is_not_believed_too_early(sampler, worst):
    """Five of twelve players matter, by their parity: patterns never asked are not known.

    Left out one by one the rows say that everything is known: errors up to 27 and 6 widths.
    """
    d = 12
    every = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)
    for seed in range(12):
        some = np.random.default_rng(seed).choice(d, size=5, replace=False)
        table = np.where(every[:, some].sum(axis=1) % 2 == 1, 1.0, -1.0)
        ex = cx.BayesSHAP(table_game(table), cx.Masks(d), posterior="gp", sampler=sampler)
        e = ex.explain(queries=100, seed=seed)
        assert np.max(np.abs(e.mean - shapley(table)) / e.interval().width) < worst
