"""The domain without an instance."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from credex.domains import Masks
from credex.errors import InputError


def test_masks_are_the_inputs() -> None:
    here = Masks(4).at(None)
    masks = np.asfortranarray(np.random.default_rng(0).random((6, 4)) < 0.5)
    rows, index = here.coalition_inputs(masks)
    assert index is None
    assert rows.dtype == np.bool_
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(rows, masks)
    rows[:] = False
    assert masks.any()
    assert here.base_inputs().tolist() == [[False] * 4]
    assert here.instance_inputs().tolist() == [[True] * 4]
    assert here.background_weights.tolist() == [1.0]
    assert here.active.all()
    assert here.values == ("present",) * 4
    assert here.unit == ("per part present",) * 4
    assert here.design_at.tolist() == [1.0] * 4
    assert here.label is None
    assert Masks(4).restore(here.payload()) is None
    np.testing.assert_array_equal(Masks(4).concat([rows, rows]), np.zeros((12, 4)))


def test_coin_flips_are_a_stream() -> None:
    here = Masks(3, ["a", "b", "c"]).at(None)
    whole, part = here.perturb(5, 0, 3000), here.perturb(5, 1000, 2500)
    np.testing.assert_array_equal(part.design, whole.design[1000:2500])
    np.testing.assert_array_equal(whole.inputs(), whole.design)
    np.testing.assert_array_equal(whole.coordinates(), whole.design)
    np.testing.assert_allclose(whole.design.mean(axis=0), 0.5, atol=0.05)  # 5 standard errors
    np.testing.assert_array_equal(whole.pick(np.array([7, 2])), whole.design[[7, 2]])
    assert here.by_masks
    rows, index = whole.unique()
    assert len(rows) == 8
    assert index is not None
    np.testing.assert_array_equal(rows[index], whole.design)
    assert here.names == here.feature_labels == ("a", "b", "c")
    assert len(whole) == 3000


def test_pickle() -> None:
    here = pickle.loads(pickle.dumps(Masks(3).at(None)))
    assert here.base_key == Masks(3).at(None).base_key


@pytest.mark.parametrize("d", [0, -1, 2.0, "3", True, None])
def test_bad_d(d: Any) -> None:
    with pytest.raises(InputError, match="d is"):
        Masks(d)


@pytest.mark.parametrize("names", [["a"], ["a", "a"], "ab"])
def test_bad_names(names: Any) -> None:
    with pytest.raises(InputError, match="name"):
        Masks(2, names)


def test_no_instances() -> None:
    with pytest.raises(InputError, match="no instance"):
        Masks(2).at([1, 2])
    with pytest.raises(InputError, match="cohort"):
        Masks(2).at(None, cohort="a")
    with pytest.raises(InputError, match="batch"):
        Masks(2).split(np.ones((2, 2)))
    with pytest.raises(InputError, match="restore"):
        Masks(2).restore({"values": []})
