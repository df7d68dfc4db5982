"""`Jobs`: explanations in worker threads, one for each instance, watched from the event loop.

Everything but `Job._work` runs on the event loop, so that no lock is needed. The worker hands over
frozen `Progress` objects; whoever watches waits for the next one.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from credex.errors import CredexError, InterruptedRun, ModelError
from credex.explainer import Explainer
from credex.explanation import Explanation
from credex.run import states
from credex.serve.goals import Goal
from credex.serve.views import view_of

__all__ = ["BusyError", "Job", "Jobs", "Progress"]

GRACE_SECONDS = 5.0
"""Seconds that a run goes on when nobody watches: enough to load the page again."""

MAX_WAITING = 20
"""Jobs that may wait for a thread before further ones are refused."""

MAX_KEPT = 200
"""Jobs whose results are kept; the oldest go first."""

CALL_SECONDS = 0.1
"""Shortest time between two reports of the rows sent."""

log = logging.getLogger("credex.serve")


class BusyError(CredexError):
    """Too many explanations are waiting."""


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """What is known of a job at one moment.

    ``status`` is ``"waiting"``, ``"running"``, ``"done"``, ``"stopped"`` or ``"failed"``;
    ``message`` says why it stopped or failed. ``view`` is the explanation as the page shows it, in
    JSON; ``None`` if it says nothing yet. ``trace`` has the model rows and the widest interval at
    every look.
    """

    status: str = "waiting"
    explanation: Explanation | None = None
    view: str | None = None
    rows: int = 0
    rows_to_go: int | None = None
    message: str = ""
    trace: tuple[tuple[int, float], ...] = ()

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.status in ("done", "stopped", "failed")


@dataclass(eq=False)
class Job:
    """One explanation on its way: of the instance ``x`` (its ``key``), up to ``goal``.

    ``begun`` is what it continues, the progress of an earlier job.
    """

    explainer: Explainer
    key: Hashable
    x: Any
    goal: Goal
    begun: Progress
    loop: asyncio.AbstractEventLoop
    on_end: Callable[[Job], None]
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    progress: Progress = field(init=False)
    _latest: Progress = field(init=False)  # the worker's own
    _changed: set[asyncio.Event] = field(default_factory=set)
    _cancelled: threading.Event = field(default_factory=threading.Event)
    _why: str = ""

    def __post_init__(self) -> None:
        e = self.begun.explanation
        rows = 0 if e is None else e.n_model_rows
        self.progress = Progress("waiting", e, self.begun.view, rows, trace=self.begun.trace)
        self._latest = replace(self.progress, status="running")

    @property
    def watched(self) -> bool:
        """Whether anybody watches."""
        return bool(self._changed)

    def cancel(self, why: str) -> None:
        """Ask the worker to stop; it does so before its next model call."""
        if not self.progress.ended and not self._cancelled.is_set():
            self._why = why
            self._cancelled.set()
            if self.progress.status == "waiting":
                self._set(replace(self.progress, status="stopped", message=why))

    @property
    def going(self) -> bool:
        """Whether the job is on its way and was not told to stop."""
        return not self.progress.ended and not self._cancelled.is_set()

    @contextmanager
    def watch(self) -> Iterator[asyncio.Event]:
        """Count as somebody who watches; the event is set whenever `progress` is new."""
        changed = asyncio.Event()
        self._changed.add(changed)
        try:
            yield changed
        finally:
            self._changed.discard(changed)

    def begin(self) -> None:
        """Start the worker: a thread that does not keep the interpreter from ending."""
        self._set(replace(self.progress, status="running"))
        threading.Thread(target=self._work, name=f"credex-{self.id}", daemon=True).start()

    def _set(self, progress: Progress) -> None:
        """Take over what the worker reports, on the event loop."""
        if self.progress.ended:  # the server has been stopped
            return
        self.progress = progress
        for changed in self._changed:
            changed.set()
        if progress.ended:
            self.on_end(self)

    # -- in the worker's thread ----------------------------------------------------------------

    def _work(self) -> None:
        """Explain, and report every state."""
        try:
            last = self._explained()
        except InterruptedRun as stop:
            last = self._ended("stopped", self._why, stop.partial)
        except CredexError as error:
            partial = error.partial if isinstance(error, ModelError) else None
            last = self._ended("failed", str(error), partial)
        except Exception as error:
            log.exception("a job failed")
            last = self._ended("failed", f"{type(error).__name__}: {error}", None)
        self._report(last)

    def _explained(self) -> Progress:
        start, told = self.begun.explanation, 0.0

        def check() -> None:
            if self._cancelled.is_set():
                raise KeyboardInterrupt

        def called(rows: int) -> None:
            nonlocal told
            self._latest = replace(self._latest, rows=self._latest.rows + rows)
            if time.monotonic() - told > CALL_SECONDS:
                told = time.monotonic()
                self._report(self._latest)

        run, queue = self.explainer._watched(self.x, start, None, self.goal.keywords)  # noqa: SLF001
        queue.before_call, queue.on_call = check, called
        for state in states(run, queue):
            e, widest, trace = state.explanation, float(np.max(state.width)), self._latest.trace
            if np.isfinite(widest):
                trace += ((e.n_model_rows, widest),)
            last = state.stop_reason is not None
            self._latest = Progress(
                "done" if last else "running",
                e,
                _view(e, ended=last),
                max(e.n_model_rows, self._latest.rows),
                run.rows_to_go(),
                trace=trace,
            )
            if not last:
                self._report(self._latest)
        return self._latest

    def _ended(self, status: str, message: str, partial: Explanation | None) -> Progress:
        """Return the last report of a job that did not reach its goal; what it learned is kept."""
        latest = self._latest
        e = latest.explanation
        if e is None or _says_something(partial):
            e = partial
        return replace(
            latest,
            status=status,
            message=message,
            explanation=e,
            view=_view(e, ended=True),
            rows=latest.rows if e is None else max(latest.rows, e.n_model_rows),
            rows_to_go=None,
        )

    def _report(self, progress: Progress) -> None:
        self._latest = progress
        with suppress(RuntimeError):  # the loop has been closed: nobody is left to tell
            self.loop.call_soon_threadsafe(self._set, progress)


def _says_something(e: Explanation | None) -> bool:
    return e is not None and bool(np.isfinite(e.belief.mean).any())


def _view(e: Explanation | None, *, ended: bool) -> str | None:
    """Return what the page shows of an explanation; ``None`` if it says nothing."""
    return view_of(e, ended=ended) if e is not None and _says_something(e) else None


class Jobs:
    """All jobs of a page: ``limit`` run at the same time, each instance has one.

    A job that nobody watches for ``grace`` seconds is cancelled.
    """

    def __init__(self, explainer: Explainer, limit: int, grace: float = GRACE_SECONDS) -> None:
        self.explainer, self.limit, self.grace = explainer, limit, grace
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._by_key: dict[Hashable, Job] = {}
        self._waiting: deque[Job] = deque()
        self._running: set[str] = set()
        self._closed = False

    def get(self, name: str) -> Job | None:
        """Return a job by its id, if it is still kept."""
        return self._jobs.get(name)

    def start(self, key: Hashable, x: Any, goal: Goal, *, resume: bool) -> Job:
        """Return the job of an instance: a new one, or the present one if it has the same goal.

        A present one with another goal is cancelled. ``resume``: continue from what the last one
        has learned.
        """
        old = self._by_key.get(key)
        if old is not None and old.goal == goal:
            known = old.progress.status == "done" and old.begun.explanation is None
            if old.going or (known and not resume):
                return old
        if len(self._waiting) >= MAX_WAITING:
            msg = f"{len(self._running)} explanations are running and {len(self._waiting)} waiting;"
            raise BusyError(f"{msg} try again when one has ended")
        begun = Progress()
        if old is not None:
            begun = old.progress if resume else begun
            old.cancel("another request asked for this row with another goal")
        loop = asyncio.get_running_loop()
        job = Job(self.explainer, key, x, goal, begun, loop, self._ended)
        self._jobs[job.id] = self._by_key[key] = job
        self._waiting.append(job)
        self._fill()
        self._forget()
        self._left(job)
        return job

    @contextmanager
    def watch(self, job: Job) -> Iterator[asyncio.Event]:
        """Watch a job; if nobody does for a while, it is cancelled."""
        try:
            with job.watch() as changed:
                yield changed
        finally:
            self._left(job)

    def _left(self, job: Job) -> None:
        """Look in a while whether anybody watches a job."""
        job.loop.call_later(self.grace, self._abandon, job)

    def close(self) -> None:
        """Cancel everything; whoever watches is told at once."""
        self._closed = True
        for job in list(self._jobs.values()):
            job.cancel("the server was stopped")
            if not job.progress.ended:
                job._set(replace(job.progress, status="stopped", message="the server was stopped"))  # noqa: SLF001

    def _abandon(self, job: Job) -> None:
        if not job.watched:
            job.cancel("nobody was watching")

    def _fill(self) -> None:
        """Begin as many waiting jobs as there are threads for."""
        while self._waiting and len(self._running) < self.limit and not self._closed:
            job = self._waiting.popleft()
            if job.going:
                self._running.add(job.id)
                job.begin()

    def _ended(self, job: Job) -> None:
        self._running.discard(job.id)
        with suppress(ValueError):
            self._waiting.remove(job)
        self._fill()

    def _forget(self) -> None:
        """Drop the oldest results that nobody watches."""
        for name, job in list(self._jobs.items()):
            if len(self._jobs) <= MAX_KEPT:
                return
            if job.progress.ended and not job.watched:
                del self._jobs[name]
                if self._by_key.get(job.key) is job:
                    del self._by_key[job.key]
