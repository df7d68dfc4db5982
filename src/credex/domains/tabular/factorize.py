"""Values as integers: categories as codes, rows that are equal, and a digest of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.cells import is_missing
from credex.domains.tabular.table import Table
from credex.errors import InputError
from credex.typing import Floats, Ints

__all__ = ["MISSING", "UNSEEN", "digest", "factorize", "identity"]

MISSING = -1
"""Code of a missing value."""
UNSEEN = -2
"""Code of a category that no training row has."""

_EXACT = 2.0**53  # beyond it, neighbouring integers are the same float


def factorize(table: Table, j: int) -> tuple[Ints, dict[Any, int]]:
    """Return ``(n,)`` codes of column j, and the code of each value in order of appearance."""
    codes: dict[Any, int] = {}
    objects = table.objects(j)
    out = np.empty(len(objects), dtype=np.int64)
    try:
        for i, value in enumerate(objects):
            out[i] = MISSING if is_missing(value) else codes.setdefault(value, len(codes))
    except TypeError:
        raise InputError(
            f"column {table.names[j]!r} holds values that cannot be compared, such as a "
            f"{type(value).__name__}; convert it to text or numbers"
        ) from None
    return out, codes


def identity(table: Table) -> NDArray[np.uint64]:
    """``(n, p)`` integers that are equal within a column if and only if the values are."""
    if table.block is not None and table.block.dtype.kind in "iufb":
        return _bits(table.block)
    out = np.empty((table.n_rows, table.n_columns), dtype=np.uint64)
    for j, (column, kind) in enumerate(zip(table.columns, table.kinds, strict=True)):
        if isinstance(column, np.ndarray) and column.dtype.kind in "iub":
            out[:, j] = _bits(column)
            continue
        floats = table.floats(j) if kind in ("number", "date") else None
        if floats is None or (kind == "number" and bool((np.abs(floats) >= _EXACT).any())):
            out[:, j] = factorize(table, j)[0].view(np.uint64)
        else:
            out[:, j] = _bits(floats)
    return out


def _bits(numbers: NDArray[Any]) -> NDArray[np.uint64]:
    if numbers.dtype.kind in "iub":
        return numbers.astype(np.int64).view(np.uint64)
    floats = numbers.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    floats[np.isnan(floats)] = np.nan  # one NaN among the many
    return floats.view(np.uint64)


def digest(
    table: Table,
    factorized: Callable[[int], tuple[Ints, dict[Any, int]]],
    roles: Sequence[str],
    weights: Floats | None,
    settings: tuple[Any, ...],
) -> str:
    """Return 32 characters that change with any value, weight or setting.

    They are the same for every library that holds the table, and on any machine.
    """
    out = blake2b(digest_size=16)
    for j, role in enumerate(roles):
        out.update(f"{table.names[j]}:{role}".encode())
        if role in ("number", "date"):
            out.update(table.floats(j).tobytes())
        else:
            rows, codes = factorized(j)
            out.update(rows.tobytes())
            out.update("\n".join(map(str, codes)).encode())
    out.update(b"" if weights is None else weights.tobytes())
    out.update(repr(settings).encode())
    return out.hexdigest()
