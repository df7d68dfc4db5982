"""BayesLIME: perturbations weighted by proximity, a linear surrogate with a ridge prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from credex.designs.design import coalitions_of
from credex.designs.perturbations import PerturbationDesign
from credex.designs.samplers import Predictive
from credex.domains import Neighbourhood
from credex.estimators.base import Estimate, Estimator, nonzero_width
from credex.estimators.forecast import Forecast, forecast_of, linear_spread, solve_forecast
from credex.estimators.sparse import Sparse, choose, sparse_fit
from credex.history import History
from credex.posteriors import Belief, ExactPosterior, LinearPosterior
from credex.posteriors.regression import InterceptKind
from credex.stopping import RelativeWidth, Width
from credex.typing import Design, Masks, Outputs, Weights

__all__ = ["SurrogateEstimator", "Unidentified"]


@dataclass(frozen=True, slots=True, eq=False)
class Unidentified:
    """Features ``(d,)`` that had one value in everything that was asked."""

    fixed: Masks
    """The training data hold no other value: their importance is exactly zero."""
    never: Masks
    """The training data do not hold the instance's value: no number of queries measures them."""
    rare: Masks
    """One of the two values has not come up yet."""
    notes: tuple[str, ...]
    """For the reader, on the last two."""

    def without(self, belief: Belief) -> Belief:
        """Return the belief with nothing known of the features that were not measured."""
        scale, i = belief.scale.copy(), np.flatnonzero(self.never | self.rare)
        scale[i] = scale[:, i] = 0.0
        scale[i, i] = np.inf
        return replace(belief, scale=scale)

    @classmethod
    def of(cls, nb: Neighbourhood, constant: Masks, on: Masks) -> Unidentified:
        """Sort the ``constant`` features; those that are ``on`` had the instance's value."""
        probability = np.full(len(constant), 0.5)  # of the instance's value; masks can change
        chance = getattr(nb, "chance", None)
        if chance is not None:
            for j in np.flatnonzero(constant):
                probability[j] = chance(int(j))
        fixed = constant & on & (probability >= 1)
        never = constant & ~on & (probability <= 0)
        rare = constant & ~fixed & ~never
        notes = []
        for which, features in (("no perturbation", ~on), ("all perturbations", on)):
            names = [nb.names[j] for j in np.flatnonzero((never | rare) & features)]
            if names:
                whose = ", ".join(names)
                notes.append(f"{which} had the instance's value of {whose}: not measured")
        return cls(fixed, never, rare, tuple(notes))


class SurrogateEstimator(Estimator):
    """Posterior of the coefficients of a weighted linear surrogate, or their exact values."""

    design: PerturbationDesign
    _last: tuple[History, LinearPosterior | ExactPosterior | None] | None = None

    @property
    def robust(self) -> bool:
        """Whether intervals allow for misfit; the paper's do not."""
        return self.options.robust and not self.options.literal

    @property
    def intercept(self) -> InterceptKind:
        """Prior of the intercept: flat, none in the paper's text, a unit prior in its code."""
        if self.options.published is not None:
            return "unit"
        return "none" if self.options.paper else "flat"

    @property
    def minimum(self) -> int:
        """Rows for d coefficients, an intercept and one to judge by."""
        d = self.design
        return int(min(d.d + 2 + d.end_queries + d.repeat_cost, d.everything))

    def fit(self, h: History) -> Estimate | None:
        """Fit the history."""
        p, o = self.posterior(h), self.options
        if p is None or h.full is None:
            return None
        intercept, error, r2 = np.asarray(p.intercept), p.error, np.asarray(p.r2)
        belief, selected = self._belief(p, h), cast("Masks | None", None)
        constant = None if o.literal else self.unidentified(h)
        notes = constant.notes if constant else ()
        if not self.all_active:
            selected = np.ones((self.d, belief.k), dtype=np.bool_)
        if o.features is not None and o.features < self.d:
            if o.literal and isinstance(p, LinearPosterior):
                sparse = sparse_fit(p, o.features, o.selection)
            else:
                sparse = self._sparse(h, p, belief, o.features)
            belief, r2, selected = sparse.belief, sparse.r2, sparse.selected
            intercept, error = sparse.intercept, replace(error, scale=sparse.error_scale)
            notes = (sparse.note, *notes)
        elif constant:
            belief.scale[constant.fixed] = belief.scale[:, constant.fixed] = 0.0
        if o.noisy:
            belief = nonzero_width(belief, h.full)
        if constant and selected is None:
            belief = constant.without(belief)
        return self.estimate(
            *(belief, error, r2, intercept),
            "exact" if isinstance(p, ExactPosterior) else "linear",
            selected=selected,
            notes=notes,
            unidentified=constant.never if constant else None,
        )

    def predictive(self, h: History) -> Predictive | None:
        """Return the regression."""
        p = self.posterior(h)
        return None if isinstance(p, ExactPosterior) else p

    def forecast(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Return how many more queries these widths take; ``None`` before the first fit."""
        p = self.posterior(h)
        if p is None:
            return None
        if isinstance(p, ExactPosterior):
            return forecast_of(h, limits, level)
        rows = self.design.everything - 1 if self._fraction(h) > 0 else np.inf
        spread = linear_spread(p, rows, robust=self.robust)
        return solve_forecast(h, p.mean, spread, p.n, limits=limits, level=level, max_units=rows)

    def posterior(self, h: History) -> LinearPosterior | ExactPosterior | None:
        """Posterior of the surrogate, or ``None`` if nothing was asked."""
        if self._last is None or self._last[0] is not h:
            self._last = (h, self._fit(h))
        return self._last[1]

    def _fit(self, h: History) -> LinearPosterior | ExactPosterior | None:
        if h.rows.n == 0 or h.full is None:
            return None
        if self.is_complete(h):
            return ExactPosterior.surrogate(*self._all_masks(h))
        unit = self.design.unit
        return LinearPosterior(h.rows, self.prior, self.intercept, squeeze=False, cluster=unit)

    def is_complete(self, h: History) -> bool:
        """Whether every mask was asked."""
        return h.rows.n == self.design.everything - 1

    def _all_masks(self, h: History) -> tuple[Design, Outputs, Weights]:
        """All masks with the full one first, their outputs and weights."""
        masks = np.concatenate([np.ones((1, self.d), dtype=np.bool_), h.rows.design()])
        y = np.concatenate([np.asarray(h.full)[None, :], h.rows.y()])
        return masks, y, np.asarray(self.design.kernel.weights(masks, self.design.origin))

    def unidentified(self, h: History) -> Unidentified | None:
        """Features that are constant over all rows asked; ``None`` if there are none."""
        p = self.posterior(h)
        if not isinstance(p, LinearPosterior) or not p.unidentified.any():
            return None
        return Unidentified.of(self.design.neighbourhood, p.unidentified, p.moments.z_mean > 0.5)

    def _fraction(self, h: History) -> float:
        """Fraction of all masks that was asked, for the finite-population correction."""
        uniform = bool(getattr(self.options.sampler, "uniform", False))
        if not uniform or not np.isfinite(self.design.everything):
            return 0.0
        return float(h.rows.n / (coalitions_of(self.d) - 1))

    def _belief(self, p: LinearPosterior | ExactPosterior, h: History) -> Belief:
        """Return the robust Student-t, the paper's, or exact values."""
        if isinstance(p, ExactPosterior):
            return p.belief
        if self.robust:
            return Belief(p.mean, p.robust_covariance(fraction=self._fraction(h)), p.robust_dof)
        return Belief(p.mean, p.scale_matrix, p.dof)

    def _sparse(
        self, h: History, p: LinearPosterior | ExactPosterior, belief: Belief, keep: int
    ) -> Sparse:
        """Choose ``keep`` features output by output, and fit again on those."""
        if isinstance(p, ExactPosterior):
            rows, y, w = self._all_masks(h)
            m, ridge = LinearPosterior.fit(rows, y, w).moments, 0.0
        else:
            rows, y, w = h.rows.design(), h.rows.y(), h.rows.w()
            m, ridge = p.moments, float(np.mean(p.prior.precisions(p.d)))
        out, o = Sparse(self.d, belief.k, keep), self.options
        for j in range(belief.k):
            moment, mean = m.zy[:, j] * m.output_scale[j], belief.mean[:, j]
            columns = choose(m.zz, moment, mean, keep=keep, method=o.selection, ridge=ridge)
            z, target = rows[:, columns], y[:, j : j + 1]
            small: LinearPosterior | ExactPosterior
            if isinstance(p, ExactPosterior):
                small = ExactPosterior.surrogate(z, target, w)
            else:
                small = LinearPosterior.fit(
                    z,
                    target,
                    w,
                    prior=p.prior.only(columns),
                    intercept=p.intercept_kind,
                    cluster=p.cluster,
                )
            wider = belief.selection_factor(j, keep, o.level)
            out.put(j, columns, small, self._belief(small, h), wider)
        return out
