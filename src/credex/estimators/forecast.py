"""Perturbations-to-go: how many more queries an interval width takes.

The fitted quantities are carried forward: the data part of the sandwich grows with the rows, the
prior's part does not, leverages shrink, strata fill up. The number of rows at which the widest
interval reaches its limit is found by bisection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from credex import markup
from credex.errors import InputError, check_level, check_width
from credex.history import History
from credex.posteriors import LinearPosterior, ShapleyPosterior
from credex.posteriors.shapley import strata
from credex.posteriors.student import quantile
from credex.stopping import RelativeWidth, Width
from credex.typing import Floats

__all__ = ["Forecast", "perturbations_to_go"]

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
    cost
        Price of ``model_rows``, if that of a row was given.
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
    cost: float | None = None

    @property
    def total(self) -> float:
        """Spent and still to ask."""
        return self.n_queries + self.queries

    def __repr__(self) -> str:
        return f"<Forecast: {self}>"

    def __str__(self) -> str:
        if not np.isfinite(self.queries):
            return f"width {self.width} cannot be reached"
        price = "" if self.cost is None else f" at a price of {self.cost:,.4g}"
        return (
            f"{self.queries:,.0f} more queries ({self.low:,.0f} to {self.high:,.0f}) "
            f"to width {self.width} at level {self.level:g}: about {self.seconds:.2g} s, "
            f"{self.model_rows:,.0f} model rows{price}; {self.n_queries} spent"
        )

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the way to the width; see `credex.plots.Plots.forecast`."""
        if self.asked is None:
            raise InputError("this forecast has no seed queries behind it, so nothing to draw")
        return self.asked.plot.forecast(self, ax=ax)

    def to_html(self, path: str | Path | None = None) -> str:
        """Write (and return) a page that needs no other file, in light and dark."""
        return markup.page("Forecast", self._repr_html_(), path)

    def _repr_html_(self) -> str:
        said = f'<div class="title"><b>Forecast</b>: {escape(str(self))}</div>'
        if not np.isfinite(self.queries) or self.queries == 0:
            return markup.fragment(said)
        high = self.high if np.isfinite(self.high) else self.queries
        total, low, high = (self.n_queries + q for q in (self.queries, self.low, high))
        spent, scale = float(self.n_queries), markup.Scale.over([0.0, high], n_ticks=3)
        rows = [
            ["spent", f"{spent:,.0f}", scale.mark(spent, (0.0, spent), colour="grey")],
            [
                "in all",
                f"{total:,.0f} ({low:,.0f} … {high:,.0f})",
                scale.mark(total, (low, high), colour="down"),
            ],
            ["", "", scale.axis()],
        ]
        return markup.fragment(said, markup.table(["", "queries", ""], rows, 1))


def shapley_spread(p: ShapleyPosterior) -> Spread:
    """Spread of a Shapley regression after more units."""
    g, d, k = p.geometry, p.geometry.d, p.y.shape[1]
    layers = strata(d, paired=g.paired)
    stratum = layers.index(g.masks)
    repeats, count = np.ones(len(p.y)), layers.count
    # squared residuals made unbiased, and the squared influence of each unit on each feature
    square = p.residual**2 / np.maximum(1 - g.leverage, 1e-8)[:, None]  # (m, k)
    influence = ((g.masks - 0.5) @ g.v) ** 2  # (m, d)
    ends = np.zeros((d, k))
    if p.noise is not None:  # a stratum asked in full leaves noise, which repeats reduce
        repeats, count = p.noise.repeats, np.full(len(layers.count), np.inf)
        fpc = g.finite_population_correction[:, None]
        square = fpc * square + (1 - fpc) * p.unit_noise
        ends = np.einsum("iik->ik", p.anchor_share(p.noise))
    square *= g.unit_weights[:, None] ** 2
    precisions = g.prior.precisions(d)[:, None]
    bias = g.v**2 @ (precisions * (p.mean - g.prior.means(d)[:, None])) ** 2
    terms = [influence * square[:, j : j + 1] for j in range(k)]
    shrink = _shrinkage(influence.T @ square, np.stack([t.T @ t for t in terms], axis=2))
    now = np.bincount(stratum, repeats, minlength=len(count))
    asked, parameters = float(repeats.sum()), float(g.leverage.sum())

    def spread(units: float) -> tuple[Floats, float]:
        later = np.maximum(fill_strata(layers.turns, count, units), np.minimum(now, count))
        fpc = np.maximum(1 - later / count, 0.0)
        factor = (fpc * now / np.maximum(later, 1e-12))[stratum]
        variance = shrink(influence.T @ (square * factor[:, None]))
        variance += bias * (asked / units) ** 2 + ends * asked / units
        dof = p.dof * (units - parameters) / max(asked - parameters, 1.0)
        return np.sqrt(variance), max(dof, 1.0)

    return spread


def linear_spread(p: LinearPosterior, max_rows: float, *, robust: bool) -> Spread:
    """Spread of a linear surrogate after more rows, of ``max_rows`` that there are."""
    precisions, m = p.prior.precisions(p.d), p.prior.means(p.d)[:, None]
    meat, leverage, products = p.projected_meat()
    shrink = _shrinkage(_sandwich(p.v, meat), products)
    parameters = p.n - p.robust_dof
    noise = p.noise_variance()

    def spread(n: float) -> tuple[Floats, float]:
        growth = n / p.n
        v = np.asarray(np.linalg.inv(growth * p.gram + np.diag(precisions)), dtype=np.float64)
        if not robust:
            scale2 = noise + precisions @ (p.mean - m) ** 2 / n
            return np.sqrt(np.outer(np.diag(v), scale2)), max(n - 1, 1.0)
        fpc = max(1 - n / max_rows, 0.0)
        grown = growth * fpc * meat / max(1 - leverage / growth, 1e-8)
        bias = v @ (precisions[:, None] * (p.mean + p.bias - m))
        return np.sqrt(shrink(_sandwich(v, grown)) + bias**2), max(n - parameters, 1.0)

    return spread


def _sandwich(v: Floats, meat: Floats) -> Floats:
    """Diagonals of V·meat·V, ``(d, k)``, for ``meat (d, d, k)``."""
    return np.stack([np.vecdot(v @ layer, v) for layer in np.moveaxis(meat, 2, 0)], axis=1)


def _shrinkage(variance: Floats, products: Floats) -> Callable[[Floats], Floats]:
    """Return a function that shrinks the features' variances towards their mean.

    A forecast is about the widest interval, and the largest of several estimated variances is too
    large on average. ``variance (d, k)`` is a sum over rows, and ``products (d, d, k)`` sums the
    products of two features' terms in it: together they tell how much of the spread of the log
    variances is estimation error. Errors that all features have in common do not count.
    """
    exponent = np.ones(variance.shape[1])
    for j, column in enumerate(variance.T):
        positive = column > 0
        v = column[positive]
        observed = np.log(v).var() if len(v) else 0.0
        if observed > 0:
            error = products[:, :, j][np.ix_(positive, positive)] / np.outer(v, v)
            expected = error.diagonal().mean() - error.mean()
            exponent[j] = np.clip(1 - expected / observed, 0.0, 1.0)

    def shrink(later: Floats) -> Floats:
        positive = later > 0
        mean = later.sum(axis=0, where=positive) / np.maximum(positive.sum(axis=0), 1)
        ratio = np.divide(later, mean, out=np.ones_like(later), where=positive)
        return np.where(positive, mean * ratio**exponent, later)

    return shrink


def fill_strata(share: Floats, count: Floats, units: float) -> Floats:
    """Distribute ``units`` over strata in proportion to ``share``, none beyond its ``count``."""
    free = np.ones(len(share), dtype=np.bool_)
    while free.any():
        given = (units - count[~free].sum()) * share / share[free].sum()
        full = free & (given >= count)
        if not full.any():
            return np.where(free, given, count)
        free &= ~full
    return count


def solve_forecast(
    h: History,
    mean: Floats,
    spread: Spread,
    units: int,
    *,
    limits: Width | RelativeWidth,
    level: float,
    per_unit: int = 1,
    max_units: float = np.inf,
    range_dof: float | None = None,
) -> Forecast:
    """Find the units at which every interval of ``mean (d, k)`` is narrow enough.

    ``units`` of ``max_units`` were asked; one is ``per_unit`` queries. The range takes widths as
    known with ``range_dof`` degrees of freedom, by default those of the spread.
    """
    allowed = np.asarray(limits.limits(mean))

    def met(n: float, inflation: float) -> bool:
        scale, dof = spread(n)
        return bool(np.all(2 * quantile(level, dof) * scale * inflation <= allowed))

    dof = spread(float(units))[1] if range_dof is None else range_dof
    # a residual variance from dof values is known to about ±√(2/dof); heavy tails: half more
    error = np.sqrt(1 + 1.5 * UPPER_DECILE * np.sqrt(2 / max(dof, 1.0)))

    def more(inflation: float) -> float:
        total = _bisect(partial(met, inflation=inflation), float(units), max_units)
        return float(max(np.ceil(total - units), 0.0) * per_unit)

    return forecast_of(h, limits, level, (more(1.0), more(1 / error), more(error)))


def _bisect(met: Callable[[float], bool], low: float, most: float) -> float:
    """Fewest rows ≥ ``low`` at which ``met`` holds; infinite if none below `MAX_ROWS`."""
    high = low
    while not met(high):
        if high >= min(most, MAX_ROWS):
            return most
        low, high = high, min(2 * high, most, MAX_ROWS)
    while high - low >= 0.5:
        middle = np.sqrt(low * high)
        low, high = (low, middle) if met(middle) else (middle, high)
    return high


def forecast_of(
    h: History,
    limits: Width | RelativeWidth,
    level: float,
    more: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Forecast:
    """Return a forecast of ``more`` queries (expected, low, high), at the cost of those so far."""
    each = more[0] / max(h.n_queries, 1)
    rows, seconds = each * h.n_model_rows, each * h.model_seconds
    width = limits.width if isinstance(limits, Width) else limits.share
    return Forecast(*more, rows, seconds, h.n_queries, width, level)


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
        raise InputError("perturbations_to_go takes one width")
    z = quantile(check_level(level), np.inf)
    weight = posterior.moments.weight / posterior.n if mean_proximity is None else mean_proximity
    s2 = float(np.max(posterior.s2))
    return float(4 * s2 / (weight * (w / z) ** 2) - posterior.n)
