"""`Rows`: the instances that the page offers, as a list that is searched and as inputs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from credex.cells import clean, display
from credex.domains import Domain, Tabular
from credex.domains.tabular.table import Row, read_row
from credex.errors import InputError
from credex.formatting import shorten
from credex.portfolio import dense
from credex.serve.fields import Field, FieldError, field_of

__all__ = ["Rows", "TableRows"]

MAX_CELLS = 8
"""Columns that the list of rows shows."""

CELL_COLUMNS = 40
"""Longest value in the list."""

TEXT_COLUMNS = 200
"""Longest text in the list."""

SPECIAL = {"nan": "missing", "inf": "∞", "-inf": "-∞"}
"""Texts of floats that are shown in another way."""


class Rows:
    """Texts, images or series; a text can be edited."""

    columns: Sequence[str] = ()
    fields: Sequence[Field] = ()

    def __init__(self, domain: Domain, instances: Sequence[Any]) -> None:
        self.domain, self.instances = domain, instances
        if not instances:
            raise InputError("rows is empty; pass at least one instance to choose from")
        if isinstance(instances[0], str) or hasattr(instances[0], "text"):
            self.fields = (Field("text", "text"),)
        self._lock = threading.Lock()

    @staticmethod
    def of(domain: Domain, rows: Any) -> Rows:
        """Return the rows of a domain's instances."""
        instances = domain.split(dense(rows))
        if isinstance(domain, Tabular):
            return TableRows(domain, instances)
        return Rows(domain, instances)

    def __len__(self) -> int:
        return len(self.instances)

    def label(self, i: int) -> str:
        """Return the label of an instance, its number if it has none."""
        label = getattr(self.instances[i], "label", None)
        return f"{i + 1:,}" if label is None else display(label)

    def cells(self, i: int) -> list[str]:
        """Return the values of an instance as texts."""
        x = self.instances[i]
        text = getattr(x, "text", x)
        if isinstance(text, str):
            return [clean(text)]
        shape = getattr(x, "shape", None)
        return [type(x).__name__ if shape is None else " × ".join(map(str, shape))]

    def typed(self, i: int) -> list[str | int | None]:
        """Return what the inputs hold for an instance."""
        x = self.instances[i]
        return [str(getattr(x, "text", x))] if self.fields else []

    def edited(self, i: int, edits: Mapping[int, Any]) -> Any:
        """Return an instance, changed as typed; raise an `InputError` if that cannot be read."""
        x = self.instances[i] if not edits else self._changed(i, edits)
        self.domain.at(x)
        return x

    def _changed(self, i: int, edits: Mapping[int, Any]) -> Any:  # noqa: ARG002 - of a text
        if not self.fields:
            raise InputError("rows of a table and texts can be edited; these cannot")
        return self.fields[0].read(edits[0])

    # -- the list ------------------------------------------------------------------------------

    def page(self, search: str, offset: int, limit: int) -> dict[str, Any]:
        """Return the rows that hold every word of ``search``, from ``offset`` on."""
        words = _searched(clean(search)).split()
        found: Sequence[int] = range(len(self))
        if words:
            found = [i for i, text in enumerate(self.texts) if all(w in text for w in words)]
        shown = found[offset : offset + limit]
        return {
            "total": len(self),
            "found": len(found),
            "offset": offset,
            "rows": [self._listed(i) for i in shown],
        }

    def _listed(self, i: int) -> dict[str, Any]:
        most = CELL_COLUMNS if self.columns else TEXT_COLUMNS
        cells = [shorten(cell, most) for cell in self.cells(i)[:MAX_CELLS]]
        return {"row": i, "label": shorten(self.label(i), CELL_COLUMNS), "cells": cells}

    @property
    def texts(self) -> list[str]:
        """Each instance as one text in lower case; made once, which takes a while for many."""
        with self._lock:
            return self._texts

    @cached_property
    def _texts(self) -> list[str]:
        return [
            _searched("\n".join([self.label(i), *cells])) for i, cells in enumerate(self._all())
        ]

    def _all(self) -> Iterator[Sequence[str]]:
        return map(self.cells, range(len(self)))


class TableRows(Rows):
    """Rows of a table: one input for each column."""

    def __init__(self, domain: Tabular, instances: Sequence[Any]) -> None:
        table, roles = domain._table, domain._features.roles  # noqa: SLF001 - what it knows of columns
        super().__init__(domain, [read_row(table, x) for x in instances])
        self.columns = [clean(name) or "(no name)" for name in table.names]
        self.fields = [
            field_of(table, j, role, may_miss=domain._may_miss(j))  # noqa: SLF001 - the same
            for j, role in enumerate(roles)
        ]

    def _values(self, i: int) -> list[Any]:
        row = self.instances[i]
        return [column[row.position] for column in row.columns]

    def cells(self, i: int) -> list[str]:
        """Return the values of a row as texts."""
        return list(map(display, self._values(i)))

    def typed(self, i: int) -> list[str | int | None]:
        """Return what the inputs hold for a row."""
        return [f.typed(value) for f, value in zip(self.fields, self._values(i), strict=True)]

    def _all(self) -> Iterator[Sequence[str]]:
        """Yield the cells of all rows, column by column where they lie in common columns."""
        columns = self.instances[0].columns
        if any(row.columns is not columns for row in self.instances):
            return super()._all()
        return zip(*map(_displayed, columns), strict=True)

    def _changed(self, i: int, edits: Mapping[int, Any]) -> Row:
        row, values = self.instances[i], self._values(i)
        for j, typed in edits.items():
            try:
                values[j] = self.fields[j].read(typed)
            except InputError as error:
                raise FieldError(str(error), j) from None
        return Row([[value] for value in values], 0, row.label)


def _searched(text: str) -> str:
    """Return a text in the form in which texts are compared."""
    return text.lower().replace("−", "-")


def _displayed(column: Any) -> list[str]:
    """Return the texts of all values, as `display` makes them (apart from the sign of numbers)."""
    kind = column.dtype.kind if isinstance(column, np.ndarray) else ""
    if kind in ("i", "u"):
        return list(map(str, column.tolist()))
    if kind == "f":  # many: the cases of `display` without what other types need
        texts = [("%.0f" if 1000 <= abs(v) < 1e9 else "%.4g") % v for v in column.tolist()]
        return [SPECIAL.get(text, text) for text in texts]
    text = lru_cache(10_000)(display)  # of a few categories, mostly
    return [text(v) if isinstance(v, str) else display(v) for v in column]
