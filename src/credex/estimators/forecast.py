"""Perturbations-to-go from the fitted quantities (design-based, feature by feature).

What is fitted now is carried forward: the data part of the sandwich grows with the rows, the
prior's part does not, leverages shrink, strata fill up. The number of rows at which the widest
interval reaches its limit is found by bisection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from credex.posteriors import LinearPosterior, ShapleyPosterior
from credex.posteriors.strata import strata
from credex.posteriors.student import quantile
from credex.stopping import Forecast, RelativeWidth, Width
from credex.typing import Floats

if TYPE_CHECKING:
    from credex.estimators.base import Recipe
    from credex.estimators.shapley import ShapleyRecipe
    from credex.estimators.surrogate import SurrogateRecipe

TENTH = 1.2815515655446004
"""90 % quantile of the normal distribution."""

MOST = 1e12
"""Rows beyond which a width counts as out of reach."""

Spread = Callable[[float], tuple[Floats, float]]
"""Rows (or units) in all → scale ``(d, k)`` of the features and degrees of freedom."""


def shapley_forecast(
    recipe: ShapleyRecipe, limits: Width | RelativeWidth, level: float
) -> Forecast | None:
    """Forecast for coalitions; ``None`` before the first fit."""
    p = recipe.posterior()
    if isinstance(p, LinearPosterior):
        spread = _linear_spread(p, 0.0, np.inf, robust=False)
        return _solve(recipe, _Now(p.mean, spread, p.n, 1, np.inf), limits, level)
    if not isinstance(p, ShapleyPosterior):
        return _done(recipe, limits, level) if p is not None else None
    units = len(p.y) if p.noise is None else int(p.noise.repeats.sum())
    pair = 2 if recipe.paired else 1
    most = (
        np.inf if p.noise is not None else float(strata(recipe.d, paired=recipe.paired).count.sum())
    )
    return _solve(recipe, _Now(p.mean, _shapley_spread(p), units, pair, most), limits, level)


def linear_forecast(
    recipe: SurrogateRecipe, limits: Width | RelativeWidth, level: float
) -> Forecast | None:
    """Forecast for perturbed rows; ``None`` before the first fit."""
    p = recipe.posterior()
    if not isinstance(p, LinearPosterior):
        return _done(recipe, limits, level) if p is not None else None
    most = recipe.everything - 1 if recipe.fraction > 0 else np.inf
    robust = recipe.settings.robust and recipe.settings.recipe != "paper"
    spread = _linear_spread(p, recipe.fraction, most, robust=robust)
    return _solve(recipe, _Now(p.mean, spread, p.n, 1, most), limits, level)


def _shapley_spread(p: ShapleyPosterior) -> Spread:
    g = p.geometry
    layers = strata(g.masks.shape[1], paired=g.paired)
    at = layers.index(g.masks)
    often = np.ones(len(p.y)) if p.noise is None else p.noise.repeats
    now = np.bincount(at, often, minlength=len(layers.count))
    count = layers.count if p.noise is None else np.full(len(layers.count), np.inf)
    # squared effect of each unit on each feature, residuals freed from the fit's own share
    reach = ((g.masks - 0.5) @ g.v) ** 2  # (m, d)
    free = np.maximum(1 - g.leverage, 1e-8)
    square = p.residual**2 / free[:, None]
    ends = np.zeros((g.masks.shape[1], p.y.shape[1]))
    if p.noise is not None:  # what is left of a size asked in full is noise, asked less with time
        thin = g.finite_population_correction[:, None]
        square = thin * square + (1 - thin) * p.unit_noise
        ends = np.einsum("iik->ik", p.anchor_share(p.noise))
    u2 = square * g.unit_weights[:, None] ** 2  # (m, k)
    fixed = np.zeros((g.masks.shape[1], p.y.shape[1]))
    lam = g.prior.precisions(g.masks.shape[1])
    if np.any(lam > 0):
        pull = lam[:, None] * (p.mean - g.prior.means(len(lam))[:, None])
        fixed = (g.v**2) @ pull**2

    shares = [reach * u2[:, j : j + 1] for j in range(p.y.shape[1])]
    steady = _steady(reach.T @ u2, np.stack([s.T @ s for s in shares], axis=2))
    asked = float(often.sum())
    spent = float(g.leverage.sum())
    spare = max(asked - spent, 1.0)

    def spread(units: float) -> tuple[Floats, float]:
        later = _fill(layers.mass, count, units)
        later = np.maximum(later, np.minimum(now, count))
        thin = np.maximum(1 - later / count, 0.0)
        shrink = (now / np.maximum(later, 1e-12))[at]
        variance = reach.T @ (u2 * (thin[at] * shrink)[:, None])
        variance = steady(variance) + fixed * (asked / units) ** 2 + ends * asked / units
        return np.sqrt(variance), max(p.dof * (units - spent) / spare, 1.0)

    return spread


def _steady(variance: Floats, fourth: Floats) -> Callable[[Floats], Floats]:
    """Return what draws the features' variances together as far as they differ by luck.

    A forecast is about the widest interval, and the largest of several noisy variances is too
    large on average. ``variance (d, k)`` is a sum over rows and ``fourth (d, d, k)`` the sum of
    the products of two features' shares in it: together they say how much of the differences
    between the features is luck. What luck they have in common makes no difference.
    """
    seen, due = np.zeros(variance.shape[1]), np.zeros(variance.shape[1])
    for j, v in enumerate(variance.T):
        some = v > 0
        if some.any():
            luck = fourth[:, :, j][np.ix_(some, some)] / np.outer(v[some], v[some])
            seen[j] = np.log(v[some]).var()
            due[j] = luck.diagonal().mean() - luck.mean()
    real = np.where(seen > 0, np.clip(1 - due / np.where(seen > 0, seen, 1.0), 0.0, 1.0), 1.0)

    def steady(later: Floats) -> Floats:
        out = later.copy()
        for j in range(later.shape[1]):
            some = later[:, j] > 0
            if some.any():
                middle = later[some, j].mean()
                out[some, j] = middle * (later[some, j] / middle) ** real[j]
        return out

    return steady


def _fill(mass: Floats, count: Floats, units: float) -> Floats:
    """Share ``units`` over strata in proportion to ``mass``, none beyond its ``count``."""
    out = np.zeros(len(mass))
    live = np.ones(len(mass), dtype=np.bool_)
    left = units
    while left > 1e-9 and live.any():
        share = left * mass * live / (mass * live).sum()
        over = live & (out + share >= count)
        if not over.any():
            return np.asarray(out + share)
        left -= float((count - out)[over].sum())
        out[over] = count[over]
        live &= ~over
    return out


def _linear_spread(p: LinearPosterior, fraction: float, most: float, *, robust: bool) -> Spread:
    lam, m = p.prior.precisions(p.d), p.prior.means(p.d)
    gram = p.gram
    # residuals freed from the fit's own share, their mean hat value, sums for `_steady`
    meat, hat, fourth = p.projected_meat()
    second = np.stack([np.einsum("ij,jl,il->i", p.v, meat[:, :, j], p.v) for j in range(p.k)], 1)
    steady = _steady(second, fourth)
    parameters = p.n - p.robust_dof if robust else 0.0
    noise = p.noise_variance()
    del fraction

    def spread(n: float) -> tuple[Floats, float]:
        k = n / p.n
        v = np.linalg.inv(k * gram + np.diag(lam))
        if not robust:
            scale2 = noise + np.sum(lam[:, None] * (p.mean - m[:, None]) ** 2, axis=0) / n
            return np.sqrt(np.outer(np.diag(v), scale2)), max(n - 1, 1.0)
        thin = max(1 - n / most, 0.0)
        grown = k * thin * meat / max(1 - hat / k, 1e-8)
        bias = v @ (lam[:, None] * (p.mean + p.bias - m[:, None]))
        variance = np.stack(
            [np.einsum("ij,jl,il->i", v, grown[:, :, j], v) for j in range(p.k)], axis=1
        )
        return np.sqrt(steady(variance) + bias**2), max(n - parameters, 1.0)

    return spread


@dataclass(frozen=True, slots=True, eq=False)
class _Now:
    """Where a run stands: means, spread by rows, units so far, rows a unit, most units."""

    mean: Floats
    spread: Spread
    units: int
    per_unit: int
    most: float


def _solve(recipe: Recipe, now: _Now, limits: Width | RelativeWidth, level: float) -> Forecast:
    mean, spread, units, per_unit, most = (
        now.mean,
        now.spread,
        now.units,
        now.per_unit,
        now.most,
    )
    allowed = np.asarray(limits.limits(mean))

    def met(n: float, inflate: float) -> bool:
        scale, dof = spread(n)
        return bool(np.all(2 * quantile(level, dof) * scale * inflate <= allowed))

    _, dof = spread(float(units))
    # a residual variance from dof values is known to about ±√(2/dof); heavy tails: half more
    wobble = np.sqrt(1 + 1.5 * TENTH * np.sqrt(2 / max(dof, 1.0)))
    total = [_reach(partial(met, inflate=f), float(units), most) for f in (1 / wobble, 1.0, wobble)]
    more = [max(np.ceil(t - units), 0.0) * per_unit for t in total]
    asked = recipe.asked
    rows = asked.n_model_rows / max(asked.n_queries, 1)
    seconds = asked.model_seconds / max(asked.n_queries, 1)
    return Forecast(
        queries=more[1],
        low=more[0],
        high=more[2],
        model_rows=more[1] * rows,
        seconds=more[1] * seconds,
        n_queries=asked.n_queries,
        width=limits.width if isinstance(limits, Width) else float(allowed.min()),
        level=level,
    )


def _reach(met: Callable[[float], bool], low: float, most: float) -> float:
    """Fewest rows ≥ ``low`` at which ``met`` holds; infinite if none below ``MOST``."""
    if met(low):
        return low
    high = low
    while high < min(most, MOST):
        high = min(high * 2, most, MOST)
        if met(high):
            break
        low = high
    else:
        return most if np.isfinite(most) else np.inf
    for _ in range(40):
        middle = np.sqrt(low * high)
        if high - low < 0.5:
            break
        low, high = (low, middle) if met(middle) else (middle, high)
    return high


def _done(recipe: Recipe, limits: Width | RelativeWidth, level: float) -> Forecast:
    width = limits.width if isinstance(limits, Width) else 0.0
    return Forecast(0.0, 0.0, 0.0, 0.0, 0.0, recipe.asked.n_queries, width, level)
