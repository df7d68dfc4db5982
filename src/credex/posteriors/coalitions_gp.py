r"""Shapley values as a functional of a Gaussian process over single coalitions.

Pairs speak of the odd part of v only (`credex.posteriors.gp`). Coalitions without their complement
speak of v itself, so the process needs the full kernel, even part and all. The Shapley value of a
kernel section is that of its odd part: what `MaskKernel` knows in closed form serves here too.
"""

from __future__ import annotations

import numpy as np

from credex.posteriors.gp import TAILS
from credex.posteriors.mask_kernel import MaskKernel, shapley_weights, white_covariance
from credex.posteriors.shapley import sandwich_total
from credex.posteriors.surrogate_gp import Conditioned
from credex.posteriors.surrogate_kernel import Kernel
from credex.typing import Floats

__all__ = ["AllCoalitions"]

FEW_INFLATION = 5.0
"""Of sigma² by fitted hyper-parameters per row, while rows are too few for a sandwich."""

ENOUGH = 2
"""Rows per player from which the sandwich is used."""

MOST_BENT = 60
"""Features up to which the bending direction is affordable."""


class AllCoalitions:
    """All 2^d coalitions; row 0 of every result is v of the empty one, the others φ.

    A `credex.posteriors.functionals.Functional`.
    """

    shift, width = 0.0, 1.0
    white, blocks, resting = True, True, False
    degrees = (8, 20.0)
    tails: float | None = TAILS

    def __init__(self, d: int) -> None:
        self.d = d
        self.centre, self.spread = np.full(d, 0.5), np.full(d, 0.5)
        self.bends = d <= MOST_BENT

    def _odd(self, kernel: Kernel) -> MaskKernel:
        """The product part alone, at unit variance."""
        direction = np.zeros(self.d) if kernel.direction is None else kernel.direction
        alone = np.array([0.0, -np.inf, -np.inf, -np.inf])
        return MaskKernel(kernel.log_theta - np.log(2), kernel.log_rho, alone, direction)

    def cross(self, kernel: Kernel, X: Floats) -> tuple[Floats, None]:
        """Covariance of v(∅) and φ with the product part at masks ``X (n, d)``, ``(d+1, n)``."""
        empty = kernel.product(np.zeros((1, self.d)), X)
        return np.vstack([empty, self._odd(kernel).cross(2 * X - 1)]), None

    def influence(self, M: Floats) -> Floats:
        """Derivative of v(∅) and φ by v at the rows ``M (n, d)``, ``(d+1, n)``."""
        empty = (M.sum(1) == 0).astype(np.float64)
        return np.vstack([empty, shapley_weights(2 * M - 1).T])

    def prior(self, kernel: Kernel) -> tuple[Floats, Floats]:
        """Prior covariance under the product and the white part, ``(d+1, d+1)`` each."""
        d = self.d
        product, white = np.ones((d + 1, d + 1)), np.ones((d + 1, d + 1))
        none = np.zeros((1, d))
        product[1:, 1:] = self._odd(kernel).prior_covariance()
        product[0, 1:] = product[1:, 0] = self._odd(kernel).cross(2 * none - 1)[:, 0]
        white[1:, 1:] = white_covariance(d)
        white[0, 1:] = white[1:, 0] = shapley_weights(2 * none - 1)[0]
        return product, white

    def scale(self, c: Conditioned, sigma2: Floats) -> Floats:
        """Prior less what the rows explain, times sigma², ``(d+1, d+1, k)``."""
        return c.left_over(*self.prior(c.kernel), sigma2)

    def inflation(self, n: int) -> float:
        """None once there is a sandwich, which sees what fitting hides."""
        return FEW_INFLATION if n - 2 < ENOUGH * self.d else 0.0

    def chance(self, M: Floats, r: Floats, _w: Floats | None, *, endless: bool) -> Floats:
        """The sandwich of a Shapley regression on what the process leaves of single coalitions."""
        if endless or len(M) - 2 < ENOUGH * self.d:
            return np.zeros(r.shape[1])
        return sandwich_total(M[2:] > 0.5, r[2:], paired=False)
