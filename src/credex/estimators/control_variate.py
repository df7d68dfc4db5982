"""Beyond the size a Gaussian process pays for: the process stays as a control variate.

The process is fitted on the first units asked. Every later unit is drawn at random and tells what
the process's mean got wrong there; a Shapley regression of these residuals corrects the process,
and its sandwich says how well. Both are then weighed by their precision: cost O(N) from there on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from credex.posteriors import Belief, ShapleyPosterior
from credex.posteriors.geometry import Geometry
from credex.posteriors.strata import strata
from credex.typing import Floats, Masks

if TYPE_CHECKING:
    from credex.estimators.shapley import ShapleyRecipe

__all__ = ["MOST_UNITS", "NOTE", "beyond_process", "corrected"]

MOST_UNITS = 1_000
"""Units (pairs, or single coalitions) a process is fitted on: beyond, its cube of time tells."""

FEWEST = 30
"""Later units from which the residuals are looked at."""

NOTE = (
    "Gaussian process on the first {n:,} queries, then a regression on what it leaves (a control "
    "variate)"
)


def beyond_process(recipe: ShapleyRecipe) -> bool:
    """Whether the next units belong to the regression."""
    return not recipe.settings.noisy and recipe.asked.rows.n >= MOST_UNITS * units_size(recipe)


def units_size(recipe: ShapleyRecipe) -> int:
    """Queries of one unit."""
    return 2 if recipe.paired else 1


def corrected(
    recipe: ShapleyRecipe, belief: Belief, masks: Masks, residual: Floats
) -> tuple[Belief, bool]:
    """Belief of the process with the residuals of later units taken into account.

    Parameters
    ----------
    belief
        Of the process, from the first `MOST_UNITS` units.
    masks
        ``(m, d)`` all units asked, in order.
    residual
        ``(m − MOST_UNITS, k)`` response of the later ones less the process's mean.

    Returns
    -------
    belief, used
        And whether there were enough later units.
    """
    d, k = belief.mean.shape
    if len(residual) < max(FEWEST, d + 2):
        return belief, False
    layers = strata(d, paired=recipe.paired)
    of_unit = layers.index(masks)
    early = np.bincount(of_unit[:MOST_UNITS], minlength=len(layers.count)) / layers.count
    # What was asked early has no residual: the unasked share of a stratum speaks for it, and a
    # stratum that is complete takes part with zeros.
    done = np.flatnonzero(early[of_unit[:MOST_UNITS]] >= 1)
    units = np.concatenate([masks[done], masks[MOST_UNITS:]])
    left = (1 - early[of_unit[MOST_UNITS:]])[:, None] * residual
    r = np.concatenate([np.zeros((len(done), k)), left])
    nothing = np.zeros(k)
    geometry = Geometry.of(units, paired=recipe.paired, uniform=True)
    found = ShapleyPosterior(geometry, r, -r if recipe.paired else None, nothing, nothing)
    mean, scale = np.empty((d, k)), np.empty((d, d, k))
    for j in range(k):  # precision-weighted: C of the process, V of the correction
        C, V = belief.scale[:, :, j], found.scale_matrix[:, :, j]
        gain = C @ np.linalg.pinv(C + V, hermitian=True)
        mean[:, j] = belief.mean[:, j] + gain @ found.mean[:, j]
        scale[:, :, j] = C - gain @ C
        mean[:, j] += (belief.mean[:, j].sum() - mean[:, j].sum()) / d
    at = np.arange(d)
    scale[at, at] = np.maximum(scale[at, at], 0.0)
    return Belief(mean, (scale + scale.swapaxes(0, 1)) / 2, belief.dof), True
