"""How many calls a model gets: one for an explanation of a quick one, short ones of a slow one."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import credex as cx
from credex import calls
from credex.errors import ModelRaisedError, RandomModelError

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X.iloc[:, :8]
FOREST = RandomForestClassifier(20, random_state=0).fit(X.to_numpy(), Y)
FRAME = pd.DataFrame(X)


class Counted:
    """A model that keeps the sizes of its calls."""

    def __init__(self, model):
        self.model, self.sizes = model, []

    def __call__(self, rows):
        self.sizes.append(len(rows))
        return self.model(rows)


def proba(rows):
    return FOREST.predict_proba(np.asarray(rows))[:, 1]


def same(a, b):
    assert np.array_equal(a.mean, b.mean)
    assert np.array_equal(a.interval().lower, b.interval().lower)
    assert (a.n_queries, a.n_model_rows) == (b.n_queries, b.n_model_rows)
    assert (a.prediction, a.stop_reason) == (b.prediction, b.stop_reason)
    for x, y in zip(a.history.rows.blocks, b.history.rows.blocks, strict=True):
        assert np.array_equal(x.y, y.y)
        assert np.array_equal(x.packed, y.packed)


@pytest.mark.parametrize("data", [X.to_numpy(), FRAME], ids=["array", "frame"])
@pytest.mark.parametrize("background", [1, 5])
@pytest.mark.parametrize("goal", [{"queries": 61}, {"width": 1.0}])
def test_bayesshap_asks_a_model_known_to_be_quick_once(data, background, goal):
    model = Counted(proba)
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
    model = Counted(proba)
    explainer = cx.BayesLIME(model, cx.Tabular(data, around=around))
    first = explainer.explain(FRAME.iloc[3], queries=80)
    second = explainer.explain(FRAME.iloc[3], queries=80)
    assert model.sizes == [1, 81, 82]
    same(first, second)


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize("sampler", ["random", "paired"])
def test_masks_are_asked_once(method, sampler):
    def game(masks):
        return masks @ np.arange(12.0) + masks[:, 0] * masks[:, 1]

    model = Counted(game)
    explainer = method(model, cx.Masks(12), sampler=sampler, posterior="linear")
    first = explainer.explain(queries=60)
    before = len(model.sizes)
    second = explainer.explain(queries=60)
    assert (before, len(model.sizes)) == (2, 3)
    same(first, second)


def test_equal_rows_are_still_made_once():
    rng = np.random.default_rng(0)
    data = rng.integers(0, 2, (200, 3)).astype(float)
    model = Counted(lambda rows: rows @ np.array([1.0, 2.0, 4.0]))
    explainer = cx.BayesLIME(model, data)
    first = explainer.explain(data[0], queries=100)
    second = explainer.explain(data[0], queries=100)
    assert model.sizes == [1, 9, 10]  # eight different rows
    same(first, second)


def test_a_target_of_the_call_is_remembered_too():
    model = Counted(lambda rows: FOREST.predict_proba(np.asarray(rows)))
    explainer = cx.BayesLIME(model, X.to_numpy())
    for _ in range(2):
        explainer.explain(FRAME.iloc[3], queries=40, target=1)
    assert model.sizes == [1, 41, 42]


@pytest.mark.parametrize("queries", [255, 256, 257, 258])
def test_all_coalitions_in_one_call(queries):
    model = Counted(proba)
    explainer = cx.BayesSHAP(model, cx.Tabular(X.to_numpy(), background=1), posterior="linear")
    first = explainer.explain(FRAME.iloc[3], queries=queries)
    second = explainer.explain(FRAME.iloc[3], queries=queries)
    assert len(model.sizes) == (4 if queries == 256 else 3)  # 256: no row is asked twice
    assert first.exact == second.exact == (queries >= 256)
    same(first, second)


def test_not_if_time_counts_or_there_is_one_feature():
    model = Counted(proba)
    explainer = cx.BayesSHAP(model, cx.Tabular(X.to_numpy(), background=1), posterior="linear")
    for _ in range(2):
        model.sizes.clear()
        explainer.explain(FRAME.iloc[3], stop=cx.WallClock(30.0), queries=40)
        assert model.sizes[0] == 2
    one = cx.BayesSHAP(model, cx.Masks(1), posterior="linear")
    model.model = lambda masks: masks[:, 0] * 1.0
    assert np.array_equal(one.explain(queries=3).mean, one.explain(queries=3).mean)


def test_a_slow_model_is_asked_for_one_row_first(monkeypatch):
    monkeypatch.setattr(calls, "SLOW_ROW", 0.0)
    monkeypatch.setattr(calls, "CALL_SECONDS", 0.0)
    model = Counted(proba)
    explainer = cx.BayesLIME(model, X.to_numpy())
    for _ in range(2):
        explainer.explain(FRAME.iloc[3], queries=150)
        assert model.sizes[0] == 1
        assert model.sizes[1] == calls.FIRST_CALL  # the repeated row is among them
        assert max(model.sizes) == calls.FIRST_CALL
        model.sizes.clear()


def test_a_model_that_is_slow_to_begin_only_is_not_asked_in_small_pieces():
    def slow(rows):
        time.sleep(1.5 * calls.SLOW_ROW)
        return proba(rows)

    model = Counted(slow)
    cx.BayesLIME(model, X.to_numpy()).explain(FRAME.iloc[3], queries=1000)
    assert len(model.sizes) == 3  # f(x), a first piece, the rest
    assert sum(model.sizes) == 1002


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_what_the_ends_said_is_kept_if_the_others_fail(method):
    broken = []

    def model(rows):
        if broken and len(rows) > 2:
            raise ValueError("too many rows")
        return proba(rows)

    domain = cx.Tabular(X.to_numpy(), background=1)
    explainer = method(model, domain, posterior="linear")
    good = explainer.explain(FRAME.iloc[3], queries=60)
    broken.append(True)
    with pytest.raises(ModelRaisedError, match="too many rows") as caught:
        explainer.explain(FRAME.iloc[3], queries=60)
    partial = caught.value.partial
    assert partial.prediction == good.prediction
    assert partial.n_model_rows == (2 if method is cx.BayesSHAP else 1)
    broken.clear()
    same(explainer.refine(partial, queries=60), good)


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
    for _ in range(3):
        with pytest.raises(RandomModelError):
            explainer.explain(FRAME.iloc[3], queries=60)


def test_f_of_x_is_asked_in_another_call_now_and_then():
    shift = [0.0]

    def game(masks):
        return masks @ np.arange(12.0) + shift[0] * masks.mean()  # depends on the call

    model = Counted(game)
    explainer = cx.BayesSHAP(model, cx.Masks(12), posterior="linear")
    for _ in range(calls.TRUST + 1):
        explainer.explain(queries=40)
    assert len(model.sizes) == 2 + calls.TRUST
    shift[0] = 1.0
    with pytest.raises(RandomModelError):
        explainer.explain(queries=40)


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_a_pair_that_lost_its_half_is_left_out_of_what_goes_on(method):
    def game(masks):
        return masks @ np.arange(12.0) + 5 * masks[:, 0] * masks[:, 1] + masks[:, 2:5].prod(axis=1)

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


def test_refining_with_another_explainer_asks_at_once():
    def game(masks):
        return masks @ np.arange(12.0) + masks[:, 0] * masks[:, 1]

    begun = cx.BayesSHAP(game, cx.Masks(12), posterior="linear").explain(queries=60)
    model = Counted(game)
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
    assert known.n_queries == fresh.zoom(e, most=2, width=1.0).n_queries


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

    good = method(proba, cx.Tabular(X.to_numpy(), background=1), posterior="linear")
    good.explain(FRAME.iloc[3], queries=40)
    assert good.box.trust
    for _ in range(2):
        assert good.explain(FRAME.iloc[3], queries=40, sampler=Nothing()).n_queries <= 2


def test_a_much_longer_text_is_not_taken_for_a_quick_one():
    sizes = []

    def model(texts):
        sizes.append(len(texts))
        return np.array([t.count("a") + t.count("b") * t.count("c") for t in texts], dtype=float)

    explainer = cx.BayesSHAP(model, cx.Text(unit="word"), posterior="linear")
    for _ in range(2):
        explainer.explain("a b c d e f g h", queries=30)
    assert len(sizes) == 3
    explainer.explain(" ".join(["a", "bb", "ccc"] * 20), queries=300)
    assert len(sizes) == 5


def test_breaking_off_costs_trust_too():
    model = Counted(lambda masks: masks @ np.arange(12.0) + masks[:, 0] * masks[:, 1])
    explainer = cx.BayesSHAP(model, cx.Masks(12), posterior="linear")
    explainer.explain(queries=40)
    for _ in range(calls.TRUST):
        next(explainer.iterate(width=1e-9))
    model.sizes.clear()
    next(explainer.iterate(width=1e-9))
    assert model.sizes[0] == 2
