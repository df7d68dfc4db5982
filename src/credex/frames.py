"""Explanations as a pandas frame: a row for each feature and output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.cells import as_float, clean, display, plain
from credex.explanation_base import ExplanationBase
from credex.seeds import one_blas_thread
from credex.typing import Floats, Ints

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
        labels = zip(one_type(rows), explanations, strict=True)
        data["row"] = _repeated([label for label, e in labels for _ in e.outputs], counts)
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
    for name in ("base_value", "prediction"):
        data[name] = _repeated([v for e in explained for v in _each(getattr(e, name))], counts)
    for name in ("n_queries", "converged", "stop_reason"):
        data[name] = _repeated([getattr(e, name) for e in explained for _ in e.outputs], counts)
    lines = _repeated([i for i, e in good for _ in e.outputs], counts)
    data["error"] = [None] * len(lines)
    failed: dict[str, list[Any]] = dict.fromkeys(TIDY, [None] * len(bad))
    failed["error"] = [f"{type(e).__name__}: {clean(str(e))}" for _, e in bad]
    at = np.array([*lines, *(i for i, _ in bad)], dtype=np.int64)
    order = np.argsort(at, kind="stable")
    parts = [
        pd.DataFrame({n: pd.Series(values.get(n, []), dtype=t) for n, t in TIDY.items()})
        for values in (data, failed)
    ]
    table = pd.concat(parts).take(order).reset_index(drop=True)
    return table, at[order]


def _measured(
    explanations: Sequence[ExplanationBase], level: float | None
) -> tuple[dict[str, Any], list[int]]:
    """Return the columns `WORDS` and `NUMBERS`, and how many lines each output has."""
    words: dict[str, list[Any]] = {name: [] for name in WORDS}
    numbers: dict[str, list[Any]] = {name: [] for name in NUMBERS}
    counts = []
    with one_blas_thread():
        for e in explanations:
            interval = e.belief.interval(e.level if level is None else level)
            positive = e.belief.prob_positive()
            value = np.array([as_float(v) for v in e.feature_values])
            text = [display(v) for v in e.feature_values]
            for j, output in enumerate(e.outputs):
                kept = np.flatnonzero(e.selected[:, j])
                low, high = e.rank_range(output=j, level=interval.level)
                counts.append(len(kept))
                words["output"] += [output] * len(kept)
                words["feature"] += [e.names[i] for i in kept.tolist()]
                words["value_text"] += [text[i] for i in kept.tolist()]
                ends = interval.lower[:, j], interval.upper[:, j]
                columns = (value, e.belief.mean[:, j], *ends, positive[:, j], low, high)
                for name, column in zip(NUMBERS, columns, strict=True):
                    numbers[name].append(column[kept])
    measured = {name: np.concatenate(parts) for name, parts in numbers.items() if parts}
    return words | measured, counts


def _repeated(values: list[Any], counts: list[int]) -> list[Any]:
    """Return each value as often as its count says."""
    return [each for value, n in zip(values, counts, strict=True) for each in [value] * n]


def _each(number: Floats | float) -> list[float]:
    """Return a number of each output, also if there is only one."""
    return [number] if isinstance(number, float) else number.tolist()


def one_type(labels: list[Any]) -> list[Any]:
    """Return numbers, texts or dates as they are; labels of other or several types as text."""
    labels = [plain(label) for label in labels]
    names = {type(label).__name__ for label in labels}
    simple = len(names) == 1 and names <= {"int", "float", "bool", "str", "Timestamp"}
    return labels if simple else [display(label) for label in labels]
