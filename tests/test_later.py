"""Fields and properties that are made when they are read."""

import copy
import dataclasses
import gc
import pickle
import tracemalloc
import weakref
from dataclasses import dataclass

import numpy as np
import pytest

import credex as cx
from credex.later import Lazily, later, once


@dataclass(frozen=True, slots=True, eq=False)
class Pair(Lazily):
    """One plain field, one that may come later."""

    lazy = ("second",)

    first: int
    second: int


class Counter:
    """Counts how often it is called."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return 2


def test_a_field_is_made_once_and_only_if_it_is_read():
    make = Counter()
    pair = Pair(1, later(make))
    assert (pair.first, make.calls) == (1, 0)
    assert (pair.second, pair.second, make.calls) == (2, 2, 1)
    assert Pair(1, 3).second == 3
    with pytest.raises(AttributeError, match="third"):
        _ = pair.third
    with pytest.raises(dataclasses.FrozenInstanceError):
        pair.second = 4


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p)), dataclasses.replace],
    ids=["copy", "deepcopy", "pickle", "replace"],
)
def test_copies_hold_the_value(again):
    make = Counter()
    other = again(Pair(1, later(make)))
    assert (other.first, other.second, make.calls) == (1, 2, 1)


def test_what_a_field_was_made_of_may_go():
    make = Counter()
    gone, pair = weakref.ref(make), Pair(1, later(make))
    del make
    assert gone() is not None
    assert pair.second == 2
    assert gone() is None


def test_once():
    class Square:
        made = 0

        @once
        def area(self):
            """Its area."""
            self.made += 1
            return 9

    s = Square()
    assert (s.area, s.area, s.made) == (9, 9, 1)
    assert Square.area.__doc__ == "Its area."


class Model:
    """A model that can be watched."""

    def __call__(self, X):
        return X @ np.arange(1.0, X.shape[1] + 1)


@pytest.mark.parametrize("method", [cx.BayesLIME, cx.BayesSHAP])
def test_an_explanation_holds_neither_the_model_nor_the_instance(method):
    X = np.random.default_rng(0).normal(size=(60, 6))
    model, x = Model(), X[0].copy()
    e = method(model, X[:20], posterior="linear").explain(x, queries=40)
    twin = method(Model(), X[:20], posterior="linear").explain(X[0], queries=40)
    watched = weakref.ref(model)
    x[:] = 99.0
    del model
    gc.collect()
    assert watched() is None
    assert (e.values, e.labels, e.settings) == (twin.values, twin.labels, twin.settings)
    np.testing.assert_array_equal(e.covariance, twin.covariance)
    assert e.r2 == twin.r2
    assert e.error.scale == twin.error.scale


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_an_explanation_of_a_picture_keeps_no_more_than_the_picture(method):
    """What is made later would keep the neighbourhood: picture, replacement and all."""
    pictures = np.random.default_rng(0).random((5, 64, 64, 3))
    labels = np.arange(16).reshape(4, 4).repeat(16, 0).repeat(16, 1)
    explainer = method(
        lambda b: b[:, :20].mean((1, 2, 3)) * b[:, 20:].mean((1, 2, 3)), cx.Image(segments=labels)
    )
    explainer.explain(pictures[0], queries=60)
    gc.collect()
    tracemalloc.start()
    try:
        kept = [explainer.explain(p, queries=60) for p in pictures]
        gc.collect()
        each = tracemalloc.get_traced_memory()[0] / len(kept)
    finally:
        tracemalloc.stop()
    assert each < 3 * pictures[0].nbytes
