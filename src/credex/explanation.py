"""The result: importances, how far they can be trusted, and what they rest on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from credex import formatting, frames
from credex import json as json_format
from credex.errors import InputError
from credex.estimators.base import Estimate
from credex.explanation_base import ExplanationBase, Instance
from credex.plots import Plots
from credex.posteriors import Belief, ErrorPosterior

if TYPE_CHECKING:
    import pandas as pd

PERFECT_FIT = "all that was asked adds up without a remainder; what was not asked need not"
"""Noted if intervals have no width although the importances are not exact."""


@dataclass(frozen=True, slots=True, eq=False)
class Explanation(ExplanationBase):
    """Why a model said what it said about one instance, with credible intervals.

    With one output (``target=`` given, or a model with one) arrays are ``(d,)``; with k outputs
    they gain a last axis: ``(d, k)``.

    Attributes
    ----------
    method
        ``"BayesSHAP"`` or ``"BayesLIME"``.
    instance
        The instance; ``names``, ``feature_values``, ``labels``, ``units``, ``label``, ``payload``
        and ``data_digest`` are read from it.
    outputs
        Names of the outputs.
    estimate
        The fit behind ``mean`` (``values``), ``sd``, ``interval()``, ``intercept``, ``r2``, …
    history
        Everything that was asked and answered; ``refine`` goes on from it.
    level
        Default level of the intervals.
    seconds
        Time in all; ``model_seconds`` is the model's share.
    stop_reason, converged
        What ended the run; whether a requested precision was met (or the answer is exact).
    settings
        Seed, sampler and other options it was made with.
    notes
        What else a reader should know: how the background was summarised, what was clipped.
    """

    def to_frame(self, *, level: float | None = None) -> pd.DataFrame:
        """One row a feature (and output): value, estimate, interval, P(φ > 0), range of ranks.

        ``value`` holds numbers, NaN where the feature's value is none; ``value_text`` holds every
        value as text.
        """
        return frames.to_frame([self], level)

    def as_list(self, *, output: Any = None) -> list[tuple[str, float]]:
        """Return ``(condition, importance)`` pairs, largest first, as ``lime`` gives them."""
        j = self._output(output)
        features, _ = formatting.largest(self, j)
        return [(self.labels[i], float(self.belief.mean[i, j])) for i in features]

    def to_json(self, path: str | Path | None = None) -> str:
        """Write (and return) JSON that `from_json` reads back; never a pickle."""
        text = json_format.dumps(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, source: str | Path) -> Self:
        """Read what `to_json` wrote, also in earlier versions: a path, or the text itself."""
        if not isinstance(source, str | Path):
            raise InputError(f"from_json takes a path or the text itself; got {source!r}")
        if not (isinstance(source, str) and source.lstrip().startswith("{")):
            source = Path(source).read_text(encoding="utf-8")
        return cls(**json_format.loads(source))

    @property
    def plot(self) -> Plots:
        """Plots: ``e.plot.intervals()``."""
        return Plots(self)

    def __str__(self) -> str:
        return formatting.text(self)

    def __repr__(self) -> str:
        return f"<{self.method} of {len(self.names)} features, {self.n_queries} queries>"

    def _repr_html_(self) -> str:
        return formatting.html(self)


def from_run(
    *,
    instance: Instance,
    outputs: tuple[str, ...],
    estimate: Estimate | None,
    stop_reason: str | None,
    notes: tuple[str, ...],
    **fields: Any,
) -> Explanation:
    """Make an explanation of where a run stands.

    Before a fit ``estimate`` is ``None``; while the run goes on ``stop_reason`` is. ``fields`` are
    the other fields of `Explanation`.
    """
    estimate = estimate or _nothing_known(len(instance.names), len(outputs))
    notes += estimate.notes
    if not estimate.exact and _fits_perfectly(estimate.belief):
        notes += (PERFECT_FIT,)
    return Explanation(
        instance=instance,
        outputs=outputs,
        estimate=estimate,
        stop_reason=stop_reason or "running",
        notes=notes,
        **fields,
    )


def _fits_perfectly(belief: Belief) -> bool:
    """Whether nothing is left over but rounding, although not all importances are zero."""
    largest = float(np.abs(belief.mean).max(initial=0.0))
    return largest > 0 and bool(belief.deviation.max(initial=0.0) <= 1e-6 * largest)


def _nothing_known(d: int, k: int) -> Estimate:
    """The estimate before the first fit."""
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
