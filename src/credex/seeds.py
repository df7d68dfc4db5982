"""Random streams: one generator per purpose, so that no two parts of a run share their draws."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

__all__ = ["Purpose", "child", "spawn"]


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
