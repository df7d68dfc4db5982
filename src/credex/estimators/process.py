"""What estimators with a Gaussian process share: fitting once per history, forecasting."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from credex.designs.design import Context, Design
from credex.estimators.base import Estimator
from credex.estimators.forecast import Forecast, forecast_of
from credex.history import History
from credex.options import Options
from credex.posteriors import Belief, ErrorPosterior
from credex.posteriors.functionals import Functional
from credex.posteriors.kernel import Kernel
from credex.posteriors.process import Observations, ProcessPosterior
from credex.posteriors.student import quantile
from credex.stopping import RelativeWidth, Width
from credex.typing import Design as Rows
from credex.typing import Floats, Masks

__all__ = ["LOOK_AHEAD", "ProcessEstimator"]

LOOK_AHEAD = 400
"""Units a forecast looks ahead before it extrapolates."""


class ProcessEstimator(Estimator):
    """An estimator with a Gaussian process, fitted again when rows were added."""

    def __init__(self, design: Design, options: Options, context: Context) -> None:
        super().__init__(design, options, context)
        self.kernel: Kernel | None = None
        self._last: tuple[int, ProcessPosterior] | None = None
        active = getattr(design, "active", np.ones(self.d, dtype=np.bool_))
        prior = self.prior.only(active)
        self.expected, self.ease = prior.means(self.d), prior.eases(self.d)

    @property
    def max_rows(self) -> int | None:
        """Rows that the process is fitted on; ``None``: all."""
        return None

    @abstractmethod
    def observations(self, h: History) -> Observations:
        """Return the rows that the process is fitted on."""

    def observed(
        self, functional: Functional, masks: Rows, y: Floats, coordinates: Floats | None = None
    ) -> Observations:
        """Return rows with the prior and the noise of this estimator."""
        return Observations(
            *(functional, masks, y),
            coordinates=coordinates,
            expected=self.expected,
            ease=self.ease,
            noisy=self.options.noisy,
        )

    def noise(self, h: History) -> Floats | None:
        """Variance of an output asked again, ``(k,)``, where that is known."""
        del h
        return None

    def known_gp(self, h: History) -> ProcessPosterior | None:
        """Return the process of this history if it was fitted already."""
        n = h.rows.n if self.max_rows is None else min(h.rows.n, self.max_rows)
        return self._last[1] if self._last is not None and self._last[0] == n else None

    def gp(self, h: History) -> ProcessPosterior:
        """Return the process of this history; within a run from the last kernel on."""
        known = self.known_gp(h)
        if known is None:
            known = ProcessPosterior.fit(
                self.observations(h),
                start=self.kernel if self.sequential else None,
                looks=self.sequential,
                noise=self.noise(h),
            )
            n = h.rows.n if self.max_rows is None else min(h.rows.n, self.max_rows)
            self._last, self.kernel = (n, known), known.kernel
        return known

    def error_of(self, rss: Floats, n: int) -> ErrorPosterior:
        """Posterior of the error from the weighted residual sum of squares of n rows."""
        p = self.prior
        dof = p.n0 + n
        return ErrorPosterior(dof, np.sqrt((p.n0 * p.sigma0_sq + rss) / dof))

    def forecast_masks(
        self,
        h: History,
        belief: Belief,
        limits: Width | RelativeWidth,
        level: float,
        *,
        coming: Masks | None,
        unasked: float,
    ) -> Forecast:
        """Forecast from what the ``coming (m, d)`` masks would leave of the variances.

        Beyond them, and where there are none, widths are taken to fall with the root of the rows.
        """
        state = self.gp(h).state
        allowed = np.asarray(limits.limits(belief.mean))
        now = 2 * quantile(level, belief.dof) * belief.deviation
        more, ratio = 0.0, float(np.max(now / allowed))
        if ratio > 1 and coming is not None and len(coming) and state is not None:
            left = np.sqrt(state.shares_left(coming))
            met = np.all(left[:, :, None] * now <= allowed, axis=(1, 2))
            more = float(np.argmax(met) + 1) if met.any() else float(len(coming))
            ratio = 0.0 if met.any() else float(np.max(left[-1][:, None] * now / allowed))
        more += max(np.ceil((h.rows.n + more) * (ratio**2 - 1)), 0.0)
        more = float(min(more, unasked))
        between = (0.6 * more, 1.5 * more)
        return forecast_of(h, more, between, limits=limits, allowed=allowed, level=level)
