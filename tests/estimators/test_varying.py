"""Domains whose features depend on the instance, and calls bounded by the size of an input."""

from functools import partial

import numpy as np
import pytest

import credex as cx
from credex.blackbox import BlackBox
from credex.domains import Domain, Neighbourhood
from credex.model_queue import CALL_BYTES, ModelQueue


class Numbers:
    """Instances are tuples of numbers, each a part; a part that is off is 0."""

    names = None
    summary = "no background"

    def at(self, x):
        return NumbersNeighbourhood(tuple(x))

    def split(self, X):
        return list(X)

    def concat(self, inputs):
        return [row for block in inputs for row in block]

    def restore(self, payload):
        return tuple(payload)


class NumbersNeighbourhood:
    label = None
    by_masks = True
    background_note = "zeros"
    removal = "zero"
    base_key = None
    background_weights = np.ones(1)

    def __init__(self, x, row_bytes=80):
        self.x, self.row_bytes = x, row_bytes
        self.form = len(x)
        self.names = tuple(f"number {i}" for i in range(len(x)))
        self.values, self.feature_labels = x, self.names
        self.unit = ("per part present",) * len(x)
        self.active = np.array([v != 0 for v in x])
        self.design_at = np.ones(len(x))

    def base_inputs(self):
        return self.coalition_inputs(np.zeros((1, len(self.x)), dtype=bool))[0]

    def instance_inputs(self):
        return [self.x]

    def coalition_inputs(self, masks, *, merge=True):
        return [tuple(np.where(m, self.x, 0.0)) for m in masks], None

    def perturb(self, seed, start, stop):
        raise AssertionError

    def payload(self):
        return list(self.x)


X = [(1.0, 2.0, 3.0), tuple(range(1, 9)), (4.0, -1.0), (1.0, 0.0, 3.0, 2.0, 5.0), (7.0,)]


def curved(rows):
    return np.array([np.tanh(0.1 * sum(r)) + 0.02 * r[0] * r[-1] for r in rows])


def test_it_is_a_domain():
    assert isinstance(Numbers(), Domain)
    assert isinstance(Numbers().at(X[0]), Neighbourhood)


@pytest.mark.parametrize("kind", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize("goal", [{"queries": 40}, {"width": 0.1}, {"queries": 40, "seed": 3}])
@pytest.mark.parametrize("split", [{}, {"batch_rows": 7}, {"n_jobs": 2, "workers": "threads"}])
def test_a_batch_of_different_lengths_equals_its_rows(kind, goal, split):
    explainer = kind(curved, Numbers())
    batch = explainer.explain_many(X, **goal, **split)
    for x, e in zip(X, batch, strict=True):
        fresh = kind(curved, Numbers()).explain(x, **goal)
        assert len(e.names) == len(x)
        assert np.array_equal(e.mean, fresh.mean)
        assert np.array_equal(e.interval().width, fresh.interval().width)


@pytest.mark.parametrize("kind", [cx.BayesSHAP, cx.BayesLIME])
def test_one_explainer_for_many_lengths_in_any_order(kind):
    explainer = kind(curved, Numbers())
    once = [explainer.explain(x, queries=30).mean for x in X]
    again = [explainer.explain(x, queries=30).mean for x in reversed(X)][::-1]
    assert all(np.array_equal(a, b) for a, b in zip(once, again, strict=True))


def test_different_lengths_make_no_array_but_a_frame():
    batch = cx.BayesSHAP(curved, Numbers()).explain_many(X, queries=40)
    with pytest.raises(cx.InputError, match=r"1 to 8 features.*to_frame"):
        _ = batch.mean
    with pytest.raises(cx.InputError, match="to_frame"):
        batch.interval()
    assert batch.to_frame().groupby("row").size().tolist() == [len(x) for x in X]


@pytest.mark.parametrize("kind", [cx.BayesSHAP, cx.BayesLIME])
def test_refine_after_json_and_not_from_another_instance(kind):
    explainer = kind(curved, Numbers())
    e = explainer.explain(X[1], queries=30)
    more = explainer.refine(cx.Explanation.from_json(e.to_json()), queries=60)
    assert np.array_equal(more.mean, explainer.explain(X[1], queries=60).mean)
    with pytest.raises(cx.InputError, match="another instance"):
        explainer.explain(X[0], queries=60, start=e)


def test_what_is_off_is_said():
    for kind in (cx.BayesSHAP, cx.BayesLIME):
        assert "switched off: zero" in kind(curved, Numbers()).explain(X[0], queries=8).notes


class Sized(Numbers):
    def __init__(self, row_bytes):
        self.row_bytes = row_bytes

    def at(self, x):
        return NumbersNeighbourhood(tuple(x), self.row_bytes)


@pytest.mark.parametrize("kind", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize(("row_bytes", "most"), [(CALL_BYTES // 10, 10), (3 * CALL_BYTES, 1)])
def test_a_call_is_bounded_by_the_bytes_of_an_input(kind, row_bytes, most):
    sizes = []

    def model(rows):
        sizes.append(len(rows))
        return curved(rows)

    x = tuple(range(1, 9))
    e = kind(model, Sized(row_bytes)).explain(x, queries=60)
    assert most - 1 <= max(sizes) <= most  # pairs stay together
    assert sum(sizes) == e.n_model_rows
    assert np.array_equal(e.mean, kind(curved, Numbers()).explain(x, queries=60).mean)
    sizes.clear()
    kind(model, Sized(row_bytes)).explain_many([x, x[1:]], queries=60)
    assert most - 1 <= max(sizes) <= most
    sizes.clear()
    kind(model, Sized(row_bytes)).explain(x, queries=60, batch_rows=25)
    assert 24 <= max(sizes) <= 25


def test_calls_of_mixed_sizes_hold_no_more_than_one_call():
    held = []

    def model(rows):
        held.append(sum(8_000_000 if len(r) > 2 else 16_000_000 for r in rows))
        return curved(rows)

    class Mixed(Numbers):
        def at(self, x):
            return NumbersNeighbourhood(x, 8_000_000 if len(x) > 2 else 16_000_000)

    cx.BayesSHAP(model, Mixed()).explain_many(X[:4] * 3, queries=30)
    assert CALL_BYTES / 2 < max(held) <= CALL_BYTES


def test_only_inputs_of_one_form_share_a_call():
    calls = []

    def model(rows):
        calls.append({len(r) for r in rows})
        return curved(rows)

    cx.BayesSHAP(model, Numbers()).explain_many(X * 2, queries=40)
    assert all(len(lengths) == 1 for lengths in calls)
    assert len(calls) < 2 * len(X) * 2  # two instances of one length do share


def test_max_rows():
    queue = partial(ModelQueue, BlackBox(sum), np.concatenate)
    assert queue(None).max_rows(8) == CALL_BYTES // 8
    assert queue(None).max_rows(10 * CALL_BYTES) == 1
    assert queue(5).max_rows(10 * CALL_BYTES) == 5
