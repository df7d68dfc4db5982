"""Shares of a loss over a population, from a surrogate and unbiased estimates in some rows.

The game of row i is v_i(S) = −loss of the mean prediction with the features S of x_i. A surrogate
of the model has a game of its own, which costs no model row; u_i are its Shapley values in all
rows. In the rows of the sample, r̂_i estimates the Shapley values of what is left, v_i less the
surrogate's game, from a few coalitions. The mean of φ is the mean of u plus that of r̂: a survey's
difference estimator, whatever the surrogate misses.

Rows are sampled by strata (classes), each of which has a mean and a variance of its own. u of a row
in the sample is that of the surrogate that has not seen it, so that u_i + r̂_i is unbiased there;
elsewhere it is the mean of all surrogates, whose error over such rows is that over the rows that
they have not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import factorial

import numpy as np

from credex.designs.background import pair_scale
from credex.importance.estimate import Means
from credex.importance.losses import Loss
from credex.importance.outlook import Outlook
from credex.importance.shapes import tail_variance
from credex.importance.surrogate import Games
from credex.posteriors.assisted import effective_units
from credex.posteriors.student import quantile
from credex.typing import Floats, Ints, Masks

__all__ = ["LossOutlook", "LossResiduals", "loss_means", "shapley_of"]

POPULATION_PAIRS = 150_000
"""Pairs of coalitions of the surrogate's game in all rows; all there are, if they are fewer."""

LEAST_PAIRS = 16
"""Pairs of each row, at least."""

CELLS = 4_000_000
"""Numbers held at a time."""

FLOOR_DOUBT = 3.0
"""Share of what the parabola below a logarithm changes that intervals allow for.

Models that say 0 or 1 have a loss that a few background rows cannot estimate. On a linear function
of three features, cut or through logistic functions of slope 8 and 20, intervals held 0 to 0.65
without this, 0.91 to 0.95 with 2 and 0.95 to 0.98 with 3 (25 and 40 runs, 900 model rows). Checked
on two trees without limit: 0.92 and 0.85 with 3, their worst features 0.80 and 0.70, so that the
result has a note. A forest of 30 such trees, and a slope of 1, are as before.
"""

LEAST_BETWEEN = 0.04
"""Variance between rows, as a share of a pair's, that is taken as there even if it is not seen."""


@dataclass(frozen=True, slots=True, eq=False)
class LossResiduals:
    """The surrogate's values, and what is known of its error.

    Attributes
    ----------
    u, noise
        Shapley values ``(L, d)`` of the surrogate's game in the rows that are listed, and their
        variances where coalitions were sampled.
    r, within
        Estimates ``(n, d)`` of what the surrogate leaves in the first n rows, and their variances
        within rows.
    stratum, sizes
        Stratum ``(L,)`` of each row, and the rows of each in the whole population.
    base_errors
        ``(b + 1,)`` what background rows add to the error of the mean loss without features, of
        which each feature has an equal share.
    base_loss
        That loss. Of ``u`` and ``r`` the sums over features are those of the negative model's loss.
    floored
        ``(n, d)`` what the estimates change where a logarithm is taken as it is.
    """

    u: Floats
    noise: Floats
    r: Floats
    within: Floats
    stratum: Ints
    sizes: Ints
    base_errors: Floats
    base_loss: float
    floored: Floats

    @property
    def base_variance(self) -> float:
        """Variance of the mean loss without features."""
        return float(self.base_errors @ self.base_errors)

    def summed(self) -> LossResiduals:
        """Return those of the sum of all features: pairs of coalitions say nothing about it."""
        u, r = (x.sum(axis=1, keepdims=True) for x in (self.u, self.r))
        none = np.zeros_like(r)
        return replace(self, u=u, r=r, noise=np.zeros_like(u), within=none, floored=none)

    def strata(self) -> Iterator[tuple[float, Masks, Masks]]:
        """Share of each stratum, and which rows are listed and sampled of it."""
        for h, size in enumerate(self.sizes.tolist()):
            at = self.stratum == h
            yield size / float(self.sizes.sum()), at, at[: len(self.r)]


def loss_means(f: LossResiduals, level: float, *, tail: bool = False) -> Means:
    """Shares ``(d, 1)`` of the loss with intervals.

    ``tail`` counts the most extreme row once more, for the total: few rows have most of a loss.
    """
    d = f.r.shape[1]
    value, covariance = np.full(d, f.base_loss / d), np.full((d, d), f.base_variance / d**2)
    influence, doubt = np.zeros_like(f.r), np.zeros(d)
    for (share, listed, at), size in zip(f.strata(), f.sizes.tolist(), strict=True):
        u, r, n, m = f.u[listed], f.r[at], int(at.sum()), int(listed.sum())
        value += share * (u.mean(axis=0) + r.mean(axis=0))
        left = r - r.mean(axis=0)
        S = left.T @ left / (n - 1)
        total = np.maximum(np.diag(S), 1e-300)
        known = np.sqrt(np.maximum(total - f.within[at].mean(axis=0), 0.0) / total)
        part = S / n - S * known[:, None] * known / size
        part += np.diag(f.noise[listed].mean(axis=0)) / m
        if size > m:  # the rows that are listed are a sample, too
            apart = u - u.mean(axis=0)
            part += apart.T @ apart / max(m - 1, 1) * (1.0 / m - 1.0 / size)
        if tail:  # one more row like the most extreme one, which the sample may have missed
            part += np.diag(max(1.0 - n / size, 0.0) * tail_variance(r))
        covariance += share**2 * part
        influence[at] = share * left / n
        doubt += share * f.floored[at].mean(axis=0)
    base = np.repeat(f.base_errors[:, None] / d, d, axis=1)
    dof = effective_units(np.concatenate([influence, base]).T)
    half = quantile(level, dof) * np.sqrt(np.diag(covariance))
    half = np.hypot(half, FLOOR_DOUBT * np.abs(doubt))
    at_once = value[:, None], (value - half)[:, None], (value + half)[:, None]
    return Means(*at_once, covariance[:, :, None], dof)


# -- the surrogate's game ------------------------------------------------------------------------


def shapley_of(
    games: Games, loss: Loss, floor: float, masks_of: Callable[[int], Masks]
) -> tuple[Floats, Floats]:
    """Shapley values ``(n, d, F)`` of the surrogates' losses, and variances ``(n, d)`` of them.

    All coalitions if they are few, else pairs for each row: ``masks_of(n)`` gives n masks.
    """
    n, folds, d, _ = games.form.shape
    pairs = max(POPULATION_PAIRS // n, LEAST_PAIRS)
    every = 2 ** (d - 1) <= pairs
    if every:
        masks = (np.arange(2**d)[:, None] >> np.arange(d)) & 1 == 1
        weights = _shapley_weights(masks)
    else:
        drawn = masks_of(n * pairs).reshape(n, pairs, d)
    u, noise = np.empty((n, d, folds)), np.zeros((n, d))
    step = max(CELLS // (2 * pairs * folds * d), 1)
    for part in (slice(s, s + step) for s in range(0, n, step)):
        game, target = Games(games.constant[part], games.form[part]), loss.target[part, None, None]
        if every:
            v = -loss.extended(game.values(masks), target, floor)
            u[part] = np.einsum("mj,nmf->njf", weights, v, optimize=True)
            continue
        z = drawn[part]
        ends = np.repeat(np.array([[False], [True]]), d, axis=1)
        on, off = (-loss.extended(game.values(m), target, floor) for m in (z, ~z))
        none, full = np.moveaxis(-loss.extended(game.values(ends), target, floor), 1, 0)
        centred = pair_scale(d) * (z - z.mean(axis=2, keepdims=True))
        each = centred[..., None] * (0.5 * (on - off))[:, :, None]  # (n, pairs, d, F)
        u[part] = each.mean(axis=1) + (full - none)[:, None] / d
        noise[part] = each.mean(axis=3).var(axis=1, ddof=1) / pairs
    return u, noise


def _shapley_weights(masks: Masks) -> Floats:
    """Weights ``(m, d)`` of all coalitions' values in the Shapley values."""
    d, size = masks.shape[1], masks.sum(axis=1)
    weight = [factorial(s) * factorial(d - s - 1) / factorial(d) for s in range(d)]
    on, off = np.array([0.0, *weight])[size], np.array([*weight, 0.0])[size]
    return np.asarray(np.where(masks, on[:, None], -off[:, None]))


# -- what to ask next ----------------------------------------------------------------------------


class LossOutlook(Outlook):
    """Predicts widths of the intervals; see `Outlook` for ``learning``."""

    def __init__(
        self,
        f: LossResiduals,
        limits: Floats,
        *,
        shape: tuple[int, int],
        level: float,
        cost: Callable[[int, int], int],
        size: int,
        learning: float | None = None,
    ) -> None:
        self.n, self.p = shape
        self._cost, self._size, self._learning = cost, size, learning
        self._limits, self._f = limits[:, 0], f
        self._quantile = quantile(level, loss_means(f, level).dof)
        doubt = sum(share * f.floored[at].mean(axis=0) for share, _, at in f.strata())
        self._doubt = FLOOR_DOUBT * np.abs(doubt)  # more rows do not change it
        self._sources = []
        self._fixed = np.zeros(f.r.shape[1])
        for share, listed, at in f.strata():
            noise = f.within[at].mean(axis=0)
            least = self.p * noise * LEAST_BETWEEN
            between = np.maximum(f.r[at].var(axis=0, ddof=1) - noise, least)
            self._sources.append((share**2 * between, share**2 * self.p * noise, listed))
            self._fixed += share**2 * f.noise[listed].mean(axis=0) / listed.sum()

    def ratio(self, n: int, p: int) -> float:
        """Widest interval as a share of its limit."""
        return self._now(n, p) * self._learned(n, p)

    def _now(self, n: int, p: int) -> float:
        f = self._f
        variance = self._fixed + f.base_variance / f.r.shape[1] ** 2 * self.n / n
        for (between, per_pair, listed), size in zip(self._sources, f.sizes.tolist(), strict=True):
            rows = max(float(listed[:n].sum()), 1.0)
            variance = variance + between * max(1 / rows - 1 / size, 0.0) + per_pair / (p * rows)
        half = np.hypot(self._quantile * np.sqrt(variance), self._doubt)
        return float(np.max(2 * half / self._limits))
