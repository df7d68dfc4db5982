"""Many perturbed pictures at once: every byte comes from the picture or from its replacement.

Out = replacement XOR (mask AND (picture XOR replacement)), on words of a few pixels. Nearly
all words lie inside one region; those on a border get a mask of their own. So a picture costs one
look-up per word and two passes over memory, whatever its dtype and layout, and is exact to the bit.
"""

from __future__ import annotations

import numpy as np

from credex.domains.image.picture import Pixels
from credex.typing import Ints, Masks

__all__ = ["Composer"]

MAX_WORD = 16
"""Largest word, in numbers: longer words meet more borders."""

BLOCK_BYTES = 4_000_000
"""Pictures are composed in blocks of about this size, which stay in the processor's cache."""


class Composer:
    """Composes perturbed pictures from one picture and its replacement.

    Parameters
    ----------
    picture, replacement
        Of one shape and dtype, as the model is given them.
    labels
        Region 0 … d − 1 of every number, in the same shape.
    """

    def __init__(self, picture: Pixels, replacement: Pixels, labels: Ints) -> None:
        self.shape, self.dtype = picture.shape, picture.dtype
        pixels = np.ascontiguousarray(picture).reshape(-1).view(np.uint8)
        filled = np.array(replacement, order="C").reshape(-1).view(np.uint8)
        unit = np.dtype(f"u{next(s for s in (8, 4, 2, 1) if pixels.size % s == 0)}")
        self.base, self.change = filled.view(unit), (pixels ^ filled).view(unit)
        item = picture.dtype.itemsize
        sizes = (s for s in (32, 16, 8, 4, 2, 1) if s <= MAX_WORD * item and pixels.size % s == 0)
        by_word = labels.reshape(-1, max(next(sizes), item) // item)
        # One pattern inside each of the d regions, then those that occur on borders.
        d = int(labels.max()) + 1
        self.patterns = np.repeat(np.arange(d), by_word.shape[1]).reshape(d, -1)
        self.index = by_word[:, 0].astype(np.intp)
        mixed = np.flatnonzero(np.any(by_word != by_word[:, :1], axis=1))
        if len(mixed):
            borders, which = np.unique(by_word[mixed], axis=0, return_inverse=True)
            self.index[mixed] = d + which.reshape(-1)
            self.patterns = np.concatenate([self.patterns, borders])

    def __call__(self, masks: Masks) -> Pixels:
        """Return ``(n, *shape)`` pictures for ``(n, d)`` masks; ``True`` keeps the region."""
        n, size, item = len(masks), self.base.nbytes, self.dtype.itemsize
        out = np.empty((n, size), dtype=np.uint8)
        step = max(BLOCK_BYTES // size, 1)
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
