"""Value functions: design rows in, outputs out; and the desk that sends them to the model.

A run never calls the model. It hands out `Ask` objects and gets `Answer` objects back, so one
row, a thousand rows stacked into one call, and rows that share their inputs all run the same code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from credex.blackbox import SAME, BlackBox, Speed
from credex.errors import CredexError, ModelError
from credex.typing import Floats, Ints, Native, Outputs

if TYPE_CHECKING:
    from credex.domains import Domain

BATCH_BYTES = 64_000_000
"""Most bytes of one model call's input, if ``batch_rows`` is not given."""

Make = Callable[[int, int], tuple[Native, Ints | None]]


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Values wanted, and how to make the model rows for them.

    Attributes
    ----------
    make
        ``make(start, stop)`` gives the rows of values start…stop and ``(n, B)`` positions into
        them (``None``: n·B rows in order).
    n
        Number of values.
    weights
        ``(B,)`` weights of the rows of one value.
    share
        Values with the same ``share`` key and position are the same for every row of a batch.
    first
        Position of the first value under that key.
    keep_rows
        Whether the answer should hold the values by background row.
    row_bytes
        Memory that one model row takes.
    form
        Only rows of equal form are stacked into one call.
    of
        What it was asked of: asks of the same object are about the same instance.
    instance
        Whether this asks for f(x), which is one row.
    joined
        ``joined(times)`` is like ``make`` for all n values, with the instance so many times behind
        them: where f(x) is asked in the same call, nothing has to be copied.
    """

    make: Make
    n: int
    weights: Floats
    share: Hashable | None = None
    first: int = 0
    keep_rows: bool = False
    row_bytes: int = 8
    form: Hashable = None
    of: object = None
    instance: bool = False
    joined: Callable[[int], tuple[Native, Ints | None]] | None = None

    @property
    def rows(self) -> int:
        """Most model rows this can cost."""
        return self.n * len(self.weights)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Values and what they cost. ``by_row (n, B, k)`` only if it was wanted."""

    y: Outputs
    rows: int
    seconds: float
    by_row: Floats | None = None
    same: float = SAME
    """How far the model may differ from itself by rounding."""


class Desk:
    """Sends asks to the model, stacked; keeps the answers that rows of a batch share.

    Parameters
    ----------
    box
        The model.
    domain
        Stacks the inputs.
    batch_rows
        Most rows of one model call; ``None``: as many as `BATCH_BYTES` hold, at least one.
    sharing
        Whether there are several rows that could share answers.
    """

    def __init__(
        self, box: BlackBox, domain: Domain, batch_rows: int | None = None, *, sharing: bool = False
    ) -> None:
        self.box, self.domain, self.batch_rows = box, domain, batch_rows
        self.sharing = sharing
        self.rows_sent = 0
        self.calls = 0
        self.seconds = 0.0
        self.shared: dict[Hashable | None, list[_Piece]] = {}
        self._lock = threading.Lock()
        self._count = threading.Lock()

    def most_rows(self, row_bytes: int) -> int:
        """Most rows of so many bytes that go into one call."""
        return most_rows(self.batch_rows, row_bytes)

    def share_of_call(self, rows: int, row_bytes: int) -> Fraction:
        """Return how much of a call ``rows`` fill; 1 is a full one."""
        return Fraction(rows, self.most_rows(row_bytes))

    def answer(self, asks: Sequence[Ask]) -> list[Answer | CredexError]:
        """Answer all asks with as few calls as the size of a call allows.

        A call that fails is tried again ask by ask, so that one bad ask spoils no other; its
        error stands in its place.
        """
        if not self.sharing and self._fit_one_call(asks):
            return self._together(asks)
        out: list[Answer | CredexError | None] = [None] * len(asks)

        def send(which: list[int]) -> None:
            for i, a in zip(which, self._together([asks[i] for i in which]), strict=True):
                out[i] = a

        waiting: dict[Hashable, tuple[list[int], Fraction]] = {}
        for i, ask in enumerate(asks):
            if self.sharing and ask.share is not None:
                out[i] = self._try(self._from_store, ask)
                continue
            size = self.share_of_call(ask.rows, ask.row_bytes)
            pending, load = waiting.get(ask.form, ([], Fraction(0)))
            if pending and load + size > 1:
                send(pending)
                pending, load = [], Fraction(0)
            pending.append(i)
            waiting[ask.form] = (pending, load + size)
        for pending, _ in waiting.values():
            send(pending)
        return [a for a in out if a is not None]

    def _fit_one_call(self, asks: Sequence[Ask]) -> bool:
        """Whether all asks go into one call: nearly always, and quickly told."""
        if len(asks) < 2:
            return bool(asks)
        form, size, rows = asks[0].form, asks[0].row_bytes, 0
        for ask in asks:
            rows += ask.rows
            if ask.form != form or ask.row_bytes != size:
                return False
        return rows <= self.most_rows(size)

    def _together(self, asks: Sequence[Ask]) -> list[Answer | CredexError]:
        """Answer in one call; if it fails, each by itself."""
        try:
            return [*self._call(asks)]
        except CredexError as error:
            if len(asks) == 1:
                return [error]
            return [self._try(lambda a: self._call([a])[0], ask) for ask in asks]

    @staticmethod
    def _try(read: Callable[[Ask], Answer], ask: Ask) -> Answer | CredexError:
        try:
            return read(ask)
        except CredexError as error:
            return error

    def _from_store(self, ask: Ask) -> Answer:
        with self._lock:  # one worker asks, the others wait for the same rows
            pieces = self.shared.setdefault(ask.share, [])
            end = pieces[-1].stop if pieces else ask.first
            if ask.first > end or (pieces and ask.first < pieces[0].start):
                return self._one(ask, 0, ask.n)  # a gap: these values are not shared
            step = max(self.most_rows(ask.row_bytes) // len(ask.weights), 1)
            for s in range(end, ask.first + ask.n, step):
                e = min(s + step, ask.first + ask.n)
                pieces.append(_Piece(s, e, self._one(ask, s - ask.first, e - ask.first)))
            return _joined([p.cut(ask.first, ask.first + ask.n) for p in pieces])

    def _one(self, ask: Ask, start: int, stop: int) -> Answer:
        piece = Ask(
            lambda a, b: ask.make(start + a, start + b),
            stop - start,
            ask.weights,
            keep_rows=ask.keep_rows,
            row_bytes=ask.row_bytes,
            form=ask.form,
        )
        return self._call([piece])[0]

    def _counted(self, rows: int, seconds: float) -> None:
        with self._count:
            self.rows_sent += rows
            self.calls += 1
            self.seconds += seconds

    def _rows(self, asks: Sequence[Ask]) -> tuple[Native, list[_Part]]:
        """Model rows of the asks, stacked, and where among them those of each ask are."""
        host = _host(asks)
        if host is None or host.joined is None:
            made = [ask.make(0, ask.n) for ask in asks]
            parts, at = [], 0
            for rows, index in made:
                parts.append(_Part(at, at + len(rows), index))
                at = parts[-1].stop
            return made[0][0] if len(made) == 1 else self.domain.concat([r for r, _ in made]), parts
        behind = sum(ask.instance for ask in asks)
        rows, index = host.joined(behind)
        index = index if index is None else index.reshape(host.n, -1)
        blocks, found, at = [], {}, 0
        for i, ask in enumerate(asks):
            if ask is not host and not ask.instance:
                blocks.append(ask.make(0, ask.n))
                found[i] = _Part(at, at + len(blocks[-1][0]), blocks[-1][1])
                at = found[i].stop
        end = at + len(rows)
        x = end - behind
        for i, ask in enumerate(asks):
            if ask is host:
                found[i] = _Part(at, end - behind, index)
            elif ask.instance:
                found[i] = _Part(x, x + 1, None)
                x += 1
        stacked = self.domain.concat([*(r for r, _ in blocks), rows]) if blocks else rows
        return stacked, [found[i] for i in range(len(asks))]

    def _call(self, asks: Sequence[Ask]) -> list[Answer]:
        rows, parts = self._rows(asks)
        n = sum([part.stop - part.start for part in parts])
        try:
            reply = self.box.ask(rows, n)
        except ModelError:
            self._counted(n, 0.0)  # a call that failed was made all the same
            raise
        self._counted(n, reply.seconds)
        self.box.speed = Speed(reply.seconds / max(n, 1), asks[0].row_bytes)
        out = []
        for ask, part in zip(asks, parts, strict=True):
            # a copy: where a slice begins in memory decides how some BLAS kernels round its sums
            raw = reply.y[part.start : part.stop].copy()
            y, by_row = _reduced(raw, part.positions, ask)
            size = part.stop - part.start
            share = reply.seconds * size / max(n, 1)
            out.append(Answer(y, size, share, by_row, reply.same))
        return out


def most_rows(batch_rows: int | None, row_bytes: int) -> int:
    """Most rows of so many bytes that go into one call: ``batch_rows``, or what fits."""
    return batch_rows or max(BATCH_BYTES // max(row_bytes, 1), 1)


class _Part(NamedTuple):
    """Where the rows of an ask are in a call, and its values' positions among them."""

    start: int
    stop: int
    positions: Ints | None


def _host(asks: Sequence[Ask]) -> Ask | None:
    """Return the ask that can make all rows of f(x) with its own, if all are of one instance."""
    if len(asks) < 2 or any(ask.of is not asks[0].of for ask in asks):
        return None
    return next((ask for ask in asks if ask.joined is not None), None)


def _reduced(raw: Outputs, index: Ints | None, ask: Ask) -> tuple[Outputs, Floats | None]:
    b, k = len(ask.weights), raw.shape[1]
    if b == 1 and index is None:
        return raw, raw[:, None, :] if ask.keep_rows else None
    by_row = raw.reshape(ask.n, b, k) if index is None else raw[index]
    y = np.einsum("nbk,b->nk", by_row, ask.weights)
    return y, by_row if ask.keep_rows else None


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Values ``start`` to ``stop`` of a shared stream."""

    start: int
    stop: int
    answer: Answer

    def cut(self, first: int, last: int) -> Answer | None:
        """Return the part of it between ``first`` and ``last``, with its share of the cost."""
        lo, hi = max(first, self.start), min(last, self.stop)
        if lo >= hi:
            return None
        share = (hi - lo) / (self.stop - self.start)
        a, part = self.answer, slice(lo - self.start, hi - self.start)
        by_row = None if a.by_row is None else a.by_row[part].copy()  # see `Desk._call`
        return Answer(a.y[part].copy(), round(a.rows * share), a.seconds * share, by_row)


def _joined(parts: Sequence[Answer | None]) -> Answer:
    some = [a for a in parts if a is not None]
    if len(some) == 1:
        return some[0]
    by_row = [a.by_row for a in some if a.by_row is not None]
    return Answer(
        np.concatenate([a.y for a in some]),
        sum(a.rows for a in some),
        sum(a.seconds for a in some),
        np.concatenate(by_row) if by_row else None,
    )
