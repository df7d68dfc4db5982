"""What credex needs to know about a table library: a dozen verbs on columns, and nothing else.

A *form* is the shape of the user's data: its library, column labels and index style, without the
rows. A *column* is whatever that library calls a one-dimensional run of values of one dtype.
Every verb keeps the dtype, so a model sees rows that look like the ones it was fitted on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias

from numpy.typing import NDArray

from credex.typing import Floats, Ints, Masks, Native

__all__ = ["Column", "Form", "Kind"]

Column: TypeAlias = Any
"""One native column: a 1-D numpy array, a pandas extension array or a polars Series."""

Kind: TypeAlias = Literal["number", "category", "boolean", "date"]
"""How a column is treated: numbers and dates are ordered, the others are not."""


class Form(Protocol):
    """The verbs of one table library. ``like`` is a training column that lends its dtype."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names as they are shown."""
        ...

    @property
    def labels(self) -> tuple[Any, ...]:
        """Column labels as the library has them."""
        ...

    def kind(self, column: Column, name: str) -> Kind:
        """How the column is treated."""
        ...

    def take(self, column: Column, positions: Ints) -> Column:
        """Return the values at these positions."""
        ...

    def floats(self, column: Column) -> Floats:
        """Ordered numbers; missing is NaN. Only for numbers and dates."""
        ...

    def objects(self, column: Column) -> list[Any]:
        """Return the values as Python objects."""
        ...

    def missing(self, column: Column) -> Masks:
        """``(n,)`` which values are missing."""
        ...

    def from_floats(self, like: Column, values: Floats) -> Column:
        """Floats as a column of the same dtype: integers are rounded, dates become dates."""
        ...

    def ticks(self, column: Column) -> int | None:
        """Return the date in the first row as its dtype's own integer; ``None`` if it has none."""
        ...

    def from_ticks(self, like: Column, ticks: Ints) -> Column:
        """Dates from their dtype's own integers."""
        ...

    def cell(self, like: Column, kind: Kind, value: Any, name: str) -> Column:
        """One value as a column of one row, or an `InputError` that names column and value."""
        ...

    def same(self, like: Column, other: Any) -> bool:
        """Whether ``other`` is a column of the very same dtype, safe to take from."""
        ...

    def append(self, column: Column, one: Column) -> Column:
        """Return the column with one more row; wider dtype only if the row needs it."""
        ...

    def frame(self, columns: Sequence[Column], index: Any) -> Native:
        """Columns as a native table."""
        ...

    def block_frame(self, block: NDArray[Any], index: Any) -> Native:
        """Return a ``(n, p)`` buffer as a native table, without a copy."""
        ...

    def take_index(self, index: Any, positions: Ints) -> Any:
        """Row labels at these positions (``None`` stays ``None``)."""
        ...

    def one_label(self, index: Any, label: Any) -> Any:
        """Row labels of a single instance, of the same type as the training rows'."""
        ...

    def concat(self, natives: Sequence[Native]) -> Native:
        """Stack native tables."""
        ...
