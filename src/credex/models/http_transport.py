"""Requests to an endpoint: connections that are kept open, time-outs, retries, a rate limit."""

from __future__ import annotations

import math
import os
import random
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from credex.errors import InputError, ModelRaisedError
from credex.models.http_json import UnreadableError

if TYPE_CHECKING:  # slow to import: only those who send something wait for it
    import http.client
    import ssl

__all__ = ["GaveUpError", "Transport", "Usage", "shown_url"]

T = TypeVar("T")

AGAIN = {408, 425, 429, 500, 502, 503, 504}
"""States after which a request may be sent again."""

LONGEST_WAIT = 60.0
"""Seconds; an endpoint that asks for more (Retry-After) is given up."""

FREE_RETRIES = 10
"""Retries that are allowed in any case, before the budget counts."""


@dataclass
class Usage:
    """What was sent to an endpoint; changed under a lock.

    Attributes
    ----------
    requests, retries
        Requests sent; those of them that repeat a failed one.
    rows_sent
        Rows of all requests, those of failed ones too: what an endpoint may charge for.
    rows_failed
        Those of requests that failed.
    rows_kept
        Rows that were asked for and not sent: their answers were known.
    """

    requests: int = 0
    retries: int = 0
    rows_sent: int = 0
    rows_failed: int = 0
    rows_kept: int = 0


class _FailedError(Exception):
    """A request failed and may be sent again, after ``wait`` seconds if the endpoint said so."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class GaveUpError(ModelRaisedError):
    """The endpoint was not reached, or did not answer, as often as it was tried."""


@dataclass(eq=False)
class Transport:
    """Posts JSON to one address. Safe in several threads; without its connections if pickled.

    Attributes
    ----------
    url, headers, token_env, timeout, retries, backoff, retry_budget, rate
        As in `credex.models.http.from_http`.
    """

    url: str
    headers: Mapping[str, str]
    token_env: str | None
    timeout: float
    retries: int
    backoff: float
    retry_budget: float
    rate: float | None
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        self._parts = urlsplit(self.url)
        self._idle: list[http.client.HTTPConnection] = []
        self._busy: set[http.client.HTTPConnection] = set()
        self._closed = False
        self._lock = threading.Lock()
        self._next_slot = 0.0
        self._jitter = random.Random()  # noqa: S311 - waits differ on purpose, results do not
        self._tls: ssl.SSLContext | None = None
        weakref.finalize(self, _close, self._idle)

    def __getstate__(self) -> dict[str, Any]:
        return {n: v for n, v in self.__dict__.items() if n[0] != "_" and n != "usage"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, usage=Usage())
        self.__post_init__()

    def post(
        self, body: bytes, read: Callable[[bytes], T], begin: Callable[[], None], rows: int
    ) -> T:
        """Send a request of so many rows until it is answered; return what ``read`` makes of that.

        ``begin`` is called before the rows of each try leave; it may raise to prevent that.
        """
        for attempt in range(self.retries + 1):
            if attempt:
                self._count(retries=1)
            try:
                answer = self._once(body, begin, rows)
                try:
                    return read(answer)
                except BaseException:
                    self._count(rows_failed=rows)
                    raise
            except (_FailedError, UnreadableError) as error:
                wait = getattr(error, "wait", None)
                why = self._refusal(attempt, wait)
                if why is not None:
                    msg = f"the endpoint {shown_url(self.url)} failed: {error} ({why})"
                    raise GaveUpError(msg) from error
                limit = min(self.backoff * 2.0**attempt, LONGEST_WAIT)
                time.sleep(limit * self._jitter.uniform(0.5, 1.0) if wait is None else wait)
        raise AssertionError  # the last attempt returns or raises

    def _refusal(self, attempt: int, wait: float | None) -> str | None:
        """Return why a failed request is not sent again; ``None`` if it is."""
        if self._closed:
            return "it was closed"
        if attempt == self.retries:
            return f"after {attempt + 1} tries" if attempt else "retries=0"
        if wait is not None and wait > LONGEST_WAIT:
            return f"it asks to wait {wait:.0f} s, longer than {LONGEST_WAIT:.0f} s"
        with self._lock:
            used, first = self.usage.retries, self.usage.requests - self.usage.retries
        if used >= FREE_RETRIES + self.retry_budget * first:
            return f"the retry budget is used up: {used} retries of {first} requests"
        return None

    def _once(self, body: bytes, begin: Callable[[], None], rows: int) -> bytes:
        """Send a request once and return its answer."""
        import http.client

        self._wait_for_slot()
        deadline = time.monotonic() + self.timeout
        try:
            connection = self._connection()
        except OSError as error:  # nothing was sent
            raise _FailedError(f"no connection: {_reason(error)}") from error
        keep = False
        try:
            begin()
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._busy.add(connection)
        try:
            self._count(requests=1, rows_sent=rows)
            try:
                status, headers, answer, keep = self._exchange(connection, body, deadline)
            except TimeoutError as error:
                raise _FailedError(f"no answer within {self.timeout:g} s") from error
            except (OSError, http.client.HTTPException) as error:
                raise _FailedError(f"the connection broke: {_reason(error)}") from error
            self._check(status, headers, answer)
        except BaseException:
            self._count(rows_failed=rows)
            raise
        finally:
            with self._lock:
                self._busy.discard(connection)
                keep = keep and not self._closed
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()
        return answer

    def _exchange(
        self, connection: http.client.HTTPConnection, body: bytes, deadline: float
    ) -> tuple[int, Any, bytes, bool]:
        """Return status, headers, body, and whether the connection can be used again."""
        import http.client

        path = self._parts.path or "/"
        path += f"?{self._parts.query}" if self._parts.query else ""
        connection.request("POST", path, body, self._headers())
        sock = connection.sock
        response = connection.getresponse()
        pieces = []
        while not response.isclosed():  # a socket's time-out is for a piece, ours for the whole
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            sock.settimeout(left)
            piece = response.read1(1 << 16)
            if not piece:
                break
            pieces.append(piece)
        if response.length:  # fewer bytes than announced
            raise http.client.IncompleteRead(b"".join(pieces), response.length)
        response.close()  # read1 leaves it open, and the connection busy
        return response.status, response.headers, b"".join(pieces), not response.will_close

    def _check(self, status: int, headers: Any, body: bytes) -> None:
        if 200 <= status < 300:
            return
        from http import HTTPStatus

        names = {s.value: s.phrase for s in HTTPStatus}
        lines = body[:400].decode("utf-8", "replace").strip().splitlines()
        said = self._without_token(lines[0][:200]) if lines else ""
        what = f"{status} {names.get(status, '')}".strip()
        what += f": {said}" if said else ""
        if status in AGAIN:
            raise _FailedError(what, retry_after(headers.get("Retry-After")))
        if 300 <= status < 400:
            msg = f"the endpoint {shown_url(self.url)} is elsewhere: {headers.get('Location')}"
            raise InputError(f"{msg} ({what}); give that address")
        raise ModelRaisedError(f"the endpoint {shown_url(self.url)} refused the rows: {what}")

    def _headers(self) -> dict[str, str]:
        out = {"Content-Type": "application/json", "Accept": "application/json", **self.headers}
        if self.token_env is not None:
            token = os.environ.get(self.token_env)
            if not token:
                msg = f"the environment variable {self.token_env!r} (token_env=) is not set"
                raise InputError(msg)
            out["Authorization"] = f"Bearer {token}"
        return out

    def _without_token(self, text: str) -> str:
        for secret in (os.environ.get(self.token_env or ""), *self.headers.values()):
            text = text.replace(secret, "***") if secret else text
        return text

    def _connection(self) -> http.client.HTTPConnection:
        """Return an open connection: one that waits and is still open on the other side, or new."""
        import http.client
        import ssl

        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            if connection.sock is not None and not _readable(connection.sock):
                connection.sock.settimeout(self.timeout)
                return connection
            connection.close()
        host, port = str(self._parts.hostname), self._parts.port
        if self._parts.scheme == "https":
            self._tls = self._tls or ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                host, port, timeout=self.timeout, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=self.timeout)
        connection.connect()
        return connection

    def _wait_for_slot(self) -> None:
        if self.rate is None:
            return
        with self._lock:
            now = time.monotonic()
            slot = max(now, self._next_slot)
            self._next_slot = slot + 1 / self.rate
        time.sleep(max(slot - now, 0.0))

    def _count(self, **more: int) -> None:
        with self._lock:
            for name, n in more.items():
                setattr(self.usage, name, getattr(self.usage, name) + n)

    def close(self) -> None:
        """Close all connections; requests that wait for an answer fail, and are not sent again."""
        with self._lock:
            self._closed = True
            _close(self._idle)
            for connection in self._busy:
                if connection.sock is not None:
                    with suppress(OSError):  # the other side was quicker
                        connection.sock.shutdown(socket.SHUT_RDWR)


def _close(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def retry_after(text: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which holds them or a date."""
    if not text:
        return None
    from email.utils import parsedate_to_datetime

    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except ValueError:
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def shown_url(url: str) -> str:
    """Return the address without what may be secret in it."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _readable(sock: Any) -> bool:
    """Whether something waits in an idle connection: its end."""
    return bool(select.select([sock], [], [], 0)[0])


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
