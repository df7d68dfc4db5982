"""From sentences to the words inside those that matter, in one more run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.batch import Case
from credex.cells import clean
from credex.checks import check_count
from credex.errors import BudgetError, InputError
from credex.estimators.base import Context, Recipe
from credex.explanation import Explanation
from credex.formatting import shorten
from credex.history import History
from credex.loop import Plan
from credex.options import Options

if TYPE_CHECKING:
    from credex.explainer import Explainer
    from credex.goals import Goals


def zoom(
    explainer: Explainer,
    e: Explanation,
    most: int,
    output: Any,
    *,
    goals: Goals,
    options: Options,
    context: Context,
) -> tuple[Recipe, Plan]:
    """Prepare the run over the words of the ``most`` largest parts; see `Explainer.zoom`."""
    finer = getattr(explainer.domain, "zoom", None)
    if finer is None:
        msg = "zoom is for texts, cx.Text(unit='sentence'); the domain of this explainer is "
        msg += f"{type(explainer.domain).__name__}"
        raise InputError(msg)
    which = largest(e, check_count("most", most), output)
    unit = e.payload["unit"] if isinstance(e.payload, dict) and "unit" in e.payload else "part"
    named = ", ".join(f"“{shorten(clean(e.names[i]), 24)}”" for i in which)
    note = f"words inside {len(which)} of {len(e.names)} {unit}s ({named}), the largest after "
    note += f"{e.n_queries:,} queries, which are counted"
    x = finer(e.payload, which, note)
    recipe, plan = explainer.prepare(Case(x), goals, options, context)
    spent = History(
        n_queries=e.n_queries, n_model_rows=e.n_model_rows, model_seconds=e.model_seconds
    )
    least = recipe.minimum + e.n_queries
    if goals.ceiling is None:
        plan = replace(plan, ceiling=max(plan.ceiling, 4 * recipe.minimum + e.n_queries))
    if plan.ceiling < least:
        msg = f"{plan.ceiling_reason}={plan.ceiling} is too few: {e.n_queries} are spent, and "
        msg += f"{recipe.d} features take at least {recipe.minimum} more"
        raise BudgetError(msg, minimum=least)
    recipe.asked = spent
    return recipe, replace(plan, seeds=plan.seeds + e.n_queries)


def largest(e: Explanation, most: int, output: Any) -> list[int]:
    """Positions of the parts with the largest importances, over all outputs or of one."""
    means = np.abs(e.belief.mean)
    if np.isnan(means).any():
        raise InputError("too little was asked to say which parts matter; refine it first")
    size = means.max(axis=1) if output is None else means[:, e._output(output)]  # noqa: SLF001
    return sorted(int(i) for i in np.argsort(-size, kind="stable")[:most])
