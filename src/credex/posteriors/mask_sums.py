r"""Sums over all 2^d masks in closed form: Shapley values and weighted least squares.

The product part of the kernel is a sum of product functions prod_j f_j (`Kernel.factors`), and so
are the weights of both sums: sum_q c_q prod_j (a_q if feature j is present else b_q).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.posteriors.kernel import Kernel
from credex.typing import Floats, Masks

__all__ = ["MaskSums", "ShapleySums", "SurrogateSums"]

MAX_NODES, DRAFT_NODES = 24, 5
"""Gauss-Legendre nodes: exact up to d = 48, error below 1e-8 beyond; and of a draft."""

NEGLIGIBLE = 1e-10
"""Sizes of masks with less than this share of the largest weight are left out."""


class MaskSums:
    """A linear functional phi (q,) of functions of masks.

    Attributes
    ----------
    a, b, c : factors and weights of the nodes.
    contrast : 1: phi_i is the sum with f_i(1) - f_i(0) in place of f_i. 0: phi is the sum over all
        masks, followed by those over the masks with feature i.
    inverse : (q, q) matrix that phi is multiplied by; None: identity.
    """

    a: NDArray[Any]
    b: NDArray[Any]
    c: NDArray[Any]
    contrast: int
    inverse: Floats | None = None

    def influence(self, on: Masks) -> Floats:
        """Derivative of phi by the function at masks ``on (n, d)``, (q, n)."""
        raise NotImplementedError

    def influence_products(self) -> Floats:
        """Sum over all masks of influence times influence', (q, q)."""
        raise NotImplementedError

    def cross(self, out: Floats, kernel: Kernel, on: Masks) -> Floats:
        """``out (q, n)`` plus the covariance of phi with the product part at masks ``on``."""
        draft = self.a.dtype == np.float32
        a, b, on, w = self.a[:, None], self.b[:, None], on.T, kernel.weights[0]
        own = self.c if self.contrast else self.c * self.a
        sums = out if self.inverse is None else np.zeros_like(out)
        for beta, factor in kernel.factors(5.0 if draft else 6.5):
            single = np.complex64 if np.iscomplexobj(factor) else np.float32
            e = factor.astype(single) if draft else factor
            up, down = a + b * np.conj(e), a * e + b  # (q, d): with feature j in the mask, without
            F = np.where(on[:, None], up.T[..., None], down.T[..., None])
            others, whole = product_of_others(F)
            one = np.where(
                on, (1 - self.contrast * np.conj(e))[:, None], (e - self.contrast)[:, None]
            )
            sums[-len(on) :] += (w * beta) * (one * np.einsum("t,dtn->dn", own, others)).real
            if not self.contrast:
                sums[0] += (w * beta) * (self.c @ whole).real
        return sums if self.inverse is None else out + self.inverse @ sums

    def prior(self, kernel: Kernel) -> Floats:
        """Covariance of phi under the product part at unit variance, (q, q)."""
        d, q = len(kernel.log_scales), len(self.a)
        first, second = np.repeat(np.arange(q), q), np.tile(np.arange(q), q)
        a, b, a2, b2 = self.a[first], self.b[first], self.a[second], self.b[second]
        W = self.c[first] * self.c[second]
        own, own2 = (1.0, 1.0) if self.contrast else (a, a2)
        C: Floats | float = 0.0
        for beta, factor in kernel.factors():
            e, ec = factor[:, None], np.conj(factor[:, None])
            up, down = a2 + b2 * e, b2 + a2 * ec  # sums over one feature of the second mask
            F = a * up + b * down
            F = np.where(np.abs(F) < 1e-13, 1e-13, F)
            left = own * (up - self.contrast * down) / F
            right = own2 * (a + b * ec - self.contrast * (b + a * e)) / F
            both = own * own2 * (1 + self.contrast * (1 - e - ec)) / F
            if not self.contrast:
                left, right = (np.vstack([np.ones(q * q), x]) for x in (left, right))
            P = W * np.prod(F, axis=0)
            Q = ((left * P) @ right.T).real
            i = np.arange(len(Q) - d, len(Q))
            Q[i, i] = (both * P).sum(1).real
            C = C + beta * (Q + Q.T) / 2
        return np.asarray(C if self.inverse is None else self.inverse @ C @ self.inverse)


class ShapleySums(MaskSums):
    r"""Shapley values of d players.

    phi_i = int_0^1 [f_i(1) - f_i(0)] prod_{j != i} [t f_j(1) + (1 - t) f_j(0)] dt for a product
    function, a polynomial integral that Gauss-Legendre quadrature takes exactly. A ``draft`` has
    fewer nodes and single precision: values close by, four times faster.
    """

    contrast = 1

    def __init__(self, d: int, *, draft: bool = False) -> None:
        nodes = min(DRAFT_NODES if draft else MAX_NODES, max(1, (d + 1) // 2))
        t, w = np.polynomial.legendre.leggauss(nodes)
        self.a = ((1 + t) / 2).astype(np.float32 if draft else np.float64)
        self.b, self.c, self.d = 1 - self.a, (w / 2).astype(self.a.dtype), d

    def influence(self, on: Masks) -> Floats:
        """(|S| - 1)! (d - |S|)! / d! of a coalition S with player i; without i, that of S + i."""
        from scipy.special import gammaln

        others = on.sum(1)[:, None] - on  # size of the coalition without player i
        c = np.exp(gammaln(others + 1) + gammaln(self.d - others) - gammaln(self.d + 1))
        return np.asarray(np.where(on, c, -c).T)

    def influence_products(self) -> Floats:
        """Sum over all masks of influence times influence', (d, d)."""
        d = self.d
        c = self.influence(np.arange(d)[:, None] > np.arange(d))[-1]  # of sizes 0 to d - 1
        diagonal = 2 * _binomials(d - 1) @ c**2
        other = _binomials(d - 2) @ np.diff(c) ** 2 if d > 1 else 0.0
        return np.asarray(np.full((d, d), other) + (diagonal - other) * np.eye(d))


class SurrogateSums(MaskSums):
    """Intercept and d coefficients of least squares over all masks, weights ``w (d+1,)`` by size.

    Weights by size are a sum of complex exponentials of the size (roots of unity).
    """

    contrast = 0

    def __init__(self, w: Floats) -> None:
        self.d, self.w = len(w) - 1, w
        self.inverse: Floats = np.asarray(np.linalg.inv(self._moment(w)))
        mass = w * _binomials(self.d)
        s = np.flatnonzero(mass > NEGLIGIBLE * mass.max())
        angle = 2 * np.pi * (s - s[0] + 0.2371) / len(s)  # rotated: no factor vanishes by symmetry
        self.a, self.b = 0.5 * np.exp(1j * angle), np.full(len(s), 0.5)
        self.c = (w[s] @ np.exp(-1j * np.outer(s, angle))) / len(s)

    def influence(self, on: Masks) -> Floats:
        """(Z'PZ)^-1 Z'P at the masks, Z = (1, on)."""
        w = self.w[on.sum(1)] * 0.5**self.d
        return np.asarray(self.inverse @ (np.column_stack([np.ones(len(on)), on]) * w[:, None]).T)

    def influence_products(self) -> Floats:
        """Sum over all masks of influence times influence', (d+1, d+1)."""
        return np.asarray(self.inverse @ self._moment(self.w**2) @ self.inverse * 0.5**self.d)

    def _moment(self, w: Floats) -> Floats:
        """E[w (1,z)(1,z)'] over all masks."""
        d, s = self.d, np.arange(self.d + 1)
        mass = w * _binomials(d) * 0.5**d
        G = np.full((d + 1, d + 1), mass @ (s * (s - 1)) / max(d * (d - 1), 1))
        G[0, :] = G[:, 0] = G[np.diag_indices(d + 1)] = mass @ s / d
        G[0, 0] = mass.sum()
        return G


@lru_cache(maxsize=64)
def _binomials(n: int) -> Floats:
    """Number of masks of n features by size, (n+1,)."""
    from scipy.special import gammaln

    k = np.arange(n + 1)
    return np.asarray(np.exp(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)))


def product_of_others(F: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """prod_{j != i} F_j along the first axis, without division, and the whole product."""
    out, acc = np.empty_like(F), np.ones_like(F[0])
    for i in range(len(F)):
        out[i] = acc
        acc = acc * F[i]
    whole, acc = acc, np.ones_like(F[0])
    for i in range(len(F) - 1, -1, -1):
        out[i] *= acc
        acc = acc * F[i]
    return out, whole
