"""`SavedBatch`: a batch on disk, read part by part; and the parts as Parquet files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from credex.batch_folder import MANIFEST, Folder
from credex.errors import InputError, MissingExtraError, OutputError
from credex.frames import TIDY

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SavedBatch", "facts", "parquet", "parquet_of", "read_batch", "read_part"]


@dataclass(frozen=True)
class SavedBatch:
    """A batch on disk, complete or not; made by ``explain_many(out=…)`` and `read_batch`.

    Attributes
    ----------
    path
        The folder.
    manifest
        What the batch is of, how many rows and parts it has, and whether it is ``complete``.
    """

    path: Path
    manifest: dict[str, Any]

    @property
    def parts(self) -> list[Path]:
        """The files, in the order of the rows."""
        return Folder(self.path).parts

    @property
    def complete(self) -> bool:
        """Whether every row of the input is there."""
        return Folder(self.path).is_complete(self.manifest)

    def __len__(self) -> int:
        """Return the number of rows explained or recorded as errors."""
        return sum(facts(part)["rows"] for part in self.parts)

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Yield the frame of each part; all of them need not fit into memory."""
        for part in self.parts:
            yield read_part(part, columns)

    def to_frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return all explanations in one frame."""
        import pandas as pd

        found = list(self.frames(columns))
        empty: dict[str, list[Any]] = {
            name: [] for name in columns or ("row", *self.manifest["of"]["ids"]["keep"], *TIDY)
        }
        return pd.concat(found, ignore_index=True) if found else pd.DataFrame(empty)

    @property
    def errors(self) -> pd.DataFrame:
        """Rows that could not be explained: their ``row`` and ``error``."""
        frame = self.to_frame(["row", "error"])
        return frame[frame["error"].notna()].reset_index(drop=True)

    @property
    def n_model_rows(self) -> int:
        """Rows sent to the model for the parts that are there."""
        lines = Folder(self.path).log()
        return sum({line["part"]: line["model_rows"] for line in lines}.values())

    def __repr__(self) -> str:
        state = "complete" if self.complete else "not complete"
        return f"<batch of {len(self):,} rows in {str(self.path)!r}, {state}>"


def read_batch(folder: str | Path) -> SavedBatch:
    """Open a folder that ``explain_many(out=folder)`` wrote; frames are read when asked for."""
    place = Folder(Path(folder))
    manifest = place.manifest()
    if manifest is None:
        raise InputError(f"{str(folder)!r} holds no batch: there is no {MANIFEST} in it")
    return SavedBatch(place.path, manifest)


def parquet() -> Any:
    """Import pyarrow's Parquet, or say how to install it."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        msg = "batches on disk are Parquet files: pip install 'credex[parquet]'"
        raise MissingExtraError(msg) from None
    return pq


def parquet_of(frame: pd.DataFrame, kept: dict[str, Any]) -> Callable[[Any], None]:
    """Return what writes a part, with what it keeps about itself, into an open file."""
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata(
        {**(table.schema.metadata or {}), b"credex": json.dumps(kept).encode()}
    )
    return lambda file: parquet().write_table(table, file, compression="zstd")


def facts(part: Path) -> dict[str, Any]:
    """Return the digest and the number of rows that a part keeps."""
    return dict(json.loads(_opened(part, parquet().read_schema).metadata[b"credex"]))


def read_part(part: Path, columns: Sequence[str] | None) -> pd.DataFrame:
    """Read a part, or some columns of it."""
    frame: pd.DataFrame = _opened(
        part, lambda file: parquet().read_table(file, columns=columns).to_pandas()
    )
    return frame


def _opened(part: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(part)
    except (OSError, ValueError) as cause:  # pyarrow's errors are among them
        msg = (
            f"{str(part)!r} cannot be read as Parquet ({cause}); delete it, and resume=True makes "
        )
        raise OutputError(msg + "it again") from cause
