"""A sparse polynomial of signs for half differences of pairs: interactions of few players.

A half difference is odd in the signs s of a mask, so it is a sum of products of odd order,
g(s) = Σ_T w_T Π_{j in T} s_j. Boosted trees of depth three, rules and polynomials have few terms,
which a forward selection finds: all of order three, and those that add two players to a term found
before.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from credex.history import joined, spans
from credex.typing import Floats, Masks

__all__ = ["OddPolynomial"]

ROWS_PER_TERM = 5
"""Rows for each term, at least. With 10, four of eight games of 20 and 40 rules (1,500 and 3,000
rows) were not found exactly, with 5 one."""

MAX_ROWS = 5_000
"""Rows that terms are chosen and fitted on, at most, to bound time."""

POOL = 30
"""Terms (at least; one for each player) that a screening hands to the forward selection. With 15 or
100 what is left was the same to 5 % on the games it was chosen on."""

COLLINEAR = 0.01
"""A term with less than this share of its size beside the others is not added."""

ROUNDING = 1e-12
"""A remainder below this share of the outputs is rounding."""

Term = tuple[int, ...]
Single = NDArray[np.float32]
"""Screening needs no more than single precision."""


@dataclass(frozen=True, slots=True, eq=False)
class OddPolynomial:
    """g(s) = Σ_j w_j s_j + (a free value per size) + Σ_T w_T Π_{j in T} s_j."""

    d: int
    sizes: Floats  # (q,) sums of signs above 0 that have a free value
    terms: tuple[Term, ...]
    weights: Floats  # (d + q + terms,)

    @classmethod
    def fit(cls, masks: Masks, y: Floats) -> OddPolynomial:
        """Choose the terms of half differences ``y (m,)`` at ``masks (m, d)`` and fit them.

        A term has to reduce the squared remainder, in units of its variance, by 2 log p, where p is
        the number of terms of order three (Foster and George's risk inflation criterion).
        """
        from scipy.linalg import solve_triangular

        masks, y = masks[:MAX_ROWS], y[:MAX_ROWS]
        d, s = masks.shape[1], _signs(masks)
        sizes = np.unique(np.abs(s.sum(axis=1)))
        sizes = sizes[sizes > 0][1:]  # single players, summed, give the free value of one size
        base = _base(s, sizes)
        terms, Q = _chosen(s, base, y)
        X = np.hstack([base, _products(s, terms)])
        R = Q.T @ X  # upper triangular: Q has the columns of X, orthonormal
        w = solve_triangular(R, Q.T @ y)
        w += solve_triangular(R, Q.T @ (y - X @ w))  # an exact fit is exact to rounding
        return cls(d, sizes, tuple(terms), w)

    def predict(self, masks: Masks) -> Floats:
        """Half differences at ``masks (m, d)``, (m,)."""
        parts = [np.empty(0)]
        for rows in spans(len(masks), len(self.weights)):
            s = _signs(masks[rows])
            parts.append(np.hstack([_base(s, self.sizes), _products(s, self.terms)]) @ self.weights)
        return joined(parts)

    @property
    def shapley(self) -> Floats:
        """Shapley values without what the free values add to all alike, (d,)."""
        phi = 2 * self.weights[: self.d]  # a copy
        for term, w in zip(self.terms, self.weights[self.d + len(self.sizes) :], strict=True):
            phi[list(term)] += 2 * w / len(term)
        return phi


class Screened(NamedTuple):
    """Scores of the terms that add two players to ``root``."""

    root: Term
    players: list[int]
    score: Single  # (pairs of players,), in the order of `numpy.triu_indices`


def _chosen(s: Floats, base: Floats, y: Floats) -> tuple[list[Term], Floats]:
    """Terms in the order of a forward selection, and orthonormal columns of ``base`` and them."""
    m, d = s.shape
    n_base, limit = base.shape[1], 2 * log(max(comb(d, 3), 2))
    most = max((m - n_base) // ROWS_PER_TERM, 0)
    Q = np.empty((m, n_base + most), order="F")  # orthonormal columns
    Q[:, :n_base], rank = np.linalg.qr(base)[0], n_base
    r = y - Q[:, :rank] @ (Q[:, :rank].T @ y)
    tiny, terms, last = ROUNDING**2 * float(y @ y), list[Term](), list[Term]()
    while rank < Q.shape[1]:
        pool = _pool(s, r, set(terms), last)
        C, last = _products(s, pool), []
        C -= Q[:, :rank] @ (Q[:, :rank].T @ C)
        while rank < Q.shape[1] and (left := float(r @ r)) > tiny:
            square = np.einsum("mt,mt->t", C, C)
            free = square > COLLINEAR * m
            gain = np.divide((r @ C) ** 2, square, out=np.zeros(len(pool)), where=free)
            j = int(gain.argmax())
            if gain[j] * (m - rank - 1) <= limit * (left - gain[j]):
                break
            q = C[:, j] / np.sqrt(square[j])
            Q[:, rank], rank = q, rank + 1
            r = r - q * (q @ r)
            C -= q[:, None] * (q @ C)
            last.append(pool[j])
        if not last:
            break
        terms += last
    return terms, Q[:, :rank]


def _pool(s: Floats, r: Floats, known: set[Term], last: list[Term]) -> list[Term]:
    """Terms that correlate most with the remainder: of order three, and beyond the ``last``."""
    d, size = s.shape[1], max(POOL, s.shape[1])
    largest = max(
        float(np.abs(r).max()), np.finfo(float).tiny
    )  # outputs may exceed single precision
    single, rest = s.astype(np.float32), (r / largest).astype(np.float32)
    found = [_screened(single, rest, (i,), range(i + 1, d)) for i in range(d - 2)]
    found += [_screened(single, rest, t, range(d)) for t in last]
    score = np.concatenate([f.score for f in found])
    score = np.round(score / max(float(score.max()), 1e-30), 4)  # the last bits decide nothing
    ends = np.cumsum([len(f.score) for f in found])
    pool: dict[Term, None] = {}
    best = np.argsort(-score, kind="stable")[: 2 * size]
    for k, at in zip(best.tolist(), np.searchsorted(ends, best, "right").tolist(), strict=True):
        f = found[at]
        a, b = np.triu_indices(len(f.players), 1)
        pair = k - int(ends[at]) + len(f.score)
        term = tuple(sorted((*f.root, f.players[a[pair]], f.players[b[pair]])))
        if term not in known:
            pool[term] = None
    return list(pool)[:size]


def _screened(s: Single, r: Single, root: Term, players: range) -> Screened:
    """Score ``root`` with any two others of ``players``: |Σ r Π s|."""
    others = [j for j in players if j not in root]
    z = s[:, others]
    score = np.abs((z * (s[:, list(root)].prod(axis=1) * r)[:, None]).T @ z)
    return Screened(root, others, score[np.triu_indices(len(others), 1)])


def _signs(masks: Masks) -> Floats:
    return np.where(masks, 1.0, -1.0)


def _base(s: Floats, sizes: Floats) -> Floats:
    """Columns of single players and of sizes, ``(m, d + q)``."""
    balance = s.sum(axis=1)[:, None]
    return np.hstack([s, (np.abs(balance) == sizes) * np.sign(balance)])


def _products(s: Floats, terms: list[Term] | tuple[Term, ...]) -> Floats:
    """Columns of products of signs, ``(m, terms)``."""
    out = np.empty((len(s), len(terms)))
    for j, term in enumerate(terms):
        out[:, j] = s[:, list(term)].prod(axis=1)
    return out
