"""What the choice of background rows adds to the uncertainty."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from credex.posteriors import Belief
from credex.posteriors.rows import Rows
from credex.typing import Floats, Outputs

if TYPE_CHECKING:
    from credex.estimators.shapley import ShapleyRecipe


def with_background(recipe: ShapleyRecipe, belief: Belief) -> Belief:
    """Add the variance that comes from having B background rows instead of all."""
    a = recipe.asked
    if a.base_by_row is None or (a.rows.n and a.by_row is None):
        return belief
    b, k = a.base_by_row.shape
    if b < 2:
        return belief
    full = np.repeat(recipe.full[None, :], b, axis=0)
    y = None if a.by_row is None else a.by_row.reshape(len(a.by_row), b * k)
    phi = _mean_of(recipe, y, a.base_by_row.reshape(-1), full.reshape(-1)).reshape(-1, b, k)
    gap = phi - np.einsum("dbk,b->dk", phi, recipe.weights)[:, None, :]
    w2 = recipe.weights**2
    share = np.einsum("ibk,jbk,b->ijk", gap, gap, w2) / max(1 - w2.sum(), 1e-12)
    one, two = float(np.trace(belief.scale).sum()), float(np.trace(share).sum())
    if not one + two > 0:
        return belief
    rows = max(1 / float(w2.sum()) - 1, 1.0)  # as many as even weights would stand for
    dof = (one + two) ** 2 / (one**2 / belief.dof + two**2 / rows)  # Welch–Satterthwaite
    return Belief(belief.mean, belief.scale + share, max(dof, 1.0))


def _mean_of(recipe: ShapleyRecipe, y: Outputs | None, base: Floats, full: Floats) -> Floats:
    """Importances that other outputs on the same coalitions would have."""
    rows = Rows() if y is None else Rows().add(recipe.asked.rows.design(), y, np.ones(len(y)))
    twin = type(recipe)(
        recipe.neighbourhood,
        recipe.settings,
        recipe.context,
        replace(recipe.asked, rows=rows, base=base, full=full, anchors=None),
    )
    p = twin.posterior()
    return np.zeros((recipe.d, len(base))) if p is None else np.asarray(p.mean)
