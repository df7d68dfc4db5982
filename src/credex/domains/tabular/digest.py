"""Short names for the contents of tables: whether two explanations were made of the same data."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from credex.domains.tabular.backend import Kind
from credex.domains.tabular.factorize import Codes
from credex.domains.tabular.table import Table
from credex.typing import Floats

__all__ = ["digest"]


def digest(
    table: Table,
    roles: tuple[Kind, ...],
    weights: Floats | None,
    *others: Any,
    known: Callable[[int], Codes | None] = lambda _j: None,
) -> str:
    """Return 32 characters that change with any value, weight or other setting.

    The same whatever library holds the table, on any machine. ``known``: numbered categories of a
    column, if somebody has them.
    """
    out = blake2b(digest_size=16)
    for j, role in enumerate(roles):
        out.update(f"{table.names[j]}:{role}".encode())
        if role in ("number", "date"):
            out.update(table.floats(j).tobytes())
        else:
            codes = known(j) or Codes.of(table, j)
            out.update(codes.rows.tobytes())
            out.update("\n".join(map(str, codes.values)).encode())
    out.update(b"" if weights is None else weights.tobytes())
    out.update(repr(others).encode())
    return out.hexdigest()
