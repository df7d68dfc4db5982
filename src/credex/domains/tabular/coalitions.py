"""Which rows a set of coalitions really needs.

With mask z and background row b the model sees x where z is true and b elsewhere. Where x and b
agree anyway the mask makes no difference, so the row is known by (b, z AND x differs from b), and
equal rows are asked once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from credex.typing import Ints, Masks

__all__ = ["DistinctRows", "distinct_rows"]

_PAYS = 0.7  # merge only if at most so many of the n·B rows can be distinct


@dataclass(frozen=True, slots=True, eq=False)
class DistinctRows:
    """The rows to ask.

    Attributes
    ----------
    masks
        ``(m, d)`` which features come from the instance.
    positions
        ``(m,)`` background row of the others.
    index
        ``(n, B)`` which of the m rows answers each pair of mask and background row.
    """

    masks: Masks
    positions: Ints
    index: Ints


def distinct_rows(masks: Masks, differs: Masks) -> DistinctRows | None:
    """Merge equal rows where that is sure to pay, else return ``None``.

    The rule looks at counts only: background row b, which differs from x in c_b features, cannot
    give more than min(n, 2^c_b) distinct rows; merging is done if those add up to less than
    0.7·n·B.

    Parameters
    ----------
    masks
        ``(n, d)``.
    differs
        ``(B, d)`` where each background row differs from the instance.
    """
    n, rows = len(masks), len(differs)
    counts = np.minimum(differs.sum(axis=1), 62)
    if np.minimum(float(n), np.exp2(counts)).sum() >= _PAYS * n * rows:
        return None
    used = np.flatnonzero(differs.any(axis=0))
    d = masks.shape[1]
    if len(used) + rows.bit_length() <= 63:
        keep, positions, index = _by_number(masks[:, used], differs[:, used])
    else:
        keep, positions, index = _by_bytes(masks[:, used], differs[:, used])
    wide = np.zeros((len(keep), d), dtype=np.bool_)
    wide[:, used] = keep
    return DistinctRows(wide, positions, index)


def _by_number(masks: Masks, differs: Masks) -> tuple[Masks, Ints, Ints]:
    """Rows as 64-bit numbers: the background row above, the mask's bits below."""
    n, rows, bits = len(masks), len(differs), masks.shape[1]
    places = np.arange(bits, dtype=np.uint64)
    powers = np.uint64(1) << places
    key = (masks @ powers if bits else np.zeros(n, np.uint64))[:, None] & (
        differs @ powers if bits else np.zeros(rows, np.uint64)
    )
    key |= np.arange(rows, dtype=np.uint64) << np.uint64(bits)
    if (rows << bits) <= 4 * n * rows:  # few possible rows: tick them off instead of sorting
        seen = np.zeros(rows << bits, dtype=np.bool_)
        seen[key.reshape(-1)] = True
        found = np.flatnonzero(seen).astype(np.uint64)
        place = np.cumsum(seen, dtype=np.int64) - 1
        index = place[key]
    else:
        found, inverse = np.unique(key.reshape(-1), return_inverse=True)
        index = inverse.reshape(n, rows).astype(np.int64)
    keep = ((found[:, None] >> places) & np.uint64(1)).astype(np.bool_)
    return keep, (found >> np.uint64(bits)).astype(np.int64), index


def _by_bytes(masks: Masks, differs: Masks) -> tuple[Masks, Ints, Ints]:
    """Rows as packed bytes, for more features than fit into a number."""
    n, rows, bits = len(masks), len(differs), masks.shape[1]
    few = np.packbits(masks, axis=1)
    key: NDArray[np.uint8] = np.empty((n, rows, few.shape[1] + 8), dtype=np.uint8)
    key[:, :, 8:] = few[:, None, :] & np.packbits(differs, axis=1)
    key[:, :, :8] = np.arange(rows, dtype=">u8").view(np.uint8).reshape(rows, 8)
    flat = key.reshape(n * rows, -1)
    _, first, inverse = np.unique(
        flat.view(f"V{flat.shape[1]}").reshape(-1), return_index=True, return_inverse=True
    )
    keep = np.unpackbits(flat[first, 8:], axis=1, count=bits).astype(np.bool_)
    return keep, (first % rows).astype(np.int64), inverse.reshape(n, rows).astype(np.int64)
