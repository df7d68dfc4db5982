"""Focused sampling by the paper's rule, as printed and as published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from credex.designs.samplers import Candidates, Predictive, Stream
from credex.errors import InputError, check_count, check_positive

__all__ = ["PaperFocused"]


@dataclass(frozen=True, slots=True)
class PaperFocused:
    """Focused sampling exactly as the paper's Algorithm 1.

    After ``seed_queries`` random ones, each batch is drawn from ``pool`` candidates with
    probability ∝ exp(var ŷ(z)/temperature), without replacement, scored in the space the
    posterior is fitted in. Read literally it can be worse than random sampling (the variance does
    not know the proximity): credex ships it for comparison.

    The published code takes the standard deviation for the variance, draws with replacement for
    BayesSHAP, and has τ = 5e-4 (BayesLIME) and 1e-2 (BayesSHAP), S = 100 and A = 10,000:
    ``PaperFocused(100, 50, 10_000, 1e-2, score="sd", replacement=True)``.

    Parameters
    ----------
    seed_queries, batch, pool, temperature
        The paper's S, B, A and τ. τ is in units of the score; ``None`` takes the standard
        deviation of the candidates' scores, which makes the rule independent of units.
    score
        ``"variance"`` of the prediction at a candidate, or its standard deviation, ``"sd"``.
    replacement
        Whether one candidate may be drawn several times.
    """

    seed_queries: int = 50
    batch: int = 50
    pool: int = 400
    temperature: float | None = None
    score: Literal["variance", "sd"] = "variance"
    replacement: bool = False
    paired: bool = False
    uniform: bool = False
    name: str = "paper-focused"

    def __post_init__(self) -> None:
        for label in ("seed_queries", "batch", "pool"):
            check_count(f"PaperFocused({label}=)", getattr(self, label))
        if self.pool < self.batch:
            msg = f"PaperFocused: pool={self.pool} is smaller than batch={self.batch}"
            raise InputError(msg)
        if self.temperature is not None:
            check_positive("PaperFocused(temperature=)", self.temperature)
        if self.score not in ("variance", "sd"):
            msg = f"PaperFocused(score=) must be 'variance' or 'sd'; got {self.score!r}"
            raise InputError(msg)

    def select(
        self, stream: Stream, n: int, posterior: Predictive | None, rng: np.random.Generator
    ) -> Candidates:
        """Seed queries first; then a batch by predictive variance."""
        if posterior is None:
            return stream.take(min(n, self.seed_queries))
        pool = stream.take(self.pool)
        n = min(n, self.batch, len(pool))
        if n == 0:
            return pool
        found = np.asarray(posterior.predictive_variance(pool.design), dtype=np.float64)
        found = found.mean(axis=1) if found.ndim > 1 else found
        found = np.sqrt(found) if self.score == "sd" else found
        tau = float(np.std(found)) if self.temperature is None else self.temperature
        score = (found - found.max()) / tau if tau > 0 else np.zeros(len(pool))
        if self.replacement:
            chance = np.exp(score)
            return pool.pick(rng.choice(len(pool), n, p=chance / chance.sum()))
        # adding Gumbel noise and taking the largest draws without replacement from the softmax
        key = score + rng.gumbel(size=len(pool))
        return pool.pick(np.argsort(-key, kind="stable")[:n])
