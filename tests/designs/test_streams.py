"""Streams of masks: their order, what they skip, repeat and offer again."""

from math import comb

import numpy as np
import pytest

import credex as cx
from credex.designs.coalitions import ShapleySequence
from credex.designs.perturbations import BernoulliSequence
from credex.designs.samplers import MaskStream


def distinct(masks):
    return len(np.unique(masks, axis=0))


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("d", [4, 11, 14, 70])
def test_fair_coins_do_not_depend_on_how_they_are_read(d, paired):
    whole = BernoulliSequence(d, 5, skip=(0, d), paired=paired).units(0, 600)
    s = BernoulliSequence(d, 5, skip=(0, d), paired=paired)
    pieces = np.concatenate([s.units(a, a + 37) for a in range(0, 600, 37)])[:600]
    np.testing.assert_array_equal(pieces, whole)
    assert distinct(whole) == len(whole) == min(600, s.capacity)
    assert not np.any(np.isin(whole.sum(axis=1), (0, d)))
    assert not paired or whole[:, 0].all()


@pytest.mark.parametrize("paired", [True, False])
def test_what_is_known_is_skipped(paired):
    sequence = ShapleySequence(8, 1, paired=paired)
    order = sequence.units(0, 300)
    known = order[3:40:2]
    got = MaskStream(sequence, known).take(60 if paired else 30).design
    units = got[0::2] if paired else got
    rest = np.delete(order, range(3, 40, 2), axis=0)
    np.testing.assert_array_equal(units, rest[:30])
    assert not paired or np.array_equal(got[1::2], ~units)


def test_a_stream_ends_or_begins_again():
    sequence = ShapleySequence(4, 0, paired=False)
    order = sequence.units(0, 100)
    assert len(order) == 14
    assert len(MaskStream(sequence, order[:5]).take(100)) == 9
    noisy = MaskStream(sequence, order[:5], repeat=True).take(23).design
    np.testing.assert_array_equal(noisy, np.concatenate([order[5:], order]))
    twice = MaskStream(sequence, np.concatenate([order, order[:3]]), repeat=True)
    np.testing.assert_array_equal(twice.take(4).design, order[3:7])


@pytest.mark.parametrize("recycle", [0.0, 1.0])
def test_masks_passed_over_are_offered_again(recycle):
    sequence = ShapleySequence(6, 0, paired=False)
    order = sequence.units(0, 100)
    stream = MaskStream(sequence, recycle=recycle)
    stream.keep_rest(stream.take(20).pick(np.arange(10)))
    expected = order[10:25] if recycle else order[20:35]
    np.testing.assert_array_equal(stream.take(15).design, expected)
    rest = stream.take(1000).design
    assert len(rest) == sequence.capacity - 10 - 15
    np.testing.assert_array_equal(rest[-10:], order[-10:] if recycle else order[10:20])


@pytest.mark.parametrize("d", [1, 2, 9, 80, 400])
def test_the_shapley_kernel_is_its_formula(d):
    inner = [float((d - 1) / (comb(d, s) * s * (d - s))) for s in range(1, d)]
    np.testing.assert_allclose(
        cx.shapley_kernel(np.arange(d + 1), d), [np.inf, *inner, np.inf], rtol=1e-11
    )
