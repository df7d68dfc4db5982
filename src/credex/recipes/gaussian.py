"""BayesSHAP with a Gaussian process over masks: far fewer queries for the same error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from credex.domains import Neighbourhood
from credex.errors import InputError
from credex.focused import plan, signs
from credex.posteriors import ErrorPosterior, ExactPosterior
from credex.posteriors.evidence import default_kernel
from credex.posteriors.gp import Conditioned, GPPosterior, fit_kernel
from credex.posteriors.mask_kernel import MaskKernel
from credex.posteriors.strata import strata
from credex.posteriors.student import quantile
from credex.recipes.base import (
    Asked,
    Context,
    Fitted,
    Settings,
    never_certain,
    powers_of_two,
    spread_over,
)
from credex.recipes.shapley import ShapleyRecipe
from credex.samplers import Predictive
from credex.stopping import Forecast, RelativeWidth, Width
from credex.typing import Floats

QUICK = 15
"""Steps of the hyper-parameter search between batches; the last fit takes as many as it needs."""

AHEAD = 400
"""Pairs a forecast looks ahead before it extrapolates; within a run, which goes no further than
three times what it has before it looks again, no more than were asked."""


class GaussianRecipe(ShapleyRecipe):
    """Coalitions in pairs, and a Gaussian process on their half differences."""

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        settings: Settings,
        context: Context,
        asked: Asked | None = None,
    ) -> None:
        super().__init__(neighbourhood, settings, context, asked)
        refuse_linear_only(settings)
        prior = settings.prior.only(self.active)
        self._expected, self._ease = prior.means(self.d), prior.eases(self.d)
        self._kernel: MaskKernel | None = None
        self._gp: GPPosterior | None = None

    @property
    def minimum(self) -> int:
        """One pair is enough to say something, with wide intervals."""
        return int(min(4 + self._repeat_cost, self.everything))

    def _pairs(self) -> tuple[Floats, Floats]:
        """Signs ``(n, d)`` and half differences ``(n, k)``; row 0: the full and the empty mask.

        What the prior expects is taken off: the process models the rest.
        """
        half = (self.full - self.base)[None, :] / 2
        s = np.ones((1, self.d))
        if self.asked.rows.n >= 2:
            first, y, other, _ = self.units()
            s = np.vstack([s, signs(first)])
            half = np.vstack([half, (y - (y if other is None else other)) / 2])
        return s, half - 0.5 * (s @ self._expected)[:, None]

    def gp(self) -> GPPosterior:
        """The posterior of what was asked."""
        if self._gp is None or self._posterior is None:
            s, y = self._pairs()
            start = self._kernel if self.looks else None
            found = GPPosterior.fit(
                s, y, start=start, noisy=self.settings.noisy, looks=self.looks, ease=self._ease
            )
            self._gp = replace(found, mean=found.mean + self._expected[:, None])
            self._posterior = self._linear_part()
            if self._gp.state is not None:
                self._kernel = self._gp.state.kernel
        return self._gp

    def _linear_part(self) -> ExactPosterior:
        """A placeholder that marks the data the process was fitted on."""
        zero = np.zeros(len(self.full))
        return ExactPosterior(zero[:, None], zero, zero, zero[:, None, None], self.base)

    def _complete(self) -> bool:
        n = powers_of_two(self.d) - 2
        return self.d <= 1 or (self.asked.rows.n == n and not self.settings.noisy)

    def predictive(self) -> Predictive | None:
        """The conditioned process, after a quick fit if values came in since the last look."""
        if self._gp is not None and self._posterior is not None and self._gp.state is not None:
            return self._gp.state
        s, y = self._pairs()
        if len(s) == 1:
            start = replace(default_kernel(self.d), noisy=self.settings.noisy, ease=self._ease)
            return Conditioned.of(start, s, y)
        self._kernel = fit_kernel(
            s, y, start=self._kernel, max_iter=QUICK, noisy=self.settings.noisy, ease=self._ease
        )
        return Conditioned.of(self._kernel, s, y)

    def fit(self) -> Fitted | None:
        """Fit what was asked."""
        if self.asked.full is None:
            return None
        if self._complete():
            return super().fit()
        if self.asked.rows.n < 2:
            return None
        g = self.gp()
        k = len(self.full)
        error, r2 = misfit(self, g.mean)
        belief = never_certain(g.belief, self.full) if self.settings.noisy else g.belief
        return Fitted(
            spread_over(belief, self.active),
            error,
            r2,
            exact=bool(g.exact),
            posterior="gp",
            intercept=self.base,
            local_prediction=self.base + g.mean.sum(axis=0),
            selected=np.ones((len(self.active), k), dtype=np.bool_),
        )

    def forecast(self, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Widths after further focused pairs follow from the process: no value is needed."""
        if self._complete() or self.asked.rows.n < 2:
            return None
        g = self.gp()
        allowed = np.asarray(limits.limits(g.mean))
        width = limits.width if isinstance(limits, Width) else float(allowed.min())
        asked = self.asked
        if g.state is None:
            return Forecast(0.0, 0.0, 0.0, 0.0, 0.0, asked.n_queries, width, level)
        half = 2 * quantile(level, g.dof) * g.belief.deviation
        queries = self._ahead(g, half, allowed)
        rows = asked.n_model_rows / max(asked.n_queries, 1)
        seconds = asked.model_seconds / max(asked.n_queries, 1)
        return Forecast(
            queries,
            0.7 * queries,
            1.5 * queries,
            queries * rows,
            queries * seconds,
            asked.n_queries,
            width,
            level,
        )

    def _ahead(self, g: GPPosterior, now: Floats, allowed: Floats) -> float:
        """Queries until widths ``now (d, k)`` shrink to ``allowed``."""
        state = g.state
        if state is None or bool(np.all(now <= allowed)):
            return 0.0
        left = self.unasked
        ahead = min(AHEAD, max(self.asked.rows.n // 2, 8)) if self.looks else AHEAD
        with self.context.lock:
            pool = self._fresh_stream().take(int(min(4 * ahead, left)))
        units = pool.design[0::2]
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
        asked = self.asked.rows.n / 2 + steps
        return float(min(2 * (asked * ratio**2 - self.asked.rows.n / 2), left))


def misfit(recipe: ShapleyRecipe, phi: Floats) -> tuple[ErrorPosterior, Floats]:
    """Error of the additive explanation ``phi (d, k)`` over the coalitions asked, and its R²."""
    first, y, other, _ = recipe.units()
    layers = strata(recipe.d, paired=recipe.paired)
    w = layers.weigh(layers.index(first))[0][:, None]
    ys, ws, z = y, w, first.astype(np.float64)
    if other is not None:
        ys, ws, z = np.vstack([y, other]), np.vstack([w, w]), np.vstack([z, 1 - z])
    rss = np.sum(ws * (ys - recipe.base - z @ phi) ** 2, axis=0)
    mean = np.sum(ws * ys, axis=0) / ws.sum()
    spread = np.sum(ws * (ys - mean) ** 2, axis=0)
    p, n = recipe.settings.prior, len(ys)
    dof = p.n0 + n
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = np.where(spread > 0, 1 - rss / spread, np.nan)
    return ErrorPosterior(dof, np.sqrt((p.n0 * p.sigma0_sq + rss) / dof)), r2


def refuse_linear_only(settings: Settings) -> None:
    """Raise on options that belong to the regression."""
    if settings.features is not None or settings.background_uncertainty:
        msg = "features= and background_uncertainty= need posterior='linear'"
        raise InputError(msg)
