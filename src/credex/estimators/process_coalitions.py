"""BayesSHAP with a Gaussian process over single coalitions, for samplers that draw no pairs."""

from __future__ import annotations

import numpy as np

from credex.designs.samplers import Candidates, Predictive
from credex.domains import Neighbourhood
from credex.errors import BudgetError
from credex.estimators.base import (
    Context,
    Estimate,
    Settings,
    never_certain,
    powers_of_two,
    spread_over,
)
from credex.estimators.control_variate import MOST_UNITS, NOTE, beyond_process, corrected
from credex.estimators.process_pairs import AHEAD, misfit, refuse_linear_only
from credex.estimators.process_surrogate import process_forecast
from credex.estimators.shapley import ShapleyRecipe
from credex.history import History
from credex.posteriors import Belief
from credex.posteriors.functionals import ShapleyFromCoalitions
from credex.posteriors.kernel import Kernel
from credex.posteriors.process import Observations, ProcessPosterior
from credex.stopping import Forecast, RelativeWidth, Width
from credex.typing import Floats


class GaussianSingleRecipe(ShapleyRecipe):
    """Coalitions one by one, and a Gaussian process on v itself (full kernel)."""

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
        self._hyper: Kernel | None = None
        self._gp: tuple[int, ProcessPosterior] | None = None

    @property
    def minimum(self) -> int:
        """A few coalitions are enough to say something, with wide intervals."""
        return int(min(4 + self._repeat_cost, self.everything))

    def _complete(self) -> bool:
        """Nothing new is left to ask: exact, or of a noisy model a matter of averages."""
        return self.d <= 1 or self.asked.rows.n >= powers_of_two(self.d) - 2

    def _rows(self) -> tuple[Floats, Floats]:
        """Masks ``(n, d)`` and outputs ``(n, k)``; the first two are the empty and the full one."""
        ends = np.vstack([np.zeros(self.d), np.ones(self.d)])
        first, y, _, _ = self.units()
        return np.vstack([ends, first]), np.vstack([self.base, self.full, y])

    def gp(self) -> ProcessPosterior:
        """The posterior of what was asked, on the plane Σφ = f(x) − base."""
        n = self.asked.rows.n if self.settings.noisy else min(self.asked.rows.n, MOST_UNITS)
        if self._gp is None or self._gp[0] != n:
            m, y = self._rows()
            m, y = (m, y) if self.settings.noisy else (m[: n + 2], y[: n + 2])
            found = ProcessPosterior.fit(
                Observations(
                    *(ShapleyFromCoalitions(self.d), m, y),
                    expected=self._expected,
                    ease=self._ease,
                    noisy=self.settings.noisy,
                ),
                start=self._hyper if self.looks else None,
                looks=self.looks,
            )
            self._gp, self._hyper = (n, found), found.kernel
        return self._gp[1]

    def choose(self, n: int, fit: Predictive | None, rng: np.random.Generator) -> Candidates:
        """Let the sampler choose; an adaptive one only as far as the process goes."""
        adaptive = not getattr(self.settings.sampler, "uniform", False)
        if adaptive and not self.settings.noisy:
            if beyond_process(self):
                msg = f"posterior='gp' with sampler={self.settings.sampler_name!r} goes up to "
                msg += f"{MOST_UNITS:,} queries; use sampler='focused', 'paired' or 'random'"
                raise BudgetError(msg, minimum=MOST_UNITS)
            n = min(n, MOST_UNITS - self.asked.rows.n)
        return super().choose(n, fit, rng)

    def _belief(self) -> tuple[Belief, bool]:
        """Belief about the importances, and whether later coalitions corrected the process."""
        belief, g = self._of_process(), self.gp()
        if self.settings.noisy or g.state is None or self.asked.rows.n <= MOST_UNITS:
            return belief, False
        m, y = self._rows()
        residual = y[MOST_UNITS + 2 :] - g.state.predict(m[MOST_UNITS + 2 :])
        return corrected(self, belief, m[2:] > 0.5, residual)

    def _of_process(self) -> Belief:
        g, d = self.gp(), self.d
        mean, scale = g.mean, g.scale
        short = self.full - self.base - mean.sum(axis=0)
        mean = mean + short / d  # a rounding error, or what noise of both ends leaves
        if self.settings.noisy:
            return never_certain(Belief(mean, scale, g.dof), self.full)
        centre = np.eye(d) - 1 / d
        held = np.einsum("ij,jlk,lm->imk", centre, scale, centre)
        at = np.arange(d)
        held[at, at] = np.maximum(held[at, at], 1e-3 * scale[at, at])
        return Belief(mean, held, g.dof)

    def predictive(self) -> Predictive | None:
        """The conditioned process."""
        return None if self.asked.rows.n < 2 else self.gp().state

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
            notes=(NOTE.format(n=MOST_UNITS),) if over else (),
        )

    def forecast(self, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Widths after the next coalitions follow from the process: no value is needed."""
        if self._complete():  # a noisy model's is a matter of averages, anyone else's is known
            return super().forecast(limits, level) if self.settings.noisy else None
        if self.asked.rows.n < 2:
            return None
        with self.context.lock:
            ahead = 0 if beyond_process(self) else int(min(AHEAD, self.unasked))
            coming = self._fresh_stream().take(ahead).design
        return process_forecast(
            self, self.gp(), self._belief()[0], limits=limits, level=level, coming=coming
        )
