"""How BayesLIME asks for perturbed rows of tables: in pieces, or all with f(x) in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from credex.blackbox import BlackBox, Speed, check_repeat
from credex.designs.samplers import Candidates, Random
from credex.designs.stream import PerturbationStream
from credex.estimators.base import ONE, linked
from credex.history import History
from credex.model_queue import Ask
from credex.posteriors.rows import Block, Rows
from credex.typing import Ints, Native

if TYPE_CHECKING:
    from credex.estimators.surrogate import SurrogateRecipe

__all__ = ["ask_whole", "table_ask"]

TWICE = 2
"""f(x) and its repeat."""


def ask_whole(recipe: SurrogateRecipe, n: int, box: BlackBox) -> Callable[[], None] | None:
    """Ask for ``n`` perturbed rows and f(x), twice; ``None`` if that needs a talk.

    `calls.along` has seen to it that the run is a new one, of a model without noise. Returns what
    takes the recipe to where `open` and `ask` would leave it; until then it is as it was.
    """
    r, s, nb = recipe, recipe.settings, recipe.neighbourhood
    if r.by_masks or type(s.sampler) is not Random:
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
    first, second = x
    if s.link != "identity":
        y, x = linked(y, s.link), linked(x, s.link)

    def absorb() -> None:
        weights = np.asarray(r.kernel.weights(drawn.design, r.origin))
        r.asked = History(
            rows=Rows((Block.of(drawn.design, y, weights),)),
            full=x[0],
            cursor=r.asked.cursor + n,
            n_queries=n,
            n_model_rows=rows,
            model_seconds=reply.seconds,
            checked=True,
            by=box.token,
        )
        check_repeat(first, second, reply.same)

    return absorb


def table_ask(
    recipe: SurrogateRecipe, stream: PerturbationStream, candidates: Candidates, s: int, e: int
) -> Ask:
    """Ask for the perturbed rows ``s`` to ``e`` of those chosen."""
    drawn, whole = stream.drawn(candidates)
    nb, seed = recipe.neighbourhood, recipe.settings.seed
    if whole:
        first = stream.first + s

        def make(a: int, b: int) -> tuple[Native, Ints | None]:
            all_of_it = first + a == stream.first and b - a == len(drawn)
            rows = drawn if all_of_it else nb.perturb(seed, first + a, first + b)
            if recipe.settings.noisy:
                return rows.inputs(), None
            inputs, index = rows.unique()
            return inputs, None if index is None else index[:, None]

        key = None if drawn.key is None or recipe.settings.noisy else ("perturb", _stem(drawn.key))
        alone = recipe.settings.noisy or (s, e) != (0, len(drawn))
        return Ask(
            make,
            e - s,
            ONE,
            share=key,
            first=first,
            row_bytes=nb.row_bytes,
            form=nb.form,
            of=nb,
            joined=None if alone else drawn.joined,
        )
    chosen = candidates.position[s:e] - stream.first
    return Ask(
        lambda a, b: (drawn.pick(chosen[a:b]), None),
        e - s,
        ONE,
        row_bytes=nb.row_bytes,
        form=nb.form,
    )


def _stem(key: object) -> object:
    """Drop the positions from a perturbation key: the desk keeps a stream under one name."""
    if isinstance(key, tuple):
        return tuple(part for part in key if not isinstance(part, range))
    return key
