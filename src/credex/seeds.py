"""What the same seed needs to give the same numbers: random streams, and BLAS on one thread.

Every purpose has a generator of its own, so that no two parts of a run share their draws.
"""

from __future__ import annotations

import operator
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np

from credex.errors import InputError
from credex.typing import Floats

__all__ = ["BLOCK", "Purpose", "blocks", "child", "one_blas_thread", "spawn"]


class Purpose(IntEnum):
    """What a stream is for. The number is part of the stream's entropy: never reuse one."""

    UNIFORM_DRAWS = 1
    NORMAL_DRAWS = 2
    SHAPLEY_MASKS = 7
    BERNOULLI_MASKS = 13
    SAMPLER = 17
    VERIFIED_ROWS = 23
    PROJECTION_POOL = 29
    AFTER_PROCESS = 31
    REFERENCE = 37
    FILL_NOISE = 41
    NEIGHBOURS = 43
    BASE_ROWS = 47
    PAIR_ROWS = 53
    PAIR_MASKS = 59
    KERNEL_ROWS = 61
    BASIS_ROWS = 67
    FUNCTIONAL_ROWS = 71
    WARMING_ROWS = 73
    RARE_VALUES = 79
    COINS_AGAIN = 83
    SCREENING = 89
    OTHER_BINS = 97
    RANKED_ROWS = 101
    PORTFOLIO_ROWS = 103
    PORTFOLIO_PAIRS = 107
    ROW_WEIGHTS = 109
    SAMPLED_INPUT = 211


def spawn(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """Return the generator of ``purpose`` under ``seed``; ``key`` tells apart several of a kind."""
    return np.random.default_rng([seed, *key, int(purpose)])


def child(seed: int, purpose: Purpose) -> int:
    """Return a seed for a whole run of its own, such as the reference run of `verify`."""
    words = np.random.SeedSequence([seed, int(purpose)]).generate_state(2, np.uint32)
    return int(words[0]) << 31 | int(words[1]) >> 1


BLOCK = 1024
"""Draws that come from one generator: any slice of a stream can be made alone."""

_PURPOSES = {"uniform": Purpose.UNIFORM_DRAWS, "normal": Purpose.NORMAL_DRAWS}


def blocks(seed: int, kind: str, start: int, stop: int, width: int) -> Floats:
    """Return draws ``start`` to ``stop``, ``(stop - start, width)``, "uniform" or "normal".

    They are a pure function of seed, width and position: the first 300 of 2000 draws are the same
    as 300 draws.
    """
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


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread inside the block; the model is called outside of it.

    The matrices of a fit have some dozens of columns: a second thread gains nothing on them, rounds
    differently, and on a busy machine makes explanations ten to a hundred times slower.
    """
    controller = _blas_controller()
    if controller is None:
        return nullcontext()
    limited: AbstractContextManager[Any] = controller.limit(limits=1, user_api="blas")
    return limited


@lru_cache(maxsize=1)
def _blas_controller() -> Any:
    """Return what limits BLAS; ``None`` if it has one thread already."""
    import scipy.linalg  # noqa: F401 - which has a BLAS of its own
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController()
    return controller if any(i["num_threads"] > 1 for i in controller.info()) else None
