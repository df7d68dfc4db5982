"""Explanations as a pandas frame: a row for each feature and output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.cells import as_float, display, plain
from credex.explanation_base import ExplanationBase
from credex.seeds import one_blas_thread

if TYPE_CHECKING:
    import pandas as pd

WORDS = ("row", "output", "feature", "value_text")
NUMBERS = ("value", "estimate", "lower", "upper", "prob_positive", "rank_low", "rank_high")


def to_frame(
    explanations: Sequence[ExplanationBase], level: float | None, rows: list[Any] | None = None
) -> pd.DataFrame:
    """Put explanations below each other; ``rows`` are their labels, for column ``row``.

    Every column holds values of one type, so that the frame can be written to Parquet or turned
    into a polars frame.
    """
    import pandas as pd

    words: dict[str, list[Any]] = {name: [] for name in WORDS}
    numbers: dict[str, list[Any]] = {name: [] for name in NUMBERS}
    labels = [None] * len(explanations) if rows is None else _one_type(rows)
    with one_blas_thread():
        for label, e in zip(labels, explanations, strict=True):
            interval = e.belief.interval(e.level if level is None else level)
            positive = e.belief.prob_positive()
            value = np.array([as_float(v) for v in e.feature_values])
            text = [display(v) for v in e.feature_values]
            for j, output in enumerate(e.outputs):
                kept = np.flatnonzero(e.selected[:, j])
                low, high = e.rank_range(output=j, level=interval.level)
                words["row"] += [label] * len(kept)
                words["output"] += [output] * len(kept)
                words["feature"] += [e.names[i] for i in kept]
                words["value_text"] += [text[i] for i in kept]
                ends = interval.lower[:, j], interval.upper[:, j]
                columns = (value, e.belief.mean[:, j], *ends, positive[:, j], low, high)
                for name, column in zip(NUMBERS, columns, strict=True):
                    numbers[name].append(column[kept])
    data = words | {name: np.concatenate(parts) for name, parts in numbers.items() if parts}
    order = ["feature", "value", "value_text", *NUMBERS[1:]]
    order = ["output", *order] if any(len(e.outputs) > 1 for e in explanations) else order
    order = ["row", *order] if rows is not None else order
    return pd.DataFrame({name: data.get(name, []) for name in order})


def _one_type(labels: list[Any]) -> list[Any]:
    """Return numbers, texts or dates as they are; labels of other or several types as text."""
    labels = [plain(label) for label in labels]
    names = {type(label).__name__ for label in labels}
    simple = len(names) == 1 and names <= {"int", "float", "bool", "str", "Timestamp"}
    return labels if simple else [display(label) for label in labels]
