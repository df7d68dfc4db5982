"""`LossShares`: what each feature takes off a model's loss, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from credex import formatting
from credex.averages import MAX_FEATURES, Aggregate, Average, Estimates
from credex.errors import InputError
from credex.typing import Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LossShares"]

NOTHING = Estimates(*(np.zeros(1) for _ in range(4)))


@dataclass(frozen=True, eq=False)
class LossShares(Aggregate):
    """Shares of the loss (SAGE values): ``explain_loss`` returns it.

    ``mean``, ``lower``, ``upper``, ``order``, ``chance``, ``interval()``, ``rank_range()`` and
    ``to_frame()`` are those of an `Aggregate`, of φ instead of mean |φ|: what a feature takes off
    the mean loss. It is negative for features that make predictions worse.

    Attributes
    ----------
    loss
        ``"squared error"`` or ``"cross-entropy"``.
    base_loss
        Mean loss of the mean prediction over the background, as estimated.
    total
        Sum of all φ with its interval, arrays ``(1,)``: the base loss less the model's.
    """

    loss: str = ""
    base_loss: float = np.nan
    total: Estimates = NOTHING

    @property
    def mean(self) -> Floats:
        """Shares φ of the loss, ``(d,)``."""
        return super().mean

    @property
    def signed(self) -> Floats:
        """The same as ``mean``: shares have signs."""
        return super().mean

    @property
    def model_loss(self) -> float:
        """Mean loss of the model, as estimated."""
        return self.base_loss - float(self.total.value[0])

    @property
    def first(self) -> Floats:
        """Not known of a loss."""
        raise InputError("shares of a loss have no largest feature by row; see chance and order")

    def to_frame(self) -> pd.DataFrame:
        """Return a frame with a line for each feature, the largest share first.

        ``mean`` is the share of the loss, with ``mean_lower`` and ``mean_upper``; ``prob_first`` is
        the probability that it is the largest.
        """
        frame = super().to_frame()
        gone = ("signed", "positive", "negative")
        return frame.drop(columns=[c for c in frame.columns if c.startswith(gone)])

    def _title(self) -> str:
        of = f" of {self.population:,.0f}" if self.n_rows < self.population else ""
        title = f"Shares of the {self.loss} over {self.n_rows:,}{of} rows"
        return f"{title}, {formatting.percent(self.level)} intervals"

    def _table(self, p: Average) -> tuple[list[str], list[list[str]], list[str]]:
        at = p.order[:MAX_FEATURES]
        e, (low, high) = p.size, p.rank_range()
        peak = float(np.max(np.abs([e.lower[at], e.upper[at]])))
        power = formatting.power_of(peak)
        unit = 10.0**power

        def row(name: str, e: Estimates, i: int, rank: str) -> list[str]:
            half = (e.upper[i] - e.lower[i]) / 2 / unit
            places = max(formatting.decimals(float(half), peak / unit), 0)
            value, *ends = (
                formatting.number(float(x[i]) / unit, places) for x in (e.value, e.lower, e.upper)
            )
            return [name, value, " … ".join(ends) if half > 0 else "exact", rank]

        ranks = [f"{a}" if a == b else f"{a}–{b}" for a, b in zip(low, high, strict=True)]
        rows = [row(formatting.shorten(p.names[i], 30), e, i, ranks[i]) for i in at]
        rows.append(row("all features", self.total, 0, ""))
        head = ["feature", f"φ{formatting.times(power)}", "interval", "rank"]
        left = len(p.names) - len(at)
        return head, rows, [f"… and {left} more features"] if left else []

    def _foot(self) -> list[str]:
        first = f"Loss: {self.base_loss:.4g} of the mean prediction, {self.model_loss:.4g} of the "
        return [first + "model (estimates)", *super()._foot()]
