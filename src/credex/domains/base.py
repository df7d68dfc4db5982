"""What a domain is: the part of credex that knows what can be switched off in an input.

A `Domain` looks at one instance with ``at(x)`` and returns a `Neighbourhood`: its features, and the
model inputs in which some of them are switched off. Everything behind it sees masks, design rows
and outputs only. Base classes for domains of your own are in `credex.domains.masked`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol, runtime_checkable

from credex.typing import Floats, Ints, Masks, Native

__all__ = ["Domain", "Neighbourhood"]


@runtime_checkable
class Neighbourhood(Protocol):
    """One instance and the model inputs in which some of its d features are switched off."""

    @property
    def names(self) -> tuple[str, ...]:
        """The d feature names."""

    @property
    def by_masks(self) -> bool:
        """Whether BayesLIME perturbs by masks; otherwise by drawing rows of a table."""

    @property
    def values(self) -> tuple[object, ...]:
        """The instance's value of each feature, for display."""

    @property
    def label(self) -> object:
        """Index label of the instance, or ``None``."""

    @property
    def active(self) -> Masks:
        """``(d,)``: whether switching the feature off changes the input."""

    @property
    def background_weights(self) -> Floats:
        """``(B,)`` weights of the background rows, summing to 1."""

    @property
    def removal(self) -> str:
        """What replaces a feature that is switched off, for display; may be empty."""

    @property
    def row_bytes(self) -> int:
        """Approximate memory of one model input; it bounds the size of a model call."""

    @property
    def form(self) -> Hashable:
        """Equal for neighbourhoods whose inputs `Domain.concat` can stack into one call."""

    @property
    def base_key(self) -> Hashable | None:
        """Equal for neighbourhoods with the same ``base_inputs``; ``None`` if they differ."""

    @property
    def design_at(self) -> Floats:
        """``(d,)`` design row of the instance itself."""

    @property
    def unit(self) -> tuple[str, ...]:
        """Unit of each feature's design column."""

    @property
    def feature_labels(self) -> tuple[str, ...]:
        """Each feature as a condition, such as ``29 < age ≤ 41``."""

    def base_inputs(self) -> Native:
        """Return the B background rows: the inputs with every feature switched off."""

    def instance_inputs(self) -> Native:
        """Return the instance as one row."""

    def coalition_inputs(self, masks: Masks, *, merge: bool = True) -> tuple[Native, Ints | None]:
        """Return rows for ``(n, d)`` masks, and ``(n, B)`` indices into them (``None``: in order).

        ``merge=False`` makes one row for each mask and background row, for noisy models.
        """

    def payload(self) -> Any:
        """Return the instance as JSON-safe values; `Domain.restore` reads it back."""


@runtime_checkable
class Domain(Protocol):
    """How an instance is split into features, and what replaces them; may hold training data."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """The d feature names; ``None`` if they depend on the instance."""

    def at(self, x: Any) -> Neighbourhood:
        """Return the neighbourhood of one instance."""

    def split(self, X: Any) -> list[Any]:
        """Split a batch into instances for `at`."""

    def concat(self, inputs: Sequence[Native]) -> Native:
        """Stack blocks of model inputs."""

    def restore(self, payload: Any) -> Any:
        """Turn `Neighbourhood.payload` back into an instance for `at`."""
