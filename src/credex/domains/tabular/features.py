"""Which columns make up which feature, and how each is treated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from credex.domains.tabular.backend import listed
from credex.domains.tabular.table import Table
from credex.errors import InputError
from credex.typing import Masks

__all__ = ["Features"]


class Features:
    """The d features of a table with p columns.

    Attributes
    ----------
    names
        d names; a group has the place of its first column.
    members
        Positions of each feature's columns.
    grouped
        Which features are groups.
    feature_of
        ``(p,)`` feature of each column.
    roles
        How each of the p columns is treated.
    ordered
        Which columns hold numbers or dates.
    bins
        Number of bins of an ordered column; ``None`` if it stays continuous.
    around
        Where perturbations are drawn: around the training data or the instance.
    """

    def __init__(
        self,
        table: Table,
        groups: Mapping[str, Sequence[str | int]] | None,
        categorical: Sequence[str | int] | None,
        bins: int | None,
        around: Literal["training", "instance"],
    ) -> None:
        group_of = _groups(table, groups)
        members: dict[tuple[bool, Any], list[int]] = {}  # keys: (is it a group?, name or column)
        for j in range(table.n_columns):
            members.setdefault((j in group_of, group_of.get(j, j)), []).append(j)
        self.names = tuple(str(key) if group else table.names[key] for group, key in members)
        self.members = tuple(map(tuple, members.values()))
        self.grouped = frozenset(i for i, (group, _) in enumerate(members) if group)
        self.feature_of = np.empty(table.n_columns, dtype=np.int64)
        for i, columns in enumerate(members.values()):
            self.feature_of[columns] = i
        repeated = [name for i, name in enumerate(self.names) if name in self.names[:i]]
        if repeated:
            raise InputError(
                f"the group name {repeated[0]!r} is also a column or another group; choose another"
            )
        if isinstance(categorical, str):
            raise InputError(
                f"categorical is the text {categorical!r}; pass a list: [{categorical!r}]"
            )
        self.roles = list(table.kinds)
        for label in categorical if categorical is not None else ():
            self.roles[_position(table, label, "categorical")] = "category"
        self.ordered = [role in ("number", "date") for role in self.roles]
        self.bins = bins
        self.around = around

    def all_of(self, columns: Masks) -> Masks:
        """``(n, d)`` features of which all columns are true in ``(n, p)``."""
        if not self.grouped:
            return columns
        return np.column_stack([columns[:, list(m)].all(axis=1) for m in self.members])


def _groups(table: Table, groups: Any) -> dict[int, str]:
    """Name of the group of each grouped column."""
    if groups is not None and not isinstance(groups, Mapping):
        raise InputError(
            f"groups is a {type(groups).__name__}; pass a dict of name: list of columns"
        )
    out: dict[int, str] = {}
    for name, columns in (groups or {}).items():
        if isinstance(columns, str) or len(columns) == 0:
            raise InputError(
                f"group {name!r} is {columns!r}; pass a list of one or more column names"
            )
        for column in columns:
            j = _position(table, column, f"group {name!r}")
            if j in out:
                raise InputError(
                    f"column {table.names[j]!r} is named twice in groups ({out[j]!r}, {name!r}); "
                    "a column can move with one group only"
                )
            out[j] = name
    return out


def _position(table: Table, column: Any, where: str) -> int:
    """Position of a column given by its own label, its shown name or its position."""
    for labels in (table.backend.labels, table.names):
        if column in labels:
            return labels.index(column)
    whole = isinstance(column, int | np.integer) and not isinstance(column, bool)
    if whole and -table.n_columns <= column < table.n_columns:
        return int(column) % table.n_columns
    raise InputError(
        f"{where} names the column {column!r}, which is not there; the columns are "
        f"{listed(table.names)}"
    )
