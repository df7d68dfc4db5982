"""The short way through a run gives what the talk gives, and fails as it does."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import credex as cx
from credex import calls, engine
from credex.estimators.surrogate import SurrogateRecipe

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X.iloc[:, :6].set_axis(list("abcdef"), axis=1)
FOREST = RandomForestClassifier(20, random_state=0).fit(X.to_numpy(), Y)
MIXED = X.assign(
    f=np.where(X["f"] > X["f"].median(), "high", "low"),
    when=pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(X)) % 7, unit="D"),
)
FEW = (X.median() < X).astype(float)


def proba(rows):
    return FOREST.predict_proba(np.asarray(rows))[:, 1]


def both(rows):
    return FOREST.predict_proba(np.asarray(rows))


def mixed(frame):
    late = (frame["when"] - pd.Timestamp("2020-01-01")).dt.days
    return (frame["a"] * (frame["f"] == "high") / 20 + 0.01 * late).to_numpy()


def told(e):
    """All that an explanation says, but the time it took."""
    out = json.loads(e.to_json())
    for name in ("seconds", "model_seconds"):
        out.pop(name)
        out["asked"].pop(name, None)
    return out


@pytest.fixture
def talks(monkeypatch):
    """How many runs were talks."""
    seen = []
    run = engine.run

    def counted(*args, **kwargs):
        seen.append(1)
        return run(*args, **kwargs)

    monkeypatch.setattr(engine, "run", counted)
    for limit in ("SLOW_ROW", "CALL_SECONDS"):  # a busy machine makes no model slow
        monkeypatch.setattr(calls, limit, np.inf)
    return seen


CASES = {
    "array": (proba, X.to_numpy(), {}),
    "frame": (proba, X, {}),
    "mixed frame": (mixed, MIXED, {}),
    "few values": (lambda rows: rows @ np.arange(6.0), FEW.to_numpy(), {}),
    "two outputs": (both, X.to_numpy(), {}),
    "a target": (FOREST, X.to_numpy(), {"target": 1}),
    "log-odds": (proba, X.to_numpy(), {"link": "logit"}),
    "three features": (proba, X.to_numpy(), {"features": 3}),
    "paper": (proba, X.to_numpy(), {"recipe": "paper"}),
    "not robust": (proba, X.to_numpy(), {"robust": False}),
    "process": (proba, X.to_numpy(), {"posterior": "gp"}),
    "prior": (
        proba,
        X.to_numpy(),
        {"prior": cx.Prior(mean=[0.1] * 6, precision=[5.0, 1, 1, 1, 1, 0.5])},
    ),
    "flat prior": (proba, X.to_numpy(), {"prior": cx.Prior(precision=0.0)}),
    "kernel": (proba, X.to_numpy(), {"kernel": cx.Exponential(width=1.0)}),
    "numbers": (proba, cx.Tabular(X.to_numpy(), bins=None), {}),
    "around": (proba, cx.Tabular(X.to_numpy(), around="instance"), {}),
    "groups": (proba, cx.Tabular(X, groups={"ab": ["a", "b"]}), {}),
    "weights": (proba, cx.Tabular(X.to_numpy(), weights=np.arange(len(X)) + 1.0), {}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("queries", [61, 80])
def test_it_says_what_the_talk_says(name, queries, talks):
    model, data, options = CASES[name]
    x = (MIXED if name == "mixed frame" else FEW if name == "few values" else X).iloc[7]
    explainer = cx.BayesLIME(model, data, **options)
    first = explainer.explain(x, queries=queries)
    second, third = (explainer.explain(x, queries=queries) for _ in range(2))
    assert len(talks) == 1
    assert told(first) == told(second) == told(third)
    longer = [explainer.refine(e, queries=2 * queries) for e in (first, second)]
    assert told(longer[0]) == told(longer[1])


@pytest.mark.parametrize(
    "options",
    [{"width": 0.2}, {"queries": 60, "noisy": True}, {"queries": 60, "stop": cx.WallClock(60.0)}],
)
def test_a_talk_where_something_is_decided_on_the_way(options, talks):
    explainer = cx.BayesLIME(proba, X.to_numpy())
    for _ in range(3):
        explainer.explain(X.iloc[7], **options)
    assert len(talks) == 3


def test_a_batch_and_an_explanation_agree():
    explainer = cx.BayesLIME(proba, X.to_numpy())
    alone = [explainer.explain(x, queries=70) for x in X.to_numpy()[:4]]
    for e, other in zip(alone, explainer.explain_many(X.to_numpy()[:4], queries=70), strict=True):
        np.testing.assert_array_equal(e.mean, other.mean)
        np.testing.assert_array_equal(e.interval().lower, other.interval().lower)


@pytest.mark.parametrize("where", ["model", "fit"])
def test_an_interruption_loses_nothing(where, monkeypatch):
    stop = []

    def model(rows):
        if stop and where == "model":
            raise KeyboardInterrupt
        return proba(rows)

    explainer = cx.BayesLIME(model, X.to_numpy())
    good = explainer.explain(X.iloc[7], queries=60)
    stop.append(True)
    if where == "fit":
        fit = SurrogateRecipe.fit

        def interrupted(self):
            if stop:
                stop.clear()
                raise KeyboardInterrupt
            return fit(self)

        monkeypatch.setattr(SurrogateRecipe, "fit", interrupted)
    with pytest.raises(cx.InterruptedRun, match="partial") as caught:
        explainer.explain(X.iloc[7], queries=60)
    partial = caught.value.partial
    assert partial.stop_reason == "interrupted"
    assert partial.n_queries == (60 if where == "fit" else 0)
    stop.clear()
    np.testing.assert_array_equal(explainer.refine(partial, queries=60).mean, good.mean)


def test_a_model_that_fails_once_is_not_trusted(talks):
    fails = []

    def model(rows):
        if fails:
            fails.clear()
            raise ValueError("out of memory")
        return proba(rows)

    explainer = cx.BayesLIME(model, X.to_numpy())
    good = explainer.explain(X.iloc[7], queries=60)
    fails.append(True)
    assert told(explainer.explain(X.iloc[7], queries=60)) == told(good)
    assert len(talks) == 2


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("method", [cx.BayesLIME, cx.BayesSHAP])
def test_a_model_that_always_returns_the_same_array(method, outputs):
    memory = np.empty((1000, outputs))
    w = np.random.default_rng(0).normal(size=(6, outputs))

    def model(rows):
        out = memory[: len(rows)]
        np.tanh(rows @ w / 50, out=out)
        return out[:, 0] if outputs == 1 else out

    def honest(rows):
        return model(rows).copy()

    domain = cx.Tabular(X.to_numpy(), background=1)
    shared, own = (method(f, domain, posterior="linear") for f in (model, honest))
    made = [(shared.explain(x, queries=60), own.explain(x, queries=60)) for x in X.to_numpy()[:3]]
    for e, good in made:
        assert told(e) == told(good)
        assert told(shared.refine(e, queries=90)) == told(own.refine(good, queries=90))


def test_a_model_that_writes_into_its_rows():
    def model(rows):
        out = proba(rows)
        rows[:] = 0.0
        return out

    honest, spoiling = (cx.BayesLIME(f, X.to_numpy()) for f in (proba, model))
    for x in X.to_numpy()[:4]:
        assert told(honest.explain(x, queries=60)) == told(spoiling.explain(x, queries=60))


def test_options_of_a_call_are_not_those_of_the_next():
    explainer = cx.BayesLIME(proba, X.to_numpy())
    plain = explainer.explain(X.iloc[7], queries=60)
    other = explainer.explain(X.iloc[7], queries=60, seed=5, level=0.5)
    assert (other.level, other.settings["seed"]) == (0.5, 5)
    assert told(explainer.explain(X.iloc[7], queries=60)) == told(plain)
    twin = copy.copy(explainer)
    twin.options = replace(explainer.options, level=0.8)
    assert twin.explain(X.iloc[7], queries=60).level == 0.8


def test_a_model_found_out_in_one_call_keeps_what_it_said():
    odd = []

    def model(rows):
        out = proba(rows)
        out[-1] += 1e-3 * len(odd)  # the last row, once
        odd.clear()
        return out

    explainer = cx.BayesLIME(model, X.to_numpy())
    good = explainer.explain(X.iloc[7], queries=60)
    odd.append(True)
    with pytest.raises(cx.RandomModelError, match="for the same row") as caught:
        explainer.explain(X.iloc[7], queries=60)
    partial = caught.value.partial
    assert (partial.n_queries, partial.stop_reason) == (60, "model error")
    np.testing.assert_array_equal(partial.mean, good.mean)
    assert explainer.box.trust == 0


@pytest.mark.parametrize("method", [cx.BayesLIME, cx.BayesSHAP])
@pytest.mark.parametrize("many", [True, False])
def test_data_that_change_later_do_not_change_what_was_explained(method, many):
    explainer = method(proba, cx.Tabular(X.to_numpy(), background=5), posterior="linear")
    rows, kept = X.to_numpy()[:3].copy(), X.to_numpy()[:3].copy()
    if many:
        e = explainer.explain_many(rows, queries=60)[0]
    else:
        e = explainer.explain(rows[0], queries=60)
    rows[:] = -9.0
    assert told(e)["values"] == e.payload["values"] == kept[0].tolist()
    again = explainer.refine(e, queries=200)
    np.testing.assert_allclose(
        again.mean, explainer.refine(explainer.explain(kept[0], queries=60), queries=200).mean
    )


def test_a_kernel_may_write_into_what_it_is_given():
    class Written:
        def weights(self, design, origin):
            origin -= 0.5
            return np.ones(len(design))

    explainer = cx.BayesLIME(proba, X.to_numpy(), kernel=Written())
    e = [explainer.explain(X.iloc[7], queries=60) for _ in range(3)]
    assert told(e[0])["mean"] == told(e[2])["mean"]
