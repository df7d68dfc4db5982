"""Rows from files, folders or a pipe, of the same types from the first piece to the last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.cells import display
from credex.cli.formats import FORMATS, count, format_of, read
from credex.errors import InputError
from credex.seeds import Purpose, spawn

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Kinds", "Pieces", "Rows", "positions", "sample", "source_of"]

WORDS = {"number": "numbers", "truth": "truth values", "date": "dates", "text": "texts"}
TRUTH = {"true": True, "false": False, "True": True, "False": False, "TRUE": True, "FALSE": False}


@dataclass
class Kinds:
    """What each column holds, decided where it first has a value; later pieces follow."""

    found: dict[str, tuple[str, str]] = field(default_factory=dict)

    def of(self, frame: pd.DataFrame, name: str, *, texts: bool) -> pd.DataFrame:
        """Return a piece with its columns turned into the kinds decided before.

        ``name`` is that of its file; ``texts``: everything in it was read as text.
        """
        columns = {}
        for label in frame.columns:
            column = frame[label]
            if column.isna().all():
                columns[label] = column.astype(object) if texts else column
                continue
            kind = _kind(column, texts=texts)
            wanted, first = self.found.setdefault(str(label), (kind, name))
            try:
                columns[label] = _turned(column, wanted)
            except (TypeError, ValueError) as cause:
                example = display(_odd(column, wanted))
                msg = f"column {label!r} holds {WORDS[wanted]} in {first}, but {example!r} in "
                raise InputError(f"{msg}{name}; make them alike") from cause
        import pandas as pd

        return pd.DataFrame(columns, index=frame.index)


def _kind(column: pd.Series[Any], *, texts: bool) -> str:
    import pandas as pd

    if pd.api.types.is_bool_dtype(column.dtype):
        return "truth"
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return "date"
    if pd.api.types.is_numeric_dtype(column.dtype):
        return "number"
    if texts:
        there = column.dropna()
        if there.isin(TRUTH).all():
            return "truth"
        if not pd.to_numeric(there, errors="coerce").isna().any():
            return "number"
    values = {type(v) for v in column.dropna()}
    return "truth" if values == {bool} else "number" if values <= {int, float} else "text"


def _turned(column: pd.Series[Any], kind: str) -> pd.Series[Any]:
    """Return a column as the given kind, or raise `ValueError`."""
    import pandas as pd

    now = _kind(column, texts=False)
    if kind == now:
        return pd.to_numeric(column) if kind == "number" else column
    if kind == "number":
        return pd.to_numeric(column)
    if kind == "truth" and now == "text" and column.dropna().isin(TRUTH).all():
        there = column.map(TRUTH)
        return there.astype(bool) if not column.isna().any() else there.astype("boolean")
    if kind == "date" and now == "text":
        return pd.to_datetime(column)
    if kind == "text" and pd.api.types.is_integer_dtype(column.dtype):
        return column.astype(str)
    raise ValueError(now)


def _odd(column: pd.Series[Any], kind: str) -> Any:
    """Return a value that does not fit."""
    import pandas as pd

    there = column.dropna()
    if kind == "number":
        there = there[pd.to_numeric(there, errors="coerce").isna()]
    return there.iloc[0] if len(there) else None


@dataclass(frozen=True)
class Rows:
    """Where rows come from: files of one format each, or the standard input (no files)."""

    name: str
    files: tuple[tuple[Path, str], ...]
    pipe: str = ""

    def pieces(self, kinds: Kinds, rows: int) -> Iterator[pd.DataFrame]:
        """Yield frames of at most ``rows`` rows; a wrong set of columns is an error."""
        first: tuple[list[str], str] | None = None
        for path, form in self.files or ((None, self.pipe),):
            name = "the standard input" if path is None else f"{str(path)!r}"
            for frame in read(path, form, rows):
                columns = [str(label) for label in frame.columns]
                if first is None and columns:
                    _check_repeats(columns, name)
                    first = columns, name
                if len(frame) == 0:
                    continue
                if first is not None and set(columns) != set(first[0]):
                    _refuse_columns(columns, name, *first, partly=form == "jsonl")
                yield kinds.of(frame, name, texts=form == "csv")

    def about(self) -> int:
        """Return about how many rows there are; 0 if that is not known."""
        return sum(count(path, form) for path, form in self.files)


def _check_repeats(columns: Sequence[str], name: str) -> None:
    twice = [c for c in columns if columns.count(c) > 1]
    if twice:
        raise InputError(f"{name} has the column {twice[0]!r} more than once; rename one")


def _refuse_columns(
    columns: Sequence[str], name: str, wanted: Sequence[str], first: str, *, partly: bool
) -> None:
    """Raise if columns are missing; JSON lines may leave out what is missing in all of a piece."""
    missing = [c for c in wanted if c not in columns]
    if missing and not partly:
        msg = f"{name} misses the columns {', '.join(missing)}, which {first} has"
        raise InputError(msg)


def source_of(given: str, form: str | None = None) -> Rows:
    """Find the files behind a name: a file, a folder, or ``-`` for the standard input."""
    if given == "-":
        return Rows("the standard input", (), form or "csv")
    path = Path(given)
    if path.is_dir():
        found = sorted(
            p
            for p in path.rglob("*")
            if p.is_file() and not any(part[0] in "._" for part in p.relative_to(path).parts)
        )
        files = [(p, form or format_of(p)) for p in found]
        known = tuple((p, f) for p, f in files if f is not None)
        if not known:
            ends = ", ".join(end for ends in FORMATS.values() for end in ends[:1])
            raise InputError(f"the folder {given!r} holds no file of rows ({ends})")
        return Rows(given, known)
    if not path.exists():
        raise InputError(f"there is no file {given!r}")
    kind = form or format_of(path)
    if kind is None:
        msg = f"the name {given!r} does not say what is in it; give --format "
        raise InputError(msg + ", ".join(FORMATS))
    return Rows(given, ((path, kind),))


def sample(pieces: Iterator[pd.DataFrame], most: int, seed: int) -> pd.DataFrame | None:
    """Return at most ``most`` rows, each with the same chance, in their order; one pass."""
    import pandas as pd

    rng = spawn(seed, Purpose.SAMPLED_INPUT)
    kept, keys = [], np.empty(0)
    for piece in pieces:
        keys = np.append(keys, rng.random(len(piece)))
        kept.append(piece)
        if len(keys) > max(2 * most, 10_000):
            frame, keys = _smallest(pd.concat(kept, ignore_index=True), keys, most)
            kept = [frame]
    if not kept:
        return None
    return _smallest(pd.concat(kept, ignore_index=True), keys, most)[0]


def _smallest(frame: pd.DataFrame, keys: Any, most: int) -> tuple[pd.DataFrame, Any]:
    if len(keys) <= most:
        return frame, keys
    at = np.sort(np.argpartition(keys, most)[:most])
    return frame.iloc[at].reset_index(drop=True), keys[at]


def positions(text: str | None) -> tuple[int, int | None]:
    """Read ``--rows``: ``10:20``, ``10:``, ``:20``."""
    if text is None:
        return 0, None
    found = re.fullmatch(r"(\d*):(\d*)", text.strip())
    start, stop = (found[1], found[2]) if found else ("", "")
    if not found or (start and stop and int(stop) <= int(start)):
        raise InputError(f"--rows is {text!r}; give positions from 0 on, such as 0:100 or 500:")
    return int(start or 0), int(stop) if stop else None


class Pieces:
    """Iterator over frames of exactly ``rows`` rows (the last may be shorter), named by position.

    ``__length_hint__`` says about how many rows there are in all.
    """

    def __init__(
        self, pieces: Iterator[pd.DataFrame], rows: int, about: int, cut: str | None
    ) -> None:
        self.start, self.stop = positions(cut)
        self._about, self._made = about, self._pieces(pieces, rows)

    def __iter__(self) -> Pieces:
        return self

    def __next__(self) -> pd.DataFrame:
        return next(self._made)

    def __length_hint__(self) -> int:
        stop = self._about if self.stop is None else min(self.stop, self._about or self.stop)
        return max(stop - self.start, 0)

    def _pieces(self, pieces: Iterator[pd.DataFrame], rows: int) -> Iterator[pd.DataFrame]:
        import pandas as pd

        waiting: list[pd.DataFrame] = []
        at = 0
        for piece in pieces:
            named = piece.set_axis(pd.RangeIndex(at, at + len(piece)))
            at += len(piece)
            inside = (named.index >= self.start) & (named.index < (self.stop or at))
            waiting.append(named[inside] if not inside.all() else named)
            while sum(map(len, waiting)) >= rows:
                whole = pd.concat(waiting) if len(waiting) > 1 else waiting[0]
                yield _ranged(whole.iloc[:rows])
                waiting = [whole.iloc[rows:]]
            if self.stop is not None and at >= self.stop:
                break
        left = [piece for piece in waiting if len(piece)]
        if left:
            yield _ranged(pd.concat(left) if len(left) > 1 else left[0])


def _ranged(frame: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    start = int(frame.index[0])
    return frame.set_axis(pd.RangeIndex(start, start + len(frame)))
