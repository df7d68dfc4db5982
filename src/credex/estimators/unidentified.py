"""Features that were alike in all that was asked: what is known of them, and what is not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.domains import Neighbourhood
from credex.posteriors.rows import Rows
from credex.typing import Masks

__all__ = ["NONE", "Unseen"]


@dataclass(frozen=True, slots=True, eq=False)
class Unseen:
    """Of d features.

    Attributes
    ----------
    fixed
        Cannot change: the training data hold no other value. Their importance is zero, exactly.
    never
        The training data do not hold the instance's value: no number of queries measures it.
    rare
        One of both has not come up yet.
    notes
        What to say of the last two.
    """

    fixed: Masks
    never: Masks
    rare: Masks
    notes: tuple[str, ...]

    @classmethod
    def of(cls, nb: Neighbourhood, still: Masks, on: Masks) -> Unseen:
        """Sort features that are ``still`` (alike in all rows), some ``on`` and some off."""
        fixed, never, rare = (np.zeros(len(still), dtype=np.bool_) for _ in range(3))
        chance = getattr(nb, "chance", None)  # masks can always change
        for j in np.flatnonzero(still).tolist():
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
    def of_rows(cls, nb: Neighbourhood, rows: Rows) -> Unseen:
        """Look through all rows asked."""
        parts = [(z.any(axis=0), z.all(axis=0)) for z, _, _ in rows.chunks()]
        on = np.all([whole for _, whole in parts], axis=0)
        return cls.of(nb, on | ~np.any([some for some, _ in parts], axis=0), on)


_NO = np.zeros(0, dtype=np.bool_)

NONE = Unseen(_NO, _NO, _NO, ())
"""Nothing of that kind."""
