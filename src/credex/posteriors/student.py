"""The Student-t distribution (``scipy.stats`` is slow to import, ``scipy.special`` is not)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.typing import Floats

LARGE_DOF = 1e7
"""Degrees of freedom from which the Student-t quantile is the normal one to 1e-7."""


def quantile(level: float, dof: float) -> float:
    """Two-sided critical value: the interval at ``level`` is mean ± quantile · scale."""
    from scipy.special import ndtri, stdtrit

    p = 0.5 + level / 2.0
    return float(ndtri(p) if dof > LARGE_DOF else stdtrit(dof, p))


def heavier(dof: float, tails: float) -> float:
    """Factor of a variance that keeps the 95 % interval when ``dof`` is replaced by ``tails``."""
    return (quantile(0.95, dof) / quantile(0.95, tails)) ** 2


def cdf(x: Floats, dof: float) -> Floats:
    """Distribution function at ``x`` (any shape)."""
    from scipy.special import stdtr

    return np.asarray(stdtr(min(dof, LARGE_DOF), x))


@dataclass(frozen=True, slots=True, eq=False)
class ErrorPosterior:
    """Posterior of the explanation's error ε at a point of proximity one (paper Eq. 8).

    ε ~ t_dof(0, scale²). It says how far the linear explanation is from the model around the
    instance, not how uncertain the importances are.

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
