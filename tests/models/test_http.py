"""Models behind HTTP: right answers or clear errors from a server that fails, every row counted."""

import pickle
import threading
import time

import numpy as np
import pandas as pd
import pytest

import credex as cx
from credex.models.http_transport import retry_after
from tests.endpoint import Endpoint, score
from tests.strategies import mixed, numbers

QUICK = {"backoff": 0.001, "timeout": 5.0}
X = numbers(60, 5)
FRAME = pd.DataFrame(X, columns=list("abcde"))


def truth(rows):
    return np.array([score(row) for row in np.asarray(rows).tolist()])


def test_arrays_and_frames_reach_mlflow_as_they_are():
    with Endpoint() as server:
        model = cx.from_http(server.url, **QUICK)
        np.testing.assert_array_equal(model(X)[:, 0], truth(X))
        np.testing.assert_array_equal(model(FRAME)[:, 0], truth(X))
        assert server.paths == ["/invocations"] * 2
        assert server.seen[0] == tuple(X[0])  # to the last bit
        assert server.connections == 1  # kept open


def test_a_mixed_frame_reaches_mlflow():
    frame = mixed(20).drop(columns="since").assign(day=pd.Timestamp("2024-05-06"))
    with Endpoint(answer=lambda row: float(row[0])) as server:
        model = cx.from_http(server.url, **QUICK)
        np.testing.assert_array_equal(model(frame)[:, 0], frame["age"])
        row = server.seen[0]
    assert isinstance(row[0], int)
    assert isinstance(row[4], bool)
    assert row[2] in ("clerk", "nurse", "pilot")
    assert row[6] == "2024-05-06T00:00:00"
    assert None in {r[5] for r in server.seen}


@pytest.mark.parametrize("tensor", [None, "input-0"])
def test_kserve(tensor):
    with Endpoint() as server:
        model = cx.from_http(f"{server.url}/v2/models/credit", tensor=tensor, **QUICK)
        np.testing.assert_array_equal(model(FRAME)[:, 0], truth(X))
        assert server.paths == ["/v2/models/credit/infer"]
        arrays = cx.from_http(f"{server.url}/v2/models/credit/infer", **QUICK)
        np.testing.assert_array_equal(arrays(X)[:, 0], truth(X))
        several = Endpoint(answer=lambda row: [row[0], row[1], 1.0])
        with several:
            model = cx.from_http(f"{several.url}/v2/models/m", **QUICK)
            assert model(X).shape == (60, 3)


def test_named_outputs_are_kept_and_classes_are_targets():
    with Endpoint(answer=lambda row: [row[0], -row[0]], names=["yes", "no"]) as server:
        model = cx.from_http(server.url, **QUICK)
        assert list(model(X).columns) == ["yes", "no"]
        e = cx.BayesSHAP(model, X).explain(X[0], queries=40)
        assert e.outputs == ("yes", "no")
        labelled = cx.from_http(server.url, classes=["ja", "nein"], **QUICK)
        e = cx.BayesSHAP(labelled, X, target="nein").explain(X[0], queries=40)
        assert e.outputs == ("nein",)


FAULTS = ["500", "503 0.01", "drop", "html", "cut", "429", "sleep 0.6", "504", "close"]


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_is_got_over_and_counted(fault):
    with Endpoint([fault]) as server:
        model = cx.from_http(server.url, backoff=0.001, timeout=0.3)
        np.testing.assert_array_equal(model(X)[:, 0], truth(X))
        again = fault != "close"
        assert server.requests == model.usage.requests == 1 + again
        assert model.usage.retries == again
        assert model.usage.rows_sent == server.rows == 60 * (1 + again)
        assert model.usage.rows_failed == 60 * again
        model(X + 1)
        assert model.usage.rows_sent == server.rows


def test_an_explanation_through_faults_is_the_same_and_counts_every_row():
    faults = ["", "500", "", "drop", "html", "", "503 0.001", "cut", "sleep 1"]
    with Endpoint(faults) as server, Endpoint() as good:
        options = {"backoff": 0.001, "timeout": 0.5, "request_rows": 40}
        e = cx.BayesSHAP(cx.from_http(server.url, **options), FRAME).explain(
            FRAME.iloc[0], queries=200
        )
        calm = cx.BayesSHAP(cx.from_http(good.url, **options), FRAME).explain(
            FRAME.iloc[0], queries=200
        )
        np.testing.assert_array_equal(e.mean, calm.mean)
        assert e.n_model_rows == server.rows
        assert calm.n_model_rows == good.rows
        assert len(set(good.seen)) == good.rows  # no row twice
        assert server.rows - good.rows == e.history.failed_rows > 0
        assert any("sent in calls that failed" in note for note in e.notes)
        assert not server.faults


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_batch_through_random_faults(concurrency):
    rng = np.random.default_rng(5)
    kinds = np.array(["", "500", "drop", "html", "503 0.001", "cut"])
    faults = rng.choice(kinds, 300, p=[0.75, 0.05, 0.05, 0.05, 0.05, 0.05]).tolist()
    with Endpoint(faults) as server:
        model = cx.from_http(server.url, backoff=0.001, request_rows=20, retry_budget=1.0)
        explainer = cx.BayesSHAP(model, FRAME, concurrency=concurrency)
        batch = explainer.explain_many(FRAME[:12], queries=60, on_error="record")
        exact = cx.BayesSHAP(truth, X).explain_many(X[:12], queries=60)
        assert batch.n_model_rows == model.usage.rows_sent == server.rows
        assert model.usage.retries > 5
        for e, one in zip(batch, exact, strict=True):
            np.testing.assert_allclose(e.mean, one.mean, rtol=1e-9)


def test_errors_of_rows_are_recorded_within_the_budget():
    with Endpoint(["500"] * 14) as server:
        model = cx.from_http(server.url, retries=3, backoff=0.0, retry_budget=0.0, give_up=50)
        explainer = cx.BayesSHAP(model, FRAME)
        batch = explainer.explain_many(FRAME[:3], queries=30, on_error="record")
        assert model.usage.retries == 10  # the free ones; none of the budget's share
        assert server.requests == model.usage.requests
        assert batch.n_model_rows == server.rows
    with Endpoint(["500"] * 9) as server:
        model = cx.from_http(server.url, retries=1, backoff=0.0, give_up=50)
        explainer = cx.BayesSHAP(model, FRAME)
        batch = explainer.explain_many(FRAME[:6], queries=30, on_error="record")
        bad = [item for item in batch.items if isinstance(item, cx.Failure)]
        assert 0 < len(bad) < 6
        assert "failed: 500 Internal Server Error: no luck (after 2 tries)" in str(bad[0].error)
        assert batch.n_model_rows == server.rows


def test_an_endpoint_that_is_gone_stops_the_batch_and_can_be_gone_on_from(tmp_path):
    pytest.importorskip("pyarrow")
    goals = {"queries": 30, "partition_rows": 4}
    with Endpoint() as server:
        expected = cx.BayesSHAP(cx.from_http(server.url), FRAME).explain_many(
            FRAME[:12], out=tmp_path / "whole", **goals
        )
    with Endpoint([""] * 2 + ["503"] * 100) as server:
        model = cx.from_http(server.url, retries=1, backoff=0.0, give_up=3, request_rows=200)
        explainer = cx.BayesSHAP(model, FRAME)
        with pytest.raises(cx.StoppedRun, match=r"3 calls in a row failed.*503.*resume=True"):
            explainer.explain_many(FRAME[:12], out=tmp_path / "out", **goals)
        saved = cx.read_batch(tmp_path / "out")
        assert not saved.complete
        assert len(saved.errors) == 0  # the outage is no error of a row
        server.faults.clear()
        done = explainer.explain_many(FRAME[:12], out=tmp_path / "out", resume=True, **goals)
        pd.testing.assert_frame_equal(done.to_frame(), expected.to_frame())


def test_no_connection_counts_no_rows():
    with Endpoint() as server:
        url = server.url
    model = cx.from_http(url, retries=2, backoff=0.0)
    with pytest.raises(cx.ModelRaisedError, match=r"no connection.*after 3 tries"):
        cx.BayesSHAP(model, FRAME).explain(FRAME.iloc[0], queries=30)
    assert model.usage.rows_sent == 0


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("400", r"refused the rows: 400 Bad Request: no luck$"),
        ("301", "elsewhere"),
        ("short", "59 predictions for 60 rows"),
    ],
)
def test_faults_that_do_not_pass_are_not_tried_again(fault, words):
    with Endpoint([fault]) as server:
        model = cx.from_http(server.url, **QUICK)
        with pytest.raises(cx.CredexError, match=words) as info:
            model(X)
        assert server.requests == 1
        assert info.value.rows_sent == 60


def test_answers_of_another_shape_say_which_protocol():
    with Endpoint() as server:
        with pytest.raises(cx.ModelOutputError, match=r"no 'outputs'.*protocol='mlflow'"):
            cx.from_http(server.url, protocol="kserve", **QUICK)(X)
        with pytest.raises(cx.ModelOutputError, match=r"no list of 'predictions'.*kserve"):
            cx.from_http(f"{server.url}/v2/models/m/infer", protocol="mlflow", **QUICK)(X)
    labels = Endpoint(answer=lambda row: "good")
    with labels, pytest.raises(cx.ModelOutputError, match="labels: let it return probabilities"):
        cx.from_http(labels.url, **QUICK)(X)


def test_a_row_is_never_paid_twice():
    with Endpoint() as server:
        model = cx.from_http(server.url, **QUICK)
        model(np.concatenate([X, X[:10]]))
        model(X[20:40])
        assert server.rows == 60
        assert model.usage.rows_kept == 30
        pickle.loads(pickle.dumps(model))(X)  # answers in memory do not travel
        assert server.rows == 120


def test_a_row_that_is_on_its_way_is_not_sent_again():
    with Endpoint(slow=0.1) as server:
        model = cx.from_http(server.url, **QUICK)
        e = cx.BayesSHAP(model, X[:4], concurrency=6).explain(X[5], queries=60)
        assert server.most_at_once > 1
        assert len(set(server.seen)) == server.rows == e.n_model_rows


def test_answers_in_a_file_serve_later_runs(tmp_path):
    file = tmp_path / "answers.sqlite"
    with Endpoint() as server:
        cx.from_http(server.url, cache=file, **QUICK)(X)
        later = cx.from_http(server.url, cache=file, **QUICK)
        np.testing.assert_array_equal(later(X)[:, 0], truth(X))
        assert server.rows == 60
        e = cx.BayesSHAP(later, X).explain(X[0], queries=40)
        assert e.n_model_rows == server.rows - 60
    (tmp_path / "text").write_text("no database, but long enough to look like something else" * 9)
    with pytest.raises(cx.InputError, match="cannot be kept"):
        cx.from_http(server.url, cache=tmp_path / "text")


def test_names_and_outputs_are_kept_with_the_answers(tmp_path):
    file = tmp_path / "answers.sqlite"
    with Endpoint(answer=lambda row: [row[0], -row[0]], names=["yes", "no"]) as server:
        cx.from_http(server.url, cache=file, **QUICK)(X)
        assert list(cx.from_http(server.url, cache=file, **QUICK)(X).columns) == ["yes", "no"]
        assert server.rows == 60
    with Endpoint() as server:
        address = f"{server.url}/v2/models/m"
        cx.from_http(address, cache=file, **QUICK)(X)
        cx.from_http(address, cache=file, output="y", **QUICK)(X)  # may be another one
        assert server.rows == 120


def test_closing_ends_requests_that_wait():
    with Endpoint(slow=5.0) as server:
        model = cx.from_http(server.url, timeout=60.0)
        threading.Timer(0.3, model.close).start()
        begun = time.monotonic()
        with pytest.raises(cx.ModelRaisedError, match="it was closed"):
            model(X)
        assert time.monotonic() - begun < 4


def test_memory_of_answers_is_bounded_and_can_be_off():
    with Endpoint() as server:
        model = cx.from_http(server.url, cache=10, **QUICK)
        model(X)
        assert len(model._answers) == 10
        model(X[50:])
        assert server.rows == 60
        model(X[:5])
        assert server.rows == 65
        off = cx.from_http(server.url, cache=None, **QUICK)
        off(X[:1].repeat(3, axis=0))
        assert server.rows == 68


def test_the_ceiling_on_rows_is_hard_and_keeps_what_was_asked():
    with Endpoint(["500", "drop"]) as server:
        model = cx.from_http(server.url, request_rows=20, max_rows=130, **QUICK)
        with pytest.raises(cx.StoppedRun, match=r"max_rows=130 is reached") as info:
            cx.BayesSHAP(model, FRAME).explain(FRAME.iloc[0], queries=500)
        assert server.rows == model.usage.rows_sent <= 130
        assert info.value.partial.n_model_rows == server.rows
        assert info.value.partial.stop_reason == "interrupted"


def test_concurrent_calls_stay_below_the_ceiling():
    with Endpoint(slow=0.005) as server:
        model = cx.from_http(server.url, request_rows=7, max_rows=100, **QUICK)
        with pytest.raises(cx.StoppedRun):
            cx.BayesSHAP(model, FRAME, concurrency=4).explain_many(FRAME[:20], queries=100)
        assert server.rows <= 100


def test_rate_limit():
    with Endpoint() as server:
        model = cx.from_http(server.url, request_rows=10, rate=50, **QUICK)
        model(X)
        gaps = np.diff(server.times)
        assert len(gaps) == 5
        assert server.times[-1] - server.times[0] >= 5 / 50 - 0.01


def test_retry_after_is_honoured_and_bounded():
    with Endpoint(["503 0.2"]) as server:
        cx.from_http(server.url, **QUICK)(X)
        assert server.times[1] - server.times[0] >= 0.2
    with Endpoint(["503 3600"]) as server:
        with pytest.raises(cx.ModelRaisedError, match="asks to wait 3600 s, longer than 60 s"):
            cx.from_http(server.url, **QUICK)(X)
        assert server.requests == 1
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert retry_after("soon") is None


def test_a_slow_answer_ends_at_the_time_limit():
    with Endpoint(slow=3.0) as server:
        begun = time.monotonic()
        with pytest.raises(cx.ModelRaisedError, match=r"no answer within 0.2 s"):
            cx.from_http(server.url, timeout=0.2, retries=0)(X)
        assert time.monotonic() - begun < 2.0


def test_a_token_is_sent_and_neither_shown_nor_kept(monkeypatch):
    monkeypatch.setenv("SCORING_TOKEN", "hush-hush")
    with Endpoint(["418"]) as server:
        url, name = server.url + "/score?key=secret", "SCORING_TOKEN"
        model = cx.from_http(url, token_env=name, headers={"X-K": "psst"})
        with pytest.raises(cx.ModelRaisedError) as info:
            model(X)
        assert "you said Bearer ***" in str(info.value)
        e = cx.BayesSHAP(model, X).explain(X[0], queries=30)
        assert server.headers[0]["Authorization"] == "Bearer hush-hush"
        assert server.headers[0]["X-K"] == "psst"
    shown = repr(model) + str(info.value) + e.to_json()
    assert not any(secret in shown for secret in ("hush", "psst", "secret"))
    assert b"hush" not in pickle.dumps(model)
    monkeypatch.delenv("SCORING_TOKEN")
    with pytest.raises(cx.InputError, match=r"'SCORING_TOKEN'.*is not set"):
        model(X + 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "ftp://host"}, "http"),
        ({"url": "http://me:secret@host"}, "token_env"),
        ({"protocol": "grpc"}, "'mlflow' or 'kserve'"),
        ({"tensor": "x"}, "kserve"),
        ({"retries": -1}, "retries must be"),
        ({"timeout": 0}, "timeout must be"),
        ({"max_rows": 0}, "max_rows must be"),
        ({"cache": 0}, "cache must be"),
    ],
    ids=str,
)
def test_arguments_are_checked(options, words):
    with pytest.raises(cx.InputError, match=words):
        cx.from_http(**{"url": "http://host", **options})


def test_what_json_cannot_hold_is_refused():
    with Endpoint() as server:
        with pytest.raises(cx.InputError, match="inf cannot be sent as JSON"):
            cx.from_http(server.url, **QUICK)(FRAME.assign(a=np.inf))
        with pytest.raises(cx.InputError, match=r"'a' has missing values.*KServe"):
            cx.from_http(f"{server.url}/v2/models/m", **QUICK)(FRAME.assign(a=np.nan))
        assert server.requests == 0
