"""What a domain is: the part of credex that knows what can be switched off in an input.

A `Domain` looks at one instance with ``at(x)`` and answers with a `Neighbourhood`: the features,
the background, and the two ways to make model inputs out of them, coalitions (BayesSHAP) and
perturbations (BayesLIME). Right of here there are only masks, design rows and outputs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol, runtime_checkable

from credex.typing import Floats, Ints, Masks, Native

__all__ = ["Domain", "Neighbourhood"]


@runtime_checkable
class Neighbourhood(Protocol):
    """One instance, and all the inputs that can be made by switching its features off."""

    @property
    def names(self) -> tuple[str, ...]:
        """The d feature names."""
        ...

    @property
    def by_masks(self) -> bool:
        """Whether perturbations are the masks themselves, so that each has a complement."""
        ...

    @property
    def values(self) -> tuple[object, ...]:
        """The instance's value of each feature, for people to read."""
        ...

    @property
    def label(self) -> object:
        """Index label of the instance, or ``None``."""
        ...

    @property
    def active(self) -> Masks:
        """``(d,)``: the feature differs from at least one background row."""
        ...

    @property
    def background_weights(self) -> Floats:
        """``(B,)`` weights of the background rows, summing to 1."""
        ...

    @property
    def background_note(self) -> str:
        """How many rows stand for how many."""
        ...

    @property
    def removal(self) -> str:
        """What takes the place of a feature that is switched off, for people; may be empty."""
        ...

    @property
    def row_bytes(self) -> int:
        """Memory that one model input takes, about: it bounds the size of a model call."""
        ...

    @property
    def form(self) -> Hashable:
        """Equal for neighbourhoods whose inputs `Domain.concat` can stack into one call."""
        ...

    @property
    def base_key(self) -> Hashable | None:
        """Equal for neighbourhoods with the same ``base_inputs``; ``None``: no two have."""
        ...

    @property
    def design_at(self) -> Floats:
        """``(d,)`` design row of the instance itself."""
        ...

    @property
    def unit(self) -> tuple[str, ...]:
        """What one unit of each feature's design column is."""
        ...

    @property
    def feature_labels(self) -> tuple[str, ...]:
        """Each feature as a condition, such as ``29 < age ≤ 41``."""
        ...

    def base_inputs(self) -> Native:
        """Return the B background rows."""
        ...

    def instance_inputs(self) -> Native:
        """Return the instance as one row."""
        ...

    def coalition_inputs(self, masks: Masks, *, merge: bool = True) -> tuple[Native, Ints | None]:
        """Rows for ``(n, d)`` masks, and ``(n, B)`` positions into them (``None``: mask-major).

        ``merge=False``: no row may stand for two, because the model is noisy.
        """
        ...

    def perturb(self, seed: int, start: int, stop: int) -> Any:
        """Perturbations ``start`` to ``stop`` of the stream that belongs to ``seed``."""
        ...

    def payload(self) -> Any:
        """Return the instance as JSON-safe values; `Domain.restore` reads it back."""
        ...


@runtime_checkable
class Domain(Protocol):
    """Knows the training data (if any) and how an instance is taken apart."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """The d feature names; ``None`` if every instance has features of its own."""
        ...

    @property
    def summary(self) -> str:
        """One sentence about the background."""
        ...

    def at(self, x: Any) -> Neighbourhood:
        """Look at one instance."""
        ...

    def split(self, X: Any) -> list[Any]:
        """Take a batch apart into instances for `at`."""
        ...

    def concat(self, inputs: Sequence[Native]) -> Native:
        """Stack blocks of model inputs."""
        ...

    def restore(self, payload: Any) -> Any:
        """Turn `Neighbourhood.payload` back into an instance for `at`."""
        ...
