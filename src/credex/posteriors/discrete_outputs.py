r"""Outputs that take few values, such as labels, counts and votes, and what they do to a kernel.

Where outputs repeat, a rule of a few features may fit every observation exactly by accident, and a
kernel fitted to them is then certain of that rule: on weighted votes, 95 % intervals covered as
little as 0.41 of the values. Real numbers that never repeat cannot be hit by accident. So, in
proportion to how often outputs repeat,

* a share of the prior variance that neither an additive nor a symmetric function explains stays
  *white*, free at every mask that was not asked; at least half a row's worth, so that labels which
  are additive as far as was asked are not certain either;
* the log length-scales have a tighter prior and the bending direction is shorter;
* main effects are less tied to interactions (`Kernel.tie`). On labels of forests, trees, neighbours
  and support vector machines and on votes, 95 % intervals from 2d + 5 focused queries cover 0.97
  so and 0.92 with the tie of real numbers, at the same errors.

Outputs that repeat no more often than real numbers do are not affected. The constants below were
chosen by coverage on games with labels and votes (eleven players); `docs/benchmarks/other_games.md`
measures them on other games.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.typing import Floats

ROUNDING, NEAR = 1e-6, 0.02
"""Outputs closer than these shares of their range are equal up to rounding, or nearly equal.

Labels with a small smooth part are labels all the same: on weighted votes with an additive part of
1e-5, 95 % intervals covered 0.35 to 0.68 when only rounding was allowed for, 0.89 to 0.97 with
this."""

BY_CHANCE, TWO_LABELS = 0.1, 0.5
"""Shares of equal pairs of outputs below which outputs are real numbers, and that two equally
frequent labels have."""

WHITE_SHARE = 0.3
"""Share of the unexplained prior variance that stays white for labels."""

SCALE_SD_FACTOR = 1 / 3
"""Factor of the prior standard deviation of the log length-scales for labels."""

LOG_RHO_CUT = 1.0
"""Subtracted from the upper bound of the bending direction's log length for labels."""


@dataclass(frozen=True, slots=True)
class DiscreteOutputs:
    """How discrete outputs are (0: real numbers, 1: two labels), and the share that stays white."""

    degree: float
    white: float

    @classmethod
    def of(cls, Y: Floats, simple: Floats, *, odd: bool = False) -> DiscreteOutputs:
        """Measure outputs ``Y (n, k)``.

        ``simple (n, p)`` is the design of functions too simple to fit by accident.
        ``odd``: Y are half differences, whose sign depends on the mask; row 0 is in every run.
        """
        degree = degree_of(Y, odd=odd)
        if not degree:
            return cls(0.0, 0.0)
        return cls(degree, WHITE_SHARE * degree * unexplained(Y, simple))

    def add_white(self, log_weights: Floats, shares: Floats) -> Floats:
        """Log variances of a kernel's parts, the white one with its share of the others added."""
        w = np.exp(log_weights)
        return np.append(log_weights[:-1], np.log(w[-1] + self.white * (shares @ w[:-1])))

    def without_white(self, log_weights: Floats, shares: Floats) -> Floats:
        """Undo `add_white`."""
        w = np.exp(log_weights)
        own = w[-1] - self.white * (shares @ w[:-1])
        return np.append(log_weights[:-1], np.log(max(own, np.finfo(float).tiny)))


def degree_of(Y: Floats, *, odd: bool = False) -> float:
    """How discrete the most discrete of the outputs ``Y (n, k)`` is; constant ones do not count."""
    return float(_degrees(Y, odd=odd).max(initial=0.0))


def _degrees(Y: Floats, *, odd: bool = False) -> Floats:
    """How discrete each output is, ``(k,)``."""
    spans = np.abs(Y).max(0) if odd else np.ptp(Y, axis=0)
    levels = np.abs(Y[1:]) if odd else Y
    shares = [repeats(y, s) if s > 0 else 0.0 for y, s in zip(levels.T, spans, strict=True)]
    degrees = (np.array(shares) - BY_CHANCE) / (TWO_LABELS - BY_CHANCE)
    return np.asarray(np.round(np.clip(degrees, 0.0, 1.0), 2))


def unseen_variance(Y: Floats) -> Floats:
    """Variance (k,) that one row unlike the n observed would add to discrete outputs ``Y (n, k)``.

    Zero for real numbers. Residuals do not show it where a rule fits all labels exactly.
    """
    return np.asarray(WHITE_SHARE * _degrees(Y) * Y.var(0) / len(Y))


def repeats(y: Floats, span: float) -> float:
    """Share of the pairs of outputs ``y (n,)`` that are equal.

    Nearly equal counts if most pairs are so both above and below the middle of the range: of rare
    probabilities, which are tiny for most masks, the large ones differ.
    """
    middle = 0.5 * (y.min() + y.max()) if len(y) else 0.0
    halves = [_close(part, NEAR * span) for part in (y[y <= middle], y[y > middle])]
    return _close(y, (NEAR if min(halves) >= TWO_LABELS else ROUNDING) * span)


def _close(y: Floats, distance: float) -> float:
    """Share of the pairs of ``y (n,)`` that are at most so far apart; 0 if there is none."""
    n = len(y)
    if n < 2:
        return 0.0
    v = np.sort(y)
    close = np.searchsorted(v, v + distance, side="right") - np.arange(1, n + 1)
    return float(2 * close.sum() / (n * (n - 1)))


def unexplained(Y: Floats, simple: Floats) -> float:
    """Share of the outputs' variance that least squares on ``simple (n, p)`` leaves.

    Corrected for the number of columns; at most 1, and at least the probability, by Jeffreys's
    rule, that the next row differs after n that did not.
    """
    n = len(Y)
    beta, _, rank, _ = np.linalg.lstsq(simple, Y, rcond=1e-9)
    left = ((Y - simple @ beta) ** 2).sum(0) / np.maximum((Y**2).sum(0), np.finfo(float).tiny)
    share = float(left.max()) * n / max(n - int(rank), 1)
    return min(max(share, 0.5 / (n + 1)), 1.0)
