"""Which columns make up which feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from credex.domains.tabular.backend import Kind
from credex.domains.tabular.table import Table, listed
from credex.errors import InputError
from credex.typing import Ints

__all__ = ["Features"]


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """The d features of a table with p columns.

    Attributes
    ----------
    names
        d names; a group stands where its first column stood.
    members
        Positions of each feature's columns.
    grouped
        Which features are groups.
    feature_of
        ``(p,)`` feature of each column.
    """

    names: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]
    grouped: frozenset[int]
    feature_of: Ints

    @classmethod
    def of(cls, table: Table, groups: Mapping[str, Sequence[str | int]] | None) -> Features:
        """Read the groups; columns in none of them are features of their own."""
        group_of: dict[int, str] = {}
        if groups is not None and not isinstance(groups, Mapping):
            raise InputError(
                f"groups is a {type(groups).__name__}; pass a dict of name: list of columns"
            )
        for name, columns in (groups or {}).items():
            if isinstance(columns, str) or len(columns) == 0:
                raise InputError(
                    f"group {name!r} is {columns!r}; pass a list of one or more column names"
                )
            for column in columns:
                j = _position(table, column, f"group {name!r}")
                if j in group_of:
                    raise InputError(
                        f"column {table.names[j]!r} is named twice in groups ({group_of[j]!r}, "
                        f"{name!r}); a column can move with one group only"
                    )
                group_of[j] = name
        names: list[str] = []
        members: list[tuple[int, ...]] = []
        grouped: set[int] = set()
        feature_of = np.empty(table.n_columns, dtype=np.int64)
        for j, column in enumerate(table.names):
            if j not in group_of:
                feature_of[j] = len(names)
                names.append(column)
                members.append((j,))
            elif all(group_of.get(i) != group_of[j] for i in range(j)):
                together = tuple(i for i in sorted(group_of) if group_of[i] == group_of[j])
                feature_of[list(together)] = len(names)
                grouped.add(len(names))
                names.append(str(group_of[j]))
                members.append(together)
        repeated = [name for i, name in enumerate(names) if name in names[:i]]
        if repeated:
            raise InputError(
                f"the group name {repeated[0]!r} is also a column or another group; choose another"
            )
        return cls(tuple(names), tuple(members), frozenset(grouped), feature_of)

    @staticmethod
    def roles(table: Table, categorical: Sequence[str | int] | None) -> tuple[Kind, ...]:
        """How each column is treated: its own kind, or a category where the user says so."""
        roles = list(table.kinds)
        if isinstance(categorical, str):
            raise InputError(
                f"categorical is the text {categorical!r}; pass a list: [{categorical!r}]"
            )
        for column in categorical if categorical is not None else ():
            roles[_position(table, column, "categorical")] = "category"
        return tuple(roles)


def _position(table: Table, column: Any, where: str) -> int:
    """Where a column is: by its own label, by its shown name, or by position."""
    if column in table.form.labels:
        return table.form.labels.index(column)
    if isinstance(column, str) and column in table.names:
        return table.names.index(column)
    whole = isinstance(column, int | np.integer) and not isinstance(column, bool)
    if whole and -table.n_columns <= column < table.n_columns:
        return int(column) % table.n_columns
    raise InputError(
        f"{where} names the column {column!r}, which is not there; the columns are "
        f"{listed(table.names)}"
    )
