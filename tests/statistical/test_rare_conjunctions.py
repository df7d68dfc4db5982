"""Models that make a fitted kernel sure of a rule it saw by accident."""

import numpy as np
import pytest

import credex as cx
from benchmarks.games import all_masks, exact_shapley, index_of

D = 10
LEAST = 0.88
"""Cross-fitted intervals cover 0.90 to 0.99, those whose kernels judged rows that they had been
fitted to 0.73 to 0.88."""


def conjunction(rng, size):
    """Additive, and twice as much again where ``size`` features have one pattern: (2^D,)."""
    Z = all_masks(D)
    chosen, pattern = rng.choice(D, size, replace=False), rng.random(size) < 0.5
    return Z @ rng.normal(size=D) + 2.0 * np.all(Z[:, chosen] == pattern, axis=1)


def vote(rng):
    """Weighted votes, and a hundredth of an additive part: (2^D,)."""
    Z = all_masks(D)
    w = rng.exponential(size=D)
    return 1.0 * (Z @ w > rng.uniform(0.3, 0.7) * w.sum()) + 0.01 * (Z @ rng.normal(size=D))


def coverage(tables, sampler):
    """Share of values inside 95 % intervals after 100 queries."""
    hits = []
    for seed, v in enumerate(tables):
        e = cx.BayesSHAP(
            lambda z, v=v: v[index_of(z)], cx.Masks(D), posterior="gp", sampler=sampler
        ).explain(queries=100, seed=seed)
        hits.append(e.interval().covers(exact_shapley(v)).mean())
    return float(np.mean(hits))


@pytest.mark.parametrize("sampler", ["random", "paired", "focused"])
def test_rare_conjunctions_are_not_taken_for_granted(sampler):
    rng = np.random.default_rng(0)
    tables = [conjunction(rng, size) for size in (5, 6) for _ in range(15)]
    assert coverage(tables, sampler) > LEAST


@pytest.mark.parametrize("sampler", ["random", "paired", "focused"])
def test_no_run_stops_sure_and_wrong(sampler):
    """Two of 35 random runs did when only unequal errors counted as few; none of 105 does now."""
    rng = np.random.default_rng(2)
    for seed in range(24):
        v = conjunction(rng, 4 + seed % 3)
        phi = exact_shapley(v)
        e = cx.BayesSHAP(
            lambda z, v=v: v[index_of(z)], cx.Masks(D), posterior="gp", sampler=sampler
        ).explain(width=np.abs(phi).mean(), seed=seed)
        assert not e.converged or np.all(np.abs(e.mean - phi) <= 3 * e.interval().width)


@pytest.mark.parametrize("sampler", ["paired", "focused"])
def test_what_the_process_fits_without_a_remainder_is_not_certain(sampler):
    """A function of the size is exact; a rule that was not asked was then missed by 300 widths."""
    Z = all_masks(D)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        chosen, pattern = rng.choice(D, 6, replace=False), rng.random(6) < 0.5
        v = 3.0 * np.sqrt(Z.sum(axis=1)) + np.all(Z[:, chosen] == pattern, axis=1)
        e = cx.BayesSHAP(
            lambda z, v=v: v[index_of(z)], cx.Masks(D), posterior="gp", sampler=sampler
        ).explain(queries=100, seed=seed)
        assert np.all(np.abs(e.mean - exact_shapley(v)) <= 2 * e.interval().width)


@pytest.mark.parametrize("sampler", ["paired", "focused"])
def test_votes_with_a_small_smooth_part_are_votes(sampler):
    rng = np.random.default_rng(1)
    tables = [vote(rng) for _ in range(30)]
    assert coverage(tables, sampler) > LEAST
