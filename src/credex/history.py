"""What a run asked and was answered, and what that cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from credex.model_queue import Answer
from credex.posteriors.rows import Rows
from credex.typing import Floats


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Everything a run asked and was answered: enough to go on from.

    Attributes
    ----------
    rows
        Design rows (masks as bits), outputs ``(n, k)`` and weights, in order.
    full, base
        ``(k,)`` value of the instance, and of the empty coalition (``None`` for LIME).
    anchors
        ``(r, 2, k)`` every answer for the empty and the full coalition, if the model is noisy.
    cursor
        Position in the stream of perturbations (tables, LIME).
    n_queries, n_model_rows, model_seconds
        What it cost.
    checked
        Whether one row was asked twice.
    by_row
        ``(n, B, k)`` values by background row, only for ``background_uncertainty``.
    base_by_row
        ``(B, k)`` likewise of the empty coalition.
    by
        Stands for the model that answered, as long as it is in memory.
    """

    rows: Rows = field(default_factory=Rows)
    full: Floats | None = None
    base: Floats | None = None
    anchors: Floats | None = None
    cursor: int = 0
    n_queries: int = 0
    n_model_rows: int = 0
    model_seconds: float = 0.0
    checked: bool = False
    by_row: Floats | None = None
    base_by_row: Floats | None = None
    by: object = None

    def __repr__(self) -> str:
        return f"<history of {self.n_queries:,} queries, {self.n_model_rows:,} model rows>"

    def spend(self, answers: list[Answer], queries: int, **changes: Any) -> History:
        """Return the same with the cost of ``answers`` added, and other ``changes``."""
        kept = {name: getattr(self, name) for name in self.__slots__}
        kept["n_queries"] += queries
        for a in answers:
            kept["n_model_rows"] += a.rows
            kept["model_seconds"] += a.seconds
        return History(**(kept | changes))

    def in_pairs(self) -> History:
        """The same without a row whose complement was not answered: a call failed between them."""
        rows = self.rows.even()
        if rows is self.rows:
            return self
        return replace(self, rows=rows, by_row=None if self.by_row is None else self.by_row[:-1])


NOTHING = History()
"""How every run begins."""
