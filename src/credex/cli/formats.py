"""Files of rows as pandas frames: CSV, JSON lines, Parquet and Arrow, piece by piece."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from credex.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FORMATS", "count", "format_of", "read"]

FORMATS = {
    "csv": (".csv", ".csv.gz", ".tsv", ".tsv.gz"),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
}
"""Endings of the files of each format."""

PIPES = ("csv", "jsonl")
"""Formats that can come through a pipe."""

INDEX = re.compile(r"__index_level_\d+__")
"""Columns that hold an index of pandas without a name."""


def format_of(path: Path) -> str | None:
    """Return the format that a file's name announces, ``None`` if it announces none."""
    name = path.name.lower()
    return next((form for form, ends in FORMATS.items() if name.endswith(ends)), None)


def read(path: Path | None, form: str, rows: int) -> Iterator[pd.DataFrame]:
    """Yield frames of at most ``rows`` rows of a file, or of the standard input (``None``).

    A frame of no rows has the columns of the file; a file without any is an `InputError`.
    """
    readers: dict[str, Callable[[Path | None, int], Iterator[pd.DataFrame]]]
    readers = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet, "arrow": _arrow}
    name = "the standard input" if path is None else f"{str(path)!r}"
    if path is None and form not in PIPES:
        raise InputError(f"{form} cannot be read from a pipe; name a file, or use csv or jsonl")
    if path is not None and path.stat().st_size == 0:
        raise InputError(f"{name} is empty: it has no columns and no rows")
    try:
        yield from readers[form](path, rows)
    except (InputError, MissingExtraError):
        raise
    except (OSError, ValueError, EOFError) as cause:  # those of pandas and pyarrow are among them
        why = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
        raise InputError(f"{name} cannot be read as {form}: {why}") from cause


def _csv(path: Path | None, rows: int) -> Iterator[pd.DataFrame]:
    """Yield columns of texts: what they hold is decided for the whole input, not for a piece."""
    import pandas as pd

    source: Any = sys.stdin.buffer if path is None else path
    tabs = path is not None and ".tsv" in path.suffixes
    try:
        with pd.read_csv(source, sep="\t" if tabs else ",", dtype=str, chunksize=rows) as pieces:
            yield from pieces
    except pd.errors.EmptyDataError:
        name = "the standard input" if path is None else f"{str(path)!r}"
        raise InputError(f"{name} is empty: it has no columns and no rows") from None


def _jsonl(path: Path | None, rows: int) -> Iterator[pd.DataFrame]:
    import pandas as pd

    with sys.stdin if path is None else path.open(encoding="utf-8") as file:
        lines = enumerate(file, 1)
        while piece := list(islice(lines, rows)):
            records = [_record(number, text) for number, text in piece if text.strip()]
            yield pd.DataFrame.from_records(records)


def _record(number: int, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as cause:
        raise InputError(f"line {number} is no JSON: {text.strip()[:60]!r}") from cause
    if not isinstance(found, dict):
        raise InputError(f"line {number} is no JSON object: {text.strip()[:60]!r}")
    return found


def _parquet(path: Path | None, rows: int) -> Iterator[pd.DataFrame]:
    with _pyarrow("parquet").ParquetFile(path) as file:
        empty = file.metadata.num_rows == 0
        if empty:
            yield _frame(file.schema_arrow.empty_table())
        for batch in () if empty else file.iter_batches(batch_size=rows):
            yield _frame(batch)


def _arrow(path: Path | None, rows: int) -> Iterator[pd.DataFrame]:
    ipc, lib = _pyarrow("ipc"), _pyarrow("lib")
    with lib.memory_map(str(path)) as source:
        try:
            file = ipc.open_file(source)
            batches: Any = (file.get_batch(i) for i in range(file.num_record_batches))
        except lib.ArrowInvalid:  # written as a stream
            source.seek(0)
            batches = file = ipc.open_stream(source)
        yield _frame(file.schema.empty_table())
        for batch in batches:
            for start in range(0, batch.num_rows, rows):
                yield _frame(batch.slice(start, rows))


def _frame(table: Any) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    return frame.drop(columns=[name for name in frame.columns if INDEX.fullmatch(str(name))])


def _pyarrow(part: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"pyarrow.{part}")
    except ImportError:
        raise MissingExtraError("this file needs pyarrow: pip install 'credex[parquet]'") from None


def count(path: Path, form: str) -> int:
    """Return about how many rows a file has, without reading values; 0 if that cannot be told."""
    if form == "parquet":
        try:
            return int(_pyarrow("parquet").read_metadata(path).num_rows)
        except (OSError, ValueError):  # said when it is read
            return 0
    if form == "arrow" or path.suffix == ".gz":
        return 0
    with path.open("rb") as file:
        lines = sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))
    return max(lines - (form == "csv"), 0)
