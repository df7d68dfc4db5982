"""`BlackBox`: any model as a function from rows to checked ``(n, k)`` floats."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from credex.errors import (
    CredexError,
    InputError,
    InterruptedRun,
    ModelError,
    ModelOutputError,
    ModelRaisedError,
    RandomModelError,
)
from credex.history import Counted
from credex.typing import Floats, Native, Outputs

Target = int | str | bool | float | None

TOLERANCE = 1e-9
"""Two answers for one row agree if they differ by less than this, relative to their size."""

ROUNDING_UNITS = 100
"""… or by this many units in the last place: networks round differently in other batch sizes."""

SINGLE_PRECISION = 1e-4
"""Differences up to this look like rounding of a model that computes in single precision."""

LARGEST_OUTPUT = 1e70
"""Fourth powers of larger outputs overflow; intervals need them."""


@dataclass(slots=True, eq=False)
class Reply:
    """Outputs of one model call, its duration, and the relative error that rounding explains.

    ``sent`` and ``failed`` are the rows that went to the model and those of them to no avail, if
    it counts them (`credex.history.Counted`).
    """

    y: Outputs
    seconds: float
    tolerance: float = TOLERANCE
    sent: int | None = None
    failed: int = 0


class BlackBox:
    """Adapts a model: a callable, or anything with ``predict_proba``, else ``predict``.

    Parameters
    ----------
    model
        Maps n rows to ``(n,)`` or ``(n, k)`` numbers.
    target
        Output to explain: an index, or a class label if the model has ``classes_``. Labels win.
        ``None`` explains all outputs.
    """

    def __init__(self, model: Any, target: Target = None) -> None:
        self.model = model
        self.call, self.source = _callable(model)
        self._counted: Callable[[Any], Counted] | None = getattr(model, "counted_call", None)
        owner = getattr(self.call, "__self__", model)
        proba = getattr(self.call, "__name__", "") == "predict_proba"
        classes = getattr(owner, "classes_", None) if proba else None
        flat = classes is not None and not isinstance(classes, list | tuple)
        self.classes: tuple[Any, ...] | None = tuple(np.asarray(classes).tolist()) if flat else None
        self.target = target
        self._index = self._resolve(target)
        self.columns: tuple[str, ...] = ()
        """Names of the outputs, if the model returns them as a frame."""
        self.token = object()
        """Identifies the model in a history; a copy in another process has another one."""
        self.row_seconds: float | None = None
        """Seconds per row of the last call; ``None`` before the first."""
        self.row_bytes = 0
        """Size of a row of the last call."""
        self.largest_call = 0
        """Rows of the largest call so far."""

    def _resolve(self, target: Target) -> int | None:
        if target is None:
            return None
        if self.classes is not None:
            for i, label in enumerate(self.classes):
                if label == target and isinstance(label, str) == isinstance(target, str):
                    return i
        whole = isinstance(target, int | np.integer) and not isinstance(target, bool)
        most = np.inf if self.classes is None else len(self.classes)
        if whole and 0 <= int(target) < most:
            return int(target)
        if self.classes is not None:
            known = ", ".join(repr(c) for c in self.classes)
            msg = f"target={target!r} is neither a class of the model ({known}) nor an index "
            msg += f"below {len(self.classes)}"
            raise InputError(msg)
        msg = f"target={target!r}: this model has no class labels (it is used through "
        msg += f"{self.source}); give the output's index, 0, 1, …"
        raise InputError(msg)

    def ask(self, rows: Native, n: int) -> Reply:
        """Call the model on ``n`` rows and check what it returns."""
        start = time.perf_counter()
        try:
            raw = self.call(rows) if self._counted is None else self._counted(rows)
        except (InputError, ModelError, InterruptedRun):  # raised by the adapters in `models`
            raise
        except Exception as cause:
            msg = f"the model raised {type(cause).__name__} on {n} rows: {cause}"
            raise ModelRaisedError(msg) from cause
        seconds = time.perf_counter() - start
        sent, failed = None, 0
        if isinstance(raw, Counted):
            raw, sent, failed = raw
        try:
            y = self._checked(raw, n)
        except CredexError as error:
            if sent is not None:
                error.rows_sent = sent  # type: ignore[attr-defined]
            raise
        return Reply(y, seconds, _rounding(raw), sent, failed)

    def _checked(self, raw: Any, n: int) -> Outputs:
        y = _as_floats(raw, self.source)
        if y.ndim == 2:
            self.columns = _column_names(raw)
        if y.ndim == 0:
            msg = f"the model returned the single number {float(y):g} for {n} rows; "
            msg += "it must return one number (or one row of k numbers) for each row"
            raise ModelOutputError(msg)
        if y.ndim > 2:
            msg = f"the model returned an array of shape {y.shape} for {n} rows; "
            msg += "(n,) or (n, k) is needed"
            raise ModelOutputError(msg)
        if len(y) != n:
            msg = f"the model returned {len(y)} values for {n} rows; it must return one for each"
            raise ModelOutputError(msg)
        y = y[:, None] if y.ndim == 1 else y
        if y.shape[1] == 0:
            msg = f"the model returned no output at all: an array of shape {y.shape}"
            raise ModelOutputError(msg)
        if self._index is not None:
            if self._index >= y.shape[1]:
                msg = f"target={self.target!r}: the model has only {y.shape[1]} "
                msg += f"output{'s' if y.shape[1] > 1 else ''}; use an index below {y.shape[1]}"
                raise InputError(msg)
            y = y[:, self._index : self._index + 1]
        largest = float(np.abs(y).max()) if y.size else 0.0  # NaN if there is one
        if not np.isfinite(largest):
            row, col = (int(i) for i in np.argwhere(~np.isfinite(y))[0])
            bad = int(np.sum(~np.isfinite(y).all(axis=1)))
            msg = f"the model returned {y[row, col]} (output {col}, row {row} of the call; "
            msg += f"{bad} of {n} rows are not finite)"
            raise ModelOutputError(msg)
        if largest > LARGEST_OUTPUT:
            msg = f"the model returned {largest:.3g}; beyond {LARGEST_OUTPUT:g} "
            msg += "intervals overflow: divide the output by a constant, or explain its logarithm"
            raise ModelOutputError(msg)
        return np.array(y, dtype=np.float64, order="C")  # a copy: models may reuse their array

    def output_names(self, k: int) -> tuple[str, ...]:
        """Names of the k outputs that are explained."""
        names: Sequence[Any] = self.columns if self.classes is None else self.classes
        if self._index is not None:
            return (str(names[self._index]) if self._index < len(names) else str(self._index),)
        if names and len(names) == k:
            return tuple(str(c) for c in names)
        return tuple(str(i) for i in range(k))


def check_repeat(
    first: Floats, second: Floats, tolerance: float = TOLERANCE, *, continued: bool = False
) -> None:
    """Raise `RandomModelError` if the model gave two answers, ``(k,)`` each, for the same row.

    ``tolerance``: relative difference that is rounding. ``continued``: the first answer comes from
    the explanation that this run continues.
    """
    if first.tolist() == second.tolist():
        return
    gap = np.abs(first - second)
    size = np.maximum(1.0, np.abs(first))
    if not np.any(gap > tolerance * size):
        return
    j = int(np.argmax(gap))
    if continued:
        msg = f"the explanation to continue has f(x) = {first[j]:.10g}, but the model answers "
        msg += f"{second[j]:.10g} now: it is another model. Explain anew. "
    else:
        msg = f"the model answered {first[j]:.10g} and then {second[j]:.10g} for the same row. "
    if np.all(gap <= SINGLE_PRECISION * size):
        msg += "If it computes in single precision, return float32, not numbers cast from it. "
    raise RandomModelError(msg + "If it is random on purpose, say noisy=True")


def _rounding(raw: Any) -> float:
    """Return the relative difference that rounding explains for outputs of this type."""
    kind = next(iter(raw.dtypes), "") if _is_frame(raw) else getattr(raw, "dtype", "")
    if isinstance(kind, np.dtype) and kind == np.float64:
        return TOLERANCE
    name = str(kind).removeprefix("torch.").lower()
    digits = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}
    return max(TOLERANCE, ROUNDING_UNITS * digits.get(name, 0.0))


def _callable(model: Any) -> tuple[Callable[[Any], Any], str]:
    if isinstance(model, type):
        raise InputError(f"model is the class {model.__name__}, not a fitted model; fit one first")
    for name in ("predict_proba", "predict"):
        method = getattr(model, name, None)
        if callable(method):
            return method, name
    if callable(model):
        return model, getattr(model, "__name__", type(model).__name__)
    msg = f"model must be a callable or have predict_proba or predict; got {type(model).__name__}"
    raise InputError(msg)


def _as_floats(raw: Any, source: str) -> Floats:
    if raw is None:
        raise ModelOutputError("the model returned None; does the function end without a return?")
    if isinstance(raw, list | tuple) and raw and getattr(raw[0], "ndim", 0) == 2:
        msg = f"the model returned a list of {len(raw)} arrays (a multi-output classifier?); "
        msg += "wrap it in a function that returns one (n, k) array"
        raise ModelOutputError(msg)
    try:
        a = np.asarray(_bare(raw))
    except ValueError as cause:
        msg = f"the model returned rows of different lengths: {cause}"
        raise ModelOutputError(msg) from cause
    if a.dtype.kind in "OUS":
        try:
            return np.asarray(a, dtype=np.float64)
        except (TypeError, ValueError):
            sample = a.ravel()[:1].tolist()[0] if a.size else None
            msg = f"the model returned {sample!r} where a number is needed"
            if source == "predict":
                msg += "; it predicts labels: give a model with predict_proba, or a function "
                msg += "that returns scores"
            raise ModelOutputError(msg) from None
    if a.dtype.kind not in "biuf":
        msg = f"the model returned values of type {a.dtype}; real numbers are needed"
        raise ModelOutputError(msg)
    return np.asarray(a, dtype=np.float64)


def _column_names(raw: Any) -> tuple[str, ...]:
    """Names of the outputs of a frame, if they tell them apart."""
    names = tuple(map(str, raw.columns)) if _is_frame(raw) else ()
    return names if len(set(names)) == len(names) else ()


def _is_frame(raw: Any) -> bool:
    return type(raw).__name__ == "DataFrame" and type(raw).__module__.startswith(
        ("pandas", "polars")
    )


def _bare(raw: Any) -> Any:
    """Take outputs out of tensors and masked arrays; masked entries become NaN."""
    if isinstance(raw, np.ma.MaskedArray):
        return np.ma.filled(raw.astype(np.float64), np.nan)
    if "torch" in sys.modules and hasattr(raw, "detach"):
        return raw.detach().cpu().numpy()
    return raw
