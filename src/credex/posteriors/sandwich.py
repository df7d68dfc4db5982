"""What each row of a linear posterior adds to it: hat values, misfits, the sandwich's variances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from credex.posteriors.scaled import Scaled, pieces
from credex.posteriors.student import heavier
from credex.typing import Floats

if TYPE_CHECKING:
    from credex.posteriors.linear import LinearPosterior


FEW_ROWS = 30.0
"""From so many rows that a variance rests on, it is known well enough."""

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
            score = self.reach * e[:, j : j + 1]
            if cluster > 1:
                score = np.add.reduceat(score, np.arange(0, len(score), cluster), axis=0)
            yield score


def shares(p: LinearPosterior, kept: Scaled | None = None) -> Iterator[Shares]:
    """Walk over all rows, ``kept`` or scaled anew.

    ``reach`` is in a buffer: yours to change, and gone with the next piece.
    """
    flat, m = p.intercept_kind == "flat", p.moments
    if not flat:
        rows = pieces(p.rows, np.zeros(p.d), np.zeros(p.k))
    elif kept is None:
        rows = pieces(p.rows, m.z_mean, m.y_mean)
    else:
        rows = kept.pieces()
    v, beta = p.v, p.unpulled
    buffer: Floats | None = None
    for s in rows:
        if buffer is None or len(buffer) < len(s.rows):
            buffer = np.empty(s.rows.shape)
        reach = np.matmul(s.rows, v, out=buffer[: len(s.rows)])
        free = 1.0 - np.vecdot(reach, s.rows)
        if flat and m.weight > 0:
            free -= np.square(s.root) / m.weight
        yield Shares(s, reach, s.y - s.rows @ beta, np.maximum(free, 1e-8, out=free))


def variances(p: LinearPosterior, kept: Scaled | None) -> tuple[Floats, float, Floats]:
    """Data part of the sandwich's diagonal, ``(d, k)``, the trace of the hat, and rows, ``(d,)``.

    Rows: how many the variance of a feature rests on, (Σa²)²/Σa⁴ with a the row's reach. Of a
    column that is nearly always the same, only the few rows that differ tell.
    """
    out, trace, fourth = np.zeros((p.d, p.k)), 0.0, np.zeros(p.d)
    for some in shares(p, kept):
        trace += len(some.free) - float(some.free.sum())
        if p.cluster > 1:
            for j, score in enumerate(some.scores(p.cluster)):
                out[:, j] += np.einsum("ij,ij->j", score, score)
        squares = np.square(some.reach, out=some.reach)
        if p.cluster == 1:
            e = some.misfit / some.free[:, None]
            out += squares.T @ np.square(e, out=e)
        fourth += np.einsum("ij,ij->j", squares, squares)
    second = np.einsum("ij,ij->i", p.v @ p.products[0], p.v)  # of all rows, without them
    return out, trace, second * second / np.maximum(fourth, TINY)


def factors(rows: Floats, dof: float) -> Floats:
    """Factors ``(d,)`` of variances that rest on so many ``rows (d,)``.

    A variance of few rows is known badly, which the one number of degrees of freedom does not say:
    at 95 % intervals are as wide as with one degree more than rows.
    """
    out = np.ones(len(rows))
    for j in (rows < min(FEW_ROWS, dof)).nonzero()[0].tolist():
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
