"""`Masks`: bring your own function of masks; there is no instance and no background."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from credex.domains.draws import blocks
from credex.errors import InputError
from credex.typing import Floats, Ints, Native
from credex.typing import Masks as MaskArray

__all__ = ["MaskNeighbourhood", "Masks"]


class Masks:
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

    def __init__(self, d: int, names: Sequence[str] | None = None) -> None:
        try:
            count = operator.index(d)
        except TypeError:
            raise InputError(f"d is {d!r}; pass the number of parts, an integer ≥ 1") from None
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
        self.summary = "no background: the model is a function of masks"

    @property
    def column_names(self) -> tuple[str, ...]:
        """The parts are the columns."""
        return self.names

    def at(self, x: None = None, *, cohort: None = None) -> MaskNeighbourhood:
        """Return the one neighbourhood there is; ``x`` and ``cohort`` must be ``None``."""
        if x is not None:
            raise InputError(f"Masks has no instance, but x is a {type(x).__name__}; leave x out")
        if cohort is not None:
            raise InputError(f"Masks has no cohorts, but cohort is {cohort!r}; leave it out")
        return MaskNeighbourhood(self.names)

    def split(self, X: Any) -> list[None]:  # noqa: ARG002 - the protocol's
        """Masks have one neighbourhood only: there is no batch to take apart."""
        raise InputError("Masks has no instances to explain in a batch; call explain() without x")

    def concat(self, inputs: Sequence[Native]) -> Native:
        """Stack blocks of masks."""
        return np.concatenate(list(inputs))

    def restore(self, payload: Any) -> None:
        """There is nothing to restore."""
        if payload is not None:
            raise InputError(f"Masks has no instance to restore, but the payload is {payload!r}")


@dataclass(frozen=True)
class MaskNeighbourhood:
    """All masks of d parts; B = 1 and the background is the empty mask."""

    names: tuple[str, ...]
    label: None = None
    by_masks: bool = True
    background_note: str = "no background: the model is a function of masks"
    removal: str = ""
    form: None = None

    @property
    def values(self) -> tuple[object, ...]:
        """``"present"`` for each part."""
        return ("present",) * len(self.names)

    @cached_property
    def active(self) -> MaskArray:
        """``(d,)`` all true."""
        return np.ones(len(self.names), dtype=np.bool_)

    @cached_property
    def background_weights(self) -> Floats:
        """``(1,)`` the number 1."""
        return np.ones(1)

    @property
    def row_bytes(self) -> int:
        """As for a table of d columns: models turn masks into numbers."""
        return 8 * len(self.names)

    @property
    def base_key(self) -> Hashable:
        """One background for all masks of these parts."""
        return ("masks", self.names)

    @cached_property
    def design_at(self) -> Floats:
        """``(d,)`` ones."""
        return np.ones(len(self.names))

    @property
    def unit(self) -> tuple[str, ...]:
        """``"per part present"`` for each part."""
        return ("per part present",) * len(self.names)

    @property
    def feature_labels(self) -> tuple[str, ...]:
        """The names."""
        return self.names

    def base_inputs(self) -> MaskArray:
        """``(1, d)`` the empty mask."""
        return np.zeros((1, len(self.names)), dtype=np.bool_)

    def instance_inputs(self) -> MaskArray:
        """``(1, d)`` the full mask."""
        return np.ones((1, len(self.names)), dtype=np.bool_)

    def coalition_inputs(
        self,
        masks: MaskArray,
        *,
        merge: bool = True,  # noqa: ARG002 - masks are never merged
    ) -> tuple[MaskArray, None]:
        """Return the ``(n, d)`` masks as a fresh C-contiguous array."""
        return np.array(masks, dtype=np.bool_, order="C", copy=True), None

    def perturb(self, seed: int, start: int, stop: int) -> _MaskRows:
        """Masks ``start`` to ``stop`` of fair coin flips; they are design and inputs alike."""
        flips = blocks(seed, "masks", start, stop, len(self.names)) < 0.5
        return _MaskRows(flips)

    def payload(self) -> None:
        """There is no instance to keep."""


@dataclass(frozen=True, slots=True)
class _MaskRows:
    masks: MaskArray

    key = None

    def __len__(self) -> int:
        return len(self.masks)

    @property
    def design(self) -> MaskArray:
        return self.masks

    def inputs(self) -> MaskArray:
        return self.masks.copy()

    def pick(self, positions: Ints) -> MaskArray:
        return self.masks[positions]

    def coordinates(self) -> Floats:
        return self.masks.astype(np.float64)

    def unique(self) -> tuple[MaskArray, Ints | None]:
        distinct, position = np.unique(self.masks, axis=0, return_inverse=True)
        if len(distinct) > 0.7 * len(self.masks):
            return self.inputs(), None
        return distinct, position.reshape(-1).astype(np.int64)
