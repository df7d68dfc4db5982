"""Random numbers that are a pure function of (seed, width, position).

Draws come in fixed blocks of 1024 rows, each from its own generator, so that the first 300 of
2000 draws are the same as 300 draws, any slice can be made alone, and no state is shared.
"""

from __future__ import annotations

import operator

import numpy as np

from credex.errors import InputError
from credex.seeds import Purpose, spawn
from credex.typing import Floats

__all__ = ["BLOCK", "blocks"]

BLOCK = 1024
_PURPOSES = {"uniform": Purpose.UNIFORM_DRAWS, "normal": Purpose.NORMAL_DRAWS}


def blocks(seed: int, kind: str, start: int, stop: int, width: int) -> Floats:
    """Return draws ``start`` to ``stop``, ``(stop - start, width)``, "uniform" or "normal"."""
    try:
        number, first, last = operator.index(seed), operator.index(start), operator.index(stop)
    except TypeError:
        raise InputError(f"seed={seed!r}, start={start!r}, stop={stop!r}; pass integers") from None
    if number < 0:
        raise InputError(f"seed is {number}; pass an integer ≥ 0")
    if not 0 <= first <= last:
        raise InputError(f"start={first}, stop={last}; pass 0 ≤ start ≤ stop")
    out = np.empty((last - first, width))
    for block in range(first // BLOCK, -(-last // BLOCK)):
        rng = spawn(number, _PURPOSES[kind], block)
        draw = rng.standard_normal if kind == "normal" else rng.random
        low, high = max(first, block * BLOCK), min(last, (block + 1) * BLOCK)
        if low > block * BLOCK:  # skip the rows of the block that come before ``start``
            draw((low - block * BLOCK, width))
        draw(out=out[low - first : high - first])
    return out
