"""Estimates of many rows as arrays, from explanations, batches on disk and tidy frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.cells import clean, is_missing, plain
from credex.errors import InputError, check_count, check_level
from credex.explanation_base import ExplanationBase
from credex.posteriors.student import quantile
from credex.typing import Floats, Masks

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Rows", "Source", "grouped", "labels_of", "largest", "read", "stacked"]

COLUMNS = ("row", "feature", "estimate", "lower", "upper")
"""Columns of a tidy frame that averages need."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Estimates of one output: ``mean``, ``sd (n, d)`` (NaN if unknown), and their intervals."""

    names: tuple[str, ...]
    output: str
    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats

    def only(self, rows: Masks) -> Rows:
        """Return the rows of one cohort."""
        cut = (a[rows] for a in (self.mean, self.sd, self.lower, self.upper))
        return Rows(self.names, self.output, *cut)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Rows of each output, the cohort of each row, the level, and whether rows differ in seeds."""

    rows: list[Rows]
    cohorts: list[Any] | None
    level: float
    own_seeds: bool = False


def stacked(
    explanations: Sequence[ExplanationBase], output: object = None
) -> tuple[tuple[str, ...], Floats, Floats, int]:
    """Return names, means and scales ``(n, d)`` of one output, and its index.

    Rows of which nothing is known are NaN.
    """
    if not explanations:
        raise InputError("there is no explanation in this batch")
    first = explanations[0]
    for e in explanations:
        if e.names != first.names:
            raise InputError(
                "the rows have different features, which cannot be averaged; "
                "plot them one by one, or use to_frame()"
            )
    j = first._output(output)  # noqa: SLF001 - outputs are named as in the explanation's methods
    mean = np.stack([e.belief.mean[:, j] for e in explanations])
    scale = np.stack([e.belief.deviation[:, j] for e in explanations])
    return tuple(map(clean, first.names)), mean, scale, j


def largest(
    explanations: Sequence[ExplanationBase], output: object, most: int, level: float | None
) -> tuple[tuple[str, ...], Floats, Masks, list[int], float]:
    """Return names, means ``(n, d)``, where intervals hold 0, the largest features, the level."""
    names, mean, _, j = stacked(explanations, output)
    level = explanations[0].level if level is None else level
    found = [e.belief.interval(level) for e in explanations]
    unclear = np.stack(
        [(i.lower[:, j] <= 0) & (i.upper[:, j] >= 0) & (i.width[:, j] > 0) for i in found]
    )
    order = np.argsort(-np.nanmean(np.abs(mean), axis=0), kind="stable")
    return names, mean, unclear, order[: check_count("most", most)].tolist(), level


def read(source: Any, output: Any, level: float | None, by: Any) -> Source:
    """Read whatever `credex.aggregate` takes."""
    if isinstance(source, str):
        raise InputError(f"aggregate takes a batch or a frame; got the text {source!r}")
    if hasattr(source, "manifest") and hasattr(source, "to_frame"):  # a SavedBatch
        level = _stored_level(source.manifest) if level is None else level
        source = source.to_frame()
    if hasattr(source, "columns"):
        return _of_frame(source, output, check_level(0.95 if level is None else level), by)
    if not isinstance(source, Sequence) and not hasattr(source, "items"):
        msg = "aggregate takes Explanations, a SavedBatch, a list of explanations or a tidy frame; "
        raise InputError(msg + f"got {type(source).__name__}")
    return _of_batch(list(getattr(source, "items", source)), output, level, by)


def _stored_level(manifest: dict[str, Any]) -> float | None:
    """Level that a batch on disk was made with, if its manifest says so."""
    options = manifest.get("of", {}).get("options")
    return options.get("level") if isinstance(options, dict) else None


def _of_batch(items: list[Any], output: Any, level: float | None, by: Any) -> Source:
    found = [(i, e) for i, e in enumerate(items) if isinstance(e, ExplanationBase)]
    if not found:
        raise InputError("there is no explanation in this batch")
    explained = [e for _, e in found]
    level = check_level(explained[0].level if level is None else level)
    outputs = [output] if output is not None else list(range(len(explained[0].outputs)))
    rows = [_of_explanations(explained, j, level) for j in outputs]
    seeds = {e.settings.get("seed") for e in explained}
    cohorts = None
    if isinstance(by, str):
        if by not in explained[0].names:
            known = ", ".join(map(str, explained[0].names[:20]))
            msg = f"by={by!r} is no feature ({known}); pass a feature or one label for each row"
            raise InputError(msg)
        at = explained[0].names.index(by)
        cohorts = [plain(e.feature_values[at]) for e in explained]
    elif by is not None:
        labels = labels_of(by, len(items))
        cohorts = [labels[i] for i, _ in found]
    return Source(rows, cohorts, level, own_seeds=1 < len(explained) == len(seeds))


def _of_explanations(explained: Sequence[ExplanationBase], output: Any, level: float) -> Rows:
    names, mean, scale, j = stacked(explained, output)
    found = [e.belief.interval(level) for e in explained]
    lower, upper = (np.stack([getattr(i, end)[:, j] for i in found]) for end in ("lower", "upper"))
    # as wide as the Student-t at this level
    wider = np.array([quantile(level, e.dof) for e in explained]) / quantile(level, np.inf)
    sd = np.where(np.isfinite(mean) & np.isfinite(scale), scale * wider[:, None], np.nan)
    return Rows(names, str(explained[0].outputs[j]), mean, sd, lower, upper)


# -- tidy frames ---------------------------------------------------------------------------------


def _of_frame(frame: Any, output: Any, level: float, by: Any) -> Source:
    table: pd.DataFrame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    _check_columns(table, by)
    ids = table["row"].drop_duplicates()
    labels = None
    if by is not None and not isinstance(by, str):
        labels = dict(zip(ids, labels_of(by, len(ids)), strict=True))
    if "error" in table.columns:
        table = table[table["error"].isna()]
    if table.empty:
        raise InputError("there is no explanation in this frame: it is empty, or every row failed")
    if "output" not in table.columns:
        table = table.assign(output="0")
    order = table["row"].drop_duplicates().tolist()
    rows = [_of_output(table, name, order, level) for name in _outputs(table, output)]
    if by is None:
        return Source(rows, None, level)
    if labels is not None:
        return Source(rows, [labels[row] for row in order], level)
    if by in table.columns:
        of = table.drop_duplicates("row").set_index("row")[by]
    else:
        of = table[table["feature"] == by].drop_duplicates("row").set_index("row")["value_text"]
    return Source(rows, [plain(of[row]) for row in order], level)


def _check_columns(table: pd.DataFrame, by: Any) -> None:
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        known = ", ".join(map(str, table.columns))
        msg = f"the frame has no column {missing[0]!r} (there are {known}); pass one that "
        raise InputError(msg + "explainer.frames(…) or batch.to_frame() made")
    if isinstance(by, str) and by not in table.columns and not (table["feature"] == by).any():
        known = ", ".join(c for c in map(str, table.columns) if c not in COLUMNS)
        raise InputError(f"by={by!r} is no column of the frame and no feature; columns are {known}")


def _outputs(table: pd.DataFrame, output: Any) -> list[str]:
    found = [str(o) for o in table["output"].drop_duplicates()]
    if output is None:
        return found
    index = isinstance(output, int | np.integer) and not isinstance(output, bool)
    chosen = found[output] if index and 0 <= output < len(found) else str(output)
    if chosen not in found:
        raise InputError(f"there is no output {output!r}; there are: {', '.join(found)}")
    return [chosen]


def _of_output(table: pd.DataFrame, name: str, order: list[Any], level: float) -> Rows:
    part = table[table["output"].astype(str) == name]
    if part.duplicated(["row", "feature"]).any():
        raise InputError("a row has a feature twice: ids repeat. Give rows different ids")
    features = list(dict.fromkeys(part["feature"]))
    at = {row: i for i, row in enumerate(order)}, {f: j for j, f in enumerate(features)}
    i, j = (part[c].map(known).to_numpy() for c, known in zip(("row", "feature"), at, strict=True))
    if len(part) < len(order) * len(features):
        msg = "the rows have different features, which cannot be averaged; average rows of one "
        raise InputError(msg + "kind at a time, explained without features=")
    mean, lower, upper = np.full((3, len(order), len(features)), np.nan)
    for array, column in ((mean, "estimate"), (lower, "lower"), (upper, "upper")):
        array[i, j] = part[column].to_numpy(dtype=np.float64)
    sd = (upper - lower) / 2 / quantile(level, np.inf)
    return Rows(tuple(clean(f) for f in features), name, mean, sd, lower, upper)


# -- cohorts -------------------------------------------------------------------------------------


def labels_of(by: Any, n: int) -> list[Any]:
    """Return one label for each of n rows."""
    values = by.to_list() if hasattr(by, "to_list") else list(by)
    if len(values) != n:
        raise InputError(f"by has {len(values)} labels for {n} rows")
    return [plain(v) for v in values]


def grouped(cohorts: list[Any]) -> list[tuple[Any, Masks]]:
    """Return each cohort and which rows it has."""
    bad = sum(map(is_missing, cohorts))
    if bad:
        msg = f"{bad} rows have no cohort (by= is missing there); fill it in, or drop the rows"
        raise InputError(msg)
    kinds = dict.fromkeys(cohorts)
    try:
        labels = sorted(kinds)
    except TypeError:
        labels = list(kinds)
    return [(c, np.array([v == c for v in cohorts], dtype=np.bool_)) for c in labels]
