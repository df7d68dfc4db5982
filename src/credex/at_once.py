"""The shortest way through a run: a fixed budget of a quick model takes one call and one fit.

`loop.run` is a talk, so that anyone can drive it, stop it and stack what it asks. Beside a model
that answers in microseconds the talk costs more than all arithmetic: where nothing has to be
decided on the way it is left out. Results are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from credex.blackbox import BlackBox
from credex.calls import along
from credex.errors import ModelError
from credex.estimators.base import Recipe
from credex.loop import Plan, State, interrupted
from credex.threads import one_blas_thread

if TYPE_CHECKING:
    from credex.explanation import Explanation

__all__ = ["at_once"]


def at_once(
    recipe: Recipe,
    plan: Plan,
    make: Callable[[State], Explanation],
    *,
    batch_rows: int,
    box: BlackBox,
) -> State | None:
    """Return the last state of a run, or ``None`` if it has to be run step by step.

    A model that fails is asked again, step by step: what can be kept is then kept, and the error
    says what it is.
    """
    whole = getattr(recipe, "whole", None)
    if whole is None or plan.rules:
        return None
    start = time.perf_counter()
    n = along(recipe, plan, box, batch_rows)
    if n == 0:
        return None
    recipe.limit, recipe.looks = plan.ceiling, False
    box.trust -= 1
    try:
        absorb = _answered(whole, n, box)
        if absorb is None:
            return None
        with one_blas_thread():
            absorb()
            return _state(recipe, start, plan.ceiling_reason, make)
    except ModelError as error:
        box.trust = 0
        error.partial = _state(recipe, start, "model error", make).explanation
        raise
    except KeyboardInterrupt as stop:
        raise interrupted(_state(recipe, start, "interrupted", make)) from stop


def _answered(
    whole: Callable[[int, BlackBox], Callable[[], None] | None], n: int, box: BlackBox
) -> Callable[[], None] | None:
    """What takes in the model's answers; ``None`` if it fails or cannot be asked like that."""
    try:
        absorb = whole(n, box)
    except ModelError:
        box.trust = 0
        return None
    box.trust += absorb is None
    return absorb


def _state(
    recipe: Recipe, start: float, reason: str, make: Callable[[State], Explanation]
) -> State:
    fitted, a, level = recipe.fit(), recipe.asked, recipe.settings.level
    seconds = time.perf_counter() - start
    return State(
        fitted, a, level, a.n_queries, a.n_model_rows, seconds, reason, converged=False, make=make
    )
