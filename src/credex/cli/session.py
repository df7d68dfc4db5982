"""From the arguments of a command to an explainer and the rows that it explains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from credex.cli.inputs import Kinds, Pieces, Rows, sample, source_of
from credex.cli.models import columns_of, load, target_of
from credex.domains import Tabular
from credex.errors import InputError, check_count
from credex.explainer import Explainer
from credex.lime import BayesLIME
from credex.models import HttpModel
from credex.models.limited import LimitedModel
from credex.shap import BayesSHAP

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Session"]

PIECE = 10_000
"""Rows of a file read at a time, where a batch does not say."""

BACKGROUND = 10_000
"""Rows of the data that are the background if none is given."""

CONCURRENCY = 4
"""Requests to an endpoint at the same time, if not said."""


@dataclass(frozen=True)
class Session:
    """An explainer, the rows, and the columns that are its features."""

    explainer: Explainer
    model: Any
    data: Rows
    kinds: Kinds
    features: list[str]
    options: Mapping[str, Any]

    @classmethod
    def open(cls, model: str, data: str, options: Mapping[str, Any]) -> Session:
        """Load the model, read the background and make the explainer; nothing is asked yet."""
        _check(options)
        rows = source_of(data, options["form"])
        loaded = _model(model, options)
        if isinstance(loaded, HttpModel):  # Ctrl-C does not wait for answers
            click.get_current_context().call_on_close(loaded.close)
        kinds = Kinds()
        background = _background(rows, kinds, options)
        aside = {options["id"], *options.get("keep", ()), *options["drop"]}
        features = columns_of(loaded) or [c for c in background.columns if c not in aside]
        _check_columns(features, list(background.columns), options["background"] or data)
        kind = BayesLIME if options["method"] == "lime" else BayesSHAP
        limited = loaded
        if options["max_rows"] is not None and not isinstance(loaded, HttpModel):
            limited = LimitedModel(loaded, options["max_rows"])
        explainer = kind(
            limited,
            Tabular(background[features]),
            target=target_of(options["target"], loaded),
            concurrency=options["concurrency"]
            or (CONCURRENCY if isinstance(loaded, HttpModel) else 1),
            **{n: options[n] for n in ("level", "seed", "noisy")},
            **{n: options[n] for n in ("link", "posterior") if options[n] is not None},
        )
        return cls(explainer, loaded, rows, kinds, features, options)

    @property
    def call(self) -> dict[str, Any]:
        """Goals of a call."""
        names = ("width", "queries", "max_queries")
        return {n: self.options[n] for n in names if self.options.get(n) is not None}

    def pieces(self, rows: int = PIECE) -> Pieces:
        """Return the rows to explain, in frames of the features, the id and the kept columns."""
        columns = [*self.features]
        extra = [self.options["id"], *self.options.get("keep", ())]
        columns += [name for name in extra if name is not None and name not in columns]
        raw = self.data.pieces(self.kinds, rows)
        return Pieces(self._chosen(raw, columns), rows, self.data.about(), self.options["rows"])

    def _chosen(self, frames: Iterator[pd.DataFrame], columns: list[str]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            _check_columns(columns, list(frame.columns), self.data.name)
            yield frame[columns]

    def frame(self, most: int | None = None) -> pd.DataFrame:
        """Return the features of all rows, or of ``most`` of them; ids are the index."""
        name = self.options["id"]
        pieces = self.pieces()
        found = sample(pieces, most, self.options["seed"]) if most else _whole(pieces)
        if found is None:
            raise InputError(f"{self.data.name!r} has no rows")
        return (found if name is None else found.set_index(name, drop=False))[self.features]

    def labelled(self, label: str) -> tuple[pd.DataFrame, pd.Series]:
        """Return the features of all rows, and a column of labels, which must be kept."""
        if label in self.features:
            raise InputError(f"--label {label} is a feature of the model; name another column")
        found = _whole(self.pieces())
        if found is None:
            raise InputError(f"{self.data.name!r} has no rows")
        return found[self.features], found[label]

    def row(self, text: str) -> pd.DataFrame:
        """Return one row: by its id if there is ``--id``, else by its position."""
        name = self.options["id"]
        if name is None and not text.isdecimal():
            raise InputError(f"--row is {text!r}; give a position (0, 1, …), or name ids by --id")
        n = 0
        for piece in self.pieces():
            n += len(piece)
            labels = piece.index if name is None else piece[name]
            found = piece[[str(label) == text for label in labels]]
            if len(found):
                one = found.iloc[[0]]
                return (one if name is None else one.set_index(name, drop=False))[self.features]
        what = "no row of this id" if name is not None else f"{n:,} rows, counted from 0"
        raise InputError(f"--row {text}: {self.data.name!r} has {what}")


def _whole(pieces: Iterator[pd.DataFrame]) -> pd.DataFrame | None:
    import pandas as pd

    found = list(pieces)
    return pd.concat(found) if found else None


def _check(options: Mapping[str, Any]) -> None:
    """Raise on options that contradict each other."""
    if options["max_rows"] is None:
        return
    check_count("max_rows", options["max_rows"])
    if options.get("jobs", 1) != 1 or options.get("engine", "local") != "local":
        msg = "--max-rows counts in one process: leave --jobs and --engine out, or the ceiling"
        raise InputError(msg)


def _model(given: str, options: Mapping[str, Any]) -> Any:
    cache = options["cache"] if options["cache"] is not None else 100_000
    names = ("protocol", "timeout", "retries", "rate", "request_rows", "token_env", "max_rows")
    http = {name: options[name] for name in names}
    http |= {"cache": None if options["noisy"] else cache, "headers": _headers(options["header"])}
    trust = {"trust_pickle": options["trust_pickle"], "trust": options["trust"]}
    return load(given, output=options["output"], http=http, **trust)


def _headers(lines: tuple[str, ...]) -> dict[str, str]:
    for line in lines:
        if ":" not in line:
            raise InputError(f"--header is {line!r}; give 'NAME: VALUE'")
    return {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines)}


def _background(rows: Rows, kinds: Kinds, options: Mapping[str, Any]) -> pd.DataFrame:
    """Read the background: a file, or rows of the data."""
    given = options["background"]
    count = check_count("--background", int(given)) if given and given.isdecimal() else None
    source = rows if given is None or count is not None else source_of(given)
    if source is rows and not rows.files:
        raise InputError("a pipe can be read once: give --background a file of training data")
    found = sample(source.pieces(kinds, PIECE), count or BACKGROUND, options["seed"])
    if found is None:
        raise InputError(f"{source.name!r} has no rows")
    return found


def _check_columns(wanted: list[str], there: list[str], where: str) -> None:
    missing = [name for name in wanted if name not in there]
    if missing:
        some = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
        plural = "s" if len(missing) > 1 else ""
        msg = f"{where!r} misses the column{plural} {some}; it has {', '.join(there[:8])}"
        raise InputError(msg + (", …" if len(there) > 8 else ""))
