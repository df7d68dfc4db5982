"""Everything credex raises.

::

    CredexError
    ├── InputError (ValueError)          an argument or the data cannot be used
    │   └── BudgetError                  too few queries; ``.minimum`` says how many it takes
    ├── ModelError (RuntimeError)        the model misbehaved; ``.partial`` keeps what was learned
    │   ├── ModelRaisedError             it raised; the cause is ``__cause__``
    │   ├── ModelOutputError             wrong length, wrong shape, NaN, infinity, text
    │   └── RandomModelError             two answers for the same row; see ``noisy=True``
    ├── MissingExtraError (ImportError)  an optional package is not installed
    └── InterruptedRun (KeyboardInterrupt)  Ctrl-C; ``.partial`` keeps what was learned
"""

from __future__ import annotations

from functools import partial
from typing import Any


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


class MissingExtraError(CredexError, ImportError):
    """An optional package is needed and is not installed."""


class InterruptedRun(CredexError, KeyboardInterrupt):  # noqa: N818 - it is not an error of anyone
    """The run was interrupted from the keyboard; ``partial`` keeps what was learned."""

    partial: Any = None
