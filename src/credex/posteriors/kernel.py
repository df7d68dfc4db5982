r"""Prior covariance of a value function over masks or over the rows of a table.

.. math::
    k(a, b) = w_p e^{-\sum_j \lambda_j |x_j-x'_j| - (h\cdot(x-x'))^2/2}
            + \tfrac{w_l}{d} \sum_j e_j z_j z'_j + w_c + w_e\,\delta_{ab}

with coordinates x and the standardised design z. For masks both are signs in {-1, +1}^d; for
tables x says where the perturbed row lies.

* *product*: one length-scale 1/lambda_j per coordinate, and for masks a direction h = rho b along
  which the function may bend, as a sigmoid of a sum does.
* *linear*: additive functions; e_j is feature j's relative prior variance. For Shapley values it
  grows with lambda_j: a feature that takes no part in interactions has, as a rule, a small main
  effect too, so that few rows tell which of many features matter.
* *constant*: the level of the function.
* *white*: roughness that no smooth kernel explains. It is part of the function, so that a game
  known everywhere has no uncertainty left, unless the kernel is ``noisy``.

An ``odd`` kernel describes half differences g(s) = [v(s) - v(-s)]/2 of pairs of complementary
masks, which alone determine the Shapley values. There the product part is
w_p [k(s, s') - k(s, -s')]/2, and in place of the constant there is a free value per coalition size
(symmetric games), which says nothing about single players.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from credex.typing import Design, Floats, Ints, Masks

JITTER = 1e-9
"""Added to the diagonal of a covariance matrix, relative to its mean."""

SUM_OF_SCALES = 2.0
"""What the lambda_j of d players sum to at the centre of their prior, so that the shares of
interactions of two, three, … players do not depend on d. On the games of benchmarks/kernel_games.py
0.5·√d in its place has errors 1.0 to 1.1 times as large for d ≥ 24."""

MIN_LOG_RHO = -4.0
"""Lower bound of log rho, where bending is negligible: where a fit starts."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Points at which a process is observed or predicted."""

    z: Floats  # (n, d) standardised design; for masks, signs
    coordinates: Floats | None = None  # (n, p) of table rows; None for masks: their signs

    @classmethod
    def of_masks(cls, masks: Design) -> Inputs:
        """Masks ``(n, d)`` as signs."""
        return cls(np.where(np.asarray(masks) > 0.5, 1.0, -1.0))

    @property
    def x(self) -> Floats:
        """(n, p) coordinates."""
        return self.z if self.coordinates is None else self.coordinates

    @property
    def on(self) -> Masks:
        """(n, d) masks."""
        return np.asarray(self.z > 0)

    def __len__(self) -> int:
        return len(self.z)

    def __getitem__(self, rows: slice | Ints) -> Inputs:
        some = None if self.coordinates is None else self.coordinates[rows]
        return Inputs(self.z[rows], some)


@dataclass(frozen=True, slots=True)
class Kernel:
    """Hyper-parameters of the covariance."""

    log_scales: Floats  # (p,) logarithms of lambda_j
    log_rho: float  # logarithm of the length of the bending direction
    log_weights: Floats  # (4,) of the product, linear, constant (or size) and white variances
    direction: Floats | None  # (p,) unit vector b; None: no bending
    odd: bool = False  # whether it describes half differences of pairs
    noisy: bool = False  # the white part is noise of the observations, not part of the function
    ease: Floats | float = 1.0  # (d,) factors of the variances e_j of the linear part
    tie: float = 0.0  # power of lambda_j, relative to its prior's centre, that e_j grows with

    @property
    def theta(self) -> Floats:
        """All fitted parameters as one vector (p + 5,)."""
        return np.concatenate([self.log_scales, [self.log_rho], self.log_weights])

    @property
    def weights(self) -> Floats:
        """(4,) variances of the parts."""
        return np.asarray(np.exp(self.log_weights))

    @property
    def linear_variances(self) -> Floats | float:
        """(d,) relative prior variances e_j of the linear part."""
        return tied_variances(self.ease, self.tie, self.log_scales)

    @property
    def shares(self) -> Floats:
        """(3,) shares of the first three variances in the variance between observations."""
        return np.array([0.5, 1.0, 0.5] if self.odd else [1.0, 1.0, 0.0])

    @property
    def h(self) -> Floats:
        """(p,) bending direction times its length."""
        if self.direction is None:
            return np.zeros(len(self.log_scales))
        return np.asarray(np.exp(self.log_rho) * self.direction)

    def gram(self, a: Inputs, b: Inputs | None = None) -> Floats:
        """k(a, b) of the function, (n, m). Without b: k(a, a), white on the diagonal."""
        w, other = self.weights, a if b is None else b
        linear = (a.z * self.linear_variances) @ other.z.T
        K = w[0] * self.product(a, other) + (w[1] / a.z.shape[1]) * linear
        K += w[2] * size_match(a.z, other.z) if self.odd else w[2]
        if b is None:
            K[np.diag_indices(len(K))] += w[3]
        return np.asarray(K)

    def product(self, a: Inputs, b: Inputs) -> Floats:
        """Product part at unit variance, (n, m)."""
        lam, S, T = np.exp(self.log_scales), a.x, b.x
        if a.coordinates is not None:
            from scipy.spatial.distance import cdist

            return np.asarray(np.exp(-cdist(S * lam, T * lam, "cityblock")))
        u, total = (S * lam) @ T.T, lam.sum()  # of signs, sum_j lam_j |s_j - t_j| is total - u
        p, q = S @ self.h, T @ self.h
        near = np.exp(u - total - 0.5 * (p[:, None] - q) ** 2)
        if not self.odd:
            return np.asarray(near)
        return np.asarray(0.5 * (near - np.exp(-u - total - 0.5 * (p[:, None] + q) ** 2)))

    def diagonal(self, a: Inputs) -> Floats:
        """Variance of an observation at each row, white included, (n,)."""
        w = self.weights
        linear = w[1] / a.z.shape[1] * (a.z**2 * self.linear_variances).sum(1)
        if not self.odd:
            return np.asarray(w[0] + linear + w[2] + w[3])
        far = np.exp(-2 * np.exp(self.log_scales).sum() - 2 * (a.z @ self.h) ** 2)
        return np.asarray(0.5 * w[0] * (1 - far) + linear + 0.5 * w[2] * (a.z.sum(1) != 0) + w[3])

    def factors(self, span: float = 6.5) -> Iterator[tuple[float, NDArray[Any]]]:
        r"""Weights beta and factors e (d,) of product functions whose sum is the product part.

        The bending factor is a cosine integral, e^{-x²/2} = sum_q beta_q cos(omega_q x), and every
        cosine is the real part of a product over features: 1 where two masks agree, e_j (or its
        conjugate, by the sign) where they differ.
        """
        decay = np.exp(-2 * np.exp(self.log_scales))
        largest = 2 * np.abs(self.h).sum()  # projection of any mask
        if largest < 1e-4:
            yield 1.0, decay
            return
        step = 2 * np.pi / (largest + span)  # trapezoid rule: aliases lie beyond the largest
        for q in range(int(np.ceil(span / step)) + 1):
            omega = step * q
            beta = step * np.sqrt(2 / np.pi) * np.exp(-(omega**2) / 2)
            yield (beta, decay * np.exp(2j * omega * self.h)) if q else (beta / 2, decay)


def tied_variances(ease: Floats | float, tie: float, log_scales: Floats) -> Floats | float:
    """Relative prior variances e_j of the linear part, ``(d,)``, given log lambda_j ``(p,)``."""
    if not tie:
        return ease
    return np.asarray(ease * np.exp(tie * (log_scales - np.log(SUM_OF_SCALES / len(log_scales)))))


def size_match(S: Floats, T: Floats) -> Floats:
    """Odd kernel of a free value per size: +1/2 same size, -1/2 complementary size, else 0."""
    a, b = S.sum(1)[:, None], T.sum(1)[None]
    return np.asarray(0.5 * (a == b) - 0.5 * (a == -b))


def by_size(S: Floats) -> Floats:
    """Design of a game that depends on the size alone: one odd column per size, (n, sizes)."""
    balance = S.sum(1)[:, None]
    sizes = np.unique(np.abs(balance))
    return np.asarray((np.abs(balance) == sizes[sizes > 0]) * np.sign(balance))


def safe_cholesky(K: Floats) -> Floats:
    """Lower Cholesky factor of K + jitter; the jitter grows only if it must."""
    from scipy.linalg import cholesky

    jitter, level = JITTER, float(np.mean(np.diag(K)))
    diagonal = np.diag_indices(len(K))
    for _ in range(6):
        A = K.copy()
        A[diagonal] += jitter * level
        try:
            return np.asarray(cholesky(A, lower=True, check_finite=False, overwrite_a=True))
        except np.linalg.LinAlgError:
            jitter *= 100
    msg = f"kernel matrix of {len(K)} rows is not positive definite; are there repeated rows?"
    raise np.linalg.LinAlgError(msg)


def solve_lower(L: Floats, X: Floats, *, transposed: bool = False) -> Floats:
    """L^-1 X, or L^-T X if ``transposed``, for a lower triangular L."""
    from scipy.linalg import solve_triangular

    kind: Literal["N", "T"] = "T" if transposed else "N"
    return np.asarray(solve_triangular(L, X, lower=True, trans=kind, check_finite=False))
