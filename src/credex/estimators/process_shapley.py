"""BayesSHAP with a Gaussian process over masks: far fewer queries for the same error."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from credex.designs.coalitions import PROCESS_UNITS, CoalitionDesign
from credex.designs.design import Context
from credex.designs.focused import plan, signs
from credex.designs.samplers import Predictive
from credex.errors import InputError
from credex.estimators.base import (
    Estimate,
    Estimator,
    nonzero_width,
    r_squared,
    spread_over,
)
from credex.estimators.control_variate import NOTE, corrected
from credex.estimators.forecast import Forecast, forecast_of
from credex.estimators.noise import end_variance
from credex.estimators.process_surrogate import process_forecast
from credex.estimators.shapley import ShapleyEstimator
from credex.history import History
from credex.options import Options
from credex.posteriors import Belief, ErrorPosterior
from credex.posteriors.coalitions_gp import AllCoalitions
from credex.posteriors.evidence import default_kernel
from credex.posteriors.gp import Conditioned, GPPosterior, fit_kernel
from credex.posteriors.mask_kernel import MaskKernel
from credex.posteriors.strata import strata
from credex.posteriors.student import quantile
from credex.posteriors.surrogate_gp import SurrogateGP
from credex.posteriors.surrogate_kernel import Kernel
from credex.stopping import RelativeWidth, Width
from credex.typing import Floats

__all__ = ["CoalitionProcess", "PairProcess"]

QUICK_STEPS = 15
"""Steps of the hyper-parameter search between batches; the last fit takes as many as it needs."""

LOOK_AHEAD = 400
"""Units a forecast looks ahead before it extrapolates; within a run, which goes no further than
three times what it has before it looks again, no more than were asked."""


class _Process(Estimator):
    """What the processes over pairs and over single coalitions share."""

    def __init__(self, design: CoalitionDesign, options: Options, context: Context) -> None:
        super().__init__(design, options, context)
        if options.features is not None or options.background_uncertainty:
            msg = "features= and background_uncertainty= need posterior='linear'"
            raise InputError(msg)
        self.design = design
        self.regression = ShapleyEstimator(design, options, context)
        prior = self.prior.only(design.active)
        self.expected, self.ease = prior.means(self.d), prior.eases(self.d)

    @property
    def minimum(self) -> int:
        """A few coalitions are enough to say something, with wide intervals."""
        return int(min(4 + self.design.repeat_cost, self.design.everything))

    def beyond(self, h: History) -> bool:
        """Whether the next units belong to the control variate."""
        return not self.options.noisy and h.rows.n >= PROCESS_UNITS * self.design.unit

    def fitted_rows(self, h: History) -> int:
        """Rows of the history that the process is fitted on."""
        return h.rows.n if self.options.noisy else min(h.rows.n, PROCESS_UNITS * self.design.unit)

    @abstractmethod
    def process_belief(self, h: History) -> tuple[Belief, bool]:
        """Belief of the process alone, and whether it is exact."""

    @abstractmethod
    def residuals(self, h: History) -> Floats | None:
        """What the process got wrong at units after the first `PROCESS_UNITS`."""

    def belief(self, h: History) -> tuple[Belief, bool, bool]:
        """Belief about the importances, whether it is exact, whether later units corrected it."""
        belief, exact = self.process_belief(h)
        if self.options.noisy or h.rows.n <= PROCESS_UNITS * self.design.unit:
            return belief, exact, False
        residual = self.residuals(h)
        if residual is None:
            return belief, exact, False
        masks = self.design.units(h)[0]
        belief, over = corrected(belief, masks, residual, paired=self.design.paired)
        return belief, exact, over

    def fit(self, h: History) -> Estimate | None:
        """Fit the history."""
        if h.full is None or h.base is None:
            return None
        if self.design.is_complete(h) and (whole := self.regression.fit(h)) is not None:
            return whole
        if h.rows.n < 2:
            return None
        belief, exact, over = self.belief(h)
        error, r2 = self._misfit(h, h.base, belief.mean)
        n = PROCESS_UNITS * self.design.unit
        return Estimate(
            spread_over(belief, self.design.active),
            error,
            r2,
            exact=exact,
            posterior="gp",
            intercept=h.base,
            local_prediction=h.base + belief.mean.sum(axis=0),
            selected=np.ones((len(self.design.active), len(h.full)), dtype=np.bool_),
            notes=(NOTE.format(n=n),) if over else (),
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
        p = self.prior
        dof = p.n0 + len(y)
        error = ErrorPosterior(dof, np.sqrt((p.n0 * p.sigma0_sq + rss) / dof))
        return error, r_squared(rss, spread)


class PairProcess(_Process):
    """Coalitions in pairs, and a Gaussian process on their half differences."""

    def __init__(self, design: CoalitionDesign, options: Options, context: Context) -> None:
        super().__init__(design, options, context)
        self._kernel: MaskKernel | None = None
        self._last: tuple[int, GPPosterior] | None = None

    def _pairs(self, h: History) -> tuple[Floats, Floats]:
        """Signs ``(n, d)`` and half differences ``(n, k)``; row 0: the full and the empty mask.

        The prior mean is taken off: the process models the rest.
        """
        full, base = np.asarray(h.full), np.asarray(h.base)
        s, half = np.ones((1, self.d)), (full - base)[None, :] / 2
        if h.rows.n >= 2:
            first, y, other, _ = self.regression.units(h)
            s = np.vstack([s, signs(first)])
            half = np.vstack([half, (y - (y if other is None else other)) / 2])
        return s, half - 0.5 * (s @ self.expected)[:, None]

    def gp(self, h: History) -> GPPosterior:
        """Return the process of the first units."""
        n = self.fitted_rows(h)
        if self._last is None or self._last[0] != n:
            s, y = self._pairs(h)
            if not self.options.noisy:
                s, y = s[: PROCESS_UNITS + 1], y[: PROCESS_UNITS + 1]
            found = GPPosterior.fit(
                s,
                y,
                start=self._kernel if self.sequential else None,
                noisy=self.options.noisy,
                looks=self.sequential,
                ease=self.ease,
                chosen=not self.design.uniform,
                noise=self._noise(h),
            )
            self._last = (n, replace(found, mean=found.mean + self.expected[:, None]))
            if found.state is not None:
                self._kernel = found.state.kernel
        return self._last[1]

    def _noise(self, h: History) -> Floats | None:
        """Variance of a half difference, from repeats of the ends, ``(k,)``."""
        found = None if h.end_values is None else end_variance(h.end_values) / 2
        return None if found is None or not np.isfinite(found).all() else found

    def process_belief(self, h: History) -> tuple[Belief, bool]:
        """Belief of the process alone, and whether it is exact."""
        g = self.gp(h)
        noisy = self.options.noisy and h.full is not None
        belief = nonzero_width(g.belief, np.asarray(h.full)) if noisy else g.belief
        return belief, bool(g.exact)

    def residuals(self, h: History) -> Floats | None:
        """Half differences of later pairs less the process's mean."""
        state = self.gp(h).state
        if state is None:
            return None
        s, y = (a[PROCESS_UNITS + 1 :] for a in self._pairs(h))
        return np.asarray(y - state.predict(s))

    def predictive(self, h: History) -> Predictive | None:
        """Return the conditioned process, after a quick fit if values came in since."""
        if self.beyond(h):
            return None
        if self._last is not None and self._last[0] == h.rows.n and self._last[1].state is not None:
            return self._last[1].state
        if h.full is None or h.rows.n < 2:  # choosing needs no values: the prior's kernel does
            kernel = replace(default_kernel(self.d), noisy=self.options.noisy, ease=self.ease)
            return Conditioned.of(kernel, np.ones((1, self.d)), np.zeros((1, 1)))
        s, y = self._pairs(h)
        self._kernel = fit_kernel(
            *(s, y),
            start=self._kernel,
            max_iter=QUICK_STEPS,
            noisy=self.options.noisy,
            ease=self.ease,
        )
        return Conditioned.of(self._kernel, s, y)

    def forecast(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Widths after further focused pairs follow from the process: no value is needed."""
        if self.design.is_complete(h):  # a noisy model's is a matter of averages
            return self.regression.forecast(h, limits, level) if self.options.noisy else None
        if h.rows.n < 2:
            return None
        g, (belief, _, over) = self.gp(h), self.belief(h)
        allowed = np.asarray(limits.limits(belief.mean))
        if g.state is None:
            nothing = (0.0, 0.0)
            return forecast_of(h, 0.0, nothing, limits=limits, allowed=allowed, level=level)
        width = 2 * quantile(level, belief.dof) * belief.deviation
        if over or self.beyond(h):  # from here on widths fall with the root of the pairs
            ratio = float(np.max(width / allowed))
            queries = min(max(h.rows.n * (ratio**2 - 1), 0.0), self.design.unasked(h))
        else:
            queries = self._queries_ahead(h, g, width, allowed)
        between = (0.7 * queries, 1.5 * queries)
        return forecast_of(h, queries, between, limits=limits, allowed=allowed, level=level)

    def _queries_ahead(self, h: History, g: GPPosterior, now: Floats, allowed: Floats) -> float:
        """Queries until widths ``now (d, k)`` shrink to ``allowed``."""
        state, n = g.state, h.rows.n
        if state is None or bool(np.all(now <= allowed)):
            return 0.0
        left = self.design.unasked(h)
        ahead = min(LOOK_AHEAD, max(n // 2, 8)) if self.sequential else LOOK_AHEAD
        with self.context.lock:
            units = self.design.fresh_stream(h).take(int(min(4 * ahead, left))).design[0::2]
        steps = min(ahead, len(units))
        if steps == 0:
            return float(left)
        _, gains = plan(state, signs(units), steps)
        start = np.maximum(np.diag(state.unit_covariance()), 1e-300)
        after = np.maximum(1 - np.cumsum(gains, axis=0) / start, 1e-12)  # (steps, d)
        met = np.all(np.sqrt(after)[:, :, None] * now <= allowed, axis=(1, 2))
        if met.any():
            return float(2 * (int(np.argmax(met)) + 1))
        ratio = float(np.max(np.sqrt(after[-1])[:, None] * now / allowed))
        return float(min(2 * ((n / 2 + steps) * ratio**2 - n / 2), left))


class CoalitionProcess(_Process):
    """Coalitions one by one, and a Gaussian process on v itself (full kernel)."""

    def __init__(self, design: CoalitionDesign, options: Options, context: Context) -> None:
        super().__init__(design, options, context)
        self._kernel: Kernel | None = None
        self._last: tuple[int, SurrogateGP] | None = None

    def _rows(self, h: History) -> tuple[Floats, Floats]:
        """Masks ``(n, d)`` and outputs ``(n, k)``; the first two are the empty and the full one."""
        first, y, _, _ = self.regression.units(h)
        ends = np.vstack([np.zeros(self.d), np.ones(self.d)])
        return np.vstack([ends, first]), np.vstack([np.asarray(h.base), np.asarray(h.full), y])

    def gp(self, h: History) -> SurrogateGP:
        """Return the process of the first coalitions."""
        n = self.fitted_rows(h)
        if self._last is None or self._last[0] != n:
            m, y = self._rows(h)
            m, y = (m, y) if self.options.noisy else (m[: n + 2], y[: n + 2])
            found = SurrogateGP.fit(
                *(m, m, y, AllCoalitions(self.d)),
                noisy=self.options.noisy,
                start=self._kernel if self.sequential else None,
                looks=self.sequential,
                expected=self.expected,
                ease=self.ease,
            )
            self._last, self._kernel = (n, found), found.kernel
        return self._last[1]

    def process_belief(self, h: History) -> tuple[Belief, bool]:
        """Belief on the plane Σφ = f(x) − base; never exact."""
        g, d = self.gp(h), self.d
        full, base = np.asarray(h.full), np.asarray(h.base)
        mean = g.mean + (full - base - g.mean.sum(axis=0)) / d  # rounding, or noise of the ends
        if self.options.noisy:
            return nonzero_width(Belief(mean, g.scale, g.dof), full), False
        centre = np.eye(d) - 1 / d
        held = np.einsum("ij,jlk,lm->imk", centre, g.scale, centre)
        i = np.arange(d)
        held[i, i] = np.maximum(held[i, i], 1e-3 * g.scale[i, i])
        return Belief(mean, held, g.dof), False

    def residuals(self, h: History) -> Floats | None:
        """Outputs of later coalitions less the process's mean."""
        g = self.gp(h)
        if g.state is None:
            return None
        m, y = (a[PROCESS_UNITS + 2 :] for a in self._rows(h))
        return np.asarray(y - (m @ self.expected)[:, None] - g.state.predict(m) - g.top)

    def predictive(self, h: History) -> Predictive | None:
        """Return the conditioned process."""
        return None if h.rows.n < 2 else self.gp(h).state

    def forecast(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Widths after the next coalitions follow from the process: no value is needed."""
        if self.design.is_complete(h):
            return self.regression.forecast(h, limits, level) if self.options.noisy else None
        if h.rows.n < 2:
            return None
        left = self.design.unasked(h)
        with self.context.lock:
            ahead = 0 if self.beyond(h) else int(min(LOOK_AHEAD, left))
            coming = self.design.fresh_stream(h).take(ahead).design
        return process_forecast(
            *(h, self.gp(h), self.belief(h)[0]),
            limits=limits,
            level=level,
            coming=coming,
            unasked=left,
        )
