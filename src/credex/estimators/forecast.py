"""Perturbations-to-go: how many more queries an interval width takes.

The fitted quantities are carried forward: the data part of the sandwich grows with the rows, the
prior's part does not, leverages shrink, strata fill up. The number of rows at which the widest
interval reaches its limit is found by bisection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from credex.checks import check_level, check_width
from credex.errors import InputError
from credex.history import History
from credex.posteriors import LinearPosterior, ShapleyPosterior
from credex.posteriors.strata import strata
from credex.posteriors.student import quantile
from credex.stopping import RelativeWidth, Width
from credex.typing import Floats

__all__ = [
    "Forecast",
    "forecast_of",
    "linear_spread",
    "met_forecast",
    "perturbations_to_go",
    "shapley_spread",
    "solve_forecast",
]

UPPER_DECILE = 1.2815515655446004
"""90 % quantile of the normal distribution."""

MAX_ROWS = 1e12
"""Rows beyond which a width counts as out of reach."""

Spread = Callable[[float], tuple[Floats, float]]
"""Rows (or units) in all → scale ``(d, k)`` of the features and degrees of freedom."""


@dataclass(frozen=True, slots=True, repr=False)
class Forecast:
    """How much further it is to a width (perturbations-to-go).

    Attributes
    ----------
    queries
        Queries still to ask, after those already spent; 0 if the width is met. Infinite if it
        cannot be met (a noisy limit, or a prior too strong).
    low, high
        A range for ``queries``: the residual variance is itself an estimate.
    model_rows, seconds
        The same in rows of the model and in seconds.
    n_queries
        Seed queries spent on the forecast.
    width, level
        What was asked for.
    asked
        The seed queries themselves: ``explain(x, start=forecast)`` goes on from them.
    """

    queries: float
    low: float
    high: float
    model_rows: float
    seconds: float
    n_queries: int
    width: float | tuple[float, ...]
    level: float
    asked: Any = None

    @property
    def total(self) -> float:
        """Spent and still to ask."""
        return self.n_queries + self.queries

    def __repr__(self) -> str:
        return f"<Forecast: {self}>"

    def __str__(self) -> str:
        if not np.isfinite(self.queries):
            return f"width {self.width} cannot be reached"
        return (
            f"{self.queries:,.0f} more queries ({self.low:,.0f} to {self.high:,.0f}) "
            f"to width {self.width} at level {self.level:g}: about {self.seconds:.2g} s, "
            f"{self.model_rows:,.0f} model rows; {self.n_queries} spent"
        )


def shapley_spread(p: ShapleyPosterior) -> Spread:
    """Spread of a Shapley regression after more units."""
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

    total = reach.T @ u2
    parts = [reach * u2[:, j : j + 1] / np.where(v > 0, v, 1.0) for j, v in enumerate(total.T)]
    steady = _steady(total, np.stack([part.T @ part for part in parts], axis=2))
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


def _steady(variance: Floats, luck: Floats) -> Callable[[Floats], Floats]:
    """Return what draws the features' variances together as far as they differ by luck.

    A forecast is about the widest interval, and the largest of several noisy variances is too
    large on average. ``variance (d, k)`` is a sum over rows and ``luck (d, d, k)`` the sum of the
    products of two features' relative shares in it: together they say how much of the differences
    between the features is luck. What luck they have in common makes no difference.
    """
    seen, due = np.zeros(variance.shape[1]), np.zeros(variance.shape[1])
    for j, v in enumerate(variance.T):
        some = v > 0
        if some.any():
            both = luck[:, :, j][np.ix_(some, some)]
            seen[j] = np.log(v[some]).var()
            due[j] = both.diagonal().mean() - both.mean()
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


def linear_spread(p: LinearPosterior, most: float, *, robust: bool) -> Spread:
    """Spread of a linear surrogate after more rows; ``most``: rows that there are."""
    lam, m = p.prior.precisions(p.d), p.prior.means(p.d)
    gram = p.gram
    # residuals freed from the fit's own share, their mean hat value, sums for `_steady`
    meat, hat, luck = p.projected_meat()
    second = np.stack([np.einsum("ij,jl,il->i", p.v, meat[:, :, j], p.v) for j in range(p.k)], 1)
    steady = _steady(second, luck)
    parameters = p.n - p.robust_dof if robust else 0.0
    noise = p.noise_variance()

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


def solve_forecast(
    h: History,
    mean: Floats,
    spread: Spread,
    units: int,
    *,
    limits: Width | RelativeWidth,
    level: float,
    per_unit: int = 1,
    most: float = np.inf,
) -> Forecast:
    """Return the forecast of a run with importances ``mean`` after ``units`` of ``most`` units."""
    allowed = np.asarray(limits.limits(mean))

    def met(n: float, inflate: float) -> bool:
        scale, dof = spread(n)
        return bool(np.all(2 * quantile(level, dof) * scale * inflate <= allowed))

    _, dof = spread(float(units))
    # a residual variance from dof values is known to about ±√(2/dof); heavy tails: half more
    wobble = np.sqrt(1 + 1.5 * UPPER_DECILE * np.sqrt(2 / max(dof, 1.0)))
    total = [_reach(partial(met, inflate=f), float(units), most) for f in (1 / wobble, 1.0, wobble)]
    low, more, high = (max(np.ceil(t - units), 0.0) * per_unit for t in total)
    return forecast_of(h, more, (low, high), limits=limits, allowed=allowed, level=level)


def forecast_of(
    h: History,
    queries: float,
    between: tuple[float, float],
    *,
    limits: Width | RelativeWidth,
    allowed: Floats,
    level: float,
) -> Forecast:
    """Return a forecast of so many ``queries``, in rows and seconds at the cost so far."""
    rows = h.n_model_rows / max(h.n_queries, 1)
    seconds = h.model_seconds / max(h.n_queries, 1)
    width = limits.width if isinstance(limits, Width) else float(allowed.min())
    return Forecast(queries, *between, queries * rows, queries * seconds, h.n_queries, width, level)


def met_forecast(h: History, limits: Width | RelativeWidth, level: float) -> Forecast:
    """Return the forecast of a run that needs nothing more."""
    width = limits.width if isinstance(limits, Width) else 0.0
    return Forecast(0.0, 0.0, 0.0, 0.0, 0.0, h.n_queries, width, level)


def _reach(met: Callable[[float], bool], low: float, most: float) -> float:
    """Fewest rows ≥ ``low`` at which ``met`` holds; infinite if none below `MAX_ROWS`."""
    if met(low):
        return low
    high = low
    while high < min(most, MAX_ROWS):
        high = min(high * 2, most, MAX_ROWS)
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


def perturbations_to_go(
    posterior: LinearPosterior,
    width: float,
    level: float = 0.95,
    mean_proximity: float | None = None,
) -> float:
    """Return the paper's G (Eq. 9): further perturbations to an interval of HALF-width ``width``.

    G = 4·s² / (π̄ · [W/Φ⁻¹(α)]²) − S, with S the rows of ``posterior`` and π̄ their mean weight.
    W is the half-width here and nowhere else in credex; the formula holds for masks of fair coins
    without an intercept, and for few features it asks for too much. ``explainer.forecast`` does
    better.

    Parameters
    ----------
    posterior
        Estimate on the S seed perturbations.
    width
        Half-width W.
    level
        Two-sided level α.
    mean_proximity
        π̄; by default the mean weight of the posterior's rows.
    """
    w = check_width(width)
    if isinstance(w, tuple):
        msg = "perturbations_to_go takes one width"
        raise InputError(msg)
    z = quantile(check_level(level), np.inf)
    weight = posterior.moments.weight / posterior.n if mean_proximity is None else mean_proximity
    s2 = float(np.max(posterior.s2))
    return float(4 * s2 / (weight * (w / z) ** 2) - posterior.n)
