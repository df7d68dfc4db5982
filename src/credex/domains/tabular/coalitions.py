"""Model rows of coalitions, and which of them are needed.

With mask z and background row b the model sees x where z is true and b elsewhere. Where x and b
agree anyway the mask makes no difference, so the row is known by (b, z AND x differs from b), and
equal rows are asked once.
"""

from __future__ import annotations

import numpy as np

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
    n, B = len(masks), len(differs)
    possible = np.exp2(np.minimum(differs.sum(axis=1), 62))
    sizes = np.minimum(possible, n).astype(np.int64)
    if sizes.sum() >= _MAX_DISTINCT * n * B:
        return None
    # code[i, b] < sizes[b] is what mask i keeps of the features in which row b differs from x
    few = possible <= n
    bits = np.exp2(np.minimum(np.cumsum(differs, axis=1), 63) - 1)
    code = (masks @ np.where(differs & few[:, None], bits, 0.0).T).astype(np.int64)
    for b in np.flatnonzero(~few):
        packed = np.ascontiguousarray(np.packbits(masks[:, differs[b]], axis=1))
        whole = packed.view(f"V{packed.shape[1]}").reshape(-1)
        code[:, b] = np.unique(whole, return_inverse=True)[1]
    ends = np.cumsum(sizes)
    code += ends - sizes
    mask_of = np.full(ends[-1], -1)
    mask_of[code] = np.arange(n)[:, None]
    found = np.flatnonzero(mask_of >= 0)
    rows = np.searchsorted(ends, found, side="right")
    index = (np.cumsum(mask_of >= 0) - 1)[code]
    return masks[mask_of[found]] & differs[rows], rows, index
