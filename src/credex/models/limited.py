"""A model with a ceiling on the rows that it is asked for."""

from __future__ import annotations

import threading
from typing import Any

from credex.errors import StoppedRun, check_count
from credex.history import Counted
from credex.typing import Native

__all__ = ["LimitedModel"]


class LimitedModel:
    """Any model, with at most ``max_rows`` rows in all; a call beyond that is a `StoppedRun`.

    The count is that of this object: a copy in another process begins anew. (`HttpModel` has a
    ceiling of its own, which counts rows that are sent again.)
    """

    def __init__(self, model: Any, max_rows: int) -> None:
        self.model, self.max_rows = model, check_count("max_rows", max_rows)
        self.rows = 0
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        if name in ("model", "__setstate__"):  # asked for before it is there
            raise AttributeError(name)
        return getattr(self.model, name)

    def __call__(self, rows: Native) -> Any:
        """Answer rows, if they are not too many."""
        return self.counted_call(rows).y

    def counted_call(self, rows: Native) -> Counted:
        """Answer rows, if they are not too many; count them."""
        n = len(rows)
        with self._lock:
            if self.rows + n > self.max_rows:
                msg = f"max_rows={self.max_rows:,} is reached: {self.rows:,} rows were sent, and "
                stop = StoppedRun(msg + f"the next call has {n:,}")
                stop.rows_sent = 0  # type: ignore[attr-defined]
                raise stop
            self.rows += n
        methods = (getattr(self.model, name, None) for name in ("predict_proba", "predict"))
        call = next((method for method in methods if callable(method)), self.model)
        return Counted(call(rows), n, 0)
