"""BayesSHAP: coalitions stratified by size, and a regression that adds up to f(x) − base.

The coalitions of a size share the weight that the Shapley kernel gives to the size, however often
it was drawn. ``recipe="paper"`` is the one exception: fair coins weighted by the kernel, as the
paper prints it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from credex.designs.coalitions import CoalitionDesign, shapley_kernel
from credex.designs.samplers import Predictive
from credex.estimators.base import Estimate, Estimator, nonzero_width
from credex.estimators.forecast import (
    Forecast,
    forecast_of,
    linear_spread,
    shapley_spread,
    solve_forecast,
)
from credex.estimators.sparse import Sparse, choose, sparse_fit
from credex.history import History, Rows
from credex.posteriors import Belief, ExactPosterior, LinearPosterior, ShapleyPosterior
from credex.posteriors.shapley import Geometry, Noise, strata
from credex.stopping import RelativeWidth, Width
from credex.typing import Floats, Masks, Outputs

__all__ = ["NO_REMAINDER", "ShapleyEstimator", "end_variance"]

Posterior = ShapleyPosterior | ExactPosterior | LinearPosterior

UNCHECKED = "no row was asked twice, to see that the model repeats itself: the budget is too small"
"""Note on an answer of a model that was not shown to be deterministic."""

SHARES_ALL = "these share all of f(x) − base: not the Shapley values among all features"
"""Note on an explanation with ``features=K``."""

NO_REMAINDER = "all that was asked adds up without a remainder; intervals allow for what was not"
"""Note on a perfect fit, which a rare interaction would not disturb."""

MAX_CACHED_MASKS = 1_000_000
"""Factorisations of larger sets of masks (coalitions × features) are not kept."""


class ShapleyEstimator(Estimator):
    """Posterior of the Shapley values from coalitions: exact, a regression, or the paper's."""

    design: CoalitionDesign
    _last: tuple[History, Posterior | None] | None = None

    @property
    def minimum(self) -> int:
        """One unit more than parameters and one to judge by, or all coalitions."""
        d = self.design
        return int(
            min(d.end_queries + d.repeat_cost + d.query_cost * d.unit * (d.d + 1), d.everything)
        )

    def fit(self, h: History) -> Estimate | None:
        """Fit the history."""
        p = self.posterior(h)
        if p is None or h.full is None or h.base is None:
            return None
        o = self.options
        exact = isinstance(p, ExactPosterior) and not o.noisy
        belief = Belief(np.asarray(p.mean), np.asarray(p.scale_matrix), p.dof)
        error, r2 = p.error, np.asarray(p.r2)
        selected: Masks | None = None
        notes: tuple[str, ...] = ()
        if o.features is not None and o.features < self.d:
            if isinstance(p, LinearPosterior):
                sparse = sparse_fit(p, o.features, o.selection)
            else:
                sparse = self._sparse(h, belief.mean, o.features)
            belief, r2, selected = sparse.belief, sparse.r2, sparse.selected
            error = replace(error, scale=sparse.error_scale)
            notes = (sparse.note, *(() if isinstance(p, LinearPosterior) else (SHARES_ALL,)))
        if o.background_uncertainty:
            belief = self._with_background(h, belief)
        if o.noisy:
            belief = nonzero_width(belief, h.full)
        if (exact or self.design.repeat_cost) and not h.checked and self.d > 0:
            notes += (UNCHECKED,)
        if isinstance(p, ShapleyPosterior) and p.unseen.any():
            notes += (NO_REMAINDER,)
        intercept = np.zeros(len(h.full)) if isinstance(p, LinearPosterior) else h.base
        kind = "exact" if exact else "linear"
        return self.estimate(belief, error, r2, intercept, kind, selected=selected, notes=notes)

    def predictive(self, h: History) -> Predictive | None:
        """Return the regression."""
        p = self.posterior(h)
        return None if isinstance(p, ExactPosterior) else p

    def forecast(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Return how many more queries these widths take; ``None`` before the first fit."""
        p, d = self.posterior(h), self.design
        if p is None:
            return None
        if isinstance(p, ExactPosterior):
            return forecast_of(h, limits, level)
        if isinstance(p, LinearPosterior):
            spread = linear_spread(p, np.inf, robust=False)
            return solve_forecast(h, p.mean, spread, p.n, limits=limits, level=level)
        if p.noise is None:
            units, max_units = len(p.y), float(strata(d.d, paired=d.paired).count.sum())
        else:
            units, max_units = int(p.noise.repeats.sum()), np.inf
        return solve_forecast(
            *(h, p.mean, shapley_spread(p), units),
            limits=limits,
            level=level,
            per_unit=d.unit,
            max_units=max_units,
        )

    def posterior(self, h: History) -> Posterior | None:
        """Posterior over the active features, or ``None`` if too little was asked."""
        if self._last is None or self._last[0] is not h:
            self._last = (h, self._fit(h))
        return self._last[1]

    def _fit(self, h: History) -> Posterior | None:
        if h.full is None or h.base is None:
            return None
        if self.options.paper and self.d > 1:
            if h.rows.n == 0:
                return None
            masks, y = h.rows.design(), h.rows.y()
            weights = shapley_kernel(masks.sum(axis=1), self.d)
            return LinearPosterior.fit(masks, y, weights, prior=self.prior, intercept="none")
        if self.d <= 1 or (self.design.is_complete(h) and not self.options.noisy):
            return self._fit_exact(h, h.base, h.full)
        if h.rows.n // self.design.unit < self.d + 1:
            return None
        masks, y, complement, noise = self.units(h)
        return ShapleyPosterior(self.geometry(masks), y, complement, h.base, h.full - h.base, noise)

    def _fit_exact(self, h: History, base: Floats, full: Floats) -> ExactPosterior:
        k, d = len(full), self.d
        if d == 0:
            zeros = np.zeros(k)
            return ExactPosterior(np.zeros((0, k)), zeros, zeros, np.zeros((0, 0, k)), base)
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

    def units(self, h: History) -> tuple[Masks, Outputs, Outputs | None, Noise | None]:
        """Masks (of each pair the first), their values, their complements' values, the noise."""
        masks, y, complement = self.design.units(h)
        if h.end_values is None:
            return masks, y, complement, None
        return _average_repeats(masks, y, complement, h.end_values)

    def geometry(self, masks: Masks) -> Geometry:
        """Weight and factor ``masks``, once for all rows of a batch that share them."""
        d, prior = self.design, self.prior
        make = partial(Geometry.of, masks, paired=d.paired, uniform=d.uniform, prior=prior)
        if masks.size > MAX_CACHED_MASKS:
            return make()
        packed = np.packbits(masks).tobytes()
        key = ("geometry", masks.shape, packed, prior, d.paired, d.uniform)
        return self.context.once(key, make)

    def _sparse(self, h: History, mean: Floats, keep: int) -> Sparse:
        """Choose ``keep`` features output by output; they share all of f(x) − base."""
        full, base = np.asarray(h.full), np.asarray(h.base)
        d, o = self.design, self.options
        masks, y, complement, noise = self.units(h)
        whole = self.geometry(masks)
        z = masks - 0.5 if d.paired else masks.astype(np.float64)
        weighted = (z * whole.weights[:, None]).T
        out = Sparse(self.d, len(full), keep)
        for j in range(len(full)):
            at = slice(j, j + 1)
            one = ShapleyPosterior(
                whole,
                y[:, at],
                None if complement is None else complement[:, at],
                base[at],
                (full - base)[at],
                None if noise is None else replace(noise, variance=noise.variance[at]),
            )
            moment = (weighted @ one.response)[:, 0]
            columns = choose(weighted @ z, moment, mean[:, j], keep=keep, method=o.selection)
            geometry = Geometry.of(
                masks,
                paired=d.paired,
                uniform=d.uniform,
                prior=self.prior.only(columns),
                columns=columns,
            )
            small = replace(one, geometry=geometry)
            wider = one.belief.selection_factor(0, int(columns.sum()), o.level)
            out.put(j, columns, small, small.belief, wider)
        return out

    def _with_background(self, h: History, belief: Belief) -> Belief:
        """Add the variance that comes from having B background rows instead of all."""
        if h.full is None or h.base_by_row is None or (h.rows.n and h.by_row is None):
            return belief
        b, k = h.base_by_row.shape
        if b < 2:
            return belief
        rows = Rows()
        if h.by_row is not None:  # every background row is another output
            y = h.by_row.reshape(-1, b * k)
            rows = rows.add(h.rows.design(), y, np.ones(len(y)))
        base, full = h.base_by_row.reshape(-1), np.tile(h.full, b)
        p = self._fit(replace(h, rows=rows, base=base, full=full, end_values=None))
        if p is None:
            return belief
        phi, weights = np.asarray(p.mean).reshape(-1, b, k), self.design.weights
        gap = phi - np.einsum("dbk,b->dk", phi, weights)[:, None, :]
        w2 = weights**2
        added = np.einsum("ibk,jbk,b->ijk", gap, gap, w2) / max(1 - w2.sum(), 1e-12)
        one, two = float(np.trace(belief.scale).sum()), float(np.trace(added).sum())
        if not one + two > 0:
            return belief
        added_dof = max(1 / float(w2.sum()) - 1, 1.0)  # of a weighted variance
        dof = (one + two) ** 2 / (one**2 / belief.dof + two**2 / added_dof)  # Welch–Satterthwaite
        return Belief(belief.mean, belief.scale + added, max(dof, 1.0))


def end_variance(end_values: Floats) -> Floats:
    """Variance ``(k,)`` of one value of a noisy model, from repeats ``(r, 2, k)`` of both ends.

    The ends are the empty and the full coalition. Infinite if they were asked only once.
    """
    if len(end_values) < 2:
        return np.full(end_values.shape[2], np.inf)
    return np.asarray(end_values.var(axis=0, ddof=1).mean(axis=0))


def _average_repeats(
    masks: Masks, y: Outputs, complement: Outputs | None, end_values: Floats
) -> tuple[Masks, Outputs, Outputs | None, Noise]:
    """Average units that were asked more than once, and pool the variance among repeats."""
    packed = np.packbits(masks, axis=1)
    _, first, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    repeats = np.bincount(group).astype(np.float64)
    values = np.stack([y] if complement is None else [y, complement])  # (1 or 2, n, k)
    means = np.zeros((len(values), len(repeats), y.shape[1]))
    for mean, value in zip(means, values, strict=True):
        np.add.at(mean, group, value)
    means /= repeats[:, None]
    squares = np.square(values - means[:, group]).sum(axis=(0, 1))
    end_dof = 2.0 * (len(end_values) - 1)
    dof = end_dof + len(values) * float((repeats - 1).sum())
    if end_dof:
        squares += end_variance(end_values) * end_dof
    variance = squares / dof if dof else np.full(y.shape[1], np.nan)  # NaN: nothing repeated
    order = np.argsort(first)  # as they were first asked
    noise = Noise(variance, max(dof, 1.0), repeats[order], len(end_values))
    second = None if complement is None else means[1, order]
    return masks[first[order]], means[0, order], second, noise
