"""`BatchPlots`: the plots of a batch, ``batch.plot.summary()`` and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from credex.explanation_base import ExplanationBase
from credex.plots import beeswarm, heatmap, scatter, summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, eq=False)
class BatchPlots:
    """The plots of the rows of a batch; rows without an explanation are left out.

    ``output``, ``level`` and ``ax`` are as in `credex.plots.Plots`; ``most`` is the number of
    features drawn, the largest first.
    """

    explanations: Sequence[ExplanationBase]

    def summary(
        self,
        *,
        output: Any = None,
        most: int = 15,
        level: float | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the mean |importance| of each feature over the rows, with intervals.

        The mean of |φ| of noisy estimates is too large. It is corrected: see `credex.aggregate`.
        The intervals are about these rows, not about a population they may come from.
        """
        return summary.draw(self.explanations, output, most, level, ax)

    def beeswarm(
        self,
        *,
        output: Any = None,
        most: int = 12,
        level: float | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw a dot for each row and feature, coloured by the feature's value.

        Dots whose interval includes zero are pale. A new figure also has a colour bar.
        """
        return beeswarm.draw(self.explanations, output, most, level, ax)

    def scatter(
        self,
        feature: str | int | None = None,
        *,
        output: Any = None,
        level: float | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw a feature's importance against its value, a point with an error bar for each row.

        By default the feature with the largest mean |importance|. Values that are not numbers have
        a place each.
        """
        return scatter.draw(self.explanations, feature, output, level, ax)

    def heatmap(
        self,
        *,
        output: Any = None,
        most: int = 15,
        level: float | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw rows against features, coloured by importance; a dot: the interval includes zero."""
        return heatmap.draw(self.explanations, output, most, level, ax)
