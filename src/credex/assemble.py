"""From a state of the loop to the explanation a user holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from credex.blackbox import BlackBox
from credex.domains import Neighbourhood
from credex.estimators.base import Estimate, Recipe
from credex.explanation import Explanation
from credex.later import later
from credex.loop import State
from credex.posteriors import Belief, ErrorPosterior

STRAIGHT = "all that was asked adds up without a remainder; what was not asked need not"
"""Said of intervals without width that are not exact: a rule for few cases would not show."""


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """What an explanation needs besides the state.

    Attributes
    ----------
    method, units, notes
        As in `Explanation`.
    labels
        Makes the labels, if anybody reads them.
    recipe
        The instance that was explained.
    box
        The model.
    settings
        Makes what must agree for two runs to share what was asked, and the seed.
    data
        Makes the name of the data, if they have one.
    """

    method: str
    labels: Callable[[Neighbourhood], tuple[str, ...]]
    units: tuple[str, ...]
    notes: tuple[str, ...]
    recipe: Recipe
    box: BlackBox
    settings: Callable[[], dict[str, Any]]
    data: Callable[[], str] | None

    def __call__(self, state: State) -> Explanation:
        """Make the explanation."""
        nb, a, s = self.recipe.neighbourhood, state.asked, self.recipe.settings
        d = len(nb.names)
        k = 1 if a.full is None else len(a.full)
        f = state.fitted or nothing_known(d, k)
        straight = (STRAIGHT,) if not f.exact and fits_exactly(f.belief) else ()
        labels, light = self.labels, not nb.by_masks  # a picture should not be kept for its labels
        return Explanation(
            method=self.method,
            names=tuple(nb.names),
            values=later(lambda: tuple(nb.values)) if light else tuple(nb.values),
            labels=later(lambda: labels(nb)) if light else labels(nb),
            units=self.units,
            outputs=self.box.output_names(k),
            squeeze=k == 1,
            belief=f.belief,
            base=f.intercept if a.base is None else a.base,
            full=np.full(k, np.nan) if a.full is None else a.full,
            intercepts=f.intercept,
            local=later(lambda: f.local_prediction),
            error_posterior=later(lambda: f.error),
            r2s=later(lambda: f.r2),
            selected=f.selected,
            level=state.level,
            n_queries=state.n_queries,
            n_model_rows=state.n_model_rows,
            seconds=state.seconds,
            model_seconds=a.model_seconds,
            stop_reason=state.stop_reason or "running",
            converged=state.converged,
            exact=f.exact,
            posterior=f.posterior,
            sampler=s.sampler_name,
            recipe=s.recipe,
            notes=self.notes + f.notes + straight,
            label=nb.label,
            payload=later(nb.payload) if light else nb.payload(),
            settings=later(self.settings),
            asked=a,
            data=None if self.data is None else later(self.data),
        )


def fits_exactly(belief: Belief) -> bool:
    """Whether nothing is left over but rounding, although not all importances are zero."""
    mean, deviation = belief.mean.reshape(-1), belief.deviation
    if deviation.size and deviation.item(0) ** 2 > 1e-12 * (mean @ mean):  # mostly told at once
        return False
    largest = float(np.abs(mean).max(initial=0.0))
    return bool(deviation.max(initial=0.0) <= 1e-6 * largest) and largest > 0


def nothing_known(d: int, k: int) -> Estimate:
    """What is known before the first fit: nothing."""
    unknown = np.full(k, np.nan)
    scale = np.zeros((d, d, k))
    scale[np.arange(d), np.arange(d)] = np.inf
    return Estimate(
        Belief(np.full((d, k), np.nan), scale, 1.0),
        ErrorPosterior(1.0, np.full(k, np.inf)),
        unknown,
        exact=False,
        posterior="none yet",
        intercept=unknown,
        local_prediction=unknown,
        selected=np.ones((d, k), dtype=np.bool_),
    )
