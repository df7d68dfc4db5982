r"""Outputs that jump: how far a value function takes few values, and what that does to a kernel.

Labels, counts, votes: where outputs repeat, a rule of a few players may fit
every row asked by accident, exactly, and a kernel fitted to the rows then believes it without
doubt (measured on weighted votes: 95 % intervals that held 0.41). Values that never repeat cannot
be hit by accident. So, in proportion to how often outputs repeat,

* a share of the prior variance that neither an additive nor a symmetric game explains stays
  *white*, free at every mask that was not asked; at least half a row's worth, so that labels which
  are additive as far as was asked are not taken for certain either;
* the kernel's scales are held closer together and its bending direction is shorter: fewer rules
  to choose from.

Outputs that repeat no more often than real-valued ones do change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from credex.typing import Floats

__all__ = ["Jumps", "degree_of", "one_more"]

TOLERANCE = 1e-6
"""Outputs closer than this share of their range count as equal: the same but for rounding.

More would take outputs for labels that are small for most masks, as rare probabilities are."""

BY_CHANCE, ALWAYS = 0.1, 0.5
"""Share of equal pairs of outputs that real values stay under, and that two labels have."""

WHITE = 0.3
"""Share of the unexplained prior variance that stays white when outputs are labels."""

TIGHTER = 1 / 3
"""Deviation of the log scales then, relative to that for outputs which do not repeat."""

SHORTER = 1.0
"""Off the upper bound of the bending direction's log length then."""


@dataclass(frozen=True, slots=True)
class Jumps:
    """How far outputs repeat (0 … 1), and the share of the prior variance that stays white.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> votes = rng.integers(0, 2, size=(50, 1)) * 1.0
    >>> Jumps.of(votes, lambda: np.ones((50, 1))).degree
    0.98
    >>> Jumps.of(rng.normal(size=(50, 1)), lambda: np.ones((50, 1)))
    Jumps(degree=0.0, white=0.0)
    """

    degree: float
    white: float

    @classmethod
    def of(cls, Y: Floats, simple: Callable[[], Floats], *, odd: bool = False) -> Jumps:
        """Read off outputs ``Y (n, k)``.

        ``simple()`` gives the columns ``(n, p)`` of a game that fits by no accident. ``odd``: Y are
        half differences, of which the sign is the mask's and row 0 is asked in every run.
        """
        degree = degree_of(Y, odd=odd)
        if not degree:
            return cls(0.0, 0.0)
        return cls(degree, WHITE * degree * unexplained(Y, simple()))

    def add_white(self, log_weights: Floats, shares: Floats) -> Floats:
        """Logarithms of a kernel's weights, the last one with what stays white of the others."""
        w = np.exp(log_weights)
        return np.append(log_weights[:-1], np.log(w[-1] + self.white * (shares @ w[:-1])))

    def without_white(self, log_weights: Floats, shares: Floats) -> Floats:
        """Undo `add_white`."""
        w = np.exp(log_weights)
        own = w[-1] - self.white * (shares @ w[:-1])
        return np.append(log_weights[:-1], np.log(max(own, np.finfo(float).tiny)))

    @property
    def tighter(self) -> float:
        """Factor for the prior deviation of the log scales."""
        return float(TIGHTER**self.degree)

    @property
    def shorter(self) -> float:
        """What comes off the upper bound of the bending direction's log length."""
        return SHORTER * self.degree


def degree_of(Y: Floats, *, odd: bool = False) -> float:
    """How far outputs ``Y (n, k)`` repeat: 0 as real values do, 1 as two labels do.

    The largest of the outputs; those that are constant have nothing to say.
    """
    return float(_degrees(Y, odd=odd).max(initial=0.0))


def _degrees(Y: Floats, *, odd: bool = False) -> Floats:
    """The same for each output, ``(k,)``."""
    spans = np.abs(Y).max(0) if odd else np.ptp(Y, axis=0)
    levels = np.abs(Y[1:]) if odd else Y
    shares = [repeats(y, s) if s > 0 else 0.0 for y, s in zip(levels.T, spans, strict=True)]
    degrees = (np.array(shares) - BY_CHANCE) / (ALWAYS - BY_CHANCE)
    return np.asarray(np.round(np.clip(degrees, 0.0, 1.0), 2))


def one_more(Y: Floats) -> Floats:
    """Variance (k,) that one row in n, unlike all those asked, adds to each: none to real values.

    Residuals say nothing of it where outputs ``Y (n, k)`` are labels that a rule fits exactly.
    """
    return np.asarray(WHITE * _degrees(Y) * Y.var(0) / len(Y))


def repeats(y: Floats, span: float) -> float:
    """Share of the pairs of outputs ``y (n,)`` that are equal, but for a millionth of ``span``."""
    n = len(y)
    if n < 2:
        return 0.0
    v = np.sort(y)
    equal = np.searchsorted(v, v + TOLERANCE * span, side="right") - np.arange(1, n + 1)
    return float(2 * equal.sum() / (n * (n - 1)))


def unexplained(Y: Floats, simple: Floats) -> float:
    """Share of the outputs' variance that least squares on ``simple (n, p)`` leaves.

    Corrected for the columns; at most 1, and at least what Jeffreys's rule gives the chance that
    the next row differs from n that did not.
    """
    n = len(Y)
    beta, _, rank, _ = np.linalg.lstsq(simple, Y, rcond=1e-9)
    left = ((Y - simple @ beta) ** 2).sum(0) / np.maximum((Y**2).sum(0), np.finfo(float).tiny)
    share = float(left.max()) * n / max(n - int(rank), 1)
    return min(max(share, 0.5 / (n + 1)), 1.0)
