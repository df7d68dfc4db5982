"""How many calls a model gets: one per explanation if it is quick, short ones if it is slow."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import credex as cx
from credex import model_queue
from credex.errors import ModelRaisedError, RandomModelError
from tests.strategies import Counting

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X.iloc[:, :8]
FOREST = RandomForestClassifier(20, random_state=0).fit(X.to_numpy(), Y)
FRAME = pd.DataFrame(X)


class Sizes:
    """A model that keeps the sizes of its calls."""

    def __init__(self, model):
        self.model, self.sizes = model, []

    def __call__(self, rows):
        self.sizes.append(len(rows))
        return self.model(rows)


def proba(rows):
    return FOREST.predict_proba(np.asarray(rows))[:, 1]


def additive(masks):
    return masks @ np.arange(12.0) + masks[:, 0] * masks[:, 1]


def same(a, b):
    assert np.array_equal(a.mean, b.mean)
    assert np.array_equal(a.interval().lower, b.interval().lower)
    assert (a.n_queries, a.n_model_rows) == (b.n_queries, b.n_model_rows)
    assert (a.prediction, a.stop_reason) == (b.prediction, b.stop_reason)
    assert np.array_equal(a.history.rows.design(), b.history.rows.design())
    assert np.array_equal(a.history.rows.y(), b.history.rows.y())


@pytest.mark.parametrize("data", [X.to_numpy(), FRAME], ids=["array", "frame"])
@pytest.mark.parametrize("background", [1, 5])
@pytest.mark.parametrize("goal", [{"queries": 61}, {"width": 1.0}])
def test_bayesshap_asks_a_model_known_to_be_quick_once(data, background, goal):
    model = Sizes(proba)
    explainer = cx.BayesSHAP(model, cx.Tabular(data, background=background), posterior="linear")
    x = FRAME.iloc[3]
    first = explainer.explain(x, **goal)
    assert len(model.sizes) == 2
    before = sum(model.sizes)
    second = explainer.explain(x, **goal)
    assert len(model.sizes) == 3
    assert sum(model.sizes) - before == before == first.n_model_rows
    same(first, second)


@pytest.mark.parametrize("data", [X.to_numpy(), FRAME], ids=["array", "frame"])
@pytest.mark.parametrize("around", ["training", "instance"])
def test_bayeslime_asks_a_model_known_to_be_quick_once(data, around):
    model = Sizes(proba)
    explainer = cx.BayesLIME(model, cx.Tabular(data, around=around))
    first = explainer.explain(FRAME.iloc[3], queries=80)
    second = explainer.explain(FRAME.iloc[3], queries=80)
    assert model.sizes == [1, 81, 82]
    same(first, second)


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize("sampler", ["random", "paired"])
def test_masks_are_asked_once(method, sampler):
    model = Sizes(additive)
    explainer = method(model, cx.Masks(12), sampler=sampler, posterior="linear")
    first = explainer.explain(queries=60)
    second = explainer.explain(queries=60)
    assert len(model.sizes) == 3
    same(first, second)


def test_a_focused_process_begins_with_one_call():
    model = Sizes(lambda masks: additive(masks) + masks[:, 2:5].prod(axis=1))
    explainer = cx.BayesSHAP(model, cx.Masks(12), posterior="gp")
    first = explainer.explain(queries=60)
    calls = len(model.sizes)
    second = explainer.explain(queries=60)
    assert len(model.sizes) == 2 * calls - 1
    same(first, second)


def test_equal_rows_are_sent_once():
    data = np.random.default_rng(0).integers(0, 2, (200, 3)).astype(float)
    model = Sizes(lambda rows: rows @ np.array([1.0, 2.0, 4.0]))
    explainer = cx.BayesLIME(model, data)
    first = explainer.explain(data[0], queries=100)
    second = explainer.explain(data[0], queries=100)
    assert model.sizes == [1, 9, 10]  # eight different rows, and f(x)
    same(first, second)


def test_a_target_of_the_call_is_remembered_too():
    model = Sizes(lambda rows: FOREST.predict_proba(np.asarray(rows)))
    explainer = cx.BayesLIME(model, X.to_numpy())
    for _ in range(2):
        explainer.explain(FRAME.iloc[3], queries=40, target=1)
    assert model.sizes == [1, 41, 42]


@pytest.mark.parametrize("queries", [255, 256, 257, 258])
def test_all_coalitions(queries):
    model = Counting(proba, keep=True)
    explainer = cx.BayesSHAP(model, cx.Tabular(X.to_numpy(), background=1), posterior="linear")
    first = explainer.explain(FRAME.iloc[3], queries=queries)
    repeated = len(model.seen) - len(set(model.seen))
    assert repeated == (0 if queries == 256 else 1)  # 256: every coalition, and no row twice
    assert first.exact == (queries >= 256)
    same(first, explainer.explain(FRAME.iloc[3], queries=queries))


def test_f_of_x_comes_first_if_time_counts():
    model = Sizes(proba)
    explainer = cx.BayesSHAP(model, cx.Tabular(X.to_numpy(), background=1), posterior="linear")
    for _ in range(2):
        model.sizes.clear()
        explainer.explain(FRAME.iloc[3], stop=cx.WallClock(30.0), queries=40)
        assert model.sizes[0] == 2


def test_a_slow_model_gets_short_calls(monkeypatch):
    monkeypatch.setattr(model_queue, "SLOW_ROW", 0.0)
    monkeypatch.setattr(model_queue, "CALL_SECONDS", 0.0)
    model = Sizes(proba)
    explainer = cx.BayesLIME(model, X.to_numpy())
    explainer.explain(FRAME.iloc[3], queries=80)
    assert model.sizes[:2] == [1, model_queue.PROBE_ROWS]
    assert set(model.sizes[2:]) == {1}
    assert sum(model.sizes) == 82


def test_a_model_that_is_slow_to_begin_only_is_not_asked_in_small_pieces():
    def slow(rows):
        time.sleep(1.5 * model_queue.SLOW_ROW)
        return proba(rows)

    model = Sizes(slow)
    cx.BayesLIME(model, X.to_numpy()).explain(FRAME.iloc[3], queries=1000)
    assert len(model.sizes) == 3  # f(x), a first piece, the rest
    assert sum(model.sizes) == 1002


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_rows_of_a_failed_call_are_counted_and_said(method):
    broken = []

    def fragile(rows):
        if broken and len(rows) > 2:
            raise ValueError("too many rows")
        return proba(rows)

    model = Counting(fragile)
    explainer = method(model, cx.Tabular(X.to_numpy(), background=1), posterior="linear")
    good = explainer.explain(FRAME.iloc[3], queries=60)
    assert not any("failed" in note for note in good.notes)
    broken.append(True)
    before = model.rows
    with pytest.raises(ModelRaisedError, match="too many rows") as caught:
        explainer.explain(FRAME.iloc[3], queries=60)
    partial = caught.value.partial
    assert partial.n_model_rows == model.rows - before > 50
    assert any("in calls that failed" in note for note in partial.notes)
    broken.clear()
    more = explainer.refine(partial, queries=60)
    assert np.array_equal(more.mean, good.mean)
    assert more.n_model_rows == model.rows - before


def test_rows_sent_again_are_counted_for_each_row_of_a_batch():
    def touchy(rows):
        if np.any(rows[:, 0] == 7.0):
            raise ValueError("seven")
        return rows[:, 0] * rows[:, 1]

    model = Counting(touchy)
    data = X.to_numpy()[:40]
    rows = data[:4].copy()
    rows[1, 0] = 7.0
    explainer = cx.BayesSHAP(model, cx.Tabular(data, background=1))
    batch = explainer.explain_many(rows, queries=50, on_error="record")
    assert batch.n_model_rows == model.rows
    assert any("in calls that failed" in note for note in batch[0].notes)
    failed = batch.errors[1].error.partial
    assert failed.n_model_rows > 0
    assert sum(e.n_model_rows for e in batch.explained) + failed.n_model_rows >= model.rows
    assert np.array_equal(batch[0].mean, explainer.explain(rows[0], queries=50).mean)


def test_a_random_model_is_found_out_in_one_call():
    rng, noise = np.random.default_rng(0), [0.0]

    def model(rows):
        return proba(rows) + noise[0] * rng.normal(size=len(rows))

    explainer = cx.BayesLIME(model, X.to_numpy())
    explainer.explain(FRAME.iloc[3], queries=60)
    noise[0] = 0.1
    with pytest.raises(RandomModelError, match="for the same row"):
        explainer.explain(FRAME.iloc[3], queries=60)


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize("kind", ["depends on the other rows", "draws once a call"])
def test_a_model_that_agrees_with_itself_within_a_call_only(method, kind):
    rng = np.random.default_rng(0)

    def model(rows):
        if kind == "depends on the other rows":
            return (rows - rows.mean(axis=0)) @ np.arange(1.0, 9.0)
        return rows @ rng.normal(size=8)

    explainer = method(model, cx.Tabular(X.to_numpy(), background=1), posterior="linear")
    with pytest.raises(RandomModelError):
        explainer.explain(FRAME.iloc[3], queries=60)


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_half_a_pair_is_left_out_of_what_is_continued(method):
    def game(masks):
        return additive(masks) + 5 * masks[:, 2:5].prod(axis=1)

    good = method(game, cx.Masks(12), posterior="linear", sampler="paired")
    begun = good.explain(queries=60)
    seen = [0]

    def broken(masks):
        seen[0] += 1
        if seen[0] == 4:
            raise ValueError("gone")
        return game(masks)

    with pytest.raises(ModelRaisedError) as caught:
        method(broken, cx.Masks(12), posterior="linear", sampler="paired", batch_rows=1).refine(
            begun, queries=200
        )
    partial = caught.value.partial
    assert partial.history.rows.n == begun.history.rows.n + 3
    again, whole = good.refine(partial, queries=201), good.refine(begun, queries=200)
    z = again.history.rows.design()
    assert np.array_equal(z[0::2], ~z[1::2])
    assert len(np.unique(z, axis=0)) == len(z)
    np.testing.assert_allclose(again.mean, whole.mean, atol=1e-9)


def test_refining_with_another_explainer_takes_one_call():
    begun = cx.BayesSHAP(additive, cx.Masks(12), posterior="linear").explain(queries=60)
    model = Sizes(additive)
    cx.BayesSHAP(model, cx.Masks(12), posterior="linear").refine(begun, queries=200)
    assert len(model.sizes) == 1


def test_zoom_counts_what_was_spent():
    text = "good word here. bad day there. a long walk home. the end of it all."

    def model(texts):
        return np.array([t.count("good") - t.count("bad") + 0.1 * t.count("a") for t in texts])

    explainer = cx.BayesSHAP(model, cx.Text(unit="sentence"), posterior="linear")
    e = explainer.explain(text, queries=17)
    known = explainer.zoom(e, most=2, width=1.0)
    fresh = cx.BayesSHAP(model, cx.Text(unit="sentence"), posterior="linear")
    assert known.n_queries == fresh.zoom(e, most=2, width=1.0).n_queries > e.n_queries


@pytest.mark.parametrize("target", [np.array([0]), np.array([1]), np.array(0)])
def test_targets_that_cannot_be_hashed_are_not_mixed_up(target):
    explainer = cx.BayesLIME(FOREST, X.to_numpy())
    explainer.explain(FRAME.iloc[3], queries=40, target=np.array([1]))
    e = explainer.explain(FRAME.iloc[3], queries=40, target=target)
    assert e.outputs == (str(int(target.ravel()[0])),)
    with pytest.raises(cx.InputError):
        explainer.explain(FRAME.iloc[3], queries=40, target=([1],))


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_a_sampler_that_chooses_nothing(method):
    class Nothing:
        paired, uniform = False, True

        def select(self, stream, n, posterior, rng):
            return stream.take(0)

    explainer = method(proba, cx.Tabular(X.to_numpy(), background=1), posterior="linear")
    for _ in range(2):
        e = explainer.explain(FRAME.iloc[3], queries=40, sampler=Nothing())
        assert e.n_queries <= 2
        assert e.stop_reason == "exhausted"


def test_a_much_longer_text_is_not_taken_for_a_quick_one():
    model = Sizes(
        lambda texts: np.array([t.count("a") + t.count("b") * t.count("c") for t in texts], float)
    )
    explainer = cx.BayesSHAP(model, cx.Text(unit="word"), posterior="linear")
    for _ in range(2):
        explainer.explain("a b c d e f g h", queries=30)
    assert len(model.sizes) == 3
    explainer.explain(" ".join(["a", "bb", "ccc"] * 20), queries=300)
    assert len(model.sizes) == 5
