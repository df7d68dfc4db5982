"""BayesSHAP with a Gaussian process over masks: far fewer queries for the same error.

The process is fitted on the first `PROCESS_UNITS` units. Later units are drawn at random, and what
the process leaves there corrects its importances (`credex.estimators.residuals`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from credex.auto import Prospect, switch_reason, worth_fitting
from credex.designs.coalitions import PROCESS_UNITS, CoalitionDesign
from credex.designs.samplers import Focused, Predictive, plan
from credex.errors import InputError
from credex.estimators.base import Estimate, nonzero_width
from credex.estimators.forecast import Forecast, forecast_of
from credex.estimators.process import LOOK_AHEAD, ProcessEstimator, need_of, rows_to_go, width_ratio
from credex.estimators.residuals import Units, corrected, enough
from credex.estimators.shapley import NO_REMAINDER, UNCHECKED, ShapleyEstimator, end_variance
from credex.history import History
from credex.posteriors import Belief, ShapleyPosterior
from credex.posteriors.functionals import Functional
from credex.posteriors.mask_functionals import ShapleyFromCoalitions, ShapleyFromPairs
from credex.posteriors.process import MIN_DOF, Conditioned, Observations, fit_kernel
from credex.posteriors.shapley import PSEUDO_OBSERVATIONS, strata
from credex.stopping import RelativeWidth, Width
from credex.typing import Floats, Masks

__all__ = ["CoalitionProcess", "PairProcess", "Switch"]

QUICK_STEPS = 15
"""Steps of the hyper-parameter search between batches; the last fit takes as many as it needs."""

NOTHING_LEFT = 1e-3
"""A process whose left-out errors are below this share of the regression's residuals (root mean
squares) fits without a remainder: a function of the coalition's size, for example, up to the jitter
of the kernel matrix."""

CONTROL_VARIATE = (
    "Gaussian process on the first {n:,} queries, then a regression on what it leaves (a control "
    "variate)"
)
"""Note on an estimate from more than `PROCESS_UNITS` units."""


class CoalitionProcess(ProcessEstimator):
    """Coalitions one by one, and a Gaussian process on v itself (full kernel)."""

    design: CoalitionDesign
    n_ends = 2
    """Rows of `points` for the empty and the full coalition; they come first."""

    def __init__(self, design: CoalitionDesign) -> None:
        super().__init__(design)
        if self.options.features is not None or self.options.background_uncertainty:
            raise InputError("features= and background_uncertainty= need posterior='linear'")
        self.regression = ShapleyEstimator(design)
        self.max_rows = np.inf if self.options.noisy else PROCESS_UNITS * design.unit
        self._corrected: tuple[tuple[int, bool], Belief] | None = None

    @property
    def minimum(self) -> int:
        """A few coalitions are enough to say something, with wide intervals."""
        d = self.design
        return int(min(d.end_queries + d.repeat_cost + 2 * d.query_cost, d.everything))

    @property
    def functional(self) -> Functional:
        """The importances as a functional of the process."""
        return ShapleyFromCoalitions(self.d)

    def points(self, h: History) -> tuple[Masks, Floats]:
        """Masks ``(n, d)`` and outputs ``(n, k)`` that the process could be fitted on."""
        ends = np.array([[False] * self.d, [True] * self.d])
        if h.full is None or h.base is None:  # choosing the first coalitions needs no values
            return ends, np.zeros((2, 1))
        values = np.stack([h.base, h.full])
        if h.rows.n == 0:
            return ends, values
        masks, y, _, _ = self.regression.units(h)
        return np.vstack([ends, masks]), np.vstack([values, y])

    def observations(self, h: History) -> Observations:
        """Return the first units."""
        masks, y = self.points(h)
        n = None if self.options.noisy else PROCESS_UNITS + self.n_ends
        return self.observed(self.functional, masks[:n], y[:n])

    def process_belief(self, h: History) -> Belief:
        """Belief of the process alone, on the plane Σφ = f(x) − base."""
        g, d = self.gp(h), self.d
        full, base = np.asarray(h.full), np.asarray(h.base)
        mean = g.mean + (full - base - g.mean.sum(axis=0)) / d  # rounding, or noise of the ends
        if self.options.noisy:
            return Belief(mean, g.scale, g.dof)
        centre = np.eye(d) - 1 / d
        scale = np.einsum("ij,jlk,lm->imk", centre, g.scale, centre)
        i = np.arange(d)
        scale[i, i] = np.maximum(scale[i, i], 1e-3 * g.scale[i, i])
        return Belief(mean, scale, g.dof)

    def is_corrected(self, h: History) -> bool:
        """Whether later units correct the process."""
        later = len(self.points(h)[0]) - self.n_ends - PROCESS_UNITS
        return self.gp(h).state is not None and h.rows.n > self.max_rows and enough(later, self.d)

    def known(self, h: History) -> Belief:
        """Belief about the importances by what was asked, corrected by later units."""
        belief, state = self.process_belief(h), self.gp(h).state
        if state is not None and self.is_corrected(h):
            key = h.rows.n, self.may_stop
            if self._corrected is None or self._corrected[0] != key:
                masks, y = self.points(h)
                masks, y = masks[self.n_ends :], y[self.n_ends :]
                residual = np.zeros_like(y)
                residual[PROCESS_UNITS:] = y[PROCESS_UNITS:] - state.predict(masks[PROCESS_UNITS:])
                units = Units(masks, y, residual, PROCESS_UNITS, self.design.paired)
                found = corrected(belief, state, units, looks=self.may_stop)
                i = range(self.d)
                found.scale[i, i] = np.maximum(found.scale[i, i], state.data.rounding)
                self._corrected = key, found
            belief = self._corrected[1]
        return nonzero_width(belief, np.asarray(h.full)) if self.options.noisy else belief

    def belief(self, h: History) -> Belief:
        """Belief about the importances, with what no unit asked could show."""
        p = self.regression.posterior(h)
        if self.options.noisy or not isinstance(p, ShapleyPosterior):
            return self.known(h)
        if self.gp(h).state is None and h.rows.n > self.max_rows and not p.unseen.any():
            return p.belief  # additive as far as the process goes, but not beyond
        return self.with_unseen(self.known(h), p, h)

    def fit(self, h: History) -> Estimate | None:
        """Fit the history."""
        if h.full is None or h.base is None:
            return None
        if self.design.is_complete(h) and (whole := self.regression.fit(h)) is not None:
            return whole
        if h.rows.n < 2:
            return None
        belief, notes = self.belief(h), tuple[str, ...]()
        if self.is_corrected(h):
            notes += (CONTROL_VARIATE.format(n=self.max_rows),)
        if self.design.repeat_cost and not h.checked:
            notes += (UNCHECKED,)
        p = self.regression.posterior(h)
        if isinstance(p, ShapleyPosterior) and not self.options.noisy and p.unseen.any():
            notes += (NO_REMAINDER,)
        masks, y, complement, _ = self.regression.units(h)
        layers = strata(self.d, paired=self.design.paired)
        w = layers.weigh(layers.index(masks))[0]
        if complement is not None:
            y, w, masks = np.vstack([y, complement]), np.tile(w, 2), np.vstack([masks, ~masks])
        error, r2 = self.misfit(y, h.base + masks @ belief.mean, w)
        out = self.estimate(belief, error, r2, h.base, "gp", notes=notes)
        return replace(out, settled=p is not None)  # rows that fit any function settle nothing

    def with_unseen(self, belief: Belief, p: ShapleyPosterior, h: History) -> Belief:
        """Allow for what no unit asked could show.

        What the process knows beyond the regression ``p`` rests on few units if few of its errors
        are large: of m units that are worth m', half a one more than of m equal ones may yet be
        unlike the others. If the process leaves next to nothing of what the regression leaves, half
        a unit may be unlike all that were asked.
        """
        scale, g, i = belief.scale + p.geometry.v[:, :, None] * p.unseen, self.gp(h), range(self.d)
        if g.state is not None and g.few_rows is not None:
            variance = np.minimum(p.scale_matrix[i, i], g.state.prior_variance)
            misfit = np.square(p.residual).mean(axis=0)
            nothing_left = (misfit > 0) & (g.remainder <= NOTHING_LEFT**2 * misfit)
            share = np.maximum(g.few_rows, nothing_left / len(p.y))
            scale[i, i] += PSEUDO_OBSERVATIONS * share * variance
            if nothing_left.any():  # a guess at the size of what may be missed
                belief = replace(belief, dof=min(belief.dof, MIN_DOF))
        return replace(belief, scale=scale)

    def predictive(self, h: History) -> Predictive | None:
        """Return the conditioned process, after a quick fit if values came in since."""
        if h.rows.n >= self.max_rows:
            return None
        if self._last is not None and self._last[0][0] == h.rows.n and self._last[1].state:
            return self._last[1].state
        data = self.observations(h)
        kernel = fit_kernel(data, start=self.kernel, max_iter=QUICK_STEPS)
        self.kernel = kernel if len(data.Y) > self.n_ends else None
        return Conditioned(kernel, data)

    def forecast(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Return how many more queries these widths take: needs no further values."""
        if self.design.is_complete(h):  # of a noisy model, repeats still reduce the noise
            return self.regression.forecast(h, limits, level) if self.options.noisy else None
        return None if h.rows.n < 2 else self.look_ahead(h, limits, level)

    def look_ahead(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast:
        """See how far the next units shrink the widths; focused ones are planned."""
        state, left = self.gp(h).state, self.design.unasked(h)
        ratio, shares = width_ratio(self.belief(h), limits, level), np.empty((0, self.d))
        if np.any(ratio > 1) and left >= self.design.unit:
            if state is not None and h.rows.n < self.max_rows:
                shares = self._shares_left(h, state, left)
            shares = self._shares_with_unseen(h, shares)
        more = rows_to_go(ratio, shares, h.rows.n, unit=self.design.unit)
        return forecast_of(h, limits, level, need_of(np.ceil(more), h.rows.n, left))

    def _shares_left(self, h: History, state: Conditioned, left: float) -> Floats:
        """Shares ``(m, d)`` of the variances that the next units leave, random or focused."""
        ahead, unit = LOOK_AHEAD, self.design.unit
        if self.sequential:  # a run goes no further than three times what it has before it looks
            ahead = min(ahead, max(h.rows.n // unit, 8))
        of = ahead if self.design.uniform else 2 * ahead  # of focused ones half are passed over
        with self.context.lock:
            units = self.design.fresh_stream(h).take(int(min(unit * of, left))).design[::unit]
        if self.design.uniform:
            return state.shares_left(units)
        _, reductions = plan(state, units, ahead)
        now = np.maximum(np.diag(state.covariance), 1e-300)
        return np.maximum(1 - np.cumsum(reductions, axis=0) / now, 1e-12)

    def _shares_with_unseen(self, h: History, shares: Floats) -> Floats:
        """Shares ``(m, d, k)`` of all variances, given those ``(m, d)`` of the process.

        What no unit could show is half a unit's share, 1/m, of the variance of the regression,
        which falls with its spare units.
        """
        p = self.regression.posterior(h)
        if self.options.noisy or not isinstance(p, ShapleyPosterior):
            return shares[:, :, None]
        known, total = self.known(h).deviation ** 2, self.belief(h).deviation ** 2
        own = np.divide(known, total, out=np.ones_like(total), where=total > 0)  # (d, k)
        m, spare = len(p.y), max(len(p.y) - p.geometry.n_parameters, 1.0)
        more = np.arange(1, (len(shares) if self.gp(h).state else 10 * LOOK_AHEAD) + 1)
        unseen = (spare / (spare + more) * m / (m + more))[:, None, None]
        return (1 - own) * unseen + (own * shares[:, :, None] if len(shares) else own)


class PairProcess(CoalitionProcess):
    """Coalitions in pairs, and a Gaussian process on their half differences."""

    n_ends = 1

    @property
    def functional(self) -> Functional:
        """The importances as a functional of half differences."""
        return ShapleyFromPairs(self.d)

    def points(self, h: History) -> tuple[Masks, Floats]:
        """Masks ``(n, d)`` and half differences ``(n, k)``; row 0: the full and the empty mask."""
        masks = np.ones((1, self.d), dtype=np.bool_)
        if h.full is None or h.base is None:  # choosing the first pairs needs no values
            return masks, np.zeros((1, 1))
        half = (h.full - h.base)[None, :] / 2
        if h.rows.n >= 2:
            first, y, complement, _ = self.regression.units(h)
            masks = np.vstack([masks, first])
            half = np.vstack([half, (y - np.asarray(complement)) / 2])
        return masks, half

    def noise(self, h: History) -> Floats | None:
        """Variance of a half difference, from repeats of the ends, ``(k,)``."""
        if h.end_values is None or len(h.end_values) < 2:
            return None
        return end_variance(h.end_values) / 2

    def process_belief(self, h: History) -> Belief:
        """Belief of the process alone."""
        return self.gp(h).belief


class Switch:
    """``posterior="auto"`` on the way to a width: when the process replaces the regression.

    Decided from forecasts and the cost of a query. Both read the same pairs, so nothing is asked
    twice. No clock is read: `credex.auto` decides by the cost that was given.
    """

    def __init__(self, design: CoalitionDesign, history: History, query_seconds: float) -> None:
        options = replace(design.options, sampler=Focused(), posterior="gp")
        self.design = CoalitionDesign(design.neighbourhood, options, design.context, history)
        self.process = PairProcess(self.design)
        self.process.sequential = True
        self.query_seconds = query_seconds

    def reason(
        self, h: History, ceiling: int, limits: Width | RelativeWidth, forecast: Forecast
    ) -> str | None:
        """Why the process replaces the regression of this forecast; ``None``: not yet."""
        left = ceiling - h.n_queries
        now = Prospect(h.n_queries, left, forecast.queries, forecast.low, self.query_seconds)
        if not worth_fitting(now):
            return None
        own = self.process.forecast(h, limits, forecast.level)
        return None if own is None else switch_reason(now, own.queries)
