"""dask: a dask frame of rows becomes a dask frame of explanations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from credex.errors import InputError, MissingExtraError
from credex.portfolio import Work
from credex.sealed import Sealed
from credex.stopping import CallDict, split_call

if TYPE_CHECKING:
    import pandas as pd

    from credex.explainer_base import ExplainerBase

__all__ = ["explain"]


def explain(
    explainer: ExplainerBase,
    frame: Any,
    *,
    id: str | None = None,  # noqa: A002 - the word for it
    keep: Sequence[str] = (),
    cohort: Any = None,
    **call: Unpack[CallDict],
) -> Any:
    """Return a lazy dask frame with the explanations of a dask frame's rows.

    Takes what `Explainer.frames` takes. Without ``id=`` the index names the rows; its divisions
    must be known then, because files that are read one by one often all begin with 0. Each worker
    unpickles the model once. A worker that dies is dask's ``KilledWorker`` when the frame is
    computed.
    """
    try:
        import dask.dataframe as dd
        from dask import delayed
    except ImportError:
        raise MissingExtraError("this needs dask: pip install 'credex[dask]'") from None

    if not isinstance(frame, dd.DataFrame):
        msg = f"the rows are a {type(frame).__name__}; pass a dask DataFrame, for example from "
        raise InputError(msg + "dask.dataframe.read_parquet")
    if id is None and not frame.known_divisions:
        msg = "the index of this dask frame may repeat in its partitions; name a column that is "
        raise InputError(msg + "unique with id=, or set_index")
    goals, options = split_call(call, explainer.options)
    empty = frame.partitions[0].head(0) if frame.npartitions else frame.compute()
    work = Work(explainer, goals, options, id, tuple(keep), cohort).of_type(empty)
    sealed = delayed(work.sealed())
    return frame.map_partitions(
        _explain_partition,
        sealed,
        meta=work.empty(),
        enforce_metadata=False,
        align_dataframes=False,
        clear_divisions=True,
    )


def _explain_partition(rows: pd.DataFrame, sealed: Sealed) -> pd.DataFrame:
    work, queue = sealed.open(lambda work: (work, work.queue()))
    result: pd.DataFrame = work.frame(rows, queue)
    return result
