"""`Masks`: bring your own function of masks; there is no instance and no background."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from credex.domains.masked import MaskedDomain, MaskedNeighbourhood
from credex.errors import InputError
from credex.typing import Masks as MaskArray

__all__ = ["MaskNeighbourhood", "Masks"]


class Masks(MaskedDomain):
    """A domain whose model inputs are the masks themselves.

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
