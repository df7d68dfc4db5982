"""`History`: what a run asked, what the model answered, and what that cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from credex.game import Result
from credex.posteriors.rows import Rows
from credex.typing import Floats

__all__ = ["History"]


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Everything a run asked and was answered: enough to continue from.

    Attributes
    ----------
    rows
        Design rows (masks as bits), outputs ``(n, k)`` and weights, in order.
    full, base
        ``(k,)`` value of the instance, and of the empty coalition (``None`` for BayesLIME).
    end_values
        ``(r, 2, k)`` every answer for the empty and the full coalition, if the model is noisy.
    cursor
        Position in the stream of perturbed rows (BayesLIME on tables).
    n_queries, n_model_rows, model_seconds
        What it cost; rows of failed calls are counted.
    failed_rows
        Rows that were sent in calls that failed.
    checked
        Whether f(x) was asked twice.
    by_row
        ``(n, B, k)`` values by background row, only for ``background_uncertainty``.
    base_by_row
        ``(B, k)`` likewise of the empty coalition.
    model
        Identifies the model that answered, as long as it is in memory.
    """

    rows: Rows = field(default_factory=Rows)
    full: Floats | None = None
    base: Floats | None = None
    end_values: Floats | None = None
    cursor: int = 0
    n_queries: int = 0
    n_model_rows: int = 0
    model_seconds: float = 0.0
    failed_rows: int = 0
    checked: bool = False
    by_row: Floats | None = None
    base_by_row: Floats | None = None
    model: object = None

    def spend(self, results: Sequence[Result], queries: int, **changes: Any) -> History:
        """Return the history with the cost of ``results`` added, and other ``changes``."""
        return replace(
            self,
            n_queries=self.n_queries + queries,
            n_model_rows=self.n_model_rows + sum(r.rows for r in results),
            model_seconds=self.model_seconds + sum(r.seconds for r in results),
            failed_rows=self.failed_rows + sum(r.failed_rows for r in results),
            **changes,
        )

    def in_pairs(self) -> History:
        """Drop a last row whose complement was not answered because a call failed in between."""
        rows = self.rows.even()
        if rows is self.rows:
            return self
        return replace(self, rows=rows, by_row=None if self.by_row is None else self.by_row[:-1])

    @property
    def end_repeats(self) -> int:
        """How often the empty and the full coalition were asked."""
        return 1 if self.end_values is None else len(self.end_values)

    def with_ends(self, bases: Floats, fulls: Floats, *, noisy: bool) -> dict[str, Any]:
        """Return the changes due to answers ``(r, k)`` for the empty and the full coalition."""
        if not noisy:
            return {"base": bases[0], "full": fulls[0]}
        values = np.stack([bases, fulls], axis=1)
        if self.end_values is not None:
            values = np.concatenate([self.end_values, values])
        return {
            "base": values[:, 0].mean(axis=0),
            "full": values[:, 1].mean(axis=0),
            "end_values": values,
        }

    def __repr__(self) -> str:
        outputs = 0 if self.full is None else len(self.full)
        return (
            f"<History: {self.rows.n} perturbations, {outputs} outputs, "
            f"{self.n_queries} queries, {self.n_model_rows} model rows>"
        )


FIELDS = tuple(f.name for f in fields(History))
"""Names of the fields."""
