r"""Sums over all 2^d masks in closed form: Shapley values and weighted least squares.

The product part of the kernel is a sum of product functions prod_j f_j (`Kernel.factors`), and so
are the weights of both sums: sum_q c_q prod_j (a_q if j is present else b_q). For Shapley values,
phi_i = [f_i(1) - f_i(0)] int_0^1 prod_{j != i} [a f_j(1) + (1 - a) f_j(0)] da is a polynomial
integral, which Gauss-Legendre quadrature with ceil(d/2) nodes takes exactly. Weights that depend on
the size of a mask are a sum of complex exponentials (roots of unity).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.posteriors.kernel import Kernel
from credex.typing import Floats, Masks

__all__ = ["MaskSums", "binomials", "shapley_weights", "white_covariance"]

MAX_NODES, DRAFT_NODES = 24, 5
"""Gauss-Legendre nodes: exact up to d = 48, error below 1e-8 beyond; and of a draft."""

NEGLIGIBLE = 1e-10
"""Sizes of masks with less than this share of the largest weight are left out."""


class MaskSums:
    """Sums of product functions with weights ``c (q,)`` and factors ``a, b (q,)``.

    Shapley values (``contrast=1``) are d sums in which f_i is replaced by f_i(1) - f_i(0).
    Regressions (``contrast=0``) are d + 1 sums: of f, and of f where feature i is present.
    """

    def __init__(
        self, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], *, contrast: int
    ) -> None:
        self.a, self.b, self.c, self.contrast = a, b, c, contrast
        self.own = c if contrast else c * a
        """Weights of the sums of single features."""

    @classmethod
    def shapley(cls, d: int, *, draft: bool = False) -> MaskSums:
        """Shapley values; a draft has fewer nodes and single precision, and is four times faster."""
        t, w = _legendre(min(MAX_NODES, DRAFT_NODES if draft else MAX_NODES, max(1, (d + 1) // 2)))
        a = ((1 + t) / 2).astype(np.float32 if draft else np.float64)
        return cls(a, 1 - a, w.astype(a.dtype), contrast=1)

    @classmethod
    def by_size(cls, w: Floats) -> MaskSums:
        """Averages over all masks with weights ``w (d+1,)`` by size."""
        mass = w * binomials(len(w) - 1)
        s = np.flatnonzero(mass > NEGLIGIBLE * mass.max())
        angle = 2 * np.pi * (s - s[0] + 0.2371) / len(s)  # rotated: no factor vanishes by symmetry
        c = (w[s] @ np.exp(-1j * np.outer(s, angle))) / len(s)
        return cls(0.5 * np.exp(1j * angle), np.full(len(s), 0.5), c, contrast=0)

    def add_cross(self, out: Floats, kernel: Kernel, on: Masks) -> None:
        """Add to ``out`` the sums of the product part's covariances with masks ``on (n, d)``."""
        draft = self.a.dtype == np.float32
        a, b, on, w = self.a[:, None], self.b[:, None], on.T, kernel.weights[0]
        for beta, e in kernel.factors(5.0 if draft else 6.5):
            if draft:
                e = e.astype(np.complex64 if np.iscomplexobj(e) else np.float32)  # noqa: PLW2901
            ec = np.conj(e)
            up, down = a + b * ec, a * e + b  # (q, d) sums over feature j, present in the mask or not
            others, whole = product_of_others(np.where(on[:, None], up.T[..., None], down.T[..., None]))
            one = np.where(on, (1 - self.contrast * ec)[:, None], (e - self.contrast)[:, None])
            out[-len(on) :] += (w * beta) * (one * np.einsum("t,dtn->dn", self.own, others)).real
            if not self.contrast:
                out[0] += (w * beta) * (self.c @ whole).real

    def prior(self, kernel: Kernel) -> Floats:
        """Covariance of the sums under the product part, (d, d) or (d+1, d+1)."""
        d, q = len(kernel.log_scales), len(self.a)
        first, second = np.repeat(np.arange(q), q), np.tile(np.arange(q), q)
        a, b, a2, b2 = self.a[first], self.b[first], self.a[second], self.b[second]
        C, W = np.zeros((d, d)) if self.contrast else np.zeros((d + 1, d + 1)), self.c[first] * self.c[second]
        one, one2 = (1.0, 1.0) if self.contrast else (a, a2)
        for beta, factor in kernel.factors():
            e, ec = factor[:, None], np.conj(factor[:, None])
            up, down = a2 + b2 * e, b2 + a2 * ec  # sums over the second mask's feature
            F = a * up + b * down
            F = np.where(np.abs(F) < 1e-13, 1e-13, F)
            left = one * (up - self.contrast * down) / F
            right = one2 * (a + b * ec - self.contrast * (b + a * e)) / F
            both = one * one2 * (1 + self.contrast * (1 - e - ec)) / F
            if not self.contrast:
                left, right = (np.vstack([np.ones(q * q), x]) for x in (left, right))
            P = W * np.prod(F, axis=0)
            Q = ((left * P) @ right.T).real
            i = np.arange(len(Q) - d, len(Q))
            Q[i, i] = (both * P).sum(1).real
            C += beta * Q
        return np.asarray((C + C.T) / 2)


def shapley_weights(on: Masks) -> Floats:
    """c_i(z) with phi_i = sum over all masks of c_i(z) v(z), for masks ``on (n, d)``, (n, d)."""
    from scipy.special import gammaln

    d = on.shape[1]
    below = on.sum(1)[:, None] - on  # size of the coalition without player i
    c = np.exp(gammaln(below + 1) + gammaln(d - below) - gammaln(d + 1))
    return np.asarray(np.where(on, c, -c))


@lru_cache(maxsize=32)
def white_covariance(d: int) -> Floats:
    """Sum over all masks of c_i c_j, (d, d)."""
    weight = shapley_weights(np.arange(d)[:, None] > np.arange(d))[:, -1]  # of sizes 0 to d - 1
    diagonal = 2 * binomials(d - 1) @ weight**2
    off = binomials(d - 2) @ np.diff(weight) ** 2 if d > 1 else 0.0
    return np.asarray(np.full((d, d), off) + (diagonal - off) * np.eye(d))


def binomials(n: int) -> Floats:
    """Number of masks of n features by size, (n+1,)."""
    from scipy.special import gammaln

    k = np.arange(n + 1)
    return np.asarray(np.exp(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)))


@lru_cache(maxsize=32)
def _legendre(nodes: int) -> tuple[Floats, Floats]:
    t, w = np.polynomial.legendre.leggauss(nodes)
    return t, w / 2


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
