"""What the same seed needs to give the same numbers: random streams, and BLAS on one thread.

Every purpose has a generator of its own, so that no two parts of a run share their draws.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["Purpose", "child", "one_blas_thread", "spawn"]


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


def spawn(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """Return the generator of ``purpose`` under ``seed``; ``key`` tells apart several of a kind."""
    return np.random.default_rng([seed, *key, int(purpose)])


def child(seed: int, purpose: Purpose) -> int:
    """Return a seed for a whole run of its own, such as the reference run of `verify`."""
    words = np.random.SeedSequence([seed, int(purpose)]).generate_state(2, np.uint32)
    return int(words[0]) << 31 | int(words[1]) >> 1


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
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController()
    return controller if any(i["num_threads"] > 1 for i in controller.info()) else None
