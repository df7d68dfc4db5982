"""What is explained: linear functionals phi of the value function v, one class per question.

Given a Gaussian process for v, a linear functional of v is Gaussian in closed form. A functional
knows its covariance with observations, its own covariance, and how its intervals are corrected.

* `ShapleyFromPairs`: Shapley values from half differences of complementary masks (odd kernel).
* `ShapleyFromCoalitions`: Shapley values from single coalitions.
* `SurrogateOverMasks`: LIME's weighted least squares over all 2^d masks.
* `SurrogateOverPool`: the same over a pool of perturbed table rows that are never asked.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from credex.posteriors import calibration as rules
from credex.posteriors.calibration import IntervalRule
from credex.posteriors.kernel import Inputs, Kernel, solve_lower
from credex.posteriors.mask_sums import MaskSums, ShapleySums, SurrogateSums
from credex.posteriors.regression import slack
from credex.posteriors.shapley import Geometry
from credex.typing import Design, Floats

__all__ = [
    "Functional",
    "ShapleyFromCoalitions",
    "ShapleyFromPairs",
    "SurrogateOverMasks",
    "SurrogateOverPool",
]

MAX_BENDING_FEATURES = 60
"""Features up to which a kernel that is not odd may bend: beyond, it takes too long."""

MAX_COVARIANCE_ROWS = 1500
"""Pool rows between which the posterior covariance is averaged, to bound time."""

NEGLIGIBLE_VARIANCE = 1e-12
"""A design column of less variance than this, relative to its mean square, is constant up to
rounding: its coefficient is not identified."""

SINGULAR = 1e-10
"""Eigenvalues of a correlation matrix below this share of the largest are rounding."""


class Functional:
    """A linear functional phi (q,) of v: d features, after an intercept if q = d + 1.

    Attributes
    ----------
    d : number of features.
    linear : (q, d) phi of each column of the standardised design.
    constant, constant_prior : (q, 1) phi of a constant, (q, q) covariance under the constant part.
    sums : phi of functions of masks.
    white : variance of v's white part relative to that of an observation.
    odd : observations are half differences of pairs.
    endless : no single row counts in the neighbourhood, so that the white part is noise.
    bends : the kernel has a bending direction.
    scale_shift, scale_sd : prior of each log lambda_j: added to its default mean; standard
        deviation.
    """

    odd = False
    endless = False
    bends = True
    scale_shift = 0.0
    scale_sd = 1.0
    white = 1.0
    sums: MaskSums

    def __init__(self, linear: Floats) -> None:
        q, self.d = linear.shape
        self.linear: Floats = linear
        self.constant: Floats = np.eye(q, 1) * (q - self.d)
        self.constant_prior: Floats = self.constant @ self.constant.T

    def inputs(self, design: Design, coordinates: Floats | None = None) -> Inputs:
        """Points of the process: masks ``(n, d)``, or a design and coordinates ``(n, p)``."""
        del coordinates
        return Inputs.of_masks(design)

    def columns(self, design: Design) -> Floats:
        """Design whose last d coefficients are phi if v is additive: ``(n, d+1)`` or ``(n, d)``."""
        return np.column_stack([np.ones(len(design)), np.asarray(design, dtype=np.float64)])

    def rule(self, n: int, *, noisy: bool) -> IntervalRule:
        """Corrections of intervals from n rows."""
        raise NotImplementedError

    def sandwich(self, inputs: Inputs, square: Floats, *, noisy: bool) -> Floats:
        """Total variance (k,) of phi by a regression on squared left-out residuals (n, k).

        Rows are a random sample, so that this is how far the process's errors project on phi,
        whatever its kernel cannot express.
        """
        raise NotImplementedError

    def cross(self, kernel: Kernel, inputs: Inputs, *, draft: bool = False) -> Floats:
        """cov(phi, v) at the inputs, (q, n).

        ``draft`` (Shapley values only): fast and rough, to compare candidates.
        """
        out = self._linear(kernel) @ inputs.z.T
        if not kernel.noisy:
            out += kernel.weights[3] * self.white * self.sums.influence(inputs.on)
        out += kernel.weights[2] * self._constant(inputs)
        sums = ShapleySums(self.d, draft=True) if draft else self.sums
        return sums.cross(out, kernel, inputs.on)

    def covariance(self, kernel: Kernel, inputs: Inputs, L: Floats, B: Floats) -> Floats:
        """cov(phi) given the inputs at sigma² = 1, (q, q); k = L L', B = L^-1 cov(v, phi)."""
        del inputs, L
        w = kernel.weights
        C = self._linear(kernel) @ self.linear.T + w[2] * self.constant_prior
        if not kernel.noisy:
            C += w[3] * self.white * self.sums.influence_products()
        return np.asarray(C + w[0] * self.sums.prior(kernel) - B.T @ B)

    def sampling_error(self, kernel: Kernel, inputs: Inputs, alpha: Floats) -> Floats:
        """Covariance (q, q, k) that a random pool adds to that of phi; alpha = k^-1 Y."""
        del kernel, inputs
        return np.zeros((len(self.linear), len(self.linear), alpha.shape[1]))

    def _linear(self, kernel: Kernel) -> Floats:
        """(q, d) covariance of phi with the columns, under the linear part."""
        ease = 1.0 if kernel.ease is None else kernel.ease
        return np.asarray((kernel.weights[1] / self.d) * (self.linear * ease))

    def _constant(self, inputs: Inputs) -> Floats:
        """Covariance of phi with the constant part at unit variance, (q, n)."""
        del inputs
        return self.constant


class ShapleyFromCoalitions(Functional):
    """Shapley values from single coalitions; the first two are the empty and the full one."""

    n_ends = 2

    def __init__(self, d: int) -> None:
        super().__init__(2 * np.eye(d))
        self.bends = d <= MAX_BENDING_FEATURES
        self.sums = ShapleySums(d)

    def rule(self, n: int, *, noisy: bool) -> IntervalRule:
        """By noise, and by whether a sandwich has enough rows."""
        found = rules.COALITIONS if self._enough(n) else rules.FEW_COALITIONS
        if noisy:
            return replace(found, blocks_from=None, in_sample=False, sandwich=False)
        return found

    def sandwich(self, inputs: Inputs, square: Floats, *, noisy: bool) -> Floats:
        """Of a Shapley regression on all rows but the first, which are in every run.

        The hyper-parameters did see the rows left out, so that this is a lower bound. Pairs are
        corrected for leverage, single coalitions are not.
        """
        del noisy
        g = Geometry.of(inputs.on[self.n_ends :], paired=self.odd, uniform=True)
        variance = g.finite_population_correction[:, None] * square[self.n_ends :]
        if self.odd:
            variance = variance / slack(g.leverage)[:, None]
        return np.asarray(np.trace(g.sandwich(variance)))

    def _enough(self, n: int) -> bool:
        return bool(n - self.n_ends >= rules.SANDWICH_ROWS * self.d)


class ShapleyFromPairs(ShapleyFromCoalitions):
    """Shapley values from pairs of complementary masks; the first is the full and the empty one.

    ``chosen``: the pairs are those that tell most (focused), not a random sample.
    """

    odd = True
    n_ends = 1
    white = 2.0
    # Chosen by coverage on the benchmark games. A fitted shift common to all log lambda_j would
    # sharpen means beyond 25 players by up to a fifth, but make intervals far too narrow.
    scale_sd = 1.5

    def __init__(self, d: int, *, chosen: bool = True) -> None:
        super().__init__(d)
        self.bends, self.chosen = True, chosen
        self.constant_prior = np.full((d, d), 2 / d**2)

    def columns(self, design: Design) -> Floats:
        """Half the signs, ``(n, d)``."""
        return np.asarray(self.inputs(design).z / 2)

    def rule(self, n: int, *, noisy: bool) -> IntervalRule:
        """By noise, by how the pairs were drawn, and by whether a sandwich has enough of them."""
        if noisy or self.chosen:
            return rules.NOISY_PAIRS if noisy else rules.CHOSEN_PAIRS
        return rules.RANDOM_PAIRS if self._enough(n) else rules.FEW_RANDOM_PAIRS

    def _constant(self, inputs: Inputs) -> Floats:
        balance = inputs.z.sum(1)  # a free value per size moves phi by the first pair alone
        return np.asarray((np.abs(balance) == self.d) * np.sign(balance) / self.d)


class SurrogateOverMasks(Functional):
    """Weighted least squares over all 2^d masks; ``weights (d+1,)`` of a mask by its size."""

    scale_sd = 1.0  # 1.5 is no sharper, and covers .93 where this covers .96

    def __init__(self, weights: Floats) -> None:
        d = len(weights) - 1
        super().__init__(np.vstack([np.full(d, -1.0), 2 * np.eye(d)]))
        self.bends = d <= MAX_BENDING_FEATURES
        self.sums, self.weights = SurrogateSums(weights), weights

    def rule(self, n: int, *, noisy: bool) -> IntervalRule:
        """The same for any n."""
        del n
        return replace(rules.MASKS, in_sample=not noisy)

    def sandwich(self, inputs: Inputs, square: Floats, *, noisy: bool) -> Floats:
        """Of the weighted least squares, times the share of masks that were not asked."""
        on = inputs.on
        A = projector(on, self.weights[on.sum(1)])[1:]
        unasked = 1.0 if noisy else max(1 - len(on) * 0.5**self.d, 0.0)
        return np.asarray(unasked * (A**2 @ square).sum(0))


class SurrogateOverPool(Functional):
    """Weighted least squares over m rows that are never asked.

    They have coordinates (m, p), a design (m, d) and weights (m,), their proximities. Their
    sampling error is added to the intervals.
    """

    endless = True
    bends = False
    # Most columns of a table matter little, so length-scales are longer than for masks; both
    # constants were chosen by error and coverage on the benchmark tables.
    scale_shift = float(np.log(2)) - 2.0
    scale_sd = 1.5

    def __init__(self, coordinates: Floats, design: Design, weights: Floats) -> None:
        self.design, self.weights = np.asarray(design, dtype=np.float64), weights
        self.centre, variance = self.design.mean(0), self.design.var(0)
        varies = variance > NEGLIGIBLE_VARIANCE * (self.design**2).mean(0)
        self.spread = np.where(varies, np.sqrt(variance), 1.0)
        super().__init__(np.vstack([-self.centre / self.spread, np.diag(1 / self.spread)]))
        self.pool = self.inputs(self.design, coordinates)
        self.A = projector(self.design, weights)

    def inputs(self, design: Design, coordinates: Floats | None = None) -> Inputs:
        """Points of the process for a design ``(n, d)`` and coordinates ``(n, p)``."""
        return Inputs((np.asarray(design) - self.centre) / self.spread, coordinates)

    def rule(self, n: int, *, noisy: bool) -> IntervalRule:
        """The same for any n."""
        del n, noisy
        return rules.POOL

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
