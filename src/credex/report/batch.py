"""A batch as plain values for the page: means over its rows, and the rows themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from credex import formatting
from credex.aggregate import Aggregate, aggregate
from credex.errors import InputError
from credex.explanation_base import ExplanationBase
from credex.report import pictures
from credex.report.assets import json_for_script
from credex.report.data import MAX_NAME, explanation_data, levels_of, number, row_name, sentences
from credex.verdict import judge_batch

MAX_ROWS, MAX_BYTES = 500, 850_000
"""Most rows in a page, and most bytes for them: a page is at most 1 MB, without pictures."""

MAX_VERDICTS = 200
"""Most sentences worked out for single rows at all levels (30 ms each); above, at one level."""

MAX_PICTURES = 24
"""Most rows with pictures: each takes about a second and 100 kB."""

MAX_MEANS = 6_000
"""Most features in all rows and outputs whose means are worked out at all levels (about 1 ms)."""

HIGHEST = 0.99
"""Highest level of means over rows: they come from a few thousand draws."""

MAX_FEATURES = 40
"""Features in the table of means."""


class Batch(NamedTuple):
    """A batch: explained rows (position, label, explanation), what was lost, counts in words."""

    rows: Sequence[tuple[int, Any, ExplanationBase]]
    lost: Sequence[str]
    counts: Sequence[tuple[str, str]]


def batch_data(batch: Batch, chosen: Sequence[int] | None = None) -> dict[str, Any]:
    """Return what ``page.js`` draws of a batch; ``chosen`` are positions of rows."""
    if not batch.rows:
        return {"rows": None}
    explained = [e for _, _, e in batch.rows]
    first = explained[0]
    outputs = _outputs(explained)
    wanted = _wanted(batch, chosen)
    grid = levels_of(first.level)
    many = len(wanted) * len(outputs) * len(grid) > MAX_VERDICTS
    rows: list[dict[str, Any]] = []
    size = 0
    for position, label, e in wanted:
        said = [e.level] if many else None
        row = explanation_data(e, levels=grid, said=said, outputs=outputs)
        row["label"] = row_name(position if label is None else label)
        size += len(json_for_script(row)) + len(str(e.payload)) * (pictures.kind(e) == "text")
        if chosen is None and rows and size > MAX_BYTES:
            break
        if len(wanted) <= MAX_PICTURES or pictures.kind(e) == "text":
            pictures.add(row, e, outputs)
        rows.append(row)
    common = {key: rows[0][key] for key in ("names", "levels") if _alike(rows, key)}
    for row in rows:
        for key in common:
            del row[key]
    of, n_lost = len(batch.rows), len(batch.lost)
    note = "" if len(rows) == of else f"{len(rows):,} of {of:,} rows are in this page."
    if len(wanted) > MAX_PICTURES and pictures.kind(first) in ("image", "series"):
        note += f" Pages of more than {MAX_PICTURES} rows have no pictures."
    few = sum(len(e.names) for e in explained) * len(outputs) <= MAX_MEANS
    return {
        **common,
        "heading": f"Over {of:,} rows",
        "levels": [formatting.percent(level) for level in grid],
        "summary": [_summary(explained, j, grid, n_lost, few=few) for j in outputs],
        "rows": rows,
        "note": note.strip(),
    }


def _alike(rows: list[dict[str, Any]], key: str) -> bool:
    return all(row[key] == rows[0][key] for row in rows)


def _outputs(explained: Sequence[ExplanationBase]) -> list[int]:
    """Return the outputs whose predictions differ most from their base values, over all rows."""
    change = [np.abs(np.atleast_1d(e.prediction) - np.atleast_1d(e.base_value)) for e in explained]
    order = np.argsort(-np.nan_to_num(np.stack(change)).mean(axis=0), kind="stable")
    return sorted(order[: formatting.MAX_OUTPUTS].tolist())


def _wanted(
    batch: Batch, chosen: Sequence[int] | None
) -> Sequence[tuple[int, Any, ExplanationBase]]:
    """Return the rows that were chosen, or the first ones."""
    if chosen is not None:
        found = {position: (position, label, e) for position, label, e in batch.rows}
        unknown = [i for i in chosen if i not in found]
        if unknown or not len(chosen):
            what = f"{unknown[0]!r} has no explanation" if unknown else "none is chosen"
            raise InputError(f"rows must be positions of explained rows; {what}")
        return [found[i] for i in chosen]
    return batch.rows[:MAX_ROWS]


def _summary(
    explained: Sequence[ExplanationBase],
    j: int,
    grid: Sequence[float],
    n_lost: int,
    *,
    few: bool,
) -> dict[str, Any]:
    """Return verdict and means over all rows, at all levels if these are ``few``, else at one."""
    own = explained[0].level
    worked = [lv for lv in grid if lv == own or (few and lv <= HIGHEST)]
    out: dict[str, Any] = {"levels": [None] * len(grid), "note": "", "unit": "", "names": []}
    out["exact"] = all(e.exact for e in explained)
    alike = all(e.names == explained[0].names for e in explained)
    base: Aggregate | None = None
    if alike:
        try:
            base = _averaged(explained, j, own)
        except InputError as error:
            out["note"] = str(error)
            out["levels"][grid.index(own)] = {"verdict": [], "mean": None}
            return out
        out |= _head(base)
    features = [] if base is None else base.order[:MAX_FEATURES]
    unit = 10.0 ** out.pop("power", 0)
    for level in worked:
        at = [replace(e, level=level) for e in explained]
        found: dict[str, Any] = {"verdict": sentences(judge_batch(at, j, n_lost)), "mean": None}
        if base is not None:
            a = base if level == own else _averaged(explained, j, level)
            for name, values in (("mean", a.mean), ("lower", a.lower), ("upper", a.upper)):
                found[name] = [number(float(values[i]) / unit) for i in features]
        out["levels"][grid.index(level)] = found
    return out


def _averaged(explained: Sequence[ExplanationBase], j: int, level: float) -> Aggregate:
    """Average over the rows of the batch, as its verdict does."""
    return aggregate(explained, j, level, population="rows")


def _head(a: Aggregate) -> dict[str, Any]:
    """Return what does not depend on the level: names, decimals, how often each is the largest."""
    features = a.order[:MAX_FEATURES]
    peak = float(a.upper.max(initial=0.0))
    power = formatting.power_of(peak)
    halves = ((a.upper - a.lower) / 2 / 10.0**power)[features]
    middle = float(np.median(halves[halves > 0])) if (halves > 0).any() else 0.0
    left = len(a.names) - len(features)
    return {
        "names": [formatting.shorten(a.names[i] or "(no name)", MAX_NAME) for i in features],
        "first": [f"{100 * a.first[i]:.0f} % of rows" for i in features],
        "places": max(formatting.decimals(middle, peak / 10.0**power), 0),
        "unit": formatting.times(power),
        "power": power,
        "note": f"… and {left} more features with smaller means" if left else "",
    }
