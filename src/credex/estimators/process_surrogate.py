"""BayesLIME with a Gaussian process: the same coefficients from fewer queries."""

from __future__ import annotations

import numpy as np

from credex.designs.perturbations import Exponential, PerturbationDesign
from credex.errors import InputError
from credex.estimators.base import Estimate, nonzero_width
from credex.estimators.forecast import Forecast
from credex.estimators.process import ProcessEstimator
from credex.estimators.surrogate import SurrogateEstimator
from credex.history import History
from credex.posteriors.functionals import SurrogateOverPool
from credex.posteriors.mask_functionals import SurrogateOverMasks
from credex.posteriors.process import Observations
from credex.seeds import Purpose, child
from credex.stopping import RelativeWidth, Width

__all__ = ["SurrogateProcess"]

POOL = 10_000
"""Perturbations of a table that are drawn but never asked: what the coefficients project over."""


class SurrogateProcess(ProcessEstimator):
    """A process over masks, or over the perturbed rows of a table, projected on LIME's design."""

    design: PerturbationDesign

    def __init__(self, design: PerturbationDesign) -> None:
        super().__init__(design)
        o = self.options
        if o.sampler_name != "random":
            raise InputError("posterior='gp' of BayesLIME goes with sampler='random'")
        if o.features is not None or o.paper or not o.robust:
            msg = "features=, recipe='paper' and robust=False need posterior='linear'"
            raise InputError(msg)
        if design.by_masks and not isinstance(design.kernel, Exponential):
            raise InputError("posterior='gp' on masks needs an Exponential kernel")
        self.regression = SurrogateEstimator(design)

    @property
    def minimum(self) -> int:
        """The regression's."""
        return self.regression.minimum

    def _functional(self) -> SurrogateOverMasks | SurrogateOverPool:
        """What the coefficients project over: all masks, or a pool of unasked perturbations."""
        d, design = self.d, self.design
        if design.by_masks:
            steps = np.arange(d + 1)[:, None] > np.arange(d)  # s present, s = 0 … d
            return SurrogateOverMasks(np.asarray(design.kernel.weights(steps, design.origin)))
        seed = child(int(self.options.seed), Purpose.PROJECTION_POOL)
        pool = design.perturb(seed, 0, POOL)
        z = pool.design.astype(np.float64)
        return SurrogateOverPool(pool.coordinates(), z, design.row_weights(z))

    def observations(self, h: History) -> Observations:
        """Return all that was asked; on masks f(x) is a value like any other."""
        z, y = h.rows.design().astype(np.float64), h.rows.y()
        if self.design.by_masks:
            if h.full is not None:
                z, y = np.vstack([np.ones((1, self.d)), z]), np.vstack([h.full[None, :], y])
            return self.observed(self._functional(), z, y)
        if h.cursor != h.rows.n:
            msg = "posterior='gp' on a table needs all perturbations of one seed, in order"
            raise InputError(msg)
        drawn = self.design.perturb(int(self.options.seed), 0, h.rows.n)
        return self.observed(self._functional(), z, y, drawn.coordinates())

    def fit(self, h: History) -> Estimate | None:
        """Fit the history."""
        if h.full is None:
            return None
        if self.regression.is_complete(h):
            return self.regression.fit(h)
        if h.rows.n < self.d + 2:
            return None
        g, constant = self.gp(h), self.regression.unidentified(h)
        belief, y = g.belief, h.rows.y()
        if self.options.noisy:
            belief = nonzero_width(belief, h.full)
        if constant:
            belief = constant.without(belief)
        fitted = g.intercept + h.rows.design() @ g.mean
        error, r2 = self.misfit(y, fitted, h.rows.w())
        return self.estimate(
            *(belief, error, r2, g.intercept),
            "gp",
            notes=constant.notes if constant else (),
            unidentified=constant.never if constant else None,
        )

    def forecast(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """On masks looked ahead; on tables as if widths fell with the root of the rows."""
        if h.rows.n < self.d + 2 or self.regression.is_complete(h):
            return self.regression.forecast(h, limits, level)
        look_ahead = self.design.by_masks
        return self.forecast_singles(h, self.gp(h).belief, limits, level, look_ahead=look_ahead)
