"""BayesSHAP: draws from the Shapley distribution, and a regression that adds up to f(x) − base.

Coalitions drawn from the Shapley distribution carry stratum weights, never the Shapley kernel a
second time. ``recipe="paper"`` is the one exception: fair coins weighted by the kernel, as the
paper prints it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from credex.designs.coalitions import CoalitionDesign
from credex.designs.design import Context
from credex.designs.samplers import Predictive
from credex.estimators.background import with_background
from credex.estimators.base import (
    Estimate,
    Estimator,
    nonzero_width,
    selection_note,
    spread_over,
)
from credex.estimators.forecast import (
    Forecast,
    linear_spread,
    met_forecast,
    shapley_spread,
    solve_forecast,
)
from credex.estimators.noise import end_variance, with_noise
from credex.estimators.sparse import sparse_shapley
from credex.history import History
from credex.kernels import shapley_kernel
from credex.options import Options
from credex.posteriors import Belief, ExactPosterior, LinearPosterior, ShapleyPosterior
from credex.posteriors.shapley import Geometry, Noise, strata
from credex.stopping import RelativeWidth, Width
from credex.typing import Floats, Masks, Outputs

__all__ = ["ShapleyEstimator"]

Posterior = ShapleyPosterior | ExactPosterior | LinearPosterior

UNCHECKED = "no row was asked twice: the budget was just enough for every coalition"
"""Note on an exact answer of a model that may, for all we know, be random."""

KEEP_MASKS = 1_000_000
"""Factorisations of larger sets of masks (coalitions × features) are not kept."""


class ShapleyEstimator(Estimator):
    """Posterior of the Shapley values from coalitions: exact, a regression, or the paper's."""

    def __init__(self, design: CoalitionDesign, options: Options, context: Context) -> None:
        super().__init__(design, options, context)
        self.design = design
        self._last: tuple[History, Posterior | None] | None = None

    @property
    def minimum(self) -> int:
        """One unit more than parameters and one to judge by, or all coalitions."""
        d = self.design
        return int(min(2 + d.repeat_cost + d.unit * (d.d + 1), d.everything))

    def fit(self, h: History) -> Estimate | None:
        """Fit the history."""
        p = self.posterior(h)
        if p is None or h.full is None or h.base is None:
            return None
        o, d = self.options, self.design
        exact = isinstance(p, ExactPosterior) and not o.noisy
        belief = Belief(np.asarray(p.mean), np.asarray(p.scale_matrix), p.dof)
        error, r2 = p.error, np.asarray(p.r2)
        selected = np.ones((len(d.active), len(h.full)), dtype=np.bool_)
        if o.features is not None and o.features < d.d:
            belief, error, r2, selected = sparse_shapley(self, h, p)
        if o.background_uncertainty:
            belief = with_background(self, h, belief)
        if o.noisy:
            belief = nonzero_width(belief, h.full)
        intercept = np.zeros(len(h.full)) if isinstance(p, LinearPosterior) else h.base
        unchecked = (UNCHECKED,) if exact and not h.checked and d.d > 0 else ()
        return Estimate(
            spread_over(belief, d.active),
            error,
            r2,
            exact,
            "exact" if exact else "linear",
            intercept,
            intercept + belief.mean.sum(axis=0),
            selected,
            selection_note(o.features, d.d, shares=True) + unchecked,
        )

    def predictive(self, h: History) -> Predictive | None:
        """Return the regression."""
        p = self.posterior(h)
        return None if isinstance(p, ExactPosterior) else p

    def posterior(self, h: History) -> Posterior | None:
        """Posterior over the active features, or ``None`` if too little was asked."""
        if self._last is None or self._last[0] is not h:
            self._last = (h, self._fit(h))
        return self._last[1]

    def _fit(self, h: History) -> Posterior | None:
        d, o = self.design.d, self.options
        if h.full is None or h.base is None:
            return None
        if o.paper and d > 1:
            return self._fit_paper(h)
        if d <= 1 or (self.design.is_complete(h) and not o.noisy):
            return self._fit_exact(h, h.base, h.full)
        if h.rows.n // self.design.unit < d + 1:
            return None
        masks, y, complement, noise = self.units(h)
        return ShapleyPosterior(self.geometry(masks), y, complement, h.base, h.full - h.base, noise)

    def units(self, h: History) -> tuple[Masks, Outputs, Outputs | None, Noise | None]:
        """Masks (of each pair the first), their values, their complements' values, the noise."""
        masks, y, complement = self.design.units(h)
        if h.end_values is None:
            return masks, y, complement, None
        return with_noise(masks, y, complement, h.end_values)

    def _fit_exact(self, h: History, base: Floats, full: Floats) -> ExactPosterior:
        k, d = len(full), self.design.d
        if d == 0:
            z = np.zeros
            return ExactPosterior(z((0, k)), z(k), z(k), z((0, 0, k)), base)
        masks, y = np.array([[False] * d, [True] * d]), np.stack([base, full])
        if h.rows.n:
            masks = np.concatenate([masks, h.rows.design()])
            y = np.concatenate([y, h.rows.y()])
        exact = ExactPosterior.shapley(masks, y)
        if h.end_values is not None:  # one noisy feature: φ = f(x) − base
            n = h.end_repeats
            scale = 2 * end_variance(h.end_values)[None, None, :] / n
            exact = replace(exact, scale_matrix=scale, dof=float(max(2 * n - 2, 1)))
        return exact

    def _fit_paper(self, h: History) -> LinearPosterior | None:
        if h.rows.n == 0:
            return None
        masks = h.rows.design()
        weights = shapley_kernel(masks.sum(axis=1), self.design.d)
        return LinearPosterior.fit(masks, h.rows.y(), weights, prior=self.prior, intercept="none")

    def geometry(self, masks: Masks, columns: Masks | None = None) -> Geometry:
        """Weigh and factor ``masks``, once for all rows of a batch that share them."""
        d = self.design
        prior = self.prior if d.d == len(d.active) else self.prior.only(d.active)
        prior = prior if columns is None else prior.only(columns)

        def make() -> Geometry:
            return Geometry.of(
                masks, paired=d.paired, uniform=d.uniform, prior=prior, columns=columns
            )

        if columns is not None or masks.size > KEEP_MASKS:
            return make()
        packed = np.packbits(masks).tobytes()
        return self.context.once(
            ("geometry", masks.shape, packed, prior, d.paired, d.uniform), make
        )

    def forecast(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Return how many more queries these widths take; ``None`` before the first fit."""
        p, d = self.posterior(h), self.design
        if p is None:
            return None
        if isinstance(p, LinearPosterior):
            spread = linear_spread(p, np.inf, robust=False)
            return solve_forecast(h, p.mean, spread, p.n, limits=limits, level=level)
        if isinstance(p, ExactPosterior):
            return met_forecast(h, limits, level)
        noisy = p.noise is not None
        units = len(p.y) if p.noise is None else int(p.noise.repeats.sum())
        most = np.inf if noisy else float(strata(d.d, paired=d.paired).count.sum())
        spread = shapley_spread(p)
        return solve_forecast(
            h, p.mean, spread, units, limits=limits, level=level, per_unit=d.unit, most=most
        )
