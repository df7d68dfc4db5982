"""What is explained: linear functionals phi of the value function v, one class per question.

Given a Gaussian process for v, a linear functional of v is Gaussian in closed form. A functional
knows its covariance with observations, its own covariance, and how its intervals are corrected.

* `ShapleyFromPairs`: Shapley values from half differences of complementary masks (odd kernel).
* `ShapleyFromCoalitions`: Shapley values from single coalitions.
* `SurrogateOverMasks`: LIME's weighted least squares over all 2^d masks.
* `SurrogateOverPool`: the same over a pool of perturbed table rows that are never asked.

The first three are in `credex.posteriors.mask_functionals`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from credex.posteriors import calibration
from credex.posteriors.calibration import IntervalRule
from credex.posteriors.kernel import Inputs, Kernel, solve_lower
from credex.typing import Design, Floats

MAX_COVARIANCE_ROWS = 1500
"""Pool rows between which the posterior covariance is averaged, to bound time."""

NEGLIGIBLE_VARIANCE = 1e-12
"""A design column of less variance than this, relative to its mean square, is constant up to
rounding: its coefficient is not identified."""

SINGULAR = 1e-10
"""Eigenvalues of a correlation matrix below this share of the largest are rounding."""


class Functional(ABC):
    """A linear functional phi (q,) of v: d features, after an intercept if q = d + 1.

    ``linear (q, d)`` is phi of each column of the standardised design.
    """

    odd = False  # whether observations are half differences of pairs
    endless = False  # no single row counts in the neighbourhood: the white part is noise
    bends = True  # whether the kernel has a bending direction
    scale_sd = 1.0  # prior standard deviation of each log lambda_j
    tie = 0.0  # power of lambda_j that the variance of feature j's main effect grows with
    n_ends = 0  # first rows that are in every run
    rule: IntervalRule | None = None  # corrections of intervals; None: cross-fitted

    def __init__(self, linear: Floats) -> None:
        q, self.d = linear.shape
        self.linear: Floats = linear
        self.constant: Floats = np.eye(q, 1) * (q - self.d)  # phi of a constant
        self.constant_prior: Floats = self.constant @ self.constant.T  # its covariance

    @abstractmethod
    def inputs(self, design: Design, coordinates: Floats | None = None) -> Inputs:
        """Points of the process: masks ``(n, d)``, or a design and coordinates ``(n, p)``."""

    def typical_scale(self, p: int) -> float:
        """Centre of the prior of lambda_j for p coordinates."""
        return float(0.5 / np.sqrt(p))

    def columns(self, design: Design) -> Floats:
        """Design whose last d coefficients are phi if v is additive: ``(n, d+1)`` or ``(n, d)``."""
        return np.column_stack([np.ones(len(design)), np.asarray(design, dtype=np.float64)])

    def sandwich(self, inputs: Inputs, square: Floats, *, noisy: bool) -> Floats:
        """Total variance (k,) of phi by a regression on squared left-out residuals (n, k).

        Rows are a random sample, so that this is how far the process's errors project on phi,
        whatever its kernel cannot express.
        """
        raise NotImplementedError

    @abstractmethod
    def cross(self, kernel: Kernel, inputs: Inputs, *, draft: bool = False) -> Floats:
        """cov(phi, v) at the inputs, (q, n); a ``draft`` of Shapley values is fast and rough."""

    @abstractmethod
    def covariance(self, kernel: Kernel, inputs: Inputs, L: Floats, B: Floats) -> Floats:
        """cov(phi) given the inputs at sigma² = 1, (q, q); k = L L', B = L^-1 cov(v, phi)."""

    def sampling_error(self, kernel: Kernel, inputs: Inputs, alpha: Floats) -> Floats:
        """Covariance (q, q, k) that a random pool adds to that of phi; alpha = k^-1 Y."""
        del kernel, inputs
        return np.zeros((len(self.linear), len(self.linear), alpha.shape[1]))

    def _linear(self, kernel: Kernel) -> Floats:
        """(q, d) covariance of phi with the columns, under the linear part."""
        return np.asarray((kernel.weights[1] / self.d) * (self.linear * kernel.linear_variances))


class SurrogateOverPool(Functional):
    """Weighted least squares over m rows that are never asked.

    They have coordinates (m, p), a design (m, d) and weights (m,), their proximities. Their
    sampling error is added to the intervals.
    """

    endless = True
    bends = False
    rule = calibration.POOL
    # Chosen by error and coverage on the benchmark tables, as the typical scale was.
    scale_sd = 1.5

    def __init__(self, coordinates: Floats, design: Design, weights: Floats) -> None:
        self.design, self.weights = np.asarray(design, dtype=np.float64), weights
        self.centre, variance = self.design.mean(0), self.design.var(0)
        varies = variance > NEGLIGIBLE_VARIANCE * (self.design**2).mean(0)
        self.spread = np.where(varies, np.sqrt(variance), 1.0)
        super().__init__(np.vstack([-self.centre / self.spread, np.diag(1 / self.spread)]))
        self.pool = self.inputs(self.design, coordinates)
        self.A = projector(self.design, weights)

    def typical_scale(self, p: int) -> float:
        """Smaller than for masks: most columns of a table matter little."""
        return float(np.exp(-2.0) / np.sqrt(p))

    def inputs(self, design: Design, coordinates: Floats | None = None) -> Inputs:
        """Points of the process for a design ``(n, d)`` and coordinates ``(n, p)``."""
        return Inputs((np.asarray(design) - self.centre) / self.spread, coordinates)

    def cross(self, kernel: Kernel, inputs: Inputs, *, draft: bool = False) -> Floats:
        """cov(phi, v) at the inputs, (d+1, n)."""
        del draft
        product = kernel.weights[0] * self.A @ kernel.product(self.pool, inputs)
        constant = kernel.weights[2] * self.constant
        return np.asarray(product + self._linear(kernel) @ inputs.z.T + constant)

    def covariance(self, kernel: Kernel, inputs: Inputs, L: Floats, B: Floats) -> Floats:
        """cov(phi) given the inputs, over an endless pool, at sigma² = 1."""
        del B
        m, w = min(len(self.pool), MAX_COVARIANCE_ROWS), kernel.weights
        some, A = self.pool[:m], projector(self.design[:m], self.weights[:m])
        V = solve_lower(L, kernel.gram(inputs, some))
        prior = w[0] * A @ kernel.product(some, some) @ A.T + w[2] * self.constant_prior
        whole = prior + self._linear(kernel) @ self.linear.T - (V @ A.T).T @ (V @ A.T)
        own = kernel.diagonal(some) - w[3] - (V**2).sum(0)
        return _difference(whole, (A * np.maximum(own, 0.0)) @ A.T)

    def sampling_error(self, kernel: Kernel, inputs: Inputs, alpha: Floats) -> Floats:
        """Sandwich of what the surrogate leaves of the process's mean over the pool."""
        e = kernel.gram(self.pool, inputs) @ alpha
        e -= self.columns(self.design) @ (self.A @ e)
        return np.stack([(self.A * column**2) @ self.A.T for column in e.T], 2)


def projector(design: Design, weights: Floats) -> Floats:
    """(Z'WZ)^-1 Z'W with Z = (1, design), (d+1, n); zero for columns that are not identified.

    Columns are centred and scaled first, so that one that hardly varies among the rows that count
    is not told from the intercept by rounding.
    """
    M = np.asarray(design, dtype=np.float64)
    w = weights / max(weights.max(), np.finfo(float).smallest_subnormal)
    w = w / max(w.sum(), np.finfo(float).tiny)
    centre = w @ M
    variance = w @ (M - centre) ** 2
    varies = variance > NEGLIGIBLE_VARIANCE * (w @ M**2)
    root = np.where(varies, np.sqrt(variance), np.inf)
    Z = (M - centre) / root
    ZW = (Z * w[:, None]).T
    A = (np.linalg.pinv(ZW @ Z, rcond=SINGULAR, hermitian=True) @ ZW) / root[:, None]
    return np.vstack([w - centre @ A, A])


def _difference(whole: Floats, part: Floats) -> Floats:
    """``whole`` less ``part``, but at least a tenth of ``whole`` in every direction."""
    value, Q = np.linalg.eigh((whole + whole.T) / 2)
    root = np.sqrt(np.maximum(value, 1e-12 * max(value.max(), 0.0) + 1e-300))
    share, R = np.linalg.eigh((Q / root).T @ part @ (Q / root))
    back = (Q * root) @ R
    return np.asarray((back * (1 - np.minimum(share, 0.9))) @ back.T)
