"""A torch module as a function of rows; preprocessing of rows, which ONNX models share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.errors import InputError, MissingExtraError, ModelOutputError, check_count
from credex.typing import Native

__all__ = ["ROWS", "Array", "Step", "TorchModel", "check_steps", "from_torch", "prepared"]

Array = NDArray[Any]
Step = Callable[[Any], Any]

ROWS = 64
"""Default ``batch_size`` of a network."""


@dataclass(slots=True)
class _Busy:
    """Submodules to put back into training mode after the last of the calls that use them."""

    training: list[Any]
    users: int = 0


_LOCK = threading.Lock()
_BUSY: dict[int, _Busy] = {}


def from_torch(
    module: Any,
    *,
    transform: Step | None = None,
    prepare: Step | None = None,
    activation: str | Step | None = None,
    classes: Sequence[Any] | None = None,
    device: Any = None,
    batch_size: int = ROWS,
) -> TorchModel:
    """Wrap a torch module as a function from rows to outputs.

    The module runs in evaluation mode, without gradients, ``batch_size`` rows at a time; afterwards
    every submodule is back in the mode it was in.

    Parameters
    ----------
    module
        An ``nn.Module`` that returns ``(n,)`` or ``(n, k)`` numbers (or an object with ``logits``).
    transform
        Applied to each row (a picture) before rows are stacked, such as a torchvision pipeline.
    prepare
        Applied to a whole batch: arrays in, array or tensor out. Faster than ``transform``.
        With neither, arrays become tensors of the module's own floating-point type.
    activation
        ``"softmax"`` or ``"sigmoid"`` turns logits into probabilities; or a function of the output.
    classes
        Names of the outputs, so that ``target="cat"`` works.
    device
        Where to compute; the module is moved there. ``None``: where its parameters are.
    batch_size
        Maximum rows at a time.

    Examples
    --------
    >>> import credex as cx
    >>> import torch  # doctest: +SKIP
    >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))  # doctest: +SKIP
    >>> model = cx.from_torch(net, activation="softmax")  # doctest: +SKIP
    >>> cx.BayesSHAP(model, cx.Image(cx.Grid(4, 4), fill=0.0), target=3)  # doctest: +SKIP
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("from_torch needs torch: pip install 'credex[torch]'") from None
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"from_torch takes a torch.nn.Module; got {type(module).__name__}")
    check_steps(transform, prepare, activation)
    if device is not None:
        module.to(device)
    check_count("batch_size", batch_size)
    names = None if classes is None else np.asarray(classes)
    return TorchModel(module, transform, prepare, activation, names, batch_size)


@dataclass(frozen=True, eq=False)
class TorchModel:
    """A torch module as a function of rows; made by `from_torch`."""

    module: Any
    transform: Step | None
    prepare: Step | None
    activation: str | Step | None
    classes_: Array | None
    batch_size: int

    def predict_proba(self, rows: Native) -> Array:
        """Return ``(n,)`` or ``(n, k)`` outputs."""
        import torch

        out = []
        with _evaluating(self.module), torch.inference_mode():
            for start in range(0, len(rows), self.batch_size):
                x = prepared(rows[start : start + self.batch_size], self.transform, self.prepare)
                y = self.module(self._tensor(x))
                out.append(self._activated(y).detach().cpu())
        return np.asarray(torch.cat(out).numpy())

    __call__ = predict_proba

    def _tensor(self, x: Any) -> Any:
        """Return a batch as a tensor of the module's floating-point type, on its device."""
        import torch

        where = next(self.module.parameters(), next(self.module.buffers(), None))
        if isinstance(x, list):
            tensors = all(isinstance(one, torch.Tensor) for one in x)
            x = torch.stack(x) if tensors else np.stack([np.asarray(one) for one in x])
        t = x if isinstance(x, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(x))
        if where is None:
            return t if t.is_floating_point() else t.float()
        floats = where.dtype if where.is_floating_point() else torch.float32
        return t.to(device=where.device, dtype=floats)

    def _activated(self, y: Any) -> Any:
        """Return the module's output after ``activation``."""
        y = getattr(y, "logits", y)
        if not hasattr(y, "detach"):
            msg = f"the module returned a {type(y).__name__}, not a tensor; wrap it in a module "
            msg += "that returns (n, k) numbers"
            raise ModelOutputError(msg)
        if callable(self.activation):
            return self.activation(y)
        if self.activation == "softmax":
            return y.softmax(dim=1)
        return y.sigmoid() if self.activation == "sigmoid" else y


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Put a module into evaluation mode, and each submodule back into the mode it was in.

    Threads may share a module: the first call switches the mode, the last one switches it back.
    """
    with _LOCK:
        busy = _BUSY.setdefault(id(module), _Busy([m for m in module.modules() if m.training]))
        busy.users += 1
        module.eval()
    try:
        yield
    finally:
        with _LOCK:
            busy.users -= 1
            if busy.users == 0:
                del _BUSY[id(module)]
                for m in busy.training:
                    m.training = True


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
