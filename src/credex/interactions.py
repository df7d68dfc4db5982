"""`Interactions`: how pairs of features work together, with credible intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.errors import check_level
from credex.explanation_base import ExplanationBase
from credex.formatting import columns, decimals, number, percent, shorten
from credex.posteriors import Interval
from credex.posteriors.student import cdf, quantile
from credex.typing import Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Interactions"]

SHOWN = 10
"""Pairs that are printed."""


@dataclass(frozen=True, slots=True, eq=False)
class Interactions:
    """Shapley interactions of all pairs of features, and what is left to each feature alone.

    ``values[i, j]`` with i ≠ j is half of the interaction index of the pair, and ``values[i, i]``
    the main effect, as in shap's ``shap_interaction_values``: the sum of row i is the feature's
    importance, and the sum of all is f(x) − base. With k outputs there is a last axis.

    Attributes
    ----------
    explanation
        Whose queries they were estimated from.
    mean, scale
        ``(d, d, k)`` centres and scales of the Student-t posteriors of ``values``.
    dof
        Their degrees of freedom; infinite if they are exact.
    """

    explanation: ExplanationBase
    mean: Floats
    scale: Floats
    dof: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the d features."""
        return self.explanation.names

    @property
    def exact(self) -> bool:
        """Whether every coalition was asked."""
        return not self.scale.any()

    @property
    def values(self) -> Floats:
        """The matrix of interactions and main effects, ``(d, d)``, or ``(d, d, k)``."""
        return self._shaped(self.mean)

    def interval(self, level: float | None = None) -> Interval:
        """Credible intervals of ``values``, by default at the level of the explanation."""
        level = self.explanation.level if level is None else check_level(level)
        half = quantile(level, self.dof) * self.scale
        return Interval(self._shaped(self.mean - half), self._shaped(self.mean + half), level)

    def _shaped(self, a: Floats) -> Floats:
        return a[:, :, 0] if a.shape[2] == 1 else a

    def to_frame(self, *, level: float | None = None) -> pd.DataFrame:
        """Return a row for each pair (and output), the largest first.

        ``estimate`` is the interaction index itself, twice the entry of ``values``.
        """
        import pandas as pd

        level = self.explanation.level if level is None else check_level(level)
        i, j = np.triu_indices(len(self.names), 1)
        frames = []
        for o, output in enumerate(self.explanation.outputs):
            mean, scale = 2 * self.mean[i, j, o], 2 * self.scale[i, j, o]
            half = quantile(level, self.dof) * scale
            with np.errstate(divide="ignore", invalid="ignore"):
                positive = np.where(scale > 0, cdf(mean / scale, self.dof), 0.5 + np.sign(mean) / 2)
            order = np.argsort(-np.abs(mean), kind="stable")
            data = {
                "output": [output] * len(order),
                "feature": [self.names[a] for a in i[order]],
                "other": [self.names[b] for b in j[order]],
                "estimate": mean[order],
                "lower": (mean - half)[order],
                "upper": (mean + half)[order],
                "prob_positive": positive[order],
            }
            frames.append(pd.DataFrame(data))
        out = pd.concat(frames, ignore_index=True)
        return out if len(frames) > 1 else out.drop(columns="output")

    def __str__(self) -> str:
        frame, lines = self.to_frame(), []
        kind = "exact" if self.exact else f"{percent(self.explanation.level)} intervals"
        count = self.explanation.n_queries
        lines.append(f"interactions of {len(self.names)} features ({kind}, {count:,} queries)")
        for output in self.explanation.outputs:
            part = frame[frame["output"] == output] if "output" in frame else frame
            if "output" in frame:
                lines.append(f"output {output}")
            shown = part.head(SHOWN)
            if len(shown) == 0:
                continue
            peak = float(shown["estimate"].abs().max())
            half = float((shown["upper"] - shown["lower"]).max()) / 2
            places = decimals(half if half > 0 else peak / 100, peak) if peak > 0 else 0
            names = [
                shorten(f"{a} × {b}", 40)
                for a, b in zip(shown["feature"], shown["other"], strict=True)
            ]
            wide = max(map(columns, names))
            for name, (_, row) in zip(names, shown.iterrows(), strict=True):
                numbers: list[Any] = [number(row["estimate"], places)]
                if not self.exact:
                    ends = (number(row[end], places) for end in ("lower", "upper"))
                    numbers.append("[{}, {}]".format(*ends))
                blank = " " * (wide - columns(name))
                lines.append(f"  {name}{blank}  {'  '.join(f'{n:>10}' for n in numbers)}")
            if len(part) > SHOWN:
                lines.append(f"  and {len(part) - SHOWN} more pairs")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Interactions of {len(self.names)} features>"
