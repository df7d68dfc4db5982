"""`Query` and `Result`: values wanted of one instance, and the values the model gave.

A run never calls the model. It hands out queries and is told results, so one row, a thousand rows
stacked into one call, and rows that share their inputs all run the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from credex.blackbox import TOLERANCE
from credex.domains import Neighbourhood
from credex.errors import CredexError, InputError, ModelOutputError
from credex.typing import Floats, Ints, Masks, Native, Outputs

__all__ = ["Query", "Result", "coalition_query", "instance_query", "link", "unlink"]

LOGIT_CLIP = 1e-6
"""Probabilities are clipped this far from 0 and 1 before ``link="logit"``."""

ONE_ROW = np.ones(1)
"""Weights of a value that is one model row."""
ONE_ROW.flags.writeable = False


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """Values wanted, and how to make the model rows for them.

    Attributes
    ----------
    make
        ``make(start, stop)`` gives the rows of values start…stop and ``(n, B)`` positions into
        them (``None``: n·B rows in order).
    n
        Number of values.
    weights
        ``(B,)`` weights of the rows of one value.
    row_bytes
        Memory that one model row takes.
    form
        Only rows of equal form are stacked into one call.
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

    @property
    def rows(self) -> int:
        """Maximum number of model rows this costs."""
        return self.n * len(self.weights)


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """Values ``y (m, k)`` of a query and what they cost; m < n if the model failed on the way.

    Attributes
    ----------
    y
        Values; ``None`` if there are none.
    rows, seconds
        Model rows sent (also in calls that failed), and time the model took.
    by_row
        ``(m, B, k)`` values by background row, if they were wanted.
    tolerance
        Relative difference between two answers for one row that rounding explains.
    failed_rows
        Rows sent in calls that failed.
    error
        Why values are missing.
    """

    y: Outputs | None
    rows: int
    seconds: float
    by_row: Floats | None = None
    tolerance: float = TOLERANCE
    failed_rows: int = 0
    error: CredexError | None = field(default=None)

    @property
    def n(self) -> int:
        """Number of values."""
        return 0 if self.y is None else len(self.y)


def instance_query(nb: Neighbourhood) -> Query:
    """Query for f(x), which is one row."""
    return Query(lambda _a, _b: (nb.instance_inputs(), None), 1, ONE_ROW, nb.row_bytes, nb.form)


def coalition_query(
    nb: Neighbourhood,
    masks: Masks,
    weights: Floats = ONE_ROW,
    *,
    merge: bool = True,
    keep_rows: bool = False,
    unit: int = 1,
) -> Query:
    """Query for the values of ``masks (n, d)``; ``merge``: equal model rows are sent once."""
    return Query(
        lambda a, b: nb.coalition_inputs(masks[a:b], merge=merge),
        len(masks),
        weights,
        nb.row_bytes,
        nb.form,
        keep_rows=keep_rows,
        unit=unit,
    )


def link(y: Floats, name: str) -> Floats:
    """Apply the link function: identity, or the log-odds of probabilities."""
    if name == "identity":
        return y
    outside = (y < -1e-9) | (y > 1 + 1e-9)  # averages of exact ones may miss by rounding
    if np.any(outside):
        bad = float(y[outside][0])
        msg = f"link='logit' needs probabilities, but the model returned {bad:g}; "
        msg += "leave link out to explain the output as it is"
        raise InputError(msg)
    p = np.clip(y, LOGIT_CLIP, 1 - LOGIT_CLIP)
    return np.asarray(np.log(p) - np.log1p(-p))


def unlink(y: Floats, name: str) -> Floats:
    """Invert `link`: answers are compared as probabilities, since log-odds magnify rounding."""
    return y if name == "identity" else np.asarray(0.5 * (1 + np.tanh(0.5 * y)))


def same_outputs(y: Outputs, full: Floats | None) -> Outputs:
    """Return ``y`` if it has as many outputs as f(x) had."""
    if full is not None and y.shape[1] != len(full):
        msg = f"the model returned {y.shape[1]} outputs where it returned {len(full)} before"
        raise ModelOutputError(msg)
    return y
