"""What every domain of masks keeps, a domain of one's own included."""

import json
import pickle

import numpy as np
import pytest

import credex as cx
from credex.domains import Domain, MaskedDomain, MaskedNeighbourhood, Neighbourhood


class Numbers(MaskedDomain):
    """Arrays of numbers; a part that is off is 0."""

    def at(self, x):
        return NumbersNeighbourhood(np.asarray(x, dtype=np.float64))


class NumbersNeighbourhood(MaskedNeighbourhood):
    removal = "zero"

    def __init__(self, x):
        self.x, self.names = x, tuple(f"number {i}" for i in range(len(x)))

    def inputs(self, masks):
        return np.where(masks, self.x, 0.0)


class Tuples(Numbers):
    """The same numbers, but the model is given a list of tuples."""

    def at(self, x):
        return TuplesNeighbourhood(np.asarray(x, dtype=np.float64))


class TuplesNeighbourhood(NumbersNeighbourhood):
    def inputs(self, masks):
        return [tuple(row) for row in super().inputs(masks).tolist()]


RNG = np.random.default_rng(0)
SERIES, IMAGE = RNG.normal(size=(2, 12)), RNG.random((2, 9, 12))
CASES = {
    "masks": (cx.Masks(4), [None, None]),
    "series": (cx.Series(4), SERIES),
    "image": (cx.Image(cx.Grid(2, 2)), IMAGE),
    "text": (cx.Text(), ["win a free phone", "the meeting is free"]),
    "numbers": (Numbers(), SERIES[:, :4]),
    "tuples": (Tuples(), SERIES[:, :4]),
}
BATCHES = [name for name in CASES if name != "masks"]


def size(rows):
    """Stands for a model of any of these inputs."""
    if isinstance(rows[0], str):
        return np.array([np.sin(len(t)) for t in rows])
    flat = np.array(rows, dtype=np.float64).reshape(len(rows), -1)
    return np.tanh(flat @ np.linspace(-1, 1, flat.shape[1])) + flat[:, 0] * flat[:, -1]


@pytest.mark.parametrize("name", CASES)
def test_every_domain_keeps_the_protocols(name):
    domain, (x, _) = CASES[name]
    here = domain.at(x)
    assert isinstance(domain, Domain)
    assert isinstance(here, Neighbourhood)
    assert here.by_masks
    d = len(here.names)
    assert here.active.shape == here.design_at.shape == (d,)
    assert len(here.values) == len(here.unit) == len(here.feature_labels) == d
    assert here.background_weights.tolist() == [1.0]
    assert here.row_bytes >= 8
    hash(here.form)
    masks = RNG.random((5, d)) < 0.5
    masks[0], masks[1] = True, False
    rows, index = here.coalition_inputs(masks, merge=False)
    assert index is None
    assert len(rows) == 5
    assert np.array_equal(rows[0], here.instance_inputs()[0])
    assert np.array_equal(rows[1], here.base_inputs()[0])
    assert len(domain.concat([rows, rows, here.base_inputs()])) == 11
    assert json.loads(json.dumps(here.payload())) == here.payload()
    pickle.loads(pickle.dumps(domain)).at(x)
    again = pickle.loads(pickle.dumps(here))
    assert again.names == here.names
    assert again.payload() == here.payload()


@pytest.mark.parametrize("kind", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_equals_its_instances(name, kind):
    domain, X = CASES[name]
    batch = kind(size, domain).explain_many(X, queries=14)
    for x, e in zip(X, batch, strict=True):
        alone = kind(size, domain).explain(x, queries=14)
        np.testing.assert_allclose(e.mean, alone.mean, atol=1e-12)


@pytest.mark.parametrize("name", BATCHES)
def test_one_instance_is_not_a_batch(name):
    domain, _ = CASES[name]
    for one in ("text", 3.0):
        with pytest.raises(cx.InputError, match=r"explain\(x\)"):
            domain.split(one)


@pytest.mark.parametrize("kind", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize("domain", [Numbers(), Tuples()])
def test_a_domain_of_ones_own(domain, kind):
    def additive(rows):
        return np.array(rows) @ [1.0, 10.0, 100.0]

    explainer = kind(additive, domain)
    e = explainer.explain([1.0, 2.0, 3.0])
    np.testing.assert_allclose(e.mean, [1.0, 20.0, 300.0], rtol=1e-6)
    assert e.prediction == 321
    assert e.exact
    assert "switched off: zero" in e.notes
    if kind is cx.BayesLIME:
        assert e.units == ("per part present",) * 3


@pytest.mark.parametrize("domain", [Numbers(), Tuples()])
def test_without_a_payload_a_run_goes_on_from_the_same_instance_only(domain):
    x, other = SERIES
    explainer = cx.BayesSHAP(size, domain)
    e = cx.Explanation.from_json(explainer.explain(x, queries=40).to_json())
    more = explainer.explain(x, start=e, queries=80)
    np.testing.assert_allclose(more.mean, explainer.explain(x, queries=80).mean, atol=1e-9)
    with pytest.raises(cx.InputError, match="another instance"):
        explainer.explain(other, start=e, queries=80)
    with pytest.raises(cx.InputError, match=r"explain\(x, start=explanation\).*restore\(payload\)"):
        explainer.refine(e, queries=80)


def test_arrays_stack_by_shape_and_type():
    long, short = Numbers().at(SERIES[0]), Numbers().at(SERIES[0, :3])
    assert long.form == Numbers().at(SERIES[1]).form != short.form
    assert Tuples().at(SERIES[0]).form == Tuples().at(SERIES[0, :3]).form  # lists always do


# -- masked arrays -----------------------------------------------------------------------------


def masked(a, n=1):
    hidden = np.zeros(np.shape(a), dtype=bool)
    hidden.flat[:n] = True
    return np.ma.array(a, mask=hidden)


@pytest.mark.parametrize(
    ("domain", "x"),
    [
        (cx.Series(4), masked(SERIES[0], 2)),
        (cx.Series(4), [masked(row, 1) for row in SERIES]),
        (cx.Series(4, fill=0.0), masked(np.arange(12), 2)),
        (cx.Image(cx.Grid(2, 2)), masked(IMAGE[0], 2)),
        (cx.Image(cx.Grid(2, 2)), masked((255 * IMAGE[0]).astype(np.uint8), 2)),
        (cx.Image(cx.Grid(2, 2), fill=masked(IMAGE[1], 2)), IMAGE[0]),
        (cx.Image(masked(cx.Grid(2, 2)(IMAGE[0][:, :, None]), 2)), IMAGE[0]),
        (cx.Image(lambda x: masked(cx.Grid(2, 2)(x), 2)), IMAGE[0]),
    ],
)
def test_masked_values_never_reach_the_model(domain, x):
    def never(rows):
        raise AssertionError(rows)

    with pytest.raises(cx.InputError, match=r"2 masked values.*filled"):
        cx.BayesSHAP(never, domain).explain(x)


@pytest.mark.parametrize(
    "make",
    [
        lambda: cx.Series(4, fill=masked(SERIES[0], 2)),
        lambda: cx.Image(fill=masked(np.array([0.0, 0.0, 0.5]), 2)),
    ],
)
def test_masked_options_are_told_at_once(make):
    with pytest.raises(cx.InputError, match=r"2 masked values.*filled"):
        make()


def test_masked_rows_of_a_batch_fail_alone():
    batch = cx.BayesSHAP(size, cx.Series(4)).explain_many(
        masked(SERIES), queries=14, on_error="record"
    )
    assert list(batch.errors) == [0]


def test_an_empty_mask_is_no_mask():
    e = cx.BayesSHAP(size, cx.Series(4)).explain(np.ma.array(SERIES[0]), queries=14)
    plain = cx.BayesSHAP(size, cx.Series(4)).explain(SERIES[0], queries=14)
    assert np.array_equal(e.mean, plain.mean)
