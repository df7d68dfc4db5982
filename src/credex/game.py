"""`Query` and `Result`: values wanted of one instance, and the values the model gave.

A run never calls the model. It hands out queries and is told results, so one row, a thousand rows
stacked into one call, and rows that share their inputs all run the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from credex.blackbox import TOLERANCE
from credex.errors import CredexError
from credex.typing import Floats, Ints, Native, Outputs

__all__ = ["Query", "Result"]


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """``n`` values wanted, and how to make the model rows for them.

    Attributes
    ----------
    make
        ``make(start, stop)`` gives the rows of values start…stop and ``(n, B)`` indices into them
        (``None``: n·B rows in order).
    weights
        ``(B,)`` weights of the rows of one value.
    row_bytes, form
        Memory that one model row takes; only rows of equal ``form`` are stacked into one call.
    share, first
        Values with the same ``share`` key and position are the same for every row of a batch;
        ``first`` is the position of the first value.
    keep_rows
        Whether the result should hold the values by background row.
    unit
        Consecutive values that should go into one call if they can: 2 for pairs.
    """

    make: Callable[[int, int], tuple[Native, Ints | None]]
    n: int
    weights: Floats
    row_bytes: int
    form: Hashable
    share: Hashable | None = None
    first: int = 0
    keep_rows: bool = False
    unit: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """Values ``y (m, k)`` of a query and what they cost; m < n if a call failed.

    Attributes
    ----------
    rows, failed_rows, seconds
        Model rows sent, those of them in calls that failed, and the time the model took.
    by_row
        ``(m, B, k)`` values by background row, if they were wanted.
    tolerance
        Relative difference between two answers for one row that rounding explains.
    error
        Why values are missing.
    """

    y: Outputs | None
    rows: int
    seconds: float
    by_row: Floats | None = None
    tolerance: float = TOLERANCE
    failed_rows: int = 0
    error: CredexError | None = None
