"""Beyond the size a Gaussian process is affordable for: the process as a control variate.

The process is fitted on the first units asked. Every later unit is drawn at random and tells what
the process's mean got wrong there; a Shapley regression of these residuals corrects the process,
and its sandwich says how well. Both are then weighed by their precision: cost O(N) from there on.
"""

from __future__ import annotations

import numpy as np

from credex.designs.coalitions import PROCESS_UNITS
from credex.posteriors import Belief, ShapleyPosterior
from credex.posteriors.shapley import Geometry, strata
from credex.typing import Floats, Masks

__all__ = ["NOTE", "corrected"]

MIN_RESIDUALS = 30
"""Later units from which the residuals are used."""

NOTE = (
    "Gaussian process on the first {n:,} queries, then a regression on what it leaves (a control "
    "variate)"
)


def corrected(
    belief: Belief, masks: Masks, residual: Floats, *, paired: bool
) -> tuple[Belief, bool]:
    """Correct the belief of the process by the residuals of later units.

    Parameters
    ----------
    belief
        Of the process, from the first `PROCESS_UNITS` units.
    masks
        ``(m, d)`` all units asked, in order.
    residual
        ``(m − PROCESS_UNITS, k)`` response of the later ones less the process's mean.
    paired
        Whether units are pairs.

    Returns
    -------
    belief, used
        And whether there were enough later units.
    """
    d, k = belief.mean.shape
    if len(residual) < max(MIN_RESIDUALS, d + 2):
        return belief, False
    layers = strata(d, paired=paired)
    stratum = layers.index(masks)
    first, later = stratum[:PROCESS_UNITS], stratum[PROCESS_UNITS:]
    early = np.bincount(first, minlength=len(layers.count)) / layers.count
    # Early units have no residual: the unasked share of a stratum speaks for them, and a stratum
    # that is complete takes part with zeros.
    done = np.flatnonzero(early[first] >= 1)
    units = np.concatenate([masks[done], masks[PROCESS_UNITS:]])
    r = np.concatenate([np.zeros((len(done), k)), (1 - early[later])[:, None] * residual])
    zero = np.zeros(k)
    geometry = Geometry.of(units, paired=paired, uniform=True)
    found = ShapleyPosterior(geometry, r, -r if paired else None, zero, zero)
    mean, scale = np.empty((d, k)), np.empty((d, d, k))
    for j in range(k):  # precision-weighted: C of the process, V of the correction
        C, V = belief.scale[:, :, j], found.scale_matrix[:, :, j]
        gain = C @ np.linalg.pinv(C + V, hermitian=True)
        mean[:, j] = belief.mean[:, j] + gain @ found.mean[:, j]
        scale[:, :, j] = C - gain @ C
        mean[:, j] += (belief.mean[:, j].sum() - mean[:, j].sum()) / d
    i = np.arange(d)
    scale[i, i] = np.maximum(scale[i, i], 0.0)
    return Belief(mean, (scale + scale.swapaxes(0, 1)) / 2, belief.dof), True
