"""How rows are cut into model calls: short ones of a slow model, one of a quick model."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import numpy as np

from credex.blackbox import BlackBox
from credex.errors import ModelError
from credex.estimators.base import Recipe, Talk
from credex.model_queue import Answer, Ask
from credex.stopping import WallClock
from credex.threads import one_blas_thread

if TYPE_CHECKING:
    from credex.loop import Plan

SLOW_ROW = 0.02
"""Seconds a row from which calls are kept short, so that little is lost if one fails."""

CALL_SECONDS = 2.0
"""Aimed-at length of such a call."""

UNUSED = np.random.default_rng(0)
"""What samplers that draw nothing get: making a generator costs as much as a small fit."""

FIRST_CALL = 64
"""Rows of the first such call; later ones grow."""

TRUST = 15
"""Explanations whose f(x) and its repeat may share a call after they agreed in two: a model that
depends on the other rows of a call, or draws once a call, agrees with itself within one."""

LARGER = 2
"""Inputs so much larger than those of the last call may take longer than was measured."""


class Pace:
    """Most rows of the next call of a run, by what a row of the last one took."""

    def __init__(self, recipe: Recipe, batch_rows: int) -> None:
        self.recipe, self.batch_rows = recipe, batch_rows
        self.rows, self.seconds, self.each = 0, 0.0, 0.0

    def __call__(self) -> int:
        """Return that number."""
        a = self.recipe.asked
        if a.n_model_rows > self.rows:
            self.each = (a.model_seconds - self.seconds) / (a.n_model_rows - self.rows)
            self.rows, self.seconds = a.n_model_rows, a.model_seconds
        if self.each < SLOW_ROW:
            return self.batch_rows
        first = FIRST_CALL if a.rows.n == 0 else 1
        return int(min(max(CALL_SECONDS / self.each, first), self.batch_rows))


def along(recipe: Recipe, plan: Plan, box: BlackBox | None, batch_rows: int) -> int:
    """How many perturbations to ask along with the fixed points; none unless that is safe.

    They are those that would be asked next: results do not depend on it.
    """
    r = recipe
    cost = r.opening
    speed = None if box is None or box.trust < 1 else box.speed
    if speed is None or cost is None or not getattr(r.settings.sampler, "uniform", False):
        return 0
    larger = r.neighbourhood.row_bytes > LARGER * speed.row_bytes  # a longer text is slower
    if larger or speed.row_seconds >= SLOW_ROW or r.d <= 1:
        return 0
    n = r.room(plan.ceiling, cost)
    if plan.rules:
        if any(isinstance(rule, WallClock) for rule in plan.rules):
            return 0
        n = min(n, max(plan.seeds - r.asked.n_queries - cost, 2))
    rows = (n + 1) * r.rows_per_query + 2
    quick = rows <= batch_rows and rows * speed.row_seconds <= CALL_SECONDS
    return n if quick and n >= (2 if r.settings.sampler.paired else 1) else 0


def open_with(
    recipe: Recipe, n: int, ceiling: int, most: Callable[[], int]
) -> Generator[list[Ask], list[Answer], bool]:
    """Ask for the fixed points and the first ``n`` perturbations in one call, if there are any.

    Most models take longer to begin than for a dozen rows: of one known to be quick, f(x) is not
    asked first.
    """
    with one_blas_thread():
        chosen = recipe.choose(n, None, UNUSED)
    if len(chosen) == 0:
        return False
    opening, asking = recipe.open(ceiling), recipe.ask(chosen, most_rows=most)
    ends, others = next(opening), next(asking)
    try:
        answers = yield [*ends, *others]
    except ModelError as error:  # keep what the fixed points say, if they were answered
        known = [a for a in error.answers[: len(ends)] if isinstance(a, Answer)]
        if len(known) == len(ends):
            _finish(opening, known)
        raise
    _finish(opening, answers[: len(ends)])
    _finish(asking, answers[len(ends) :])
    return True


def _finish(talk: Talk[None], answers: list[Answer]) -> None:
    try:
        talk.send(answers)
    except StopIteration:
        return
    msg = "asked more than once"  # pragma: no cover - `along` sees to that
    raise AssertionError(msg)  # pragma: no cover
