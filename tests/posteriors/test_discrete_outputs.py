"""Outputs that take few values: found out, and never believed by accident."""

import numpy as np
import pytest

import credex as cx
from credex.designs.perturbations import all_masks
from credex.posteriors.discrete_outputs import DiscreteOutputs, repeats
from credex.posteriors.student import dof_factor, quantile
from tests.games import shapley, smooth_game, table_game


def ones(n):
    return np.ones((n, 1))


def votes(d, seed):
    """Weighted votes: 1 if more than half of the weight is in, a few players carry most of it."""
    weights = np.random.default_rng(seed).pareto(1.5, d) + 0.2
    return (all_masks(d) @ weights > weights.sum() / 2).astype(float)


def test_repeats_counts_equal_pairs():
    assert repeats(np.array([1.0, 2.0, 1.0, 1.0, 2.0]), 1.0) == pytest.approx(4 / 10)
    assert repeats(np.array([0.0, 1e-8, 1.0]), 1.0) == pytest.approx(1 / 3)
    assert repeats(np.array([0.0, 1e-3, 1.0]), 1.0) == 0.0  # of ones there is only one
    assert repeats(np.array([0.0, 1e-3, 1.0, 0.99]), 1.0) == pytest.approx(2 / 6)
    assert repeats(np.array([0.0, 1e-3, 1.0, 0.9, 0.8, 0.6]), 1.0) == 0.0  # ones that differ
    assert repeats(np.array([3.0]), 1.0) == 0.0


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e6])
def test_labels_are_discrete_and_real_values_are_not(scale):
    rng = np.random.default_rng(0)
    labels, counts = rng.integers(0, 2, (60, 1)), rng.integers(0, 6, (60, 1))
    real = rng.normal(size=(60, 2))
    assert DiscreteOutputs.of(scale * labels, ones(60)).degree > 0.9
    assert 0.05 < DiscreteOutputs.of(scale * counts, ones(60)).degree < 0.5
    assert DiscreteOutputs.of(scale * real, ones(60)) == DiscreteOutputs(0.0, 0.0)
    both = np.hstack([real, labels])
    assert DiscreteOutputs.of(scale * both, ones(60)).degree > 0.9  # one discrete output is enough


def test_rare_probabilities_are_no_labels():
    """Most are next to nothing and a few are not, but no two are the same."""
    z = all_masks(10)
    w = np.abs(np.random.default_rng(0).normal(size=10)) * 2
    p = 1 / (1 + np.exp(-(z @ w - 0.75 * w.sum())))
    assert DiscreteOutputs.of(p[::7, None], ones(len(p[::7]))).degree == 0.0
    e = cx.BayesSHAP(table_game(p), cx.Masks(10), posterior="gp", sampler="random")
    # a third: few masks show what the process knows, which limits what it may claim
    assert e.explain(queries=120).interval().width.mean() < 0.5 * np.abs(shapley(p)).mean()


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize("other", [np.zeros, lambda n: np.arange(n) % 2])
def test_a_constant_or_discrete_output_hardly_widens_another(method, other):
    table = smooth_game(10, 2)
    both = np.column_stack([table, other(len(table))])
    options = {"posterior": "gp", "sampler": "random"}
    one = method(table_game(table), cx.Masks(10), **options).explain(queries=120)
    two = method(table_game(both), cx.Masks(10), **options).explain(queries=120)
    limit = 1.01 if other is np.zeros else 4  # a kernel is shared, so labels do change it
    assert (two.sd[:, 0] <= limit * one.sd).all()


@pytest.mark.parametrize("sampler", ["focused", "paired", "random"])
@pytest.mark.parametrize("smooth", [1e-5, 1e-2])
def test_votes_with_a_small_smooth_part_are_votes(sampler, smooth):
    """Intervals covered 0.35 to 0.72 while only outputs that repeat exactly were labels."""
    hits = []
    for g in range(6):
        rng = np.random.default_rng(g)
        weights = rng.exponential(size=10)
        v = (all_masks(10) @ weights > weights.sum() / 2) + smooth * all_masks(10) @ rng.normal(
            size=10
        )
        explainer = cx.BayesSHAP(table_game(v), cx.Masks(10), posterior="gp", sampler=sampler)
        runs = (explainer.explain(queries=100, seed=s) for s in range(5))
        hits += [e.interval().covers(shapley(v)).mean() for e in runs]
    assert np.mean(hits) >= 0.8


def test_an_additive_game_is_white_by_half_a_row_only():
    """Nothing is accidental about a game that d + 1 numbers describe, but a row may differ."""
    masks = all_masks(6).astype(float)
    design = np.column_stack([np.ones(64), masks])
    additive = DiscreteOutputs.of(masks[:, :1] * 2 - 1, design)
    assert additive.white == pytest.approx(0.3 * additive.degree * 0.5 / 65)
    assert DiscreteOutputs.of(masks[:, :1] * masks[:, 1:2], design).white > 0.05


def test_white_comes_and_goes():
    discrete, shares = DiscreteOutputs(1.0, 0.2), np.array([0.5, 1.0, 0.5])
    logs = np.log([2.0, 1.0, 0.4, 1e-3])
    more = discrete.add_white(logs, shares)
    assert np.exp(more[-1]) == pytest.approx(1e-3 + 0.2 * 2.2)
    np.testing.assert_allclose(discrete.without_white(more, shares), logs)
    np.testing.assert_allclose(DiscreteOutputs(0.0, 0.0).add_white(logs, shares), logs)


@pytest.mark.parametrize("sampler", ["random", "paired", "focused"])
def test_votes_are_not_taken_for_a_rule_of_a_few_players(sampler):
    """95 % intervals held 0.41 to 0.64 of such values when kernels could fit them by accident."""
    inside = []
    for seed in range(14):
        table = votes(11, 700 + seed)
        truth = shapley(table)
        explainer = cx.BayesSHAP(table_game(table), cx.Masks(11), posterior="gp", sampler=sampler)
        e = explainer.explain(queries=100, seed=seed)
        inside.append(e.interval().covers(truth).mean())
    assert np.mean(inside) >= 0.88


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_counts_that_are_additive_as_far_as_was_asked_are_not_certain(method):
    """Left gloves that find a right one: additive unless hardly any right one is there."""
    z = all_masks(11)
    table = np.minimum(z[:, :2].sum(1), z[:, 2:].sum(1)).astype(float)
    e = method(table_game(table), cx.Masks(11), posterior="gp").explain(queries=100, seed=3)
    whole = method(table_game(table), cx.Masks(11), posterior="linear").explain(queries=2**11)
    error = np.abs(e.mean - whole.mean)
    assert (error <= 2 * e.interval().width).all()
    assert (e.interval().width > 1e-4).all()


def test_a_parity_of_all_players_is_still_known_from_its_sizes():
    table = np.where(all_masks(9).sum(1) % 2 == 1, 1.0, -1.0)
    e = cx.BayesSHAP(table_game(table), cx.Masks(9), posterior="gp").explain(queries=80)
    np.testing.assert_allclose(e.mean, shapley(table), atol=1e-3)


def test_heavier_tails_keep_the_95_percent_interval():
    for dof in (3.5, 6.0, 10.0):
        after = quantile(0.95, 4.0) * np.sqrt(dof_factor(dof, 4.0))
        assert after == pytest.approx(quantile(0.95, dof))
