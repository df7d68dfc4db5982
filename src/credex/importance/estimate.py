"""Means of φ and of |φ| over a population, from a surrogate and unbiased estimates in some rows.

Row i of the population has the surrogate's Shapley value u_i (of a fit that has not seen the row);
the rows in the sample also have an unbiased estimate u_i + r̂_i, where r̂_i is the Shapley value of
what the surrogate leaves of the model, from a few queries. The mean of φ is the mean of u over the
population plus the mean of r̂ over the sample: a survey's difference estimator, unbiased whatever
the surrogate misses.

For |φ| the noise of r̂ must not enter: the mean of |u + r̂| is too large. What noise adds depends on
the distribution of r over rows, of which several shapes are fitted and weighted (`SizeModels`).

The interval adds the sources of error. The first is between-row variance of what each row adds
(which holds the noise within rows; a finite-population correction takes out what is known of the
rows asked), with the most extreme row counted once more, and the error of the base value. The
second is that of τ², the second moment of r, on the scale of τ², because a mean of |φ| is concave
in it; it is correlated with the first, because large r̂ raise both. The third is the variance
between shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from credex.deconvolve import folded
from credex.importance.shapes import SizeModels, quantiles, tail_variance
from credex.posteriors.assisted import effective_units
from credex.typing import Floats, Masks

__all__ = ["Means", "Residuals", "Sizes", "mean_sizes", "plain_means", "second_moment"]


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

    def without_rounding(self, tolerance: Floats) -> Self:
        """Return them with zeros where nothing is beyond ``tolerance (k,)``."""
        none = np.maximum(np.abs(self.lower), np.abs(self.upper)) <= tolerance  # (d, k)
        value, lower, upper = (np.where(none, 0.0, x) for x in (self.value, self.lower, self.upper))
        covariance = np.where(none[:, None] | none, 0.0, self.covariance)
        return replace(self, value=value, lower=lower, upper=upper, covariance=covariance)


@dataclass(frozen=True, slots=True, eq=False)
class Sizes(Means):
    """Means of |φ|, with the sources of their errors ``(d, k)``.

    Attributes
    ----------
    spread, noise, tail
        Variance of what rows add, the part of it that is noise within rows, and the square of the
        most extreme row.
    shape
        Variance between shapes.
    below, above
        What an error of τ² changes at each end of the interval.
    together
        Correlation of that error with the mean of what rows add.
    tilt
        Mean slope in r, which is that in the base value.
    """

    spread: Floats
    noise: Floats
    tail: Floats
    shape: Floats
    below: Floats
    above: Floats
    together: Floats
    tilt: Floats


def second_moment(f: Residuals) -> tuple[Floats, Floats]:
    """Unbiased estimate ``(d, k)`` of the mean square of r, which may be < 0, and its error."""
    each = f.r**2 - f.within
    return each.mean(axis=0), each.std(axis=0, ddof=1) / np.sqrt(len(each))


def mean_sizes(f: Residuals, level: float) -> Sizes:
    """Means of |φ| over the population."""
    fit = SizeModels(f.u, f.own, f.r, f.within).fit(level)
    q = quantiles(fit.score, level)
    tau = np.sqrt(np.maximum(second_moment(f)[0], 0.0))
    per_row, _ = folded(f.u, tau[:, None])
    covariance = _covariance(f, fit.score, fit.noise, fit.slope, per_row)
    half = q * np.sqrt(np.einsum("iik->ik", covariance))
    below, above = (np.abs(end - fit.value) for end in (fit.lower, fit.upper))
    together = _correlation(fit.score, fit.square)
    doubt = q * np.sqrt(fit.shape)
    down, up = (joint(half, end, together, doubt) for end in (below, above))
    at = np.arange(len(fit.value))
    covariance[at, at] += (((down + up) / 2) ** 2 - half**2).clip(min=0.0) / q**2
    ends = fit.value, fit.value - down, fit.value + up
    value, lower, upper = (np.maximum(end, 0.0) for end in ends)
    spread, noise = fit.score.var(axis=0, ddof=1), fit.noise.mean(axis=0)
    tail, tilt = tail_variance(fit.score) * len(f.r) ** 2, fit.slope.mean(axis=0)
    return Sizes(
        value, lower, np.maximum(upper, half), covariance, _dof(fit.score),
        spread, noise, tail, fit.shape, below, above, together, tilt,
    )  # fmt: skip


def joint(half: Floats, end: Floats, together: Floats, doubt: Floats) -> Floats:
    """Distance from a mean to the end of its interval, from those that its parts have alone."""
    return np.asarray(np.sqrt(half**2 + end**2 + 2 * together * half * end + doubt**2))


def _correlation(a: Floats, b: Floats) -> Floats:
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    size = np.sqrt((a**2).mean(axis=0) * (b**2).mean(axis=0))
    both = np.divide((a * b).mean(axis=0), size, out=np.zeros_like(size), where=size > 0)
    return np.asarray(both)


def plain_means(f: Residuals, level: float) -> Means:
    """Means of φ over the population."""
    value = f.u.mean(axis=(0, 2)) + f.r.mean(axis=0)
    covariance = _covariance(f, f.r, f.within, np.ones_like(f.r), f.u)
    half = quantiles(f.r, level) * np.sqrt(np.einsum("iik->ik", covariance))
    return Means(value, value - half, value + half, covariance, _dof(f.r))


def _dof(score: Floats) -> float:
    """Degrees of freedom of variances of ``score (n, d, k)``: fewer if few rows decide them."""
    left = (score - score.mean(axis=0)).reshape(len(score), -1)
    return effective_units(left.T)


def _covariance(
    f: Residuals, score: Floats, within: Floats, slope: Floats, per_row: Floats
) -> Floats:
    """Covariance ``(d, d, k)`` of the mean of ``score (n, d, k)`` plus that of ``per_row``.

    S²/n of a sample from all N rows, less what is known because the rows are a share of them, with
    the most extreme row counted once more. In S², noise within rows is not known, and of the part
    D² in which the F surrogates differ, D²/(F N) instead of D²/N is: each has met rows of one fold
    only.
    """
    n, d = score.shape[:2]
    left = score - score.mean(axis=0)
    S = np.einsum("nik,njk->ijk", left, left) / max(n - 1, 1)
    known = np.einsum("iik->ik", S) - within.mean(axis=0) - _between_folds(per_row)
    share = np.sqrt(np.maximum(known, 0.0) / np.maximum(np.einsum("iik->ik", S), 1e-300))
    out = S / n - S * share[:, None] * share / f.size
    at = np.arange(d)
    out[at, at] += max(1.0 - n / f.size, 0.0) * tail_variance(score)
    tilt = slope.mean(axis=0) / d
    out += tilt[:, None] * tilt * f.base_variance
    if f.size > len(f.u):  # the population's mean of the surrogate is that of a sample, too
        rows = per_row.mean(axis=2)
        rows = rows - rows.mean(axis=0)
        outer = np.einsum("nik,njk->ijk", rows, rows) / max(len(rows) - 1, 1)
        out += outer * (1.0 / len(rows) - 1.0 / f.size)
    return np.asarray(out)


def _between_folds(per_row: Floats) -> Floats:
    """D²·(1 − 1/F) of values ``(N, d, F, k)`` of F surrogates."""
    apart = per_row - per_row.mean(axis=2, keepdims=True)
    return np.asarray(((apart - apart.mean(axis=0)) ** 2).mean(axis=(0, 2)))
