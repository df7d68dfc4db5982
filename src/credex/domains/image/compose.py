"""Many perturbed pictures at once: every byte comes from the picture or from its replacement.

Out = replacement XOR (mask AND (picture XOR replacement)), on words of a few pixels. Nearly
all words lie inside one region; those on a border get a mask of their own. So a picture costs one
look-up a word and two passes over memory, whatever its dtype and layout, and is exact to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.domains.image.picture import Pixels
from credex.typing import Ints, Masks

__all__ = ["Mixer"]

LONGEST = 16
"""Numbers of a word, at most: longer words meet more borders."""

BLOCK_BYTES = 4_000_000
"""Pictures are mixed in blocks of about this size, which stay in the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Mixer:
    """Mixes one picture with its replacement.

    Attributes
    ----------
    shape, dtype
        Of one picture, as the model is given it.
    base, change
        Bytes of the replacement, and of picture XOR replacement, as integers.
    index
        ``(words,)`` which pattern each word of the picture has.
    patterns
        ``(patterns, numbers of a word)`` region of each number: one pattern inside each of the d
        regions, then those that occur on borders.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    base: NDArray[Any]
    change: NDArray[Any]
    index: NDArray[np.intp]
    patterns: Ints

    @classmethod
    def of(cls, picture: Pixels, replacement: Pixels, labels: Ints) -> Mixer:
        """From a picture, its replacement, and the region of every number in it (same shapes)."""
        own = np.ascontiguousarray(picture).reshape(-1).view(np.uint8)
        other = np.ascontiguousarray(replacement).reshape(-1).view(np.uint8)
        item = picture.dtype.itemsize
        sizes = (s for s in (32, 16, 8, 4, 2, 1) if s <= LONGEST * item and own.size % s == 0)
        size = max(next(sizes), item)
        by_word = labels.reshape(-1, size // item)
        d = int(labels.max()) + 1
        index = by_word[:, 0].astype(np.intp)
        mixed = np.flatnonzero(np.any(by_word != by_word[:, :1], axis=1))
        patterns = np.repeat(np.arange(d), by_word.shape[1]).reshape(d, -1)
        if len(mixed):
            borders, which = np.unique(by_word[mixed], axis=0, return_inverse=True)
            index[mixed] = d + which.reshape(-1)
            patterns = np.concatenate([patterns, borders])
        unit = np.dtype(f"u{next(s for s in (8, 4, 2, 1) if own.size % s == 0)}")
        change = (own ^ other).view(unit)
        return cls(
            picture.shape, picture.dtype, np.array(other).view(unit), change, index, patterns
        )

    def __call__(self, masks: Masks) -> Pixels:
        """Return ``(n, *shape)`` pictures for ``(n, d)`` masks; ``True`` keeps the region."""
        n, size, item = len(masks), self.base.nbytes, self.dtype.itemsize
        out = np.empty((n, size), dtype=np.uint8)
        step = max(BLOCK_BYTES // max(size, 1), 1)
        word = np.dtype(f"V{self.patterns.shape[1] * item}")
        number = np.dtype(f"u{item}")
        chosen = np.where(masks, np.iinfo(number).max, 0).astype(number)
        for start in range(0, n, step):
            table = np.take(chosen[start : start + step], self.patterns.reshape(-1), axis=1)
            block = out[start : start + step]
            np.take(table.view(word), self.index, 1, block.view(word), mode="clip")
            units = block.view(self.base.dtype)
            np.bitwise_and(units, self.change, out=units)
            np.bitwise_xor(units, self.base, out=units)
        return out.reshape(-1).view(self.dtype).reshape(n, *self.shape)
