"""The paper's method as its authors' code runs it, on a case: class explained, features kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import credex as cx
from experiments.cases import Case

__all__ = ["FOCUSED", "explain_published", "focused", "kept_names", "published_explainer", "sign"]

FOCUSED = {"BayesLIME": (5e-4, False), "BayesSHAP": (1e-2, True)}
"""Temperature τ of the published rule, and whether it draws with replacement."""


def focused(method: str, *, batch: int, seed_queries: int = 100, pool: int = 10_000) -> Any:
    """Return the published rule: softmax of the predictive standard deviation over τ."""
    tau, replacement = FOCUSED[method]
    return cx.PaperFocused(seed_queries, batch, pool, tau, score="sd", replacement=replacement)


def published_explainer(case: Case, method: str, i: int, **options: Any) -> Any:
    """Return the explainer of instance ``i``: tables of the predicted class, digits of the true.

    On tables both explainers perturb by drawing training values, so both have that domain.
    """
    model = case.model
    if case.kind == "table" and np.asarray(case.model(case.instances[i : i + 1]))[0] < 0.5:
        model = _Other(case.model)
    kind = cx.BayesLIME if method == "BayesLIME" else cx.BayesSHAP
    options = {"recipe": "published", **options}
    return kind(model, case.lime if case.kind == "table" else case.shap, **options)


class _Other:
    """Probability of the other class of two."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, rows: Any) -> np.ndarray:
        return 1.0 - np.asarray(self.model(rows))


def explain_published(
    case: Case,
    method: str,
    n: int,
    *,
    queries: int,
    seed: int,
    like: Sequence[Any] | None = None,
    **options: Any,
) -> list[Any]:
    """Explain the first ``n`` instances; ``like``: with the features that these runs kept."""
    groups: dict[bool, list[int]] = {False: [], True: []}
    for i in range(n):
        explainer = published_explainer(case, method, i)
        groups[isinstance(explainer.model, _Other)].append(i)
    out: list[Any] = [None] * n
    for rows in groups.values():
        if not rows:
            continue
        explainer = published_explainer(case, method, rows[0], **options)
        if like is not None and method == "BayesSHAP":
            for i in rows:
                recipe = cx.Published(features=kept_names(like[i]))
                out[i] = explainer.explain(case.row(i), queries=queries, seed=seed, recipe=recipe)
            continue
        X = case.instances.iloc[rows] if case.kind == "table" else [case.row(i) for i in rows]
        found = explainer.explain_many(X, queries=queries, seed=seed)
        for i, e in zip(rows, found, strict=True):
            out[i] = e
    return out


def kept_names(e: Any) -> tuple[str, ...]:
    """Names of the features that a published run kept."""
    return tuple(name for name, on in zip(e.names, e.selected[:, 0], strict=True) if on)


def sign(model: Any) -> float:
    """−1 if the other class of two is explained, whose importances have the other sign."""
    return -1.0 if isinstance(model, _Other) else 1.0
