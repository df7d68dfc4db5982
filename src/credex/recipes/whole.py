"""BayesLIME on tables in one call: f(x), its repeat and all perturbed rows, without a talk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from credex.blackbox import BlackBox, Speed, check_repeat
from credex.posteriors.rows import Block, Rows
from credex.recipes.base import Asked, linked
from credex.samplers import Random

if TYPE_CHECKING:
    from credex.recipes.surrogate import SurrogateRecipe

__all__ = ["ask_whole"]

TWICE = 2
"""f(x) and its repeat."""


def ask_whole(recipe: SurrogateRecipe, n: int, box: BlackBox) -> Callable[[], None] | None:
    """Ask for ``n`` perturbed rows and f(x), twice; ``None`` if that needs a talk.

    Returns what takes the recipe to where `open` and `ask` would leave it; until then it is as it
    was.
    """
    r, s, nb = recipe, recipe.settings, recipe.neighbourhood
    if r.by_masks or s.noisy or r.asked.full is not None or type(s.sampler) is not Random:
        return None
    drawn = nb.perturb(s.seed, r.asked.cursor, r.asked.cursor + n)
    if drawn.joined is None:
        return None
    inputs, index = drawn.joined(TWICE)
    rows = len(inputs)
    reply = box.ask(inputs, rows)
    box.speed = Speed(reply.seconds / rows, nb.row_bytes)
    y = reply.y[:-TWICE] if index is None else reply.y[index.reshape(-1)]
    x = reply.y[-TWICE:]
    check_repeat(x[0], x[1], reply.same)
    if s.link != "identity":
        y, x = linked(y, s.link), linked(x, s.link)

    def absorb() -> None:
        weights = np.asarray(r.kernel.weights(drawn.design, r.origin))
        r.asked = Asked(
            rows=Rows((Block.of(drawn.design, y, weights),)),
            full=x[0],
            cursor=r.asked.cursor + n,
            n_queries=n,
            n_model_rows=rows,
            model_seconds=reply.seconds,
            checked=True,
            by=box.token,
        )
        r.at_hand = drawn.design

    return absorb
