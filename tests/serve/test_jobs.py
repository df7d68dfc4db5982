"""Explanations through the server: the same numbers, watched, stopped, continued, shared."""

import time

import numpy as np
import pytest

import credex as cx
from tests.needs import need

need("starlette")
need("uvicorn")

from credex.serve import jobs  # noqa: E402
from tests.serve.live import WAIT, Gate, live, people, read, risk  # noqa: E402

NEVER = {"kind": "width", "value": 1e-9, "max_queries": 100_000}  # a goal that is not met
SMALL = {"batch_rows": 8}  # many calls, so that there is something to stop


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_the_stream_ends_with_what_explain_returns(method):
    X = people()
    goal = {"kind": "width", "value": 0.08, "level": 0.9}
    with live(method(risk, X, seed=3), X) as client:
        job = client.start(4, goal=goal)
        *_, last = client.events(job)
        e = client.explanation(job)
    expected = method(risk, X, seed=3).explain(X.iloc[4], width=0.08, level=0.9)
    assert last["status"] == "done"
    assert last["converged"] == expected.converged
    assert last["rows"] == e.n_model_rows == expected.n_model_rows
    assert last["queries"] == expected.n_queries
    assert np.array_equal(e.mean, expected.mean)
    assert np.array_equal(e.interval().lower, expected.interval().lower)
    assert e.stop_reason == expected.stop_reason
    shown = last["explanation"]["outputs"][0]
    assert np.allclose(shown["mean"], expected.mean[shown["features"]], rtol=1e-6)


def test_without_a_goal_the_proposed_one_is_used():
    X = people()
    for width in (None, 0.1):
        with live(cx.BayesSHAP(risk, X), X, width=width) as client:
            job = client.start(0)
            assert client.end(job)["converged"]
            e = client.explanation(job)
        assert np.array_equal(e.mean, cx.BayesSHAP(risk, X).explain(X.iloc[0], width=width).mean)


def test_intervals_arrive_while_the_model_is_still_asked():
    X, gate = people(), Gate()
    with live(cx.BayesSHAP(gate, X), X) as client:
        widths, running = [], 0
        for event in client.events(client.start(0)):
            if event["explanation"] is not None and event["status"] == "running":
                running += 1
                gate.through.set()  # the model waits until an interval has been seen
            widths = [width for _, width in event["trace"]]
    assert running >= 1
    assert event["status"] == "done"
    assert len(widths) >= 2
    assert widths[-1] < 0.7 * widths[0]


def test_stop_ends_the_model_calls_and_keeps_what_was_learned():
    X, gate = people(), Gate()
    with live(cx.BayesSHAP(gate, X, **SMALL), X) as client:
        job = client.start(0, goal=NEVER)
        assert gate.entered.wait(WAIT)
        client.stop(job)
        calls = gate.calls
        gate.through.set()
        last = client.end(job)
        assert last["status"] == "stopped"
        assert last["message"] == "stopped in the page"
        assert gate.calls == calls
        e = client.explanation(job)
        assert e.stop_reason == "interrupted"
        assert e.n_model_rows == last["rows"] == gate.rows

        more = client.start(0, goal={"kind": "queries", "value": 300}, resume=True)
        assert more != job
        assert client.end(more)["status"] == "done"
        longer = client.explanation(more)
    assert longer.n_queries >= 299  # or one short of a pair
    assert longer.n_model_rows == gate.rows  # nothing was asked again
    assert np.max(longer.interval().width) < np.max(e.interval().width)


def test_a_goal_that_fails_does_not_lose_what_was_learned():
    X, gate = people(), Gate(after=10**9)
    with live(cx.BayesSHAP(gate, X), X) as client:
        first = client.start(0, goal={"kind": "queries", "value": 100})
        looks = client.end(first)["trace"]
        bad = client.start(0, goal={"kind": "queries", "value": 2}, resume=True)
        events = list(client.events(bad))
        assert events[-1]["status"] == "failed"
        assert any(event["explanation"] for event in events)
        assert client.explanation(bad).n_queries == client.explanation(first).n_queries
        more = client.start(0, goal={"kind": "queries", "value": 200}, resume=True)
        last = client.end(more)
        assert last["trace"][: len(looks)] == looks
        assert len(last["trace"]) > len(looks)
        assert client.explanation(more).n_model_rows == last["rows"] == gate.rows


def test_stopping_twice_or_after_the_end_changes_nothing():
    X = people()
    with live(cx.BayesSHAP(risk, X), X) as client:
        job = client.start(0)
        last = client.end(job)
        client.stop(job)
        client.stop(job)
        assert client.end(job) == last


def test_two_clients_share_one_job():
    X, gate = people(), Gate()
    with live(cx.BayesSHAP(gate, X), X) as client:
        first, second = client.start(0), client.start(0)
        assert first == second
        streams = [client.open(f"api/jobs/{first}/events") for _ in range(2)]
        gate.through.set()
        ends = []
        for stream in streams:
            with stream:
                *_, last = read(stream)
            ends.append(last)
        assert ends[0] == ends[1]
        rows = gate.rows
        assert rows == ends[0]["rows"]
        assert client.start(0) == first  # done: the answer is known
        assert gate.rows == rows


def test_another_goal_for_the_same_row_replaces_the_job():
    X, gate = people(), Gate()
    with live(cx.BayesSHAP(gate, X, **SMALL), X) as client:
        old = client.start(0, goal=NEVER)
        assert gate.entered.wait(WAIT)
        new = client.start(0, goal={"kind": "queries", "value": 80})
        gate.through.set()
        assert new != old
        last = client.end(old)
        assert (last["status"], "another goal" in last["message"]) == ("stopped", True)
        assert client.end(new)["status"] == "done"


def test_a_job_ends_when_nobody_watches():
    X, gate = people(), Gate()
    with live(cx.BayesSHAP(gate, X, **SMALL), X) as client:
        job = client.jobs.get(client.start(0, goal=NEVER))
        stream = client.open(f"api/jobs/{job.id}/events")
        assert gate.entered.wait(WAIT)
        client.jobs.grace = 0.02
        assert job.going
        stream.close()  # while the model is asked and nothing is sent
        assert job._cancelled.wait(WAIT)
        calls = gate.calls
        gate.through.set()
        wait_for(lambda: job.progress.ended)
    assert job.progress.message == "nobody was watching"
    assert gate.calls == calls


def test_a_job_that_is_never_watched_ends():
    X = people()
    with live(cx.BayesSHAP(risk, X, **SMALL), X, grace=0.02) as client:
        job = client.jobs.get(client.start(0, goal=NEVER))
        wait_for(lambda: job.progress.ended)
    assert job.progress.message == "nobody was watching"


def test_a_job_goes_on_while_somebody_watches():
    X, gate = people(), Gate()
    with live(cx.BayesSHAP(gate, X), X) as client:
        name = client.start(0)
        job = client.jobs.get(name)
        stays, leaves = (client.open(f"api/jobs/{name}/events") for _ in range(2))
        client.jobs.grace = 0.02
        leaves.close()
        wait_for(lambda: len(job._changed) == 1)
        time.sleep(0.1)  # five times the grace
        gate.through.set()
        with stays:
            *_, last = read(stays)
    assert last["status"] == "done"


def test_jobs_wait_for_a_thread_and_too_many_are_refused(monkeypatch):
    monkeypatch.setattr(jobs, "MAX_WAITING", 1)
    X, gate = people(), Gate(after=0)
    with live(cx.BayesSHAP(gate, X), X, jobs=1) as client:
        first = client.start(0)
        assert gate.entered.wait(WAIT)
        second = client.start(1)
        assert client.get("api/info")["rows"] == len(X)  # the model does not block the server
        assert next(client.events(second))["status"] == "waiting"
        code, said, _ = client.refused("api/jobs", {"row": 2})
        assert code == 503
        assert "1 explanations are running and 1 waiting" in said
        assert client.refused("api/jobs", {"row": 0, "goal": NEVER})[0] == 503  # does not stop it
        gate.through.set()
        assert client.end(first)["status"] == "done"
        assert client.end(second)["status"] == "done"


def test_a_waiting_job_can_be_stopped():
    X, gate = people(), Gate(after=0)
    with live(cx.BayesSHAP(gate, X), X, jobs=1) as client:
        first = client.start(0)
        assert gate.entered.wait(WAIT)
        second = client.start(1)
        client.stop(second)
        assert client.end(second)["status"] == "stopped"
        calls = gate.calls
        gate.through.set()
        client.end(first)
        assert client.refused(f"api/jobs/{second}/explanation.json")[0] == 409
    assert gate.calls > calls


def test_old_results_are_dropped(monkeypatch):
    monkeypatch.setattr(jobs, "MAX_KEPT", 2)
    X = people()
    with live(cx.BayesSHAP(risk, X), X) as client:
        names = []
        for row in range(4):
            names.append(client.start(row, goal={"kind": "queries", "value": 40}))
            client.end(names[-1])
            wait_for(lambda: not client.jobs.get(names[-1]).watched)
        assert client.refused(f"api/jobs/{names[0]}/events")[0] == 404
        assert client.explanation(names[-1]).n_queries <= 40


def test_a_model_that_raises_is_reported_without_a_traceback():
    X = people()

    def broken(frame):
        raise ValueError("no <b>network</b>")

    with live(cx.BayesSHAP(broken, X), X) as client:
        last = client.end(client.start(0))
    assert last["status"] == "failed"
    assert "no <b>network</b>" in last["message"]
    assert "Traceback" not in last["message"]
    assert last["explanation"] is None


def test_a_model_that_fails_later_leaves_what_it_had_answered():
    X, rows = people(), [0]

    def tired(frame):
        rows[0] += len(frame)
        if rows[0] > 100:
            raise ConnectionError("gone")
        return risk(frame)

    with live(cx.BayesSHAP(tired, X, **SMALL), X) as client:
        job = client.start(0, goal=NEVER)
        last = client.end(job)
        assert (last["status"], "gone" in last["message"]) == ("failed", True)
        assert last["explanation"]["outputs"][0]["mean"]
        assert client.explanation(job).stop_reason == "model error"


def test_a_budget_that_is_too_small_is_explained():
    X = people()
    with live(cx.BayesSHAP(risk, X), X) as client:
        last = client.end(client.start(0, goal={"kind": "queries", "value": 2}))
    assert last["status"] == "failed"
    assert "queries=2 is too few" in last["message"]


def test_an_error_of_our_own_is_logged_not_shown(monkeypatch, caplog):
    X = people()
    explainer = cx.BayesSHAP(risk, X)
    monkeypatch.setattr(explainer, "_watched", lambda *_: 1 / 0, raising=False)
    with live(explainer, X) as client:
        last = client.end(client.start(0))
    assert last["message"] == "ZeroDivisionError: division by zero"
    assert "Traceback" in caplog.text


def test_concurrent_model_calls_can_be_stopped():
    X, gate = people(), Gate()
    with live(cx.BayesSHAP(gate, X, concurrency=2, batch_rows=4), X) as client:
        job = client.start(0, goal=NEVER)
        assert gate.entered.wait(WAIT)
        client.stop(job)
        gate.through.set()
        assert client.end(job)["status"] == "stopped"
        calls = gate.calls
        assert (
            client.end(client.start(1, goal={"kind": "queries", "value": 60}))["status"] == "done"
        )
    assert gate.rows < 400
    assert gate.calls > calls


def test_edited_copies_are_jobs_of_their_own_and_can_be_compared():
    X = people()
    with live(cx.BayesSHAP(risk, X), X) as client:
        original, edited = client.start(5), client.start(5, edits={"0": "25", "2": 0})
        assert original != edited
        assert client.start(5, edits={"2": 0, "0": "25"}) == edited
        for job in (original, edited):
            assert client.end(job)["status"] == "done"
        a, b = client.explanation(edited), client.explanation(original)
        found = client.get(f"api/comparison?a={edited}&b={original}")
        assert client.refused(f"api/comparison?a={edited}&b={original}&output=7")[0] == 422
        assert client.refused(f"api/comparison?a={edited}&b=nothing")[0] == 404
    x = X.iloc[5].copy()
    x["age"], x["city"] = 25, "Lima"
    assert np.array_equal(a.mean, cx.BayesSHAP(risk, X).explain(x).mean)
    assert a.feature_values[0] == 25
    assert a.feature_values[2] == "Lima"
    difference = {row["name"]: row["ends"][0] for row in found["rows"]}
    expected = dict(zip(a.names, a.mean - b.mean, strict=True))
    assert difference == pytest.approx(expected, rel=1e-5)
    assert [abs(v) for v in difference.values()] == sorted(map(abs, difference.values()))[::-1]


def test_several_outputs():
    X = people()

    def both(frame):
        p = risk(frame)
        return np.column_stack([1 - p, p])

    with live(cx.BayesSHAP(both, X), X) as client:
        jobs_ = [client.start(0), client.start(0, edits={"0": "30"})]
        last = [client.end(job) for job in jobs_]
        found = client.get(f"api/comparison?a={jobs_[1]}&b={jobs_[0]}&output=1")
        es = [client.explanation(job) for job in jobs_]
    assert len(last[0]["explanation"]["outputs"]) == 2
    age = next(row for row in found["rows"] if row["name"] == "age")
    assert age["ends"][0] == pytest.approx(es[1].mean[0, 1] - es[0].mean[0, 1], rel=1e-5)


def wait_for(true):
    """Wait for something that must come true."""
    until = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)
