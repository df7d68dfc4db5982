r"""What a surrogate projects over: linear functionals of a function of masks or of table rows.

The estimand is the weighted-least-squares solution over the whole neighbourhood,
phi* = (M'PM)^-1 M'P v, intercept included. Given a Gaussian process for v it is a linear
functional of v, so its posterior is Gaussian in closed form. Two functionals:

* `AllMasks`: all 2^d masks, weights a function of their size; exact, without enumeration or pool:
  a function of the size is a sum of d + 1 complex exponentials (roots of unity), each a product
  over features, as is the kernel. The white part is a function of the mask like any other there.
* `Pool`: unasked perturbations of a table, whose own sampling error is added to the interval. The
  white part is noise: no single row counts in an endless neighbourhood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from credex.posteriors.surrogate_kernel import (
    Floats,
    Kernel,
    product_of_others,
    projector,
    solve,
    without,
)

if TYPE_CHECKING:
    from credex.posteriors.surrogate_gp import Conditioned

COV_ROWS = 1500
"""Rows of the pool between which the posterior covariance is averaged."""

MOST_BENT = 60
"""Features up to which the bending direction is affordable."""

RARE = 1e-10
"""Sizes of masks that have less than this share of the likeliest one's weight are left out."""


class Functional(Protocol):
    """What phi* projects over. Rows of results: intercept first, then the d features."""

    centre: Floats
    spread: Floats
    shift: float
    width: float
    bends: bool
    white: bool
    blocks: bool
    """Whether rows are also left out together with their neighbours."""
    resting: bool
    """Whether only the rows count that the scale rests on, for `inflation` and ``degrees``."""
    degrees: tuple[int, float]
    """Rows per degree of freedom after the third, and the most of them."""
    tails: float | None
    """Degrees of freedom of the shape, at the width that those above give; None: just those."""

    def cross(self, kernel: Kernel, X: Floats) -> tuple[Floats, Floats | None]:
        """Covariance of phi* with the product part at X (d+1, n), and what to keep of the work."""
        ...

    def influence(self, M: Floats) -> Floats:
        """Derivative of phi* by v at the rows M, (d+1, n) (only if ``white``)."""
        ...

    def scale(self, c: Conditioned, sigma2: Floats) -> Floats:
        """Scale matrices (d+1, d+1, k) of the posterior given sigma² (k,)."""
        ...

    def inflation(self, n: int) -> float:
        """Of sigma² by fitted hyper-parameters per row, with n rows."""
        ...

    def chance(self, M: Floats, r: Floats, weights: Floats | None, *, endless: bool) -> Floats:
        """Total variance of phi (k,) by a sandwich of left-out residuals r (n, k); 0: none.

        ``endless``: what is asked stays uncertain, so that no share of the masks is known.
        """
        ...


class AllMasks:
    """All 2^d masks of d features; ``weights (d+1,)`` of a mask by how many are present."""

    shift, width = 0.0, 1.0  # wider is no sharper and covers .93 where this does .96
    white, blocks, resting = True, False, False
    degrees = (16, 30.0)  # a sandwich knows its scale better than fitted hyper-parameters do
    tails: float | None = None

    def __init__(self, weights: Floats) -> None:
        from scipy.special import gammaln

        w = np.asarray(weights, float)
        d = len(w) - 1
        self.d, self.weights = d, w
        self.centre, self.spread = np.full(d, 0.5), np.full(d, 0.5)
        s = np.arange(d + 1)
        self.mass = np.exp(gammaln(d + 1) - gammaln(s + 1) - gammaln(d - s + 1) - d * np.log(2))
        self.inverse = np.linalg.inv(self._moment(w))
        self.bends = d <= MOST_BENT
        s = s[self.mass * w > RARE * (self.mass * w).max()]  # the period need not be longer
        angle = 2 * np.pi * (s - s[0] + 0.2371) / len(s)  # rotated: no factor vanishes by symmetry
        self.nodes = np.exp(1j * angle)
        self.node_weights = (w[s] @ np.exp(-1j * np.outer(s, angle))) / len(s)

    def _moment(self, w: Floats) -> Floats:
        """E[w (1,z)(1,z)'] over all masks."""
        d, s, wm = self.d, np.arange(self.d + 1), w * self.mass
        one, two = wm @ s / d, wm @ (s * (s - 1)) / max(d * (d - 1), 1)
        G = np.full((d + 1, d + 1), two)
        G[0, :] = G[:, 0] = one
        G[np.diag_indices(d + 1)] = one
        G[0, 0] = wm.sum()
        return G

    def _factors(self, kernel: Kernel) -> Any:
        for omega, beta in zip(*kernel.frequencies(), strict=True):
            e = np.exp(-np.exp(kernel.log_theta)) * np.exp(2j * omega * kernel.h)
            yield beta, e

    def cross(self, kernel: Kernel, X: Floats) -> tuple[Floats, None]:
        """Exact, O(n d²) for each of the bending direction's frequencies."""
        t, c = self.nodes[:, None], self.node_weights
        on = X.T > 0.5
        out = np.zeros((self.d + 1, len(X)))
        for beta, e in self._factors(kernel):
            up, down = 0.5 * (t + np.conj(e)), 0.5 * (t * e + 1)  # mask present, absent
            F = np.where(on[:, None, :], up.T[:, :, None], down.T[:, :, None])
            rest, total = product_of_others(F)
            out[0] += beta * (c @ total).real
            hit = np.where(on, 0.5, 0.5 * e[:, None])
            out[1:] += beta * (hit * np.einsum("t,dtn->dn", c * self.nodes, rest)).real
        return np.asarray(self.inverse @ out), None

    def influence(self, M: Floats) -> Floats:
        """(M'PM)^-1 M'P at the rows M."""
        w = self.weights[np.round(M.sum(1)).astype(int)] * 0.5**self.d
        return np.asarray(self.inverse @ (np.column_stack([np.ones(len(M)), M]) * w[:, None]).T)

    def prior(self, kernel: Kernel) -> tuple[Floats, Floats]:
        """Prior covariance of phi* under the product and the white part, (d+1, d+1) each."""
        d = self.d
        q = len(self.nodes)
        a, b = np.repeat(self.nodes, q), np.tile(self.nodes, q)
        W = np.repeat(self.node_weights, q) * np.tile(self.node_weights, q)
        C = np.zeros((d + 1, d + 1))
        for beta, factor in self._factors(kernel):
            e = factor[:, None]
            F = 0.25 * (1 + a * b + a * e + b * np.conj(e))
            F = np.where(np.abs(F) < 1e-13, 1e-13, F)
            left = np.vstack([np.ones(len(a)), 0.25 * (a * b + a * e) / F])
            right = np.vstack([np.ones(len(a)), 0.25 * (a * b + b * np.conj(e)) / F])
            P = W * np.prod(F, axis=0)
            Q = ((left * P) @ right.T).real
            i = np.arange(1, d + 1)
            Q[i, i] = (0.25 * a * b / F * P).sum(1).real
            C += beta * Q
        white = self._moment(self.weights**2) * 0.5**self.d
        A = self.inverse
        return np.asarray(A @ ((C + C.T) / 2) @ A), np.asarray(A @ white @ A)

    def scale(self, c: Conditioned, sigma2: Floats) -> Floats:
        """Prior less what the rows explain, times sigma²."""
        return c.left_over(*self.prior(c.kernel), sigma2)

    def inflation(self, _n: int) -> float:
        """None: the sandwich sees what fitting hides."""
        return 0.0

    def chance(self, M: Floats, r: Floats, weights: Floats | None, *, endless: bool) -> Floats:
        """The sandwich of the weighted least squares, times the share of masks not asked."""
        n, d = M.shape
        A = projector(M, np.ones(n) if weights is None else weights)[1:]
        thin = 1.0 if endless else max(1 - n * 0.5**d, 0.0)
        return np.asarray(thin * (A**2 @ r**2).sum(0))


class Pool:
    """Unasked perturbations: coordinates ``X (m, p)``, design ``M (m, d)``, weights ``w (m,)``."""

    shift, width = -2.0, 1.5  # most columns of a table matter little: longer length-scales
    bends = white = blocks = False
    resting = True
    degrees = (16, 10.0)
    tails: float | None = None

    def __init__(self, X: Floats, M: Floats, w: Floats) -> None:
        self.X, self.M, self.w = (np.asarray(a, float) for a in (X, M, w))
        self.centre = self.M.mean(0)
        sd = self.M.std(0)
        self.spread = np.where(sd > 0, sd, 1.0)
        self.A = projector(self.M, self.w)

    def cross(self, kernel: Kernel, X: Floats) -> tuple[Floats, Floats]:
        """Average over the pool; kept: the kernel between pool and rows, (m, n)."""
        K = kernel.product(self.X, X)
        return np.asarray(self.A @ K), K

    def influence(self, M: Floats) -> Floats:
        """Nothing: no single row counts in an endless neighbourhood."""
        return np.zeros((len(self.centre) + 1, len(M)))

    def scale(self, c: Conditioned, sigma2: Floats) -> Floats:
        """Posterior covariance over an endless pool, and this pool's own sampling error."""
        m, w = min(len(self.X), COV_ROWS), c.w
        A, X = projector(self.M[:m], self.w[:m]), self.X[:m]
        F = c.features(self.M)
        K = w[0] * c.kept + w[1] * F @ c.F.T + w[2]
        V = solve(c.L, K[:m].T)
        prior = w[0] * A @ c.kernel.product(X, X) @ A.T + w[1] * c.lin @ c.lin.T
        prior[0, 0] += w[2]
        whole = prior - (V @ A.T).T @ (V @ A.T)
        own = w[0] + w[1] * (F[:m] ** 2).sum(1) + w[2] - (V**2).sum(0)
        C = without(whole, (A * np.maximum(own, 0.0)) @ A.T)
        e = K @ c.alpha
        e -= np.column_stack([np.ones(len(e)), self.M]) @ (self.A @ e)
        error = [(self.A * e[:, j] ** 2) @ self.A.T for j in range(e.shape[1])]
        return np.asarray(C[:, :, None] * sigma2 + np.stack(error, 2))

    def inflation(self, _n: int) -> float:
        """As measured; on masks the sandwich does this."""
        return 0.75

    def chance(self, _M: Floats, r: Floats, _w: Floats | None, *, endless: bool) -> Floats:  # noqa: ARG002
        """None: what a row's replacements add by chance would count, and be twice too wide."""
        return np.zeros(r.shape[1])
