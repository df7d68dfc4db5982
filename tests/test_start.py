"""Going on from an explanation: only of the same data, and of the same model."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

import credex as cx
from credex.errors import InputError, RandomModelError
from tests.needs import need

RNG = np.random.default_rng(1)
X = pd.DataFrame(RNG.normal(size=(120, 11)), columns=[f"v{i}" for i in range(11)])
X["city"] = RNG.choice(["Oslo", "Rome", "Bern"], len(X))
X["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(X)), unit="D")


def model(rows):
    return (rows["v0"] * rows["v1"] + rows["v2"] + (rows["city"] == "Rome")).to_numpy()


def other(rows):
    return model(rows) + 0.1 * rows["v3"].to_numpy()


def stored(e):
    return cx.Explanation.from_json(e.to_json())


WEIGHTS = np.r_[np.ones(60), np.zeros(60)]
MOVED = X.assign(day=X["day"] + pd.Timedelta("1h"))
RENAMED = X.assign(city=X["city"].replace("Bern", "Basel"))


@pytest.mark.parametrize(
    "domain",
    [
        cx.Tabular(X.iloc[20:], background=5),
        cx.Tabular(X, background=6),
        cx.Tabular(X, background=5, weights=WEIGHTS),
        cx.Tabular(MOVED, background=5),
        cx.Tabular(RENAMED, background=5),
    ],
    ids=["rows", "size", "weights", "dates", "categories"],
)
def test_bayesshap_does_not_go_on_from_another_background(domain):
    e = cx.BayesSHAP(model, cx.Tabular(X, background=5)).explain(X.iloc[3], queries=60)
    for start in (e, stored(e)):
        with pytest.raises(InputError, match="other data"):
            cx.BayesSHAP(model, domain).refine(start, queries=120)


@pytest.mark.parametrize(
    "domain",
    [
        cx.Tabular(X, bins="decile"),
        cx.Tabular(X, bins=None),
        cx.Tabular(X, around="instance"),
        cx.Tabular(X.iloc[20:]),
        cx.Tabular(X, weights=WEIGHTS),
    ],
    ids=["decile", "continuous", "around", "rows", "weights"],
)
def test_bayeslime_does_not_go_on_from_another_neighbourhood(domain):
    e = cx.BayesLIME(model, X).explain(X.iloc[3], queries=60)
    with pytest.raises(InputError, match="other data"):
        cx.BayesLIME(model, domain).refine(stored(e), queries=120)


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_the_same_data_in_another_process_will_do(method):
    domain = cx.Tabular(X.copy(), background=5)
    begun = method(model, cx.Tabular(X, background=5)).explain(X.iloc[3], queries=60)
    whole = method(model, domain).explain(X.iloc[3], queries=120)
    more = method(model, domain).refine(stored(begun), queries=120)
    assert np.array_equal(more.mean, whole.mean)
    assert more.n_model_rows == whole.n_model_rows + 1  # f(x) once more: is it the same model?


def test_the_digest_is_of_the_values_not_of_their_library():
    polars = need("polars")
    frame = X.drop(columns="day")
    a = cx.Tabular(frame, background="all").at(frame.iloc[3])
    same = polars.DataFrame({name: frame[name].tolist() for name in frame})
    b = cx.Tabular(same, background="all").at(dict(frame.iloc[3]))
    for kind in ("coalitions", "perturbations"):
        assert a.digest(kind) == b.digest(kind)


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_another_model_is_noticed(method):
    domain = cx.Tabular(X, background=5)
    e = method(model, domain).explain(X.iloc[3], queries=60)
    with pytest.raises(RandomModelError, match="it is another model"):
        method(other, domain).refine(e, queries=120)


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_the_same_explainer_asks_nothing_again(method):
    numbers = X.iloc[:, :11].to_numpy()
    forest = RandomForestRegressor(10, random_state=0).fit(numbers, numbers[:, 0])
    seen = []

    def counted(rows):
        seen.append(len(rows))
        return forest.predict(rows)

    explainer = method(counted, cx.Tabular(numbers, background=4))
    e = explainer.refine(explainer.explain(numbers[0], queries=60), queries=120)
    assert sum(seen) == e.n_model_rows
    assert e.n_model_rows == explainer.explain(numbers[0], queries=120).n_model_rows


def test_values_that_json_does_not_hold_are_explained_all_the_same():
    rng = np.random.default_rng(0)
    bands = pd.cut(rng.random(60), [0, 0.2, 0.5, 0.8, 1.0])
    frame = pd.DataFrame({"n": rng.normal(size=60), "band": bands})
    high = frame["band"] == pd.Interval(0.8, 1.0)

    def model(rows):
        return rows["n"].to_numpy() + (rows["band"].astype(str) == "(0.8, 1.0]").to_numpy()

    explainer = cx.BayesSHAP(model, frame[~high])  # a band that no training row is in
    e = explainer.explain(frame[high].iloc[0])
    assert e.mean[1] == pytest.approx(1.0)
    assert cx.Explanation.from_json(e.to_json()).mean[1] == e.mean[1]
    with pytest.raises(InputError, match="do not keep"):
        explainer.refine(e, queries=20)


def test_decimals_and_lengths_of_time_survive_json():
    rng = np.random.default_rng(0)
    lengths = pd.to_timedelta(rng.integers(0, 99, 40), unit="h")
    frame = pd.DataFrame({"n": rng.normal(size=40), "took": lengths})
    frame["price"] = [Decimal(int(i)) / 10 for i in rng.integers(0, 50, 40)]
    explainer = cx.BayesSHAP(lambda rows: rows["n"].to_numpy(), frame.iloc[:20])
    e = explainer.explain(frame.iloc[30])
    back = cx.Explanation.from_json(e.to_json())
    now, then = back.feature_values, e.feature_values
    assert now == then
    assert [type(v) for v in now] == [type(v) for v in then]
    assert str(back) == str(e)
    assert cx.BayesLIME(lambda rows: rows["n"].to_numpy(), frame).explain(frame.iloc[3]).to_json()


def test_as_many_widths_as_outputs_also_if_the_answer_is_exact():
    explainer = cx.BayesSHAP(lambda m: np.column_stack([m[:, 0], m[:, 1]]) * 1.0, cx.Masks(3))
    with pytest.raises(InputError, match="3 numbers, but the model has 2 outputs"):
        explainer.explain(width=[0.1, 0.2, 0.3])
    assert explainer.explain(width=[0.1, 0.2]).exact


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_a_batch_does_not_go_on_with_other_data(method):
    numbers = X.iloc[:, :5].to_numpy()
    calls = [0]

    def broken(rows):
        calls[0] += 1
        if calls[0] > 3:
            raise KeyboardInterrupt
        return rows[:, 0] * rows[:, 1] + rows[:, 2]

    domain = cx.Tabular(numbers, background=4)
    with pytest.raises(cx.InterruptedRun) as caught:
        method(broken, domain).explain_many(numbers[:9], queries=16, batch_rows=120)
    partial = caught.value.partial
    assert any(isinstance(item, cx.Explanation) for item in partial)
    calls[0] = -99
    moved = method(broken, cx.Tabular(2 * numbers, background=4))
    for start in (partial, replace(partial, begun={})):
        with pytest.raises(InputError, match="other data"):
            moved.explain_many(numbers[:9], queries=16, start=start)
    whole = method(broken, domain).explain_many(numbers[:9], queries=16, start=partial)
    assert len(whole) == 9


def test_explanations_stored_before_data_had_names_are_read():
    explainer = cx.BayesSHAP(model, cx.Tabular(X, background=5))
    stored_now = json.loads(explainer.explain(X.iloc[3], queries=60).to_json())
    assert len(stored_now.pop("data")) == 32
    old = cx.Explanation.from_json(json.dumps(stored_now))
    assert old.data_digest is None
    assert explainer.refine(old, queries=100).n_queries > 60


def test_texts_too_short_for_a_ranking_do_not_stop_a_batch():
    def count(texts):
        return np.array([t.count("good") - 2.0 * t.count("bad") for t in texts])

    explainer = cx.BayesSHAP(count, cx.Text(unit="word"))
    texts = ["good bad fine ok then well done", "good film", "bad good day it was not so"]
    assert len(explainer.explain_many(texts, stop=cx.RankingSettled(2, 0.9))) == 3
