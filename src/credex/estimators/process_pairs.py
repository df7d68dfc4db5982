"""BayesSHAP with a Gaussian process over masks: far fewer queries for the same error."""

from __future__ import annotations

import numpy as np

from credex.designs.focused import plan
from credex.designs.samplers import Candidates, Predictive
from credex.designs.sequences import ShapleySequence
from credex.designs.stream import MaskStream
from credex.domains import Neighbourhood
from credex.errors import InputError
from credex.estimators.base import (
    Context,
    Estimate,
    Settings,
    never_certain,
    powers_of_two,
    spread_over,
)
from credex.estimators.control_variate import MOST_UNITS, NOTE, beyond_process, corrected
from credex.estimators.noise import anchor_variance
from credex.estimators.shapley import ShapleyRecipe
from credex.history import History
from credex.posteriors import Belief, ErrorPosterior
from credex.posteriors.functionals import ShapleyFromPairs
from credex.posteriors.kernel import Kernel
from credex.posteriors.process import Conditioned, Observations, ProcessPosterior, fit_kernel
from credex.posteriors.strata import strata
from credex.posteriors.student import quantile
from credex.stopping import Forecast, RelativeWidth, Width
from credex.typing import Floats, Masks

QUICK = 15
"""Steps of the hyper-parameter search between batches; the last fit takes as many as it needs."""

LATER_SEED = 1_000_003
"""Added to the seed for pairs after the hand-over: focused sampling left a choice of the others."""

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
        asked: History | None = None,
    ) -> None:
        super().__init__(neighbourhood, settings, context, asked)
        refuse_linear_only(settings)
        prior = settings.prior.only(self.active)
        self._expected, self._ease = prior.means(self.d), prior.eases(self.d)
        self._kernel: Kernel | None = None
        self._gp: tuple[int, ProcessPosterior] | None = None
        self._later: MaskStream | None = None

    @property
    def minimum(self) -> int:
        """One pair is enough to say something, with wide intervals."""
        return int(min(4 + self._repeat_cost, self.everything))

    def _pairs(self) -> tuple[Masks, Floats]:
        """Masks ``(n, d)`` and half differences ``(n, k)``; row 0: the full and the empty mask."""
        half = (self.full - self.base)[None, :] / 2
        masks = np.ones((1, self.d), dtype=np.bool_)
        if self.asked.rows.n >= 2:
            first, y, other, _ = self.units()
            masks = np.vstack([masks, first])
            half = np.vstack([half, (y - (y if other is None else other)) / 2])
        return masks, half

    def _observed(self) -> Observations:
        """The pairs the process is fitted on: all, or those before it hands over."""
        n = None if self.settings.noisy else MOST_UNITS + 1
        masks, y = self._pairs()
        functional = ShapleyFromPairs(self.d, chosen=self._chosen)
        return Observations(
            functional,
            masks[:n],
            y[:n],
            expected=self._expected,
            ease=self._ease,
            noisy=self.settings.noisy,
        )

    def gp(self) -> ProcessPosterior:
        """The process of what was asked, without what came after it handed over."""
        n = self.asked.rows.n if self.settings.noisy else min(self.asked.rows.n, 2 * MOST_UNITS)
        if self._gp is None or self._gp[0] != n:
            found = ProcessPosterior.fit(
                self._observed(),
                start=self._kernel if self.looks else None,
                looks=self.looks,
                noise=self._noise,
            )
            self._gp, self._kernel = (n, found), found.kernel
        return self._gp[1]

    @property
    def _noise(self) -> Floats | None:
        """Variance of a half difference, by the ends that were asked again, ``(k,)``."""
        found = None if self.asked.anchors is None else anchor_variance(self.asked.anchors) / 2
        return None if found is None or not np.isfinite(found).all() else found

    @property
    def _chosen(self) -> bool:
        """Whether pairs are chosen, or a random sample."""
        return not getattr(self.settings.sampler, "uniform", False)

    def choose(self, n: int, fit: Predictive | None, rng: np.random.Generator) -> Candidates:
        """Let the sampler choose; after the process handed over, pairs at random."""
        if bool(getattr(self.settings.sampler, "uniform", False)) or self.settings.noisy:
            return super().choose(n, fit, rng)
        if not beyond_process(self):
            return super().choose(min(n, 2 * MOST_UNITS - self.asked.rows.n), fit, rng)
        with self.context.lock:
            if self._later is None:
                known = self.asked.rows.design()[0::2]
                seed = self.settings.seed + LATER_SEED
                self._later = MaskStream(ShapleySequence(self.d, seed, paired=True), known)
            return self._later.take(n)

    def _complete(self) -> bool:
        """Nothing new is left to ask: exact, or of a noisy model a matter of averages."""
        return self.d <= 1 or self.asked.rows.n >= powers_of_two(self.d) - 2

    def predictive(self) -> Predictive | None:
        """The conditioned process, after a quick fit if values came in since the last look."""
        if beyond_process(self):
            return None
        if self._gp is not None and self._gp[0] == self.asked.rows.n:
            known = self._gp[1].state
            if known is not None:
                return known
        data = self._observed()
        kernel = fit_kernel(data, start=self._kernel, max_iter=QUICK)
        self._kernel = kernel if len(data.Y) > 1 else None
        return Conditioned(kernel, data)

    def _belief(self) -> tuple[Belief, bool]:
        """Belief about the importances, and whether later pairs corrected the process."""
        g = self.gp()
        if self.settings.noisy:
            return never_certain(g.belief, self.full), False
        if g.state is None or self.asked.rows.n <= 2 * MOST_UNITS:
            return g.belief, False
        masks, y = self._pairs()
        residual = y[MOST_UNITS + 1 :] - g.state.predict(masks[MOST_UNITS + 1 :])
        return corrected(self, g.belief, masks[1:], residual)

    def fit(self) -> Estimate | None:
        """Fit what was asked."""
        if self.asked.full is None:
            return None
        if self._complete() and (whole := super().fit()) is not None:
            return whole
        if self.asked.rows.n < 2:
            return None
        belief, over = self._belief()
        error, r2 = misfit(self, belief.mean)
        return Estimate(
            spread_over(belief, self.active),
            error,
            r2,
            exact=False,
            posterior="gp",
            intercept=self.base,
            local_prediction=self.base + belief.mean.sum(axis=0),
            selected=np.ones((len(self.active), len(self.full)), dtype=np.bool_),
            notes=(NOTE.format(n=2 * MOST_UNITS),) if over else (),
        )

    def forecast(self, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Widths after further focused pairs follow from the process: no value is needed."""
        if self._complete():  # a noisy model's is a matter of averages, anyone else's is known
            return super().forecast(limits, level) if self.settings.noisy else None
        if self.asked.rows.n < 2:
            return None
        g, (belief, over) = self.gp(), self._belief()
        allowed = np.asarray(limits.limits(belief.mean))
        width = limits.width if isinstance(limits, Width) else float(allowed.min())
        asked = self.asked
        if g.state is None:
            return Forecast(0.0, 0.0, 0.0, 0.0, 0.0, asked.n_queries, width, level)
        half = 2 * quantile(level, belief.dof) * belief.deviation
        if over or beyond_process(self):  # from here on widths fall with the root of the pairs
            ratio = float(np.max(half / allowed))
            queries = min(max(asked.rows.n * (ratio**2 - 1), 0.0), self.unasked)
        else:
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

    def _ahead(self, g: ProcessPosterior, now: Floats, allowed: Floats) -> float:
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
        _, gains = plan(state, units, steps)
        start = np.maximum(np.diag(state.covariance), 1e-300)
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
