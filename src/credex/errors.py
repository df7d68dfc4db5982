"""Everything credex raises.

::

    CredexError
    ├── InputError (ValueError)          an argument or the data cannot be used
    │   └── BudgetError                  too few queries; ``.minimum`` says how many it takes
    ├── ModelError (RuntimeError)        the model misbehaved; ``.partial`` keeps what was learned
    │   ├── ModelRaisedError             it raised; the cause is ``__cause__``
    │   ├── ModelOutputError             wrong length, wrong shape, NaN, infinity, text
    │   └── RandomModelError             two answers for the same row; see ``noisy=True``
    ├── OutputError (OSError)            the folder of a batch cannot be written or read
    ├── MissingExtraError (ImportError)  an optional package is not installed
    └── InterruptedRun (KeyboardInterrupt)  Ctrl-C; ``.partial`` keeps what was learned
        └── StoppedRun                   a ceiling on model rows, or an endpoint that is gone
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np


class CredexError(Exception):
    """Base of all errors that credex raises on purpose."""


class InputError(CredexError, ValueError):
    """An argument or the data cannot be used; the message names the value and the way out."""


class BudgetError(InputError):
    """The budget is too small for the chosen posterior.

    Attributes
    ----------
    minimum
        The smallest number of queries that works.
    """

    def __init__(self, message: str, *, minimum: int) -> None:
        super().__init__(message)
        self.minimum = minimum

    def __reduce__(self) -> tuple[Any, ...]:
        return (partial(BudgetError, minimum=self.minimum), (str(self),))


class ModelError(CredexError, RuntimeError):
    """The model misbehaved.

    Attributes
    ----------
    partial
        The explanation from what was asked before the failure, or ``None`` if that was too
        little. It can be handed to ``refine``.
    """

    partial: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the cause, which exceptions lose."""
        return (type(self), (str(self),), {**self.__dict__, "__cause__": self.__cause__})


class ModelRaisedError(ModelError):
    """The model raised an exception, which is kept as ``__cause__``."""


class ModelOutputError(ModelError):
    """The model returned something that cannot be explained."""


class RandomModelError(ModelError):
    """The model gave two answers for the same row."""


class OutputError(CredexError, OSError):
    """The folder of a batch cannot be written or read; the message says what is safe."""


class MissingExtraError(CredexError, ImportError):
    """An optional package is needed and is not installed."""


class InterruptedRun(CredexError, KeyboardInterrupt):  # noqa: N818 - it is not an error of anyone
    """The run was interrupted from the keyboard; ``partial`` keeps what was learned."""

    partial: Any = None


class StoppedRun(InterruptedRun):
    """The model cannot be asked any further, for the reason in the message.

    It ends a run, or a batch, as Ctrl-C does: nothing is recorded as an error of a row, and what
    was learned can be gone on from.
    """


# -- checks of common arguments: each returns the value or raises InputError ---------------------


def check_level(level: float) -> float:
    """Return ``level`` if it is a probability strictly between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.floating):
        raise InputError(f"level must be a number between 0 and 1, for example 0.95; got {level!r}")
    if not 0.0 < float(level) < 1.0:
        hint = f" (did you mean {float(level) / 100:g}?)" if 10.0 <= float(level) < 100.0 else ""
        msg = f"level must lie strictly between 0 and 1, for example 0.95; got {level!r}{hint}"
        raise InputError(msg)
    return float(level)


def check_width(width: float | Sequence[float]) -> float | tuple[float, ...]:
    """Return a positive width, or a tuple of them."""
    raw = np.asarray(width)
    a = raw.astype(np.float64) if raw.dtype.kind in "iuf" else np.asarray(np.nan)
    if a.ndim > 1 or a.size == 0 or not np.all(np.isfinite(a)) or np.any(a <= 0):
        msg = f"width must be a positive number (or one for each output); got {width!r}. "
        msg += "It is upper − lower of each interval, in the units of the model's output"
        raise InputError(msg)
    return float(a) if a.ndim == 0 else tuple(float(v) for v in a)


def check_count(name: str, value: Any) -> int:
    """Return a positive whole number."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or int(value) < 1:
        raise InputError(f"{name} must be a whole number ≥ 1; got {value!r}")
    return int(value)


def check_positive(name: str, value: Any) -> float:
    """Return a finite number above zero."""
    good = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not good or not np.isfinite(value) or value <= 0:
        raise InputError(f"{name} must be a positive number; got {value!r}")
    return float(value)
