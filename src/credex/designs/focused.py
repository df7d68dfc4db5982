"""Focused pairs: those that shrink the total variance of the importances most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from credex.designs.samplers import Candidates, Stream
from credex.errors import InputError
from credex.posteriors.kernel import Inputs, solve_lower
from credex.posteriors.process import Conditioned
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
        if not isinstance(posterior, Conditioned) or not posterior.kernel.odd:
            msg = "sampler='focused' reads a Gaussian process: use posterior='gp'"
            raise InputError(msg)
        asked, d = len(posterior.data.Y) - 1, posterior.functional.d
        want = max(8, d) if asked == 0 else max(self.batch, int(self.growth * asked))
        want = min(want, n // 2)
        pool = stream.take(2 * max(self.pool, 2 * want))
        picks, _ = plan(posterior, pool.design[0::2], want)
        return pool.pick(np.stack([2 * picks, 2 * picks + 1], axis=1).reshape(-1))


def plan(state: Conditioned, masks: Masks, n: int) -> tuple[Ints, Floats]:
    """Choose pairs greedily by Σ_i cov(φ_i, g)²/var g.

    After each choice the covariances are downdated as if it had been asked: no value is needed.

    Parameters
    ----------
    state : what is known.
    masks : (m, d) one mask of each candidate pair.
    n : pairs to choose.

    Returns
    -------
    picks : (n,) rows of ``masks``, best first.
    reductions : (n, d) by how much each pick lowers the unit variance of each importance; taken
        off ``state.covariance`` one after the other, they forecast widths before any query.
    """
    k, known = state.kernel, state.data.inputs
    pool = state.functional.inputs(masks)
    m, white = len(pool), k.weights[3]
    A = solve_lower(state.L, k.gram(known, pool))
    prior = k.diagonal(pool)
    var = prior - np.einsum("nm,nm->m", A, A)
    both = Inputs(np.vstack([pool.z, known.z]))
    draft = state.functional.cross(k, both, draft=True)
    cov = draft[:, :m] - solve_lower(state.L, draft[:, m:].T).T @ A
    n = min(n, m)
    rows = np.empty((n, m))
    picks = np.empty(n, int)
    reductions = np.empty((n, state.functional.d))
    free = np.ones(m, bool)
    for i in range(n):
        score = np.where(free, (cov**2).sum(0) / np.maximum(var, 1e-9 * prior), -1.0)
        j = int(np.argmax(score))
        row = k.gram(pool[j : j + 1], pool)[0]
        row[j] += white
        row = row - A[:, j] @ A - rows[:i, j] @ rows[:i]
        sd = np.sqrt(max(row[j], 1e-9 * prior[j]))
        rows[i] = row / sd
        gain = cov[:, j] / sd
        cov = cov - np.outer(gain, rows[i])
        var = var - rows[i] ** 2
        picks[i], reductions[i], free[j] = j, gain**2, False
    return picks, reductions
