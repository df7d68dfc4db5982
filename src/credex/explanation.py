"""`Explanation`: importances with credible intervals, as text, frame, JSON and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from credex import formatting, frames, html, interop, markup, report
from credex import json as json_format
from credex.errors import InputError
from credex.explanation_base import ExplanationBase
from credex.plots import Plots
from credex.verdict import judge, printed

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


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

    def to_shap(self) -> Any:
        """Return a ``shap.Explanation``, for shap's plots; it holds the intervals, too."""
        return interop.to_shap([self], single=True)

    def to_arviz(self, *, draws: int = 1000, chains: int = 4, seed: int = 0) -> Any:
        """Return draws from the posterior as ArviZ' ``InferenceData``, variable ``importance``.

        The draws are independent, so that chains only make ArviZ' summaries work as usual.
        """
        return interop.to_arviz(self, draws=draws, chains=chains, seed=seed)

    def as_list(self, label: Any = None, *, output: Any = None) -> list[tuple[str, float]]:
        """Return ``(condition, importance)`` pairs, largest first, as ``lime`` gives them.

        ``label`` (or ``output``) says which output; it is needed only if there are several.
        """
        j = interop.output_of(self, label if output is None else output)
        return [(self.labels[i], value) for i, value in interop.pairs(self, j)]

    def as_map(self) -> dict[int, list[tuple[int, float]]]:
        """Return ``(feature, importance)`` pairs for each output, as ``lime`` gives them."""
        return interop.as_map(self)

    def as_pyplot_figure(self, label: Any = None) -> Figure:
        """Return a figure of ``plot.intervals()``, where ``lime`` draws bars."""
        return interop.as_pyplot_figure(self, interop.output_of(self, label))

    def show_in_notebook(self, labels: Sequence[Any] | None = None) -> None:
        """Show a table with intervals below a notebook's cell, of some ``labels`` or all."""
        interop.show_in_notebook(self, self._outputs(labels))

    def save_to_file(self, file_path: str | Path, labels: Sequence[Any] | None = None) -> None:
        """Write a page of HTML with intervals, of some ``labels`` or all."""
        interop.save_to_file(self, file_path, self._outputs(labels))

    def _outputs(self, labels: Sequence[Any] | None) -> list[int] | None:
        return None if labels is None else [interop.output_of(self, one) for one in labels]

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

    def __getitem__(self, output: str | int) -> Self:
        """Return the explanation of one output, by name or number: ``e["class_1"]``."""
        return replace(self, **self._one_output(output))

    @property
    def plot(self) -> Plots:
        """Plots, such as ``e.plot.intervals()``."""
        return Plots(self)

    def verdict(
        self, *, output: Any = None, level: float | None = None, row_cost: float | None = None
    ) -> str:
        """Say what is certain, what is open, and what it would cost to settle it, in sentences.

        They follow from the posterior and the cost of the run; the model is not asked. With the
        price ``row_cost`` of a model row they name prices, too.
        """
        return str(judge(self, output, level, row_cost))

    def to_html(self, path: str | Path | None = None) -> str:
        """Write (and return) a page that needs no other file, in light and dark."""
        return markup.page(f"{self.method} explanation", html.explanation(self), path)

    def report(
        self, path: str | Path, *, verification: Any = None, title: str | None = None
    ) -> Path:
        """Write an interactive page that needs no other file; return its path.

        The reader moves the level and sees intervals and verdict change, sorts, searches and hides
        features; a section for auditors says how the numbers were made and what the intervals
        include.

        Parameters
        ----------
        path
            Where to write, such as ``"why.html"``.
        verification
            What ``explainer.verify(X)`` returned: the measured coverage goes into the page.
        title
            Title of the page.
        """
        return report.write_explanation(self, path, verification, title)

    def __str__(self) -> str:
        return formatting.text(self, lambda output: printed(self, output))

    def __repr__(self) -> str:
        return f"<{self.method} of {len(self.names)} features, {self.n_queries} queries>"

    def _repr_html_(self) -> str:
        return html.explanation(self)
