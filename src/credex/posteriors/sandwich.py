"""What each row of a linear posterior adds to it: hat values, misfits, the sandwich's variances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from credex.posteriors.scaled import Scaled, pieces
from credex.posteriors.student import heavier
from credex.typing import Floats

if TYPE_CHECKING:
    from credex.posteriors.linear import LinearPosterior


FEW_ROWS = 30.0
"""From so many rows that a variance rests on, it is known well enough."""

SHORT = 32
"""Rows of fewer features are summed by BLAS: `einsum` takes longer to begin a row than to do it."""

ENOUGH = 1.5
"""With so many times `FEW_ROWS` rows for each coefficient, a bound will mostly tell."""

TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """Some of the rows.

    Attributes
    ----------
    scaled
        The rows themselves.
    reach
        ``(n, d)``: √w·z·V, what a misfit of the row does to each feature.
    misfit
        ``(n, k)``: √w·ε, what φ̂ + bias leaves over.
    free
        ``(n,)``: 1 − h, h being the hat values.
    """

    scaled: Scaled
    reach: Floats
    misfit: Floats
    free: Floats

    def scores(self, cluster: int) -> Iterator[Floats]:
        """Leverage-corrected (HC3) shares of the rows, or clusters of rows, in φ̂, by output."""
        e = self.misfit / self.free[:, None]
        for j in range(e.shape[1]):
            yield _by_cluster(self.reach * e[:, j : j + 1], cluster)


@lru_cache(maxsize=SHORT)
def _ones(d: int) -> Floats:
    return np.ones(d)


def _by_cluster(score: Floats, cluster: int) -> Floats:
    """Sum the scores of rows that were drawn together."""
    if cluster == 1:
        return score
    return np.add.reduceat(score, np.arange(0, len(score), cluster), axis=0)


def _pieces(p: LinearPosterior, kept: Scaled | None) -> Iterator[Scaled]:
    """All rows, ``kept`` or scaled anew, as the posterior takes them."""
    if p.intercept_kind != "flat":
        return pieces(p.rows, np.zeros(p.d), np.zeros(p.k))
    return pieces(p.rows, p.moments.z_mean, p.moments.y_mean) if kept is None else kept.pieces()


def _hat(p: LinearPosterior, s: Scaled, reach: Floats, spare: Floats | None = None) -> Floats:
    """``(n,)`` hat values h."""
    if p.d < SHORT:
        hat: Floats = np.multiply(reach, s.rows, out=spare) @ _ones(p.d)
    else:
        hat = np.einsum("ij,ij->i", reach, s.rows)
    weight = p.moments.weight
    if weight > 0 and p.intercept_kind == "flat":
        hat += np.square(s.root) / weight
    return hat


def _free(hat: Floats) -> Floats:
    """1 − h, but not nothing."""
    free = 1.0 - hat
    np.maximum(free, 1e-8, out=free)
    return free


def shares(p: LinearPosterior) -> Iterator[Shares]:
    """Walk over all rows."""
    beta = p.unpulled
    for s in _pieces(p, None):
        reach = s.rows @ p.v
        yield Shares(s, reach, s.y - s.rows @ beta, _free(_hat(p, s, reach)))


def variances(p: LinearPosterior, kept: Scaled | None) -> tuple[Floats, float, Floats | None]:
    """Data part of the sandwich's diagonal, ``(d, k)``, trace of the hat, and `factors`, ``(d,)``.

    Factors are ``None`` if all are one. They come from how many rows the variance of a feature
    rests on, (Σa²)²/Σa⁴ with a the row's reach: of a column that is nearly always the same, only
    the few rows that differ tell. As a² ≤ Vⱼⱼh, Σa⁴ ≤ Vⱼⱼ·Σha², and where that says that there
    are rows enough nobody has to count them.
    """
    v, beta = p.v, p.unpulled
    d, k = beta.shape
    many = p.well_posed and p.n > ENOUGH * FEW_ROWS * (d + 1)
    out, bound, fourth = np.zeros((d, k)), np.zeros(d), np.zeros(d)
    buffer = other = np.empty(0)
    for s in _pieces(p, kept):
        n = len(s.rows)
        if buffer.size < n * d:
            buffer, other = np.empty(n * d), np.empty(n * d if d < SHORT else 0)
        reach = np.matmul(s.rows, v, out=buffer[: n * d].reshape(n, d))
        hat = _hat(p, s, reach, other[: n * d].reshape(n, d) if d < SHORT else None)
        e = s.y - s.rows @ beta
        e /= _free(hat)[:, None]
        if p.cluster > 1:
            for j in range(k):
                score = _by_cluster(reach * e[:, j : j + 1], p.cluster)
                out[:, j] += np.einsum("ij,ij->j", score, score)
        squares = np.square(reach, out=reach)
        if p.cluster == 1:
            out += squares.T @ np.square(e, out=e)
        if many:
            bound += hat @ squares
        else:
            fourth += np.einsum("ij,ij->j", squares, squares)
    trace = _trace(p)
    dof = max(p.n - trace, 1.0)
    if many:
        np.multiply(bound, v.diagonal(), out=fourth)
    if p.well_posed and _rows_enough(p, fourth, min(FEW_ROWS, dof)):
        return out, trace, None
    return out, trace, factors(_rows(p, _fourth(p) if many else fourth), dof)


def _trace(p: LinearPosterior) -> float:
    """Trace of the hat: that of VG = 1 − VΛ, and one for the intercept."""
    if p.well_posed:
        trace = p.d - float(p.precisions @ p.v.diagonal())
    else:
        trace = float(np.sum(p.v * p.products[0]))
    return trace + (p.intercept_kind == "flat" and p.moments.weight > 0)


def _fourth(p: LinearPosterior) -> Floats:
    """Σa⁴, ``(d,)``."""
    out = np.zeros(p.d)
    for some in shares(p):
        squares = np.square(some.reach)
        out += np.einsum("ij,ij->j", squares, squares)
    return out


def _rows(p: LinearPosterior, fourth: Floats) -> Floats:
    """(Σa²)²/Σa⁴, ``(d,)``; Σa² is the diagonal of VGV, with G = ZᵀWZ."""
    second = np.einsum("ij,ij->i", p.v @ p.products[0], p.v)
    return np.asarray(np.square(second) / np.maximum(fourth, TINY))


def _rows_enough(p: LinearPosterior, fourth: Floats, few: float) -> bool:
    """Whether (Σa²)² ≥ few·Σa⁴ for all features, given Σa⁴ or more.

    VGV = V − VΛV; where that loses its digits, rows are few.
    """
    second = p.v.diagonal() - np.square(p.v) @ p.precisions
    return not np.count_nonzero(np.square(second, out=second) < few * fourth)


def factors(rows: Floats, dof: float) -> Floats | None:
    """Factors ``(d,)`` of variances that rest on so many ``rows (d,)``; ``None``: all are one.

    A variance of few rows is known badly, which the one number of degrees of freedom does not say:
    at 95 % intervals are as wide as with one degree more than rows.
    """
    few = rows < min(FEW_ROWS, dof)
    if not few.any():
        return None
    out = np.ones(len(rows))
    for j in few.nonzero()[0].tolist():
        out[j] = max(heavier(1.0 + float(rows[j]), dof), 1.0)
    return out


def covariance(p: LinearPosterior) -> Floats:
    """Data part of the sandwich, ``(d, d, k)``."""
    out = np.zeros((p.d, p.d, p.k))
    for some in shares(p):
        for j, score in enumerate(some.scores(p.cluster)):
            out[:, :, j] += score.T @ score
    return out


def projected_meat(p: LinearPosterior) -> tuple[Floats, float, Floats]:
    """Meat ``(d, d, k)`` from unbiased residuals eᵢ²/(1−hᵢ), and the weighted mean of h.

    What the data part of the sandwich would be per row if leverage were no matter: the
    starting point of a forecast. Third, ``(d, d, k)``, the products of the rows' shares in
    two features' variances, summed over the rows.
    """
    meat, fourth = np.zeros((p.d, p.d, p.k)), np.zeros((p.d, p.d, p.k))
    hat, mass = 0.0, 0.0
    for some in shares(p):
        z = some.scaled.rows
        e2 = np.square(some.misfit) / some.free[:, None]
        reach = np.square(some.reach)
        for j in range(p.k):
            share = reach * e2[:, j : j + 1]
            fourth[:, :, j] += share.T @ share
            meat[:, :, j] += (z * e2[:, j : j + 1]).T @ z
        each = (e2 * np.square(some.scaled.root)[:, None]).sum(axis=1)
        hat += float(np.sum((1 - some.free) * each))
        mass += float(each.sum())
    return meat, hat / mass if mass > 0 else 0.0, fourth
