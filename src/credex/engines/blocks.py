"""Blocks of a batch explained by dask, Ray or Spark: the same files as on one machine.

Each engine is the one that its environment variable or configuration names (``RAY_ADDRESS``,
``DASK_SCHEDULER_ADDRESS``, ``spark.master``), else one on this machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from credex.engines.local import Block, Done, run
from credex.errors import MissingExtraError
from credex.portfolio import Work
from credex.sealed import Sealed

__all__ = ["ENGINES", "Engine", "engine"]

Engine = Callable[[Work, Iterable[Block], int], Iterator[Done]]


def engine(name: str) -> Engine:
    """Return the function that explains blocks with an engine."""
    return ENGINES[name]


def explain_block(sealed: Sealed, block: Block) -> Done:
    """Explain a block in a worker, which opens the model once."""
    work, queue = sealed.open(lambda work: (work, work.queue()))
    before = queue.rows_sent, queue.calls
    frame = work.numbered_frame(block.rows, queue, block.first, block.number)
    return Done(block.number, frame, queue.rows_sent - before[0], queue.calls - before[1])


def _begun(work: Work, blocks: Iterable[Block]) -> tuple[Sealed, Iterator[Block]] | None:
    """Return the work, which knows the types of the first block, and all blocks."""
    rest = iter(blocks)
    head = next(rest, None)
    if head is None:
        return None

    def every() -> Iterator[Block]:
        yield head
        yield from rest

    return work.of_type(head.rows).sealed(), every()


def _missing(name: str) -> MissingExtraError:
    return MissingExtraError(f"engine {name!r} is not installed: pip install 'credex[{name}]'")


def _with_dask(work: Work, blocks: Iterable[Block], n_workers: int) -> Iterator[Done]:
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise _missing("dask") from None
    found = _begun(work, blocks)
    if found is None:
        return
    sealed, todo = found
    workers = {"n_workers": n_workers, "threads_per_worker": 1} if n_workers > 1 else {}
    with Client(**_local_dask(workers)) as client:
        model = client.scatter(sealed, broadcast=True)
        most = 2 * max(sum(client.ncores().values()), 1)
        running = as_completed(
            [client.submit(explain_block, model, b, pure=False) for b in islice(todo, most)]
        )
        for future in running:
            yield future.result()
            for block in islice(todo, 1):
                running.add(client.submit(explain_block, model, block, pure=False))


def _local_dask(workers: dict[str, Any]) -> dict[str, Any]:
    """Return how to start a cluster on this machine; nothing if there is an address."""
    import dask

    if dask.config.get("scheduler-address", None) is not None:
        return {}
    return {"dashboard_address": None, **workers}


def _with_ray(work: Work, blocks: Iterable[Block], n_workers: int) -> Iterator[Done]:
    try:
        import ray
    except ImportError:
        raise _missing("ray") from None
    found = _begun(work, blocks)
    if found is None:
        return
    sealed, todo = found
    ours = not ray.is_initialized()
    if ours:
        ray.init(
            num_cpus=n_workers if n_workers > 1 else None,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
        )
    try:
        task, model = ray.remote(explain_block), ray.put(sealed)
        most = 2 * max(int(ray.cluster_resources().get("CPU", 1)), 1)
        running = [task.remote(model, block) for block in islice(todo, most)]
        while running:
            done, running = ray.wait(running)
            yield from ray.get(done)
            running += [task.remote(model, block) for block in islice(todo, len(done))]
    finally:
        if ours:
            ray.shutdown()


def _with_spark(work: Work, blocks: Iterable[Block], n_workers: int) -> Iterator[Done]:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise _missing("spark") from None
    found = _begun(work, blocks)
    if found is None:
        return
    sealed, todo = found
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ours = SparkSession.getActiveSession() is None
    builder = SparkSession.builder.appName("credex").config("spark.ui.enabled", "false")
    if n_workers > 1:
        builder = builder.master(f"local[{n_workers}]")
    session = builder.getOrCreate()
    try:
        context = session.sparkContext
        context.setLogLevel("ERROR")
        model = context.broadcast(sealed)
        most = 4 * max(context.defaultParallelism, 1)
        while some := list(islice(todo, most)):
            tasks = context.parallelize(some, len(some))
            yield from tasks.map(lambda block: explain_block(model.value, block)).collect()
    finally:
        if ours:
            session.stop()


ENGINES: dict[str, Engine] = {
    "local": run,
    "dask": _with_dask,
    "ray": _with_ray,
    "spark": _with_spark,
}
"""What explains blocks, by the name of the engine."""
