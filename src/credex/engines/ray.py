"""Ray: a Ray dataset of rows becomes a Ray dataset of explanations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from credex.cells import display
from credex.errors import InputError, MissingExtraError, ModelError, check_count
from credex.portfolio import Work, blocks_of
from credex.stopping import CallDict, split_call

if TYPE_CHECKING:
    from credex.explainer_base import ExplainerBase

__all__ = ["explain"]

FRAME_ROWS = 1_000
"""Rows explained side by side, and rows of a task; a block of Ray (128 MB) may hold a million."""

RETRIES = 3
"""How often rows whose worker died are tried again, as in Spark. Ray Data never gives up."""


def explain(
    explainer: ExplainerBase,
    dataset: Any,
    *,
    id: str,  # noqa: A002 - the word for it
    keep: Sequence[str] = (),
    cohort: Any = None,
    partition_rows: int = FRAME_ROWS,
    max_retries: int = RETRIES,
    **call: Unpack[CallDict],
) -> Any:
    """Return a lazy Ray dataset with the explanations of a Ray dataset's rows (``map_batches``).

    Takes what `Explainer.frames` takes; rows of Ray have no index, so ``id=`` is needed. The model
    lies in the object store, and each worker process unpickles it once. Rows whose worker died are
    tried again ``max_retries`` times; then a `ModelError` that names them is the cause of the error
    that Ray raises when the dataset is read.

    Blocks of more than ``partition_rows`` rows are cut, and each piece is a task. Without that, Ray
    would join reading, explaining and writing into one task for each 128 MB of Parquet, whatever
    ``override_num_blocks`` says: a small table would be explained by one processor, and a task
    would hold all its explanations until the last one is there. Smaller blocks stay as they are.

    Blocks are explained by tasks, not by a pool of actors: actors keep the processors that they
    reserve, and where they have reserved all of them, the tasks that read the data wait for ever.
    """
    try:
        import ray
        from ray.data import Dataset
    except ImportError:
        raise MissingExtraError("this needs Ray: pip install 'credex[ray]'") from None

    if not isinstance(dataset, Dataset):
        msg = f"the rows are a {type(dataset).__name__}; pass a Ray Dataset, for example from "
        raise InputError(msg + "ray.data.read_parquet")
    rows = check_count("partition_rows", partition_rows)
    goals, options = split_call(call, explainer.options)
    work = _of_type(Work(explainer, goals, options, id, tuple(keep), cohort), dataset)
    attempts = ray.remote(num_cpus=0)(_Attempts).remote(max_retries)
    explain_block = _explainer(ray.put(work.sealed()), attempts)
    cut = dataset.repartition(target_num_rows_per_block=rows)
    return cut.map_batches(explain_block, batch_size=None, batch_format="pyarrow")


def _of_type(work: Work, dataset: Any) -> Work:
    """Return the work with the types of the dataset's columns.

    Ray knows them for Parquet and Arrow. Otherwise a row is read, which starts processes.
    """
    import pyarrow as pa

    known = getattr(dataset.schema(fetch_if_missing=False), "base_schema", None)
    if isinstance(known, pa.Schema):  # the blocks have no index, whatever pandas noted in the file
        return work.of_type(known.empty_table().to_pandas(ignore_metadata=True))
    for head in dataset.limit(1).iter_batches(batch_size=1, batch_format="pyarrow"):
        work = work.of_type(head.to_pandas())
    return work


class _Attempts:
    """An actor that counts how often rows were begun and not finished, because the worker died."""

    def __init__(self, max_retries: int) -> None:
        self.max_retries = max_retries
        self.open: Counter[str] = Counter()

    def begin(self, rows: str) -> int:
        """Return how many workers died at these rows, 0 if they may be tried again."""
        died = self.open[rows]
        self.open[rows] += 1
        return died if died > self.max_retries else 0

    def end(self, rows: str) -> None:
        """Forget rows that are done."""
        del self.open[rows]


def _explainer(sealed: Any, attempts: Any) -> Callable[[Any], Iterator[Any]]:
    """Return what a task runs: Arrow to Arrow; it holds references to the object store only."""

    def explain_block(block: Any) -> Iterator[Any]:
        import pyarrow as pa
        import ray

        task = ray.get_runtime_context().get_task_id()  # the same when a task is tried again
        work, queue = ray.get(sealed).open(lambda work: (work, work.queue()))
        for rows in blocks_of(block.to_pandas(), FRAME_ROWS, work.explainer.domain):
            ids = work.ids(rows)
            names = f"rows {display(ids.iloc[0])} to {display(ids.iloc[-1])}"
            died = ray.get(attempts.begin.remote(f"{task} {names}"))
            if died:
                msg = f"{died} workers died (out of memory, or the model ended them) at {names} of "
                raise ModelError(msg + f"{work.id!r}. Explain these on one local worker to see why")
            frame = work.frame(rows, queue)
            ray.get(attempts.end.remote(f"{task} {names}"))
            yield pa.Table.from_pandas(frame, preserve_index=False)

    return explain_block
