"""Gaussian-process posterior of an explanation, with calibrated intervals.

A process is conditioned on observations of the value function (`Conditioned`). The explanation phi
is a linear functional of that function (`credex.posteriors.functionals`), so that given the kernel
its posterior is Gaussian, with mean B'W and covariance sigma² C.

That variance is too small, because the kernel was fitted to the same observations;
`credex.posteriors.calibration` describes the corrections.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from credex.history import spans
from credex.posteriors.calibration import FOLDS, LOOKS, IntervalRule, leave_one_out
from credex.posteriors.discrete_outputs import degree_of, unseen_variance
from credex.posteriors.functionals import Functional
from credex.posteriors.kernel import (
    MIN_LOG_RHO,
    Kernel,
    safe_cholesky,
    solve_lower,
)
from credex.posteriors.marginal_likelihood import MarginalLikelihood
from credex.posteriors.regression import kurtosis_rows
from credex.posteriors.student import Belief
from credex.typing import Design, Floats, Ints

MAX_FIT_ROWS = 300
"""Hyper-parameters are first fitted on at most this many rows, evenly spread, to bound time."""

REFINED_ROWS, REFINED_STEPS = 500, 15
"""Rows and steps of a last refinement of the hyper-parameters where there are more rows than
`MAX_FIT_ROWS`. With 1,000 queries (500 pairs) on the ten games of 13 players and more in
benchmarks/kernel_games.py, errors are 0.91 of those without it, for a fifth more time."""

MANY_FEATURES = 25
"""Features beyond which the in-sample scale counts (chosen by coverage on the benchmark games)."""

ROUNDOFF = 2e-8
"""A standard deviation below this share of the largest output is rounding."""

ADDITIVE = 1e-10
"""Residuals of a linear fit below this share of the largest output are rounding."""

MIN_DOF = 3.0
"""Degrees of freedom before any row (chosen by coverage on the benchmark games)."""


PRIOR_DOUBT = 0.75
"""The variance of Shapley values of d players from m units grows by 1 + ¾(d/m)²: with hardly more
units than players, main effects rest on the prior, which judging units cannot show. Chosen by
coverage on the games of benchmarks/kernel_games.py: 95 % intervals from 2d + 5 focused queries
cover 0.92 without."""


class Observations:
    """Rows that were asked, as the process sees them.

    Parameters
    ----------
    functional : what is explained.
    design, y : (n, d) masks, or the design of a table; (n, k) outputs.
    coordinates : (n, p) of the rows of a table.
    expected, ease : (d,) prior means of phi (default: 0), and prior variances of the linear part
        relative to each other (default: equal).
    noisy : the same row may be answered differently.
    """

    def __init__(
        self,
        functional: Functional,
        design: Design,
        y: Floats,
        *,
        coordinates: Floats | None = None,
        expected: Floats | None = None,
        ease: Floats | None = None,
        noisy: bool = False,
    ) -> None:
        self.functional, self.noisy = functional, noisy
        self.ease = 1.0 if ease is None else ease
        self.inputs = functional.inputs(design, coordinates)
        self.columns = functional.columns(design)  # design of an additive function
        self.expected = np.zeros(functional.d) if expected is None else expected
        Y = np.asarray(y) - (self.columns[:, -functional.d :] @ self.expected)[:, None]
        self.constant = np.zeros(Y.shape[1]) if functional.odd else Y.mean(0)
        self.Y = Y - self.constant  # (n, k) outputs less what the prior expects and their mean

    def __getitem__(self, rows: Ints) -> Observations:
        some = copy(self)
        some.inputs, some.columns, some.Y = self.inputs[rows], self.columns[rows], self.Y[rows]
        return some

    def default_kernel(self) -> Kernel:
        """Centre of the prior of the hyper-parameters."""
        f, p = self.functional, self.inputs.x.shape[1]
        scales = np.full(p, np.log(f.typical_scale(p)))
        weights = np.array([0.0, 0.0, -5.0 if f.odd else 0.0, -5.0])
        direction = np.full(p, 1 / np.sqrt(p)) if f.odd else None
        noisy = self.noisy or f.endless
        tie = f.tie * (1 - degree_of(self.Y, odd=f.odd))
        return Kernel(scales, MIN_LOG_RHO, weights, direction, f.odd, noisy, self.ease, tie)

    @property
    def rounding(self) -> Floats:
        """(k,) variances below which is rounding."""
        return np.asarray((ROUNDOFF * np.abs(self.Y).max(0)) ** 2)

    def restore(self, coefficients: Floats) -> tuple[Floats, Floats]:
        """Add what was taken off the outputs to phi (d, k) and the intercept (k,)."""
        phi = coefficients[-self.functional.d :] + self.expected[:, None]
        return phi, coefficients[0] + self.constant

    def additive_solution(self) -> Floats | None:
        """Coefficients of ``columns`` if Y is exactly additive with two rows to spare, else None.

        Never for noisy models, endless neighbourhoods or discrete outputs.
        """
        f, (n, q) = self.functional, self.columns.shape
        if n < q + 2 or self.noisy or f.endless or degree_of(self.Y, odd=f.odd):
            return None
        beta, _, rank, _ = np.linalg.lstsq(self.columns, self.Y, rcond=None)
        misfit = np.abs(self.Y - self.columns @ beta).max(0)
        exact = rank == q and np.all(misfit <= ADDITIVE * np.abs(self.Y).max(0))
        return np.asarray(beta) if exact else None


class Conditioned:
    """A kernel conditioned on observations, k(inputs, inputs) = L L'."""

    def __init__(self, kernel: Kernel, data: Observations) -> None:
        self.kernel, self.data, self.functional = kernel, data, data.functional
        self.L = safe_cholesky(kernel.gram(data.inputs))  # (n, n)
        cross = self.functional.cross(kernel, data.inputs)
        self.B = solve_lower(self.L, cross.T)  # (n, q) L^-1 cov(v, phi)
        self.W = solve_lower(self.L, data.Y)  # (n, k) L^-1 Y

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

    def predict(self, masks: Design) -> Floats:
        """Posterior mean of the outputs at masks ``(m, d)``, (m, k)."""
        f, data = self.functional, self.data
        at = f.inputs(masks)
        chunks = spans(len(at), len(data.Y))
        parts = [self.kernel.gram(at[rows], data.inputs) @ self.alpha for rows in chunks]
        expected = f.columns(masks)[:, -f.d :] @ data.expected
        return np.concatenate(parts) + expected[:, None] + data.constant

    def predictive_variance(self, Z: Design) -> Floats:
        """Variance of an observation at masks ``Z (m, d)``, at sigma² = 1."""
        at = self.functional.inputs(Z)
        known = solve_lower(self.L, self.kernel.gram(self.data.inputs, at))
        return np.asarray(self.kernel.diagonal(at) - np.einsum("nm,nm->m", known, known))

    @property
    def prior_variance(self) -> Floats:
        """Variances of phi before any row, (d, k), at the scale of the fit."""
        d = self.functional.d
        prior = self.covariance.diagonal()[-d:] + (self.B[:, -d:] ** 2).sum(0)
        return np.asarray(prior[:, None] * (self.W**2).mean(0))

    def left_out(self) -> tuple[Floats, Floats]:
        """Leave-one-out residuals (n, k) and their variances (n,) at sigma² = 1."""
        return leave_one_out(solve_lower(self.L, np.eye(len(self.L))), self.W)

    def calibrated_scale(self, rule: IntervalRule) -> tuple[Floats, Floats, float]:
        """sigma² per output (k,), left-out residuals (n, k), and the effective number of rows."""
        n, p = self.data.inputs.x.shape
        inverse = solve_lower(self.L, np.eye(n))
        r, v = leave_one_out(inverse, self.W)
        sigma2 = (r**2 / v[:, None]).mean(0)
        if rule.in_sample and p > MANY_FEATURES and not self.kernel.noisy:
            sigma2 = np.maximum(sigma2, (self.W**2).mean(0))
        M2 = ((inverse.T @ self.B[:, -self.functional.d :]) ** 2).sum(1)
        share = (M2 @ r**2) / np.maximum((M2 @ v) * sigma2, np.finfo(float).tiny)
        rows = kurtosis_rows(r / np.sqrt(v)[:, None])
        sigma2 = sigma2 * np.maximum(share, 1.0) * (1 + rule.inflation * (p + 5) / rows)
        return sigma2, r, float(rows.min())

    def shares_left(self, masks: Design) -> Floats:
        """Shares of phi's variances left after observing masks ``(m, d)`` in turn, (m, d).

        Needs no outputs. The correction of sigma² for fitted hyper-parameters is included.
        """
        f, (n, p) = self.functional, self.data.inputs.x.shape
        at = f.inputs(masks)
        known = solve_lower(self.L, self.kernel.gram(self.data.inputs, at))
        L = safe_cholesky(self.kernel.gram(at) - known.T @ known)
        left = (f.cross(self.kernel, at) - self.B.T @ known)[-f.d :]
        gains = np.cumsum(solve_lower(L, left.T) ** 2, axis=0)
        now = np.maximum(self.covariance.diagonal()[-f.d :], 1e-300)
        rows = n + np.arange(len(at) + 1)
        inflation = 1 + (f.rule.inflation if f.rule else 0.0) * (p + 5) / rows
        left = np.maximum(1 - gains / now, 1e-12)
        return np.asarray(left * (inflation[1:] / inflation[0])[:, None])


@dataclass(frozen=True, slots=True)
class CrossFit:
    """What kernels that were fitted to three quarters of the rows say of a process.

    The first rows, which are in every run, are in every fit and are not judged. Of the others, row
    i is in part i mod `FOLDS`, so that parts stay what they are as rows are added.
    """

    squares: Floats  # (m, k) squared errors of rows left out of the fit, those in it being 1
    spread: Floats  # (d, d, k) covariance of phi between the kernels (delete-a-group jackknife)
    kernels: tuple[Kernel, ...]  # of the parts, for a warm start

    @classmethod
    def of(
        cls, data: Observations, starts: tuple[Kernel, ...] = (), noise: Floats | None = None
    ) -> CrossFit:
        """Fit a kernel without each part and judge it there; ``starts`` are those of a look before.

        Every row is left out of the conditioning on its own, whether the kernel was fitted to it
        or not, and errors are relative to those of the rows that it was fitted to: kernels have no
        scale in common.
        """
        f, n = data.functional, len(data.Y)
        judged = np.arange(n) >= f.n_ends
        if judged.sum() < 2:
            return cls(np.ones((int(judged.sum()), data.Y.shape[1])), np.zeros(()), ())
        part = np.where(judged, np.arange(n) % FOLDS, -1)
        squares, means, kernels = np.ones_like(data.Y), [], []
        for fold in range(FOLDS):
            seen, unseen = judged & (part != fold), part == fold
            kernel = fit_kernel(
                data[np.flatnonzero(~unseen)],
                start=starts[fold] if starts else None,
                max_rows=MAX_FIT_ROWS * (FOLDS - 1) // FOLDS,
                noise=noise,
            )
            kernels.append(kernel)
            if not seen.any() or not unseen.any():
                continue
            state = Conditioned(kernel, data)
            r, v = state.left_out()
            q = r**2 / v[:, None]
            squares[unseen] = q[unseen] / np.maximum(q[seen].mean(0), np.finfo(float).tiny)
            means.append(state.mean[-f.d :])
        away = np.array(means) - np.mean(means, axis=0)
        spread = (1 - 1 / len(means)) * np.einsum("fik,fjk->ijk", away, away)
        return cls(squares[judged], spread, tuple(kernels))


@dataclass(frozen=True, slots=True)
class ProcessPosterior:
    """Posterior of an explanation, a Student-t around ``mean``."""

    mean: Floats  # (d, k)
    intercept: Floats  # (k,) of a surrogate
    scale: Floats  # (d, d, k) scale matrices
    dof: float
    kernel: Kernel  # hyper-parameters, for a warm start
    state: Conditioned | None  # the conditioned process; None if the rows are exactly additive
    parts: tuple[Kernel, ...] = ()  # kernels that judged the rows, for a warm start
    few_rows: Floats | None = None  # (k,) 1/m' - 1/m for m rows that are worth m'
    remainder: Floats | float = 0.0  # (k,) mean square of the left-out residuals

    @classmethod
    def fit(
        cls,
        data: Observations,
        *,
        start: Kernel | None = None,
        looks: bool = False,
        noise: Floats | None = None,
        parts: tuple[Kernel, ...] = (),
    ) -> ProcessPosterior:
        """Fit the hyper-parameters, from ``start`` on if given, and condition on the rows.

        Likewise, ``parts`` are the kernels that judged the rows of an earlier look.

        With ``looks`` the run may stop at this width, so that it has to hold at every look.
        ``noise (k,)`` is the variance of an output asked again, where that is known.
        """
        beta = data.additive_solution()
        if beta is None:
            kernel = fit_kernel(data, start=start, noise=noise)
            if len(data.Y) > MAX_FIT_ROWS:
                kernel = fit_kernel(
                    data,
                    start=kernel,
                    max_iter=REFINED_STEPS,
                    max_rows=REFINED_ROWS,
                    noise=noise,
                )
            return cls.of(Conditioned(kernel, data), looks=looks, parts=parts, noise=noise)
        scale = np.eye(data.functional.d)[:, :, None] * data.rounding
        return cls(*data.restore(beta), scale, MIN_DOF, start or data.default_kernel(), None)

    @classmethod
    def of(
        cls,
        state: Conditioned,
        *,
        looks: bool = False,
        parts: tuple[Kernel, ...] = (),
        noise: Floats | None = None,
    ) -> ProcessPosterior:
        """Posterior given the kernel."""
        f, data, noisy = state.functional, state.data, state.kernel.noisy
        d, i = f.d, np.arange(f.d)
        mean, C, few_rows, remainder = state.mean, state.covariance[-d:, -d:], None, np.zeros(1)
        if f.rule is None:
            crossed = CrossFit.of(data, parts, noise)
            r, v = (a[f.n_ends :] for a in state.left_out())
            sigma2 = (r**2 / v[:, None]).mean(0) * crossed.squares.mean(0)
            sigma2 *= 1 + PRIOR_DOUBT * (d / len(crossed.squares)) ** 2
            remainder = (r**2).mean(0)
            scale = C[:, :, None] * sigma2 + crossed.spread
            rows = kurtosis_rows(np.sqrt(crossed.squares))
            few_rows, dof = 1 / rows - (not looks) / len(crossed.squares), 1 + float(rows.min()) / 3
            parts = crossed.kernels
        else:
            sigma2, r, count = state.calibrated_scale(f.rule)
            error = f.sampling_error(state.kernel, data.inputs, state.alpha)
            scale = C[:, :, None] * sigma2 + error[-d:, -d:]
            if f.rule.sandwich:
                now, square = np.maximum(np.trace(scale), 1e-300), r**2 + unseen_variance(data.Y)
                scale = scale * np.maximum(f.sandwich(data.inputs, square, noisy=noisy) / now, 1.0)
            dof = min(MIN_DOF + count / f.rule.rows_per_dof, f.rule.max_dof)
            scale = scale * LOOKS**2 if looks else scale
        if f.odd:  # the first pair, full and empty, says what phi sums to
            mean = mean + (2 * data.Y[0] - mean.sum(0)) / d
            if not noisy:
                centre = np.eye(d) - 1 / d
                scale = np.einsum("ij,jlk,lm->imk", centre, scale, centre)
        scale[i, i] = np.maximum(scale[i, i], data.rounding)
        return cls(*data.restore(mean), scale, dof, state.kernel, state, parts, few_rows, remainder)

    @property
    def belief(self) -> Belief:
        """What is believed about the explanation."""
        return Belief(self.mean, self.scale, self.dof)


def fit_kernel(
    data: Observations,
    *,
    start: Kernel | None = None,
    max_iter: int = 60,
    max_rows: int = MAX_FIT_ROWS,
    noise: Floats | None = None,
) -> Kernel:
    """MAP kernel. From scratch the bending direction takes two passes, from ``start`` one.

    ``noise (k,)`` is the variance of an output asked again, where that is known: the white part is
    at least that.
    """
    f, n, centre = data.functional, len(data.Y), data.default_kernel()
    if n <= max(f.n_ends, 1):
        return centre
    if n > max_rows:
        data = data[np.linspace(0, n - 1, max_rows).round().astype(np.int64)]
    posterior = MarginalLikelihood(data.inputs, data.Y, centre, f.scale_sd)
    kernel, rounds = start or centre, [max_iter]
    if start is None and f.bends:
        kernel, rounds = replace(posterior.fit(centre, max_iter=20), log_rho=0.0), [20, max_iter]
    for iterations in rounds:
        if f.bends:
            direction = direction_of(Conditioned(kernel, data).mean[-f.d :])
            kernel = replace(kernel, direction=direction)
        kernel = posterior.fit(kernel, max_iter=iterations)
    return kernel if noise is None else at_least_noise(kernel, data, noise)


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
