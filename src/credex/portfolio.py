"""The unit of work of a portfolio: a frame of rows → a tidy frame of explanations.

`Explainer.frames` and the adapters in `credex.engines` all run this one function. What it returns
for a row depends on the row, the explainer and the goals only, never on the rows beside it.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.batch import Job, TimeUpError, explain_rows
from credex.cells import display, is_missing
from credex.collector import fewer_scans
from credex.domains import Tabular
from credex.errors import BudgetError, InputError
from credex.explainer_base import ExplainerBase
from credex.explanations import Failure
from credex.frames import TIDY, tidy
from credex.model_queue import ModelQueue
from credex.options import Options
from credex.sealed import Sealed
from credex.stopping import Goals

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Work", "blocks_of", "dense", "length"]

KEPT = {"i": "Int64", "u": "Int64", "f": "float64", "b": "boolean"}
"""Dtypes of kept columns by the kind of the given one; dates keep theirs, the rest is text."""


@dataclass(frozen=True, eq=False)
class Work:
    """What is to be done to every frame; can be pickled for workers.

    Attributes
    ----------
    explainer, goals, options, cohort
        As in `Explainer.explain`.
    deadline
        Time (as `time.time` counts) after which no row is begun: `frame` raises `TimeUpError`.
    id
        Column that identifies a row; ``None``: the index, or the position in the whole input.
    keep
        Columns that the result repeats. Those that are no features are kept from the model.
    types
        Dtypes of ``row`` and of the kept columns; empty before `of_type`.
    """

    explainer: ExplainerBase
    goals: Goals
    options: Options
    id: str | None = None
    keep: tuple[str, ...] = ()
    cohort: Any = None
    deadline: float | None = None
    types: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.keep, str):
            raise InputError(f"keep is the text {self.keep!r}; pass a list: [{self.keep!r}]")
        object.__setattr__(self, "keep", tuple(self.keep))
        names = {"row", *TIDY}
        taken = [name for name in self.keep if name in names]
        if taken or len(set(self.keep)) < len(self.keep):
            what = f"{taken[0]!r} is a column of the result" if taken else "a name is repeated"
            raise InputError(f"keep={list(self.keep)}: {what}; rename the column, or leave it out")

    @property
    def schema(self) -> dict[str, str]:
        """Columns of the result and their pandas dtypes."""
        types = self.types or {"row": "int64"}
        return {"row": types["row"], **{n: types.get(n, "string") for n in self.keep}, **TIDY}

    def empty(self) -> pd.DataFrame:
        """Return a result of no rows."""
        import pandas as pd

        return pd.DataFrame({n: pd.Series([], dtype=t) for n, t in self.schema.items()})

    @fewer_scans()
    def of_type(self, block: Any) -> Work:
        """Return the same work with the dtypes of ``row`` and kept columns as in this block."""
        if self.types:
            return self
        import pandas as pd

        _, row, kept = self._read(block, 0)
        types = {"row": "int64" if pd.api.types.is_integer_dtype(row.dtype) else _type(row)}
        return replace(self, types=types | {name: _type(kept[name]) for name in self.keep})

    def sealed(self) -> Sealed:
        """Return the work, pickled once for all workers."""
        try:
            return Sealed.of(self)
        except (pickle.PicklingError, TypeError, AttributeError) as cause:
            msg = f"the model cannot go to other processes, because it cannot be pickled: {cause}. "
            raise InputError(msg + "Use one local worker") from cause

    def queue(self) -> ModelQueue:
        """Return a queue to the model, for all frames of a worker."""
        return self.explainer._queue(self.options, {})  # noqa: SLF001

    def frames(self, blocks: Iterable[Any]) -> Iterator[pd.DataFrame]:
        """Explain block after block."""
        work, queue, first = self.started(), self.queue(), 0
        for number, block in enumerate(blocks):
            work = work.of_type(block)
            try:
                frame = work.numbered_frame(block, queue, first, number)
            except TimeUpError:
                return
            yield frame
            first += length(block)

    def started(self) -> Work:
        """Return the same work with the clock of the batch running, if it has one."""
        seconds = self.goals.batch_seconds
        return self if seconds is None else replace(self, deadline=time.time() + seconds)

    def ids(self, block: Any, first: int = 0) -> pd.Series[Any]:
        """Return the ids of the rows of a block."""
        return _cast(self._read(block, first)[1], self.schema["row"], "row")

    def instances(self, block: Any) -> list[Any]:
        """Return the rows of a block as the domain takes them."""
        return self._read(block, 0)[0]

    def numbered_frame(
        self, block: Any, queue: ModelQueue, first: int, number: int
    ) -> pd.DataFrame:
        """Do the same as `frame`; an error names the number of the block."""
        try:
            return self.frame(block, queue, first)
        except InputError as error:
            error.add_note(f"in frame {number} (the first one is 0), whose rows begin at {first}")
            raise

    @fewer_scans()
    def frame(self, block: Any, queue: ModelQueue, first: int = 0) -> pd.DataFrame:
        """Explain the rows of one block, whose first row has position ``first`` in the input.

        A row that cannot be explained has its ``error``. What concerns all rows is raised: other
        columns than those of the training data, repeated ids, too small a budget.
        """
        import pandas as pd

        if not self.types:
            return self.of_type(block).frame(block, queue, first)
        rows, row, kept = self._read(block, first)
        if not rows:
            return self.empty()
        given = {"row": row, **kept}
        ids = {name: _cast(given[name], self.schema[name], name) for name in ("row", *self.keep)}
        cohorts = [self.cohort] * len(rows)
        job = Job(self.explainer, rows, cohorts, self.goals, self.options, self.deadline)
        items = explain_rows(job, queue)
        done = [item for item in items if item is not None]
        if len(done) < len(items):
            raise TimeUpError
        found = [item.error if isinstance(item, Failure) else item for item in done]
        for error in found if self.explainer.domain.names is not None else ():
            if isinstance(error, BudgetError):
                raise error
        table, at = tidy(found)
        left = {name: ids[name].take(at).reset_index(drop=True) for name in ids}
        return pd.concat([pd.DataFrame(left), table], axis=1)

    def _read(
        self, block: Any, first: int
    ) -> tuple[list[Any], pd.Series[Any], dict[str, pd.Series[Any]]]:
        """Return the instances, their ids and the kept columns."""
        import pandas as pd

        domain, names = self.explainer.domain, [*([self.id] if self.id else []), *self.keep]
        block = dense(block)
        kept: dict[str, pd.Series[Any]] = {}
        if hasattr(block, "columns"):
            _check_names(names, list(block.columns))
            polars = _is_polars(block)
            kept = {n: pd.Series(block[n].to_list() if polars else block[n].array) for n in names}
            instances = _features(domain, block, names)
        elif names:
            what = f"a {type(block).__name__}"
            raise InputError(f"id= and keep= name columns of a frame; the rows are in {what}")
        else:
            instances = block
        rows = domain.split(instances)
        row = kept[self.id] if self.id else _labels(block, len(rows), first)
        if row.isna().any():
            n, where = int(row.isna().sum()), f"column {self.id!r}" if self.id else "the index"
            raise InputError(f"{n} rows have no id: {where} is missing there; fill it in")
        if row.duplicated().any():
            twice = display(row[row.duplicated()].iloc[0])
            msg = f"the id {twice} is there more than once: its rows could not be told apart. "
            raise InputError(msg + "Give id= a column that is unique, or reset the index")
        return rows, row, kept


def blocks_of(X: Any, rows: int, domain: Any) -> Iterator[Any]:
    """Cut the input into blocks of at most ``rows`` rows.

    ``X`` is a frame, an array, a sparse matrix, a list of instances, or an iterator over frames,
    arrays and sparse matrices (tables) or over instances.
    """
    if not hasattr(X, "__next__"):
        yield from _slices(X, rows)
        return
    single: list[Any] = []
    for item in X:
        if isinstance(domain, Tabular) and _is_table(item):
            if single:
                yield single
                single = []
            yield from _slices(item, rows)
        else:
            single.append(item)
            if len(single) == rows:
                yield single
                single = []
    if single:
        yield single


def dense(block: Any) -> Any:
    """Return a scipy sparse matrix as an array, anything else as it is."""
    return block.toarray() if _is_sparse(block) else block


def _slices(X: Any, rows: int) -> Iterator[Any]:
    if _is_sparse(X):
        X = X.tocsr()  # rows of other formats cannot be cut out
    elif not hasattr(X, "__len__"):
        msg = f"the rows are a {type(X).__name__}; pass a frame, an array, a list or an iterator"
        raise InputError(msg)
    at = X.iloc if hasattr(X, "iloc") else X
    for start in range(0, length(X), rows):
        yield at[start : start + rows]


def length(block: Any) -> int:
    """Return the number of rows."""
    return int(block.shape[0]) if hasattr(block, "shape") else len(block)


def _is_sparse(block: Any) -> bool:
    module = sys.modules.get("scipy.sparse")
    return module is not None and bool(module.issparse(block))


def _is_polars(block: Any) -> bool:
    return type(block).__module__.startswith("polars")


def _is_table(item: Any) -> bool:
    return hasattr(item, "columns") or getattr(item, "ndim", 0) == 2


def _features(domain: Any, block: Any, names: Sequence[str]) -> Any:
    """Return the block without ids and kept columns, unless they are features.

    Domains of other things than tables take the one column that is left.
    """
    table = isinstance(domain, Tabular)
    own = set(domain.column_names) if table else set()
    out = [name for name in dict.fromkeys(names) if name not in own]
    if out:
        block = block.drop(out) if _is_polars(block) else block.drop(columns=out)
    if table:
        return block
    if len(block.columns) != 1:
        msg = f"{type(domain).__name__} takes one column of a frame; there are "
        msg += f"{', '.join(map(str, block.columns))}. Name the others in id= and keep="
        raise InputError(msg)
    return list(block[block.columns[0]])


def _check_names(names: Sequence[str], there: list[Any]) -> None:
    for name in names:
        if name not in there:
            msg = f"there is no column {name!r} (id= or keep=); the columns are "
            raise InputError(msg + ", ".join(map(str, there)))


def _labels(block: Any, n: int, first: int) -> pd.Series[Any]:
    """Return the index of a frame; positions in the input if it has none or pandas' default."""
    import pandas as pd

    index = getattr(block, "index", None)
    default = isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1
    if not isinstance(index, pd.Index) or (default and index.name is None):
        return pd.Series(first + np.arange(n), dtype="int64")
    if isinstance(index, pd.MultiIndex):
        return pd.Series([display(label) for label in index], dtype="string")
    return pd.Series(index.array)


def _type(column: pd.Series[Any]) -> str:
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return str(column.dtype)
    return KEPT.get(getattr(column.dtype, "kind", "O"), "string")


def _cast(column: pd.Series[Any], dtype: str, name: str) -> pd.Series[Any]:
    """Return ids or kept values in the dtype that they have in the first frame."""
    import pandas as pd

    if dtype == "string" and not pd.api.types.is_string_dtype(column.dtype):
        column = pd.Series([None if is_missing(v) else display(v) for v in column])
    try:
        if dtype == "int64":
            column = column.astype("Int64")  # which refuses 3.5, where int64 would make it 3
        return column.astype(dtype)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError) as cause:
        msg = f"column {name!r} is {dtype} in the first frame, here it is {column.dtype} and "
        msg += f"cannot be turned into that ({cause}); convert it before"
        raise InputError(msg) from cause
