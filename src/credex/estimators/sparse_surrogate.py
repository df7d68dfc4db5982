"""``features=K`` of BayesLIME: choose features output by output, and fit again on those."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from credex.estimators.selection import choose
from credex.posteriors import Belief, ErrorPosterior, ExactPosterior, LinearPosterior
from credex.typing import Floats, Masks

if TYPE_CHECKING:
    from credex.estimators.surrogate import SurrogateRecipe

__all__ = ["sparse_exact", "sparse_linear"]


def sparse_linear(
    recipe: SurrogateRecipe, p: LinearPosterior, keep: int
) -> tuple[Belief, Floats, ErrorPosterior, Floats, Masks]:
    """Refit on the chosen features, output by output."""
    d, k, rows = recipe.d, p.k, recipe.asked.rows
    mean, scale = np.zeros((d, k)), np.zeros((d, d, k))
    selected = np.zeros((d, k), dtype=np.bool_)
    intercept, sigma, r2, dof = np.zeros(k), np.zeros(k), np.zeros(k), np.inf
    design, y, w = rows.design(), rows.y(), rows.w()
    m, whole = p.moments, recipe.belief_of(p)
    ridge = float(np.mean(p.prior.precisions(d)))
    for j in range(k):
        at = choose(
            m.zz,
            m.zy[:, j] * m.output_scale[j],
            p.mean[:, j],
            keep=keep,
            method=recipe.settings.selection,
            ridge=ridge,
        )
        small = LinearPosterior.fit(
            design[:, at],
            y[:, j : j + 1],
            w,
            prior=p.prior.only(np.isin(np.arange(d), at)),
            intercept=p.intercept_kind,
            cluster=p.cluster,
        )
        b = recipe.belief_of(small)
        mean[at, j] = b.mean[:, 0]
        wider = whole.selection_factor(j, keep, recipe.settings.level)
        scale[at[:, None], at, j] = b.scale[:, :, 0] * wider**2
        selected[at, j] = True
        intercept[j], r2[j] = np.asarray(small.intercept)[0], np.asarray(small.r2)[0]
        sigma[j] = np.asarray(small.error.scale)[0]
        dof = min(dof, b.dof)
    return Belief(mean, scale, dof), intercept, replace(p.error, scale=sigma), r2, selected


def sparse_exact(
    recipe: SurrogateRecipe, p: ExactPosterior, keep: int
) -> tuple[Belief, Floats, ErrorPosterior, Floats, Masks]:
    """Return the same when every mask was asked: no width, so nothing to widen."""
    d, k = recipe.d, p.mean.shape[1]
    mean, selected = np.zeros((d, k)), np.zeros((d, k), dtype=np.bool_)
    intercept, misfit, spread = np.zeros(k), np.zeros(k), np.ones(k)
    masks, y, w = recipe.asked.rows.design(), recipe.asked.rows.y(), recipe.asked.rows.w()
    masks = np.concatenate([np.ones((1, d), dtype=np.bool_), masks])
    y, w = np.concatenate([recipe.asked.full[None, :], y]), np.concatenate([[1.0], w])  # type: ignore[index]
    linear = LinearPosterior.fit(masks, y, w)
    m = linear.moments
    for j in range(k):
        moment = m.zy[:, j] * m.output_scale[j]
        at = choose(m.zz, moment, p.mean[:, j], keep=keep, method=recipe.settings.selection)
        small = ExactPosterior.surrogate(masks[:, at], y[:, j : j + 1], w)
        mean[at, j], selected[at, j] = small.mean[:, 0], True
        intercept[j], misfit[j] = small.intercept[0], small.misfit[0]
        spread[j] = small.spread[0]
    exact = replace(p, mean=mean, misfit=misfit, spread=spread)
    return exact.belief, intercept, exact.error, exact.r2, selected
