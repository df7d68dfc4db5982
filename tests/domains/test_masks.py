"""The domain without an instance."""

from __future__ import annotations

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
    assert here.active.all()
    assert here.values == ("present",) * 4
    assert here.unit == ("per part present",) * 4
    assert here.design_at.tolist() == [1.0] * 4
    assert here.label is None
    assert here.row_bytes == 32
    assert Masks(4).restore(here.payload()) is None
    assert Masks(2, ["a", "b"]).at(None).feature_labels == ("a", "b")


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
    with pytest.raises(InputError, match="batch"):
        Masks(2).split(np.ones((2, 2)))
    with pytest.raises(InputError, match="restore"):
        Masks(2).restore({"values": []})
