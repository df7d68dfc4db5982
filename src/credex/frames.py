"""Explanations as a pandas frame: a row for each feature and output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.cells import as_float, clean, display, plain
from credex.explanation_base import ExplanationBase
from credex.seeds import one_blas_thread
from credex.typing import Ints

if TYPE_CHECKING:
    import pandas as pd

WORDS = ("output", "feature", "value_text")
NUMBERS = ("value", "estimate", "lower", "upper", "prob_positive", "rank_low", "rank_high")

TIDY = {
    "output": "string",
    "feature": "string",
    "value": "float64",
    "value_text": "string",
    "estimate": "float64",
    "lower": "float64",
    "upper": "float64",
    "prob_positive": "float64",
    "rank_low": "Int64",
    "rank_high": "Int64",
    "base_value": "float64",
    "prediction": "float64",
    "n_queries": "Int64",
    "converged": "boolean",
    "stop_reason": "string",
    "error": "string",
}
"""Columns of a tidy frame and their dtypes, after the row's id; all of them can be missing."""


def to_frame(
    explanations: Sequence[ExplanationBase], level: float | None, rows: list[Any] | None = None
) -> pd.DataFrame:
    """Put explanations below each other; ``rows`` are their labels, for column ``row``.

    Every column holds values of one type, so that the frame can be written to Parquet or turned
    into a polars frame.
    """
    import pandas as pd

    data, counts = _measured(explanations, level)
    order = ["feature", "value", "value_text", *NUMBERS[1:]]
    order = ["output", *order] if any(len(e.outputs) > 1 for e in explanations) else order
    if rows is not None:
        labels = zip(one_type(rows), counts, strict=True)
        data["row"] = [label for label, n in labels for _ in range(n)]
        order = ["row", *order]
    return pd.DataFrame({name: data.get(name, []) for name in order})


def tidy(found: Sequence[ExplanationBase | Exception]) -> tuple[pd.DataFrame, Ints]:
    """Return the columns `TIDY` of rows that were explained or failed, and the row of each line.

    A row that failed has one line, with ``error`` and nothing else.
    """
    import pandas as pd

    good = [(i, e) for i, e in enumerate(found) if isinstance(e, ExplanationBase)]
    bad = [(i, e) for i, e in enumerate(found) if isinstance(e, Exception)]
    explained = [e for _, e in good]
    data, counts = _measured(explained, None)
    ends: list[tuple[Any, Any]] = [
        (b, p)
        for e in explained
        for b, p, n in zip(
            np.atleast_1d(e.base_value), np.atleast_1d(e.prediction), e.selected.sum(0), strict=True
        )
        for _ in range(n)
    ]
    data["base_value"], data["prediction"] = zip(*ends, strict=True) if ends else ((), ())
    each = [e for e, n in zip(explained, counts, strict=True) for _ in range(n)]
    for name in ("n_queries", "converged", "stop_reason"):
        data[name] = [getattr(e, name) for e in each]
    lines = np.repeat(np.array([i for i, _ in good], dtype=np.int64), counts)
    at = np.append(lines, np.array([i for i, _ in bad], dtype=np.int64))
    order = np.argsort(at, kind="stable")
    data["error"] = [None] * len(lines)
    failed: dict[str, list[Any]] = dict.fromkeys(TIDY, [None] * len(bad))
    failed["error"] = [f"{type(e).__name__}: {clean(str(e))}" for _, e in bad]
    columns = {}
    for name, dtype in TIDY.items():
        column = pd.Series([*data.get(name, ()), *failed[name]], dtype=dtype)
        columns[name] = column.take(order).reset_index(drop=True)
    return pd.DataFrame(columns), at[order]


def _measured(
    explanations: Sequence[ExplanationBase], level: float | None
) -> tuple[dict[str, Any], list[int]]:
    """Return the columns `WORDS` and `NUMBERS`, and how many lines each explanation has."""
    words: dict[str, list[Any]] = {name: [] for name in WORDS}
    numbers: dict[str, list[Any]] = {name: [] for name in NUMBERS}
    counts = []
    with one_blas_thread():
        for e in explanations:
            interval = e.belief.interval(e.level if level is None else level)
            positive = e.belief.prob_positive()
            value = np.array([as_float(v) for v in e.feature_values])
            text = [display(v) for v in e.feature_values]
            counts.append(int(e.selected.sum()))
            for j, output in enumerate(e.outputs):
                kept = np.flatnonzero(e.selected[:, j])
                low, high = e.rank_range(output=j, level=interval.level)
                words["output"] += [output] * len(kept)
                words["feature"] += [e.names[i] for i in kept]
                words["value_text"] += [text[i] for i in kept]
                ends = interval.lower[:, j], interval.upper[:, j]
                columns = (value, e.belief.mean[:, j], *ends, positive[:, j], low, high)
                for name, column in zip(NUMBERS, columns, strict=True):
                    numbers[name].append(column[kept])
    measured = {name: np.concatenate(parts) for name, parts in numbers.items() if parts}
    return words | measured, counts


def one_type(labels: list[Any]) -> list[Any]:
    """Return numbers, texts or dates as they are; labels of other or several types as text."""
    labels = [plain(label) for label in labels]
    names = {type(label).__name__ for label in labels}
    simple = len(names) == 1 and names <= {"int", "float", "bool", "str", "Timestamp"}
    return labels if simple else [display(label) for label in labels]
