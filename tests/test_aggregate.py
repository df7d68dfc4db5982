"""Means over a batch and differences of two explanations: right, and corrected for noise."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import credex as cx
from credex.aggregate import SHARED, aggregate
from credex.averages import holm
from credex.comparison import compare
from credex.deconvolve import Mixture, folded
from credex.posteriors import Belief
from tests.needs import need

GAME = cx.BayesSHAP(lambda m: m @ [4.0, 3.0, 2.0, 1.0], cx.Masks(4)).explain()


def made(mean, sd, dof=1e6, names=None, seed=0):
    mean = np.asarray(mean, dtype=float)
    scale = np.diag(np.broadcast_to(np.square(np.asarray(sd, dtype=float)), len(mean)))[:, :, None]
    estimate = dataclasses.replace(
        GAME.estimate, belief=Belief(mean[:, None], scale, dof), exact=False
    )
    instance = dataclasses.replace(GAME.instance, names=names or GAME.names)
    settings = GAME.settings | {"seed": seed}
    return dataclasses.replace(GAME, estimate=estimate, instance=instance, settings=settings)


def batch_of(mean, sd, *, own_seeds=True):
    sd = np.broadcast_to(sd, np.shape(mean))
    pairs = enumerate(zip(mean, sd, strict=True))
    return [made(m, s, seed=i if own_seeds else 0) for i, (m, s) in pairs]


def test_without_noise_it_is_the_mean():
    phi = np.random.default_rng(0).normal(size=(30, 4))
    a = aggregate(batch_of(phi, 0.0), population="rows")
    np.testing.assert_allclose(a.mean, np.abs(phi).mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(a.lower, a.upper, rtol=1e-6)
    np.testing.assert_allclose(a.signed, phi.mean(axis=0))
    assert a.first.sum() == pytest.approx(1.0)
    assert a.chance.max() == 1.0
    low, high = a.rank_range()
    np.testing.assert_array_equal(low, high)
    part = a.of()
    np.testing.assert_allclose(part.positive.value, (phi > 0).mean(axis=0))
    np.testing.assert_allclose(part.positive.upper, part.positive.lower)


def test_without_noise_a_sample_has_the_interval_of_its_mean():
    phi = np.random.default_rng(0).normal(size=(100, 4))
    a = aggregate(batch_of(phi, 0.0))
    size = np.abs(phi)
    np.testing.assert_allclose(
        a.upper - a.lower, 2 * 1.98 * size.std(axis=0, ddof=1) / 10, rtol=0.2
    )
    signed = a.of().signed
    width = 2 * 1.984 * phi.std(axis=0, ddof=1) / 10
    np.testing.assert_allclose(signed.upper - signed.lower, width, rtol=1e-3)
    half = aggregate(batch_of(phi, 0.0), population=200)  # half of the population is known
    ratio = (half.upper - half.lower) / (a.upper - a.lower)
    np.testing.assert_allclose(ratio, np.sqrt(0.5), rtol=0.1)
    assert aggregate(batch_of(phi, 0.0), population=100).upper == pytest.approx(a.mean, rel=1e-6)


def test_the_most_extreme_row_counts_once_more():
    """One row of 50 that is not zero counts as two: the variance of the mean is twice S²/n."""
    phi = np.zeros((50, 4))
    phi[7] = 1.0
    sd = aggregate(batch_of(phi, 0.0)).of().size.sd
    np.testing.assert_allclose(sd, np.sqrt(2 / 50) * phi.std(axis=0, ddof=1), rtol=0.1)


def test_errors_that_rows_share_do_not_average_out():
    phi = np.random.default_rng(0).normal(size=(400, 4)) + 5.0
    apart = aggregate(batch_of(phi, 0.5), population="rows")
    shared = aggregate(batch_of(phi, 0.5, own_seeds=False), population="rows")
    width = (shared.upper - shared.lower).mean()
    assert width == pytest.approx(2 * 1.96 * 0.5 * np.sqrt(SHARED), rel=0.15)
    assert (apart.upper - apart.lower).mean() == pytest.approx(2 * 1.96 * 0.5 / 20, rel=0.2)
    told = aggregate(batch_of(phi, 0.5, own_seeds=False), population="rows", own_seeds=True)
    np.testing.assert_allclose(told.upper, apart.upper)


def test_the_mixture_finds_distributions_of_any_shape():
    """E|φ| within 0.05 from 2,000 estimates with errors of 0.3 (4 standard errors or more)."""
    rng = np.random.default_rng(3)
    n, sd = 2_000, np.full(2_000, 0.3)
    for phi in (rng.normal(size=n), rng.choice([-1.0, 1.0], n), 2 + 0.1 * rng.normal(size=n)):
        seen = phi + sd * rng.normal(size=n)
        assert Mixture(seen, sd).size.mean() == pytest.approx(np.abs(phi).mean(), abs=0.05)
    nothing = Mixture(sd * rng.normal(size=n), sd).size.mean()
    assert nothing < 0.06 < 0.24 - 0.06  # 0.24 without correction


def test_the_folded_normal():
    draws = np.abs(0.7 + 1.3 * np.random.default_rng(0).normal(size=1_000_000)).mean()
    value, slope = folded(np.array([0.7, -2.0]), np.array([1.3, 0.0]))
    assert value[0] == pytest.approx(draws, abs=0.005)
    assert value[1] == 2.0
    assert slope[1] == -1.0


def test_noise_does_not_make_it_larger_and_intervals_hold():
    """60 samples of 40 rows; 4 features, one of which does nothing.

    A coverage of 0.95 is seen below 0.87 in 60 samples with probability 0.01 for each feature.
    """
    rng = np.random.default_rng(1)
    size, sd = np.array([3.0, 1.0, 0.5, 0.0]), 0.6
    truth = size * np.sqrt(2 / np.pi)
    bias, naive, held = [], [], []
    for _ in range(60):
        m = rng.normal(size=(40, 4)) * size + sd * rng.normal(size=(40, 4))
        a = aggregate(batch_of(m, sd))
        bias.append(a.mean - truth)
        naive.append(np.abs(m).mean(axis=0) - truth)
        held.append((a.lower <= truth + 1e-12) & (truth <= a.upper + 1e-12))
    bias, naive = np.mean(bias, axis=0), np.mean(naive, axis=0)
    assert naive[2] > 0.15  # what the correction is for
    assert naive[3] > 0.4
    assert np.all(np.abs(bias[:3]) < 0.12)
    assert bias[3] < 0.35 * naive[3]
    assert np.mean(held, axis=0).min() > 0.87


def test_unknown_rows_are_left_out_and_unknown_features_are_named():
    rows = [made([1.0, 2, 3, 4], 0.0), made([np.nan, 4, 3, 4], [np.inf, 0, 0, 0])]
    found = aggregate(rows, population="rows")
    np.testing.assert_allclose(found.mean, [1, 3, 3, 4], rtol=1e-6)
    with pytest.raises(cx.InputError, match="nothing is known of part 0"):
        aggregate(rows[1:], population="rows")
    with pytest.raises(cx.InputError, match="different features"):
        aggregate([rows[0], made([1.0, 2, 3, 4], 0.0, names=tuple("abcd"))])
    with pytest.raises(cx.InputError, match="no explanation"):
        aggregate([])


X = np.random.default_rng(5).normal(size=(60, 3))
SHAP = cx.BayesSHAP(lambda r: np.asarray(r) @ [2.0, -1.0, 0.0], X[:20])


def test_batches_frames_and_folders_give_the_same_averages(tmp_path):
    need("pyarrow")
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["region"] = np.where(X[:, 1] > 0, "north", "south")
    shap = cx.BayesSHAP(lambda r: r.to_numpy() @ [2.0, -1.0, 0.0], frame[list("abc")][:20])
    batch = shap.explain_many(frame[list("abc")], queries=60)
    saved = shap.explain_many(frame, queries=60, out=tmp_path / "batch", keep=["region"])
    [tidy] = shap.frames([frame], keep=["region"], queries=60)
    of_batch = cx.aggregate(batch, by=frame["region"])
    for source in (saved, tidy):
        found = cx.aggregate(source, by="region")
        pd.testing.assert_frame_equal(found.to_frame(), of_batch.to_frame(), rtol=0.02, atol=1e-6)
    assert of_batch.cohorts == ["north", "south"]
    assert len(of_batch.to_frame()) == 6
    assert "cohort north" in str(of_batch)
    assert "<table" in of_batch._repr_html_()
    by_array = cx.aggregate(tidy, by=frame["region"].to_numpy())
    pd.testing.assert_frame_equal(by_array.to_frame(), cx.aggregate(tidy, by="region").to_frame())


def test_real_differences_between_cohorts_and_holms_correction():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(200, 4))
    phi[100:, 0] *= 3
    labels = ["a"] * 100 + ["b"] * 100
    found = aggregate(batch_of(phi, 0.1), by=labels)
    (d,) = found.differences()
    assert d.real.tolist() == [True, False, False, False]
    assert d.difference[0] < 0
    assert d.upper[0] < 0
    assert "matters more in b than in a" in str(found)
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03])), [0.03, 0.06, 0.06])


def test_several_outputs_and_the_choice_of_one():
    shap = cx.BayesSHAP(lambda r: np.column_stack([r @ [2.0, -1, 0], r[:, 2]]), X[:20])
    batch = shap.explain_many(X[:30], queries=60)
    found = cx.aggregate(batch)
    assert len(found.outputs) == 2
    assert found.of(output=1).order[0] == 2
    assert cx.aggregate(batch, 1).order[0] == 2
    with pytest.raises(cx.InputError, match="several fit"):
        _ = found.mean
    with pytest.raises(cx.InputError, match="no output 'x'"):
        cx.aggregate(batch, "x")
    with pytest.raises(cx.InputError, match="no output 'x'"):
        cx.aggregate(batch.to_frame(), "x")


def test_bad_input_is_named():
    batch = SHAP.explain_many(X[:20], queries=60)
    tidy = batch.to_frame()
    cases = [
        (batch, {"by": "region"}, "by='region' is no feature"),
        (batch, {"by": [1, 2]}, "by has 2 labels for 20 rows"),
        (batch, {"by": [None] * 20}, "20 rows have no cohort"),
        (batch, {"by": [*range(19), np.nan]}, "1 rows have no cohort"),
        (batch, {"by": ["a"] * 19 + ["b"]}, "one row in cohort b is no sample"),
        (batch, {"population": 5}, "population=5 is smaller than the 20 rows"),
        (batch, {"population": "many"}, "population must be"),
        (batch, {"level": 95}, "level must lie"),
        (batch[0:1], {}, "one row is no sample"),
        (tidy, {"by": "region"}, "by='region' is no column"),
        (tidy[:0], {}, "no explanation in this frame"),
        (tidy.drop(columns="lower"), {}, "no column 'lower'"),
        (pd.concat([tidy, tidy]), {}, "a row has a feature twice"),
        (tidy[1:], {}, "different features"),
        ("folder", {}, "got the text 'folder'"),
        (3, {}, "got int"),
    ]
    for source, more, message in cases:
        with pytest.raises(cx.InputError, match=message):
            cx.aggregate(source, **more)


def test_differences_are_those_of_independent_posteriors():
    a, b = made([3.0, 1.0, 0.0, 5.0], 0.3), made([1.0, 1.1, 0.0, 5.0], 0.4)
    c = compare(a, b)
    np.testing.assert_allclose(c.difference, [2.0, -0.1, 0.0, 0.0])
    np.testing.assert_allclose(c.upper - c.lower, 2 * 1.96 * 0.5, rtol=1e-3)
    draws = a.sample(40_000, 1) - b.sample(40_000, 2)
    expected = np.maximum((draws > 0).mean(axis=0), (draws < 0).mean(axis=0))
    np.testing.assert_allclose(c.probability, expected, atol=0.01)
    assert c.real.tolist() == [True, False, False, False]


def test_few_degrees_of_freedom_widen_the_difference():
    narrow = compare(made([3.0] * 4, 0.3, dof=50), made([1.0] * 4, 0.3, dof=50))
    wide = compare(made([3.0] * 4, 0.3, dof=3), made([1.0] * 4, 0.3, dof=3))
    assert np.all(wide.upper - wide.lower > 1.1 * (narrow.upper - narrow.lower))


def test_exact_differences_and_features_matched_by_name():
    a = made([3.0, 1.0, 2.0, 5.0], 0.0, names=tuple("abcd"))
    b = made([5.0, 1.0, 9.0, 3.0], 0.0, names=tuple("dbxa"))
    c = compare(a, b)
    assert c.names == ("a", "b", "d")
    np.testing.assert_allclose(c.difference, [0.0, 0.0, 0.0])
    np.testing.assert_allclose(c.probability, 0.5)
    assert not c.real.any()
    with pytest.raises(cx.InputError, match="no feature in common"):
        compare(a, made([1.0] * 4, 0.0, names=tuple("wxyz")))
    with pytest.raises(cx.InputError, match="second Explanation"):
        compare(a, 3)
    with pytest.raises(cx.InputError, match="different things"):
        compare(a, dataclasses.replace(b, method="BayesLIME"))
