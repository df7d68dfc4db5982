"""``features=K``: choose features output by output, and fit again on those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from credex.designs.coalitions import CoalitionDesign
from credex.estimators.selection import choose
from credex.history import History
from credex.options import Options
from credex.posteriors import (
    Belief,
    ErrorPosterior,
    ExactPosterior,
    LinearPosterior,
    ShapleyPosterior,
)
from credex.posteriors.shapley import Geometry, Noise
from credex.typing import Floats, Masks, Outputs

__all__ = ["Sparse", "sparse_exact_surrogate", "sparse_shapley", "sparse_surrogate"]


class _ShapleyFits(Protocol):
    """A Shapley regression that can be fitted on some features only."""

    design: CoalitionDesign
    options: Options

    def units(self, h: History) -> tuple[Masks, Outputs, Outputs | None, Noise | None]:
        """Return the units of a history."""
        ...

    def geometry(self, masks: Masks, columns: Masks | None = None) -> Geometry:
        """Return the factorisation of masks."""
        ...


class Sparse:
    """Importances of K features for each of k outputs, filled in output by output."""

    def __init__(self, d: int, k: int) -> None:
        self.mean, self.scale = np.zeros((d, k)), np.zeros((d, d, k))
        self.selected = np.zeros((d, k), dtype=np.bool_)
        self.intercept, self.sigma, self.r2 = np.zeros(k), np.zeros(k), np.zeros(k)
        self.dof = np.inf

    def put(self, j: int, columns: Masks, belief: Belief, wider: float = 1.0) -> None:
        """Put the belief about the chosen ``columns (d,)`` of output j, widened by a factor."""
        i = np.flatnonzero(columns)
        self.mean[i, j] = belief.mean[:, 0]
        self.scale[i[:, None], i, j] = belief.scale[:, :, 0] * wider**2
        self.selected[i, j] = True
        self.dof = min(self.dof, belief.dof)

    @property
    def belief(self) -> Belief:
        """The belief about all features."""
        return Belief(self.mean, self.scale, self.dof)


def sparse_shapley(
    estimator: _ShapleyFits, h: History, p: ShapleyPosterior | ExactPosterior | LinearPosterior
) -> tuple[Belief, ErrorPosterior, Floats, Masks]:
    """K features that share all of f(x) − base, refitted output by output."""
    full, base = np.asarray(h.full), np.asarray(h.base)
    d, o = estimator.design, estimator.options
    masks, y, complement, noise = estimator.units(h)
    whole = estimator.geometry(masks)
    z = masks - 0.5 if d.paired else masks.astype(np.float64)
    weighted = (z * whole.weights[:, None]).T
    out = Sparse(d.d, len(full))
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
        columns = choose(
            weighted @ z,
            (weighted @ one.response)[:, 0],
            np.asarray(p.mean)[:, j],
            keep=o.features or d.d,
            method=o.selection,
        )
        small = replace(one, geometry=estimator.geometry(masks, columns))
        wider = 1.0
        if one.scale_matrix.any():
            wider = one.belief.selection_factor(0, int(columns.sum()), o.level)
        out.put(j, columns, small.belief, wider)
        out.sigma[j], out.r2[j] = np.asarray(small.error.scale)[0], small.r2[0]
    selected = np.zeros((len(d.active), len(full)), dtype=np.bool_)
    selected[d.active] = out.selected
    return out.belief, replace(p.error, scale=out.sigma), out.r2, selected


def sparse_surrogate(
    h: History,
    p: LinearPosterior,
    options: Options,
    believe: Callable[[LinearPosterior], Belief],
    whole: Belief,
) -> tuple[Belief, Floats, ErrorPosterior, Floats, Masks]:
    """K features of a linear surrogate, refitted output by output.

    ``believe(posterior)`` gives the belief of a fit, ``whole`` is that of all features.
    """
    keep = options.features or p.d
    design, y, w = h.rows.design(), h.rows.y(), h.rows.w()
    m, ridge = p.moments, float(np.mean(p.prior.precisions(p.d)))
    out = Sparse(p.d, p.k)
    for j in range(p.k):
        columns = choose(
            m.zz,
            m.zy[:, j] * m.output_scale[j],
            p.mean[:, j],
            keep=keep,
            method=options.selection,
            ridge=ridge,
        )
        small = LinearPosterior.fit(
            design[:, columns],
            y[:, j : j + 1],
            w,
            prior=p.prior.only(columns),
            intercept=p.intercept_kind,
            cluster=p.cluster,
        )
        out.put(j, columns, believe(small), whole.selection_factor(j, keep, options.level))
        out.intercept[j], out.r2[j] = np.asarray(small.intercept)[0], np.asarray(small.r2)[0]
        out.sigma[j] = np.asarray(small.error.scale)[0]
    error = replace(p.error, scale=out.sigma)
    return out.belief, out.intercept, error, out.r2, out.selected


def sparse_exact_surrogate(
    masks: Masks, y: Outputs, w: Floats, p: ExactPosterior, options: Options
) -> tuple[Belief, Floats, ErrorPosterior, Floats, Masks]:
    """Return the same when every mask was asked: no width, so nothing to widen."""
    d, k = p.mean.shape
    out = Sparse(d, k)
    misfit, spread = np.zeros(k), np.ones(k)
    m = LinearPosterior.fit(masks, y, w).moments
    for j in range(k):
        moment = m.zy[:, j] * m.output_scale[j]
        keep = options.features or d
        columns = choose(m.zz, moment, p.mean[:, j], keep=keep, method=options.selection)
        small = ExactPosterior.surrogate(masks[:, columns], y[:, j : j + 1], w)
        out.put(j, columns, small.belief)
        out.intercept[j], misfit[j], spread[j] = (
            small.intercept[0],
            small.misfit[0],
            small.spread[0],
        )
    exact = replace(p, mean=out.mean, misfit=misfit, spread=spread)
    return exact.belief, out.intercept, exact.error, exact.r2, out.selected
