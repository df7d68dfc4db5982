"""Sparse Shapley explanations: K features that share all of f(x) − base."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from credex.estimators.selection import choose
from credex.posteriors import Belief, ErrorPosterior, ShapleyPosterior
from credex.typing import Floats, Masks

if TYPE_CHECKING:
    from credex.estimators.coalitions import Fit
    from credex.estimators.shapley import ShapleyRecipe


def sparse(recipe: ShapleyRecipe, p: Fit) -> tuple[Belief, ErrorPosterior, Floats, Masks]:
    """Refit on the chosen features only, output by output; Σφ stays f(x) − base."""
    k, d, s = len(recipe.full), recipe.d, recipe.settings
    first, y1, y2, noise = recipe.units()
    mean, scale = np.zeros((d, k)), np.zeros((d, d, k))
    selected = np.zeros((len(recipe.active), k), dtype=np.bool_)
    at = np.flatnonzero(recipe.active)
    errors, r2, dof = np.zeros(k), np.zeros(k), np.inf
    whole = recipe.geometry(first)
    z = first - 0.5 if recipe.paired else first.astype(np.float64)
    gram = (z * whole.weights[:, None]).T @ z
    for j in range(k):
        at_j = slice(j, j + 1)
        one = ShapleyPosterior(
            whole,
            y1[:, at_j],
            None if y2 is None else y2[:, at_j],
            recipe.base[at_j],
            (recipe.full - recipe.base)[at_j],
            None if noise is None else replace(noise, variance=noise.variance[at_j]),
        )
        moment = ((z * whole.weights[:, None]).T @ one.response)[:, 0]
        keep = choose(
            gram,
            moment,
            np.asarray(p.mean)[:, j],
            keep=s.features or d,
            method=s.selection,
        )
        columns = np.isin(np.arange(d), keep)
        small = replace(one, geometry=recipe.geometry(first, columns))
        mean[keep, j] = small.mean[:, 0]
        wider = (
            1.0
            if not one.scale_matrix.any()
            else one.belief.selection_factor(0, len(keep), s.level)
        )
        scale[keep[:, None], keep, j] = small.scale_matrix[:, :, 0] * wider**2
        errors[j], r2[j] = float(np.asarray(small.error.scale)[0]), float(small.r2[0])
        dof = min(dof, small.dof)
        selected[at[keep], j] = True
    error = replace(p.error, scale=errors)
    return Belief(mean, scale, dof), error, r2, selected
