"""Spark: a Spark frame of rows becomes a Spark frame of explanations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from credex.errors import InputError, MissingExtraError
from credex.portfolio import Work
from credex.stopping import CallDict, split_call

if TYPE_CHECKING:
    import pandas as pd

    from credex.explainer_base import ExplainerBase

__all__ = ["explain"]

TYPES = {"int64": "bigint", "Int64": "bigint", "float64": "double", "boolean": "boolean"}
TYPES |= {"string": "string"}
"""Spark's types of the columns; dates are timestamps."""


def explain(
    explainer: ExplainerBase,
    frame: Any,
    *,
    id: str,  # noqa: A002 - the word for it
    keep: Sequence[str] = (),
    cohort: Any = None,
    **call: Unpack[CallDict],
) -> Any:
    """Return a lazy Spark frame with the explanations of a Spark frame's rows (``mapInPandas``).

    Takes what `Explainer.frames` takes; rows of Spark have no index, so ``id=`` is needed. The
    model is broadcast, and each Python worker unpickles it once. A worker that dies is an error of
    Spark when the frame is computed. Rows come in batches of
    ``spark.sql.execution.arrow.maxRecordsPerBatch``.
    """
    try:
        from pyspark.sql import DataFrame
    except ImportError:
        raise MissingExtraError("this needs Spark: pip install 'credex[spark]'") from None

    if not isinstance(frame, DataFrame):
        msg = f"the rows are a {type(frame).__name__}; pass a Spark DataFrame, for example from "
        raise InputError(msg + "spark.read.parquet")
    goals, options = split_call(call, explainer.options)
    work = Work(explainer, goals, options, id, tuple(keep), cohort).of_type(
        frame.limit(1).toPandas()
    )
    sealed = frame.sparkSession.sparkContext.broadcast(work.sealed())
    columns = [f"`{name}` {TYPES.get(kind, 'timestamp')}" for name, kind in work.schema.items()]
    return frame.mapInPandas(_explainer(sealed), ", ".join(columns))


def _explainer(sealed: Any) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    """Return what a Spark worker runs; it holds the name of the broadcast value only."""

    def explain_batches(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        work, queue = sealed.value.open(lambda work: (work, work.queue()))
        for rows in batches:
            yield work.frame(rows, queue)

    return explain_batches
