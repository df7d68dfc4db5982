"""What texts and series share: parts that are there or not, and one input for every mask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from credex.domains.draws import blocks
from credex.typing import Floats, Ints, Masks, Native

__all__ = ["PartsNeighbourhood"]


class PartsNeighbourhood(ABC):
    """An instance made of d parts; a mask says which are there, and its input is made from it.

    A subclass sets the attributes below and knows how to make inputs.

    Attributes
    ----------
    names
        The d names of the parts.
    label
        Index label of the instance, or ``None``.
    background_note, removal
        What the base is; what takes the place of a part that is off.
    """

    names: tuple[str, ...]
    label: Any
    background_note: str
    removal: str
    by_masks = True
    base_key: Hashable | None = None  # every instance has its own base
    form: Hashable = None  # inputs stack, unless a subclass says which do

    @abstractmethod
    def coalition_inputs(self, masks: Masks, *, merge: bool = True) -> tuple[Native, Ints | None]:
        """Model inputs of ``(n, d)`` masks, in order."""

    @abstractmethod
    def payload(self) -> Any:
        """Return the instance as JSON-safe values."""

    @property
    @abstractmethod
    def row_bytes(self) -> int:
        """Memory that one model input takes, about."""

    @property
    @abstractmethod
    def unit(self) -> tuple[str, ...]:
        """What one unit of each importance is."""

    @property
    def values(self) -> tuple[object, ...]:
        """``"present"`` for each part: its name says the rest."""
        return ("present",) * len(self.names)

    @cached_property
    def active(self) -> Masks:
        """``(d,)`` all true, unless a subclass knows parts that cannot change."""
        return np.ones(len(self.names), dtype=np.bool_)

    @cached_property
    def background_weights(self) -> Floats:
        """``(B,)``: one input for each mask."""
        return np.ones(1)

    @cached_property
    def design_at(self) -> Floats:
        """``(d,)`` ones."""
        return np.ones(len(self.names))

    @property
    def feature_labels(self) -> tuple[str, ...]:
        """The names."""
        return self.names

    def base_inputs(self) -> Native:
        """Return the input with every part switched off."""
        return self.coalition_inputs(np.zeros((1, len(self.names)), dtype=np.bool_))[0]

    def instance_inputs(self) -> Native:
        """Return the instance as it is, as one row."""
        return self.coalition_inputs(np.ones((1, len(self.names)), dtype=np.bool_))[0]

    def perturb(self, seed: int, start: int, stop: int) -> _PartRows:
        """Masks ``start`` to ``stop`` of fair coin flips, and the inputs they stand for."""
        flips = blocks(seed, "masks", start, stop, len(self.names)) < 0.5
        return _PartRows(self, flips)


@dataclass(frozen=True, slots=True)
class _PartRows:
    """Inputs of coin flips, made when somebody asks."""

    neighbourhood: PartsNeighbourhood
    masks: Masks

    key = None

    def __len__(self) -> int:
        return len(self.masks)

    @property
    def design(self) -> Masks:
        return self.masks

    def inputs(self) -> Native:
        return self.neighbourhood.coalition_inputs(self.masks)[0]

    def pick(self, positions: Ints) -> Native:
        return self.neighbourhood.coalition_inputs(self.masks[positions])[0]

    def coordinates(self) -> Floats:
        return self.masks.astype(np.float64)

    def unique(self) -> tuple[Native, Ints | None]:
        return self.inputs(), None
