"""Which sentences `zoom` splits into words, and the note on it in the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from credex.cells import clean
from credex.errors import InputError
from credex.explanation import Explanation
from credex.formatting import shorten


def largest_parts(e: Explanation, n: int, output: Any) -> list[int]:
    """Return the indices of the n parts with the largest importances, of all outputs or one."""
    means = np.abs(e.belief.mean)
    if np.isnan(means).any():
        raise InputError("too little was asked to say which parts matter; refine it first")
    size = means.max(axis=1) if output is None else means[:, e._output(output)]  # noqa: SLF001
    return sorted(int(i) for i in np.argsort(-size, kind="stable")[:n])


def zoom_note(e: Explanation, parts: Sequence[int]) -> str:
    """Return the note on which parts were split, and what finding them cost."""
    unit = e.payload["unit"] if isinstance(e.payload, dict) and "unit" in e.payload else "part"
    named = ", ".join(f"“{shorten(clean(e.names[i]), 24)}”" for i in parts)
    note = f"words inside {len(parts)} of {len(e.names)} {unit}s ({named}), the largest after "
    return note + f"{e.n_queries:,} queries, which are counted"
