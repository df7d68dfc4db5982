"""The files of a batch on disk: they appear whole or not at all, and one job writes at a time.

::

    folder/
      manifest.json           what the batch is of: explainer, goals, data; written first
      part-00000000.parquet   the tidy frame of rows 0 … partition_rows − 1, and so on
      log.jsonl               a line for each part: rows, errors, model rows, seconds
      .lock                   while a job writes: its process and host
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from credex.errors import InputError, OutputError
from credex.lock import LockedError, locked

__all__ = ["FORMAT", "MANIFEST", "VERSION", "Folder", "as_json"]

FORMAT = "credex-batch"
VERSION = 1
"""Of the manifest and of the columns of a part."""

MANIFEST, LOG, LOCK = "manifest.json", "log.jsonl", ".lock"


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

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make the folder, and keep other jobs from writing into it inside the block."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"out={str(self.path)!r} is a file; give the name of a folder")
        with self._explained("make the folder"):
            self.path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                with self._explained("write"):
                    stack.enter_context(locked(self.path / LOCK))
            except LockedError as cause:
                msg = f"{str(self.path)!r} is being written by {cause}; wait until it is done, "
                raise OutputError(msg + "or give another folder") from None
            yield

    def prepare(self, manifest: dict[str, Any], *, resume: bool, overwrite: bool) -> None:
        """Make the folder ready for a batch, or raise before the model is asked anything."""
        there = self.manifest()
        if there is None:
            self._check_foreign()
        if there is not None and not (resume or overwrite):
            whole = self.is_complete(there)
            state = "a complete batch" if whole else "a batch that is not complete"
            msg = f"{str(self.path)!r} holds {state}; pass resume=True to go on with it, "
            raise InputError(msg + "overwrite=True to begin anew, or another folder")
        if there is not None and resume:
            self._check_same(there, manifest)
        with self._explained("delete old files"):
            old = [*self.path.glob(".*.tmp"), *([] if resume else self._own_files())]
            for file in old:
                file.unlink()
        if there is None or overwrite:
            self.write(MANIFEST, as_json(manifest))

    def _own_files(self) -> list[Path]:
        return [*self.path.glob("part-*.parquet"), *self.path.glob(LOG), *self.path.glob(MANIFEST)]

    def _check_foreign(self) -> None:
        names = {file.name for file in self.path.iterdir()} - {LOCK}
        other = [name for name in names if not name.endswith(".tmp")]
        if other:
            msg = f"out={str(self.path)!r} holds other files ({min(other)!r}, …) and no batch; "
            raise InputError(msg + "give a new or an empty folder")

    def _check_same(self, there: dict[str, Any], now: dict[str, Any]) -> None:
        """Raise if the folder is of another explainer, other goals or other training data."""
        now = json.loads(as_json(now))
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

    @property
    def parts(self) -> list[Path]:
        """The parts that are there, in the order of the rows."""
        return sorted(self.path.glob("part-*.parquet"))

    def is_complete(self, manifest: dict[str, Any]) -> bool:
        """Whether every row of the input is there."""
        return bool(manifest["complete"]) and len(self.parts) == manifest["parts"]

    def part(self, number: int) -> Path:
        """Return the path of a part."""
        return self.path / f"part-{number:08d}.parquet"

    def _explained(self, what: str, temporary: Path | None = None) -> _Explained:
        return _Explained(self, what, temporary)

    def _message(self, what: str, why: str) -> str:
        done = len(self.parts)
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


def as_json(manifest: dict[str, Any]) -> bytes:
    """Return a manifest as the bytes of its file."""
    text = json.dumps(manifest, indent=2, default=lambda v: getattr(v, "item", lambda: str(v))())
    return (text + "\n").encode()


def _sync_folder(path: Path) -> None:
    """Make a new name in a folder permanent, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
