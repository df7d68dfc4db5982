"""`Outlook`: how wide intervals will be with more rows and more pairs of each, and what to ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from credex.importance.estimate import Residuals, Sizes, joint, second_moment
from credex.posteriors.student import quantile
from credex.typing import Floats

__all__ = ["Choice", "Outlook"]

FACTORS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0)
"""Multiples of the pairs per row that are tried."""

LEAST_BETWEEN = 0.04
"""Variance between rows, as a share of a pair's, that is taken as there even if it is not seen.

With few rows it often is not, and a plan without it would keep to them.
"""

LEARNS, LEARNS_SD = 0.3, 0.15
"""Power of the cost with which the unexplained share of outputs falls, and how much it differs.

Mean and standard deviation over 19 populations, from the first look to the last: 0.03 for a product
of three signs, which no surrogate of pairs can learn, to 0.56 for a sum of smooth functions.
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """Rows and pairs of each, model rows that they cost, and the widest interval by its limit."""

    n: int
    p: int
    cost: int
    ratio: float


class Outlook:
    """Predicts widths of the intervals of mean |φ|; those of a loss have a class of their own.

    ``cost(n, p)`` gives the model rows of n rows with p pairs. ``limits (d, k)`` are the widths
    that are wanted. By default the surrogate stays as it is, and shapes as hard to tell apart: what
    is asked next is chosen so. With ``learning`` variances fall with that power of the cost, and
    with more pairs the estimates depend less on shapes: so needs are forecast.
    """

    def __init__(
        self,
        groups: Sequence[tuple[Residuals, Sizes]],
        limits: Sequence[Floats],
        *,
        shape: tuple[int, int],
        level: float,
        cost: Callable[[int, int], int],
        size: int,
        learning: float | None = None,
    ) -> None:
        self.n, self.p = shape
        self._cost, self._size, self._learning = cost, size, learning
        self._parts = [
            _Part(f, m, self.p, level, at) for (f, m), at in zip(groups, limits, strict=True)
        ]

    def ratio(self, n: int, p: int) -> float:
        """Widest interval as a share of its limit."""
        forecast = self._learning is not None
        ratio = max(part.ratio(n / self.n, p, forecast=forecast) for part in self._parts)
        return ratio * self._learned(n, p)

    def _learned(self, n: int, p: int) -> float:
        """Factor of widths because the surrogate learns."""
        if self._learning is None:
            return 1.0
        growth = self._cost(n, p) / self._cost(self.n, self.p)
        return float(growth ** (-self._learning / 2))

    def cheapest(self, goal: float = 1.0) -> Choice | None:
        """Return the choice that meets the limits with the fewest model rows, if there is one."""
        found = []
        for p in self._pairs():
            if self.ratio(self._size, p) > goal:
                continue
            low, high = self.n, self._size
            while low < high:
                middle = (low + high) // 2
                if self.ratio(middle, p) <= goal:
                    high = middle
                else:
                    low = middle + 1
            found.append(Choice(low, p, self._cost(low, p), self.ratio(low, p)))
        return min(found, key=lambda c: c.cost, default=None)

    def best(self, budget: int) -> Choice:
        """Return the choice with the narrowest intervals for so many model rows."""
        found = []
        for p in self._pairs():
            low, high = self.n, self._size
            if self._cost(low, p) > budget:
                continue
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if self._cost(middle, p) <= budget else (low, middle - 1)
            found.append(Choice(low, p, self._cost(low, p), self.ratio(low, p)))
        p = self.p
        while self._cost(self._size, p + 1) <= budget:  # all rows, and what is left for pairs
            p += 1
        if self._cost(self._size, p) <= budget:
            every = self._size, p
            found.append(Choice(*every, self._cost(*every), self.ratio(*every)))
        now = Choice(self.n, self.p, self._cost(self.n, self.p), np.inf)
        return min(found, key=lambda c: c.ratio, default=now)

    def _pairs(self) -> list[int]:
        return sorted({round(self.p * factor) for factor in FACTORS})


class _Part:
    """Sources of error of one cohort."""

    def __init__(self, f: Residuals, m: Sizes, p: int, level: float, limits: Floats) -> None:
        self._n, self._p, self._size = len(f.r), p, f.size
        self._limits, self._m = limits, m
        self._per_pair = p * m.noise
        self._between = np.maximum(m.spread - m.noise, self._per_pair * LEAST_BETWEEN)
        self._base = (m.tilt / f.r.shape[1]) ** 2 * f.base_variance
        self._q = quantile(level, self._n - 1)
        within = f.within.mean(axis=0)
        tau2 = np.maximum(second_moment(f)[0], p * within * LEAST_BETWEEN)
        self._square, self._within, self._now = tau2, p * within, tau2 + within

    def ratio(self, more: float, p: int, *, forecast: bool) -> float:
        m, n = self._m, max(more * self._n, 2.0)
        left = max(1 / n - 1 / self._size, 0.0)
        variance = self._between * left + self._per_pair / (p * n) + self._base / more
        variance = variance + m.tail * left / n
        half = self._q * np.sqrt(variance)
        total = self._square + self._within / p
        error = np.divide(total, self._now, out=np.ones_like(total), where=self._now > 0)
        if forecast:  # what τ² and shapes matter falls with the share of noise in the estimates
            error = np.full_like(error, self._p / p)
        error = error / np.sqrt(more)  # of τ², as a multiple of the present one
        doubt = self._q * error * np.sqrt(m.shape)
        ends = [joint(half, error * end, m.together, doubt) for end in (m.above, m.below)]
        return float(np.max((ends[0] + ends[1]) / self._limits, initial=0.0))
