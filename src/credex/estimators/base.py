"""What an estimator is: from a history to an `Estimate` of the importances, and a forecast."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credex.designs.design import Context, Design
from credex.designs.samplers import Predictive
from credex.estimators.forecast import Forecast
from credex.history import History
from credex.options import Options
from credex.posteriors import Belief, ErrorPosterior, Prior
from credex.stopping import RelativeWidth, Width
from credex.typing import Floats, Masks

__all__ = ["CustomEstimator", "Estimate", "Estimator", "nonzero_width", "spread_over"]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A fit, over all d features: what an explanation is made of.

    Attributes
    ----------
    belief
        Posterior of the importances.
    error, r2
        Error uncertainty and weighted R² of the linear explanation, ``(k,)``.
    exact
        Whether nothing is uncertain.
    posterior
        Name of the kind of posterior.
    intercept, local_prediction
        ``(k,)`` intercept of the explanation, and what it predicts at the instance.
    selected
        ``(d, k)``: features of the explanation (``features=K`` keeps some only).
    notes
        What else a reader should know.
    unidentified
        ``(d,)``: features that no number of queries can measure; ``None``: there are none.
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

    @property
    def for_rules(self) -> Estimate:
        """The estimate as stopping rules see it: unidentified features have no width."""
        if self.unidentified is None or not self.unidentified.any():
            return self
        seen = ~self.unidentified[:, None]
        scale = self.belief.scale * (seen & seen.T)[:, :, None]
        return replace(self, belief=replace(self.belief, scale=scale))

    @classmethod
    def unknown(cls, d: int, k: int) -> Estimate:
        """Return what is known before the first fit: nothing."""
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
    """Turns the history of a run into an estimate. Used by one run only.

    Parameters
    ----------
    design
        The perturbations that the history holds.
    options
        With sampler and prior resolved.
    context
        What the rows of a batch share.
    """

    def __init__(self, design: Design, options: Options, context: Context) -> None:
        self.options, self.context = options, context
        self.prior = Prior() if options.prior is None else options.prior
        self.d = design.d
        self.sequential = False
        """Whether the run may stop at any of several looks; set by the run."""

    @property
    @abstractmethod
    def minimum(self) -> int:
        """Fewest queries a fit can be made from."""

    @abstractmethod
    def fit(self, h: History) -> Estimate | None:
        """Fit the history; ``None`` if that is too little."""

    def predictive(self, h: History) -> Predictive | None:
        """Return the posterior that an adaptive sampler reads."""
        del h
        return None

    def forecast(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Return how many more queries these widths take; ``None`` if that cannot be told."""
        del h, limits, level
        return None


class CustomEstimator(Estimator):
    """Wraps an estimator of the user's own, given as ``posterior=``.

    That is any object with ``fit(masks, y, base, full) -> Belief``: masks ``(n, d)`` of the
    coalitions (or design rows) asked, their outputs ``(n, k)``, and ``(k,)`` values of the empty
    and the full coalition. An attribute ``minimum`` (queries, default 4) and a ``name`` may be
    added.
    """

    def __init__(self, design: Design, options: Options, context: Context) -> None:
        super().__init__(design, options, context)
        self.own: Any = options.posterior
        self.active = np.asarray(getattr(design, "active", np.ones(self.d, dtype=np.bool_)))

    @property
    def minimum(self) -> int:
        """What the object says, or 4."""
        return int(getattr(self.own, "minimum", 4))

    def fit(self, h: History) -> Estimate | None:
        """Ask the object for its belief."""
        if h.full is None or h.rows.n == 0:
            return None
        base = np.zeros(len(h.full)) if h.base is None else h.base
        belief = self.own.fit(h.rows.design(), h.rows.y(), base, h.full)
        k = len(h.full)
        name = str(getattr(self.own, "name", type(self.own).__name__))
        residual = h.rows.y() - base - h.rows.design() @ belief.mean
        rss, spread = (residual**2).sum(axis=0), (len(residual) * h.rows.y().var(axis=0))
        return Estimate(
            spread_over(belief, self.active),
            ErrorPosterior(float(h.rows.n), np.sqrt(rss / h.rows.n)),
            r_squared(rss, spread),
            exact=False,
            posterior=name,
            intercept=base,
            local_prediction=base + belief.mean.sum(axis=0),
            selected=np.ones((len(self.active), k), dtype=np.bool_),
        )


def selection_note(keep: int | None, d: int, *, shares: bool = False) -> tuple[str, ...]:
    """Return the notes of an explanation that kept some features only."""
    if keep is None or keep >= d:
        return ()
    note = f"{keep} of {d} features, chosen on the same queries: intervals are widened for that"
    all_of_it = "these share all of f(x) − base: not the Shapley values among all features"
    return (note, all_of_it) if shares else (note,)


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
    return Belief(belief.mean, scale, belief.dof)


def spread_over(belief: Belief, active: Masks) -> Belief:
    """Put the belief about the active features among all d; the others are exactly zero."""
    if bool(np.all(active)):
        return belief
    d, k = len(active), belief.mean.shape[1]
    i = np.flatnonzero(active)
    mean, scale = np.zeros((d, k)), np.zeros((d, d, k))
    mean[i] = belief.mean
    scale[np.ix_(i, i)] = belief.scale
    return Belief(mean, scale, belief.dof)
