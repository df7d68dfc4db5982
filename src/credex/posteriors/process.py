r"""Gaussian-process posterior of an explanation, with honest intervals.

A process is conditioned on observations of the value function (`Conditioned`). The explanation is a
linear functional of that function (`credex.posteriors.functionals`), so that its posterior is
Gaussian given the kernel: mean B'W and covariance sigma² C.

That variance is too small, because the kernel was fitted to the same observations. So

* sigma² is the mean of the squared leave-one-out residuals over their variances r_i²/v_i, one per
  output, and at least that of blocks of neighbours left out together, where rows are random
  (`credex.posteriors.cross_validation`);
* where the rows that weigh most in phi were predicted worse than the rest, it grows by
  sum_i M_i² r_i² / sum_i M_i² v_i sigma², at least one;
* it grows by 1 + c (p + 5)/n for p + 5 hyper-parameters fitted on n rows; or, where n random rows
  are enough, phi's total variance is at least that of a sandwich of the residuals: the error of a
  regression on what the process leaves, whatever its kernel cannot express;
* the scale itself is uncertain, so that the posterior is a Student-t.

Which of these apply, and their constants, are data of the functional
(`credex.posteriors.interval_rules`). The form of the corrections follows from the data; the
constants were chosen by coverage on games.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from credex.posteriors.belief import Belief
from credex.posteriors.cross_validation import block_scale, effective_rows, leave_one_out
from credex.posteriors.discrete_outputs import degree_of, unseen_variance
from credex.posteriors.functionals import Functional
from credex.posteriors.interval_rules import IntervalRule
from credex.posteriors.kernel import Inputs, Kernel, safe_cholesky, solve_lower
from credex.posteriors.marginal_likelihood import MarginalLikelihood
from credex.posteriors.student import heavier
from credex.typing import Design, Floats, Ints

__all__ = ["Conditioned", "Observations", "ProcessPosterior", "fit_kernel"]

MAX_FIT_ROWS = 300
"""Hyper-parameters are fitted on at most this many rows, evenly spread, to bound time."""

CHUNK = 2048
"""Rows predicted at a time, to bound memory."""

MANY_FEATURES = 25
"""Features beyond which the in-sample scale is looked at too (chosen by coverage on digits)."""

ROUNDOFF = 2e-8
"""A standard deviation below this share of the largest output is rounding."""

ADDITIVE = 1e-10
"""A linear fit with residuals below this share of the largest output is exact."""

MIN_DOF = 3.0
"""Degrees of freedom of an interval that rests on no rows (chosen by coverage)."""


@dataclass(frozen=True, slots=True)
class Observations:
    """Rows as the process sees them.

    Attributes
    ----------
    functional : what is explained.
    inputs : n points.
    columns : (n, q) design of an additive function.
    Y : (n, k) outputs without ``constant`` and without what the prior expects.
    constant : (k,) mean of the outputs; zero for half differences.
    expected : (d,) prior mean of phi.
    """

    functional: Functional
    inputs: Inputs
    columns: Floats
    Y: Floats
    constant: Floats
    expected: Floats

    @classmethod
    def of(
        cls,
        functional: Functional,
        design: Design,
        y: Floats,
        *,
        coordinates: Floats | None = None,
        expected: Floats | None = None,
    ) -> Observations:
        """Take outputs ``y (n, k)`` of the rows ``design (n, d)``.

        ``coordinates (n, p)``: of table rows. ``expected (d,)``: prior mean of phi; None: zero.
        """
        d, columns = functional.d, functional.columns(design)
        mean = np.zeros(d) if expected is None else expected
        Y = np.asarray(y, dtype=np.float64) - (columns[:, -d:] @ mean)[:, None]
        constant = np.zeros(Y.shape[1]) if functional.odd else Y.mean(0)
        inputs = functional.inputs(design, coordinates)
        return cls(functional, inputs, columns, Y - constant, constant, mean)

    def take(self, rows: Ints) -> Observations:
        """Only some of the rows."""
        return replace(
            self, inputs=self.inputs[rows], columns=self.columns[rows], Y=self.Y[rows]
        )

    def additive_solution(self) -> Floats | None:
        """Coefficients (q, k) if Y is exactly additive with two rows to spare, else None."""
        n, q = self.columns.shape
        if n < q + 2:
            return None
        beta, _, rank, _ = np.linalg.lstsq(self.columns, self.Y, rcond=None)
        misfit = np.abs(self.Y - self.columns @ beta).max(0)
        exact = rank == q and np.all(misfit <= ADDITIVE * np.abs(self.Y).max(0))
        return np.asarray(beta) if exact else None


class Conditioned:
    """A kernel conditioned on observations.

    Attributes
    ----------
    kernel, data : hyper-parameters and `Observations`.
    L : (n, n) lower Cholesky factor of k(inputs, inputs).
    B : (n, q) L^-1 cov(v, phi).
    W : (n, k) L^-1 Y.
    """

    def __init__(self, kernel: Kernel, data: Observations) -> None:
        self.kernel, self.data, self.functional = kernel, data, data.functional
        self.L = safe_cholesky(kernel.gram(data.inputs))
        self.B = solve_lower(self.L, self.functional.cross(kernel, data.inputs).T)
        self.W = solve_lower(self.L, data.Y)

    @property
    def mean(self) -> Floats:
        """E[phi | Y] without what the prior expects, (q, k)."""
        return np.asarray(self.B.T @ self.W)

    @cached_property
    def covariance(self) -> Floats:
        """cov[phi] given the rows at sigma² = 1, (q, q). Needs no Y: widths can be forecast."""
        return self.functional.covariance(self.kernel, self.data.inputs, self.L, self.B)

    @cached_property
    def alpha(self) -> Floats:
        """k^-1 Y, (n, k)."""
        return solve_lower(self.L, self.W, transposed=True)

    def predict(self, design: Design) -> Floats:
        """Posterior mean of the outputs at masks ``(m, d)``, (m, k)."""
        d, data = self.functional.d, self.data
        at = self.functional.inputs(design)
        starts = range(0, len(at), CHUNK)
        parts = [self.kernel.gram(at[a : a + CHUNK], data.inputs) @ self.alpha for a in starts]
        expected = self.functional.columns(design)[:, -d:] @ data.expected
        return np.concatenate(parts) + expected[:, None] + data.constant

    def predictive_variance(self, Z: Design) -> Floats:
        """Variance of an observation at masks ``Z (m, d)``, at sigma² = 1."""
        at = self.functional.inputs(Z)
        known = solve_lower(self.L, self.kernel.gram(self.data.inputs, at))
        return np.asarray(self.kernel.diagonal(at) - np.einsum("nm,nm->m", known, known))

    def shares_left(self, Z: Design) -> Floats:
        """Shares of phi's variances left after observing masks ``Z (m, d)`` in turn, (m, d).

        Needs no outputs. The correction of sigma² for fitted hyper-parameters is included.
        """
        at, (n, p), d = self.functional.inputs(Z), self.data.inputs.x.shape, self.functional.d
        known = solve_lower(self.L, self.kernel.gram(self.data.inputs, at))
        L = safe_cholesky(self.kernel.gram(at) - known.T @ known)
        left = self.functional.cross(self.kernel, at) - self.B.T @ known
        gains = np.cumsum(solve_lower(L, left[-d:].T) ** 2, axis=0)
        now = np.maximum(self.covariance.diagonal()[-d:], 1e-300)
        rule = self.functional.rule(n, noisy=self.kernel.noisy)
        inflation = 1 + rule.inflation * (p + 5) / (n + np.arange(len(at) + 1))
        grown = (inflation[1:] / inflation[0])[:, None]
        return np.asarray(np.maximum(1 - gains / now, 1e-12) * grown)


@dataclass(frozen=True, slots=True)
class ProcessPosterior:
    """Posterior of an explanation, a Student-t around ``mean``.

    Attributes
    ----------
    mean : (d, k)
    intercept : (k,) of a surrogate; zero for Shapley values.
    scale : (d, d, k) scale matrices.
    dof : degrees of freedom.
    kernel : hyper-parameters, for a warm start.
    state : the conditioned process; None if the rows are exactly additive.
    """

    mean: Floats
    intercept: Floats
    scale: Floats
    dof: float
    kernel: Kernel
    state: Conditioned | None

    @classmethod
    def fit(
        cls,
        data: Observations,
        *,
        noisy: bool = False,
        start: Kernel | None = None,
        looks: bool = False,
        max_iter: int = 60,
        ease: Floats | None = None,
        noise: Floats | None = None,
    ) -> ProcessPosterior:
        """Fit the hyper-parameters and condition on the rows.

        Parameters
        ----------
        data : what was observed.
        noisy : the same row may be answered differently.
        start : ``kernel`` of an earlier fit, for a warm start.
        looks : the run may stop at this width, so that it has to be honest at every look.
        max_iter : of the optimiser.
        ease : (d,) relative prior variances of the linear part; None: all one.
        noise : (k,) variance of an output asked again, where that is known.
        """
        d, k = data.functional.d, data.Y.shape[1]
        known = not (noisy or data.functional.endless or degree_of(data.Y, odd=data.functional.odd))
        beta = data.additive_solution() if known else None
        if beta is None:
            kernel = fit_kernel(data, start=start, max_iter=max_iter, noisy=noisy, ease=ease)
            if noise is not None:
                kernel = at_least_noise(kernel, data, noise)
            return cls.of(Conditioned(kernel, data), looks=looks)
        kernel = start or default_kernel(data, noisy=noisy, ease=ease)
        scale = _at_least_rounding(np.zeros((d, d, k)), data.Y)  # additive as far as was asked
        return cls(*_coefficients(beta, data), scale, MIN_DOF, kernel, None)

    @classmethod
    def of(cls, state: Conditioned, *, looks: bool = False) -> ProcessPosterior:
        """Posterior given the kernel."""
        data, noisy, d = state.data, state.kernel.noisy, state.functional.d
        n, rule = len(data.Y), state.functional.rule(len(data.Y), noisy=state.kernel.noisy)
        sigma2, r, count = _honest_scale(state, rule)
        mean, C = state.mean, state.covariance[-d:, -d:]
        total = state.functional.known_total(data.Y)
        if total is not None:
            mean = mean + (total - mean.sum(0)) / d
            centre = np.eye(d) if noisy else np.eye(d) - 1 / d
            C = centre @ C @ centre
        error = state.functional.sampling_error(state.kernel, data.inputs, state.alpha)
        scale = C[:, :, None] * sigma2 + (error if isinstance(error, float) else error[-d:, -d:])
        if rule.sandwich:
            square = r**2 + (0.0 if state.functional.odd else unseen_variance(data.Y))
            least = state.functional.sandwich(data.inputs, square, noisy=noisy)
            now = np.trace(scale)
            scale = scale * np.maximum(np.where(now > 0, least / np.where(now > 0, now, 1), 1), 1)
        if looks:
            scale = scale * (rule.looks + (rule.few_looks / n) ** 2) ** 2
        dof = min(MIN_DOF + count / rule.rows_per_dof, rule.max_dof)
        if rule.tail_dof is not None:
            scale, dof = scale * heavier(dof, rule.tail_dof), rule.tail_dof
        scale = _at_least_rounding(scale, data.Y)
        return cls(*_coefficients(mean, data), scale, dof, state.kernel, state)

    @property
    def belief(self) -> Belief:
        """What is believed about the explanation."""
        return Belief(self.mean, self.scale, self.dof)


def default_kernel(
    data: Observations, *, noisy: bool = False, ease: Floats | None = None
) -> Kernel:
    """Centre of the prior of the hyper-parameters."""
    f = data.functional
    return Kernel.default(
        data.inputs.x.shape[1],
        odd=f.odd,
        shift=f.scale_shift,
        noisy=noisy or f.endless,
        ease=ease,
    )


def fit_kernel(
    data: Observations,
    *,
    start: Kernel | None = None,
    max_iter: int = 60,
    noisy: bool = False,
    ease: Floats | None = None,
) -> Kernel:
    """MAP kernel. From scratch the bending direction takes two passes, from ``start`` one."""
    f, n = data.functional, len(data.Y)
    centre = default_kernel(data, noisy=noisy, ease=ease)
    if n == 1:
        return centre
    if n > MAX_FIT_ROWS:
        data = data.take(np.unique(np.linspace(0, n - 1, MAX_FIT_ROWS).round().astype(np.int64)))
    posterior = MarginalLikelihood(data.inputs, data.Y, centre, f.scale_sd)
    kernel, rounds = start or centre, [max_iter]
    if start is None and f.bends:
        kernel, rounds = replace(posterior.fit(centre, max_iter=20), log_rho=0.0), [20, max_iter]
    for iterations in rounds:
        if f.bends:
            direction = direction_of(Conditioned(kernel, data).mean[-f.d :])
            kernel = replace(kernel, direction=direction)
        kernel = posterior.fit(kernel, max_iter=iterations)
    return kernel


def at_least_noise(kernel: Kernel, data: Observations, noise: Floats) -> Kernel:
    """The kernel with a white part of at least the known noise, relative to the scale it fits.

    Distinct rows alone cannot tell noise from a rough function.
    """
    for _ in range(4):  # more noise means less scale: converges quickly
        W = solve_lower(safe_cholesky(kernel.gram(data.inputs)), data.Y)
        least = float(np.mean(noise / np.maximum((W**2).mean(0), np.finfo(float).tiny)))
        white = np.log(max(least, np.exp(kernel.log_weights[3])))
        kernel = replace(kernel, log_weights=np.append(kernel.log_weights[:3], white))
    return kernel


def direction_of(coefficients: Floats) -> Floats:
    """Unit vector along the coefficients (d, k); the leading one of several outputs."""
    norm = np.linalg.norm(coefficients, axis=0)
    if not norm.max() > 0:
        return np.full(len(coefficients), 1 / np.sqrt(len(coefficients)))
    U = coefficients[:, norm > 0] / norm[norm > 0]
    return np.asarray(U if U.shape[1] == 1 else np.linalg.svd(U, full_matrices=False)[0])[:, 0]


def _honest_scale(state: Conditioned, rule: IntervalRule) -> tuple[Floats, Floats, float]:
    """sigma² per output (k,), residuals (n, k), and the number of rows that these rest on."""
    n, p = state.data.inputs.x.shape
    inverse = solve_lower(state.L, np.eye(n))
    residual, variance = leave_one_out(inverse, state.W)
    r, v = residual[rule.first :], variance[rule.first :]
    in_sample = (state.W**2).mean(0)
    sigma2 = (r**2 / v[:, None]).mean(0) if len(r) else in_sample
    if rule.in_sample and p > MANY_FEATURES:
        sigma2 = np.maximum(sigma2, in_sample)
    M2 = ((inverse.T @ state.B[:, -state.functional.d :])[rule.first :] ** 2).sum(1)
    share = (M2 @ r**2) / np.maximum((M2 @ v) * sigma2, np.finfo(float).tiny)
    sigma2 = sigma2 * np.maximum(share, 1.0)
    if rule.blocks_from is not None:
        K = state.kernel.gram(state.data.inputs)
        near = np.abs(K) if state.kernel.odd else K  # the sign of a pair is arbitrary
        distance = np.diag(K)[:, None] + np.diag(K) - 2 * near
        sigma2 = np.maximum(sigma2, block_scale(inverse, state.W, distance, rule.blocks_from))
    count = effective_rows(r, v) if rule.kurtosis else np.full(len(sigma2), float(n))
    return sigma2 * (1 + rule.inflation * (p + 5) / count), residual, float(count.min())


def _coefficients(coefficients: Floats, data: Observations) -> tuple[Floats, Floats]:
    """phi (d, k) and intercept (k,), with what was taken off the outputs added back."""
    d, k = data.functional.d, data.Y.shape[1]
    intercept = coefficients[0] + data.constant if len(coefficients) > d else np.zeros(k)
    return coefficients[-d:] + data.expected[:, None], intercept


def _at_least_rounding(scale: Floats, Y: Floats) -> Floats:
    """Scale matrices (d, d, k) whose variances are no smaller than the rounding of Y."""
    i = np.arange(len(scale))
    scale[i, i] = np.maximum(scale[i, i], (ROUNDOFF * np.abs(Y).max(0)) ** 2)
    return scale
