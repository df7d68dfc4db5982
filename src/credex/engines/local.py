"""One machine: frames explained by joblib's workers, or by those of its context."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from credex.batch import check_jobs, returns, worker_died
from credex.errors import ModelError
from credex.portfolio import Work, length
from credex.sealed import Sealed
from credex.stopping import CallDict, split_call

if TYPE_CHECKING:
    import pandas as pd

    from credex.explainer_base import ExplainerBase

__all__ = ["Block", "Done", "explain", "run"]


class Block(NamedTuple):
    """Rows to explain: their number in the input, the position of the first one, and the rows."""

    number: int
    first: int
    rows: Any


class Done(NamedTuple):
    """The explanations of a block, and the model rows and calls that they took."""

    number: int
    frame: pd.DataFrame
    model_rows: int
    calls: int


def explain(
    explainer: ExplainerBase,
    frames: Iterable[Any],
    *,
    n_jobs: int | None = -1,
    id: str | None = None,  # noqa: A002 - the word for it
    keep: Sequence[str] = (),
    cohort: Any = None,
    **call: Unpack[CallDict],
) -> Iterator[pd.DataFrame]:
    """Yield the tidy frame of each frame, in order, from ``n_jobs`` workers.

    Takes what `Explainer.frames` takes. The model is unpickled once in each worker. Inside
    ``joblib.parallel_config(backend)`` that backend has the workers; ``n_jobs=None`` takes its
    number of them. A worker that dies is a `ModelError`.
    """
    goals, options = split_call(call, explainer.options)
    work = Work(explainer, goals, options, id, tuple(keep), cohort)
    n_workers = check_jobs(n_jobs)
    return _in_order(run(work, _numbered(frames), n_workers))


def run(work: Work, blocks: Iterable[Block], n_workers: int) -> Iterator[Done]:
    """Yield the results of blocks as they are done, in any order.

    The types of ids are those of the first block.
    """
    blocks = iter(blocks)
    head = next(blocks, None)
    if head is None:
        return
    work = work.of_type(head.rows)
    todo = chain([head], blocks)
    if n_workers == 1:
        queue = work.queue()
        for block in todo:
            yield _explain_block(work, queue, block)
        return
    yield from _in_workers(work, todo, n_workers)


def _in_workers(work: Work, blocks: Iterator[Block], n_workers: int) -> Iterator[Done]:
    from joblib import Parallel, delayed

    failed: list[BaseException] = []
    begun: dict[int, int] = {}  # blocks that are not back, and the positions of their first rows

    def given() -> Iterator[Any]:  # joblib reads it in a thread of its own, where errors are lost
        try:
            for block in blocks:
                begun[block.number] = block.first
                yield delayed(_in_worker)(sealed, block)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    sealed = work.sealed()
    pool = Parallel(
        n_workers,
        prefer="processes",
        return_as=returns("generator_unordered"),
        batch_size=1,
        pre_dispatch=2 * n_workers,
    )
    results = pool(given())
    try:
        for done in results:
            del begun[done.number]
            yield done
    except Exception as error:
        if not worker_died(error):
            raise
        raise ModelError(_lost(begun)) from error
    finally:
        with warnings.catch_warnings():  # joblib warns that blocks were given up: they were
            warnings.simplefilter("ignore", UserWarning)
            getattr(results, "close", lambda: None)()
    if failed:
        raise failed[0]


def _lost(begun: dict[int, int]) -> str:
    numbers = ", ".join(map(str, sorted(begun)))
    msg = "a worker process died (out of memory, or the model ended it) at one of the frames "
    msg += f"{numbers} (the first one is 0), whose rows begin at {min(begun.values())}; these are "
    return msg + "not explained. Use fewer workers, or smaller frames"


def _in_worker(sealed: Sealed, block: Block) -> Done:
    work, queue = sealed.open(lambda work: (work, work.queue()))
    return _explain_block(work, queue, block)


def _explain_block(work: Work, queue: Any, block: Block) -> Done:
    before = queue.rows_sent, queue.calls
    frame = work.numbered_frame(block.rows, queue, block.first, block.number)
    return Done(block.number, frame, queue.rows_sent - before[0], queue.calls - before[1])


def _numbered(frames: Iterable[Any]) -> Iterator[Block]:
    first = 0
    for number, rows in enumerate(frames):
        yield Block(number, first, rows)
        first += length(rows)


def _in_order(results: Iterator[Done]) -> Iterator[pd.DataFrame]:
    waiting: dict[int, pd.DataFrame] = {}
    due = 0
    for done in results:
        waiting[done.number] = done.frame
        while due in waiting:
            yield waiting.pop(due)
            due += 1
