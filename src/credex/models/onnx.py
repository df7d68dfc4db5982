"""An ONNX file as a function of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from credex.errors import InputError, MissingExtraError, check_count
from credex.models.torch import ROWS, Array, Step, check_steps, prepared
from credex.typing import Native

__all__ = ["OnnxModel", "from_onnx"]

TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
}


def from_onnx(
    path: str | Path,
    *,
    transform: Step | None = None,
    prepare: Step | None = None,
    activation: str | Step | None = None,
    classes: Sequence[Any] | None = None,
    output: str | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
    providers: Sequence[str] = ("CPUExecutionProvider",),
) -> OnnxModel:
    """Wrap an ONNX file as a function from rows to outputs, run by onnxruntime.

    A model with a fixed batch size works too: the last batch is padded.

    Parameters
    ----------
    path
        The file.
    transform, prepare, activation, classes
        As in `from_torch`; ``prepare`` returns an array.
    output
        Name of the output; needed only if there are several.
    batch_size
        Maximum rows at a time; by default 64, or the fixed batch size of the model.
    threads
        Threads of the computation; by default onnxruntime's own choice.
    providers
        Execution providers, in order.
    """
    check_steps(transform, prepare, activation)
    if not Path(path).is_file():
        raise InputError(f"there is no ONNX file {str(path)!r}")
    if batch_size is not None:
        check_count("batch_size", batch_size)
    if threads is not None:
        check_count("threads", threads)
    file, names = str(path), None if classes is None else np.asarray(classes)
    model = OnnxModel(
        file, transform, prepare, activation, names, output, batch_size, threads, tuple(providers)
    )
    model.check()
    return model


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """An ONNX file as a function of rows; made by `from_onnx`. The open session is not pickled."""

    path: str
    transform: Step | None
    prepare: Step | None
    activation: str | Step | None
    classes_: Array | None
    output: str | None
    batch_size: int | None
    threads: int | None
    providers: tuple[str, ...]

    def __getstate__(self) -> dict[str, Any]:
        return {name: v for name, v in self.__dict__.items() if name != "session"}

    @cached_property
    def session(self) -> Any:
        """The session, opened when it is first needed."""
        try:
            import onnxruntime
        except ImportError:
            msg = "from_onnx needs onnxruntime: pip install 'credex[onnx]'"
            raise MissingExtraError(msg) from None
        options = onnxruntime.SessionOptions()
        if self.threads is not None:
            options.intra_op_num_threads = self.threads
        try:
            providers = list(self.providers)
            return onnxruntime.InferenceSession(self.path, options, providers=providers)
        except Exception as cause:
            msg = f"{self.path!r} cannot be opened by onnxruntime: {cause}"
            raise InputError(msg) from cause

    def check(self) -> None:
        """Raise unless the model has one input of a known type, and the output asked for."""
        inputs = self.session.get_inputs()
        if len(inputs) != 1:
            msg = f"the model has {len(inputs)} inputs ({', '.join(i.name for i in inputs)}); "
            msg += "credex gives it one: wrap it in a function of your own"
            raise InputError(msg)
        if inputs[0].type not in TYPES:
            raise InputError(f"the model's input is a {inputs[0].type}; numbers are needed")
        outputs = [o.name for o in self.session.get_outputs()]
        if self.output is None and len(outputs) > 1:
            msg = f"the model has {len(outputs)} outputs; say output= one of {', '.join(outputs)}"
            raise InputError(msg)
        if self.output is not None and self.output not in outputs:
            msg = f"the model has no output {self.output!r}; it has {', '.join(outputs)}"
            raise InputError(msg)
        if self.fixed is not None and self.batch_size not in (None, self.fixed):
            msg = f"batch_size={self.batch_size}, but the model demands batches of {self.fixed}"
            raise InputError(msg)

    @property
    def fixed(self) -> int | None:
        """The fixed batch size of the model, or ``None``."""
        shape = self.session.get_inputs()[0].shape
        return shape[0] if shape and isinstance(shape[0], int) else None

    def predict_proba(self, rows: Native) -> Array:
        """Return ``(n,)`` or ``(n, k)`` outputs."""
        step = self.fixed or self.batch_size or ROWS
        wanted = [self.output] if self.output is not None else None
        name = self.session.get_inputs()[0].name
        out = []
        for start in range(0, len(rows), step):
            x = prepared(rows[start : start + step], self.transform, self.prepare)
            x = np.stack([np.asarray(one) for one in x]) if isinstance(x, list) else x
            x = self._fitting(x)
            n = len(x)
            if self.fixed is not None and n < step:
                x = np.concatenate([x, np.repeat(x[-1:], step - n, axis=0)])
            y = np.asarray(self.session.run(wanted, {name: x})[0])
            out.append(self._activated(y[:n] if y.ndim else y))
        return np.concatenate(out)

    __call__ = predict_proba

    def _fitting(self, x: Any) -> Array:
        """Return the batch in the model's dtype, or raise if its shape does not fit."""
        want = self.session.get_inputs()[0]
        a = np.ascontiguousarray(x)
        shape = want.shape or []
        sizes = zip(shape[1:], a.shape[1:], strict=False)
        fits = len(shape) == a.ndim and all(n == m or not isinstance(n, int) for n, m in sizes)
        if shape and not fits:
            said = ", ".join(str(n) if isinstance(n, int) else "any" for n in shape[1:])
            msg = f"the model takes rows of shape ({said}), but one row here is {a.shape[1:]}; "
            msg += "change the image, or give from_onnx transform= or prepare="
            raise InputError(msg)
        dtype = np.dtype(TYPES[want.type])
        if a.dtype.kind == "f" and dtype.kind in "iu":
            msg = f"the model takes {dtype}, but these rows are {a.dtype}: rounding would lose "
            msg += "them; pass the image as whole numbers, or give from_onnx prepare="
            raise InputError(msg)
        return a.astype(dtype, copy=False)

    def _activated(self, y: Array) -> Array:
        """Return the model's output after ``activation``."""
        if callable(self.activation):
            return np.asarray(self.activation(y))
        if self.activation == "softmax":
            e = np.exp(y - y.max(axis=1, keepdims=True))
            return np.asarray(e / e.sum(axis=1, keepdims=True))
        if self.activation == "sigmoid":
            return np.asarray(0.5 * (1 + np.tanh(0.5 * y)))
        return y
