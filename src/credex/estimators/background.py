"""Variance of the importances that comes from having some background rows instead of all."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from credex.designs.coalitions import CoalitionDesign
from credex.history import History, Rows
from credex.posteriors import Belief
from credex.typing import Floats, Outputs


class _Fits(Protocol):
    """The regression whose importances are wanted background row by background row."""

    design: CoalitionDesign

    def posterior(self, h: History) -> object:
        """Return the posterior of a history."""
        ...


def with_background(estimator: _Fits, h: History, belief: Belief) -> Belief:
    """Add the variance of the mean over B background rows."""
    if h.full is None or h.base_by_row is None or (h.rows.n and h.by_row is None):
        return belief
    b, k = h.base_by_row.shape
    if b < 2:
        return belief
    weights = estimator.design.weights
    full = np.repeat(h.full[None, :], b, axis=0)
    y = None if h.by_row is None else h.by_row.reshape(len(h.by_row), b * k)
    phi = _importances(estimator, h, y, h.base_by_row.reshape(-1), full.reshape(-1))
    phi = phi.reshape(-1, b, k)
    gap = phi - np.einsum("dbk,b->dk", phi, weights)[:, None, :]
    w2 = weights**2
    added = np.einsum("ibk,jbk,b->ijk", gap, gap, w2) / max(1 - w2.sum(), 1e-12)
    one, two = float(np.trace(belief.scale).sum()), float(np.trace(added).sum())
    if not one + two > 0:
        return belief
    rows = max(1 / float(w2.sum()) - 1, 1.0)  # degrees of freedom of a weighted variance
    share = two / (one + two)  # of the background in the variance: Welch–Satterthwaite
    dof = 1 / ((1 - share) ** 2 / belief.dof + share**2 / rows)
    return Belief(belief.mean, belief.scale + added, max(dof, 1.0))


def _importances(
    estimator: _Fits, h: History, y: Outputs | None, base: Floats, full: Floats
) -> Floats:
    """Importances ``(d, B·k)`` that other outputs on the same coalitions would have."""
    rows = Rows() if y is None else Rows().add(h.rows.design(), y, np.ones(len(y)))
    p = estimator.posterior(replace(h, rows=rows, base=base, full=full, end_values=None))
    if p is None:
        return np.zeros((estimator.design.d, len(base)))
    return np.asarray(getattr(p, "mean"))  # noqa: B009 - every posterior has one
