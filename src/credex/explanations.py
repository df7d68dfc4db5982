"""The explanations of a batch, and the rows that failed."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from credex import errors, frames, html, interop, markup, report
from credex.cells import decode, encode_or_text
from credex.errors import BudgetError, InputError
from credex.explanation import Explanation
from credex.plots import BatchPlots
from credex.posteriors import Interval
from credex.typing import Floats
from credex.verdict import judge_batch

if TYPE_CHECKING:
    import pandas as pd

FORMAT, VERSION = "credex-explanations", 1
COUNTS = ("n_model_rows", "n_calls", "seconds", "workers")


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """A row of a batch that could not be explained."""

    label: Any
    error: Exception

    def __str__(self) -> str:
        return f"row {self.label!r}: {type(self.error).__name__}: {self.error}"


@dataclass(frozen=True, slots=True, eq=False)
class Explanations(Sequence[Explanation]):
    """Explanations of many rows, in their order.

    Attributes
    ----------
    items
        For each row an `Explanation`, a `Failure` if it could not be explained, or ``None`` if an
        interrupted run did not reach it.
    n_model_rows, n_calls
        Rows sent to the model and calls made. Shared rows count once, so this is less than the
        sum over the items.
    seconds
        Time in all.
    workers
        How the work was divided, in words.
    complete
        False if the run was interrupted or the time of the batch was up; ``explain_many(X,
        start=batch)`` continues it.
    begun, shared
        What an interrupted run had asked: unfinished rows by position, and shared answers.
    """

    items: tuple[Explanation | Failure | None, ...]
    n_model_rows: int
    n_calls: int
    seconds: float
    workers: str
    complete: bool = True
    begun: dict[int, Explanation] = field(default_factory=dict, repr=False)
    shared: Any = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        item = self.items[i]
        if isinstance(item, Failure):
            raise item.error
        if item is None:
            raise InputError(
                f"row {i} was not explained before the run was interrupted or its time was up"
            )
        return item

    def __iter__(self) -> Iterator[Any]:
        """Iterate over ``items``, failures included."""
        return iter(self.items)

    @property
    def explained(self) -> list[Explanation]:
        """The explanations alone."""
        return [e for e in self.items if isinstance(e, Explanation)]

    @property
    def errors(self) -> dict[int, Failure]:
        """The failures by position."""
        return {i: e for i, e in enumerate(self.items) if isinstance(e, Failure)}

    @property
    def mean(self) -> Floats:
        """Importances ``(n, d)`` or ``(n, d, k)``; NaN for rows without an explanation.

        Raises `InputError` if the rows have different numbers of features.
        """
        return self._stacked([e.mean for e in self.explained])

    def interval(self, level: float | None = None) -> Interval:
        """Credible intervals of all rows, arrays like ``mean``."""
        found = [e.interval(level) for e in self.explained]
        lower = self._stacked([i.lower for i in found])
        upper = self._stacked([i.upper for i in found])
        default = found[0].level if found else 0.95
        return Interval(lower, upper, default if level is None else level)

    def to_frame(self, *, level: float | None = None) -> pd.DataFrame:
        """Concatenate the frames of all rows; column ``row`` holds the row's label."""
        found = [(i, e) for i, e in enumerate(self.items) if isinstance(e, Explanation)]
        labels = [i if e.label is None else e.label for i, e in found]
        return frames.to_frame([e for _, e in found], level, labels)

    def to_shap(self) -> Any:
        """Return a ``shap.Explanation`` of the explained rows, for shap's plots.

        Rows without an explanation are left out, with a warning.
        """
        left_out = len(self) - len(self.explained)
        if left_out:
            msg = f"{left_out} of {len(self)} rows have no explanation and are left out"
            warnings.warn(msg, stacklevel=2)
        return interop.to_shap(self.explained, single=False)

    @property
    def plot(self) -> BatchPlots:
        """Plots, such as ``batch.plot.summary()``."""
        return BatchPlots(self.explained)

    def verdict(self, *, output: Any = None) -> str:
        """Say in sentences what is certain over all rows, and what is open."""
        found = self.explained
        j = found[0]._output(output) if found else 0  # noqa: SLF001 - the batch's own rows
        return str(judge_batch(found, j, len(self) - len(found)))

    def to_html(self, path: str | Path | None = None) -> str:
        """Write (and return) a page that needs no other file, in light and dark."""
        return markup.page("Explanations of a batch", self._repr_html_(), path)

    def report(
        self,
        path: str | Path,
        *,
        verification: Any = None,
        title: str | None = None,
        rows: Sequence[int] | None = None,
    ) -> Path:
        """Write an interactive page that needs no other file; return its path.

        The reader sees means over all rows, searches for a row and picks it, and moves the level.

        Parameters
        ----------
        path
            Where to write, such as ``"batch.html"``.
        verification
            What ``explainer.verify(X)`` returned: the measured coverage goes into the page.
        title
            Title of the page.
        rows
            Positions of the rows in the page; by default the first ones that fit into 1 MB. Means
            are over all rows of the batch.
        """
        found = [(i, e.label, e) for i, e in enumerate(self.items) if isinstance(e, Explanation)]
        counts = [
            ("Rows", f"{len(self):,}, of which {len(found):,} have an explanation"),
            ("Model rows", f"{self.n_model_rows:,} in {self.n_calls:,} calls"),
            ("Time", f"{self.seconds:.2g} s; {self.workers}"),
        ]
        batch = report.Batch(found, self._lost, counts)
        return report.write_batch(batch, path, verification, title, rows)

    @property
    def _lost(self) -> list[str]:
        """Why rows have no explanation."""
        lost = [str(e) for e in self.errors.values()]
        return lost + [f"row {i}: not reached" for i, e in enumerate(self.items) if e is None]

    def _repr_html_(self) -> str:
        rows = [
            (i if e.label is None else e.label, e)
            for i, e in enumerate(self.items)
            if isinstance(e, Explanation)
        ]
        foot = f"{self.n_model_rows:,} model rows in {self.n_calls:,} calls, {self.seconds:.2g} s"
        return html.batch(rows, repr(self)[1:-1], self._lost, [f"{foot}; {self.workers}"])

    def save(self, path: str | Path) -> None:
        """Write all explanations, with what was asked, as lines of JSON that `load` reads back.

        The file appears whole or not at all. Of an interrupted batch the finished rows are kept.
        """
        path = Path(path)
        head = {"format": FORMAT, "version": VERSION, "complete": self.complete}
        head |= {name: getattr(self, name) for name in COUNTS}
        temporary = path.with_name(f".{path.name}.tmp")
        with temporary.open("w", encoding="utf-8") as file:
            for line in (json.dumps(head), *map(_line, self.items)):
                file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        with Path(path).open(encoding="utf-8") as file:
            try:
                head = json.loads(file.readline())
            except json.JSONDecodeError as cause:
                raise InputError(f"{str(path)!r} is not a saved batch: {cause}") from cause
            if not isinstance(head, dict) or head.get("format") != FORMAT:
                raise InputError(f"{str(path)!r} is not a saved batch: no {FORMAT!r} in line 1")
            if head["version"] != VERSION:
                msg = f"{str(path)!r} has version {head['version']!r}; this credex reads {VERSION}"
                raise InputError(msg)
            items = tuple(_item(line) for line in file)
        return cls(items, complete=head["complete"], **{name: head[name] for name in COUNTS})

    def _stacked(self, arrays: list[Floats]) -> Floats:
        """Stack the arrays of the explained rows, with NaN for the other rows."""
        if not arrays:
            return np.empty((len(self), 0))
        counts = sorted({len(a) for a in arrays})
        if len(counts) > 1:
            raise InputError(
                f"the rows have {counts[0]} to {counts[-1]} features each, which make no array; "
                "use to_frame(), or the explanations one by one"
            )
        out = np.full((len(self), *arrays[0].shape), np.nan)
        out[[isinstance(e, Explanation) for e in self.items]] = arrays
        return out

    def __repr__(self) -> str:
        n_left = sum(item is None for item in self.items)
        bad = f", {len(self.errors)} failed" if self.errors else ""
        bad += f", {n_left} to go" if n_left else ""
        return f"<{len(self)} explanations{bad}; {self.n_model_rows:,} model rows>"


def _line(item: Explanation | Failure | None) -> str:
    """One item as a line of JSON."""
    if isinstance(item, Explanation):
        return item.to_json()
    if item is None:
        return "null"
    error = item.error
    out = {"failed": encode_or_text(item.label), "error": type(error).__name__, "says": str(error)}
    return json.dumps(out | {"minimum": getattr(error, "minimum", None)}, ensure_ascii=False)


def _item(line: str) -> Explanation | Failure | None:
    """Read what `_line` wrote; the cause of an error and what was learned before it are lost."""
    if not line.startswith('{"failed"'):
        return None if line.strip() == "null" else Explanation.from_json(line)
    raw = json.loads(line)
    kind = getattr(errors, raw["error"], errors.CredexError)
    more = {"minimum": raw["minimum"]} if kind is BudgetError else {}
    return Failure(decode(raw["failed"]), kind(raw["says"], **more))
