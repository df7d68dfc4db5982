"""`ConcurrentQueue`: several model calls at the same time, for models that wait."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from credex.errors import CredexError
from credex.game import Query, Result
from credex.model_queue import ModelQueue, Sent, Slice, Task

__all__ = ["ConcurrentQueue"]


class ConcurrentQueue(ModelQueue):
    """Cuts what is asked into ``concurrency`` calls, sends them from threads, sorts the answers.

    Models behind a network answer many small calls at once as quickly as one. The model must allow
    calls from several threads.
    """

    def __init__(self, concurrency: int, *args: Any) -> None:
        super().__init__(*args)
        self.concurrency = concurrency
        self._share = 0  # rows of a call so that all workers have one
        self._pool: ThreadPoolExecutor | None = None
        self._sent: list[tuple[Sequence[Slice], Future[Sent]]] = []

    def max_rows(self, row_bytes: int) -> int:
        """Maximum rows of this size in one call."""
        most = super().max_rows(row_bytes)
        return min(most, self._share) if self._share else most

    def answer(self, runs: Sequence[Sequence[Query]]) -> list[list[Result]]:
        """Answer the queries of several runs, by calls at the same time."""
        total = sum(q.n * len(q.weights) for queries in runs for q in queries)
        self._share = max(-(-total // self.concurrency), 1)
        try:
            return super().answer(runs)
        finally:
            self._share = 0
            for _, call in self._sent:  # left by Ctrl-C
                call.cancel()
            self._sent.clear()

    def _send(self, parts: Sequence[Slice], stopped: dict[int, CredexError]) -> None:
        parts = [p for p in parts if p.task.run not in stopped]
        if not parts:
            return
        self._before_call()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.concurrency, "credex-model-call")
        self._sent.append((parts, self._pool.submit(self._ask_model, parts)))

    def _finish(self, stopped: dict[int, CredexError]) -> None:
        """Hand out the answers in the order of the calls; send failed ones again, run by run."""
        while self._sent:
            self._before_call()
            parts, call = self._sent.pop(0)
            try:
                sent = call.result()
            except CredexError as error:
                runs = dict.fromkeys(p.task.run for p in parts if p.task.run not in stopped)
                if len(runs) == 1:
                    stopped[next(iter(runs))] = error
                for run in runs if len(runs) > 1 else ():
                    super()._send([p for p in parts if p.task.run == run], stopped)
                continue
            self._hand_out(parts, sent, stopped)

    def _send_alone(self, task: Task, stopped: dict[int, CredexError]) -> None:
        super()._send_alone(task, stopped)
        self._finish(stopped)
