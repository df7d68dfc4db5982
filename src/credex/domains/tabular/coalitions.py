"""Model rows of coalitions on several background rows at once, equal rows made once."""

from __future__ import annotations

import numpy as np

from credex.domains.tabular.table import Table
from credex.domains.tabular.training import unique_rows
from credex.typing import Ints, Masks, Native

__all__ = ["MAX_DISTINCT", "compose", "distinct_rows"]

MAX_DISTINCT = 0.7
"""Equal rows are merged only if at most this share is distinct."""


def compose(table: Table, masks: Masks, rows: Ints | None) -> Native:
    """Return model rows: the instance where the mask is true, else a background row.

    ``table`` holds the B background rows and then the instance, ``masks`` are ``(n, p)`` over
    columns, ``rows`` are the ``(n,)`` background row of each; ``None``: all B, mask by mask.
    """
    n, B = len(masks), table.n_rows - 1
    if rows is not None:
        return table.gather(np.where(masks, B, rows[:, None]), rows, {})
    if (block := table.block) is None:
        return compose(table, np.repeat(masks, B, axis=0), np.tile(np.arange(B), n))
    # long inner loops: B·p contiguous values per mask
    x, background = np.tile(block[-1], B), block[:-1].reshape(-1)
    block = np.where(np.tile(masks, (1, B)), x, background).reshape(n * B, -1)
    labels = None if table.index is None else table.index.take(np.tile(np.arange(B), n))
    return table.backend.frame(block, labels)


def distinct_rows(masks: Masks, differs: Masks) -> tuple[Masks, Ints, Ints] | None:
    """Merge equal model rows where that is sure to pay, else return ``None``.

    With mask z and background row b the model sees x where z is true and b elsewhere. Where x and
    b agree the mask makes no difference, so the row is known by (b, z AND x differs from b).
    Background row b, which differs from x in c_b features, cannot give more than min(n, 2^c_b)
    distinct rows; merging is done if those add up to less than 0.7·n·B.

    From ``(n, d)`` masks and ``(B, d)`` differences follow ``(m, d)`` features that come from the
    instance, the ``(m,)`` background row of the others, and ``(n, B)`` which of the m rows answers
    each pair of mask and background row.
    """
    n, B = len(masks), len(differs)
    possible = np.exp2(np.minimum(differs.sum(axis=1), 62))
    sizes = np.minimum(possible, n).astype(np.int64)
    if sizes.sum() >= MAX_DISTINCT * n * B:
        return None
    # code[i, b] < sizes[b] is what mask i keeps of the features in which row b differs from x
    few = possible <= n
    bits = np.exp2(np.minimum(np.cumsum(differs, axis=1), 63) - 1)
    code = (masks @ np.where(differs & few[:, None], bits, 0.0).T).astype(np.int64)
    for b in np.flatnonzero(~few):
        code[:, b] = unique_rows(np.packbits(masks[:, differs[b]], axis=1))[1]
    ends = np.cumsum(sizes)
    code += ends - sizes
    mask_of = np.full(ends[-1], -1)
    mask_of[code] = np.arange(n)[:, None]
    found = np.flatnonzero(mask_of >= 0)
    rows = np.searchsorted(ends, found, side="right")
    index = (np.cumsum(mask_of >= 0) - 1)[code]
    return masks[mask_of[found]] & differs[rows], rows, index
