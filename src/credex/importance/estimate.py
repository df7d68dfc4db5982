"""Means of φ and of |φ| over a population, from a surrogate and unbiased estimates in some rows.

Row i of the population has the surrogate's Shapley value u_i (of a fit that has not seen the row);
the rows in the sample also have an unbiased estimate u_i + r̂_i, where r̂_i is the Shapley value of
what the surrogate leaves of the model, from a few queries. The mean of φ is the mean of u over the
population plus the mean of r̂ over the sample: a survey's difference estimator, unbiased whatever
the surrogate misses.

For |φ| the noise of r̂ must not enter: the mean of |u + r̂| is too large. With
m(u, τ) = E|N(u, τ²)| the estimate is

    mean of m(u, τ) over the population + mean of m'(u, τ)·r̂ over the sample,

where τ² is the mean square of r over rows: that of r̂ less its variance within rows. r̂ enters
linearly, so its noise has no bias. If u has a smooth density near zero, what m corrects depends on
the second moment τ² only, not on the shape of the distribution.

The interval adds the two sources of error. The first is linear: between-row variance of m'·r̂
(which holds the noise within rows; a finite-population correction takes out what is known of the
rows asked), and the error of the base value. The second is that of τ², on the scale of τ², because
a mean of m is concave in it: near zero, τ² may as well be zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.deconvolve import folded
from credex.posteriors.assisted import effective_units
from credex.posteriors.student import quantile
from credex.typing import Floats, Masks

__all__ = ["Means", "Residuals", "mean_sizes", "plain_means"]


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """The surrogate's values of a population, and what is known of its error.

    Attributes
    ----------
    u
        Shapley values ``(N, d, F, k)`` of F surrogates at the rows of the population.
    own
        ``(n, d, k)`` those of the rows in the sample, by surrogates that have not seen them.
    r, within
        Estimates ``(n, d, k)`` of the surrogate's error, and their variances within rows.
    base_variance
        ``(k,)`` variance of the base value, of which each feature has an equal share.
    size
        Rows of the whole population, of which ``u`` may be a sample.
    """

    u: Floats
    own: Floats
    r: Floats
    within: Floats
    base_variance: Floats
    size: float

    def only(self, population: Masks, sample: Masks, size: float) -> Residuals:
        """Return the part of one cohort, which has ``size`` rows."""
        return Residuals(
            self.u[population],
            self.own[sample],
            self.r[sample],
            self.within[sample],
            self.base_variance,
            size,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Means:
    """Means ``(d, k)`` with the ends of their intervals, and the covariance ``(d, d, k)``."""

    value: Floats
    lower: Floats
    upper: Floats
    covariance: Floats
    dof: float


def second_moment(f: Residuals) -> tuple[Floats, Floats]:
    """Unbiased estimate ``(d, k)`` of the mean square of r, which may be < 0, and its error."""
    each = f.r**2 - f.within
    return each.mean(axis=0), each.std(axis=0, ddof=1) / np.sqrt(len(each))


def mean_at(f: Residuals, square: Floats) -> tuple[Floats, Floats]:
    """Estimate of the mean |φ| ``(d, k)`` and slopes ``(n, d, k)`` for τ² = ``square``.

    An estimate of τ² may be < 0. There the function is continued by its reflection at 0, so that
    the error of τ² has no bias where the function is linear in it.
    """
    tau = np.sqrt(np.abs(square))
    value, slope = folded(f.u, tau[:, None])[0].mean(axis=(0, 2)), folded(f.own, tau)[1]
    negative = square < 0
    if negative.any():
        value = np.where(negative, 2 * np.abs(f.u).mean(axis=(0, 2)) - value, value)
        slope = np.where(negative, 2 * np.sign(f.own) - slope, slope)
    return value + (slope * f.r).mean(axis=0), slope


def mean_sizes(f: Residuals, level: float) -> Means:
    """Means of |φ| over the population."""
    square, error = second_moment(f)
    value, slope = mean_at(f, square)
    dof = _dof(slope * f.r)
    q = quantile(level, dof)
    per_row, _ = folded(f.u, np.sqrt(np.maximum(square, 0.0))[:, None])
    covariance = _covariance(f, slope * f.r, slope**2 * f.within, slope, per_row)
    half = q * np.sqrt(np.einsum("iik->ik", covariance))
    below = value - mean_at(f, square - q * error)[0]
    above = mean_at(f, square + q * error)[0] - value
    at = np.arange(len(value))
    covariance[at, at] += ((np.abs(below) + np.abs(above)) / (2 * q)) ** 2
    lower, upper = value - np.hypot(half, below), value + np.hypot(half, above)
    value, lower, upper = (np.maximum(ends, 0.0) for ends in (value, lower, upper))
    return Means(value, lower, np.maximum(upper, half), covariance, dof)


def plain_means(f: Residuals, level: float) -> Means:
    """Means of φ over the population."""
    dof = _dof(f.r)
    value = f.u.mean(axis=(0, 2)) + f.r.mean(axis=0)
    covariance = _covariance(f, f.r, f.within, np.ones_like(f.r), f.u)
    half = quantile(level, dof) * np.sqrt(np.einsum("iik->ik", covariance))
    return Means(value, value - half, value + half, covariance, dof)


def _dof(score: Floats) -> float:
    """Degrees of freedom of variances of ``score (n, d, k)``: fewer if few rows decide them."""
    left = (score - score.mean(axis=0)).reshape(len(score), -1)
    return effective_units(left.T)


def _covariance(
    f: Residuals, score: Floats, within: Floats, slope: Floats, per_row: Floats
) -> Floats:
    """Covariance ``(d, d, k)`` of the mean of ``score (n, d, k)`` plus that of ``per_row``.

    S²/n of a sample from all rows, less what is known because the rows are a share of them.
    """
    n, d = score.shape[:2]
    left = score - score.mean(axis=0)
    S = np.einsum("nik,njk->ijk", left, left) / max(n - 1, 1)
    noise = within.mean(axis=0)
    between = np.einsum("iik->ik", S) - noise
    share = np.sqrt(np.maximum(between, 0.0) / np.maximum(np.einsum("iik->ik", S), 1e-300))
    out = S / n - S * share[:, None] * share / f.size
    tilt = slope.mean(axis=0) / d
    out += tilt[:, None] * tilt * f.base_variance
    if f.size > len(f.u):  # the population's mean of the surrogate is that of a sample, too
        rows = per_row.mean(axis=2)
        rows = rows - rows.mean(axis=0)
        outer = np.einsum("nik,njk->ijk", rows, rows) / max(len(rows) - 1, 1)
        out += outer * (1.0 / len(rows) - 1.0 / f.size)
    return np.asarray(out)
