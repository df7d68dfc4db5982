"""A real server on a free port in a thread, and a client for it."""

import json
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager

import numpy as np
import pandas as pd

import credex as cx
from credex.serve import _server

WAIT = 30  # seconds after which a test that hangs fails


class Client:
    """Asks a server as the page does."""

    def __init__(self, url, server):
        self.url, _, self.query = url.partition("?")
        self.server, self.jobs = server, server.jobs
        self.headers = {"X-Credex": "1"}

    def open(self, path, data=None, method=None, headers=None):
        body = None if data is None else json.dumps(data).encode()
        asked = urllib.request.Request(  # noqa: S310 - the server of the test
            self.url + path, body, self.headers if headers is None else headers, method=method
        )
        return urllib.request.urlopen(asked, timeout=WAIT)  # noqa: S310

    def get(self, path):
        with self.open(path) as answer:
            return json.load(answer)

    def refused(self, path, data=None, **how):
        """Return status, text and headers of a request that must be refused."""
        try:
            self.open(path, data, **how).close()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(), error.headers
        raise AssertionError(f"{path} was not refused")

    def start(self, row, **request):
        with self.open("api/jobs", {"row": row, **request}) as answer:
            return json.load(answer)["job"]

    def events(self, job):
        with self.open(f"api/jobs/{job}/events") as stream:
            yield from read(stream)

    def end(self, job):
        """Wait for a job's end; return its last event."""
        *_, last = self.events(job)
        return last

    def stop(self, job):
        self.open(f"api/jobs/{job}", method="DELETE").close()

    def explanation(self, job):
        with self.open(f"api/jobs/{job}/explanation.json") as answer:
            return cx.Explanation.from_json(answer.read().decode())


def read(stream):
    """Yield the events of a stream."""
    for line in stream:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


@contextmanager
def live(explainer, rows, **options):
    """Run a server for the length of a block."""
    where = {"host": "127.0.0.1", "port": 0, "token": None, "grace": 10 * WAIT}
    server, bound, url = _server(explainer, rows, **(where | options))
    up = threading.Event()
    startup = server.startup

    async def started(sockets=None):
        await startup(sockets)
        up.set()

    server.startup = started
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        assert up.wait(WAIT)
        yield Client(url, server)
    finally:
        server.should_exit = True
        thread.join(WAIT)
        bound.close()
        assert not thread.is_alive()


def people(n=60):
    """Return a frame with a column of every usual kind."""
    rng = np.random.default_rng(0)
    days = pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "income": rng.lognormal(10, 0.5, n),
            "city": rng.choice(["Rome", "Oslo", "Lima"], n),
            "member": rng.random(n) < 0.3,
            "since": pd.Timestamp("2020-01-01") + days,
            "score": np.where(np.arange(n) % 7 == 3, np.nan, rng.normal(size=n)),
        }
    )


def risk(frame):
    """Return a probability for each row: a model with interactions."""
    z = frame["age"] / 20 - 2.5 + 1.5 * (frame["city"] == "Oslo") + frame["score"].fillna(0) / 3
    z = z - frame["member"] * (frame["age"] > 40) + np.log(frame["income"]) / 10
    return np.asarray(1 / (1 + np.exp(-z.astype(float))))


class Gate:
    """A model that counts, and after some rows waits in its call until it is let through."""

    def __init__(self, model=risk, after=70):
        self.model, self.after = model, after
        self.rows = self.calls = 0
        self.entered, self.through = threading.Event(), threading.Event()

    def __call__(self, frame):
        self.rows, self.calls = self.rows + len(frame), self.calls + 1
        if self.rows > self.after:
            self.entered.set()
            assert self.through.wait(WAIT)
        return self.model(frame)
