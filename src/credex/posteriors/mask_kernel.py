r"""Covariance of odd functions of masks, and of their Shapley values, in closed form.

A mask is a sign vector s in {-1, +1}^d. The half difference of a pair, g(s) = [v(s) - v(-s)]/2, is
odd, and it alone decides the Shapley values. Its prior covariance is the sum of four odd kernels,

.. math::
    k(s, s') = \tfrac{w_p}{2}\bigl[e^{u-L-(p-p')^2/2} - e^{-u-L-(p+p')^2/2}\bigr]
             + \tfrac{w_l}{d} \sum_j a_j s_j s'_j + w_s\,\delta_{size} + w_e\,\delta_{s,s'}

with u = sum_j lam_j s_j s'_j, L = sum_j lam_j and the projection p = rho b.s on one direction b.

* *product*: a Gaussian kernel whose metric is diagonal plus rank one: one length-scale per player,
  and a direction along which v may bend (a sigmoid of a sum does). rho = 0: the product kernel.
* *linear*: additive games; a_j says how much is thought possible of player j, one unless a prior
  says otherwise. *size*: a free value per coalition size (symmetric games, parity), which
  says nothing of single players. *white*: roughness no smooth kernel explains. White is a function
  of the mask like any other, not noise, so that a game known everywhere has no uncertainty left.

The Shapley value of a product function prod_j f_j(s_j) is
phi_i = [f_i(1) - f_i(-1)] * 1/2 int_{-1}^{1} prod_{j != i} mean_t f_j dt, a polynomial integral
which Gauss-Legendre with ceil(d/2) nodes takes exactly. The rank-one factor is a cosine integral,
e^{-x^2/2} = sum_q beta_q cos(omega_q x), every cosine a (complex) product function.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.typing import Floats

MAX_NODES = 24
"""Gauss–Legendre nodes; exact up to d = 48, error below 1e-8 beyond."""

DRAFT_NODES = 5
"""Nodes where candidates are only compared."""


@dataclass(frozen=True, slots=True)
class MaskKernel:
    """Hyper-parameters of the odd kernel.

    Attributes
    ----------
    log_scales : (d,) logarithms of lam_j.
    log_rho : logarithm of the length of the bending direction.
    log_weights : (4,) logarithms of the product, linear, size and white variances.
    direction : (d,) unit vector b.
    noisy : the white part is noise of the queries, not part of the game.
    ease : (d,) prior variances a_j of the linear part, relative to each other; None: all one.
    """

    log_scales: Floats
    log_rho: float
    log_weights: Floats
    direction: Floats
    noisy: bool = False
    ease: Floats | None = None

    @property
    def d(self) -> int:
        """Number of players."""
        return len(self.log_scales)

    @property
    def theta(self) -> Floats:
        """All free parameters as one vector (d + 5,)."""
        return np.concatenate([self.log_scales, [self.log_rho], self.log_weights])

    def with_theta(self, theta: Floats) -> MaskKernel:
        """Return the kernel with other parameters ``(d + 5,)`` and the same direction."""
        d = self.d
        return replace(
            self, log_scales=theta[:d], log_rho=float(theta[d]), log_weights=theta[d + 1 :]
        )

    # ------------------------------------------------------------------ covariance of g
    def gram(self, S: Floats, T: Floats | None = None) -> Floats:
        """k(S, T), (n, m). Without T: k(S, S), white on the diagonal (rows are distinct)."""
        same = T is None
        T = S if T is None else T
        w = np.exp(self.log_weights)
        lam = np.exp(self.log_scales)
        shift = lam.sum()
        u = (S * lam) @ T.T
        p, q = S @ self._h, T @ self._h
        near = u - shift - 0.5 * (p[:, None] - q) ** 2
        far = -u - shift - 0.5 * (p[:, None] + q) ** 2
        K = (
            0.5 * w[0] * (np.exp(near) - np.exp(far))
            + (w[1] / self.d) * ((S if self.ease is None else S * self.ease) @ T.T)
            + w[2] * size_match(S, T)
        )
        K += w[3] * (np.eye(len(S)) if same else identical(S, T))
        return np.asarray(K)

    def diagonal(self, S: Floats) -> Floats:
        """k(s, s) for every row of S, (n,)."""
        w = np.exp(self.log_weights)
        shift = np.exp(self.log_scales).sum()
        far = np.exp(-2 * shift - 2 * (S @ self._h) ** 2)
        linear = w[1] if self.ease is None else w[1] * float(self.ease.mean())
        return np.asarray(0.5 * w[0] * (1 - far) + linear + 0.5 * w[2] * (S.sum(1) != 0) + w[3])

    # ------------------------------------------------------------------ covariance with phi
    def cross(self, S: Floats, *, draft: bool = False) -> Floats:
        """cov(phi_i, g(s)) for every row s of S, (d, n).

        ``draft`` takes fewer nodes and single precision: a functional close to phi, four times
        faster, for choosing among candidates. Never mix drafts with exact values.
        """
        w = np.exp(self.log_weights)
        d, n = self.d, len(S)
        white = 0.0 if self.noisy else w[3]
        ease = np.ones(d) if self.ease is None else self.ease
        out = (2 * w[1] / d) * (S * ease).T + 2 * white * shapley_weights(S).T
        out += w[2] / d * (np.abs(S.sum(1)) == d) * np.sign(S.sum(1))
        real, complex_ = (np.float32, np.complex64) if draft else (np.float64, np.complex128)
        t, tw = _legendre(min(d, DRAFT_NODES * 2) if draft else d)
        half = ((1 + t) / 2).astype(real)[:, None]
        decay = np.exp(-2 * np.exp(self.log_scales))
        plus = S.T > 0
        for omega, beta in zip(*self._frequencies(5.0 if draft else 6.5), strict=True):
            # f_j(+1), f_j(-1) given s'_j: 1 where the signs agree, decay * phase where not
            e = (
                (decay * np.exp(2j * omega * self._h)).astype(complex_)
                if omega
                else decay.astype(real)
            )
            # (d, nodes): t f_j(1) + (1 - t) f_j(-1) takes two values, by the sign of s'_j
            up, down = half + (1 - half) * np.conj(e), half * e + (1 - half)
            rest = _product_of_others(
                np.where(plus[:, None, :], up.T[:, :, None], down.T[:, :, None])
            )
            jump = np.where(plus, (1 - np.conj(e))[:, None], (e - 1)[:, None])
            out += (w[0] * beta) * (jump * np.einsum("t,dtn->dn", tw.astype(real), rest)).real
        return np.asarray(out.reshape(d, n))

    def prior_covariance(self) -> Floats:
        """cov(phi_i, phi_j) before any observation, (d, d)."""
        w = np.exp(self.log_weights)
        d = self.d
        white = 0.0 if self.noisy else w[3]
        ease = np.ones(d) if self.ease is None else self.ease
        C = np.diag(4 * w[1] / d * ease) + 2 * white * white_covariance(d) + 2 * w[2] / d**2
        decay = np.exp(-2 * np.exp(self.log_scales))[:, None]
        t, tw = _legendre(d)
        p = np.repeat((1 + t) / 2, len(t))
        r = np.tile((1 + t) / 2, len(t))
        W = np.repeat(tw, len(t)) * np.tile(tw, len(t))
        for omega, beta in zip(*self._frequencies(), strict=True):
            e = decay * np.exp(2j * omega * self._h)[:, None] if omega else decay
            ec = np.conj(e)
            F = p * r + (1 - p) * (1 - r) + p * (1 - r) * e + (1 - p) * r * ec
            left = (r * (1 - ec) - (1 - r) * (1 - e)) / F
            right = (p * (1 - e) - (1 - p) * (1 - ec)) / F
            P = W * np.prod(F, axis=0)
            M = ((left * P) @ right.T).real
            M[np.diag_indices(d)] = ((2 - e - ec) / F * P).sum(1).real
            C += w[0] * beta * M
        return np.asarray((C + C.T) / 2)

    @property
    def _h(self) -> Floats:
        return np.asarray(np.exp(self.log_rho) * self.direction)

    def _frequencies(self, span: float = 6.5) -> tuple[Floats, Floats]:
        """Nodes and weights: sum_q beta_q cos(omega_q x) is exp(-x²/2) within reach."""
        reach = 2 * np.abs(self._h).sum()
        if reach < 1e-4:
            return np.zeros(1), np.ones(1)
        step = (
            2 * np.pi / (reach + span)
        )  # trapezoid rule: the alias of the bump stays out of reach
        omega = step * np.arange(int(np.ceil(span / step)) + 1)
        beta = step * np.sqrt(2 / np.pi) * np.exp(-(omega**2) / 2)
        beta[0] /= 2
        return omega, beta


def size_match(S: Floats, T: Floats) -> Floats:
    """Odd kernel of a free value per size: +1/2 same size, -1/2 complementary size, else 0."""
    a, b = S.sum(1)[:, None], T.sum(1)[None]
    return np.asarray(0.5 * (a == b) - 0.5 * (a == -b))


def by_size(S: Floats) -> Floats:
    """Columns of a game that depends on the size alone, one per size, odd, (n, sizes)."""
    balance = S.sum(1)[:, None]
    sizes = np.unique(np.abs(balance))
    return np.asarray((np.abs(balance) == sizes[sizes > 0]) * np.sign(balance))


def identical(S: Floats, T: Floats) -> Floats:
    """+1 where rows are equal, -1 where they are complements, else 0."""
    dot = S @ T.T
    d = S.shape[1]
    return np.asarray((dot > d - 1).astype(float) - (dot < 1 - d))


def shapley_weights(S: Floats) -> Floats:
    """c_i(s) with phi_i = sum over all masks of c_i(s) v(s), (n, d)."""
    from scipy.special import gammaln

    d = S.shape[1]
    size = np.round((S.sum(1) + d) / 2)[:, None]
    inside = S > 0
    below = np.where(inside, size - 1, size)  # size of the coalition without player i
    c = np.exp(gammaln(below + 1) + gammaln(d - below) - gammaln(d + 1))
    return np.asarray(np.where(inside, c, -c))


@lru_cache(maxsize=32)
def white_covariance(d: int) -> Floats:
    """Sum over all masks of c_i c_j, (d, d)."""
    from scipy.special import gammaln

    s = np.arange(d)
    logw = gammaln(s + 1) + gammaln(d - s) - gammaln(d + 1)
    diag = 2 * np.exp(_log_binomial(d - 1, s) + 2 * logw).sum()
    if d == 1:
        return np.full((1, 1), diag)
    m = np.arange(d - 1)  # size among the other d - 2 players
    lb = _log_binomial(d - 2, m)
    off = (
        np.exp(lb + 2 * logw[1:]).sum()
        + np.exp(lb + 2 * logw[:-1]).sum()
        - 2 * np.exp(lb + logw[1:] + logw[:-1]).sum()
    )
    return np.asarray(np.full((d, d), off) + (diag - off) * np.eye(d))


def _log_binomial(n: int, k: NDArray[np.int64]) -> Floats:
    from scipy.special import gammaln

    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


@lru_cache(maxsize=32)
def _legendre(d: int) -> tuple[Floats, Floats]:
    t, w = np.polynomial.legendre.leggauss(min(MAX_NODES, max(1, (d + 1) // 2)))
    return t, w / 2


def _product_of_others(F: NDArray[Any]) -> NDArray[Any]:
    """prod_{j != i} F_j along the first axis, without division (a factor may vanish)."""
    d = len(F)
    out = np.empty_like(F)
    acc = np.ones_like(F[0])
    for i in range(d):
        out[i] = acc
        acc = acc * F[i]
    acc = np.ones_like(F[0])
    for i in range(d - 1, -1, -1):
        out[i] *= acc
        acc = acc * F[i]
    return out
