"""`Sealed`: an object that is pickled once for all workers and unpickled once in each."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Sealed"]

_opened: dict[str, Any] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class Sealed:
    """A pickle and its digest.

    The bytes are an array: joblib hands large arrays to its processes as files, once for all.
    """

    data: NDArray[np.uint8]
    digest: str

    @classmethod
    def of(cls, thing: Any) -> Self:
        """Pickle a thing, lambdas and classes of a notebook included."""
        import cloudpickle

        text = cloudpickle.dumps(thing)
        digest = hashlib.blake2b(text, digest_size=16).hexdigest()
        return cls(np.frombuffer(text, dtype=np.uint8), digest)

    def open(self, prepare: Callable[[Any], Any] = lambda thing: thing) -> Any:
        """Return ``prepare(thing)``: the same object each time in this process.

        A process keeps the last thing that it opened.
        """
        with _lock:
            if self.digest not in _opened:
                _opened.clear()
                _opened[self.digest] = prepare(pickle.loads(self.data.tobytes()))  # noqa: S301
            return _opened[self.digest]
