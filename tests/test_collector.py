"""The garbage collector while a batch runs, and after it."""

import gc

import numpy as np
import pytest

import credex as cx
from credex.collector import SELDOM, fewer_scans


@pytest.fixture(autouse=True)
def _thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_full_scans_are_seldom_inside_only():
    gc.set_threshold(600, 9, 8)
    with fewer_scans():
        with fewer_scans():
            assert gc.get_threshold() == (600, 9, 8 * SELDOM)
        assert gc.get_threshold() == (600, 9, 8 * SELDOM)  # the outer one still runs
    assert gc.get_threshold() == (600, 9, 8)


def test_batches_leave_the_collector_as_they_found_it():
    gc.set_threshold(650, 11, 12)
    seen = []

    def model(X):
        seen.append(gc.get_threshold())
        return X.sum(axis=1)

    X = np.random.default_rng(0).normal(size=(20, 3))
    cx.BayesSHAP(model, X[:1]).explain_many(X, queries=8, progress=False)
    assert set(seen) == {(650, 11, 12 * SELDOM)}
    assert gc.get_threshold() == (650, 11, 12)
    with pytest.raises(cx.ModelError):
        cx.BayesSHAP(lambda _: 1 / 0, X[:1]).explain_many(X, queries=8, progress=False)
    assert gc.get_threshold() == (650, 11, 12)
