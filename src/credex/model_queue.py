"""`ModelQueue`: stacks queries into model calls, cuts calls by size and speed, counts every row."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import numpy as np

from credex.blackbox import TOLERANCE, BlackBox, Reply
from credex.errors import CredexError, InterruptedRun
from credex.game import Query, Result
from credex.history import joined
from credex.typing import Floats, Ints, Native, Outputs

__all__ = ["ModelQueue", "Sent", "Slice", "Task"]

CALL_BYTES = 64_000_000
"""Maximum size of one call's input, if ``batch_rows`` is not given."""

SLOW_ROW = 0.02
"""Seconds a row from which calls are kept short, so that little is lost if one fails."""

CALL_SECONDS = 2.0
"""Target length of such a call."""

PROBE_ROWS = 64
"""Rows of the first such call: a model may be slow to begin rather than slow."""

LARGER = 2
"""Rows this many times larger than those of the last call may take longer than was measured."""

ROUNDING = 1e-6
"""Rounding error of the shares of a call, which are added up."""


class ModelQueue:
    """Sends queries to the model, stacked; keeps answers that the rows of a batch share.

    ``concat`` stacks blocks of model rows. A call has at most ``batch_rows`` rows, by default as
    many as `CALL_BYTES` hold. ``shared`` holds the answers that an interrupted batch shared; with
    ``None`` nothing is shared (a single run).
    """

    def __init__(
        self,
        box: BlackBox,
        concat: Callable[[Sequence[Native]], Native],
        batch_rows: int | None = None,
        shared: dict[Hashable, list[_Piece]] | None = None,
    ) -> None:
        self.box, self.concat, self.batch_rows, self.shared = box, concat, batch_rows, shared
        self.rows_sent = self.calls = 0
        self.on_call: Callable[[int], None] | None = None
        """Told the number of rows after each call."""
        self.before_call: Callable[[], None] | None = None
        """Called before each call; a KeyboardInterrupt that it raises ends the runs like Ctrl-C."""
        self._share_lock = threading.Lock()
        self._count_lock = threading.Lock()

    def is_quick(self, row_bytes: int) -> bool:
        """Whether rows of this size are known to take next to no time."""
        seconds = self.box.row_seconds
        if seconds is None or row_bytes > LARGER * self.box.row_bytes:
            return False
        return seconds < SLOW_ROW

    def max_rows(self, row_bytes: int) -> int:
        """Maximum rows of this size in one call."""
        size = self.batch_rows or max(CALL_BYTES // max(row_bytes, 1), 1)
        each = self.box.row_seconds
        if each is None or each < SLOW_ROW:
            return size
        unsure = self.box.largest_call < PROBE_ROWS
        return int(min(max(CALL_SECONDS / each, PROBE_ROWS if unsure else 1), size))

    def answer(self, runs: Sequence[Sequence[Query]]) -> list[list[Result]]:
        """Answer the queries of several runs with as few calls as their size allows.

        If a call that holds rows of several runs fails, each run's part is sent again by itself,
        so that one bad row spoils no other. What cannot be answered has a `Result.error`; the
        remaining queries of that run are then not asked. After Ctrl-C they all have.
        """
        tasks = [Task(i, q) for i, queries in enumerate(runs) for q in queries]
        stopped: dict[int, CredexError] = {}
        calls: dict[Hashable, _Call] = {}
        try:
            for task in tasks:
                if self.shared is not None and task.query.share is not None:
                    self._answer_shared(task, stopped)
                    continue
                call = calls.setdefault(task.query.form, _Call())
                self._stack(task, call, stopped)
            for call in calls.values():
                self._send(call.take(), stopped)
            self._finish(stopped)
        except KeyboardInterrupt:
            stop = InterruptedRun("interrupted; what was asked is in .partial")
            stopped = {i: stopped.get(i, stop) for i in range(len(runs))}
        out: list[list[Result]] = [[] for _ in runs]
        for task in tasks:
            out[task.run].append(task.result(stopped.get(task.run)))
        return out

    def _stack(self, task: Task, call: _Call, stopped: dict[int, CredexError]) -> None:
        """Add a query to a call, which is sent when it is full; cut the query if it must be."""
        q, start = task.query, 0
        while start < q.n and task.run not in stopped:
            most = max(self.max_rows(q.row_bytes) // len(q.weights), 1)  # values in a whole call
            room = int((1 - call.load) * most + ROUNDING)
            if call.parts and (room < min(q.unit, most) or room < q.n - start <= most):
                self._send(call.take(), stopped)
                continue  # its speed decides how the next one is cut
            step = max(room - room % q.unit, min(q.unit, room), 1)
            stop = min(start + step, q.n)
            call.parts.append(Slice(task, start, stop))
            call.load += (stop - start) / most
            start = stop
        if call.load >= 1 - ROUNDING:
            self._send(call.take(), stopped)

    def _send(self, parts: Sequence[Slice], stopped: dict[int, CredexError]) -> None:
        """Send slices in one call; if it fails, once more run by run."""
        parts = [p for p in parts if p.task.run not in stopped]
        runs = dict.fromkeys(p.task.run for p in parts)
        self._before_call()
        try:
            if parts:
                self._hand_out(parts, self._ask_model(parts), stopped)
        except CredexError as error:
            if len(runs) == 1:
                stopped[next(iter(runs))] = error
                return
            for run in runs:
                self._send([p for p in parts if p.task.run == run], stopped)

    def _before_call(self) -> None:
        if self.before_call is not None:
            self.before_call()

    def _finish(self, stopped: dict[int, CredexError]) -> None:
        """Wait for calls that were sent and not answered: here there are none."""

    def _ask_model(self, parts: Sequence[Slice]) -> Sent:
        """Make the rows of all slices and call the model once."""
        made = [p.task.query.make(p.start, p.stop) for p in parts]
        sizes = [len(rows) for rows, _ in made]
        n = sum(sizes)
        stacked = made[0][0] if len(made) == 1 else self.concat([rows for rows, _ in made])
        sent = n
        try:
            reply = self.box.ask(stacked, n)
            sent = n if reply.sent is None else reply.sent
        except BaseException as error:
            sent = getattr(error, "rows_sent", n)
            with self._count_lock:
                for p, share in zip(parts, _shares(sent, sizes), strict=True):
                    p.task.fail(share)
            raise
        finally:
            self.count(sent, 1)
        cost = list(zip(_shares(sent, sizes), _shares(reply.failed, sizes), strict=True))
        return Sent(reply, sizes, cost, [index for _, index in made])

    def _hand_out(
        self, parts: Sequence[Slice], sent: Sent, stopped: dict[int, CredexError]
    ) -> None:
        """Give each slice its values; runs that have stopped only count their rows."""
        box, reply, n, end = self.box, sent.reply, sum(sent.sizes), 0
        box.row_seconds, box.row_bytes = reply.seconds / max(n, 1), parts[0].task.query.row_bytes
        box.largest_call = max(box.largest_call, n)
        for p, size, cost, index in zip(parts, sent.sizes, sent.cost, sent.indices, strict=True):
            end += size
            p.task.failed_rows += cost[1]
            if p.task.run in stopped:
                p.task.rows += cost[0]
                continue
            # a copy: where a slice begins in memory decides how some BLAS kernels round its sums
            y, by_row = _values(reply.y[end - size : end].copy(), index, p.task.query)
            p.task.absorb(y, by_row, cost[0], box.row_seconds * size, reply.tolerance)

    def count(self, rows: int, calls: int) -> None:
        """Add to the rows and calls sent."""
        with self._count_lock:
            self.rows_sent += rows
            self.calls += calls
            if self.on_call is not None:
                self.on_call(rows)

    def _answer_shared(self, task: Task, stopped: dict[int, CredexError]) -> None:
        """Answer from the shared values; what is missing is asked once for all rows."""
        if self.shared is None or task.run in stopped:
            return
        q, last = task.query, task.query.first + task.query.n
        with self._share_lock:  # one worker asks, the others wait for the same values
            pieces = self.shared.setdefault(q.share, [])
            end = pieces[-1].stop if pieces else q.first
            if q.first > end or (pieces and q.first < pieces[0].start):  # a gap: ask it unshared
                self._send_alone(task, stopped)
                return
            if end < last:
                alone = Task(task.run, _rest(q, end))
                self._send_alone(alone, stopped)
                if task.run in stopped:
                    task.rows += alone.rows
                    task.failed_rows += alone.failed_rows
                    return
                pieces.append(_Piece(end, last, alone.result(None)))
            for piece in pieces:
                piece.hand_over(q.first, last, task)

    def _send_alone(self, task: Task, stopped: dict[int, CredexError]) -> None:
        """Send a query by itself."""
        call = _Call()
        self._stack(task, call, stopped)
        self._send(call.take(), stopped)


def _shares(total: int, sizes: Sequence[int]) -> list[int]:
    """Divide rows among slices in proportion to their sizes; the shares add up."""
    n = sum(sizes)
    if total in (0, n):
        return [size if total else 0 for size in sizes]
    ends = [round(total * end / n) for end in accumulate(sizes, initial=0)]
    return [b - a for a, b in pairwise(ends)]


def _rest(q: Query, start: int) -> Query:
    """Return the query for the values from position ``start`` on."""
    skip = start - q.first
    return replace(q, make=lambda a, b: q.make(skip + a, skip + b), n=q.n - skip, first=start)


def _values(raw: Outputs, index: Ints | None, q: Query) -> tuple[Outputs, Floats | None]:
    """Average the rows of each value by their weights."""
    b, k = len(q.weights), raw.shape[1]
    by_row = raw.reshape(-1, b, k) if index is None else raw[index.reshape(-1, b)]
    y = by_row[:, 0] if b == 1 else np.einsum("nbk,b->nk", by_row, q.weights)
    return y, by_row if q.keep_rows else None


@dataclass
class Task:
    """A query of one run: what was answered so far and what that cost."""

    run: int
    query: Query
    y: list[Outputs] = field(default_factory=list)
    by_row: list[Floats] = field(default_factory=list)
    rows: int = 0
    failed_rows: int = 0
    seconds: float = 0.0
    tolerance: float = TOLERANCE

    def absorb(
        self, y: Outputs, by_row: Floats | None, rows: int, seconds: float, tolerance: float
    ) -> None:
        """Take in the values of one slice."""
        self.y.append(y)
        if by_row is not None:
            self.by_row.append(by_row)
        self.rows += rows
        self.seconds += seconds
        self.tolerance = max(self.tolerance, tolerance)

    def fail(self, rows: int) -> None:
        """Count the rows of a call that failed."""
        self.rows += rows
        self.failed_rows += rows

    def result(self, error: CredexError | None) -> Result:
        """Return what was answered; ``error`` explains what was not."""
        complete = sum(map(len, self.y)) == self.query.n
        return Result(
            joined(self.y) if self.y else None,
            self.rows,
            self.seconds,
            joined(self.by_row) if self.by_row else None,
            self.tolerance,
            self.failed_rows,
            None if complete else error,
        )


@dataclass(slots=True, eq=False)
class Sent:
    """What a call returned, the rows of each of its slices, and indices into those rows.

    ``cost``: for each slice, the rows that were sent to the model, and those of them to no avail.
    """

    reply: Reply
    sizes: list[int]
    cost: list[tuple[int, int]]
    indices: list[Ints | None]


@dataclass(slots=True, eq=False)
class Slice:
    """Values ``start`` to ``stop`` of a query."""

    task: Task
    start: int
    stop: int


@dataclass
class _Call:
    """Slices that will be sent together, and the share of a call that they take."""

    parts: list[Slice] = field(default_factory=list)
    load: float = 0.0

    def take(self) -> list[Slice]:
        """Return the slices and empty the call."""
        out, self.parts, self.load = self.parts, [], 0.0
        return out


@dataclass(frozen=True, slots=True)
class _Piece:
    """Values ``start`` to ``stop`` of a shared stream."""

    start: int
    stop: int
    result: Result

    def hand_over(self, first: int, last: int, task: Task) -> None:
        """Give a task the part between ``first`` and ``last``, with its share of the cost."""
        r, lo, hi = self.result, max(first, self.start), min(last, self.stop)
        if lo >= hi or r.y is None:
            return
        share = (hi - lo) / (self.stop - self.start)
        part = slice(lo - self.start, hi - self.start)
        by_row = None if r.by_row is None else r.by_row[part].copy()
        task.absorb(r.y[part].copy(), by_row, round(r.rows * share), r.seconds * share, r.tolerance)
