"""``posterior="auto"`` on the way to a width: from the regression to the Gaussian process."""

from __future__ import annotations

from dataclasses import replace

from credex.auto import Prospect, switch_reason, worth_fitting
from credex.designs.coalitions import CoalitionDesign
from credex.designs.samplers import Focused
from credex.estimators.forecast import Forecast
from credex.estimators.process_shapley import PairProcess
from credex.history import History
from credex.stopping import RelativeWidth, Width

__all__ = ["Switch"]


class Switch:
    """Decides, from forecasts and the cost of a query, when the process takes over.

    Both read the same pairs, so nothing is asked twice. No clock is read: `credex.auto` decides by
    the cost that was given.
    """

    def __init__(self, design: CoalitionDesign, history: History, query_seconds: float) -> None:
        options = replace(design.options, sampler=Focused(), posterior="gp")
        self.design = CoalitionDesign(design.neighbourhood, options, design.context, history)
        self.process = PairProcess(self.design, options, design.context)
        self.process.sequential = True
        self.query_seconds = query_seconds

    def reason(
        self, h: History, ceiling: int, limits: Width | RelativeWidth, forecast: Forecast
    ) -> str | None:
        """Why the process takes over from the regression of this forecast; ``None``: not yet."""
        left = ceiling - h.n_queries
        now = Prospect(h.n_queries, left, forecast.queries, forecast.low, self.query_seconds)
        if not worth_fitting(now):
            return None
        own = self.process.forecast(h, limits, forecast.level)
        return None if own is None else switch_reason(now, own.queries)
