"""The explanations of a batch, and the rows that failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import frames
from credex.errors import InputError
from credex.explanation import Explanation
from credex.posteriors import Interval
from credex.typing import Floats

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """A row of a batch that could not be explained."""

    label: Any
    error: Exception

    def __str__(self) -> str:
        return f"row {self.label!r}: {type(self.error).__name__}: {self.error}"


@dataclass(frozen=True, slots=True, eq=False)
class Explanations(Sequence[Explanation]):
    """Explanations of many rows, in their order.

    Attributes
    ----------
    items
        For each row an `Explanation`, a `Failure` if it could not be explained, or ``None`` if an
        interrupted run did not reach it.
    n_model_rows, n_calls
        Rows sent to the model and calls made. Shared rows count once, so this is less than the
        sum over the items.
    seconds
        Time in all.
    workers
        How the work was divided, in words.
    complete
        False if the run was interrupted; ``explain_many(X, start=batch)`` continues it.
    begun, shared
        What an interrupted run had asked: unfinished rows by position, and shared answers.
    """

    items: tuple[Explanation | Failure | None, ...]
    n_model_rows: int
    n_calls: int
    seconds: float
    workers: str
    complete: bool = True
    begun: dict[int, Explanation] = field(default_factory=dict, repr=False)
    shared: Any = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        item = self.items[i]
        if isinstance(item, Failure):
            raise item.error
        if item is None:
            raise InputError(f"row {i} was not explained before the run was interrupted")
        return item

    def __iter__(self) -> Iterator[Any]:
        """Iterate over ``items``, failures included."""
        return iter(self.items)

    @property
    def explained(self) -> list[Explanation]:
        """The explanations alone."""
        return [e for e in self.items if isinstance(e, Explanation)]

    @property
    def errors(self) -> dict[int, Failure]:
        """The failures by position."""
        return {i: e for i, e in enumerate(self.items) if isinstance(e, Failure)}

    @property
    def mean(self) -> Floats:
        """Importances ``(n, d)`` or ``(n, d, k)``; NaN for rows without an explanation.

        Raises `InputError` if the rows have different numbers of features.
        """
        return self._stacked([e.mean for e in self.explained])

    def interval(self, level: float | None = None) -> Interval:
        """Credible intervals of all rows, arrays like ``mean``."""
        found = [e.interval(level) for e in self.explained]
        lower = self._stacked([i.lower for i in found])
        upper = self._stacked([i.upper for i in found])
        default = found[0].level if found else 0.95
        return Interval(lower, upper, default if level is None else level)

    def to_frame(self, *, level: float | None = None) -> pd.DataFrame:
        """Concatenate the frames of all rows; column ``row`` holds the row's label."""
        found = [(i, e) for i, e in enumerate(self.items) if isinstance(e, Explanation)]
        labels = [i if e.label is None else e.label for i, e in found]
        return frames.to_frame([e for _, e in found], level, labels)

    def _stacked(self, arrays: list[Floats]) -> Floats:
        """Stack the arrays of the explained rows, with NaN for the other rows."""
        if not arrays:
            return np.empty((len(self), 0))
        counts = sorted({len(a) for a in arrays})
        if len(counts) > 1:
            raise InputError(
                f"the rows have {counts[0]} to {counts[-1]} features each, which make no array; "
                "use to_frame(), or the explanations one by one"
            )
        out = np.full((len(self), *arrays[0].shape), np.nan)
        out[[isinstance(e, Explanation) for e in self.items]] = arrays
        return out

    def __repr__(self) -> str:
        n_left = sum(item is None for item in self.items)
        bad = f", {len(self.errors)} failed" if self.errors else ""
        bad += f", {n_left} to go" if n_left else ""
        return f"<{len(self)} explanations{bad}; {self.n_model_rows:,} model rows>"
