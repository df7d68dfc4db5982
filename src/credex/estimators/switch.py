"""BayesSHAP that begins as a regression and goes on as a Gaussian process where that is quicker."""

from __future__ import annotations

from dataclasses import replace

from credex.auto import Prospect, hand_over, worth_asking
from credex.designs.focused import Focused
from credex.designs.samplers import Predictive
from credex.domains import Neighbourhood
from credex.estimators.base import Context, Estimate, Settings
from credex.estimators.process_pairs import GaussianRecipe
from credex.estimators.shapley import ShapleyRecipe
from credex.history import History
from credex.stopping import Forecast, RelativeWidth, Width


class HandoverRecipe(GaussianRecipe):
    """Random pairs and the regression, until forecasts say that the process gets there sooner.

    Both read the same pairs, so nothing is asked twice. Decided by `credex.auto` from the cost of a
    query that was given: no clock is read.
    """

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        settings: Settings,
        context: Context,
        asked: History | None = None,
    ) -> None:
        super().__init__(neighbourhood, settings, context, asked)
        self._process = ""
        """Why the process took over; empty as long as it has not."""
        self._own: tuple[int, Width | RelativeWidth, Forecast] | None = None
        """Queries, widths and forecast of the process when it was last asked."""

    @property
    def _chosen(self) -> bool:
        """The process is asked about the pairs it would choose."""
        return True

    @property
    def minimum(self) -> int:
        """As long as it is a regression, the regression's."""
        return super().minimum if self._process else int(ShapleyRecipe.minimum.fget(self))  # type: ignore[attr-defined]

    def fit(self) -> Estimate | None:
        """Fit what was asked."""
        fitted = super().fit() if self._process else ShapleyRecipe.fit(self)
        if fitted is None or fitted.exact or not self._process:
            return fitted
        return replace(fitted, notes=(self._process, *fitted.notes))

    def predictive(self) -> Predictive | None:
        """The posterior an adaptive sampler reads."""
        return super().predictive() if self._process else ShapleyRecipe.predictive(self)

    def forecast(self, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """How many more queries to these widths."""
        if not self._process:
            return ShapleyRecipe.forecast(self, limits, level)
        if self._own is not None:
            n, known, own = self._own
            if n == self.asked.n_queries and known is limits:
                return own
        return super().forecast(limits, level)

    def reconsider(self, limits: Width | RelativeWidth, forecast: Forecast) -> bool:
        """Hand over if the process needs less time by its own forecast."""
        n, cost = self.asked.n_queries, self.settings.query_seconds
        if self._process or cost is None:
            return False
        now = Prospect(n, self.limit - n, forecast.queries, forecast.low, cost)
        if not worth_asking(now):
            return False
        regression, self._posterior = self._posterior, None
        own = super().forecast(limits, forecast.level)
        why = None if own is None else hand_over(now, own.queries)
        if own is None or why is None:
            self._posterior = regression
            return False
        focused = Focused()
        self.settings = replace(
            self.settings, sampler=focused, sampler_name=focused.name, posterior="gp"
        )
        self._process, self._uniform = why, focused.uniform
        self._own = (n, limits, own)
        self._stream = None  # a focused stream offers what was passed over again
        return True
