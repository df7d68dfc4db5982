"""Games (functions of masks) with exact answers, for tests of the statistical core."""

from itertools import permutations

import numpy as np


def table_game(table):
    """A game from its 2^d values; bit j of the index is player j."""
    d = int(np.log2(len(table)))
    powers = 1 << np.arange(d)

    def v(masks):
        return np.asarray(table)[masks @ powers]

    return v


def random_game(d, seed, k=None):
    """Values drawn at random: every interaction is there."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=2**d if k is None else (2**d, k))


def smooth_game(d, seed, curvature=1.0):
    """A saturating sum plus some interactions: what models look like."""
    rng = np.random.default_rng(seed)
    masks = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(float)
    w = rng.normal(size=d) / np.sqrt(d)
    pairs = rng.normal(size=(d, d)) / d
    raw = masks @ w + curvature * np.einsum("ni,ij,nj->n", masks, pairs, masks)
    return np.tanh(2 * raw)


def brute_shapley(table):
    """Shapley values by walking through all orders of the players (d ≤ 8)."""
    d = int(np.log2(len(table)))
    phi = np.zeros(d)
    orders = list(permutations(range(d)))
    for order in orders:
        mask = 0
        for player in order:
            phi[player] += table[mask | 1 << player] - table[mask]
            mask |= 1 << player
    return phi / len(orders)


def shapley(table):
    """Shapley values by the subset formula."""
    from math import factorial

    table = np.asarray(table)
    d = int(np.log2(len(table)))
    index = np.arange(2**d)
    size = np.array([int(i).bit_count() for i in index])
    weight = [factorial(s) * factorial(d - s - 1) / factorial(d) for s in range(d)]
    phi = []
    for j in range(d):
        without = index[(index >> j) & 1 == 0]
        w = np.array(weight)[size[without]]
        phi.append((w * (table[without | 1 << j] - table[without]).T).T.sum(axis=0))
    return np.array(phi)
