"""Ray: a Ray dataset of rows becomes a Ray dataset of explanations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from credex.errors import InputError, MissingExtraError
from credex.portfolio import Work, blocks_of
from credex.stopping import CallDict, split_call

if TYPE_CHECKING:
    from credex.explainer_base import ExplainerBase

__all__ = ["explain"]

FRAME_ROWS = 1_000
"""Rows explained side by side; a block of Ray (128 MB) may hold a million."""

RETRIES = 3
"""How often a block whose worker died is tried again, as in Spark. Ray Data's own is for ever."""


def explain(
    explainer: ExplainerBase,
    dataset: Any,
    *,
    id: str,  # noqa: A002 - the word for it
    keep: Sequence[str] = (),
    cohort: Any = None,
    max_retries: int = RETRIES,
    **call: Unpack[CallDict],
) -> Any:
    """Return a lazy Ray dataset with the explanations of a Ray dataset's rows (``map_batches``).

    Takes what `Explainer.frames` takes; rows of Ray have no index, so ``id=`` is needed. The model
    lies in the object store, and each worker process unpickles it once. A worker that dies is
    tried again ``max_retries`` times, then it is Ray's ``WorkerCrashedError`` when the dataset is
    read.

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
    goals, options = split_call(call, explainer.options)
    work = Work(explainer, goals, options, id, tuple(keep), cohort)
    for head in dataset.limit(1).iter_batches(batch_size=1, batch_format="pyarrow"):
        work = work.of_type(head.to_pandas())
    return dataset.map_batches(
        _explainer(ray.put(work.sealed())),
        batch_size=None,
        batch_format="pyarrow",
        ray_remote_args_fn=lambda: {"max_retries": max_retries},
    )


def _explainer(sealed: Any) -> Callable[[Any], Iterator[Any]]:
    """Return what a task runs: Arrow to Arrow; it holds a reference to the object store only."""

    def explain_block(block: Any) -> Iterator[Any]:
        import pyarrow as pa
        import ray

        work, queue = ray.get(sealed).open(lambda work: (work, work.queue()))
        for rows in blocks_of(block.to_pandas(), FRAME_ROWS, work.explainer.domain):
            yield pa.Table.from_pandas(work.frame(rows, queue), preserve_index=False)

    return explain_block
