"""What happens to rows before a network sees them: checked once, applied batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from credex.errors import InputError
from credex.typing import Native

Array = NDArray[Any]
Step = Callable[[Any], Any]

ROWS = 64
"""Rows that a network is given at a time, unless ``batch_size`` says otherwise."""


def prepared(rows: Native, transform: Step | None, prepare: Step | None) -> Any:
    """Return the rows after ``transform`` (one at a time, a list) or ``prepare`` (all at once)."""
    if transform is not None:
        return [transform(one) for one in rows]
    return rows if prepare is None else prepare(rows)


def check_steps(transform: Any, prepare: Any, activation: Any) -> None:
    """Raise if one of the options of `from_torch` or `from_onnx` cannot be used."""
    if transform is not None and prepare is not None:
        msg = "give transform= (one row at a time) or prepare= (a whole batch), not both"
        raise InputError(msg)
    for name, step in (("transform", transform), ("prepare", prepare)):
        if step is not None and not callable(step):
            raise InputError(f"{name} must be a function; got {step!r}")
    if activation not in (None, "softmax", "sigmoid") and not callable(activation):
        msg = f"activation must be 'softmax', 'sigmoid' or a function; got {activation!r}"
        raise InputError(msg)
