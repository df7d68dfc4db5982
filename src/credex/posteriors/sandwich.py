"""Sandwich covariances of a weighted regression: influence, leverage, effective sample size.

The residual of an explanation is misfit, not noise, and its variance differs from row to row. The
sandwich V·[Σ zᵢzᵢᵀuᵢ²]·V allows for that (White 1980; MacKinnon and White 1985): BayesLIME takes
u = we/(1−h) (HC3), BayesSHAP u² = (we)²/(1−h) (HC2), with the weight w, the residual e and the
leverage h of a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from credex.posteriors.student import heavier
from credex.typing import Floats, Weights

ENOUGH_ROWS = 30.0
"""Effective rows from which a variance counts as well known."""

MIN_SLACK = 1e-8
"""Lower bound of 1 − leverage."""

TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """A chunk of the rows of a regression, and what each does to its coefficients.

    Attributes
    ----------
    z, w
        ``(n, d)`` centred rows, and their weights ``(n,)``.
    influence
        ``(n, d)``: z·V, the change of each coefficient per unit of a row's w·ε.
    residual
        ``(n, k)``: ε.
    slack
        ``(n,)``: 1 − leverage.
    """

    z: Floats
    w: Weights
    influence: Floats
    residual: Floats
    slack: Floats


def slack(leverage: Floats) -> Floats:
    """Return 1 − leverage, ``(n,)``, bounded away from zero."""
    return np.asarray(np.maximum(1.0 - leverage, MIN_SLACK))


def covariance(terms: Iterable[tuple[Floats, Floats]], d: int, k: int, cluster: int = 1) -> Floats:
    """Σ aᵢaᵢᵀuᵢ², ``(d, d, k)``, over chunks of influences a ``(n, d)`` and residuals u ``(n, k)``.

    ``cluster``: number of consecutive rows that were drawn together; their terms aᵢuᵢ are summed
    before they are squared.
    """
    out = np.zeros((d, d, k))
    for influence, residual in terms:
        for j in range(k):
            score = influence * residual[:, j : j + 1]
            if cluster > 1:
                score = np.add.reduceat(score, np.arange(0, len(score), cluster), axis=0)
            out[:, :, j] += score.T @ score
    return out


def effective_rows(total: Floats, squares: Floats) -> Floats:
    """(Σp)²/Σp²: how many equal shares p a sum of unequal ones is worth (Kish's sample size)."""
    return np.asarray(np.square(total) / np.maximum(squares, TINY))


def hc3(rows: Iterable[Influence], d: int, k: int, cluster: int) -> tuple[Floats, Floats]:
    """HC3 covariance ``(d, d, k)``, and the effective rows ``(d,)`` behind each variance.

    The rows' shares in a variance are w times their squared influences: of a column that is nearly
    constant, only the few rows that differ tell.
    """
    out, total, squares = np.zeros((d, d, k)), np.zeros(d), np.zeros(d)
    for r in rows:
        out += covariance([(r.influence, r.residual * (r.w / r.slack)[:, None])], d, k, cluster)
        square = np.square(r.influence)
        total += r.w @ square
        squares += np.square(r.w) @ np.square(square)
    return out, effective_rows(total, squares)


def few_rows_factors(rows: Floats, dof: float) -> Floats:
    """Factors ``(d,)`` ≥ 1 of variances that rest on so many effective ``rows (d,)``.

    A variance estimated from few rows is uncertain itself, which the degrees of freedom shared by
    all features do not say: 95 % intervals become those of a Student-t with ``rows + 1`` degrees.
    """
    return np.array(
        [
            max(heavier(1.0 + r, dof), 1.0) if r < min(ENOUGH_ROWS, dof) else 1.0
            for r in rows.tolist()
        ]
    )


def projected_meat(rows: Iterable[Influence], d: int, k: int) -> tuple[Floats, float, Floats]:
    """Meat ``(d, d, k)`` from unbiased squared residuals e²/(1−h), for forecasts.

    Returns
    -------
    meat
        ``(d, d, k)``: Σ wᵢ²zᵢzᵢᵀeᵢ²/(1−hᵢ).
    leverage
        Mean leverage, weighted by the squared residuals.
    shares
        ``(d, d, k)``: products of the rows' shares in two features' variances, summed over rows.
    """
    meat, shares, leverage, mass = np.zeros((d, d, k)), np.zeros((d, d, k)), 0.0, 0.0
    for r in rows:
        e2 = np.square(r.residual) * (np.square(r.w) / r.slack)[:, None]
        meat += covariance([(r.z, np.sqrt(e2))], d, k)
        shares += covariance([(np.square(r.influence), e2)], d, k)
        each = e2.sum(axis=1)
        leverage += float(np.sum((1 - r.slack) * each))
        mass += float(each.sum())
    return meat, leverage / mass if mass > 0 else 0.0, shares
