"""BayesLIME with a Gaussian process: the same coefficients from fewer queries."""

from __future__ import annotations

import numpy as np

from credex.domains import Neighbourhood
from credex.errors import InputError
from credex.estimators.base import Context, Estimate, Recipe, Settings, never_certain
from credex.estimators.surrogate import SurrogateRecipe
from credex.history import History
from credex.kernels import Exponential
from credex.posteriors import Belief, ErrorPosterior, ExactPosterior
from credex.posteriors.functionals import SurrogateOverMasks, SurrogateOverPool
from credex.posteriors.kernel import Kernel
from credex.posteriors.process import Observations, ProcessPosterior
from credex.posteriors.student import quantile
from credex.stopping import Forecast, RelativeWidth, Width
from credex.typing import Floats, Masks

POOL = 10_000
"""Perturbations of a table that are drawn but never asked: what the coefficients project over."""

AHEAD = 400
"""Masks a forecast looks ahead before it extrapolates."""

POOL_SEED = 1_000_003
"""Added to the seed for that pool, so that it holds none of the rows that are asked."""


class GaussianSurrogateRecipe(SurrogateRecipe):
    """A process over masks, or over the perturbed inputs of a table, projected on LIME's design."""

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        settings: Settings,
        context: Context,
        asked: History | None = None,
    ) -> None:
        super().__init__(neighbourhood, settings, context, asked)
        if settings.sampler_name != "random":
            msg = "posterior='gp' of BayesLIME goes with sampler='random'"
            raise InputError(msg)
        if settings.features is not None or settings.recipe == "paper" or not settings.robust:
            msg = "features=, recipe='paper' and robust=False need posterior='linear'"
            raise InputError(msg)
        if self.by_masks and not isinstance(self.kernel, Exponential):
            msg = "posterior='gp' on masks needs an Exponential kernel"
            raise InputError(msg)
        self._expected = settings.prior.means(self.d)
        self._ease = settings.prior.eases(self.d)
        self._hyper: Kernel | None = None
        self._gp: tuple[int, ProcessPosterior] | None = None

    def _over(self) -> SurrogateOverMasks | SurrogateOverPool:
        """What the coefficients project over: all masks, or a pool of unasked perturbations."""
        d = self.d
        if self.by_masks:
            steps = np.arange(d + 1)[:, None] > np.arange(d)  # s present, s = 0 … d
            return SurrogateOverMasks(np.asarray(self.kernel.weights(steps, self.origin)))

        def draw() -> tuple[Floats, Floats]:
            p = self.neighbourhood.perturb(self.settings.seed + POOL_SEED, 0, POOL)
            return p.coordinates(), p.design.astype(np.float64)

        coordinates, design = draw()
        weights = np.asarray(self.kernel.weights(design, self.origin))
        return SurrogateOverPool(coordinates, design, weights)

    def _rows(self) -> tuple[Floats, Floats, Floats]:
        """Coordinates ``(n, p)``, design ``(n, d)`` and outputs ``(n, k)`` of what was asked."""
        rows = self.asked.rows
        design, y = rows.design().astype(np.float64), rows.y()
        if self.by_masks:
            if self.asked.full is not None:  # f(x) is a value like any other here
                design = np.vstack([np.ones((1, self.d)), design])
                y = np.vstack([self.asked.full[None, :], y])
            return design, design, y
        if self.asked.cursor != rows.n:
            msg = "posterior='gp' on a table needs all perturbations of one seed, in order"
            raise InputError(msg)
        drawn = self.neighbourhood.perturb(self.settings.seed, 0, rows.n)
        return drawn.coordinates(), design, y

    def gp(self) -> ProcessPosterior:
        """The posterior of what was asked."""
        n = self.asked.rows.n
        if self._gp is None or self._gp[0] != n:
            x, m, y = self._rows()
            found = ProcessPosterior.fit(
                Observations(
                    *(self._over(), m, y),
                    coordinates=x,
                    expected=self._expected,
                    ease=self._ease,
                    noisy=self.settings.noisy,
                ),
                start=self._hyper if self.looks else None,
                looks=self.looks,
            )
            self._gp, self._hyper = (n, found), found.kernel
        return self._gp[1]

    def fit(self) -> Estimate | None:
        """Fit what was asked."""
        if self.asked.full is None:
            return None
        if isinstance(self.posterior(), ExactPosterior):
            return super().fit()
        if self.asked.rows.n < self.d + 2:
            return None
        g = self.gp()
        scale, unseen = g.scale, self.unseen()
        unknown = np.flatnonzero(unseen.never | unseen.rare)
        if len(unknown):  # what the outputs spread is all that can be said
            scale = scale.copy()
            most = np.maximum(scale[unknown, unknown], self.asked.rows.y().var(0))
            scale[unknown, unknown] = most
        belief = Belief(g.mean, scale, g.dof)
        if self.settings.noisy:
            belief = never_certain(belief, self.asked.full)
        error, r2 = self._misfit(g)
        return Estimate(
            belief,
            error,
            r2,
            exact=False,
            posterior="gp",
            intercept=g.intercept,
            local_prediction=np.asarray(g.intercept + self.origin @ g.mean),
            selected=np.ones((self.d, len(g.intercept)), dtype=np.bool_),
            notes=unseen.notes,
            unseen=unseen.never,
        )

    def _misfit(self, g: ProcessPosterior) -> tuple[ErrorPosterior, Floats]:
        """Error of the linear explanation over what was asked, and its weighted R²."""
        rows, p = self.asked.rows, self.settings.prior
        k = len(g.intercept)
        rss, total = np.zeros(k), float(rows.w().sum())
        mean = rows.w() @ rows.y() / total
        spread = np.zeros(k)
        for z, y, w in rows.chunks():
            rss += w @ (y - g.intercept - z @ g.mean) ** 2
            spread += w @ (y - mean) ** 2
        dof = p.n0 + rows.n
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = np.where(spread > 0, 1 - rss / spread, np.nan)
        return ErrorPosterior(dof, np.sqrt((p.n0 * p.sigma0_sq + rss) / dof)), r2

    def forecast(self, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """On masks looked ahead; on tables as if widths fell with the root of the rows."""
        n = self.asked.rows.n
        if n < self.d + 2 or isinstance(self.posterior(), ExactPosterior):
            return super().forecast(limits, level)
        stream = self._fresh_stream() if self.by_masks else None
        with self.context.lock:
            coming = None if stream is None else stream.take(int(min(AHEAD, self.unasked))).design
        g = self.gp()
        belief = Belief(g.mean, g.scale, g.dof)
        return process_forecast(self, g, belief, limits=limits, level=level, coming=coming)


def process_forecast(
    recipe: Recipe,
    g: ProcessPosterior,
    belief: Belief,
    *,
    limits: Width | RelativeWidth,
    level: float,
    coming: Masks | None,
) -> Forecast:
    """Forecast of a process: what the ``coming (m, d)`` masks would leave of the variances.

    Beyond them, and where there are none, widths are taken to fall with the root of the rows.
    """
    asked, n = recipe.asked, recipe.asked.rows.n
    allowed = np.asarray(limits.limits(belief.mean))
    now = 2 * quantile(level, belief.dof) * belief.deviation
    more, ratio = 0.0, float(np.max(now / allowed))
    if ratio > 1 and coming is not None and len(coming) and g.state is not None:
        left = np.sqrt(g.state.shares_left(coming))
        met = np.all(left[:, :, None] * now <= allowed, axis=(1, 2))
        more = float(np.argmax(met) + 1) if met.any() else float(len(coming))
        ratio = 0.0 if met.any() else float(np.max(left[-1][:, None] * now / allowed))
    more += max(np.ceil((n + more) * (ratio**2 - 1)), 0.0)
    more = float(min(more, recipe.unasked))
    width = limits.width if isinstance(limits, Width) else float(allowed.min())
    rows = asked.n_model_rows / max(asked.n_queries, 1)
    cost = asked.model_seconds / max(asked.n_queries, 1)
    return Forecast(
        more, 0.6 * more, 1.5 * more, more * rows, more * cost, asked.n_queries, width, level
    )
