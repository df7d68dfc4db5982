"""Shapes of the surrogate's error r over rows, and the mean of |φ| = |u + r| under each.

u says nothing where it is small beside r, and the mean of |φ| depends on the shape of r there: with
u = 0 and r of second moment τ², it is 0.8 τ for a normal r, τ for r = ±τ, and √π·0.8 τ if r acts in
a share π of the rows only. So several shapes are fitted:

    φ = β u + r,  r = 0 with probability 1 − π, else N(0, τ²/π) or N(±√(0.9 τ²/π), 0.1 τ²/π),

with a few π (`SHARES`) and β (`TRUSTS`: a surrogate that has learned noise is better ignored). τ²
of each β is the mean of r̂² less that of its variance within rows: unbiased, perhaps negative.

With M(u) = E|βu + r| under a shape, M' its slope, and the posterior of a row given its r̂, the mean
of |φ| is

    mean of M(u) over the population + mean over the sample of
    E(|φ| given r̂) − M(u) + M'(u)·(r̂ − E(r given r̂)).

Without noise that is the mean of |φ| itself, whatever the shape. With much noise it is
M(u) + M'(u)·r̂: linear in r̂, whose noise then has no bias. Shapes are weighted by their likelihood;
where they differ and the data cannot tell, the difference is part of the interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.deconvolve import folded
from credex.posteriors.assisted import effective_units
from credex.posteriors.student import quantile
from credex.typing import Floats

__all__ = ["Shape", "SizeFit", "SizeModels", "quantiles", "tail_variance"]

SHARES = (1.0, 0.5, 0.25, 0.12, 0.06)
"""Shares of rows in which the surrogate may err."""

TRUSTS = (1.0, 0.5, 0.0)
"""Shares of the surrogate's value at which an error may be centred."""

LEARNING = 0.25
"""Power of the likelihood that weighs shapes: errors of few pairs are not normal.

With 1 (and no extreme row counted again), 0.5 and 0.25, intervals at a width held 0.81, 0.86 and
0.88 for a product of three signs, and 0.85, 0.88 and 0.90 for a slope behind two thresholds.
"""

LEAST_WEIGHT = 0.01
"""Shapes with less weight in every feature are left out."""

BINS = 256
"""Values of u that stand for the population; what they miss of mean |u| is added."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A share β of u and normal parts (weight, centre, spread) of r, in units of τ."""

    trust: float
    parts: tuple[tuple[float, float, float], ...]


def _shapes() -> tuple[Shape, ...]:
    out = []
    for trust in TRUSTS:
        for share in SHARES:
            wide, far, near = 1 / np.sqrt(share), np.sqrt(0.9 / share), np.sqrt(0.1 / share)
            rest = () if share == 1.0 else ((1.0 - share, 0.0, 0.0),)
            two = (share / 2, far, near), (share / 2, -far, near)
            out += [Shape(trust, (*rest, (share, 0.0, wide))), Shape(trust, (*rest, *two))]
    return tuple(out)


SHAPES = _shapes()


@dataclass(frozen=True, slots=True, eq=False)
class SizeFit:
    """Mean |φ| under a shape, or averaged over shapes.

    Attributes
    ----------
    value
        ``(d, k)`` means of |φ|, and ``lower``, ``upper`` those with a smaller and a larger τ².
    score, noise
        ``(n, d, k)`` what each row of the sample adds, and the variance of its noise.
    slope
        ``(n, d, k)`` derivative of M.
    shape
        ``(d, k)`` variance between shapes.
    square
        ``(n, d, k)`` squares whose mean τ² depends on.
    """

    value: Floats
    lower: Floats
    upper: Floats
    score: Floats
    noise: Floats
    slope: Floats
    shape: Floats
    square: Floats


class SizeModels:
    """All shapes for u ``(N, d, F, k)``, and ``own``, ``r``, ``within (n, d, k)`` of the sample."""

    def __init__(self, u: Floats, own: Floats, r: Floats, within: Floats) -> None:
        self._own, self._r, self._within = own, r, within
        unit = np.abs(u).max(axis=(0, 1, 2)) + np.sqrt(within.max(axis=(0, 1)))  # of each output
        unit = np.where(unit > 0, unit, 1.0)
        self._noise = np.maximum(within.mean(axis=0), (1e-6 * unit) ** 2)
        self._bins, self._share = _binned(u)
        left = np.abs(u).mean(axis=(0, 2)) - self._over_bins(np.abs(self._bins))
        self._left = left  # what bins miss of mean |u|
        self._squares = {t: (r + (1 - t) * own) ** 2 for t in TRUSTS}

    def fit(self, level: float) -> SizeFit:
        """Average over shapes; ``lower`` and ``upper`` have τ² at the ends of its interval."""
        weights = self._weights()
        kept = [i for i, w in enumerate(weights) if w.max(initial=0.0) >= LEAST_WEIGHT]
        weights = weights[kept] / weights[kept].sum(axis=0)
        value, lower, upper = np.zeros((3, len(kept), *self._noise.shape))
        score, noise, slope, square = np.zeros((4, *self._r.shape))
        for i, (at, w) in enumerate(zip(kept, weights, strict=True)):
            shape = SHAPES[at]
            tau2, error = self._second_moment(shape.trust)
            reach = error * quantiles(self._squares[shape.trust], level)
            found, each, doubt, tilt = self._at(shape, tau2)
            value[i] = found
            lower[i], upper[i] = (self._at(shape, tau2 + s * reach)[0] for s in (-1, 1))
            score, noise, slope = score + w * each, noise + w * doubt, slope + w * tilt
            square = square + w * self._squares[shape.trust]
        mean, low, high = ((weights * v).sum(axis=0) for v in (value, lower, upper))
        spread = (weights * (value - mean) ** 2).sum(axis=0)
        return SizeFit(mean, low, high, score, noise, slope, spread, square)

    def _second_moment(self, trust: float) -> tuple[Floats, Floats]:
        """Unbiased estimate ``(d, k)`` of τ² and its error; see `tail_variance`."""
        each = self._squares[trust] - self._within
        variance = each.var(axis=0, ddof=1) / len(each) + tail_variance(each)
        return each.mean(axis=0), np.sqrt(variance)

    def _weights(self) -> Floats:
        """Weights ``(shapes, d, k)`` by likelihood."""
        log = []
        for shape in SHAPES:
            tau = np.sqrt(np.maximum(self._second_moment(shape.trust)[0], 0.0))
            r = self._r + (1 - shape.trust) * self._own
            log.append(LEARNING * _logsum(self._densities(shape, tau, r)).sum(axis=0))
        weights = np.exp(np.array(log) - np.max(log, axis=0))
        return np.asarray(weights / weights.sum(axis=0))

    def _densities(self, shape: Shape, tau: Floats, r: Floats) -> Floats:
        """Log of weight × density ``(parts, n, d, k)`` of r̂ under every part."""
        out = []
        for weight, centre, spread in shape.parts:
            total = (spread * tau) ** 2 + self._noise
            out.append(np.log(weight) - 0.5 * ((r - centre * tau) ** 2 / total + np.log(total)))
        return np.array(out)

    def _at(self, shape: Shape, square: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Mean |φ| ``(d, k)``, scores, variances of their noise, slopes, for one τ².

        An estimate of τ² may be < 0. There M is continued by its reflection at 0, so that the error
        of τ² has no bias where M is linear in it.
        """
        tau = np.sqrt(np.maximum(square, 0.0))
        own, r = shape.trust * self._own, self._r + (1 - shape.trust) * self._own
        over, sd = shape.trust * self._left, np.sqrt(self._noise)
        size, slope = np.zeros((2, *r.shape))
        for weight, centre, spread in shape.parts:
            at = folded(shape.trust * self._bins + centre * tau, spread * tau)[0]
            over = over + weight * self._over_bins(at)
            m, tilt = folded(own + centre * tau, spread * tau)
            size, slope = size + weight * m, slope + weight * tilt
        score, up, down = (
            self._posterior(shape, tau, at, own, slope) - size for at in (r, r + sd, r - sd)
        )
        noise = ((up - down) / 2) ** 2
        if (square < 0).any():
            over, score, noise, slope = self._reflected(
                shape.trust, square, (over, score, noise, slope)
            )
        return over + score.mean(axis=0), score, noise, slope

    def _posterior(
        self, shape: Shape, tau: Floats, r: Floats, own: Floats, slope: Floats
    ) -> Floats:
        """E(|φ| given r̂) + M'·(r̂ − E(r given r̂)) of every row."""
        log = self._densities(shape, tau, r)
        share = np.exp(log - _logsum(log))
        size, middle = np.zeros((2, *r.shape))
        for (_, centre, spread), p in zip(shape.parts, share, strict=True):
            variance = (spread * tau) ** 2
            trust = variance / (variance + self._noise)
            at = centre * tau + trust * (r - centre * tau)
            size = size + p * folded(own + at, np.sqrt(trust * self._noise))[0]
            middle = middle + p * at
        return np.asarray(size + slope * (r - middle))

    def _reflected(
        self, trust: float, square: Floats, found: tuple[Floats, Floats, Floats, Floats]
    ) -> tuple[Floats, Floats, Floats, Floats]:
        below, tau = square < 0, np.sqrt(np.abs(square))
        own, r = trust * self._own, self._r + (1 - trust) * self._own
        mean = trust * self._over_bins(np.abs(self._bins))
        over = 2 * mean - self._over_bins(folded(trust * self._bins, tau)[0]) + trust * self._left
        slope = 2 * np.sign(own) - folded(own, tau)[1]
        instead = over, slope * r, slope**2 * self._noise, slope
        a, b, c, d = (np.where(below, new, old) for new, old in zip(instead, found, strict=True))
        return a, b, c, d

    def _over_bins(self, values: Floats) -> Floats:
        return np.asarray(np.einsum("b,bdk->dk", self._share, values))


def tail_variance(score: Floats) -> Floats:
    """Variance of a mean over n rows due to one more row like the most extreme one: max²/n².

    If few rows decide a variance, the sample may as well have missed one of them: k such rows that
    were seen count as k + 1. Without it, means of φ were covered 0.75 where the surrogate errs in
    rows near a threshold only.
    """
    left = score - score.mean(axis=0)
    return np.asarray((left**2).max(axis=0) / len(score) ** 2)


def quantiles(score: Floats, level: float) -> Floats:
    """Student-t quantiles ``(d, k)`` for means over rows, larger if few rows decide."""
    left = (score - score.mean(axis=0)).reshape(len(score), -1)
    found = [quantile(level, effective_units(column[None])) for column in left.T]
    return np.reshape(found, score.shape[1:])


def _logsum(log: Floats) -> Floats:
    top = log.max(axis=0)
    return np.asarray(top + np.log(np.exp(log - top).sum(axis=0)))


def _binned(u: Floats) -> tuple[Floats, Floats]:
    """Means ``(BINS, d, k)`` of sorted values of each feature, and the share of each bin."""
    n, d, folds, k = u.shape
    values = np.sort(u.transpose(0, 2, 1, 3).reshape(n * folds, d, k), axis=0)
    ends = np.linspace(0, len(values), min(BINS, len(values)) + 1).round().astype(int)
    counts = np.diff(ends)
    return np.add.reduceat(values, ends[:-1], axis=0) / counts[:, None, None], counts / len(values)
