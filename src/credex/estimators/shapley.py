"""BayesSHAP: draws from the Shapley distribution, a regression that adds up.

Sampler and kernel meet here and nowhere else: units drawn from the Shapley distribution carry
stratum weights, never the kernel's a second time. ``recipe="paper"`` is the one exception: fair
coins weighted by the raw kernel, as the paper prints it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from credex.designs.samplers import Predictive
from credex.estimators.background import with_background
from credex.estimators.base import Estimate, never_certain, selection_note, spread_over
from credex.estimators.coalitions import CoalitionRecipe, Fit
from credex.estimators.forecast import shapley_forecast
from credex.estimators.noise import anchor_variance, with_noise
from credex.estimators.sparse import sparse
from credex.kernels import shapley_kernel
from credex.posteriors import (
    Belief,
    ExactPosterior,
    LinearPosterior,
    ShapleyPosterior,
)
from credex.posteriors.geometry import Geometry
from credex.posteriors.shapley import Noise
from credex.stopping import Forecast, RelativeWidth, Width
from credex.typing import Masks, Outputs

UNCHECKED = "no row was asked twice: the budget was just enough for every coalition"
"""Said of an exact answer of a model that may, for all we know, be random."""

KEEP_MASKS = 1_000_000
"""Factorisations of larger sets of masks (coalitions × features) are not kept."""


class ShapleyRecipe(CoalitionRecipe):
    """One instance, its coalitions, and the posterior of its Shapley values."""

    def fit(self) -> Estimate | None:
        """Fit what was asked."""
        p = self.posterior()
        if p is None:
            return None
        k = len(self.full)
        exact = isinstance(p, ExactPosterior) and not self.settings.noisy
        if isinstance(p, LinearPosterior | ShapleyPosterior):
            belief = Belief(p.mean, p.scale_matrix, p.dof)
        else:
            belief = p.belief
        selected = np.ones((len(self.active), k), dtype=np.bool_)
        error, r2 = p.error, np.asarray(p.r2)
        if self.settings.features is not None and self.settings.features < self.d:
            belief, error, r2, selected = sparse(self, p)
        if self.settings.background_uncertainty:
            belief = with_background(self, belief)
        if self.settings.noisy:
            belief = never_certain(belief, self.full)
        intercept = self.base if not isinstance(p, LinearPosterior) else np.zeros(k)
        unchecked = exact and not self.asked.checked
        return Estimate(
            belief if self.d == len(self.active) else spread_over(belief, self.active),
            error,
            r2,
            exact,
            "exact" if exact else "linear",
            intercept,
            intercept + belief.mean.sum(axis=0),
            selected,
            selection_note(self.settings.features, self.d, shares=True)
            + ((UNCHECKED,) if unchecked and self.d > 0 else ()),
        )

    def predictive(self) -> Predictive | None:
        """The posterior an adaptive sampler reads."""
        p = self.posterior()
        return None if isinstance(p, ExactPosterior) else p

    def posterior(self) -> Fit | None:
        """Posterior over the active features, or ``None`` if too little was asked."""
        if self._posterior is None and self.asked.full is not None:
            self._posterior = self._fit()
            self._at_hand = None
        return self._posterior

    def _fit(self) -> Fit | None:
        n, d, s = self.asked.rows.n, self.d, self.settings
        if s.recipe == "paper" and d > 1:
            return self._fit_paper()
        if (n == 2**d - 2 and not s.noisy) or d <= 1:
            return self._fit_exact()
        units = n // 2 if self.paired else n
        if units < d + 1:
            return None
        first, y1, y2, noise = self.units()
        return ShapleyPosterior(
            self.geometry(first), y1, y2, self.base, self.full - self.base, noise
        )

    def units(self) -> tuple[Masks, Outputs, Outputs | None, Noise | None]:
        """Masks (of each pair the first), their values, their complements' values, the noise."""
        rows, masks = self.asked.rows, self._at_hand
        masks, y = rows.design() if masks is None else masks, rows.y()
        if self.paired:  # a call may have failed between the two of a pair
            masks, y = masks[: len(masks) // 2 * 2], y[: len(y) // 2 * 2]
        first, y1, y2 = (masks[0::2], y[0::2], y[1::2]) if self.paired else (masks, y, None)
        first = np.ascontiguousarray(first)
        if self.asked.anchors is None:
            return first, y1, y2, None
        return with_noise(first, y1, y2, self.asked.anchors)

    def _fit_exact(self) -> ExactPosterior:
        k, d = len(self.full), self.d
        if d == 0:
            z = np.zeros
            return ExactPosterior(z((0, k)), z(k), z(k), z((0, 0, k)), self.base)
        ends = np.array([[False] * d, [True] * d])
        masks = self._masks()
        every = ends if masks is None else np.concatenate([ends, masks])
        y = np.stack([self.base, self.full])
        y = y if masks is None else np.concatenate([y, self.asked.rows.y()])
        exact = ExactPosterior.shapley(every, y)
        if self.asked.anchors is not None:  # one noisy feature: φ = f(x) − base
            repeats = self._anchor_repeats
            scale = 2 * anchor_variance(self.asked.anchors)[None, None, :] / repeats
            exact = replace(exact, scale_matrix=scale, dof=float(max(2 * repeats - 2, 1)))
        return exact

    def _fit_paper(self) -> LinearPosterior | None:
        if self.asked.rows.n == 0:
            return None
        masks, y = self.asked.rows.design(), self.asked.rows.y()
        weights = shapley_kernel(masks.sum(axis=1), self.d)
        return LinearPosterior.fit(masks, y, weights, prior=self.settings.prior, intercept="none")

    def geometry(self, masks: Masks, columns: Masks | None = None) -> Geometry:
        """Weigh and factor ``masks``, once for all rows of a batch that share them."""
        prior = self.settings.prior
        prior = prior.only(self.active) if len(self.active) != self.d else prior
        prior = prior if columns is None else prior.only(columns)

        def make() -> Geometry:
            return Geometry.of(
                masks, paired=self.paired, uniform=self._uniform, prior=prior, columns=columns
            )

        if columns is not None or masks.size > KEEP_MASKS:
            return make()
        packed = np.packbits(masks).tobytes()
        key = ("geometry", masks.shape, packed, prior, self.paired, self._uniform)
        return self.context.once(key, make)

    def forecast(self, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """How many more queries to these widths."""
        return shapley_forecast(self, limits, level)

    def reconsider(self, limits: Width | RelativeWidth, forecast: Forecast) -> bool:
        """Never: this posterior was asked for, or is all there is."""
        del limits, forecast
        return False
