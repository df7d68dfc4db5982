"""Long runs: progress, calls at the same time, batches saved and loaded."""

import threading
import time

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import credex as cx
from tests.strategies import Bumpy, Counting, numbers


class Waits:
    """A model that answers after a while, as one behind a network does; any number at once."""

    def __init__(self, seconds=0.05):
        self.seconds, self.lock = seconds, threading.Lock()
        self.now = self.most = self.rows = self.calls = 0

    def __call__(self, rows):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.rows += len(rows)
            self.calls += 1
        time.sleep(self.seconds)
        with self.lock:
            self.now -= 1
        return Bumpy(6)(rows)


X = numbers(40, 6)


@pytest.mark.parametrize("cls", [cx.BayesSHAP, cx.BayesLIME])
def test_calls_at_the_same_time_give_the_same_numbers(cls):
    domain = cx.Tabular(X, background=3)
    alone = cls(Bumpy(6), domain).explain(X[0], queries=60)
    model = Waits()
    e = cls(model, domain, concurrency=4).explain(X[0], queries=60, batch_rows=7)
    np.testing.assert_array_equal(e.mean, alone.mean)
    np.testing.assert_array_equal(e.interval().lower, alone.interval().lower)
    assert model.most == 4
    assert model.rows == e.n_model_rows
    model = Waits()
    batch = cls(model, domain, concurrency=3).explain_many(X[:5], queries=60)
    assert model.most == 3
    assert (batch.n_model_rows, batch.n_calls) == (model.rows, model.calls)
    whole = cls(Bumpy(6), domain).explain_many(X[:5], queries=60)
    np.testing.assert_array_equal(batch.mean, whole.mean)


def test_an_error_among_calls_at_the_same_time():
    def touchy(rows):
        if np.any(np.asarray(rows)[:, 0] == 7.0):
            message = "seven!"
            raise ValueError(message)
        return Bumpy(6)(rows)

    rows = X[:4].copy()
    rows[1, 0] = 7.0
    model = Counting(touchy)
    explainer = cx.BayesSHAP(model, cx.Tabular(X, background=3), concurrency=3)
    batch = explainer.explain_many(rows, queries=40, on_error="record")
    assert list(batch.errors) == [1]
    assert batch.n_model_rows == model.rows
    alone = cx.BayesSHAP(Bumpy(6), cx.Tabular(X, background=3)).explain(rows[2], queries=40)
    np.testing.assert_array_equal(batch[2].mean, alone.mean)
    with pytest.raises(cx.ModelRaisedError, match="seven"):
        explainer.explain(rows[1], queries=40)


def test_concurrency_is_checked():
    with pytest.raises(cx.InputError, match="concurrency must be a whole number ≥ 1; got 0"):
        cx.BayesSHAP(Bumpy(6), X, concurrency=0)


def test_progress_of_one_explanation(capfd, monkeypatch):
    explainer = cx.BayesSHAP(Waits(0.01), cx.Tabular(X, background=1), batch_rows=10)
    plain = explainer.explain(X[1], queries=60)
    assert capfd.readouterr().err == ""  # a pipe
    shown = explainer.explain(X[1], queries=60, progress=True)
    np.testing.assert_array_equal(shown.mean, plain.mean)
    said = capfd.readouterr().err
    assert "explaining" in said
    assert "row/s" in said
    assert "queries" in said  # why it stopped
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    explainer.explain(X[1], queries=60)
    assert capfd.readouterr().err == ""  # done in less than a second
    monkeypatch.setattr("credex.progress.DELAY", 0.0)
    explainer.explain(X[1], queries=60)
    assert "explaining" in capfd.readouterr().err
    explainer.explain(X[1], queries=60, progress=False)
    assert capfd.readouterr().err == ""


def test_a_batch_is_saved_and_loaded(tmp_path):
    forest = RandomForestClassifier(4, random_state=0, n_jobs=1).fit(X, X[:, 0] > 0)
    explainer = cx.BayesSHAP(forest, cx.Tabular(X, background=2), target=True)
    rows = X[:3].copy()
    rows[1, 2] = np.nan
    batch = explainer.explain_many(rows, queries=30, on_error="record")
    file = tmp_path / "batch.jsonl"
    batch.save(file)
    again = cx.Explanations.load(file)
    np.testing.assert_array_equal(again.mean, batch.mean)
    np.testing.assert_array_equal(again.interval().upper, batch.interval().upper)
    assert str(again.errors[1]) == str(batch.errors[1])
    assert isinstance(again.errors[1].error, cx.InputError)
    assert again.n_model_rows == batch.n_model_rows
    assert explainer.refine(again[0], queries=60).n_queries > batch[0].n_queries
    assert explainer.explain_many(X[:3], start=again, queries=30).complete
    assert [p.name for p in tmp_path.iterdir()] == ["batch.jsonl"]
    file.write_text("nothing")
    with pytest.raises(cx.InputError, match="not a saved batch"):
        cx.Explanations.load(file)
    file.write_text('{"format": "credex-explanations", "version": 9}\n')
    with pytest.raises(cx.InputError, match="version 9"):
        cx.Explanations.load(file)
