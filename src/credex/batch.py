"""Driving runs: one by itself, or many whose asks are stacked into large model calls."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.errors import CredexError, InputError, InterruptedRun, ModelError
from credex.estimators.base import Context
from credex.explanation import Explanation
from credex.explanations import Explanations, Failure
from credex.loop import Run, State
from credex.model_queue import Answer, Ask, Desk
from credex.options import Options

if TYPE_CHECKING:
    from credex.explainer import Explainer
    from credex.goals import Goals

Item = Explanation | Failure | None


def drive(running: Run, desk: Desk) -> Iterator[State]:
    """Run one generator against the desk and yield its states."""
    reply: list[Answer] | None = None
    while True:
        try:
            event = running.send(reply)
        except StopIteration:
            return
        reply = None
        while not isinstance(event, State):
            try:
                answers = desk.answer(event)
            except KeyboardInterrupt as stop:
                event = running.throw(stop)
                continue
            bad = next((a for a in answers if isinstance(a, CredexError)), None)
            if bad is not None:
                if isinstance(bad, ModelError):
                    bad.answers = answers
                running.throw(bad)
                return
            event = running.send([a for a in answers if isinstance(a, Answer)])
        yield event


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One instance to explain: what it is, its cohort, and what is known about it already."""

    x: Any
    cohort: Any = None
    start: Explanation | None = None


@dataclass
class _Row:
    """A row of a batch on its way."""

    at: int
    run: Run
    load: Fraction
    """Share of a model call that it is expected to ask for in one go."""
    asks: list[Ask]
    last: State | None = None


def explain_batch(
    explainer: Explainer,
    X: Any,
    *,
    goals: Goals,
    start: Explanations | None,
    cohort: Any,
    n_jobs: int,
    workers: str,
    on_error: str,
    progress: bool | None,
    options: Options,
) -> Explanations:
    """Explain the rows of ``X``; see `Explainer.explain_many`."""
    if on_error not in ("raise", "record"):
        msg = f"on_error must be 'raise' or 'record'; got {on_error!r}"
        raise InputError(msg)
    if workers not in ("auto", "threads", "processes"):
        msg = f"workers must be 'auto', 'threads' or 'processes'; got {workers!r}"
        raise InputError(msg)
    if start is not None and not isinstance(start, Explanations):
        msg = f"start must be an interrupted batch (Explanations); got {type(start).__name__}"
        raise InputError(msg)
    if not _whole(n_jobs) or n_jobs == 0 or n_jobs < -1:
        msg = f"n_jobs must be a whole number ≥ 1, or −1 for all cores; got {n_jobs!r}"
        raise InputError(msg)
    clock = time.perf_counter()
    rows = explainer.domain.split(X)
    cohorts = _cohorts(cohort, len(rows))
    done = _done(start, len(rows))
    _check_same_rows(explainer, rows, cohorts, done)
    todo = [i for i in range(len(rows)) if done[i] is None]
    jobs = min(os.cpu_count() or 1 if n_jobs == -1 else n_jobs, max(len(todo), 1))
    how = _how(explainer, jobs, workers)
    bar = _bar(len(rows), len(rows) - len(todo), progress=progress)
    begun = {} if start is None else dict(start.begun)
    share = _Share(explainer, rows, cohorts, goals, options, on_error, begun)
    desk = explainer.desk(options, sharing=True)
    if start is not None and start.shared is not None:
        desk.shared = start.shared
    work = _Work(share, desk, Context(), done, bar)
    counts = [0, 0]
    complete = True
    try:
        if jobs == 1:
            _together(work, todo)
        elif how.startswith("threads"):
            _threads(work, todo, jobs)
        else:
            how, counts = _processes(work, todo, jobs)
    except KeyboardInterrupt:
        complete = False
    finally:
        bar.close()
    counts = [counts[0] + desk.rows_sent, counts[1] + desk.calls]
    before = (
        (start.n_model_rows, start.n_calls, start.seconds) if start is not None else (0, 0, 0.0)
    )
    out = Explanations(
        tuple(done),
        before[0] + counts[0],
        before[1] + counts[1],
        before[2] + time.perf_counter() - clock,
        how,
        complete,
        {} if complete else work.unfinished,
        None if complete else desk.shared,
    )
    if not complete:
        left = sum(item is None for item in done)
        stop = InterruptedRun(
            f"interrupted with {left} rows to go; explain_many(X, start=….partial)"
        )
        stop.partial = out
        raise stop
    return out


@dataclass
class _Share:
    """What every worker needs."""

    explainer: Explainer
    rows: Sequence[Any]
    cohorts: Sequence[Any]
    goals: Goals
    options: Options
    on_error: str
    begun: dict[int, Explanation]
    """Rows that an interruption left unfinished."""

    def begin(self, i: int, desk: Desk, context: Context) -> _Row:
        """Start row ``i``."""
        case = Case(self.rows[i], self.cohorts[i], self.begun.get(i))
        recipe, plan = self.explainer.prepare(case, self.goals, self.options, context)
        run = self.explainer.begin(
            recipe, plan, desk, self.options, alone=False, cohort=case.cohort
        )
        queries = plan.ceiling if plan.fixed else plan.seeds
        rows = queries * recipe.rows_per_query
        return _Row(i, run, desk.share_of_call(rows, recipe.neighbourhood.row_bytes), [])


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """Where a worker takes from and puts to."""

    share: _Share
    desk: Desk
    context: Context
    done: list[Item]
    bar: Any
    unfinished: dict[int, Explanation] = field(default_factory=dict)
    """Where rows were when the run was interrupted."""


def _together(work: _Work, todo: Sequence[int]) -> None:
    """Advance many rows side by side, their asks stacked."""
    desk = work.desk
    waiting = list(reversed(todo))
    active: list[_Row] = []
    while waiting or active:
        load = sum((row.load for row in active), Fraction(0))
        while waiting and (load < 1 or not active):
            i = waiting.pop()
            try:
                row = work.share.begin(i, desk, work.context)
            except CredexError as error:
                _fail(work, i, error)
                continue
            if _advance(work, row, None):
                active.append(row)
                load += row.load
        try:
            answers = desk.answer([a for row in active for a in row.asks])
        except KeyboardInterrupt:
            for row in active:
                _give_up(work, row)
            raise
        at, still = 0, []
        for row in active:
            own = answers[at : at + len(row.asks)]
            at += len(row.asks)
            if _advance(work, row, own):
                still.append(row)
        active = still


def _advance(work: _Work, row: _Row, own: list[Answer | CredexError] | None) -> bool:
    """Send a row its answers; True if it wants more."""
    try:
        bad = next((a for a in own or () if isinstance(a, CredexError)), None)
        if bad is not None:
            row.run.throw(bad)
        event = row.run.send(None if own is None else [a for a in own if isinstance(a, Answer)])
        while isinstance(event, State):
            row.last = event
            event = row.run.send(None)
    except StopIteration:
        if row.last is not None:
            work.done[row.at] = row.last.explanation
        work.bar.update(1)
        return False
    except CredexError as error:
        if isinstance(error, InterruptedRun):
            raise
        _fail(work, row.at, error)
        return False
    row.asks = event
    return True


def _give_up(work: _Work, row: _Row) -> None:
    """Keep what a row has asked when the run is interrupted."""
    try:
        row.run.throw(KeyboardInterrupt())
    except InterruptedRun as stop:
        work.unfinished[row.at] = stop.partial
    except StopIteration:  # pragma: no cover - a run does not end by being interrupted
        pass


def _fail(work: _Work, i: int, error: CredexError) -> None:
    label = getattr(work.share.rows[i], "label", None)
    label = i if label is None else label
    if work.share.on_error == "raise":
        raise noted(error, label, i)
    work.done[i] = Failure(label, error)
    work.bar.update(1)


def noted(error: Exception, label: Any, i: int) -> Exception:
    """Return the error with a note that names the row."""
    error.add_note(f"in row {label!r} (position {i}); on_error='record' keeps the other rows")
    return error


def _threads(work: _Work, todo: list[int], jobs: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(_together, work, block) for block in _blocks(todo, jobs)]
        errors = [e for e in (f.exception() for f in futures) if e is not None]
    for error in sorted(errors, key=lambda e: isinstance(e, KeyboardInterrupt)):
        raise error


def _processes(work: _Work, todo: list[int], jobs: int) -> tuple[str, list[int]]:
    import pickle

    from joblib import Parallel, delayed

    counts = [0, 0]
    # recorded there and raised here: an error that crosses over by itself loses its cause
    share = replace(work.share, on_error="record")
    blocks = _blocks(todo, jobs * 4 if len(todo) >= 8 * jobs else jobs)
    pool = Parallel(n_jobs=jobs, backend="loky", return_as="generator")
    results = pool(delayed(_in_worker)(share, block) for block in blocks)
    try:
        for block, (items, rows, calls) in zip(blocks, results, strict=True):
            for i, item in zip(block, items, strict=True):
                work.done[i] = item
                if isinstance(item, Failure) and work.share.on_error == "raise":
                    raise noted(item.error, item.label, i)
            counts[0], counts[1] = counts[0] + rows, counts[1] + calls
            work.bar.update(len(block))
    except (pickle.PicklingError, TypeError, AttributeError) as cause:
        if isinstance(cause, TypeError | AttributeError) and "pickle" not in str(cause):
            raise
        _threads(work, [i for i in todo if work.done[i] is None], jobs)
        return f"threads ({jobs}): the model cannot be pickled", counts
    except BrokenExecutor as cause:
        msg = "a worker process died (out of memory, or the model ended it); try workers='threads'"
        raise ModelError(msg) from cause
    finally:
        with warnings.catch_warnings():  # joblib warns that blocks were given up: they were
            warnings.simplefilter("ignore", UserWarning)
            results.close()
    return f"processes ({jobs})", counts


def _in_worker(share: _Share, block: list[int]) -> tuple[list[Item], int, int]:
    done: list[Item] = [None] * len(share.rows)
    desk = share.explainer.desk(share.options, sharing=True)
    _together(_Work(share, desk, Context(), done, _NoBar()), block)
    return [done[i] for i in block], desk.rows_sent, desk.calls


def _blocks(todo: list[int], n: int) -> list[list[int]]:
    n = max(min(n, len(todo)), 1)
    size, extra = divmod(len(todo), n)
    out, at = [], 0
    for b in range(n):
        step = size + (b < extra)
        out.append(todo[at : at + step])
        at += step
    return [b for b in out if b]


def _how(explainer: Explainer, jobs: int, workers: str) -> str:
    if jobs == 1:
        return "one worker"
    shared = (
        explainer.method == "BayesLIME" and getattr(explainer.domain, "around", "") == "training"
    )
    if workers == "threads" or (workers == "auto" and shared):
        why = "" if workers == "threads" else ": rows share their perturbations"
        return f"threads ({jobs}){why}"
    return f"processes ({jobs})"


def _cohorts(cohort: Any, n: int) -> list[Any]:
    if cohort is None or isinstance(cohort, str) or not hasattr(cohort, "__len__"):
        return [cohort] * n
    if len(cohort) != n:
        msg = f"cohort has {len(cohort)} entries for {n} rows"
        raise InputError(msg)
    return list(cohort)


def _done(start: Explanations | None, n: int) -> list[Item]:
    if start is None:
        return [None] * n
    if len(start) != n:
        msg = f"start has {len(start)} rows, X has {n}"
        raise InputError(msg)
    return [item if isinstance(item, Explanation) else None for item in start.items]


def _check_same_rows(
    explainer: Explainer, rows: Sequence[Any], cohorts: Sequence[Any], done: Sequence[Item]
) -> None:
    """Raise if what a batch goes on from was made of other rows, or of other data."""
    for i, item in enumerate(done):
        if isinstance(item, Explanation):
            nb = explainer.neighbourhood(Case(rows[i], cohorts[i]))
            if json.dumps(nb.payload(), default=str) != json.dumps(item.payload, default=str):
                msg = f"start= has another row at position {i}: it belongs to another X"
                raise InputError(msg)
            explainer.check_data(nb, item)


def _whole(n: object) -> bool:
    return isinstance(n, int | np.integer) and not isinstance(n, bool)


class _NoBar:
    """Progress for nobody."""

    def update(self, n: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _bar(total: int, initial: int, *, progress: bool | None) -> Any:
    if progress is False:
        return _NoBar()
    from tqdm import tqdm

    quiet = None if progress is None else False  # None: a bar on a terminal, nothing in a pipe
    return tqdm(total=total, initial=initial, desc="explaining", unit="row", disable=quiet)
