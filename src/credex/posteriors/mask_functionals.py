r"""Functionals of all 2^d masks in closed form: Shapley values and weighted least squares.

The product part of the kernel is a sum of product functions prod_j f_j (`Kernel.factors`), and so
are the weights of both sums: sum_q c_q prod_j (a_q if feature j is present else b_q).
"""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from credex.posteriors import calibration
from credex.posteriors.functionals import Functional, projector
from credex.posteriors.kernel import SUM_OF_SCALES, Inputs, Kernel
from credex.typing import Design, Floats, Masks

MAX_BENDING_FEATURES = 60
"""Features up to which a kernel that is not odd may bend: beyond, it takes too long."""

MAX_NODES, DRAFT_NODES = 24, 5
"""Gauss-Legendre nodes: exact up to d = 48, error below 1e-8 beyond; and of a draft."""

NEGLIGIBLE = 1e-10
"""Sizes of masks with less than this share of the largest weight are left out."""

VANISHING = 1e-13
"""Factors below this are raised to it, so that products can be divided by them."""


class Nodes(NamedTuple):
    """Factors and weights of product functions of masks."""

    a: NDArray[Any]  # factor of a feature that is present
    b: NDArray[Any]  # factor of a feature that is not
    c: NDArray[Any]  # weight


class MaskFunctional(Functional):
    """A linear functional phi (q,) of functions of masks.

    If ``contrast`` is 1, phi_i is the sum with f_i(1) - f_i(0) in place of f_i. If it is 0, phi is
    the sum over all masks, followed by those over the masks with feature i.
    """

    nodes: Nodes
    contrast: int
    inverse: Floats | None = None  # (q, q) matrix that the sums are multiplied by
    white = 1.0  # variance of v's white part relative to that of an observation

    def inputs(self, design: Design, coordinates: Floats | None = None) -> Inputs:
        """Masks ``(n, d)`` as points of the process."""
        del coordinates
        return Inputs.of_masks(design)

    @abstractmethod
    def influence(self, on: Masks) -> Floats:
        """Derivative of phi by the function at masks ``on (n, d)``, (q, n)."""

    @abstractmethod
    def influence_products(self) -> Floats:
        """Sum over all masks of influence times influence', (q, q)."""

    def cross(self, kernel: Kernel, inputs: Inputs, *, draft: bool = False) -> Floats:
        """cov(phi, v) at the inputs, (q, n); a ``draft`` of Shapley values is fast and rough."""
        out = self._linear(kernel) @ inputs.z.T
        if not kernel.noisy:
            out += kernel.weights[3] * self.white * self.influence(inputs.on)
        out += kernel.weights[2] * self._constant(inputs)
        sums = out if self.inverse is None else np.zeros_like(out)
        self._add_cross(sums, kernel, inputs.on, draft=draft)
        return sums if self.inverse is None else out + self.inverse @ sums

    def _add_cross(self, sums: Floats, kernel: Kernel, on: Masks, *, draft: bool) -> None:
        """Add the sums' covariance with the product part at masks ``on`` to ``sums (q, n)``."""
        nodes = shapley_nodes(self.d, draft=True) if draft else self.nodes
        a, b, on, w = nodes.a[:, None], nodes.b[:, None], on.T, kernel.weights[0]
        own, number = nodes.c if self.contrast else nodes.c * nodes.a, on.astype(nodes.b.dtype)
        for beta, factor in kernel.factors(5.0 if draft else 6.5):
            single = np.complex64 if np.iscomplexobj(factor) else np.float32
            e = factor.astype(single) if draft else factor
            up, down = a + b * np.conj(e), a * e + b  # (t, d): with feature j in the mask, without
            up, down = (np.where(np.abs(F) < VANISHING, VANISHING, F) for F in (up, down))
            # products over features as sums of logarithms, (t, n)
            none, each = np.log(down), np.log(up) - np.log(down)
            whole = np.exp(none.sum(axis=1, keepdims=True) + each @ number)
            weighted = own[:, None] * whole
            others = np.where(on, (1 / up).T @ weighted, (1 / down).T @ weighted)
            one = np.where(
                on, (1 - self.contrast * np.conj(e))[:, None], (e - self.contrast)[:, None]
            )
            sums[-len(on) :] += (w * beta) * (one * others).real
            if not self.contrast:
                sums[0] += (w * beta) * (nodes.c @ whole).real

    def covariance(self, kernel: Kernel, inputs: Inputs, L: Floats, B: Floats) -> Floats:
        """cov(phi) given the inputs at sigma² = 1, (q, q); k = L L', B = L^-1 cov(v, phi)."""
        del inputs, L
        w = kernel.weights
        C = self._linear(kernel) @ self.linear.T + w[2] * self.constant_prior
        if not kernel.noisy:
            C += w[3] * self.white * self.influence_products()
        return np.asarray(C + w[0] * self._prior(kernel) - B.T @ B)

    def _prior(self, kernel: Kernel) -> Floats:
        """Covariance of phi under the product part at unit variance, (q, q)."""
        (na, nb, nc), d, q = self.nodes, self.d, len(self.nodes.a)
        first, second = np.repeat(np.arange(q), q), np.tile(np.arange(q), q)
        a, b, a2, b2 = na[first], nb[first], na[second], nb[second]
        W = nc[first] * nc[second]
        own, own2 = (1.0, 1.0) if self.contrast else (a, a2)
        C: Floats | float = 0.0
        for beta, factor in kernel.factors():
            e, ec = factor[:, None], np.conj(factor[:, None])
            up, down = a2 + b2 * e, b2 + a2 * ec  # sums over one feature of the second mask
            F = a * up + b * down
            F = np.where(np.abs(F) < VANISHING, VANISHING, F)
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

    def _constant(self, inputs: Inputs) -> Floats:
        """Covariance of phi with the constant part at unit variance, (q, n)."""
        del inputs
        return self.constant


class ShapleyFromCoalitions(MaskFunctional):
    """Shapley values from single coalitions; the first two are the empty and the full one."""

    contrast = 1
    n_ends = 2
    # Chosen by error on the 23 games of benchmarks/kernel_games.py among 0, 0.5, 1, 1.5, 2 and 3:
    # with 30 to 100 players and 2d to 300 queries errors are 0.2 to 0.7 of those with 0, with 9 to
    # 14 players 0.9 to 1. With 2 and 3 the search for a kernel fails at times.
    tie = 1.5

    def __init__(self, d: int) -> None:
        super().__init__(2 * np.eye(d))
        self.bends = d <= MAX_BENDING_FEATURES
        self.nodes = shapley_nodes(d)

    def typical_scale(self, p: int) -> float:
        """Centre of the prior of lambda_j for p players."""
        return SUM_OF_SCALES / p

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


class ShapleyFromPairs(ShapleyFromCoalitions):
    """Shapley values from pairs of complementary masks; the first is the full and the empty one."""

    odd = True
    n_ends = 1
    white = 2.0
    # Chosen by coverage on the benchmark games. On those of benchmarks/kernel_games.py, 2 and 2.5
    # and a fitted shift common to all log lambda_j were no better.
    scale_sd = 1.5

    def __init__(self, d: int) -> None:
        super().__init__(d)
        self.bends = True
        self.constant_prior = np.full((d, d), 2 / d**2)

    def columns(self, design: Design) -> Floats:
        """Half the signs, ``(n, d)``."""
        return np.asarray(self.inputs(design).z / 2)

    def _constant(self, inputs: Inputs) -> Floats:
        balance = inputs.z.sum(1)  # a free value per size moves phi by the first pair alone
        return np.asarray((np.abs(balance) == self.d) * np.sign(balance) / self.d)


class SurrogateOverMasks(MaskFunctional):
    """Weighted least squares over all 2^d masks; ``weights (d+1,)`` of a mask by its size."""

    contrast = 0
    rule = calibration.MASKS
    scale_sd = 1.0  # 1.5 is no sharper, and covers .93 where this covers .96

    def __init__(self, weights: Floats) -> None:
        d = len(weights) - 1
        super().__init__(np.vstack([np.full(d, -1.0), 2 * np.eye(d)]))
        self.bends = d <= MAX_BENDING_FEATURES
        self.weights, self.nodes = weights, size_nodes(weights)
        self.inverse: Floats = np.asarray(np.linalg.inv(self._moment(weights)))

    def sandwich(self, inputs: Inputs, square: Floats, *, noisy: bool) -> Floats:
        """Of the weighted least squares, times the share of masks that were not asked."""
        on = inputs.on
        A = projector(on, self.weights[on.sum(1)])[1:]
        unasked = 1.0 if noisy else max(1 - len(on) * 0.5**self.d, 0.0)
        return np.asarray(unasked * (A**2 @ square).sum(0))

    def influence(self, on: Masks) -> Floats:
        """(Z'PZ)^-1 Z'P at the masks, Z = (1, on)."""
        w = self.weights[on.sum(1)] * 0.5**self.d
        return np.asarray(self.inverse @ (np.column_stack([np.ones(len(on)), on]) * w[:, None]).T)

    def influence_products(self) -> Floats:
        """Sum over all masks of influence times influence', (d+1, d+1)."""
        return np.asarray(self.inverse @ self._moment(self.weights**2) @ self.inverse * 0.5**self.d)

    def _moment(self, w: Floats) -> Floats:
        """E[w (1,z)(1,z)'] over all masks."""
        d, s = self.d, np.arange(self.d + 1)
        mass = w * _binomials(d) * 0.5**d
        G = np.full((d + 1, d + 1), mass @ (s * (s - 1)) / max(d * (d - 1), 1))
        G[0, :] = G[:, 0] = G[np.diag_indices(d + 1)] = mass @ s / d
        G[0, 0] = mass.sum()
        return G


def shapley_nodes(d: int, *, draft: bool = False) -> Nodes:
    """Nodes of the Shapley values of d players.

    phi_i = int_0^1 [f_i(1) - f_i(0)] prod_{j != i} [t f_j(1) + (1 - t) f_j(0)] dt for a product
    function, a polynomial integral that Gauss-Legendre quadrature takes exactly. A ``draft`` has
    fewer nodes and single precision: values close by, four times faster.
    """
    n = min(DRAFT_NODES if draft else MAX_NODES, max(1, (d + 1) // 2))
    t, w = np.polynomial.legendre.leggauss(n)
    kind = np.float32 if draft else np.float64
    a = ((1 + t) / 2).astype(kind)
    return Nodes(a, 1 - a, (w / 2).astype(kind))


def size_nodes(w: Floats) -> Nodes:
    """Nodes of weights ``w (d+1,)`` by size: complex exponentials of it (roots of unity)."""
    mass = w * _binomials(len(w) - 1)
    s = np.flatnonzero(mass > NEGLIGIBLE * mass.max())
    angle = 2 * np.pi * (s - s[0] + 0.2371) / len(s)  # rotated: no factor vanishes by symmetry
    c = (w[s] @ np.exp(-1j * np.outer(s, angle))) / len(s)
    return Nodes(0.5 * np.exp(1j * angle), np.full(len(s), 0.5), c)


@lru_cache(maxsize=64)
def _binomials(n: int) -> Floats:
    """Number of masks of n features by size, (n+1,)."""
    from scipy.special import gammaln

    k = np.arange(n + 1)
    return np.asarray(np.exp(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)))
