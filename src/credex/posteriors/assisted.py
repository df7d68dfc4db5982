"""Model-assisted Shapley values over all background rows of a table.

**The surrogate** is a Gaussian process over model inputs. The inputs are hybrid rows: the instance
where a mask is on, a background row elsewhere. Numbers enter as ranks among the background rows,
categories as equal or not. With k_j the similarity of two values of feature j, the kernel is that
of a functional ANOVA with interactions of every order,

    k(u, u') = v Π_j (1 + a_j k_j) / (1 + a_j).

The Shapley values of k(·, u) on a background row are integrals over t in [0, 1] of products of one
factor per feature, mixed in the ratio t : 1 − t (Owen's multilinear extension).

**The correction** is a survey's difference estimator. Units that were left out of the surrogate's
fit say what it gets wrong: their residuals are unbiased for its error under the random design,
whatever the surrogate misses, and their spread gives the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from credex.posteriors.student import dof_factor
from credex.seeds import Purpose, spawn
from credex.typing import Floats, Ints, Masks

__all__ = [
    "AnovaKernel",
    "Correction",
    "Functional",
    "InputSpace",
    "Surrogate",
    "combine",
    "fit_kernel",
    "similarity",
]

SMOOTH_SHARE = 0.9
"""Share of the smooth part in a similarity; the rough rest is for jumps, as trees have them.

Nine tables, 100 to 2,000 rows: 0.87 to 0.95 of the error of the rough part alone.
"""

SMOOTH_LENGTH, ROUGH_LENGTH = 0.7, 0.5
"""Distances in ranks at which similarity has mostly gone.

Fitting one length per feature gave the same errors (six tables, 100 and 300 rows) and narrower
intervals that held less often.
"""

MAX_FIT_ROWS = 256
"""Rows on which amplitudes are fitted: more change the error by under 3 % and cost n³."""

MAX_EXACT_ROWS = 1_500
"""Rows up to which the process is fitted to all of them; above, it has a basis of fewer rows."""

BASIS_ROWS = 800
"""Rows of that basis."""

MAX_ITERATIONS = 15
"""Steps of the optimiser; 40 gave the same errors."""

TOTAL_AMPLITUDE, VARIANCE, NOISE = 10.0, 2.0, 0.05
"""Centre of the prior of a kernel's parameters; features share the total equally.

Interactions of two features then have 10/d of the weight of single features. Ten tables, 100 and
300 rows: a total of 1 had 5 % more error, 6 to 20 the same, orders up to three only 8 to 20 % more.
"""

AMPLITUDE_SD, VARIANCE_SD, NOISE_SD = 1.5, 2.0, 3.0
"""Standard deviations of the logarithms; 1 or 2 for the amplitudes gave 1 % more error."""

MIN_AMPLITUDE = 1e-7
"""Features with a smaller amplitude are left out of the products."""

PSEUDO_FEATURES = 0.25
"""Features added to the d that measure a surrogate's bias.

Five features at 30 rows were covered 0.91 without it, 0.95 with 0.5; ten tables of eight and more
features at 100 rows 0.954 and 0.960.
"""

LEAST_BIAS_DOF = 5.0
"""Degrees of freedom that the bias leaves, at least.

26 tables, 100 to 2,000 rows, both posteriors: 50 and 80 % intervals cover 0.48 to 0.51 and 0.78 to
0.82 with 5; with 4 0.47 to 0.51 and 0.78 to 0.81, with 8 0.48 to 0.53 and 0.78 to 0.83.
"""

MAX_NODES = 4
"""Gauss-Legendre nodes: exact for eight features, and to 1e-4 of the largest value for sixty."""

CHUNK_CELLS = 400_000
"""Kernel values (rows × background rows × features) held at a time."""

JITTER = 1e-10
"""Relative addition to the diagonal of a kernel matrix, against rounding."""

CHUNK_ROWS = 4_096
"""Rows whose kernel features are made at a time."""


def similarity(distance: Floats) -> Floats:
    """Correlation of two values of a feature: Matérn 3/2 with a share of Matérn 1/2."""
    steps = np.sqrt(3.0) / SMOOTH_LENGTH * distance
    smooth = (1.0 + steps) * np.exp(-steps)
    return np.asarray(
        SMOOTH_SHARE * smooth + (1.0 - SMOOTH_SHARE) * np.exp(-distance / ROUGH_LENGTH)
    )


@dataclass(frozen=True, slots=True, eq=False)
class InputSpace:
    """Similarities of encoded rows, feature by feature.

    ``columns`` are the positions of each feature's columns among the p encoded ones;
    ``categorical (p,)`` says which hold codes that are equal or not.
    """

    columns: tuple[tuple[int, ...], ...]
    categorical: Masks

    @property
    def d(self) -> int:
        """Number of features."""
        return len(self.columns)

    def similar(self, feature: int, a: Floats, b: Floats) -> Floats:
        """Similarities in one feature, in [0, 1], of rows ``a (…, p)`` and ``b (…, p)``.

        A group's is the product over its columns.
        """
        out: Floats | None = None
        for j in self.columns[feature]:
            u, v = a[..., j], b[..., j]
            step = (u != v).astype(np.float64) if self.categorical[j] else np.abs(u - v)
            out = similarity(step) if out is None else out * similarity(step)
        return np.asarray(out)


@dataclass(frozen=True, slots=True, eq=False)
class Functional:
    """Shapley values of a surrogate, averaged over background rows.

    ``phi (d, m)`` and ``base (m,)`` give them and the base value from the m coefficients; ``by_row
    (n, d, k)`` and ``base_by_row (n, k)`` are the values on each background row.
    """

    phi: Floats
    base: Floats
    by_row: Floats
    base_by_row: Floats


@dataclass(frozen=True, slots=True, eq=False)
class AnovaKernel:
    """Amplitudes ``(d,)`` of the features, the variance k(u, u), and that of the noise."""

    amplitudes: Floats
    variance: float
    noise: float

    @classmethod
    def unfitted(cls, d: int) -> AnovaKernel:
        """Return the centre of the prior: nothing fitted, so never overfitted."""
        return cls(np.full(d, TOTAL_AMPLITUDE / d), VARIANCE, NOISE)

    @property
    def relevant(self) -> Ints:
        """Features with an amplitude that counts."""
        return np.flatnonzero(self.amplitudes > MIN_AMPLITUDE)

    def between(self, space: InputSpace, a: Floats, b: Floats) -> Floats:
        """Covariances ``(n, m)`` of rows ``a`` and ``b``."""
        out = np.full((len(a), len(b)), self.variance)
        for j in self.relevant.tolist():
            out *= self.factor(space, j, a, b)
        return out

    def shapley(
        self,
        space: InputSpace,
        x: Floats,
        background: Floats,
        weights: Floats,
        *,
        basis: Floats,
        coefficients: Floats,
    ) -> Functional:
        """Shapley values and base value of Σ c_m k(·, u_m) over ``background (n, p)``.

        ``x (1, p)`` is the instance, ``weights (n,)`` are those of the background rows.
        """
        n, m, k = len(background), len(basis), coefficients.shape[1]
        phi, base = np.zeros((space.d, m)), np.zeros(m)
        by_row, base_by_row = np.zeros((n, space.d, k)), np.zeros((n, k))
        features = self.relevant.tolist()
        nodes, shares = np.polynomial.legendre.leggauss(
            int(np.clip((len(features) + 1) // 2, 1, MAX_NODES))
        )
        step = max(CHUNK_CELLS // max(n * len(features), 1), 1)
        for part in (slice(s, s + step) for s in range(0, m, step)):
            near, c = basis[part], coefficients[part]
            on, off = (
                [self.factor(space, j, rows, near) for j in features] for rows in (x, background)
            )
            between = self.variance * np.prod(off, axis=0) * np.ones((n, len(near)))
            base[part] = weights @ between
            base_by_row += between @ c
            change = [a - b for a, b in zip(on, off, strict=True)]
            for t, share in zip((1 + nodes) / 2, shares / 2, strict=True):
                mixed = [b + t * by for b, by in zip(off, change, strict=True)]
                product = share * self.variance * np.prod(mixed, axis=0)
                for i, j in enumerate(features):
                    term = product * change[i] / mixed[i]
                    phi[j, part] += weights @ term
                    by_row[:, j] += term @ c
        return Functional(phi, base, by_row, base_by_row)

    def factor(self, space: InputSpace, feature: int, a: Floats, b: Floats) -> Floats:
        """Factor ``(n, m)`` of one feature between rows ``a`` and ``b``, 1 where they agree."""
        amplitude = self.amplitudes[feature]
        similar = space.similar(feature, a[:, None], b)
        return np.asarray((1.0 + amplitude * similar) / (1.0 + amplitude))


def fit_kernel(space: InputSpace, rows: Floats, y: Floats, seed: int) -> AnovaKernel:
    """Fit amplitudes, variance and noise by marginal likelihood; ``y (n, k)`` is standardised.

    All outputs share one kernel. Log-normal priors keep a feature that was hardly seen near an
    equal share.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve
    from scipy.optimize import minimize

    d, (n, k) = space.d, y.shape
    if n > MAX_FIT_ROWS:
        kept = np.sort(spawn(seed, Purpose.KERNEL_ROWS, n).permutation(n)[:MAX_FIT_ROWS])
        rows, y, n = rows[kept], y[kept], MAX_FIT_ROWS
    i, j = np.triu_indices(n, 1)
    similar = np.stack([space.similar(f, rows[i], rows[j]) for f in range(d)])
    centre = AnovaKernel.unfitted(d)
    start = np.log([*centre.amplitudes, centre.variance, centre.noise])
    sd = np.array([*[AMPLITUDE_SD] * d, VARIANCE_SD, NOISE_SD])

    def loss(p: Floats) -> tuple[float, Floats]:
        a, (variance, noise) = np.exp(p[:d, None]), np.exp(p[d:])
        factors = (1.0 + a * similar) / (1.0 + a)
        between = variance * factors.prod(axis=0)
        K = np.empty((n, n))
        K[i, j] = K[j, i] = between
        np.fill_diagonal(K, variance + noise)
        try:
            root = cho_factor(K, lower=True)
        except LinAlgError:
            return 1e12, np.zeros_like(p)
        alpha, inverse = cho_solve(root, y), cho_solve(root, np.eye(n))
        z = (p - start) / sd
        value = 0.5 * np.sum(y * alpha) + k * np.log(np.diag(root[0])).sum() + 0.5 * z @ z
        slope = 0.5 * (k * inverse - alpha @ alpha.T)  # of the loss in K
        g, trace = 2.0 * slope[i, j] * between, float(np.trace(slope))
        of_amplitudes = (1.0 - 1.0 / factors) @ g / (1.0 + a[:, 0])
        of_others = [g.sum() + variance * trace, noise * trace]
        return float(value), np.concatenate([of_amplitudes, of_others]) + z / sd

    bounds = [(-14.0, 4.0)] * d + [(-9.0, 9.0), (-14.0, 2.0)]
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": MAX_ITERATIONS}
    )
    variance, noise = np.exp(found.x[d:])
    return AnovaKernel(np.exp(found.x[:d]), float(variance), float(noise))


class Surrogate:
    """Ridge regression of standardised outputs ``y (n, k)`` on kernel features of the rows.

    With ``basis=None`` the basis is the rows themselves: a Gaussian process. Otherwise it is other
    rows (Nyström features), and what they cannot express of the kernel counts as noise.
    """

    def __init__(
        self,
        kernel: AnovaKernel,
        space: InputSpace,
        rows: Floats,
        y: Floats,
        basis: Floats | None = None,
    ) -> None:
        from scipy.linalg import solve_triangular

        self.kernel, self.space = kernel, space
        self.basis = rows if basis is None else basis
        K = kernel.between(space, self.basis, self.basis)
        self._root = _cholesky(K, kernel.variance)
        noise = kernel.noise
        features = self._root
        if basis is not None:
            pieces = [
                solve_triangular(
                    self._root,
                    kernel.between(space, rows[s : s + CHUNK_ROWS], basis).T,
                    lower=True,
                ).T
                for s in range(0, len(rows), CHUNK_ROWS)
            ]
            features = np.concatenate(pieces)
            explained = np.einsum("ij,ij->i", features, features).mean()
            noise += max(kernel.variance - explained, 0.0)
        G = features.T @ features
        G[np.diag_indices(len(G))] += noise
        self._ridge = _cholesky(G, kernel.variance)
        self._scaled = solve_triangular(self._ridge, features.T, lower=True).T  # (n, m)
        theta = solve_triangular(self._ridge.T, self._scaled.T @ y, lower=False)
        self.residual = y - features @ theta
        self.coefficients = solve_triangular(self._root.T, theta, lower=False)  # (m, k)

    def left_out(self, units: Ints) -> Floats:
        """Residuals ``(units, q, k)`` of the ``(units, q)`` rows, each unit left out of the fit."""
        part = self._scaled[units]
        hat = np.einsum("uqm,urm->uqr", part, part)
        q = units.shape[1]
        free = np.eye(q) - hat
        free[:, np.arange(q), np.arange(q)] = np.maximum(np.einsum("uqq->uq", free), 1e-9)
        return np.linalg.solve(free, self.residual[units])

    def shapley(self, x: Floats, background: Floats, weights: Floats) -> Functional:
        """Shapley values of the fit over background rows."""
        fit = {"basis": self.basis, "coefficients": self.coefficients}
        return self.kernel.shapley(self.space, x, background, weights, **fit)

    def predict(self, rows: Floats) -> Floats:
        """Values ``(n, k)`` of the fit."""
        step = range(0, len(rows), CHUNK_ROWS)
        between = (
            self.kernel.between(self.space, rows[s : s + CHUNK_ROWS], self.basis) for s in step
        )
        return np.concatenate([K @ self.coefficients for K in between])

    def sensitivity(self, functional: Floats) -> Floats:
        """Derivatives ``(d, n)`` of ``functional (d, m)`` of the fit in the outputs."""
        from scipy.linalg import solve_triangular

        inner = solve_triangular(self._root, functional.T, lower=True)
        return (self._scaled @ solve_triangular(self._ridge, inner, lower=True)).T


def _cholesky(K: Floats, size: float) -> Floats:
    """Lower root of K with a small addition to the diagonal, larger if rounding asks for it."""
    from scipy.linalg import LinAlgError, cholesky

    K[np.diag_indices(len(K))] += JITTER * size
    for more in (1e-8, 1e-6, 1e-4):
        try:
            return np.asarray(cholesky(K, lower=True))
        except LinAlgError:
            K[np.diag_indices(len(K))] += more * size
    return np.asarray(cholesky(K, lower=True))


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """What sampled units say of the surrogate's error, for one output.

    ``value (d,)`` is the correction, ``influence (d, u)`` that of each unit on it; ``surrogate
    (d, u)`` is the influence of leaving the unit out on the surrogate's own Shapley values.
    """

    value: Floats
    influence: Floats
    surrogate: Floats


def combine(
    phi: Floats,
    corrections: Sequence[Correction],
    spread: Floats,
    size: Floats,
    *,
    sum_known: bool = True,
) -> tuple[Floats, Floats, float]:
    """Shrink the corrections of ``phi (d, k)`` to their best size.

    φ + c is unbiased, φ alone has less variance. Over the features, the mean square of c beyond
    its sampling variance measures the surrogate's squared bias; half of it is taken as equal for
    all features, half in proportion to ``size (d, k)``, the mean square of a feature's Shapley
    values over background rows. φ + λc with λ from a feature's bias and the variances has the least
    mean square error. What is left of the bias is part of the covariance, with `PSEUDO_FEATURES`
    that are as far off as all of c, because few features cannot measure it. All outputs (of
    standard deviations ``spread``) share λ, so that importances of probabilities add up.
    ``sum_known``: the sum over features has no bias.

    Returns means ``(d, k)``, scale matrices ``(d, d, k)`` and degrees of freedom: those of the
    units, and of the features that measured the bias as far as it counts (Satterthwaite), at the
    width that the units give at 95 %.
    """
    d = len(phi)
    each = size.mean(axis=0)
    ones = np.ones_like(size)
    relative = 0.5 + 0.5 * np.divide(size, each, out=ones, where=each > 0)
    measured = [_bias(c) for c in corrections]
    bias = sum(m[0] * relative[:, j] / spread[j] ** 2 for j, m in enumerate(measured))
    variance, shared = (
        sum(m[i] / s**2 for m, s in zip(measured, spread, strict=True)) for i in (1, 2)
    )
    total = np.asarray(bias + variance)
    share = np.divide(bias - shared, total, out=np.ones(d), where=total > 0).clip(0.0, 1.0)
    centre = np.eye(d)
    if sum_known:
        centre = (centre - 1.0 / d) * np.sqrt(d / max(d - 1, 1))
    mean, covariance = phi.copy(), np.empty((d, d, len(spread)))
    units = dof = np.inf
    for j, c in enumerate(corrections):
        influence = (1 - share)[:, None] * c.surrogate + share[:, None] * c.influence
        square, of_c = measured[j][0], sum(measured[j][:2])
        left = (1 - share) ** 2 * relative[:, j]
        mean[:, j] += share * c.value
        covariance[:, :, j] = influence @ influence.T
        own = np.diag(covariance[:, :, j]).copy()
        bias_left = left * (square + PSEUDO_FEATURES / d * of_c)
        covariance[:, :, j] += (centre * bias_left) @ centre
        units = min(units, effective_units(influence))
        uncertain = own**2 / units + (left * of_c) ** 2 / d
        known = np.diag(covariance[:, :, j]) ** 2
        rate = np.divide(uncertain, known, out=np.zeros(d), where=known > 0)
        dof = min(dof, 1.0 / max(float(rate.clip(0.0, 1.0).mean()), 1e-12))
    dof = min(max(dof, LEAST_BIAS_DOF), units)
    return mean, covariance * dof_factor(units, dof), dof


def _bias(c: Correction) -> tuple[float, float, float]:
    """Mean squared bias of φ, variance of c, and its covariance with φ."""
    difference = c.influence - c.surrogate
    variance = float((difference**2).sum(axis=1).mean())
    bias = max(float((c.value**2).mean()) - variance, 0.0)
    return bias, variance, float((c.surrogate * difference).sum(axis=1).mean())


def effective_units(influence: Floats) -> float:
    """Degrees of freedom of variances that are sums over units (Satterthwaite).

    Few units with most of the influence, as rare large outputs have, count as few. Each feature of
    ``influence (d, m)`` has its own number; this is their harmonic mean.
    """
    square, m = influence**2, influence.shape[1]
    total = square.sum(axis=1)
    square, total = square[total > 0], total[total > 0]
    if len(total) == 0 or m < 3:
        return float(max(m - 1, 1))
    spread = ((square / total[:, None]) ** 2).sum(axis=1) - 1.0 / m
    return float(1.0 / np.mean(1.0 / np.clip(2.0 / np.maximum(spread, 1e-12), 1.0, m - 1)))
