"""Who may ask for what: hosts, tokens, origins, headers, sizes."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import credex as cx
from tests.needs import need

need("starlette")
need("uvicorn")

from credex.serve import app, serve  # noqa: E402
from tests.serve.live import WAIT, Client, live, people, read, risk  # noqa: E402

TOKEN = "a-very-long-secret-0123456789"  # noqa: S105 - of a test


@pytest.fixture(scope="module")
def open_server():
    X = people()
    with live(cx.BayesSHAP(risk, X), X) as client:
        yield client


@pytest.fixture(scope="module")
def guarded():
    X = people()
    with live(cx.BayesSHAP(risk, X), X, token=TOKEN) as client:
        yield client


def check_headers(headers):
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


def test_every_answer_has_the_security_headers(open_server, guarded):
    for path in ("", "static/page.js", "static/components.css", "api/info", "api/rows"):
        with open_server.open(path) as answer:
            check_headers(answer.headers)
    job = open_server.start(0)
    open_server.end(job)
    for path in ("events", "explanation.json", "report.html"):
        with open_server.open(f"api/jobs/{job}/{path}") as answer:
            check_headers(answer.headers)
    check_headers(open_server.refused("static/nothing.js")[2])
    check_headers(open_server.refused("api/jobs", {"row": -1})[2])
    check_headers(open_server.refused("", headers={"Host": "evil.example"})[2])
    check_headers(guarded.refused("")[2])


def test_no_script_or_style_is_inline(open_server):
    with open_server.open("") as answer:
        page = answer.read().decode()
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\son\w+=|\sstyle=|javascript:", page)
    for name in re.findall(r'(?:src|href)="(/static/[^"]+)"', page):
        with open_server.open(name[1:]) as answer:
            text = answer.read().decode()
            assert answer.status == 200
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text
        )
        assert not re.search(r"https?://(?!www\.w3\.org/)", text)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::1", "x"]
)
def test_other_hosts_are_refused(open_server, host):
    code, said, _ = open_server.refused("api/info", headers={"Host": host})
    assert code == 421
    assert "Traceback" not in said


@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "127.0.0.1", "[::1]:80"])
def test_names_of_this_machine_are_accepted(open_server, host):
    with open_server.open("api/info", headers={"Host": host}) as answer:
        assert answer.status == 200


def own(client):
    return "http://" + urlsplit(client.url).netloc


def test_changes_need_a_script_of_the_page(open_server):
    job = open_server.start(0)
    for headers in (
        {},
        {"Content-Type": "text/plain"},
        {"X-Credex": "1", "Origin": "http://evil.example"},
        {"X-Credex": "1", "Origin": "null"},
        {"X-Credex": "1", "Origin": own(open_server).replace("http:", "https:")},
        {"X-Credex": "1", "Origin": own(open_server).rsplit(":", 1)[0] + ":1"},
    ):
        assert open_server.refused("api/jobs", {"row": 1}, headers=headers)[0] == 403
        assert open_server.refused(f"api/jobs/{job}", method="DELETE", headers=headers)[0] == 403
    good = {"X-Credex": "1", "Origin": own(open_server)}
    with open_server.open("api/jobs", {"row": 0}, headers=good) as answer:
        assert answer.status == 200
    assert open_server.refused("api/jobs", method="OPTIONS")[0] == 405
    assert open_server.refused("api/jobs", method="PUT")[0] == 405


def test_everything_needs_the_token(guarded):
    for path in ("", "static/page.js", "api/info", "?token=wrong", f"?token={TOKEN}x"):
        code, said, headers = guarded.refused(path)
        assert code == 401
        assert TOKEN not in said
        assert "set-cookie" not in headers
    assert guarded.refused(f"api/info?token={TOKEN}")[0] == 401  # only the page's own address
    assert guarded.refused("api/jobs", {"row": 0})[0] == 401
    assert guarded.refused("", headers={"Cookie": "credex_1=ä; ;;"})[0] == 401


def test_the_token_becomes_a_cookie(guarded):
    with guarded.open(f"?token={TOKEN}", headers={}) as answer:
        cookie = answer.headers["set-cookie"]
    port = urlsplit(guarded.url).port
    assert cookie == f"credex_{port}={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    mine = {"Cookie": cookie.split(";")[0], "X-Credex": "1"}
    with guarded.open("api/info", headers=mine) as answer:
        assert "set-cookie" not in answer.headers
    with guarded.open("api/jobs", {"row": 0}, headers=mine) as answer:
        assert answer.status == 200
    other = {"Cookie": f"credex_{port + 1}={TOKEN}"}
    assert guarded.refused("api/info", headers=other)[0] == 401
    assert guarded.refused("", headers=mine | {"Host": "evil.example"})[0] == 421


def test_a_url_for_the_token_is_made():
    X = people()
    with live(cx.BayesSHAP(risk, X), X, token="auto") as client:  # noqa: S106
        assert client.refused("")[0] == 401
        with client.open(f"?{client.query}") as answer:
            assert len(client.query) > 40
            assert "HttpOnly" in answer.headers["set-cookie"]


@pytest.mark.parametrize("token", [None, "short", "with spaces in a long token", "ä" * 20])
def test_other_machines_need_a_good_token(token):
    X = people()
    with pytest.raises(cx.InputError, match="token='auto'"):
        serve(cx.BayesSHAP(risk, X), X, host="0.0.0.0", port=0, token=token)  # noqa: S104
    with pytest.raises(cx.InputError, match="token='auto'"):
        app(cx.BayesSHAP(risk, X), X, token=token, hosts=None)


@pytest.mark.parametrize("token", ["", "a b", "a;b", "ä"])
def test_a_token_must_fit_into_a_cookie(token):
    X = people()
    with pytest.raises(cx.InputError, match="letters, digits, - or _"):
        serve(cx.BayesSHAP(risk, X), X, port=0, token=token)
    with pytest.raises(cx.InputError, match="letters, digits, - or _"):
        app(cx.BayesSHAP(risk, X), X, token=token)


def test_an_application_has_no_way_to_tell_a_new_token():
    X = people()
    with pytest.raises(cx.InputError, match="pass one of your own"):
        app(cx.BayesSHAP(risk, X), X, token="auto")  # noqa: S106


def test_with_a_token_any_host_may_be_named():
    X = people()
    with live(cx.BayesSHAP(risk, X), X, host="0.0.0.0", token=TOKEN) as client:  # noqa: S104
        assert urlsplit(client.url).hostname == socket.gethostname().lower()
        local = Client(f"http://127.0.0.1:{urlsplit(client.url).port}/", client.server)
        with local.open(f"?token={TOKEN}", headers={"Host": "stats.example"}) as answer:
            assert answer.status == 200
        assert local.refused("")[0] == 401


def test_arguments_are_checked_before_anything_starts():
    X = people()
    explainer = cx.BayesSHAP(risk, X)
    with pytest.raises(cx.InputError, match="takes a BayesSHAP or a BayesLIME"):
        serve(risk, X)
    with pytest.raises(cx.InputError, match="rows is empty"):
        serve(explainer, X.iloc[:0])
    with pytest.raises(cx.InputError, match="width must be a positive number"):
        serve(explainer, X, width=-1)
    with pytest.raises(cx.InputError, match="jobs must be a whole number"):
        serve(explainer, X, jobs=0)
    with pytest.raises(cx.InputError, match="columns are not those"):
        serve(explainer, X.drop(columns="age"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(cx.InputError, match="port=0 takes a free one"):
            serve(explainer, X, port=port)
    for port in (99_999, -1, "80", True):
        with pytest.raises(cx.InputError, match="port must be a whole number"):
            serve(explainer, X, port=port)


def test_a_missing_package_is_named(monkeypatch):
    for name in list(sys.modules):
        if name.split(".")[0] == "starlette" or name in ("credex.serve.web", "credex.serve.guard"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    X = people()
    with pytest.raises(cx.MissingExtraError, match=r"starlette.*credex\[serve\]"):
        serve(cx.BayesSHAP(risk, X), X)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("static/..%2f..%2fjobs.py", 404),
        ("static/%2e%2e/__init__.py", 404),
        ("static/__init__.py", 404),
        ("etc/passwd", 404),
        ("api/rows/60", 404),
        ("api/rows/1e3", 404),
        ("api/rows?offset=-1", 422),
        ("api/rows?limit=%F0%9F%98%80", 422),
        ("api/jobs/none/events", 404),
        ("api/jobs/none/report.html", 404),
    ],
)
def test_addresses_that_are_not_there(open_server, path, code):
    found, said, _ = open_server.refused(path)
    assert found == code
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "request_",
    [
        [],
        "text",
        {"row": True},
        {"row": "0"},
        {"row": 1.5},
        {"row": 0, "edits": []},
        {"row": 0, "edits": {"6": "1"}},
        {"row": 0, "edits": {"age": "1"}},
        {"row": 0, "edits": {"0": {"a": 1}}},
        {"row": 0, "edits": {"0": 5}},
        {"row": 0, "edits": {"2": 99}},
        {"row": 0, "edits": {"2": True}},
        {"row": 0, "goal": "all"},
        {"row": 0, "goal": {"kind": "luck"}},
        {"row": 0, "goal": {"kind": "queries", "value": 10**12}},
        {"row": 0, "goal": {"kind": "width", "value": float("nan")}},
        {"row": 0, "goal": {"level": 95}},
        {"row": 0, "goal": {"max_queries": "many"}},
    ],
)
def test_requests_that_make_no_sense(open_server, request_):
    code, said, _ = open_server.refused("api/jobs", request_)
    assert code in (404, 422)
    assert said.startswith('{"error":')


def test_a_large_request_is_cut_off(open_server):
    code, said, _ = open_server.refused("api/jobs", {"row": 0, "more": "x" * 5_000_000})
    assert code == 413
    assert "4,000,000 bytes" in said


def test_the_disk_is_only_read(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    X = people()
    with live(cx.BayesSHAP(risk, X), X) as client:
        job = client.start(0)
        client.end(job)
        with client.open(f"api/jobs/{job}/report.html") as answer:
            assert (
                answer.headers["content-disposition"] == 'attachment; filename="explanation.html"'
            )
            assert answer.read().startswith(b"<!doctype html>")
        with client.open(f"api/jobs/{job}/explanation.json") as answer:
            assert (
                answer.headers["content-disposition"] == 'attachment; filename="explanation.json"'
            )
    assert list(tmp_path.iterdir()) == []


def test_halves_of_characters_do_not_break_an_answer():
    half = "half \ud800"
    X = np.array([["a", 1.0], [half, 2.0]] * 10, dtype=object)

    def model(rows):
        return 1.0 * (rows[:, 0] == half) + rows[:, 1].astype(float)

    with live(cx.BayesSHAP(model, X), X) as client:
        assert client.get("api/info")["fields"][0]["choices"] == ["a", "half \ufffd"]
        assert client.get("api/rows?search=half")["found"] == 10
        assert client.get("api/rows/1")["typed"] == [1, "2"]
        job = client.start(1, edits={"1": "3"})
        assert client.end(job)["status"] == "done"
        for name in ("explanation.json", "report.html"):
            with client.open(f"api/jobs/{job}/{name}") as answer:
                assert answer.status == 200
        assert client.explanation(job).feature_values[0] == half


SCRIPT = """
import numpy as np, time, credex as cx
from credex.serve import serve

def slow(rows):
    time.sleep(0.02)
    return rows[:, 0] * rows[:, 1]

X = np.random.default_rng(0).normal(size=(30, 4))
serve(cx.BayesSHAP(slow, X, batch_rows=1), X, port=0, width=1e-9)
print("ended")
"""


def test_serve_blocks_until_ctrl_c_and_ends_streams():
    here = Path(cx.__file__).parents[1]
    known = {**os.environ, "PYTHONPATH": str(here)}
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=known, **pipes) as process:  # noqa: S603
        try:
            url = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())[0]
            client = Client(url, type("NoServer", (), {"jobs": None}))
            stream = read(client.open(f"api/jobs/{client.start(0)}/events"))
            assert next(stream)["status"] == "running"
            process.send_signal(signal.SIGINT)
            *_, last = stream
            assert last["message"] == "the server was stopped"
            out, errors = process.communicate(timeout=WAIT)
        finally:
            process.kill()
    assert (process.returncode, out, errors) == (0, "ended\n", "")
