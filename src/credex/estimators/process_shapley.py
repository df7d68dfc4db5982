"""BayesSHAP with a Gaussian process over masks: far fewer queries for the same error."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from credex.designs.coalitions import PROCESS_UNITS, CoalitionDesign
from credex.designs.design import Context
from credex.designs.samplers import Predictive, plan
from credex.errors import InputError
from credex.estimators.base import Estimate, nonzero_width, r_squared, spread_over
from credex.estimators.control_variate import NOTE, corrected
from credex.estimators.forecast import Forecast, forecast_of
from credex.estimators.noise import end_variance
from credex.estimators.process import LOOK_AHEAD, ProcessEstimator
from credex.estimators.shapley import ShapleyEstimator
from credex.history import History
from credex.options import Options
from credex.posteriors import Belief, ErrorPosterior
from credex.posteriors.functionals import ShapleyFromCoalitions, ShapleyFromPairs
from credex.posteriors.process import Conditioned, Observations, ProcessPosterior, fit_kernel
from credex.posteriors.strata import strata
from credex.posteriors.student import quantile
from credex.stopping import RelativeWidth, Width
from credex.typing import Floats, Masks

__all__ = ["CoalitionProcess", "PairProcess"]

QUICK_STEPS = 15
"""Steps of the hyper-parameter search between batches; the last fit takes as many as it needs."""


class ShapleyProcess(ProcessEstimator):
    """What the processes over pairs and over single coalitions share."""

    design: CoalitionDesign

    def __init__(self, design: CoalitionDesign, options: Options, context: Context) -> None:
        super().__init__(design, options, context)
        if options.features is not None or options.background_uncertainty:
            msg = "features= and background_uncertainty= need posterior='linear'"
            raise InputError(msg)
        self.design = design
        self.regression = ShapleyEstimator(design, options, context)

    @property
    def minimum(self) -> int:
        """A few coalitions are enough to say something, with wide intervals."""
        return int(min(4 + self.design.repeat_cost, self.design.everything))

    @property
    def max_rows(self) -> int | None:
        """Rows that the process is fitted on; ``None``: all."""
        return None if self.options.noisy else PROCESS_UNITS * self.design.unit

    def is_beyond(self, h: History) -> bool:
        """Whether the next units belong to the control variate."""
        return self.max_rows is not None and h.rows.n >= self.max_rows

    @abstractmethod
    def points(self, h: History) -> tuple[Masks, Floats]:
        """All masks and outputs that the process could be fitted on, the ends first."""

    @abstractmethod
    def process_belief(self, h: History) -> Belief:
        """Belief of the process alone."""

    def belief(self, h: History) -> tuple[Belief, bool]:
        """Belief about the importances, and whether later units corrected the process."""
        belief, state = self.process_belief(h), self.gp(h).state
        if state is None or self.max_rows is None or h.rows.n <= self.max_rows:
            return belief, False
        masks, y = self.points(h)
        first = len(masks) - len(self.design.units(h)[0])
        later = slice(first + PROCESS_UNITS, None)
        residual = np.asarray(y[later] - state.predict(masks[later]))
        return corrected(belief, masks[first:], residual, paired=self.design.paired)

    def fit(self, h: History) -> Estimate | None:
        """Fit the history."""
        if h.full is None or h.base is None:
            return None
        if self.design.is_complete(h) and (whole := self.regression.fit(h)) is not None:
            return whole
        if h.rows.n < 2:
            return None
        belief, over = self.belief(h)
        if self.options.noisy:
            belief = nonzero_width(belief, h.full)
        error, r2 = self._misfit(h, h.base, belief.mean)
        return Estimate(
            spread_over(belief, self.design.active),
            error,
            r2,
            exact=False,
            posterior="gp",
            intercept=h.base,
            local_prediction=h.base + belief.mean.sum(axis=0),
            selected=np.ones((len(self.design.active), len(h.full)), dtype=np.bool_),
            notes=(NOTE.format(n=self.max_rows),) if over else (),
        )

    def _misfit(self, h: History, base: Floats, phi: Floats) -> tuple[ErrorPosterior, Floats]:
        """Error of the additive explanation ``phi (d, k)`` over the coalitions, and its R²."""
        first, y, other, _ = self.regression.units(h)
        layers = strata(self.d, paired=self.design.paired)
        w = layers.weigh(layers.index(first))[0][:, None]
        z = first.astype(np.float64)
        if other is not None:
            y, w, z = np.vstack([y, other]), np.vstack([w, w]), np.vstack([z, 1 - z])
        rss = np.sum(w * (y - base - z @ phi) ** 2, axis=0)
        spread = np.sum(w * (y - np.sum(w * y, axis=0) / w.sum()) ** 2, axis=0)
        return self.error_of(rss, len(y)), r_squared(rss, spread)

    def forecast(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Widths after further units follow from the process: no value is needed."""
        if self.design.is_complete(h):  # a noisy model's is a matter of averages
            return self.regression.forecast(h, limits, level) if self.options.noisy else None
        return None if h.rows.n < 2 else self.look_ahead(h, limits, level)

    @abstractmethod
    def look_ahead(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast:
        """Forecast of a process that is not complete."""


class PairProcess(ShapleyProcess):
    """Coalitions in pairs, and a Gaussian process on their half differences."""

    def points(self, h: History) -> tuple[Masks, Floats]:
        """Masks ``(n, d)`` and half differences ``(n, k)``; row 0: the full and the empty mask."""
        masks = np.ones((1, self.d), dtype=np.bool_)
        if h.full is None or h.base is None:  # choosing the first pairs needs no values
            return masks, np.zeros((1, 1))
        half = (h.full - h.base)[None, :] / 2
        if h.rows.n >= 2:
            first, y, other, _ = self.regression.units(h)
            masks = np.vstack([masks, first])
            half = np.vstack([half, (y - (y if other is None else other)) / 2])
        return masks, half

    def observations(self, h: History) -> Observations:
        """Return the first pairs."""
        n = None if self.options.noisy else PROCESS_UNITS + 1
        masks, y = self.points(h)
        functional = ShapleyFromPairs(self.d, chosen=not self.design.uniform)
        return self.observed(functional, masks[:n], y[:n])

    def noise(self, h: History) -> Floats | None:
        """Variance of a half difference, from repeats of the ends, ``(k,)``."""
        found = None if h.end_values is None else end_variance(h.end_values) / 2
        return None if found is None or not np.isfinite(found).all() else found

    def process_belief(self, h: History) -> Belief:
        """Belief of the process alone."""
        return self.gp(h).belief

    def predictive(self, h: History) -> Predictive | None:
        """Return the conditioned process, after a quick fit if values came in since."""
        if self.is_beyond(h):
            return None
        known = self.known_gp(h)
        if known is not None and known.state is not None:
            return known.state
        data = self.observations(h)
        kernel = fit_kernel(data, start=self.kernel, max_iter=QUICK_STEPS)
        self.kernel = kernel if len(data.Y) > 1 else None
        return Conditioned(kernel, data)

    def look_ahead(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast:
        """Plan further focused pairs and see how far they shrink the widths."""
        g, (belief, over) = self.gp(h), self.belief(h)
        allowed = np.asarray(limits.limits(belief.mean))
        width = 2 * quantile(level, belief.dof) * belief.deviation
        if g.state is None:
            queries = 0.0
        elif over or self.is_beyond(h):  # from here on widths fall with the root of the pairs
            ratio = float(np.max(width / allowed))
            queries = min(max(h.rows.n * (ratio**2 - 1), 0.0), self.design.unasked(h))
        else:
            queries = self._queries_ahead(h, g, width, allowed)
        between = (0.7 * queries, 1.5 * queries)
        return forecast_of(h, queries, between, limits=limits, allowed=allowed, level=level)

    def _queries_ahead(
        self, h: History, g: ProcessPosterior, now: Floats, allowed: Floats
    ) -> float:
        """Queries until widths ``now (d, k)`` shrink to ``allowed``."""
        state, n = g.state, h.rows.n
        if state is None or bool(np.all(now <= allowed)):
            return 0.0
        left = self.design.unasked(h)
        # a run goes no further than three times what it has before it looks again
        ahead = min(LOOK_AHEAD, max(n // 2, 8)) if self.sequential else LOOK_AHEAD
        with self.context.lock:
            units = self.design.fresh_stream(h).take(int(min(4 * ahead, left))).design[0::2]
        steps = min(ahead, len(units))
        if steps == 0:
            return float(left)
        _, gains = plan(state, units, steps)
        start = np.maximum(np.diag(state.covariance), 1e-300)
        after = np.maximum(1 - np.cumsum(gains, axis=0) / start, 1e-12)  # (steps, d)
        met = np.all(np.sqrt(after)[:, :, None] * now <= allowed, axis=(1, 2))
        if met.any():
            return float(2 * (int(np.argmax(met)) + 1))
        ratio = float(np.max(np.sqrt(after[-1])[:, None] * now / allowed))
        return float(min(2 * ((n / 2 + steps) * ratio**2 - n / 2), left))


class CoalitionProcess(ShapleyProcess):
    """Coalitions one by one, and a Gaussian process on v itself (full kernel)."""

    def points(self, h: History) -> tuple[Masks, Floats]:
        """Masks ``(n, d)`` and outputs ``(n, k)``; the first two are the empty and the full one."""
        first, y, _, _ = self.regression.units(h)
        ends = np.array([[False] * self.d, [True] * self.d])
        return np.vstack([ends, first]), np.vstack([np.asarray(h.base), np.asarray(h.full), y])

    def observations(self, h: History) -> Observations:
        """Return the first coalitions."""
        masks, y = self.points(h)
        n = None if self.options.noisy else PROCESS_UNITS + 2
        return self.observed(ShapleyFromCoalitions(self.d), masks[:n], y[:n])

    def process_belief(self, h: History) -> Belief:
        """Belief on the plane Σφ = f(x) − base."""
        g, d = self.gp(h), self.d
        full, base = np.asarray(h.full), np.asarray(h.base)
        mean = g.mean + (full - base - g.mean.sum(axis=0)) / d  # rounding, or noise of the ends
        if self.options.noisy:
            return Belief(mean, g.scale, g.dof)
        centre = np.eye(d) - 1 / d
        held = np.einsum("ij,jlk,lm->imk", centre, g.scale, centre)
        i = np.arange(d)
        held[i, i] = np.maximum(held[i, i], 1e-3 * g.scale[i, i])
        return Belief(mean, held, g.dof)

    def predictive(self, h: History) -> Predictive | None:
        """Return the conditioned process."""
        return None if h.rows.n < 2 else self.gp(h).state

    def look_ahead(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast:
        """See how far the next coalitions shrink the widths."""
        left = self.design.unasked(h)
        with self.context.lock:
            ahead = 0 if self.is_beyond(h) else int(min(LOOK_AHEAD, left))
            coming = self.design.fresh_stream(h).take(ahead).design
        belief = self.belief(h)[0]
        return self.forecast_masks(h, belief, limits, level, coming=coming, unasked=left)
