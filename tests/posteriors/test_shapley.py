"""Shapley posteriors: exact where everything is known, adding up always."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import credex as cx
from credex import history as rows
from credex.designs.coalitions import ShapleySequence, shapley_kernel
from credex.designs.perturbations import all_masks
from credex.posteriors import ExactPosterior, ShapleyPosterior
from credex.posteriors.shapley import Geometry, Noise, strata
from tests.games import brute_shapley, random_game, shapley, smooth_game, table_game


@pytest.mark.parametrize("d", range(1, 8))
def test_exhaustive_equals_brute_force(d):
    table = random_game(d, d)
    e = cx.BayesSHAP(table_game(table), cx.Masks(d)).explain(queries=2**d)
    np.testing.assert_allclose(e.mean, brute_shapley(table), atol=1e-9)
    assert e.exact
    assert e.converged
    assert e.stop_reason == "exact"
    np.testing.assert_array_equal(e.interval().width, 0)
    assert e.n_queries == 2**d


@pytest.mark.parametrize("d", [8, 9, 10])
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_exhaustive_equals_the_formula_up_to_ten(d, scale):
    table = scale * random_game(d, d) + 3 * scale
    e = cx.BayesSHAP(table_game(table), cx.Masks(d), posterior="exact").explain()
    np.testing.assert_allclose(e.mean, shapley(table), atol=1e-9 * scale)


@pytest.mark.parametrize("sampler", ["random", "paired", cx.PaperFocused(30, 10, 60)])
def test_the_regression_on_all_coalitions_is_exact(sampler):
    """Weights, constraint and design together aim at the Shapley value, not near it."""
    table = random_game(6, 0)
    ex = cx.BayesSHAP(table_game(table), cx.Masks(6), sampler=sampler)
    e = ex.explain(queries=64)
    np.testing.assert_allclose(e.mean, shapley(table), atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    d=st.integers(2, 9),
    sampler=st.sampled_from(["random", "paired", cx.PaperFocused(10, 5, 20)]),
    extra=st.integers(0, 60),
    scale=st.sampled_from([1e-9, 1.0, 1e6]),
)
def test_importances_add_up(seed, d, sampler, extra, scale):
    table = scale * (random_game(d, seed) + 5)
    ex = cx.BayesSHAP(table_game(table), cx.Masks(d), sampler=sampler)
    e = ex.explain(queries=min(2 * d + 5 + extra, 2**d), seed=seed)
    gap = e.mean.sum() - (table[-1] - table[0])
    assert abs(gap) <= 1e-9 * max(1.0, abs(table[-1]), abs(table[0]))
    assert e.n_queries <= min(2 * d + 5 + extra, 2**d)


def test_pairs_are_blind_to_even_interactions():
    """A game of main effects and pairwise interactions is solved by any d pairs or more."""
    rng = np.random.default_rng(0)
    d = 10
    z = all_masks(d).astype(float)
    table = z @ rng.normal(size=d) + np.einsum("ni,ij,nj->n", z, rng.normal(size=(d, d)), z)
    e = cx.BayesSHAP(table_game(table), cx.Masks(d)).explain(queries=80)
    np.testing.assert_allclose(e.mean, shapley(table), atol=1e-8)
    assert np.all(e.interval().width > 1e-3)  # an odd interaction may not have been asked


def test_an_additive_game_is_known_at_once():
    d = 12
    beta = np.arange(d) - 3.0
    e = cx.BayesSHAP(lambda m: m @ beta + 2.0, cx.Masks(d)).explain(queries=60)
    np.testing.assert_allclose(e.mean, beta, atol=1e-9)
    assert e.r2 == pytest.approx(1.0)
    assert e.base_value == 2.0


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("d", [2, 3, 5, 8, 9])
def test_sequences_hold_every_coalition_once(d, paired):
    s = ShapleySequence(d, 3, paired=paired)
    z = s.units(0, 2**d)
    assert len(z) == s.capacity
    z = np.concatenate([z, ~z]) if paired else z
    codes = np.sort(z @ (1 << np.arange(d)))
    np.testing.assert_array_equal(codes, np.arange(1, 2**d - 1))


@pytest.mark.parametrize("d", [6, 20, 70])
def test_sequences_do_not_depend_on_how_they_are_read(d):
    whole = ShapleySequence(d, 5, paired=True).units(0, 25)
    s = ShapleySequence(d, 5, paired=True)
    pieces = [s.units(a, b) for a, b in ((0, 1), (1, 4), (4, 5), (5, 17), (17, 25))]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    assert not np.array_equal(ShapleySequence(d, 6, paired=True).units(0, 25), whole)


@pytest.mark.parametrize(("d", "paired"), [(9, True), (12, True), (16, False)])
def test_sequences_are_the_same_when_sizes_run_out_between_two_reads(d, paired):
    most = 2 ** (d - 1) - 1 if paired else 2**d - 2
    whole = ShapleySequence(d, 5, paired=paired).units(0, most)
    s = ShapleySequence(d, 5, paired=paired)
    pieces = [s.units(a, a + 37) for a in range(0, most, 37)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    assert len(np.unique(whole, axis=0)) == most


@pytest.mark.parametrize(("even", "paired"), [(True, True), (True, False), (False, True)])
def test_sizes_take_equal_turns_or_follow_the_shapley_distribution(even, paired):
    d, n = 30, 20_000
    z = ShapleySequence(d, 0, paired=paired, even=even).units(0, n)
    layers = strata(d, paired=paired)
    seen = np.bincount(layers.index(z), minlength=len(layers.count))
    due = (layers.turns if even else layers.mass) * n
    open_ = seen < layers.count
    ratio = seen[open_] / due[open_]
    assert np.ptp(ratio) < 0.02 * ratio.mean()  # proportional among the sizes not yet full
    assert seen[0] == d  # all singletons are in long before


def test_equal_turns_count_sizes_and_not_strata():
    """A pair of sizes 2 and 4 stands for two sizes of six, a pair of size 3 for one."""
    np.testing.assert_allclose(strata(6, paired=True).turns, [0.4, 0.4, 0.2])
    np.testing.assert_allclose(strata(6, paired=False).turns, np.full(5, 0.2))


def test_equal_turns_need_fewer_queries_of_many_features():
    """Products of three of 40 features: the Shapley kernel spends most draws on the ends."""
    d, errors = 40, {True: [], False: []}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        terms, size = (
            rng.permuted(np.tile(np.arange(d), (60, 1)), axis=1)[:, :3],
            rng.normal(size=60),
        )
        total = np.array([size.sum()])
        phi = np.bincount(terms.ravel(), np.repeat(size, 3), minlength=d) / 3
        for even, off in errors.items():
            z = ShapleySequence(d, seed, paired=True, even=even).units(0, 120)
            values = [half[:, terms].all(axis=2) @ size[:, None] for half in (z, ~z)]
            g = Geometry.of(z, paired=True, uniform=True)
            off.append(ShapleyPosterior(g, *values, np.zeros(1), total).mean[:, 0] - phi)
    assert np.mean(np.square(errors[True])) < 0.85 * np.mean(np.square(errors[False]))


def test_every_feature_is_in_half_of_the_masks_of_a_layer():
    """Uniform within a size: each feature equally often (χ² with 29 dof, false alarm 1e-6)."""
    d = 30
    z = ShapleySequence(d, 1, paired=True).units(0, 6000)
    z = z[z.sum(axis=1) == 5]
    expected = len(z) * 5 / d
    chi2 = np.sum((z.sum(axis=0) - expected) ** 2) / (expected * (1 - 5 / d))
    assert chi2 < 85


def test_kernel_and_strata_agree():
    d = 9
    kernel = shapley_kernel(np.arange(1, d), d)
    mass = strata(d, paired=False)
    np.testing.assert_allclose(mass.mass, kernel * mass.count / (kernel * mass.count).sum())


def test_outputs_share_one_factorisation():
    tables = np.stack([smooth_game(8, s) for s in range(3)], axis=1)
    v = lambda m: tables[m @ (1 << np.arange(8))]  # noqa: E731
    e = cx.BayesSHAP(v, cx.Masks(8)).explain(queries=90)
    assert e.mean.shape == (8, 3)
    for j in range(3):
        one = cx.BayesSHAP(v, cx.Masks(8), target=j).explain(queries=90)
        np.testing.assert_allclose(e.mean[:, j], one.mean, atol=1e-12)
        np.testing.assert_allclose(e.interval().width[:, j], one.interval().width, atol=1e-12)


def test_exact_needs_all_coalitions():
    with pytest.raises(cx.InputError, match="needs all 8"):
        ExactPosterior.shapley(all_masks(3)[:5], np.ones((5, 1)))


@pytest.mark.parametrize("paired", [True, False])
def test_intervals_are_hc2_with_satterthwaites_degrees_written_out(paired):
    """Misfits as e²/(1−h), and fewer degrees where a few units decide a variance."""
    d, m = 6, 18
    rng = np.random.default_rng(3)
    masks = ShapleySequence(d, 4, paired=paired).units(0, m)
    y = rng.normal(size=(m, 1))
    other = rng.normal(size=(m, 1)) if paired else None
    g = Geometry.of(masks, paired=paired, uniform=True)
    p = ShapleyPosterior(g, y, other, np.zeros(1), np.ones(1))
    z, w = masks - 0.5, (2.0 if paired else 1.0) * g.weights
    h = w * np.einsum("ij,jk,ik->i", z, g.v, z)
    np.testing.assert_allclose(g.leverage, h)
    e2, fpc = p.residual[:, 0] ** 2, g.finite_population_correction
    score = z @ g.v
    meat = (score * (w**2 * fpc * e2 / (1 - h))[:, None]).T @ score
    spare = m - h.sum()
    homoscedastic = g.v * (w @ e2 / spare * fpc.mean() / spare**2)
    np.testing.assert_allclose(p.scale_matrix[:, :, 0], meat + homoscedastic, rtol=1e-6)
    share = score**2 * (g.weights * fpc)[:, None]
    effective = np.mean(share.sum(0) ** 2 / (share**2).sum(0)) / m
    assert 1 / m < effective < 1
    assert p.dof == pytest.approx(spare * effective)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("precision", [0.0, 0.5])
@pytest.mark.parametrize("noisy", [True, False])
def test_a_posterior_does_not_depend_on_how_masks_are_cut(paired, precision, noisy, monkeypatch):
    d, k = 7, 2
    rng = np.random.default_rng(1)
    masks = ShapleySequence(d, 4, paired=paired).units(0, 400)
    masks = np.concatenate([masks] * 8)
    m = len(masks)
    y, other = rng.normal(size=(m, k)), rng.normal(size=(m, k)) if paired else None
    noise = Noise(np.array([0.1, 0.2]), 5.0, np.ones(m), 4) if noisy else None

    def fitted():
        prior = cx.Prior(precision=precision)
        g = Geometry.of(masks, paired=paired, uniform=False, prior=prior)
        p = ShapleyPosterior(g, y, other, np.zeros(k), np.ones(k), noise)
        return p.mean, p.scale_matrix, np.asarray(p.dof), p.r2, p.error.scale

    whole = fitted()
    monkeypatch.setattr(rows, "CHUNK_BYTES", 1)  # 256 rows at a time
    for a, b in zip(whole, fitted(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1e-70, 1e70])
@pytest.mark.parametrize("noisy", [True, False])
def test_huge_and_tiny_outputs_are_in_proportion(size, noisy):
    """The largest that a model may return is 1e70: fourth powers must not overflow."""
    rng = np.random.default_rng(1)
    masks = ShapleySequence(6, 4, paired=True).units(0, 20)
    g = Geometry.of(masks, paired=True, uniform=True, prior=cx.Prior(n0=0.0, precision=0.5))
    y, other, base, total = (rng.normal(size=s) for s in [(20, 2), (20, 2), 2, 2])

    def fitted(s):
        noise = Noise(np.array([0.1, 0.2]) * s * s, 5.0, np.ones(20), 4) if noisy else None
        return ShapleyPosterior(g, y * s, other * s, base * s, total * s, noise)

    a, b = fitted(1.0), fitted(size)
    np.testing.assert_allclose(b.mean / size, a.mean, rtol=1e-9)
    np.testing.assert_allclose(b.scale_matrix / size / size, a.scale_matrix, rtol=1e-9)
    np.testing.assert_allclose(b.error.scale / size, a.error.scale, rtol=1e-9)
    np.testing.assert_allclose(b.r2, a.r2, rtol=1e-9)
    assert b.dof == pytest.approx(a.dof)
    table = random_game(5, 0)[:, None]
    a, b = (ExactPosterior.shapley(all_masks(5), table * s) for s in (1.0, size))
    np.testing.assert_allclose(b.mean / size, a.mean, rtol=1e-9)
    np.testing.assert_allclose(b.error.scale / size, a.error.scale, rtol=1e-9)
    np.testing.assert_allclose(b.r2, a.r2, rtol=1e-9)


@pytest.mark.parametrize(
    ("d", "paired", "n", "even", "kernel"),
    [
        (5, True, 15, "82df930397f9c7c6", "8c1a0e01dae4bed7"),
        (12, True, 499, "e1e65dd57de94fd2", "92182e83e092656c"),
        (12, False, 2000, "cb212d74a62c4429", "d58fb7e40e479492"),
        (20, True, 2000, "c99db14deb558787", "f58f639083bcae8d"),
        (21, False, 600, "2ab115d73b954700", "68e03be0e6821405"),
        (50, True, 500, "a319549ae6a9dc67", "bc30967ac27d22fb"),
        (100, True, 300, "704a8d78ca358195", "e4f1fd183d4b1621"),
    ],
)
def test_the_masks_of_a_seed_never_change(d, paired, n, even, kernel):
    """Figures in the documentation rest on them."""
    for turns, digest in ((True, even), (False, kernel)):
        masks = ShapleySequence(d, 5, paired=paired, even=turns).units(0, n)
        assert hashlib.sha256(np.packbits(masks).tobytes()).hexdigest()[:16] == digest


def test_no_remainder_of_few_units_is_no_certainty():
    """A product of three players does not show in most pairs: few of them may miss it."""
    rng = np.random.default_rng(0)
    d, hits, widths = 6, [], []
    for seed in range(60):
        a, b, c = rng.normal(size=d), *rng.normal(size=2)

        def v(m, a=a, b=b, c=c):
            return m @ a + 2 * b * m[:, 0] * m[:, 1] + 3 * c * m[:, 1] * m[:, 2] * m[:, 3]

        ex = cx.BayesSHAP(v, cx.Masks(d), posterior="linear")
        truth = ex.explain(queries=2**d).mean
        i = ex.explain(queries=2 * d + 7, seed=seed).interval()
        hits.append(i.covers(truth))
        widths.append(i.width.max())
    assert np.mean(hits) > 0.93, np.mean(hits)  # 0.87 without
    assert min(widths) > 1e-3
    additive = cx.BayesSHAP(lambda m: m @ np.arange(1.0, 11.0), cx.Masks(10), posterior="linear")
    few, many = (additive.explain(queries=n).interval().width.max() for n in (50, 500))
    assert 0.01 < many < few / 5  # half an observation in more and more


def with_conjunction(k, seed, d=10):
    """Additive, and something else where k of ten players are just so, which few pairs show."""
    rng = np.random.default_rng(seed)
    a, players = rng.normal(size=d), rng.choice(d, k, replace=False)
    signs, size = rng.random(k) < 0.5, rng.uniform(1, 3)
    return lambda m: m @ a + size * (m[:, players] == signs).all(axis=1)


@pytest.mark.parametrize("k", [5, 6])
def test_a_conjunction_that_was_not_asked_is_never_a_surprise(k):
    d, hits, wrong = 10, [], 0
    for seed in range(40):
        ex = cx.BayesSHAP(with_conjunction(k, seed), cx.Masks(d), posterior="linear")
        truth = ex.explain(queries=2**d).mean
        hits.append(ex.explain(queries=50, seed=seed).interval().covers(truth).mean())
        e = ex.explain(width=0.2 * np.abs(truth).max(), seed=seed)
        far = np.abs(e.mean - truth) > 3.5 * e.interval().width
        wrong += bool(e.converged and far.any())
    assert np.mean(hits) > 0.95, np.mean(hits)  # 0.82 and 0.61 without
    assert wrong == 0  # 11 and 19 without


@pytest.mark.parametrize("sampler", ["focused", "paired"])
def test_nor_for_the_process(sampler):
    """Two or three pairs that show it let the process fit all others, too, and be wrong."""
    d, hits, wrong = 10, [], 0
    for seed in range(30):
        v = with_conjunction(6, seed)
        truth = cx.BayesSHAP(v, cx.Masks(d)).explain(queries=2**d).mean
        ex = cx.BayesSHAP(v, cx.Masks(d), posterior="gp", sampler=sampler)
        e = ex.explain(width=0.2 * np.abs(truth).max(), seed=seed)
        hits.append(e.interval().covers(truth).mean())
        wrong += bool(np.any(np.abs(e.mean - truth) > 3.5 * e.interval().width))
    assert np.mean(hits) > 0.8, np.mean(hits)
    assert wrong <= 1, wrong  # 5 of 30 without
