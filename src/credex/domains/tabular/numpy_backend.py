"""Tables that are two-dimensional numpy arrays: always one buffer, whatever the dtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.cells import is_missing
from credex.domains.tabular import arrays
from credex.domains.tabular.backend import Kind
from credex.typing import Floats, Ints, Masks

__all__ = ["NumpyForm"]


@dataclass(frozen=True, slots=True)
class NumpyForm:
    """Columns are views of the buffer; names are ``x0``, ``x1`` and so on."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, data: NDArray[Any]) -> NumpyForm:
        """Read the form of an ``(n, p)`` array."""
        return cls(tuple(f"x{j}" for j in range(data.shape[1])))

    @property
    def labels(self) -> tuple[Any, ...]:
        """The names."""
        return self.names

    def kind(self, column: NDArray[Any], name: str) -> Kind:
        """How the column is treated."""
        return arrays.kind(column, name)

    def take(self, column: NDArray[Any], positions: Ints) -> NDArray[Any]:
        """Return the values at these positions."""
        return column[positions]

    def floats(self, column: NDArray[Any]) -> Floats:
        """Ordered numbers; missing is NaN."""
        return arrays.floats(np.ascontiguousarray(column))

    def objects(self, column: NDArray[Any]) -> list[Any]:
        """Return the values as Python objects; dates stay numpy's own, which lose nothing."""
        return list(column) if column.dtype.kind in "mM" else column.tolist()

    def missing(self, column: NDArray[Any]) -> Masks:
        """``(n,)`` which values are missing."""
        return arrays.missing(column)

    def from_floats(self, like: NDArray[Any], values: Floats) -> NDArray[Any]:
        """Floats as a column of the same dtype."""
        return arrays.from_floats(like, values)

    def ticks(self, column: NDArray[Any]) -> int | None:
        """Return the first date as its dtype's own integer."""
        return int(column[:1].astype(np.int64)[0]) if column.dtype.kind in "mM" else None

    def from_ticks(self, like: NDArray[Any], ticks: Ints) -> NDArray[Any]:
        """Dates from their own integers."""
        return arrays.as_ticks(like, ticks)

    def cell(self, like: NDArray[Any], kind: Kind, value: Any, name: str) -> NDArray[Any]:
        """One value as a column of one row."""
        if like.dtype.kind == "b" and is_missing(value):
            return np.array([np.nan])  # the whole buffer becomes float rather than object
        return arrays.cell(like, kind, value, name)

    def same(self, like: NDArray[Any], other: Any) -> bool:
        """Whether ``other`` is an array of the same dtype (objects are never trusted)."""
        return (
            isinstance(other, np.ndarray) and other.dtype == like.dtype and not like.dtype.hasobject
        )

    def append(self, column: NDArray[Any], one: NDArray[Any]) -> NDArray[Any]:
        """Return the column with one more row."""
        return np.concatenate([column, one])

    def frame(self, columns: Sequence[NDArray[Any]], index: None) -> NDArray[Any]:  # noqa: ARG002
        """Columns side by side."""
        return np.column_stack(list(columns))

    def block_frame(self, block: NDArray[Any], index: None) -> NDArray[Any]:  # noqa: ARG002
        """Return the buffer: it is the table."""
        return block

    def take_index(self, index: None, positions: Ints) -> None:
        """Arrays have no row labels."""

    def one_label(self, index: None, label: Any) -> None:
        """Arrays have no row labels."""

    def concat(self, natives: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Stack arrays."""
        return np.concatenate(list(natives))
