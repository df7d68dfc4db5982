"""Importances when every coalition was asked: no sampling error is left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np

from credex.errors import InputError
from credex.posteriors.student import LARGE_DOF, Belief, ErrorPosterior
from credex.typing import Floats, Masks, Outputs, Weights


@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """Importances from all coalitions, with intervals of zero width."""

    mean: Floats  # (d, k)
    misfit: Floats  # (k,) weighted root mean square of the additive explanation's residuals
    spread: Floats  # (k,) weighted standard deviation of v
    scale_matrix: Floats  # (d, d, k): zeros, or the covariance due to a noisy model
    intercept: Floats  # (k,)
    dof: float = LARGE_DOF  # of scale_matrix; large without noise

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
        phi = z.T @ (yc * joins[size][:, None]) - (1.0 - z).T @ (yc * stays[size][:, None])
        total = yc[size == d][0]
        phi += (total - phi.sum(axis=0)) / d
        inner = (size > 0) & (size < d)
        w = np.zeros(n)
        w[inner] = 1.0 / np.array([comb(d, s) * s * (d - s) for s in size[inner]], dtype=float)
        return cls(phi, *_fit_error(w, yc - z @ phi, yc), np.zeros((d, d, y.shape[1])), base)

    @classmethod
    def surrogate(cls, masks: Masks, y: Outputs, weights: Weights) -> ExactPosterior:
        """Weighted least squares over all masks, the limit of LIME. No prior is involved."""
        y = np.asarray(y, dtype=np.float64)
        d, k = masks.shape[1], y.shape[1]
        x = np.column_stack([np.ones(len(masks)), masks])
        yc, root = y - y[0], np.sqrt(weights)[:, None]
        beta = np.linalg.lstsq(x * root, yc * root, rcond=None)[0]
        errors = _fit_error(weights, yc - x @ beta, yc)
        return cls(beta[1:], *errors, np.zeros((d, d, k)), beta[0] + y[0])

    @cached_property
    def belief(self) -> Belief:
        """A belief of zero width (or of the noise's)."""
        return Belief(self.mean, self.scale_matrix, self.dof)

    @property
    def error(self) -> ErrorPosterior:
        """The misfit of the additive explanation, known exactly."""
        return ErrorPosterior(LARGE_DOF, self.misfit)

    @property
    def r2(self) -> Floats:
        """Weighted R² over all coalitions, ``(k,)``."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.spread > 0, 1 - np.square(self.misfit / self.spread), np.nan)


def _fit_error(w: Weights, residual: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Weighted root mean squares ``(k,)`` of the residuals, and of y around its mean."""
    w = w / w.sum() if w.sum() > 0 else w
    return np.sqrt(w @ np.square(residual)), np.sqrt(w @ np.square(y - w @ y))
