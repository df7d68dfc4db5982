"""All coalitions known: nothing is uncertain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np

from credex.errors import InputError
from credex.posteriors.belief import Belief
from credex.posteriors.student import LARGE_DOF, ErrorPosterior
from credex.typing import Floats, Masks, Outputs, Weights


@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """Importances from every coalition: zero width.

    Parameters
    ----------
    mean
        ``(d, k)``.
    misfit
        ``(k,)`` weighted mean square of what the additive explanation leaves over.
    spread
        ``(k,)`` weighted variance of v.
    scale_matrix
        ``(d, d, k)``: zeros, or with a noisy model the noise's share.
    intercept
        ``(k,)``.
    dof
        Of the noise's share; large without noise.
    """

    mean: Floats
    misfit: Floats
    spread: Floats
    scale_matrix: Floats
    intercept: Floats
    dof: float = LARGE_DOF

    @classmethod
    def shapley(cls, masks: Masks, y: Outputs) -> ExactPosterior:
        """Shapley values of a whole game: ``masks (2^d, d)`` in any order, ``y (2^d, k)``."""
        n, d = masks.shape
        if n != 2**d:
            msg = f"an exact answer for {d} features needs all {2**d} coalitions; got {n}"
            raise InputError(msg)
        y = np.asarray(y, dtype=np.float64)
        size = masks.sum(axis=1, dtype=np.int64)
        base = y[size == 0][0]
        yc = y - base  # sums of weights cancel exactly only in theory
        joins = np.array([0.0, *[1.0 / (d * comb(d - 1, s - 1)) for s in range(1, d + 1)]])
        stays = np.array([*[1.0 / (d * comb(d - 1, s)) for s in range(d)], 0.0])
        z = masks.astype(np.float64)
        gain = yc * joins[size][:, None]
        loss = yc * stays[size][:, None]
        phi = z.T @ gain - (1.0 - z).T @ loss
        total = yc[size == d][0]
        phi += (total - phi.sum(axis=0)) / d
        inner = (size > 0) & (size < d)
        w = np.zeros(n)
        w[inner] = 1.0 / np.array([comb(d, s) * s * (d - s) for s in size[inner]], dtype=float)
        w /= w.sum() if w.sum() > 0 else 1.0
        misfit, spread = _fit_error(w, yc - z @ phi, yc)
        k = y.shape[1]
        return cls(phi, misfit, spread, np.zeros((d, d, k)), base)

    @classmethod
    def surrogate(cls, masks: Masks, y: Outputs, weights: Weights) -> ExactPosterior:
        """Weighted least squares over all masks: what LIME converges to. No prior is left."""
        y = np.asarray(y, dtype=np.float64)
        d, k = masks.shape[1], y.shape[1]
        x = np.column_stack([np.ones(len(masks)), masks])
        root = np.sqrt(weights)[:, None]
        beta = np.linalg.lstsq(x * root, (y - y[0]) * root, rcond=None)[0]
        misfit, spread = _fit_error(weights / weights.sum(), y - y[0] - x @ beta, y)
        return cls(beta[1:], misfit, spread, np.zeros((d, d, k)), beta[0] + y[0])

    @cached_property
    def belief(self) -> Belief:
        """A belief of zero width (or the noise's)."""
        return Belief(self.mean, self.scale_matrix, self.dof)

    @property
    def error(self) -> ErrorPosterior:
        """The misfit of the additive explanation, known exactly."""
        return ErrorPosterior(LARGE_DOF, np.sqrt(self.misfit))

    @property
    def r2(self) -> Floats:
        """Weighted R² over all coalitions, ``(k,)``."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.spread > 0, 1 - self.misfit / self.spread, np.nan)


def _fit_error(w: Weights, residual: Floats, y: Floats) -> tuple[Floats, Floats]:
    mean = w @ y
    return np.asarray(w @ residual**2), np.asarray(w @ (y - mean) ** 2)
