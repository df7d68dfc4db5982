"""Shapley interactions of pairs of features, from the queries of an explanation.

The interaction index of i and j is the mean of v(S, i, j) − v(S, i) − v(S, j) + v(S) over
coalitions S of the others, with the weights of Shapley values among d − 1 players (Grabisch and
Roubens). Like a Shapley value it is linear in the game: it is exact from all coalitions, and
otherwise that of a surrogate, corrected by the coalitions that were left out of its fit
(`credex.posteriors.assisted`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from credex.designs.coalitions import CoalitionDesign
from credex.errors import InputError
from credex.estimators.background import BackgroundEstimator, fit_surrogates
from credex.estimators.base import Estimator
from credex.estimators.forecast import fill_strata
from credex.history import History
from credex.posteriors.assisted import (
    BASIS_ROWS,
    CHUNK_CELLS,
    MAX_EXACT_ROWS,
    MAX_NODES,
    AnovaKernel,
    Correction,
    InputSpace,
    combine,
)
from credex.posteriors.sample import Sample
from credex.posteriors.shapley import strata
from credex.typing import Floats, Ints, Masks, Outputs

__all__ = ["PairBelief", "estimate_pairs", "interaction_weights"]

LEAST_UNITS = 3
"""Random coalitions, or pairs of them, from which a variance is taken."""


RANDOM_COALITIONS = (
    "interactions need random coalitions: explain with sampler='paired' or "
    "'random', and the default recipe"
)


@dataclass(frozen=True, slots=True, eq=False)
class PairBelief:
    """Student-t beliefs about the interaction indices of d features.

    ``mean`` and ``scale (d, d, k)`` are symmetric, with zeros on the diagonals; ``scale_of_sums
    (d, k)`` are the scales of each feature's sum.
    """

    mean: Floats
    scale: Floats
    scale_of_sums: Floats
    dof: float

    @classmethod
    def exact(cls, mean: Floats) -> PairBelief:
        """Return indices that are known."""
        return cls(mean, np.zeros_like(mean), np.zeros(mean.shape[1:]), np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """Queries of a history as inputs of a surrogate.

    ``rows (n, p)`` begin with the instance; ``units (m, q)`` are positions of coalitions that were
    drawn together, with ``masks (m, q, d)``. Each unit stands for ``scale (m,)`` units, of which a
    share ``left (m,)`` was not asked. If the empty coalition is a mean over background rows, those
    asked are at ``base (b,)`` with ``base_weights``; otherwise it is row 1.
    """

    space: InputSpace
    rows: Floats
    y: Outputs
    units: Ints
    masks: Masks
    scale: Floats
    left: Floats
    base: Ints
    base_weights: Floats
    sample: Sample


def estimate_pairs(estimator: Estimator, h: History) -> PairBelief:
    """Estimate the interactions of the active features from a history."""
    design, d = estimator.design, estimator.d
    if h.full is None:
        raise InputError("nothing was asked yet")
    if d < 2:
        return PairBelief.exact(np.zeros((d, d, len(h.full))))
    if estimator.options.noisy:
        raise InputError("interactions of a noisy model are not estimated; average its outputs")
    if isinstance(estimator, BackgroundEstimator):
        s = _of_background(estimator, h)
    elif not isinstance(design, CoalitionDesign):
        raise InputError(RANDOM_COALITIONS)
    elif design.is_complete(h):
        return _exact(h, d)
    else:
        s = _of_coalitions(design, h)
    if len(s.units) < LEAST_UNITS:
        raise InputError(f"{h.n_queries} queries are too few for interactions; refine it first")
    return _estimate(s, int(estimator.options.seed))


def interaction_weights(masks: Masks) -> Floats:
    """Weights ``(n, d, d)`` of the values of coalitions in the interaction indices."""
    d, size = masks.shape[1], masks.sum(axis=1)

    def share(others: Ints) -> Floats:
        chosen = [comb(d - 2, int(s)) if 0 <= s <= d - 2 else 0 for s in others]
        return np.array([0.0 if c == 0 else 1.0 / ((d - 1) * c) for c in chosen])[:, None, None]

    z = masks.astype(np.float64)
    both, neither = z[:, :, None] * z[:, None], (1 - z)[:, :, None] * (1 - z)[:, None]
    out = share(size - 2) * both + share(size) * neither
    out -= share(size - 1) * (1 - both - neither)
    out[:, np.arange(d), np.arange(d)] = 0.0
    return out


def _exact(h: History, d: int) -> PairBelief:
    masks = np.vstack([np.zeros((1, d), np.bool_), np.ones((1, d), np.bool_), h.rows.design()])
    y = np.vstack([np.asarray(h.base), np.asarray(h.full), h.rows.y()])
    y = y - y[0]  # interactions of a constant are zero only in theory
    mean = np.zeros((d, d, y.shape[1]))
    step = max(CHUNK_CELLS // d**2, 1)
    for part in (slice(i, i + step) for i in range(0, len(masks), step)):
        mean += np.einsum("nij,nk->ijk", interaction_weights(masks[part]), y[part])
    return PairBelief.exact(mean)


def _of_coalitions(design: CoalitionDesign, h: History) -> Sampled:
    """Masks are the inputs: every feature is on or off."""
    if not design.uniform or design.options.paper:
        raise InputError(RANDOM_COALITIONS)
    d, q, rows = design.d, design.unit, h.rows.even() if design.unit == 2 else h.rows
    masks, m = rows.design() if rows.n else np.zeros((0, d), np.bool_), rows.n // design.unit
    y = rows.y() if rows.n else np.zeros((0, len(np.asarray(h.full))))
    layers = strata(d, paired=design.paired)
    stratum, drawn = layers.index(masks[::q]), fill_strata(layers.turns, layers.count, m)
    ends = np.vstack([np.ones((1, d)), np.zeros((1, d))])
    return Sampled(
        InputSpace(tuple((j,) for j in range(d)), np.ones(d, dtype=np.bool_)),
        np.vstack([ends, masks]),
        np.vstack([np.asarray(h.full), np.asarray(h.base), y]),
        2 + np.arange(rows.n).reshape(m, q),
        masks.reshape(m, q, d),
        (layers.count / np.maximum(drawn, 1e-300))[stratum],
        (1 - drawn / layers.count)[stratum],
        np.empty(0, dtype=np.int64),
        np.empty(0),
        Sample(ends[1:], np.ones(1)),
    )


def _of_background(estimator: BackgroundEstimator, h: History) -> Sampled:
    """Inputs are hybrid rows of the instance and a background row."""
    asked = estimator.asked(h)
    m, d = len(asked.pairs), estimator.d
    layers = strata(d, paired=True)
    # pairs are drawn with replacement: none is ever asked in full
    expected = m * layers.mass[layers.index(asked.masks)]
    return Sampled(
        estimator.space,
        asked.rows,
        asked.y,
        asked.pairs,
        np.stack([asked.masks, ~asked.masks], axis=1),
        layers.count[layers.index(asked.masks)] / expected,
        np.ones(m),
        asked.base,
        asked.base_weights,
        estimator.background_rows(len(asked.y)),
    )


def _estimate(s: Sampled, seed: int) -> PairBelief:
    """Correct the surrogates' interactions by what left-out coalitions say of their error.

    All arrays have one entry for each of the P pairs of features.
    """
    d, (n, k) = s.space.d, s.y.shape
    middle, spread = s.y.mean(axis=0), s.y.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    y = (s.y - middle) / spread
    basis = s.rows[:BASIS_ROWS] if n > MAX_EXACT_ROWS else None
    units = (s.units, s.base[:, None])
    fits = fit_surrogates(s.space, s.rows, y, units, basis, seed=seed, fitted=True)
    i, j = np.triu_indices(d, 1)
    value, by_row = np.zeros((len(i), k)), np.zeros((len(s.sample.rows), len(i), k))
    sensitivity = np.zeros((len(i), n))
    left_out, base = np.empty((*s.units.shape, k)), np.empty((len(s.base), k))
    residual = np.zeros((n, k))
    for surrogate, judged in fits:
        f, rows = _functionals(surrogate.kernel, s, surrogate.basis, surrogate.coefficients)
        value += f @ surrogate.coefficients / len(fits)
        by_row += rows / len(fits)
        sensitivity += surrogate.sensitivity(f) / len(fits)
        left_out[judged] = surrogate.left_out(s.units[judged])
        residual += surrogate.residual / len(fits)
        if len(s.base):
            base[judged] = surrogate.left_out(s.base[judged, None])[:, 0]
    ends = residual[:2]  # what the surrogates get wrong of f(x) and of the base value
    weighted = base * s.base_weights[:, None]
    if len(s.base):
        ends = np.stack([residual[0], weighted.mean(axis=0)])
        weighted = (weighted - ends[1]) / max(len(weighted) - 1, 1)
    of_ends = interaction_weights(np.array([[True] * d, [False] * d]))[:, i, j]  # (2, P)
    of_units = interaction_weights(s.masks.reshape(-1, d))[:, i, j]
    of_units = s.scale[:, None, None] * of_units.reshape(*s.units.shape, len(i))
    # what was asked is known; the residuals of left-out units stand for what was not
    error = s.left[:, None, None] * left_out + (1 - s.left)[:, None, None] * residual[s.units]
    m, corrections = len(s.units), []
    for o in range(k):
        off = np.einsum("uqp,uq->p", of_units, error[:, :, o])
        each = np.einsum("uqp,uq->pu", of_units, left_out[:, :, o])
        influence = (each - each.mean(axis=1, keepdims=True)) * np.sqrt(s.left * m / max(m - 1, 1))
        refit = np.einsum("puq,uq->pu", sensitivity[:, s.units], left_out[:, :, o])
        corrections.append(
            Correction(
                off + ends[:, o] @ of_ends,
                np.hstack([influence, np.outer(of_ends[1], weighted[:, o])]),
                np.hstack([refit, sensitivity[:, s.base] * base[:, o]]),
            )
        )
    found, covariance, dof = combine(
        value, corrections, np.ones(k), np.ones((len(i), k)), sum_known=False
    )
    if s.sample.left_out > 0:
        covariance += s.sample.variance(by_row)
    mean, scale = np.zeros((d, d, k)), np.zeros((d, d, k))
    mean[i, j] = mean[j, i] = found
    scale[i, j] = scale[j, i] = np.sqrt(np.einsum("ppk->pk", covariance))
    member = np.zeros((d, len(i)))  # which pairs a feature is in
    member[i, np.arange(len(i))] = member[j, np.arange(len(i))] = 1.0
    sums = np.sqrt(np.einsum("dp,pqk,dq->dk", member, covariance, member, optimize=True))
    return PairBelief(mean * spread, scale * spread, sums * spread, max(dof, 1.0))


def _functionals(
    kernel: AnovaKernel, s: Sampled, basis: Floats, coefficients: Floats
) -> tuple[Floats, Floats]:
    """Interactions ``(P, m)`` of k(·, u) for m basis rows, and ``(n, P, k)`` of the fit by row."""
    d, m, n, k = s.space.d, len(basis), len(s.sample.rows), coefficients.shape[1]
    x, relevant = s.rows[:1], kernel.relevant
    nodes, shares = np.polynomial.legendre.leggauss(
        int(np.clip((len(relevant) + 1) // 2, 1, MAX_NODES))
    )
    out, by_row = np.zeros((m, d, d)), np.zeros((n, d, d, k))
    step = max(CHUNK_CELLS // max(n * d, 1), 1)
    for part in (slice(a, a + step) for a in range(0, m, step)):
        near, c = basis[part], coefficients[part]
        on, off = np.ones((d, 1, len(near))), np.ones((d, n, len(near)))
        for f in relevant.tolist():
            on[f] = kernel.factor(s.space, f, x, near)
            off[f] = kernel.factor(s.space, f, s.sample.rows, near)
        change = on - off
        for t, share in zip((1 + nodes) / 2, shares / 2, strict=True):
            mixed = off + t * change
            product = share * kernel.variance * mixed.prod(axis=0)  # (n, m)
            slope = change / mixed
            by_basis = np.moveaxis(slope, 2, 0)  # (m, d, n)
            weighted = by_basis * (product * s.sample.weights[:, None]).T[:, None]
            out[part] += weighted @ by_basis.transpose(0, 2, 1)
            if s.sample.left_out > 0:
                rows = np.moveaxis(slope, 1, 0)  # (n, d, m)
                for o in range(k):
                    scaled = rows * (product * c[:, o])[:, None]
                    by_row[:, :, :, o] += scaled @ rows.transpose(0, 2, 1)
    i, j = np.triu_indices(d, 1)
    return out[:, i, j].T, by_row[:, i, j]
