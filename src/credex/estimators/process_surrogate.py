"""BayesLIME with a Gaussian process: the same coefficients from fewer queries."""

from __future__ import annotations

import numpy as np

from credex.designs.design import Context
from credex.designs.perturbations import PerturbationDesign
from credex.errors import InputError
from credex.estimators.base import Estimate, Estimator, nonzero_width, r_squared
from credex.estimators.forecast import Forecast, forecast_of
from credex.estimators.surrogate import SurrogateEstimator
from credex.estimators.unidentified import Unidentified
from credex.history import History
from credex.kernels import Exponential
from credex.options import Options
from credex.posteriors import Belief, ErrorPosterior
from credex.posteriors.functionals import AllMasks, Pool
from credex.posteriors.student import quantile
from credex.posteriors.surrogate_gp import SurrogateGP
from credex.posteriors.surrogate_kernel import Kernel
from credex.seeds import Purpose, child
from credex.stopping import RelativeWidth, Width
from credex.typing import Floats, Masks

__all__ = ["SurrogateProcess", "process_forecast"]

POOL = 10_000
"""Perturbations of a table that are drawn but never asked: what the coefficients project over."""

LOOK_AHEAD = 400
"""Masks a forecast looks ahead before it extrapolates."""


class SurrogateProcess(Estimator):
    """A process over masks, or over the perturbed rows of a table, projected on LIME's design."""

    def __init__(self, design: PerturbationDesign, options: Options, context: Context) -> None:
        super().__init__(design, options, context)
        if options.sampler_name != "random":
            msg = "posterior='gp' of BayesLIME goes with sampler='random'"
            raise InputError(msg)
        if options.features is not None or options.paper or not options.robust:
            msg = "features=, recipe='paper' and robust=False need posterior='linear'"
            raise InputError(msg)
        if design.by_masks and not isinstance(design.kernel, Exponential):
            msg = "posterior='gp' on masks needs an Exponential kernel"
            raise InputError(msg)
        self.design = design
        self.regression = SurrogateEstimator(design, options, context)
        self.expected, self.ease = self.prior.means(self.d), self.prior.eases(self.d)
        self._kernel: Kernel | None = None
        self._last: tuple[int, SurrogateGP] | None = None

    @property
    def minimum(self) -> int:
        """The regression's."""
        return self.regression.minimum

    def _functional(self) -> AllMasks | Pool:
        """What the coefficients project over: all masks, or a pool of unasked perturbations."""
        d, design = self.d, self.design
        if design.by_masks:
            steps = np.arange(d + 1)[:, None] > np.arange(d)  # s present, s = 0 … d
            return AllMasks(np.asarray(design.kernel.weights(steps, design.origin)))
        seed = child(int(self.options.seed), Purpose.PROJECTION_POOL)
        pool = design.perturb(seed, 0, POOL)
        z = pool.design.astype(np.float64)
        return Pool(pool.coordinates(), z, np.asarray(design.kernel.weights(z, design.origin)))

    def _rows(self, h: History) -> tuple[Floats, Floats, Floats]:
        """Coordinates ``(n, p)``, design ``(n, d)`` and outputs ``(n, k)`` of what was asked."""
        z, y = h.rows.design().astype(np.float64), h.rows.y()
        if self.design.by_masks:
            if h.full is not None:  # f(x) is a value like any other here
                z, y = np.vstack([np.ones((1, self.d)), z]), np.vstack([h.full[None, :], y])
            return z, z, y
        if h.cursor != h.rows.n:
            msg = "posterior='gp' on a table needs all perturbations of one seed, in order"
            raise InputError(msg)
        drawn = self.design.perturb(int(self.options.seed), 0, h.rows.n)
        return drawn.coordinates(), z, y

    def gp(self, h: History) -> SurrogateGP:
        """Return the process of what was asked."""
        if self._last is None or self._last[0] != h.rows.n:
            x, m, y = self._rows(h)
            found = SurrogateGP.fit(
                *(x, m, y, self._functional()),
                noisy=self.options.noisy,
                start=self._kernel if self.sequential else None,
                looks=self.sequential,
                expected=self.expected,
                ease=self.ease,
                weights=np.asarray(self.design.kernel.weights(m, self.design.origin)),
            )
            self._last, self._kernel = (h.rows.n, found), found.kernel
        return self._last[1]

    def fit(self, h: History) -> Estimate | None:
        """Fit the history."""
        if h.full is None:
            return None
        if self.regression.is_complete(h):
            return self.regression.fit(h)
        if h.rows.n < self.d + 2:
            return None
        g, constant = self.gp(h), Unidentified.of_rows(self.design.neighbourhood, h.rows)
        scale, unknown = g.scale.copy(), np.flatnonzero(constant.never | constant.rare)
        # nothing is known but the spread of the outputs
        scale[unknown, unknown] = np.maximum(scale[unknown, unknown], h.rows.y().var(axis=0))
        belief = Belief(g.mean, scale, g.dof)
        if self.options.noisy:
            belief = nonzero_width(belief, h.full)
        error, r2 = self._misfit(h, g)
        return Estimate(
            belief,
            error,
            r2,
            exact=False,
            posterior="gp",
            intercept=g.intercept,
            local_prediction=np.asarray(g.intercept + self.design.origin @ g.mean),
            selected=np.ones((self.d, len(g.intercept)), dtype=np.bool_),
            notes=constant.notes,
            unidentified=constant.never,
        )

    def _misfit(self, h: History, g: SurrogateGP) -> tuple[ErrorPosterior, Floats]:
        """Error of the linear explanation over what was asked, and its weighted R²."""
        w, y, p = h.rows.w(), h.rows.y(), self.prior
        rss = w @ (y - g.intercept - h.rows.design() @ g.mean) ** 2
        spread = w @ (y - w @ y / w.sum()) ** 2
        dof = p.n0 + h.rows.n
        error = ErrorPosterior(dof, np.sqrt((p.n0 * p.sigma0_sq + rss) / dof))
        return error, r_squared(rss, spread)

    def forecast(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """On masks looked ahead; on tables as if widths fell with the root of the rows."""
        if h.rows.n < self.d + 2 or self.regression.is_complete(h):
            return self.regression.forecast(h, limits, level)
        g, coming, left = self.gp(h), None, self.design.unasked(h)
        if self.design.by_masks:
            with self.context.lock:
                coming = self.design.fresh_stream(h).take(int(min(LOOK_AHEAD, left))).design
        belief = Belief(g.mean, g.scale, g.dof)
        return process_forecast(
            h, g, belief, limits=limits, level=level, coming=coming, unasked=left
        )


def process_forecast(
    h: History,
    g: SurrogateGP,
    belief: Belief,
    *,
    limits: Width | RelativeWidth,
    level: float,
    coming: Masks | None,
    unasked: float,
) -> Forecast:
    """Forecast of a process: what the ``coming (m, d)`` masks would leave of the variances.

    Beyond them, and where there are none, widths are taken to fall with the root of the rows.
    """
    allowed = np.asarray(limits.limits(belief.mean))
    now = 2 * quantile(level, belief.dof) * belief.deviation
    more, ratio = 0.0, float(np.max(now / allowed))
    if ratio > 1 and coming is not None and len(coming) and g.state is not None:
        left = np.sqrt(g.state.shares_left(coming))
        met = np.all(left[:, :, None] * now <= allowed, axis=(1, 2))
        more = float(np.argmax(met) + 1) if met.any() else float(len(coming))
        ratio = 0.0 if met.any() else float(np.max(left[-1][:, None] * now / allowed))
    more += max(np.ceil((h.rows.n + more) * (ratio**2 - 1)), 0.0)
    more = float(min(more, unasked))
    between = (0.6 * more, 1.5 * more)
    return forecast_of(h, more, between, limits=limits, allowed=allowed, level=level)
