"""`Explanation`: importances with credible intervals, as text, frame, JSON and plots."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from credex import formatting, frames
from credex import json as json_format
from credex.errors import InputError
from credex.explanation_base import ExplanationBase
from credex.plots import Plots

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False)
class Explanation(ExplanationBase):
    """Importances of the features for one prediction, with credible intervals.

    With one output (``target=`` given, or a model with one) arrays are ``(d,)``; with k outputs
    they gain a last axis: ``(d, k)``.

    Attributes
    ----------
    method
        ``"BayesSHAP"`` or ``"BayesLIME"``.
    instance
        The instance: ``names``, ``feature_values``, ``labels``, …
    outputs
        Names of the outputs.
    estimate
        The fit behind ``mean`` (``values``), ``sd``, ``interval()``, ``intercept``, ``r2``, …
    history
        All queries and the model's outputs; ``refine`` continues from it.
    level
        Default level of the intervals.
    seconds
        Time in all; ``model_seconds`` is the model's share.
    stop_reason, converged
        Why the run stopped; whether the requested precision was met (or the result is exact).
    settings
        Seed, sampler and the other options.
    notes
        Remarks: how the background was summarised, what was clipped.
    """

    def to_frame(self, *, level: float | None = None) -> pd.DataFrame:
        """Return a row for each feature (and output): value, estimate, interval, P(φ > 0), ranks.

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
        """Plots, such as ``e.plot.intervals()``."""
        return Plots(self)

    def __str__(self) -> str:
        return formatting.text(self)

    def __repr__(self) -> str:
        return f"<{self.method} of {len(self.names)} features, {self.n_queries} queries>"

    def _repr_html_(self) -> str:
        return formatting.html(self)
