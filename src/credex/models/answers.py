"""Answers of a model that are kept, so that no row is paid for twice: in memory or in a file."""

from __future__ import annotations

import json
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from credex.errors import InputError, OutputError
from credex.typing import Floats

__all__ = ["Answers", "FileAnswers", "MemoryAnswers"]

AT_ONCE = 500
"""Keys of one query to the file; SQLite's oldest limit is 999."""


class Answers(Protocol):
    """Keeps ``(k,)`` outputs by the key of a row. Safe in several threads."""

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Floats]:
        """Return the answers that are there."""

    def put(self, new: Mapping[bytes, Floats]) -> None:
        """Keep answers."""


class MemoryAnswers:
    """The last ``most`` answers, in memory."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: OrderedDict[bytes, Floats] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Floats]:
        """Return the answers that are there; they are then the last to be dropped."""
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
            for key in found:
                self._kept.move_to_end(key)
        return found

    def put(self, new: Mapping[bytes, Floats]) -> None:
        """Keep answers; the oldest are dropped if they become too many."""
        with self._lock:
            self._kept.update(new)
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        """Return how many answers are kept."""
        return len(self._kept)


class FileAnswers:
    """All answers, in an SQLite file that several processes and later runs share."""

    def __init__(self, path: str | Path) -> None:
        import sqlite3

        self.path, self._error = str(path), sqlite3.Error
        self._lock = threading.Lock()
        try:
            self._file = sqlite3.connect(self.path, timeout=30, check_same_thread=False)
            weakref.finalize(self, self._file.close)
            self._file.execute("PRAGMA journal_mode=WAL")
            table = "answers (key BLOB PRIMARY KEY, y BLOB) WITHOUT ROWID"
            self._file.execute(f"CREATE TABLE IF NOT EXISTS {table}")
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS names (about TEXT PRIMARY KEY, names TEXT)"
            )
        except sqlite3.Error as cause:
            msg = f"the answers cannot be kept in {self.path!r}: {cause}; name a file that is new, "
            raise InputError(msg + "or one of an earlier run") from cause

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Floats]:
        """Return the answers that are there."""
        wanted = list(keys)
        found: dict[bytes, bytes] = {}
        with self._lock:
            for start in range(0, len(wanted), AT_ONCE):
                some = wanted[start : start + AT_ONCE]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, y FROM answers WHERE key IN ({marks})"  # noqa: S608 - marks
                found.update(self._file.execute(query, some).fetchall())
        return {key: np.frombuffer(y, dtype="<f8") for key, y in found.items()}

    def names(self, about: str) -> tuple[str, ...]:
        """Return the names of a model's outputs, if they were kept."""
        query = "SELECT names FROM names WHERE about = ?"
        with self._lock:
            found = self._file.execute(query, (about,)).fetchone()
        return () if found is None else tuple(json.loads(found[0]))

    def keep_names(self, about: str, names: tuple[str, ...]) -> None:
        """Keep the names of a model's outputs."""
        with self._lock, self._file:
            self._file.execute(
                "INSERT OR REPLACE INTO names VALUES (?, ?)", (about, json.dumps(names))
            )

    def put(self, new: Mapping[bytes, Floats]) -> None:
        """Keep answers."""
        rows = [(key, np.asarray(y, dtype="<f8").tobytes()) for key, y in new.items()]
        try:
            with self._lock, self._file:
                self._file.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", rows)
        except self._error as cause:
            raise OutputError(f"answers cannot be written to {self.path!r}: {cause}") from cause
