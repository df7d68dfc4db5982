"""A lock on a file: one process at a time, released by the system when the process dies."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["LockedError", "locked"]


class LockedError(Exception):
    """Another process has the lock; the text says which one."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock ``path`` inside the block, or raise `LockedError`.

    The file names the process that has the lock. It may stay behind when that process is killed,
    but the lock does not: the system releases it. Where there is no ``flock``, nothing is locked.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    while True:
        number = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(number)
            os.close(number)
            raise LockedError(holder) from None
        except OSError:  # a file system without locks
            os.close(number)
            path.unlink(missing_ok=True)
            yield
            return
        if _is_at(number, path):  # else its last holder has just removed it
            break
        os.close(number)
    try:
        known = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        os.truncate(number, 0)
        os.pwrite(number, json.dumps(known).encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(number)


def _is_at(number: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(number), path.stat())
    except FileNotFoundError:
        return False


def _holder(number: int) -> str:
    try:
        known = json.loads(os.pread(number, 1000, 0))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(known["since"]))
        return f"process {known['pid']} on {known['host']}, since {since}"
    except (ValueError, KeyError):  # it has the lock, but has not written yet
        return "another process"
