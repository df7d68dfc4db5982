"""Batches on disk: a folder of Parquet files that appear whole or not at all, and a manifest.

::

    folder/
      manifest.json           what the batch is of: explainer, goals, data; written first
      part-00000000.parquet   the tidy frame of rows 0 … partition_rows − 1, and so on
      log.jsonl               a line for each part: rows, errors, model rows, seconds

A part holds the digest of its rows. A job that goes on compares manifest, digests and the model's
answers with those of the job that was stopped, and explains the parts that are not there.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from credex.batch import Job, TimeUpError, interruption
from credex.cells import display
from credex.domains import Tabular
from credex.engines.local import Block, Done, run
from credex.errors import InputError, MissingExtraError, OutputError
from credex.explainer_base import on_screen
from credex.frames import TIDY
from credex.portfolio import Work, blocks_of, dense, length
from credex.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Folder", "SavedBatch", "explain_to_folder", "read_batch"]

FORMAT = "credex-batch"
VERSION = 1
"""Of the manifest and of the columns of a part."""

MANIFEST, LOG = "manifest.json", "log.jsonl"
CHECKED_ROWS = 16
"""Rows of the first part whose predictions are asked again when a job goes on."""

SAME_PREDICTION = 1e-4
"""Difference of two predictions, by the largest one, that single precision explains."""


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
        return sorted(self.path.glob("part-*.parquet"))

    @property
    def complete(self) -> bool:
        """Whether every row of the input is there."""
        return bool(self.manifest["complete"]) and len(self.parts) == self.manifest["parts"]

    def __len__(self) -> int:
        """Return the number of rows explained or recorded as errors."""
        return sum(_facts(part)["rows"] for part in self.parts)

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Yield the frame of each part; all of them need not fit into memory."""
        for part in self.parts:
            yield _read_part(part, columns)

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


@dataclass(frozen=True)
class Folder:
    """Writes and reads the files of a batch."""

    path: Path

    def manifest(self) -> dict[str, Any] | None:
        """Read the manifest; ``None`` if there is none."""
        try:
            text = (self.path / MANIFEST).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as cause:
            raise OutputError(
                f"{MANIFEST} of {str(self.path)!r} cannot be read: {cause}"
            ) from cause
        try:
            raw = json.loads(text)
        except json.JSONDecodeError as cause:
            raise InputError(f"{MANIFEST} of {str(self.path)!r} is damaged: {cause}") from cause
        if not isinstance(raw, dict) or raw.get("format") != FORMAT:
            raise InputError(f"{MANIFEST} of {str(self.path)!r} is not that of a credex batch")
        if raw.get("version") != VERSION:
            msg = (
                f"the batch in {str(self.path)!r} has version {raw.get('version')!r}; this credex "
            )
            raise InputError(msg + f"reads version {VERSION}")
        return raw

    def prepare(self, manifest: dict[str, Any], *, resume: bool, overwrite: bool) -> None:
        """Make the folder ready for a batch, or raise before the model is asked anything."""
        if resume and overwrite:
            raise InputError("resume=True and overwrite=True contradict each other; give one")
        there = self.manifest()
        if there is None and self.path.exists():
            self._check_foreign()
        if there is not None and not (resume or overwrite):
            whole = SavedBatch(self.path, there).complete
            state = "a complete batch" if whole else "a batch that is not complete"
            msg = f"{str(self.path)!r} holds {state}; pass resume=True to go on with it, "
            raise InputError(msg + "overwrite=True to begin anew, or another folder")
        if there is not None and resume:
            self._check_same(there, manifest)
        with self._explained("make the folder"):
            self.path.mkdir(parents=True, exist_ok=True)
            old = [*self.path.glob(".*.tmp"), *([] if resume else self._own_files())]
            for file in old:
                file.unlink()
        if there is None or overwrite:
            self.write(MANIFEST, _as_json(manifest))
        elif not os.access(self.path, os.W_OK):
            raise OutputError(self._message("write into it", "the folder is read-only"))

    def _own_files(self) -> list[Path]:
        return [*self.path.glob("part-*.parquet"), *self.path.glob(LOG), *self.path.glob(MANIFEST)]

    def _check_foreign(self) -> None:
        if not self.path.is_dir():
            raise InputError(f"out={str(self.path)!r} is a file; give the name of a folder")
        other = [file.name for file in self.path.iterdir() if not file.name.endswith(".tmp")]
        if other:
            msg = f"out={str(self.path)!r} holds other files ({min(other)!r}, …) and no batch; "
            raise InputError(msg + "give a new or an empty folder")

    def _check_same(self, there: dict[str, Any], now: dict[str, Any]) -> None:
        """Raise if the folder is of another explainer, other goals or other training data."""
        now = json.loads(_as_json(now))
        for key, before in there["of"].items():
            if before != now["of"].get(key):
                msg = f"{str(self.path)!r} holds a batch of another {key}: {before!r} there, "
                msg += f"{now['of'].get(key)!r} now. Use another folder, or overwrite=True"
                raise InputError(msg)

    def write(self, name: str, data: bytes | Callable[[Any], None]) -> None:
        """Write a file that appears whole or not at all, and survives a power cut."""
        temporary = self.path / f".{name}.tmp"
        with self._explained(f"write {name}", temporary):
            with temporary.open("wb") as file:
                if callable(data):
                    data(file)
                else:
                    file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path / name)
            _sync_folder(self.path)

    def append_log(self, line: dict[str, Any]) -> None:
        """Add a line to the log."""
        with self._explained(f"write {LOG}"), (self.path / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def log(self) -> list[dict[str, Any]]:
        """Return the lines of the log; one that was cut off is left out."""
        try:
            lines = (self.path / LOG).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def part(self, number: int) -> Path:
        """Return the path of a part."""
        return self.path / f"part-{number:08d}.parquet"

    def _explained(self, what: str, temporary: Path | None = None) -> _Explained:
        return _Explained(self, what, temporary)

    def _message(self, what: str, why: str) -> str:
        done = len(list(self.path.glob("part-*.parquet"))) if self.path.is_dir() else 0
        msg = f"cannot {what} in {str(self.path)!r}: {why}"
        return msg + (f"; {done} parts are safe, resume=True goes on with them" if done else "")


@dataclass(frozen=True)
class _Explained:
    """Turns errors of the file system into `OutputError` and removes the unfinished file."""

    folder: Folder
    what: str
    temporary: Path | None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and self.temporary is not None:
            self.temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            return
        why = {
            errno.ENOSPC: "no space is left on the device: make room",
            errno.EDQUOT: "the disk quota is used up: make room",
            errno.EROFS: "the file system is read-only",
            errno.EACCES: "you may not write there",
            errno.EPERM: "you may not write there",
        }.get(error.errno or 0, str(error))
        raise OutputError(self.folder._message(self.what, why)) from error  # noqa: SLF001


def explain_to_folder(
    work: Work,
    X: Any,
    out: str | Path,
    *,
    resume: bool,
    overwrite: bool,
    partition_rows: int,
    n_workers: int,
    progress: bool | None,
    engine: Callable[[Work, Iterable[Block], int], Iterator[Done]] = run,
) -> SavedBatch:
    """Explain ``X`` part by part into a folder; see `Explainer.explain_many`.

    ``engine`` explains blocks of rows, in any order; by default joblib's workers do. An iterator
    ``X`` may say how many rows it has by ``__length_hint__``.
    """
    parquet()  # missing? say so before the model is asked
    folder = Folder(Path(out))
    manifest = _manifest(work, partition_rows)
    folder.prepare(manifest, resume=resume, overwrite=overwrite)
    total = (length_hint(X) or None) if hasattr(X, "__next__") else length(X)
    jobs = _Jobs(work, folder, partition_rows, X)
    with progress_bar("explaining", total, show=on_screen(progress)) as bar:
        try:
            for done in engine(work.started(), jobs.todo(bar.update), n_workers):
                jobs.save(done)
                bar.update(jobs.sizes.pop(done.number))
        except TimeUpError:
            return read_batch(folder.path)
        except KeyboardInterrupt as cause:
            left = read_batch(folder.path)
            msg = f"{len(left):,} rows are safe in {str(folder.path)!r}, and "
            stop = interruption(
                cause, msg + "explain_many(X, out=…, resume=True) goes on with them"
            )
            stop.partial = left
            raise stop from cause
    folder.write(MANIFEST, _as_json({**manifest, **jobs.totals, "complete": True}))
    return read_batch(folder.path)


@dataclass
class _Jobs:
    """Which parts are there, which are to do, and what was done."""

    work: Work
    folder: Folder
    partition_rows: int
    X: Any

    def __post_init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.digests: dict[int, str] = {}
        self.totals: dict[str, Any] = {"rows": 0, "parts": 0}
        self._ids: list[Any] = []
        self._clock: dict[int, float] = {}

    def todo(self, skipped: Callable[[int], Any]) -> Iterator[Block]:
        """Yield the blocks whose parts are not there; check those that are."""
        first = 0
        cut = blocks_of(self.X, self.partition_rows, self.work.explainer.domain)
        for number, rows in enumerate(block for block in cut if length(block)):
            n, digest = length(rows), digest_of(rows, self.work)
            self._check_ids(rows, first, number)
            path = self.folder.part(number)
            if path.exists():
                self._check_part(path, rows, digest, number)
                skipped(n)
            else:
                self.sizes[number], self.digests[number] = n, digest
                self._clock[number] = time.time()
                yield Block(number, first, rows)
            first += n
            self.totals = {"rows": first, "parts": number + 1}
        extra = self.folder.part(self.totals["parts"])
        if extra.exists():
            msg = f"{str(self.folder.path)!r} holds more parts than the {first} rows make "
            raise InputError(msg + f"({extra.name}): it is a batch of other rows")

    def _check_part(self, path: Path, rows: Any, digest: str, number: int) -> None:
        facts = _facts(path)
        if facts["digest"] != digest:
            msg = f"{path.name} in {str(self.folder.path)!r} was made of other rows than part "
            msg += f"{number} of the input now. Use another folder, or overwrite=True"
            raise InputError(msg)
        if number == 0:
            check_model(self.work, rows, _read_part(path, None), self.folder.path)

    def _check_ids(self, rows: Any, first: int, number: int) -> None:
        """Raise if an id was there in an earlier part; 8 bytes are kept for each row."""
        if not hasattr(rows, "columns"):
            return  # rows are named by their position
        import pandas as pd

        ids = self.work.of_type(rows).ids(rows, first)
        hashes = pd.util.hash_pandas_object(ids, index=False).to_numpy()
        for earlier in self._ids:
            both = np.isin(hashes, earlier)
            if both.any():
                twice = display(ids.iloc[int(np.argmax(both))])
                msg = f"the id {twice} of part {number} is in an earlier part, too; give id= a "
                raise InputError(msg + "column that is unique")
        self._ids.append(hashes)
        if len(self._ids) > 16:
            self._ids = [np.concatenate(self._ids)]

    def save(self, done: Done) -> None:
        """Write a part and its line of the log."""
        n = self.sizes[done.number]
        facts = {"digest": self.digests.pop(done.number), "rows": n, "version": VERSION}
        self.folder.write(self.folder.part(done.number).name, _parquet_of(done.frame, facts))
        line = {"part": done.number, "rows": n, "errors": int(done.frame["error"].notna().sum())}
        line |= {"model_rows": done.model_rows, "calls": done.calls}
        seconds = time.time() - self._clock.pop(done.number)
        self.folder.append_log({**line, "seconds": round(seconds, 3)})


def check_model(work: Work, rows: Any, frame: pd.DataFrame, path: Path) -> None:
    """Raise if the model does not predict what it predicted for the first rows of the batch."""
    if work.options.noisy:
        return
    work = work.of_type(rows)
    head = rows.iloc[:CHECKED_ROWS] if hasattr(rows, "iloc") else rows[:CHECKED_ROWS]
    instances = work.instances(head)
    job = Job(work.explainer, instances, [work.cohort] * len(instances), work.goals, work.options)
    queue, lines = work.queue(), frame[frame["error"].isna()]
    scale = float(lines["prediction"].abs().max()) if len(lines) else 0.0
    for i, name in enumerate(work.ids(head)):
        before = lines[lines["row"] == name].drop_duplicates("output")["prediction"].to_numpy()
        if not len(before):
            continue
        design = job.begin(i, None, queue).design
        now = design.linked(queue.box.ask(design.neighbourhood.instance_inputs(), 1).y)[0]
        if len(now) != len(before) or np.any(np.abs(now - before) > SAME_PREDICTION * scale):
            msg = f"{str(path)!r} holds a batch of another model: for row {name!r} that one "
            msg += f"predicted {before[0]:.6g}, this one predicts {now[0]:.6g}. "
            raise InputError(msg + "Use another folder, or overwrite=True")


def digest_of(rows: Any, work: Work) -> str:
    """Return 32 characters that change with any value, label or cohort of a block."""
    out = hashlib.blake2b(repr(work.cohort).encode(), digest_size=16)
    block = dense(rows)
    if hasattr(block, "columns"):
        import pandas as pd

        frame = block if hasattr(block, "iloc") else pd.DataFrame(block.to_dict(as_series=False))
        out.update("\n".join(map(str, frame.columns)).encode())
        text = frame.astype({n: "string" for n, t in frame.dtypes.items() if t.kind == "O"})
        hashes = pd.util.hash_pandas_object(text, index=hasattr(block, "iloc"))
        out.update(hashes.to_numpy().tobytes())
    elif isinstance(block, np.ndarray) and block.dtype != object:
        out.update(f"{block.shape} {block.dtype}".encode())
        out.update(block.tobytes())
    else:
        for x in work.instances(block):
            out.update(_instance_text(work, x).encode())
    return out.hexdigest()


def _instance_text(work: Work, x: Any) -> str:
    try:
        return json.dumps(work.explainer.domain.at(x).payload(), default=str)
    except InputError as error:  # recorded when it is its turn
        return f"{type(x).__name__} {error}"


def _manifest(work: Work, partition_rows: int) -> dict[str, Any]:
    """Return what tells batches apart, and what a reader may want to know."""
    from importlib.metadata import version  # slow to import

    explainer, domain, goals = work.explainer, work.explainer.domain, work.goals
    model = explainer.model if isinstance(explainer.model, type) else type(explainer.model)
    options = {**work.options.stored(), "level": work.options.level, "seed": int(work.options.seed)}
    options |= {name: _text(getattr(work.options, name)) for name in ("kernel", "sampler")}
    options |= {"posterior": _text(work.options.posterior)}
    options |= {"query_seconds": work.options.query_seconds}
    data = None
    if isinstance(domain, Tabular):
        data = explainer._digest(domain.at_background())  # noqa: SLF001
    of = {
        "method": explainer.method,
        "domain": type(domain).__name__,
        "training data": data,
        "goals": {f.name: _text(getattr(goals, f.name)) for f in fields(goals)},
        "options": options,
        "cohort": _text(work.cohort),
        "ids": {"id": work.id, "keep": list(work.keep)},
        "partition_rows": partition_rows,
        "columns": list(TIDY),
    }
    about = {"model": model.__name__, "credex": version("credex")}
    return {"format": FORMAT, "version": VERSION, "complete": False, **about, "of": of}


def _text(value: Any) -> Any:
    """Return plain values as they are, others as text without addresses in memory."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _as_json(manifest: dict[str, Any]) -> bytes:
    text = json.dumps(manifest, indent=2, default=lambda v: getattr(v, "item", lambda: str(v))())
    return (text + "\n").encode()


def parquet() -> Any:
    """Import pyarrow's Parquet, or say how to install it."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        msg = "batches on disk are Parquet files: pip install 'credex[parquet]'"
        raise MissingExtraError(msg) from None
    return pq


def _parquet_of(frame: pd.DataFrame, facts: dict[str, Any]) -> Callable[[Any], None]:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata(
        {**(table.schema.metadata or {}), b"credex": json.dumps(facts).encode()}
    )
    return lambda file: parquet().write_table(table, file, compression="zstd")


def _facts(part: Path) -> dict[str, Any]:
    """Return the digest and the number of rows that a part keeps."""
    return dict(json.loads(_opened(part, parquet().read_schema).metadata[b"credex"]))


def _read_part(part: Path, columns: Sequence[str] | None) -> pd.DataFrame:
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


def _sync_folder(path: Path) -> None:
    """Make a new name in a folder permanent, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
