"""Focused pairs: those that shrink the total variance of the importances most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from credex.designs.samplers import Candidates, Stream
from credex.errors import InputError
from credex.posteriors.gp import Conditioned
from credex.typing import Floats, Ints, Masks

POOL = 600
"""Candidate pairs that are compared for a batch, at least."""


@dataclass(frozen=True, slots=True)
class Focused:
    """Asks the pairs that lower the total variance of the importances most, batch by batch.

    From a pool of unasked pairs, one after the other, the pair with the largest
    Σ_i cov(φ_i, g)²/var g under the Gaussian process, covariances downdated after each choice as if
    it had been asked: no value is needed. The process is refitted after every batch. Needs
    ``posterior="gp"``.

    Parameters
    ----------
    pool
        Candidate pairs compared for a batch.
    batch, growth
        A batch is ``batch`` pairs, or ``growth`` times the pairs asked so far if that is more.
    """

    pool: int = POOL
    batch: int = 16
    growth: float = 0.25
    recycle: float = 1.0
    paired: bool = True
    uniform: bool = False
    name: str = "focused"

    def select(
        self, stream: Stream, n: int, posterior: Any, rng: np.random.Generator
    ) -> Candidates:
        """Choose the next batch of pairs."""
        del rng
        if not isinstance(posterior, Conditioned):
            msg = "sampler='focused' reads a Gaussian process: use posterior='gp'"
            raise InputError(msg)
        asked, d = len(posterior.S) - 1, posterior.S.shape[1]
        want = max(8, d) if asked == 0 else max(self.batch, int(self.growth * asked))
        want = min(want, n // 2)
        pool = stream.take(2 * max(self.pool, 2 * want))
        units = pool.design[0::2]
        picks, _ = plan(posterior, signs(units), want)
        return pool.pick(np.stack([2 * picks, 2 * picks + 1], axis=1).reshape(-1))


def plan(state: Conditioned, pool: Floats, n: int) -> tuple[Ints, Floats]:
    """Pairs to ask, greedily by sum_i cov(phi_i, g)^2 / var g, given what is known.

    After each choice the covariances are downdated as if it had been asked: no value is needed.

    Returns
    -------
    picks : (n,) rows of the pool, best first.
    reductions : (n, d) by how much each pick lowers the unit variance of each importance; their
        running sum, taken from ``state.unit_covariance()``, forecasts widths before any query.
    """
    k = state.kernel
    m = len(pool)
    A = _solve(state.L, k.gram(state.S, pool))
    prior = k.diagonal(pool)
    var = prior - np.einsum("nm,nm->m", A, A)
    both = k.cross(np.vstack([pool, state.S]), draft=True)
    cov = both[:, :m] - _solve(state.L, both[:, m:].T).T @ A
    n = min(n, m)
    rows = np.empty((n, m))
    picks = np.empty(n, int)
    reductions = np.empty((n, k.d))
    free = np.ones(m, bool)
    for i in range(n):
        score = np.where(free, (cov**2).sum(0) / np.maximum(var, 1e-9 * prior), -1.0)
        j = int(np.argmax(score))
        row = k.gram(pool[j : j + 1], pool)[0] - A[:, j] @ A - rows[:i, j] @ rows[:i]
        sd = np.sqrt(max(row[j], 1e-9 * prior[j]))
        rows[i] = row / sd
        gain = cov[:, j] / sd
        cov = cov - np.outer(gain, rows[i])
        var = var - rows[i] ** 2
        picks[i], reductions[i], free[j] = j, gain**2, False
    return picks, reductions


def signs(masks: Masks) -> Floats:
    """Masks as −1 and +1, ``(n, d)``."""
    return np.where(masks, 1.0, -1.0)


def _solve(lower: Floats, x: Floats) -> Floats:
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(lower, x, lower=True, check_finite=False))
