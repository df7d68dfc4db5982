"""Models behind HTTP: MLflow's scoring server and KServe's protocol, version 2."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np

from credex.errors import InputError, OutputError, StoppedRun, check_count, check_positive
from credex.history import Counted
from credex.models.answers import Answers, FileAnswers, MemoryAnswers
from credex.models.http_json import Kserve, Mlflow, Table, table_of
from credex.models.http_transport import GaveUpError, Transport, Usage, shown_url
from credex.typing import Floats, Native

__all__ = ["HttpModel", "from_http"]


def from_http(
    url: str,
    *,
    protocol: Literal["mlflow", "kserve"] | None = None,
    tensor: str | None = None,
    output: str | None = None,
    classes: Sequence[Any] | None = None,
    request_rows: int = 1_000,
    max_rows: int | None = None,
    timeout: float = 30.0,
    retries: int = 4,
    backoff: float = 0.5,
    retry_budget: float = 0.2,
    give_up: int = 5,
    rate: float | None = None,
    cache: int | str | Path | None = 100_000,
    headers: Mapping[str, str] | None = None,
    token_env: str | None = None,
) -> HttpModel:
    """Wrap an HTTP endpoint as a function from rows to outputs.

    A request that fails in a way that may pass (no connection, no answer in time, status 408, 425,
    429, 500, 502, 503 or 504, an answer that is no JSON) is sent again. Every row of every try
    is counted: ``n_model_rows`` of an explanation is what the endpoint may charge for, and
    ``usage`` has the details. Rows whose answer is known are not sent. Give ``concurrency=`` to the
    explainer for several requests at the same time.

    Parameters
    ----------
    url
        ``http://host:port`` of MLflow's scoring server (``/invocations`` is added), or
        ``…/v2/models/NAME`` of KServe (``/infer`` is added).
    protocol
        By default ``"kserve"`` if the address has ``/v2/models/`` in it, else ``"mlflow"``.
    tensor, output
        KServe: the tensor that takes all columns at once (by default each has one of its own, as
        MLServer reads frames), and the output, needed only if there are several.
    classes
        Labels of the outputs, so that ``target`` can be one of them.
    request_rows
        Maximum rows of one request.
    max_rows
        Ceiling on the rows sent in all, tries that failed included. The run stops there
        (`StoppedRun`), with what was asked in ``.partial``.
    timeout
        Seconds for one request, from its first byte to the last one of the answer.
    retries, backoff
        Tries after the first. Before the k-th of them half to all of ``backoff · 2^(k−1)`` seconds
        pass, chosen at random, or what the endpoint says (``Retry-After``, up to a minute).
    retry_budget
        Retries in all, as a share of the other requests; the first ten are free. When they are used
        up, a failed request is an error at once.
    give_up
        The run stops (`StoppedRun`) when so many calls in a row have failed, retries included.
    rate
        Maximum requests in a second.
    cache
        Answers to keep in memory; the name of a file to keep all of them in, also for later runs
        (of the same model!); ``None`` for models that answer at random (``noisy=True``).
    headers
        Headers of every request. They are not shown.
    token_env
        Name of the environment variable with a bearer token, which is neither kept nor shown.
    """
    if protocol not in (None, "mlflow", "kserve"):
        raise InputError(f"protocol must be 'mlflow' or 'kserve'; got {protocol!r}")
    address, kserve = _address(url, protocol)
    if not kserve and (tensor is not None or output is not None):
        raise InputError("tensor= and output= are for protocol='kserve'")
    counts = {"request_rows": request_rows, "give_up": give_up, "max_rows": max_rows}
    counts |= {"cache": cache} if isinstance(cache, int) else {}
    for name, count in counts.items():
        if count is not None:
            check_count(name, count)
    for name, number in {"timeout": timeout, "rate": rate}.items():
        if number is not None:
            check_positive(name, number)
    limits = {"retries": retries, "backoff": backoff, "retry_budget": retry_budget}
    for name, limit in limits.items():
        if not 0 <= limit < np.inf:
            raise InputError(f"{name} must be a number ≥ 0; got {limit!r}")
    transport = Transport(
        address,
        dict(headers or {}),
        token_env,
        float(timeout),
        int(retries),
        float(backoff),
        float(retry_budget),
        rate,
    )
    form = Kserve(tensor, output) if kserve else Mlflow()
    names = None if classes is None else np.asarray(classes)
    return HttpModel(transport, form, names, request_rows, max_rows, give_up, cache)


def _address(url: str, protocol: str | None) -> tuple[str, bool]:
    """Return the whole address, and whether KServe's protocol is spoken there."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"url must be http://… or https://…; got {url!r}")
    if parts.username or parts.password:
        msg = "the address holds a user name or password; give headers= or token_env= instead"
        raise InputError(msg)
    kserve = protocol == "kserve" or (protocol is None and "/v2/models/" in parts.path)
    path = parts.path.rstrip("/")
    ending = "/infer" if kserve else "/invocations"
    if (kserve and not path.endswith(ending)) or not path:
        path += ending
    return parts._replace(path=path).geturl(), kserve


@dataclass(eq=False, repr=False)
class HttpModel:
    """An HTTP endpoint as a function of rows; made by `from_http`. Safe in several threads.

    Pickled without its connections, counts and the answers it keeps in memory.
    """

    transport: Transport
    form: Mlflow | Kserve
    classes_: Any
    request_rows: int
    max_rows: int | None
    give_up: int
    cache: int | str | Path | None

    def __post_init__(self) -> None:
        names: tuple[str, ...] = ()
        self._answers: Answers | None = None
        if isinstance(self.cache, int):
            self._answers = MemoryAnswers(self.cache)
        elif self.cache is not None:
            self._answers = FileAnswers(self.cache)
            names = self._answers.names(self.about)
        self._lock = threading.Lock()
        self._reserved = 0
        self._failures = 0
        self._asked: dict[bytes, threading.Event] = {}
        self._names = names

    def __getstate__(self) -> dict[str, Any]:
        return {name: v for name, v in self.__dict__.items() if name[0] != "_"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def __repr__(self) -> str:
        return f"<model at {shown_url(self.transport.url)}>"

    @property
    def usage(self) -> Usage:
        """What was sent so far: requests, retries, rows."""
        return self.transport.usage

    @property
    def about(self) -> str:
        """What tells the answers of this model apart from those of others."""
        return f"{self.form!r} {self.transport.url}"

    def close(self) -> None:
        """Close all connections: requests in progress fail, and are not sent again."""
        self.transport.close()

    def predict_proba(self, rows: Native) -> Any:
        """Return ``(n, k)`` outputs, as a frame if the endpoint names them."""
        return self.counted_call(rows).y

    __call__ = predict_proba

    def counted_call(self, rows: Native) -> Counted:
        """Return the outputs, the rows sent for them, and those of them in requests that failed.

        An error carries ``rows_sent``.
        """
        call = _Call(self, table_of(rows))
        try:
            y = call.answers()
        except BaseException as error:
            error.rows_sent = call.sent  # type: ignore[attr-defined]
            raise
        with self._lock:
            self.usage.rows_kept += len(y) - (call.sent - call.failed)
            self._failures = 0
        if self._names and len(self._names) == y.shape[1]:
            import pandas as pd

            return Counted(pd.DataFrame(y, columns=list(self._names)), call.sent, call.failed)
        return Counted(y, call.sent, call.failed)

    # -- what the calls share ------------------------------------------------------------------

    def claim(
        self, keys: Sequence[bytes]
    ) -> tuple[dict[bytes, Floats], list[bytes], list[threading.Event]]:
        """Return answers that are known, keys that the caller must ask, and others' to wait for."""
        with self._lock:
            known = {} if self._answers is None else self._answers.get(keys)
            missing = [key for key in keys if key not in known]
            mine = [key for key in missing if key not in self._asked]
            theirs = [self._asked[key] for key in missing if key in self._asked]
            event = threading.Event()
            self._asked.update(dict.fromkeys(mine, event))
        return known, mine, theirs

    def release(self, mine: Sequence[bytes]) -> None:
        """Tell those who wait that these keys are answered, or never will be."""
        with self._lock:
            events = [self._asked.pop(key) for key in mine]
        for event in events:
            event.set()

    def keep(self, new: Mapping[bytes, Floats]) -> None:
        """Keep answers for later."""
        if self._answers is not None:
            try:
                self._answers.put(new)
            except OutputError as error:
                raise StoppedRun(str(error)) from error

    def reserve(self, rows: int) -> None:
        """Count rows that are about to leave; raise if they are too many."""
        with self._lock:
            if self.max_rows is not None and self._reserved + rows > self.max_rows:
                msg = f"max_rows={self.max_rows:,} is reached: {self._reserved:,} rows were sent, "
                raise StoppedRun(msg + f"and the next request has {rows:,}")
            self._reserved += rows

    def send(self, table: Table, call: _Call) -> Floats:
        """Ask for the rows of one request."""
        n = len(table.rows)

        def begin() -> None:
            self.reserve(n)
            call.sent += n

        before = call.sent
        try:
            answer = self.transport.post(
                self.form.body(table), lambda body: self.form.read(body, n), begin, n
            )
        except GaveUpError as error:
            self._count_failure(error)
            raise
        call.failed += call.sent - before - n
        if answer.names != self._names:
            self._names = answer.names
            if isinstance(self._answers, FileAnswers):
                self._answers.keep_names(self.about, answer.names)
        return answer.y

    def _count_failure(self, error: GaveUpError) -> None:
        with self._lock:
            self._failures += 1
            if self._failures >= self.give_up:
                msg = f"{self._failures} calls in a row failed; the last one: {error}"
                raise StoppedRun(msg) from error


class _Call:
    """One call of the model: its rows, and what was sent for them."""

    def __init__(self, model: HttpModel, table: Table) -> None:
        self.model, self.table = model, table
        self.sent = self.failed = 0

    def answers(self) -> Floats:
        """Return the outputs of all rows, ``(n, k)``."""
        if not self.table.rows:
            return np.empty((0, 1))
        if self.model.cache is None:
            every = range(len(self.table.rows))
            return np.concatenate([y for _, y in self._requests(list(every))])
        keys = self.table.keys(self.model.about)
        position: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            position.setdefault(key, i)
        found: dict[bytes, Floats] = {}
        while wanted := [key for key in position if key not in found]:
            known, mine, theirs = self.model.claim(wanted)
            found |= known
            try:
                for at, y in self._requests([position[key] for key in mine]):
                    new = {keys[i]: row for i, row in zip(at, y, strict=True)}
                    found |= new
                    self.model.keep(new)
            finally:
                self.model.release(mine)
            for event in theirs:
                event.wait()
        return np.stack([found[key] for key in keys])

    def _requests(self, at: list[int]) -> Iterator[tuple[list[int], Floats]]:
        step = self.model.request_rows
        for start in range(0, len(at), step):
            some = at[start : start + step]
            yield some, self.model.send(self.table.take(some), self)
