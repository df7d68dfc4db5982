"""Check the arguments of ``explain_global`` and ``explain_loss``, and plan their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from credex.domains import Tabular
from credex.errors import InputError, check_count
from credex.explainer_base import ExplainerBase
from credex.importance.loss_run import LossRun
from credex.importance.loss_survey import LossSurvey
from credex.importance.losses import read_labels
from credex.importance.run import PortfolioRun, Request
from credex.importance.survey import Survey
from credex.options import Options
from credex.portfolio import dense
from credex.row_estimates import grouped, labels_of
from credex.stopping import Goals

__all__ = ["plan_loss", "plan_portfolio"]

REFUSED = (
    *("features", "selection", "prior", "posterior", "robust", "kernel"),
    "background_uncertainty",
)
"""Options of single explanations that averages do not have."""

PLAIN = Options()


def plan_portfolio(
    explainer: ExplainerBase,
    X: Any,
    goals: Goals,
    options: Options,
    *,
    by: Any = None,
    max_rows: int | None = None,
) -> PortfolioRun:
    """Return the run; every check that needs no model happens here."""
    domain = _checked(explainer, "explain_global", goals, options, max_rows)
    X = dense(X)
    rows = domain.split(X)
    if not rows:
        raise InputError("X has no rows")
    labels = _labels(X, by, len(rows))
    cohorts = [] if labels is None else [at for _, at in grouped(labels)]
    survey = Survey(domain, rows, explainer._resolved(options), cohorts)  # noqa: SLF001
    box, queue = explainer._box(options.target), explainer._queue(options)  # noqa: SLF001
    request = Request(goals, options.level, labels, max_rows)
    return PortfolioRun(survey, queue, request, (domain.names, box.output_names))


def plan_loss(
    explainer: ExplainerBase,
    X: Any,
    goals: Goals,
    options: Options,
    *,
    y: Any,
    loss: str,
    max_rows: int | None = None,
) -> LossRun:
    """Return the run of ``explain_loss``."""
    if loss == "cross-entropy":
        _refuse(
            "explain_loss", options, ("target",), explainer.options, ": cross-entropy reads all"
        )
        options = replace(options, target=None)
    domain = _checked(explainer, "explain_loss", goals, options, max_rows)
    _refuse("explain_loss", options, ("link", "noisy"))
    if len(domain.names or ()) < 2:
        raise InputError(
            "explain_loss takes two features or more: with one, it has all of the loss"
        )
    rows = domain.split(dense(X))
    if not rows:
        raise InputError("X has no rows")
    box = explainer._box(options.target)  # noqa: SLF001
    labels = read_labels(y, len(rows), loss, box.classes, box._index)  # noqa: SLF001
    survey = LossSurvey(domain, rows, explainer._resolved(options), labels)  # noqa: SLF001
    request = Request(goals, options.level, None, max_rows)
    return LossRun(survey, explainer._queue(options), request, domain.names)  # noqa: SLF001


def _checked(
    explainer: ExplainerBase, method: str, goals: Goals, options: Options, max_rows: int | None
) -> Tabular:
    """Check what both methods share, and return the table."""
    domain = explainer.domain
    in_turn = (
        isinstance(domain, Tabular)
        and explainer._kind == "coalitions"  # noqa: SLF001 - the explainer's own parts
        and explainer._in_turn(domain.at_background(), options)  # noqa: SLF001
    )
    if not isinstance(domain, Tabular) or not in_turn:
        msg = f"{method} is for BayesSHAP on tables with several background rows, the default "
        msg += "recipe, sampler and posterior"
        if method == "explain_global":
            msg += ". Use explain_many and credex.aggregate"
        raise InputError(msg)
    _refuse(method, options, REFUSED)
    # what a query costs is known of the explainer if it was calibrated, and decides nothing here
    _refuse(method, options, ("query_seconds",), explainer.options)
    if max_rows is not None:
        check_count("max_rows", max_rows)
    goals.check_ranking(len(domain.names or ()))
    return domain


def _refuse(
    method: str,
    options: Options,
    names: Sequence[str],
    usual: Options = PLAIN,
    why: str = "",
) -> None:
    """Raise on options that a method would not follow, unless they are as usual."""
    for name in names:
        given, default = getattr(options, name), getattr(usual, name)
        if given is not default and (default is None or given != default):
            msg = f"{method} takes no {name}={given!r}{why}; leave it out, or if the explainer has "
            raise InputError(f"{msg}it, pass {name}={getattr(PLAIN, name)!r}")


def _labels(X: Any, by: Any, n: int) -> list[Any] | None:
    """Return the cohort of each row."""
    if by is None:
        return None
    if not isinstance(by, str):
        return labels_of(by, n)
    columns = list(map(str, getattr(X, "columns", ())))
    if by not in columns:
        msg = f"by={by!r} is no column of X; "
        msg += f"its columns are {', '.join(columns)}" if columns else "pass one label for each row"
        raise InputError(msg)
    return labels_of(X[by], n)
