"""BayesLIME: perturbations weighted by proximity, a linear surrogate with a ridge prior."""

from __future__ import annotations

import numpy as np

from credex.designs.design import Context, coalitions_of
from credex.designs.perturbations import PerturbationDesign
from credex.designs.samplers import Predictive
from credex.estimators.base import Estimate, Estimator, nonzero_width, selection_note
from credex.estimators.forecast import Forecast, linear_spread, met_forecast, solve_forecast
from credex.estimators.sparse import sparse_exact_surrogate, sparse_surrogate
from credex.estimators.unidentified import Unidentified
from credex.history import History
from credex.options import Options
from credex.posteriors import Belief, ExactPosterior, LinearPosterior
from credex.stopping import RelativeWidth, Width
from credex.typing import Design, Outputs, Weights

__all__ = ["SurrogateEstimator"]


class SurrogateEstimator(Estimator):
    """Posterior of the coefficients of a weighted linear surrogate, or their exact values."""

    def __init__(self, design: PerturbationDesign, options: Options, context: Context) -> None:
        super().__init__(design, options, context)
        self.design = design
        self.robust = options.robust and not options.paper
        self._last: tuple[History, LinearPosterior | ExactPosterior | None] | None = None

    @property
    def minimum(self) -> int:
        """Rows for d coefficients, an intercept and one to judge by."""
        d = self.design
        return int(min(d.d + 2 + d.end_queries + d.repeat_cost, d.everything))

    def is_complete(self, h: History) -> bool:
        """Whether every mask was asked."""
        d = self.design
        return d.by_masks and not self.options.noisy and h.rows.n == coalitions_of(d.d) - 1

    def all_masks(self, h: History) -> tuple[Design, Outputs, Weights]:
        """All masks with the full one first, their outputs and weights."""
        masks = np.concatenate([np.ones((1, self.d), dtype=np.bool_), h.rows.design()])
        y = np.concatenate([np.asarray(h.full)[None, :], h.rows.y()])
        return masks, y, np.asarray(self.design.kernel.weights(masks, self.design.origin))

    def posterior(self, h: History) -> LinearPosterior | ExactPosterior | None:
        """Posterior of the surrogate, or ``None`` if nothing was asked."""
        if self._last is None or self._last[0] is not h:
            self._last = (h, self._fit(h))
        return self._last[1]

    def _fit(self, h: History) -> LinearPosterior | ExactPosterior | None:
        if h.rows.n == 0 or h.full is None:
            return None
        if self.is_complete(h):
            return ExactPosterior.surrogate(*self.all_masks(h))
        return LinearPosterior.of_rows(
            h.rows,
            prior=self.prior,
            intercept="none" if self.options.paper else "flat",
            cluster=self.design.unit,
        )

    def predictive(self, h: History) -> Predictive | None:
        """Return the regression."""
        p = self.posterior(h)
        return None if isinstance(p, ExactPosterior) else p

    def fraction(self, h: History) -> float:
        """Share of all masks that was asked, for the finite population correction."""
        uniform = bool(getattr(self.options.sampler, "uniform", False))
        if not self.design.by_masks or self.options.noisy or not uniform:
            return 0.0
        return float(h.rows.n / (coalitions_of(self.d) - 1))

    def fit(self, h: History) -> Estimate | None:
        """Fit the history."""
        p, o = self.posterior(h), self.options
        if p is None or h.full is None:
            return None
        k = len(h.full)
        selected = np.ones((self.d, k), dtype=np.bool_)
        sparse = o.features is not None and o.features < self.d
        notes, never = selection_note(o.features, self.d), None
        intercept, error, r2 = np.asarray(p.intercept), p.error, np.asarray(p.r2)
        if isinstance(p, ExactPosterior):
            belief = p.belief
            if sparse:
                found = sparse_exact_surrogate(*self.all_masks(h), p, o)
                belief, intercept, error, r2, selected = found
        else:
            constant = self.unidentified(h)
            notes, never = notes + constant.notes, constant.never
            belief = self.belief_of(p, self.fraction(h))
            if sparse:
                share = self.fraction(h)
                found = sparse_surrogate(h, p, o, lambda q: self.belief_of(q, share), belief)
                belief, intercept, error, r2, selected = found
            elif constant.fixed.any():
                belief.scale[constant.fixed] = belief.scale[:, constant.fixed] = 0.0
        if o.noisy:
            belief = nonzero_width(belief, h.full)
        exact = isinstance(p, ExactPosterior)
        local = np.asarray(intercept + self.design.origin @ belief.mean)
        kind = "exact" if exact else "linear"
        return Estimate(belief, error, r2, exact, kind, intercept, local, selected, notes, never)

    def unidentified(self, h: History) -> Unidentified:
        """Features that are constant over all rows asked."""
        p = self.posterior(h)
        if not isinstance(p, LinearPosterior) or not p.unidentified.any():
            return Unidentified.none(self.d)
        return Unidentified.of(self.design.neighbourhood, p.unidentified, p.moments.z_mean > 0.5)

    def belief_of(self, p: LinearPosterior, fraction: float) -> Belief:
        """Return the robust Student-t, or the paper's."""
        if self.robust:
            return Belief(p.mean, p.robust_covariance(fraction=fraction), p.robust_dof)
        return Belief(p.mean, p.scale_matrix, p.dof)

    def forecast(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Return how many more queries these widths take; ``None`` before the first fit."""
        p = self.posterior(h)
        if p is None:
            return None
        if isinstance(p, ExactPosterior):
            return met_forecast(h, limits, level)
        most = self.design.everything - 1 if self.fraction(h) > 0 else np.inf
        spread = linear_spread(p, most, robust=self.robust)
        return solve_forecast(h, p.mean, spread, p.n, limits=limits, level=level, most=most)
