"""The Student-t distribution, as far as intervals need it (``scipy.stats`` is slow to import)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from credex.typing import Floats

MANY = 400.0
"""From here on a series is as good as the Student-t quantile itself, and much quicker."""

LARGE_DOF = 1e7
"""From here on the Student-t quantile is the normal one to 1e-7."""


@cache
def _quantiles() -> tuple[Any, Any]:
    """Imported when first needed: half of what importing credex would cost."""
    from scipy.special import ndtri, stdtrit

    return ndtri, stdtrit


def quantile(level: float, dof: float) -> float:
    """Two-sided critical value: the interval at ``level`` is mean ± quantile · scale."""
    if dof > MANY and level <= 0.999:
        z, *terms = _near_normal(level)
        return z + _horner(terms, 1.0 / dof)
    ndtri, stdtrit = _quantiles()
    p = 0.5 + level / 2.0
    return float(ndtri(p) if dof > LARGE_DOF else stdtrit(dof, p))


@lru_cache(maxsize=64)
def _near_normal(level: float) -> tuple[float, ...]:
    """The normal quantile z, and what 1/dof, 1/dof², … are multiplied by to get to Student's.

    Abramowitz and Stegun, 26.7.5. From 400 degrees on, up to 99.9 %, it errs by less than 1e-10.
    """
    z = float(_quantiles()[0](0.5 + level / 2.0))
    s = z * z
    return (
        z,
        z * (s + 1) / 4,
        z * ((5 * s + 16) * s + 3) / 96,
        z * (((3 * s + 19) * s + 17) * s - 15) / 384,
        z * ((((79 * s + 776) * s + 1482) * s - 1920) * s - 945) / 92160,
    )


def _horner(terms: list[float], x: float) -> float:
    """Σ terms[i]·x^(i+1)."""
    out = 0.0
    for term in reversed(terms):
        out = (out + term) * x
    return out


def heavier(dof: float, tails: float) -> float:
    """Factor of a variance that keeps the 95 % interval when ``dof`` degrees become ``tails``."""
    return (quantile(0.95, dof) / quantile(0.95, tails)) ** 2


def cdf(x: Floats, dof: float) -> Floats:
    """Distribution function at ``x`` (any shape)."""
    from scipy.special import stdtr

    return np.asarray(stdtr(min(dof, LARGE_DOF), x))


@dataclass(frozen=True, slots=True, eq=False)
class ErrorPosterior:
    """Posterior of the explanation's error ε at a point of proximity one (paper Eq. 8).

    ε ~ t_dof(0, scale²). It says how far the linear explanation is from the model around the
    instance: not how uncertain the importances are.

    Attributes
    ----------
    dof
        Degrees of freedom.
    scale
        Scale, a number or ``(k,)``.
    """

    dof: float
    scale: Floats | float

    @property
    def density_at_zero(self) -> Floats | float:
        """P(ε = 0): density of the error at zero. Infinite if the fit is perfect."""
        return self.density(0.0)

    def density(self, x: float) -> Floats | float:
        """Density of the error at ``x``."""
        from scipy.special import gammaln

        nu = self.dof
        log_c = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scale = np.asarray(self.scale, dtype=np.float64)
            z = np.where(scale > 0, x / scale, np.where(x == 0, 0.0, np.inf))
            out = np.exp(log_c - (nu + 1) / 2 * np.log1p(z * z / nu)) / scale
        return float(out) if out.ndim == 0 else np.asarray(out)
