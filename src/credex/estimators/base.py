"""`Estimator`: turns the history of a run into an `Estimate` of the importances, and a forecast."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credex.designs.design import Design
from credex.designs.samplers import Predictive
from credex.estimators.forecast import Forecast
from credex.history import History
from credex.posteriors import Belief, ErrorPosterior, Prior
from credex.stopping import RelativeWidth, Width
from credex.typing import Floats, Masks

__all__ = ["CustomEstimator", "Estimate", "Estimator"]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A fit over all d features and k outputs: what an explanation is made of.

    ``error``, ``r2``, ``intercept`` and ``local_prediction`` (the prediction at the instance) are
    those of the linear explanation, ``(k,)`` each. ``exact`` says that nothing is uncertain,
    ``posterior`` names the kind of posterior. ``selected (d, k)`` are the features that
    ``features=K`` kept; ``unidentified (d,)`` those that no number of queries can measure, ``None``
    if there are none. ``notes`` are for the reader of the explanation. ``base_sd (k,)`` is the
    scale of the base value, with ``base_dof`` degrees of freedom; ``None`` if it is known.
    Where not ``settled``, no rule may stop: all answers were alike so far.
    """

    belief: Belief
    error: ErrorPosterior
    r2: Floats
    exact: bool
    posterior: str
    intercept: Floats
    local_prediction: Floats
    selected: Masks
    notes: tuple[str, ...] = ()
    unidentified: Masks | None = None
    base_sd: Floats | None = None
    base_dof: float = 1.0
    settled: bool = True

    @property
    def is_partial(self) -> bool:
        """Whether there are features that no number of queries can measure."""
        return self.unidentified is not None and bool(self.unidentified.any())

    @property
    def for_rules(self) -> Estimate:
        """The estimate for stopping rules, which ignore unidentified features: zero width."""
        if self.unidentified is None or not self.is_partial:
            return self
        known = ~self.unidentified[:, None]
        scale = np.where((known & known.T)[:, :, None], self.belief.scale, 0.0)
        return replace(self, belief=replace(self.belief, scale=scale))

    def only(self, output: int) -> Estimate:
        """Return the estimate of one output."""
        j = slice(output, output + 1)
        return replace(
            self,
            belief=self.belief.only(output),
            error=replace(self.error, scale=np.atleast_1d(self.error.scale)[j]),
            r2=self.r2[j],
            intercept=self.intercept[j],
            local_prediction=self.local_prediction[j],
            selected=self.selected[:, j],
            base_sd=None if self.base_sd is None else self.base_sd[j],
        )

    @classmethod
    def unknown(cls, d: int, k: int) -> Estimate:
        """Return the estimate before the first fit: infinite widths."""
        scale = np.zeros((d, d, k))
        scale[np.arange(d), np.arange(d)] = np.inf
        nan = np.full(k, np.nan)
        return cls(
            Belief(np.full((d, k), np.nan), scale, 1.0),
            ErrorPosterior(1.0, np.full(k, np.inf)),
            nan,
            exact=False,
            posterior="none yet",
            intercept=nan,
            local_prediction=nan,
            selected=np.ones((d, k), dtype=np.bool_),
        )


class Estimator(ABC):
    """Turns the history that a design made into an estimate. Used by one run only."""

    def __init__(self, design: Design) -> None:
        self.design: Design = design
        self.d, self.options, self.context = design.d, design.options, design.context
        self.origin = design.origin if hasattr(design, "origin") else np.ones(self.d)
        """The instance as a row of the design, ``(d,)``."""
        self.active = design.active if hasattr(design, "active") else np.ones(self.d, np.bool_)
        """Which of all features are the d that take part."""
        prior = Prior() if self.options.prior is None else self.options.prior
        self.all_active = bool(self.active.all())
        self.prior = prior if self.all_active else prior.only(self.active)
        self.sequential = False
        """Whether the run may stop at any of several looks; set by the run."""
        self.forecasting = False
        """Whether a run that will look on the way is forecast; set by `Explainer.forecast`."""

    @property
    @abstractmethod
    def minimum(self) -> int:
        """Fewest queries a fit can be made from."""

    @abstractmethod
    def fit(self, h: History) -> Estimate | None:
        """Fit the history; ``None`` if it holds too little."""

    def predictive(self, h: History) -> Predictive | None:
        """Return the posterior that an adaptive sampler reads."""
        del h
        return None

    def forecast(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Return how many more queries these widths take; ``None`` if that is unknown."""
        del h, limits, level
        return None

    def estimate(
        self,
        belief: Belief,
        error: ErrorPosterior,
        r2: Floats,
        intercept: Floats,
        posterior: str,
        *,
        selected: Masks | None = None,
        notes: tuple[str, ...] = (),
        unidentified: Masks | None = None,
    ) -> Estimate:
        """Return the estimate of all features, given a belief about the d that take part."""
        chosen = np.ones((len(self.active), belief.k), dtype=np.bool_)
        if selected is not None:
            chosen[~self.active], chosen[self.active] = False, selected
        return Estimate(
            belief if self.all_active else spread_over(belief, self.active),
            error,
            r2,
            posterior == "exact",
            posterior,
            intercept,
            np.asarray(intercept + self.origin @ belief.mean),
            chosen,
            notes,
            unidentified,
        )


class CustomEstimator(Estimator):
    """Wraps an estimator of the user's own, given as ``posterior=``.

    That is any object with ``fit(masks, y, base, full) -> Belief``: masks ``(n, d)`` of the
    coalitions (or design rows) asked, their outputs ``(n, k)``, and ``(k,)`` values of the empty
    and the full coalition. An attribute ``minimum`` (queries, default 4) and a ``name`` may be
    added.
    """

    @property
    def minimum(self) -> int:
        """The object's own minimum, or 4."""
        return int(getattr(self.options.posterior, "minimum", 4))

    def fit(self, h: History) -> Estimate | None:
        """Ask the object for its belief."""
        if h.full is None or h.rows.n == 0:
            return None
        masks, y = h.rows.design().copy(), h.rows.y().copy()
        base = np.zeros(len(h.full)) if h.base is None else h.base
        custom: Any = self.options.posterior
        belief = custom.fit(masks, y, base, h.full)
        rss = ((y - base - masks @ belief.mean) ** 2).sum(axis=0)
        return Estimate(
            spread_over(belief, self.active),
            ErrorPosterior(float(len(y)), np.sqrt(rss / len(y))),
            r_squared(rss, len(y) * y.var(axis=0)),
            exact=False,
            posterior=str(getattr(custom, "name", type(custom).__name__)),
            intercept=base,
            local_prediction=base + belief.mean.sum(axis=0),
            selected=np.ones((len(self.active), len(base)), dtype=np.bool_),
        )


def r_squared(rss: Floats, spread: Floats) -> Floats:
    """Return 1 − rss/spread, ``(k,)``; NaN where the outputs do not vary."""
    share = np.divide(rss, spread, out=np.full(len(spread), np.nan), where=spread > 0)
    return np.asarray(1 - share)


def nonzero_width(belief: Belief, full: Floats) -> Belief:
    """Give widths of zero a tiny value: importances of a noisy model are never known exactly."""
    least = (1e-9 * np.maximum(1.0, np.abs(full))) ** 2
    scale = belief.scale.copy()
    i = np.arange(len(scale))
    scale[i, i] = np.maximum(scale[i, i], least)
    return replace(belief, scale=scale)


def spread_over(belief: Belief, active: Masks) -> Belief:
    """Put the belief about the active features among all d; the others are exactly zero."""
    if active.all():
        return belief
    d, k = len(active), belief.mean.shape[1]
    i = np.flatnonzero(active)
    mean, scale = np.zeros((d, k)), np.zeros((d, d, k))
    mean[i] = belief.mean
    scale[np.ix_(i, i)] = belief.scale
    return Belief(mean, scale, belief.dof)
