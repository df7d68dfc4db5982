"""The Student-t distribution: quantiles, intervals, and the posterior of the importances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from credex.errors import check_level
from credex.typing import Floats

LARGE_DOF = 1e7
"""Degrees of freedom from which the Student-t quantile is the normal one to 1e-7."""


def quantile(level: float, dof: float) -> float:
    """Two-sided critical value: the interval at ``level`` is mean ± quantile · scale."""
    from scipy.special import ndtri, stdtrit

    p = 0.5 + level / 2.0
    return float(ndtri(p) if dof > LARGE_DOF else stdtrit(dof, p))


def dof_factor(dof: float, new_dof: float) -> float:
    """Factor of a variance that keeps the 95 % interval when ``dof`` is replaced by ``new_dof``."""
    return (quantile(0.95, dof) / quantile(0.95, new_dof)) ** 2


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


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Lower and upper ends of the intervals of all features at one level.

    ``width`` is ALWAYS ``upper - lower``, never half of it.

    Examples
    --------
    >>> import numpy as np
    >>> from credex import Interval
    >>> i = Interval(np.array([0.0, -1.0]), np.array([1.0, 2.0]), level=0.95)
    >>> i.width
    array([1., 3.])
    >>> [0.5, 0.0] in i
    True
    """

    lower: Floats
    upper: Floats
    level: float

    @property
    def width(self) -> Floats:
        """``upper - lower``, the shape of the means."""
        return np.asarray(self.upper - self.lower)

    def covers(self, values: ArrayLike) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Which of the values lie inside, feature by feature."""
        v = np.asarray(values, dtype=np.float64)
        return np.asarray((v >= self.lower) & (v <= self.upper))

    def __contains__(self, values: object) -> bool:
        return bool(np.all(self.covers(np.asarray(values, dtype=np.float64))))


N_DRAWS = 20_000
"""Draws behind ranks and simultaneous intervals: a Monte Carlo error of at most 0.0035."""

N_SELECTION_DRAWS = 4_000
"""Draws behind the widening of intervals after a selection of features."""

N_NODES = 2_000
"""Quadrature nodes of ``prob_greater``."""


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """φ ~ t_dof(mean, scale), one for each output.

    Attributes
    ----------
    mean
        ``(d, k)``.
    scale
        ``(d, d, k)`` scale matrices; a zero on the diagonal is a value known exactly, infinity one
        of which nothing is known.
    dof
        Degrees of freedom, at least 1.
    """

    mean: Floats
    scale: Floats
    dof: float

    @property
    def deviation(self) -> Floats:
        """Square roots of the diagonals of ``scale``, ``(d, k)``."""
        return np.asarray(np.sqrt(np.maximum(self.scale.diagonal().T, 0.0)))

    @property
    def k(self) -> int:
        """Number of outputs."""
        return int(self.mean.shape[1])

    def interval(self, level: float, *, simultaneous: bool = False) -> Interval:
        """Intervals of each feature, or (``simultaneous``) of all features of an output at once."""
        level = check_level(level)
        deviation = self.deviation
        if simultaneous:
            half = deviation * [self._joint_quantile(level, j) for j in range(self.k)]
        else:
            half = deviation * quantile(level, self.dof)
        return Interval(self.mean - half, self.mean + half, level)

    def prob_positive(self) -> Floats:
        """P(φ > 0), ``(d, k)``; exactly 0, ½ or 1 for values known exactly."""
        sd = self.deviation
        with np.errstate(divide="ignore", invalid="ignore"):
            t = self.mean / sd
        return np.where(sd > 0, cdf(t, self.dof), np.where(self.mean == 0, 0.5, self.mean > 0))

    def prob_greater(self, i: int, j: int, output: int, *, signed: bool) -> float:
        """P(φ_i > φ_j), or of the absolute values unless ``signed``."""
        m, s = self.mean[:, output], self.scale[:, :, output]
        if i == j or not np.isfinite(s[i, i] + s[j, j]):
            return 0.5
        if signed:
            return _prob_above(m[i] - m[j], s[i, i] + s[j, j] - 2 * s[i, j], self.dof)
        if s[i, i] <= 0 and s[j, j] <= 0:
            return _prob_above(abs(m[i]) - abs(m[j]), 0.0, self.dof)
        if s[i, i] <= 0:  # integrate over the uncertain one
            return 1.0 - self.prob_greater(j, i, output, signed=False)
        # φ_i over its own quantiles; φ_j given φ_i is Student-t with one more degree of freedom
        from scipy.special import stdtrit

        p = (np.arange(N_NODES) + 0.5) / N_NODES
        u = np.asarray(stdtrit(self.dof, p))
        x = m[i] + np.sqrt(s[i, i]) * u
        slope = s[i, j] / s[i, i]
        centre = m[j] + slope * (x - m[i])
        rest = max(s[j, j] - slope * s[i, j], 0.0) * (self.dof + u * u) / (self.dof + 1)
        root = np.sqrt(rest)

        def below(limit: Floats) -> Floats:
            gap = limit - centre
            with np.errstate(divide="ignore", invalid="ignore"):
                return cdf(np.where(root > 0, gap / root, np.sign(gap) * 1e9), self.dof + 1)

        return float(np.mean(below(np.abs(x)) - below(-np.abs(x))))

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> Floats:
        """Draw ``(n, d, k)``; NaN where nothing is known."""
        rng = np.random.default_rng(seed)
        d = len(self.mean)
        out = np.empty((n, d, self.k))
        tails = np.sqrt(rng.chisquare(self.dof, size=(n, 1)) / self.dof)
        for j in range(self.k):
            scale = self.scale[:, :, j]
            unknown = np.isinf(scale.diagonal())
            noise = rng.standard_normal((n, d)) @ root(np.where(np.isinf(scale), 0.0, scale)).T
            out[:, :, j] = self.mean[:, j] + noise / tails
            out[:, unknown, j] = np.nan
        return out

    def rank_probabilities(self, output: int, *, signed: bool, draws: int = N_DRAWS) -> Floats:
        """``(d, d)``: entry (i, r) is the probability that feature i has rank r (0 is largest)."""
        d = len(self.mean)
        known = np.isfinite(self.mean[:, output]) & np.isfinite(self.deviation[:, output])
        if not known.all():
            return np.full((d, d), np.nan)
        x = self.only(output).sample(draws, 0)[:, :, 0]
        order = np.argsort(-(x if signed else np.abs(x)), axis=1, kind="stable")
        counts = [np.bincount(order[:, r], minlength=d) for r in range(d)]
        return np.stack(counts, axis=1) / draws if d else np.zeros((0, 0))

    def selection_factor(self, output: int, keep: int, level: float) -> float:
        """Return how much wider intervals must be if the ``keep`` largest were selected.

        The largest of many noisy estimates are largest partly by chance (winner's curse). The
        factor is the critical value of the selected estimates' errors over the usual one, by
        simulation: importances are drawn from their shrunken distribution, estimates around them,
        and the ``keep`` largest are selected. It is near 1 when the selected ones stand out.
        """
        m, s = self.mean[:, output], self.scale[:, :, output]
        sd = self.deviation[:, output]
        d = len(m)
        if keep >= d or not np.all(np.isfinite(s)) or not np.any(sd > 0):
            return 1.0
        rng = np.random.default_rng(0)
        spread = max(float(np.mean(m**2 - sd**2)), 0.0)
        trust = spread / (spread + sd**2) if spread > 0 else np.zeros(d)
        truth = m * trust + np.sqrt(trust) * sd * rng.standard_normal((N_SELECTION_DRAWS, d))
        tails = np.sqrt(rng.chisquare(self.dof, (N_SELECTION_DRAWS, 1)) / self.dof)
        error = rng.standard_normal((N_SELECTION_DRAWS, d)) @ root(s).T
        chosen = np.argpartition(-np.abs(truth + error), keep - 1, axis=1)[:, :keep]
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.abs(np.where(sd > 0, error / sd, 0.0)) / tails
        critical = float(np.quantile(np.take_along_axis(t, chosen, axis=1), level))
        return max(critical / quantile(level, self.dof), 1.0)

    def only(self, output: int) -> Belief:
        """Return the belief about one output."""
        j = slice(output, output + 1)
        return Belief(self.mean[:, j], self.scale[:, :, j], self.dof)

    def _joint_quantile(self, level: float, output: int) -> float:
        sd = self.deviation[:, output]
        uncertain = (sd > 0) & np.isfinite(sd)
        if uncertain.sum() <= 1:
            return quantile(level, self.dof)
        error = self.only(output).sample(N_DRAWS, 0)[:, :, 0] - self.mean[:, output]
        worst = np.max(np.abs(error[:, uncertain]) / sd[uncertain], axis=1)
        return float(np.quantile(worst, level))


def root(a: Floats) -> Floats:
    """Return the symmetric square root of a positive semi-definite matrix.

    It is unique: draws do not depend on the signs that a LAPACK gives the eigenvectors. Negative
    eigenvalues are rounding.
    """
    values, vectors = np.linalg.eigh((a + a.T) / 2)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _prob_above(difference: float, variance: float, dof: float) -> float:
    if variance <= 0:
        return 0.5 if difference == 0 else float(difference > 0)
    return float(cdf(np.asarray(difference / np.sqrt(variance)), dof))
