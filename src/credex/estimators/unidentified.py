"""Features that had one value in everything that was asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.domains import Neighbourhood
from credex.typing import Masks

__all__ = ["Unidentified"]


@dataclass(frozen=True, slots=True, eq=False)
class Unidentified:
    """Which of d features did not vary, and whether more queries would help.

    Attributes
    ----------
    fixed
        Cannot vary: the training data hold no other value. Their importance is exactly zero.
    never
        The training data do not hold the instance's value: no number of queries measures them.
    rare
        One of the two values has not come up yet.
    notes
        What to tell the reader about the last two.
    """

    fixed: Masks
    never: Masks
    rare: Masks
    notes: tuple[str, ...]

    @classmethod
    def of(cls, nb: Neighbourhood, constant: Masks, on: Masks) -> Unidentified:
        """Sort the features that are ``constant`` in all rows, some ``on`` and some off."""
        fixed, never, rare = (np.zeros(len(constant), dtype=np.bool_) for _ in range(3))
        chance = getattr(nb, "chance", None)  # masks can always change
        for j in np.flatnonzero(constant).tolist():
            p = 0.5 if chance is None else chance(j)
            (fixed if p >= 1 and on[j] else never if p <= 0 and not on[j] else rare)[j] = True
        missed = [nb.names[j] for j in np.flatnonzero((never | rare) & ~on)]
        alike = [nb.names[j] for j in np.flatnonzero(rare & on)]
        notes = []
        if missed:
            whose = ", ".join(missed)
            notes.append(f"no perturbation had the instance's value of {whose}: not measured")
        if alike:
            whose = ", ".join(alike)
            notes.append(f"all perturbations had the instance's value of {whose}: not measured")
        return cls(fixed, never, rare, tuple(notes))

    @classmethod
    def none(cls, d: int) -> Unidentified:
        """Return that all d features varied."""
        no = np.zeros(d, dtype=np.bool_)
        return cls(no, no, no, ())
