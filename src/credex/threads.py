"""One BLAS thread for our own small matrices.

Matrices here have some dozens of columns. A second BLAS thread gains nothing on them, and on a busy
machine the two wait for each other: explanations become ten to a hundred times slower. The model
is called outside of this and keeps all its threads.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

ALREADY = nullcontext()
"""Nothing to limit."""


@lru_cache(maxsize=1)
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController()
    return controller if any(i["num_threads"] > 1 for i in controller.info()) else None


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread inside the block."""
    controller = _controller()
    if controller is None:
        return ALREADY
    limited: AbstractContextManager[Any] = controller.limit(limits=1, user_api="blas")
    return limited
