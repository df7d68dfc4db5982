"""The result: importances, how far they can be trusted, and what they rest on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex import json as json_format
from credex.checks import check_count, check_level
from credex.errors import InputError
from credex.history import History
from credex.later import Lazily
from credex.posteriors import Belief, ErrorPosterior, Interval
from credex.typing import Floats, Masks

if TYPE_CHECKING:
    import pandas as pd

    from credex.plots import Plots


@dataclass(frozen=True, slots=True, eq=False)
class Explanation(Lazily):
    """Why a model said what it said about one instance, with credible intervals.

    With one output (``target=`` given, or a model with one) arrays are ``(d,)``; with k outputs
    they gain a last axis: ``(d, k)``.

    Attributes
    ----------
    method
        ``"BayesSHAP"`` or ``"BayesLIME"``.
    names, values, labels, units
        Of the d features: name, the instance's value, a readable condition, and what one unit of
        the importance means.
    outputs
        Names of the outputs.
    level
        Default level of the intervals.
    n_queries, n_model_rows
        Queries asked, and rows the model was given for them.
    seconds, model_seconds
        Time in all, and the model's share of it.
    stop_reason, converged, exact
        What ended the run; whether a requested precision was met (or the answer is exact).
    posterior, sampler, recipe
        How it was made.
    notes
        What else a reader should know: how the background was summarised, what was clipped.
    asked
        Everything that was asked and answered; ``refine`` goes on from it.
    data
        Name of the training data it was made of, if that is a table: the same for the same values.
    """

    lazy = ("values", "labels", "local", "error_posterior", "r2s", "payload", "settings", "data")

    method: str
    names: tuple[str, ...]
    values: tuple[Any, ...]
    labels: tuple[str, ...]
    units: tuple[str, ...]
    outputs: tuple[str, ...]
    squeeze: bool
    belief: Belief
    base: Floats
    full: Floats
    intercepts: Floats
    local: Floats
    error_posterior: ErrorPosterior
    r2s: Floats
    selected: Masks
    level: float
    n_queries: int
    n_model_rows: int
    seconds: float
    model_seconds: float
    stop_reason: str
    converged: bool
    exact: bool
    posterior: str
    sampler: str
    recipe: str
    notes: tuple[str, ...]
    label: Any
    payload: Any
    settings: dict[str, Any]
    asked: History = field(repr=False)
    data: str | None = None

    # -- numbers -------------------------------------------------------------------------------

    @property
    def mean(self) -> Floats:
        """Importances φ, ``(d,)`` or ``(d, k)``."""
        return self._out(self.belief.mean)

    @property
    def sd(self) -> Floats:
        """Scale of each importance: half a 68 % interval when there is plenty of data."""
        return self._out(self.belief.deviation)

    @property
    def covariance(self) -> Floats:
        """Scale matrix of the importances, ``(d, d)`` or ``(d, d, k)``."""
        return self._out(self.belief.scale)

    @property
    def dof(self) -> float:
        """Degrees of freedom of the Student-t behind the intervals."""
        return self.belief.dof

    def interval(self, level: float | None = None, *, simultaneous: bool = False) -> Interval:
        """Credible intervals; ``simultaneous``: wide enough to hold for all features at once."""
        i = self.belief.interval(self.level if level is None else level, simultaneous=simultaneous)
        return Interval(i.lower[:, 0], i.upper[:, 0], i.level) if self.squeeze else i

    @property
    def base_value(self) -> Floats | float:
        """BayesSHAP: the mean prediction over the background. BayesLIME: the intercept."""
        return self._number(self.base)

    @property
    def prediction(self) -> Floats | float:
        """f(x), after the link."""
        return self._number(self.full)

    @property
    def intercept(self) -> Floats | float:
        """Intercept of the linear explanation."""
        return self._number(self.intercepts)

    @property
    def local_prediction(self) -> Floats | float:
        """What the linear explanation predicts at the instance."""
        return self._number(self.local)

    @property
    def r2(self) -> Floats | float:
        """Weighted R² of the linear explanation (lime's ``score``)."""
        return self._number(self.r2s)

    @property
    def error(self) -> ErrorPosterior:
        """Error uncertainty: the posterior of ε, with ``density_at_zero`` and ``scale``."""
        e = self.error_posterior
        return ErrorPosterior(e.dof, self._number(np.atleast_1d(np.asarray(e.scale))))

    @property
    def prob_positive(self) -> Floats:
        """P(φ > 0) of each feature."""
        return self._out(self.belief.prob_positive())

    def prob_greater(
        self, first: str | int, second: str | int, *, signed: bool = False, output: Any = None
    ) -> float:
        """P(|φ_first| > |φ_second|); ``signed``: of φ itself."""
        i, j = self._feature(first), self._feature(second)
        return self.belief.prob_greater(i, j, self._output(output), signed=signed)

    def rank_probabilities(self, *, signed: bool = False, output: Any = None) -> Floats:
        """``(d, d)``: entry (i, r) is the probability that feature i has rank r + 1."""
        return self.belief.rank_probabilities(self._output(output), signed=signed)

    def top(self, n: int = 5, *, signed: bool = False, output: Any = None) -> list[str]:
        """Names of the ``n`` features with the largest |φ| (``signed``: the largest φ)."""
        check_count("top(n)", n)
        m = self.belief.mean[:, self._output(output)]
        order = np.argsort(-(m if signed else np.abs(m)), kind="stable")
        return [self.names[i] for i in order[:n]]

    def sample(self, n: int, seed: int = 0) -> Floats:
        """Draw ``(n, d)`` or ``(n, d, k)`` importances from the posterior."""
        return self._out(self.belief.sample(check_count("sample(n)", n), seed))

    # -- forms ---------------------------------------------------------------------------------

    def to_frame(self, *, level: float | None = None) -> pd.DataFrame:
        """One row a feature (and output): estimate, interval, P(φ > 0), range of ranks."""
        import pandas as pd

        i = self.belief.interval(self.level if level is None else level)
        positive = self.belief.prob_positive()
        frames = []
        for j, output in enumerate(self.outputs):
            low, high = self.rank_range(output=j, level=i.level)
            frame = pd.DataFrame(
                {
                    "feature": list(self.names),
                    "value": pd.Series(list(self.values), dtype=object),
                    "estimate": self.belief.mean[:, j],
                    "lower": i.lower[:, j],
                    "upper": i.upper[:, j],
                    "prob_positive": positive[:, j],
                    "rank_low": low,
                    "rank_high": high,
                }
            )
            if len(self.outputs) > 1:
                frame.insert(0, "output", output)
            frames.append(frame[self.selected[:, j]])
        return pd.concat(frames, ignore_index=True)

    def rank_range(self, *, output: Any = None, level: float | None = None) -> tuple[Any, Any]:
        """Lowest and highest rank (1 is the largest |φ|) of each feature at ``level``."""
        ranks = self.belief.rank_probabilities(self._output(output), signed=False, draws=4_000)
        p = np.cumsum(ranks, axis=1)
        tail = (1 - check_level(self.level if level is None else level)) / 2
        if np.isnan(p).any():  # nothing is known: any rank
            return np.ones(len(p), dtype=np.int64), np.full(len(p), len(p))
        low = np.argmax(p > tail, axis=1) + 1
        high = np.argmax(p >= 1 - tail - 1e-12, axis=1) + 1
        return low, high

    def as_list(self, *, output: Any = None) -> list[tuple[str, float]]:
        """Return ``(condition, importance)`` pairs, largest first, as ``lime`` gives them."""
        j = self._output(output)
        m = self.belief.mean[:, j]
        order = [i for i in np.argsort(-np.abs(m), kind="stable") if self.selected[i, j]]
        return [(self.labels[i], float(m[i])) for i in order]

    def to_json(self, path: str | Path | None = None) -> str:
        """Write (and return) JSON that `from_json` reads back; never a pickle."""
        text = json_format.dumps(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, source: str | Path) -> Explanation:
        """Read what `to_json` wrote: a path, or the text itself."""
        if not isinstance(source, str | Path):
            raise InputError(f"from_json takes a path or the text itself; got {source!r}")
        if isinstance(source, str) and source.lstrip().startswith("{"):
            return json_format.loads(source)
        return json_format.loads(Path(source).read_text(encoding="utf-8"))

    @property
    def plot(self) -> Plots:
        """Plots: ``e.plot.intervals()``."""
        from credex.plots import Plots

        return Plots(self)

    def __str__(self) -> str:
        return formatting.text(self)

    def __repr__(self) -> str:
        return f"<{self.method} of {len(self.names)} features, {self.n_queries} queries>"

    def _repr_html_(self) -> str:
        return formatting.html(self)

    # -- helpers -------------------------------------------------------------------------------

    def _out(self, a: Floats) -> Floats:
        return np.asarray(a[..., 0] if self.squeeze else a)

    def _number(self, a: Floats) -> Floats | float:
        return float(a[0]) if self.squeeze else np.asarray(a)

    def _feature(self, which: str | int) -> int:
        if isinstance(which, str):
            if which not in self.names:
                msg = f"there is no feature {which!r}; there are: {', '.join(self.names)}"
                raise InputError(msg)
            return self.names.index(which)
        if not 0 <= int(which) < len(self.names):
            raise InputError(f"there is no feature {which!r}; there are {len(self.names)}")
        return int(which)

    def _output(self, which: Any) -> int:
        if which is None:
            if len(self.outputs) > 1:
                msg = f"say which output: output= one of {', '.join(self.outputs)}"
                raise InputError(msg)
            return 0
        if isinstance(which, str) and which in self.outputs:
            return self.outputs.index(which)
        if isinstance(which, int | np.integer) and 0 <= which < len(self.outputs):
            return int(which)
        if str(which) in self.outputs:
            return self.outputs.index(str(which))
        msg = f"there is no output {which!r}; there are: {', '.join(self.outputs)}"
        raise InputError(msg)
