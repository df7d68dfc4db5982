"""Explain many rows: their runs are driven side by side, on one or more workers."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from credex.collector import fewer_scans
from credex.errors import CredexError, InputError, InterruptedRun, ModelError, StoppedRun
from credex.explainer_base import Case, on_screen
from credex.explanation import Explanation
from credex.explanations import Explanations, Failure
from credex.model_queue import ModelQueue
from credex.options import Options
from credex.progress import progress_bar
from credex.run import Run, drive
from credex.sealed import Sealed
from credex.stopping import Goals

__all__ = ["Job", "TimeUpError", "check_jobs", "explain_batch", "explain_rows", "interruption"]

Item = Explanation | Failure | None


class TimeUpError(Exception):
    """The time of a batch is up: its other rows are not explained."""


@dataclass(frozen=True, eq=False)
class Job:
    """Rows that an explainer is to explain; pickled for worker processes.

    After ``deadline`` (as `time.time` counts) no row is begun.
    """

    explainer: Any
    rows: Sequence[Any]
    cohorts: Sequence[Any]
    goals: Goals
    options: Options
    deadline: float | None = None

    def queue(self, shared: Any) -> ModelQueue:
        """Return a queue to the model that keeps shared answers."""
        queue: ModelQueue = self.explainer._queue(self.options, shared)  # noqa: SLF001
        return queue

    def begin(self, i: int, begun: Explanation | None, queue: ModelQueue) -> Run:
        """Start row ``i``, or continue it from ``begun``."""
        case, goals = Case(self.rows[i], self.cohorts[i], begun), self.goals
        if self.deadline is not None:
            left = self.deadline - time.time()
            if left <= 0:
                raise TimeUpError
            goals = goals.with_time(left)
        run: Run = self.explainer._begin(case, goals, self.options, queue)  # noqa: SLF001
        return run

    def check_same(self, i: int, done: Explanation) -> None:
        """Raise if ``done`` was not made of row ``i`` and the present data."""
        nb = self.explainer._neighbourhood(Case(self.rows[i], self.cohorts[i]))  # noqa: SLF001
        other = f"start= has another row at position {i}: it belongs to another X"
        self.explainer._check_instance(nb, done, other)  # noqa: SLF001


@dataclass
class _Batch:
    """The state of a batch: rows done, rows begun before, and what to do about errors."""

    job: Job
    on_error: str
    done: list[Item]
    begun: dict[int, Explanation]
    progress: Callable[[int], object]
    unfinished: dict[int, Explanation] = field(default_factory=dict)

    @fewer_scans()
    def explain(self, todo: Sequence[int], queue: ModelQueue) -> None:
        """Explain the rows ``todo``; if that is interrupted, keep what was asked."""
        active: dict[Run, int] = {}
        try:
            for run in drive(self._begin(todo, queue, active), queue):
                if run.state.stop_reason is not None:
                    self._finish(active[run], run)
                    del active[run]
        except KeyboardInterrupt:
            for run, i in active.items():
                if run.state.stop_reason is None:
                    run.end("interrupted")
                self.unfinished[i] = run.state.explanation
            raise

    def _begin(
        self, todo: Sequence[int], queue: ModelQueue, active: dict[Run, int]
    ) -> Iterator[Run]:
        """Begin rows one after another and note them as active."""
        for i in todo:
            try:
                run = self.job.begin(i, self.begun.get(i), queue)
            except TimeUpError:
                return
            except CredexError as error:
                self._fail(i, error)
            else:
                active[run] = i
                yield run

    def _finish(self, i: int, run: Run) -> None:
        """Put a run that has ended among the results."""
        if run.state.stop_reason == "interrupted":
            raise run.interruption
        if run.error is not None:
            self._fail(i, run.error)
        else:
            self.done[i] = run.state.explanation
            self.progress(1)

    def _fail(self, i: int, error: CredexError) -> None:
        """Record the error of row ``i``, or raise it."""
        label = getattr(self.job.rows[i], "label", None)
        self.done[i] = Failure(i if label is None else label, error)
        self.raise_failure(i)
        self.progress(1)

    def raise_failure(self, i: int) -> None:
        """Raise the error of row ``i``, if it failed and errors are not recorded."""
        item = self.done[i]
        if isinstance(item, Failure) and self.on_error == "raise":
            note = f"in row {item.label!r} (position {i}); on_error='record' keeps the other rows"
            item.error.add_note(note)
            raise item.error


def explain_rows(job: Job, queue: ModelQueue) -> list[Item]:
    """Explain the rows of a job in this thread; errors are recorded."""
    batch = _Batch(job, "record", [None] * len(job.rows), {}, lambda n: n)
    batch.explain(range(len(job.rows)), queue)
    return batch.done


def explain_batch(
    job: Job,
    *,
    start: Explanations | None,
    n_jobs: int | None,
    workers: str,
    shares_rows: bool,
    on_error: str,
    progress: bool | None,
) -> Explanations:
    """Explain the rows of a job; see `Explainer.explain_many`."""
    _check_arguments(on_error, workers, start, n_jobs)
    clock, n = time.perf_counter(), len(job.rows)
    if job.goals.batch_seconds is not None:
        job = replace(job, deadline=time.time() + job.goals.batch_seconds)
    before = Explanations((None,) * n, 0, 0, 0.0, "") if start is None else start
    if len(before) != n:
        raise InputError(f"start has {len(before)} rows, X has {n}")
    done = [item if isinstance(item, Explanation) else None for item in before.items]
    for i, item in enumerate(done):
        if item is not None:
            job.check_same(i, item)
    todo = [i for i in range(n) if done[i] is None]
    n_workers = min(check_jobs(n_jobs), max(len(todo), 1))
    shares = workers == "auto" and shares_rows and not in_context()
    threads = workers == "threads" or shares
    queue = job.queue({} if before.shared is None else before.shared)
    how, interrupted, cause = "one worker", False, KeyboardInterrupt()
    with progress_bar("explaining", n, n - len(todo), show=on_screen(progress)) as bar:
        batch = _Batch(job, on_error, [*done], before.begun, bar.update)
        try:
            if n_workers == 1:
                batch.explain(todo, queue)
            elif threads:
                why = "" if workers == "threads" else ": rows share their perturbations"
                how = f"threads ({n_workers}){why}"
                _threads(batch, queue, todo, n_workers)
            else:
                how = _processes(batch, queue, todo, n_workers)
        except KeyboardInterrupt as error:
            interrupted, cause = True, error
    complete = not interrupted and all(item is not None for item in batch.done)
    out = Explanations(
        tuple(batch.done),
        before.n_model_rows + queue.rows_sent,
        before.n_calls + queue.calls,
        before.seconds + time.perf_counter() - clock,
        how,
        complete,
        {} if complete else batch.unfinished,
        None if complete else queue.shared,
    )
    if interrupted:
        left = sum(item is None for item in out.items)
        stop = interruption(cause, f"{left} rows are to go: explain_many(X, start=….partial)")
        stop.partial = out
        raise stop from cause
    return out


def _threads(batch: _Batch, queue: ModelQueue, todo: list[int], n_workers: int) -> None:
    with ThreadPoolExecutor(n_workers) as pool:
        blocks = _blocks(todo, n_workers)
        futures = [pool.submit(batch.explain, block, queue) for block in blocks]
        errors = [e for e in (f.exception() for f in futures) if e is not None]
    for error in sorted(errors, key=lambda e: isinstance(e, KeyboardInterrupt)):
        raise error


def _processes(batch: _Batch, queue: ModelQueue, todo: list[int], n_workers: int) -> str:
    """Explain blocks of rows in processes, or in threads if the model cannot be pickled.

    Inside ``joblib.parallel_config(backend)`` that backend has the workers.
    """
    import pickle

    from joblib import Parallel, delayed

    job, done = batch.job, 0
    blocks = _blocks(todo, n_workers * 4 if len(todo) >= 8 * n_workers else n_workers)
    pool = Parallel(n_jobs=n_workers, prefer="processes", return_as=returns("generator"))
    results: Iterator[tuple[list[Item], int, int]] = iter(())
    try:
        sealed = Sealed.of(job.explainer)
        results = pool(
            delayed(_in_worker)(
                sealed,
                replace(job, explainer=None, rows=_at(job.rows, b), cohorts=_at(job.cohorts, b)),
                {n: batch.begun[i] for n, i in enumerate(b) if i in batch.begun},
            )
            for b in blocks
        )
        for block, (items, rows, calls) in zip(blocks, results, strict=True):
            for i, item in zip(block, items, strict=True):
                batch.done[i] = item
                if isinstance(item, Failure) and getattr(job.rows[i], "label", None) is None:
                    batch.done[i] = Failure(i, item.error)  # not the position in its block
                batch.raise_failure(i)
            queue.count(rows, calls)
            batch.progress(len(block))
            done += len(block)
    except (pickle.PicklingError, TypeError, AttributeError) as cause:
        if isinstance(cause, TypeError | AttributeError) and "pickle" not in str(cause):
            raise
        _threads(batch, queue, todo[done:], n_workers)
        return f"threads ({n_workers}): the model cannot be pickled"
    except Exception as cause:
        if worker_died(cause):
            raise ModelError(DIED) from cause
        raise
    finally:
        with warnings.catch_warnings():  # joblib warns that blocks were given up: they were
            warnings.simplefilter("ignore", UserWarning)
            getattr(results, "close", lambda: None)()
    kind = pool_name()
    return f"{kind} ({n_workers})"


def interruption(cause: BaseException, what_is_left: str) -> InterruptedRun:
    """Return what is raised for a batch that Ctrl-C or its model ended."""
    if isinstance(cause, StoppedRun):
        return StoppedRun(f"{cause}; {what_is_left}")
    return InterruptedRun(f"interrupted; {what_is_left}")


DIED = "a worker process died (out of memory, or the model ended it); try workers='threads'"


def worker_died(error: BaseException) -> bool:
    """Whether an error says that a worker process, of joblib or of dask, is gone."""
    return isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"


def pool_name() -> str:
    """Return what has the workers: ``"processes"``, or the backend of joblib's context."""
    from joblib.parallel import get_active_backend

    name = type(get_active_backend(prefer="processes")[0]).__name__
    return "processes" if name == "LokyBackend" else name.removesuffix("Backend")


def returns(wanted: str) -> str:
    """Return how joblib can hand over results: as ``wanted``, a generator, or as a list."""
    from joblib.parallel import get_active_backend

    backend = get_active_backend(prefer="processes")[0]
    return wanted if getattr(backend, "supports_return_generator", False) else "list"


def in_context() -> bool:
    """Whether the caller is inside ``joblib.parallel_config`` with a backend of its own."""
    if "joblib" not in sys.modules:  # nobody can be
        return False
    from joblib.parallel import get_active_backend

    return type(get_active_backend(prefer="threads")[0]).__name__ != "ThreadingBackend"


def _in_worker(
    sealed: Sealed, job: Job, begun: dict[int, Explanation]
) -> tuple[list[Item], int, int]:
    """Explain a block of rows in a process of its own.

    Errors are recorded and raised by the parent: one that crosses over by itself loses its cause.
    """
    job = replace(job, explainer=sealed.open())
    queue = job.queue({})
    batch = _Batch(job, "record", [None] * len(job.rows), begun, lambda n: n)
    batch.explain(range(len(job.rows)), queue)
    return batch.done, queue.rows_sent, queue.calls


def _at(items: Sequence[Any], block: list[int]) -> list[Any]:
    return [items[i] for i in block]


def _blocks(todo: list[int], n: int) -> list[list[int]]:
    """Cut the rows into ``n`` blocks of about equal size."""
    return [part.tolist() for part in np.array_split(np.array(todo, dtype=int), n) if part.size]


def _check_arguments(on_error: str, workers: str, start: object, n_jobs: object) -> None:
    if on_error not in ("raise", "record"):
        raise InputError(f"on_error must be 'raise' or 'record'; got {on_error!r}")
    if workers not in ("auto", "threads", "processes"):
        raise InputError(f"workers must be 'auto', 'threads' or 'processes'; got {workers!r}")
    if start is not None and not isinstance(start, Explanations):
        msg = f"start must be an interrupted batch (Explanations); got {type(start).__name__}"
        raise InputError(msg)
    check_jobs(n_jobs)


def check_jobs(n_jobs: Any) -> int:
    """Return the number of workers; ``None`` takes that of joblib's context, or one."""
    if n_jobs is None:
        if "joblib" not in sys.modules:
            return 1
        from joblib import effective_n_jobs

        return int(effective_n_jobs(None))
    whole = isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool)
    if not whole or n_jobs == 0 or n_jobs < -1:
        raise InputError(f"n_jobs must be a whole number ≥ 1, or −1 for all cores; got {n_jobs!r}")
    return os.cpu_count() or 1 if n_jobs == -1 else int(n_jobs)
