"""Domains whose instances consist of d parts that are present or not.

A mask says which of the d parts are present, and each mask has one model input. `Image`, `Text`
and `Series` are made of the two base classes here, and so is `Masks`, whose model inputs are the
masks themselves. A domain of your own needs ``at`` in one of them, ``names`` and ``inputs`` in the
other.
"""

from __future__ import annotations

import hashlib
import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.errors import InputError
from credex.typing import Floats, Native
from credex.typing import Masks as MaskArray

__all__ = ["MaskedDomain", "MaskedNeighbourhood", "Masks", "numbers", "unmasked"]


class MaskedNeighbourhood(ABC):
    """One instance of d parts, and its model input for every mask of them.

    A subclass sets ``names`` and defines `inputs`; the rest has defaults.

    Attributes
    ----------
    names
        The d names of the parts.
    label
        Index label of the instance, or ``None``.
    removal
        What replaces a part that is switched off, for display.
    part
        What one part is called, such as ``"word"``.
    base_key
        Equal for neighbourhoods with the same base input; ``None`` if each has its own.
    """

    names: tuple[str, ...]
    label: Any = None
    removal: str = ""
    part: str = "part"
    base_key: Hashable | None = None
    by_masks = True

    @abstractmethod
    def inputs(self, masks: MaskArray) -> Native:
        """Return the n model inputs of ``(n, d)`` masks, in order."""

    def coalition_inputs(
        self,
        masks: MaskArray,
        *,
        merge: bool = True,  # noqa: ARG002 - there is one input for each mask
    ) -> tuple[Native, None]:
        """Return the inputs of ``(n, d)`` masks, and ``None``: they are in order."""
        return self.inputs(np.asarray(masks, dtype=np.bool_)), None

    def base_inputs(self) -> Native:
        """Return the input with every part switched off."""
        return self.inputs(np.zeros((1, len(self.names)), dtype=np.bool_))

    def instance_inputs(self) -> Native:
        """Return the instance as one input."""
        return self.inputs(np.ones((1, len(self.names)), dtype=np.bool_))

    def payload(self) -> Any:
        """Return JSON-safe values that tell instances apart: here a digest of the input.

        Return the instance itself, and read it in `MaskedDomain.restore`, to support ``refine``.
        """
        text = json.dumps([self.names, self.instance_inputs()], default=_comparable)
        return {"digest": hashlib.sha256(text.encode()).hexdigest()}

    @cached_property
    def active(self) -> MaskArray:
        """``(d,)``: whether switching the part off changes the input; here always."""
        return np.ones(len(self.names), dtype=np.bool_)

    @cached_property
    def values(self) -> tuple[object, ...]:
        """``"present"`` for each part."""
        return ("present",) * len(self.names)

    @cached_property
    def unit(self) -> tuple[str, ...]:
        """``"per part present"`` for each part, by its name."""
        return (f"per {self.part} present",) * len(self.names)

    @property
    def feature_labels(self) -> tuple[str, ...]:
        """The names."""
        return self.names

    @cached_property
    def background_weights(self) -> Floats:
        """``(1,)``: there is one input for each mask."""
        return np.ones(1)

    @cached_property
    def design_at(self) -> Floats:
        """``(d,)`` ones: every part of the instance is present."""
        return np.ones(len(self.names))

    @cached_property
    def row_bytes(self) -> int:
        """Approximate memory of one model input."""
        return max(8 * len(self.names), int(getattr(self.instance_inputs(), "nbytes", 0)))

    @cached_property
    def form(self) -> Hashable:
        """Equal for inputs that stack: shape and type of an array; lists always stack."""
        x = self.instance_inputs()
        return (tuple(x.shape[1:]), str(x.dtype)) if hasattr(x, "dtype") else None


class MaskedDomain(ABC):
    """A domain without a background; a subclass defines `at`.

    Attributes
    ----------
    names
        The names of the parts, or ``None`` if they depend on the instance.
    batch
        What `split` takes, for its error message.
    """

    names: tuple[str, ...] | None = None
    batch: str = "a list of instances"

    @abstractmethod
    def at(self, x: Any) -> MaskedNeighbourhood:
        """Return the neighbourhood of one instance."""

    def split(self, X: Any) -> list[Any]:
        """Split a batch into instances for `at`."""
        if isinstance(X, str | bytes) or not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
            msg = f"X is a {type(X).__name__}; pass {self.batch}, or use explain(x) for one"
            raise InputError(msg)
        return list(X.to_numpy() if hasattr(X, "to_numpy") else X)

    def concat(self, inputs: Sequence[Native]) -> Native:
        """Join blocks of model inputs: lists, arrays or torch tensors."""
        if isinstance(inputs[0], list):
            return [one for block in inputs for one in block]
        if isinstance(inputs[0], np.ndarray):
            return np.concatenate(list(inputs))
        import torch

        return torch.cat(list(inputs))

    def restore(self, payload: Any) -> Any:  # noqa: ARG002 - for subclasses
        """Turn `MaskedNeighbourhood.payload` back into an instance for `at`."""
        name = type(self).__name__
        msg = f"explanations of {name} do not keep the instance; use explain(x, start=explanation),"
        msg += f" or define payload() of its neighbourhood and {name}.restore(payload)"
        raise InputError(msg)


class Masks(MaskedDomain):
    """A domain whose model inputs are the masks themselves; there is no instance.

    Parameters
    ----------
    d
        Number of parts that can be switched on and off.
    names
        One name for each part; ``part 0``, ``part 1``, … by default.

    Examples
    --------
    >>> here = Masks(3).at(None)
    >>> here.instance_inputs()
    array([[ True,  True,  True]])
    """

    summary = "no background: the model is a function of masks"

    def __init__(self, d: int, names: Sequence[str] | None = None) -> None:
        try:
            count = operator.index(d)
        except TypeError:
            count = 0
        if isinstance(d, bool | np.bool_) or count < 1:
            raise InputError(f"d is {d!r}; pass the number of parts, an integer ≥ 1")
        if isinstance(names, str):
            raise InputError(f"names is the text {names!r}; pass a list of {count} names")
        given = [f"part {j}" for j in range(count)] if names is None else [str(n) for n in names]
        if len(given) != count:
            raise InputError(f"{len(given)} names for d={count} parts; pass one name for each part")
        repeated = sorted({name for name in given if given.count(name) > 1})
        if repeated:
            raise InputError(f"names repeat: {', '.join(repeated)}; give each part its own name")
        self.names: tuple[str, ...] = tuple(given)

    def at(self, x: None = None) -> MaskNeighbourhood:
        """Return the one neighbourhood there is; ``x`` must be ``None``."""
        if x is not None:
            raise InputError(f"Masks has no instance, but x is a {type(x).__name__}; leave x out")
        return MaskNeighbourhood(self.names)

    def split(self, X: Any) -> list[None]:  # noqa: ARG002 - the protocol's
        """Raise: there is no batch to split."""
        raise InputError("Masks has no instances to explain in a batch; call explain() without x")

    def restore(self, payload: Any) -> None:
        """Return ``None``: there is no instance."""
        if payload is not None:
            raise InputError(f"Masks has no instance to restore, but the payload is {payload!r}")


class MaskNeighbourhood(MaskedNeighbourhood):
    """All masks of d parts; the base is the empty mask."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def inputs(self, masks: MaskArray) -> MaskArray:
        """Return a C-contiguous copy of the ``(n, d)`` masks."""
        return np.array(masks, order="C")

    def payload(self) -> None:
        """Return ``None``: there is no instance to keep."""


def unmasked(x: Any, what: str) -> NDArray[Any]:
    """Return ``x`` as a plain array; masked entries (of ``numpy.ma``) raise an `InputError`."""
    entries = x if isinstance(x, list | tuple) else [x]
    if any(np.ma.isMaskedArray(one) for one in entries):
        n = int(np.sum(np.ma.getmaskarray(np.ma.asarray(x))))
        if n:
            msg = f"{what} has {n} masked values; fill them in first, for example x.filled(0)"
            raise InputError(msg)
    return np.asarray(x)


def numbers(x: Any, what: str) -> NDArray[Any]:
    """Return ``x`` as a non-empty array of finite numbers, or raise an `InputError`."""
    a = unmasked(x, what)
    if a.dtype.kind not in "iuf":
        hint = ": use x.astype(float)" if a.dtype.kind == "b" else ""
        msg = f"{what} has values of type {a.dtype}; integers or floats are needed{hint}"
        raise InputError(msg)
    if a.size == 0:
        raise InputError(f"{what} is empty: its shape is {a.shape}; numbers are needed")
    bad = int(np.sum(~np.isfinite(a)))
    if bad:
        raise InputError(f"{what} has {bad} values that are NaN or infinite; fill them in first")
    return a


def _comparable(value: Any) -> Any:
    """Return JSON-safe values that differ if an array, or another object, differs."""
    if not hasattr(value, "__array__"):
        return repr(value)
    a = np.asarray(value)
    if a.dtype == object:
        return a.tolist()
    digest = hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()
    return [str(a.dtype), list(a.shape), digest]
