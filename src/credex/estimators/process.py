"""What estimators with a Gaussian process share: fitting once per history, forecasting."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from credex.designs.design import Design
from credex.estimators.base import Estimator, r_squared
from credex.estimators.forecast import Forecast, forecast_of
from credex.history import History
from credex.posteriors import Belief, ErrorPosterior
from credex.posteriors.functionals import Functional
from credex.posteriors.kernel import Kernel
from credex.posteriors.process import Observations, ProcessPosterior
from credex.posteriors.student import quantile
from credex.stopping import RelativeWidth, Width
from credex.typing import Design as Rows
from credex.typing import Floats, Weights

__all__ = ["LOOK_AHEAD", "ProcessEstimator", "need_of", "rows_to_go", "width_ratio"]

LOOK_AHEAD = 400
"""Units a forecast looks ahead before it extrapolates."""


class ProcessEstimator(Estimator):
    """An estimator with a Gaussian process, fitted again when rows were added."""

    max_rows: float = np.inf
    """Rows that the process is fitted on; later ones do not change it."""

    def __init__(self, design: Design) -> None:
        super().__init__(design)
        self.kernel: Kernel | None = None
        self._last: tuple[tuple[float, bool], ProcessPosterior] | None = None
        self._prior_variances = self.prior.eases(self.d)

    @abstractmethod
    def observations(self, h: History) -> Observations:
        """Return the rows that the process is fitted on."""

    def observed(
        self, functional: Functional, masks: Rows, y: Floats, coordinates: Floats | None = None
    ) -> Observations:
        """Return rows with the prior and the noise of this estimator."""
        return Observations(
            functional,
            masks,
            y,
            coordinates=coordinates,
            expected=self.prior.means(self.d),
            ease=self._prior_variances,
            noisy=self.options.noisy,
        )

    def noise(self, h: History) -> Floats | None:
        """Variance of an output asked again, ``(k,)``; ``None`` if that is unknown."""
        del h
        return None

    @property
    def may_stop(self) -> bool:
        """Whether widths have to hold at every look."""
        return self.sequential or self.forecasting

    def gp(self, h: History) -> ProcessPosterior:
        """Return the process of this history; within a run the search starts at the last kernel."""
        key = min(h.rows.n, self.max_rows), self.may_stop
        if self._last is None or self._last[0] != key:
            fitted = ProcessPosterior.fit(
                self.observations(h),
                start=self.kernel if self.sequential else None,
                looks=self.may_stop,
                noise=self.noise(h),
                parts=self._last[1].parts if self.sequential and self._last else (),
            )
            self._last, self.kernel = (key, fitted), fitted.kernel
        return self._last[1]

    def misfit(self, y: Floats, fitted: Floats, w: Weights) -> tuple[ErrorPosterior, Floats]:
        """Posterior of the error of the linear explanation ``fitted (n, k)``, and weighted R²."""
        rss, spread = w @ (y - fitted) ** 2, w @ (y - w @ y / w.sum()) ** 2
        dof = self.prior.n0 + len(y)
        scale = np.sqrt((self.prior.n0 * self.prior.sigma0_sq + rss) / dof)
        return ErrorPosterior(dof, scale), r_squared(rss, spread)

    def forecast_singles(
        self,
        h: History,
        belief: Belief,
        limits: Width | RelativeWidth,
        level: float,
        *,
        look_ahead: bool,
    ) -> Forecast:
        """Forecast for masks asked one by one.

        ``look_ahead``: by what the next masks will leave of the variances; else, as if widths fell
        with the root of the rows.
        """
        shares, state = np.empty((0, self.d)), self.gp(h).state
        ratio, left = width_ratio(belief, limits, level), self.design.unasked(h)
        if look_ahead and state is not None and left >= 1 and np.any(ratio > 1):
            with self.context.lock:
                masks = self.design.fresh_stream(h).take(int(min(LOOK_AHEAD, left))).design
            shares = state.shares_left(masks)
        more = np.ceil(rows_to_go(ratio, shares, h.rows.n))
        return forecast_of(h, limits, level, need_of(more, h.rows.n, left))


def need_of(more: float, n: int, left: float) -> tuple[float, float, float]:
    """Queries needed (expected, low, high) if variances say ``more`` after ``n``, of those left.

    Scales change as errors are seen, and a run stops at a look. The range was chosen on 17 games,
    from 200 queries to widths of 0.5 and 0.2 mean |φ|; docs/method.md has what it holds there.
    """
    high = 2.0 * more + n / 4 if more else 0.0
    return min(more, left), min(0.5 * more, left), min(high, left)


def width_ratio(belief: Belief, limits: Width | RelativeWidth, level: float) -> Floats:
    """Widths of the intervals over the widths allowed, ``(d, k)``."""
    width = 2 * quantile(level, belief.dof) * belief.deviation
    allowed = np.asarray(limits.limits(belief.mean))
    return np.divide(width, allowed, out=np.where(width > 0, np.inf, 0.0), where=allowed > 0)


def rows_to_go(ratio: Floats, shares: Floats, n: int, unit: int = 1) -> float:
    """Rows, after n, until widths that are ``ratio (d, k)`` of those allowed are narrow enough.

    The next units, of ``unit`` rows each, leave ``shares (m, d)`` or ``(m, d, k)`` of the
    variances. Beyond them widths are taken to fall with the root of the rows.
    """
    later = np.sqrt(shares if shares.ndim == 3 else shares[:, :, None]) * ratio
    met = np.all(later <= 1, axis=(1, 2))
    if met.any():
        return float(unit * (np.argmax(met) + 1))
    last = float(np.max(later[-1] if len(later) else ratio))
    return (n + unit * len(later)) * max(last, 1.0) ** 2 - n
