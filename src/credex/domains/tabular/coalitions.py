"""Model rows of coalitions, and which of them are needed.

With mask z and background row b the model sees x where z is true and b elsewhere. Where x and b
agree anyway the mask makes no difference, so the row is known by (b, z AND x differs from b), and
equal rows are asked once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from credex.domains.tabular.table import Table
from credex.typing import Ints, Masks, Native

__all__ = ["compose", "compose_all", "distinct_rows"]

_MAX_DISTINCT = 0.7  # merge only if at most this share of the n·B rows can be distinct


def compose(table: Table, masks: Masks, rows: Ints) -> Native:
    """Return m model rows: the instance where the mask is true, else a background row.

    Parameters
    ----------
    table
        The B background rows, then the instance.
    masks
        ``(m, p)`` over columns.
    rows
        ``(m,)`` background row of each.
    """
    return table.gather(np.where(masks, table.n_rows - 1, rows[:, None]), rows)


def compose_all(table: Table, masks: Masks) -> Native:
    """Return all n·B model rows of ``(n, p)`` masks, mask by mask."""
    n, p = masks.shape
    B = table.n_rows - 1
    index = None if table.index is None else table.index.take(np.tile(np.arange(B), n))
    if table.block is not None:  # long inner loops: B·p contiguous values per mask
        x, background = np.tile(table.block[-1], B), table.block[:-1].reshape(-1)
        block = np.where(np.tile(masks, (1, B)), x, background).reshape(n * B, p)
        return table.backend.frame(block, index)
    columns = [
        column[np.where(mask[:, None], B, np.arange(B)).reshape(-1)]
        for column, mask in zip(table.columns, masks.T, strict=True)
    ]
    return table.backend.frame(columns, index)


def distinct_rows(masks: Masks, differs: Masks) -> tuple[Masks, Ints, Ints] | None:
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

    Returns
    -------
    masks, rows, index
        ``(m, d)`` features that come from the instance, ``(m,)`` background row of the others,
        and ``(n, B)`` which of the m rows answers each pair of mask and background row.
    """
    n, rows = len(masks), len(differs)
    counts = np.minimum(differs.sum(axis=1), 62)
    if np.minimum(float(n), np.exp2(counts)).sum() >= _MAX_DISTINCT * n * rows:
        return None
    used = np.flatnonzero(differs.any(axis=0))
    merge = _by_number if len(used) + rows.bit_length() <= 63 else _by_bytes
    keep, positions, index = merge(masks[:, used], differs[:, used])
    wide = np.zeros((len(keep), masks.shape[1]), dtype=np.bool_)
    wide[:, used] = keep
    return wide, positions, index


def _by_number(masks: Masks, differs: Masks) -> tuple[Masks, Ints, Ints]:
    """Rows as 64-bit numbers: the background row above, the mask's bits below."""
    n, rows, bits = len(masks), len(differs), masks.shape[1]
    shifts = np.arange(bits, dtype=np.uint64)
    powers = np.uint64(1) << shifts
    key = np.asarray(masks @ powers, np.uint64)[:, None] & np.asarray(differs @ powers, np.uint64)
    key |= np.arange(rows, dtype=np.uint64) << np.uint64(bits)
    if (rows << bits) <= 4 * n * rows:  # few possible rows: tick them off instead of sorting
        seen = np.zeros(rows << bits, dtype=np.bool_)
        seen[key.reshape(-1)] = True
        found = np.flatnonzero(seen).astype(np.uint64)
        index = (np.cumsum(seen, dtype=np.int64) - 1)[key]
    else:
        found, inverse = np.unique(key.reshape(-1), return_inverse=True)
        index = inverse.reshape(n, rows).astype(np.int64)
    keep = ((found[:, None] >> shifts) & np.uint64(1)).astype(np.bool_)
    return keep, (found >> np.uint64(bits)).astype(np.int64), index


def _by_bytes(masks: Masks, differs: Masks) -> tuple[Masks, Ints, Ints]:
    """Rows as packed bytes, for more features than fit into a number."""
    n, rows, bits = len(masks), len(differs), masks.shape[1]
    packed = np.packbits(masks, axis=1)
    key: NDArray[np.uint8] = np.empty((n, rows, packed.shape[1] + 8), dtype=np.uint8)
    key[:, :, 8:] = packed[:, None, :] & np.packbits(differs, axis=1)
    key[:, :, :8] = np.arange(rows, dtype=">u8").view(np.uint8).reshape(rows, 8)
    flat = key.reshape(n * rows, -1)
    whole = flat.view(f"V{flat.shape[1]}").reshape(-1)
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    keep = np.unpackbits(flat[first, 8:], axis=1, count=bits).astype(np.bool_)
    return keep, (first % rows).astype(np.int64), inverse.reshape(n, rows).astype(np.int64)
