"""Cases: a model, what can be switched off in its inputs, and instances to explain.

An experiment loops over a list of cases and knows nothing else about them. A new kind of data is a
new function here that returns a `Case`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import credex as cx
from realdata.forest import Which, forest

__all__ = ["BACKGROUND", "Case", "table", "tables"]

BACKGROUND = 20
"""Training rows that stand in for a switched-off feature in BayesSHAP."""


@dataclass(frozen=True)
class Case:
    """Something to explain.

    Attributes
    ----------
    name, kind
        As tables call it; what kind of data it is.
    model
        One probability for each input.
    lime, shap
        Domains of the two explainers. That of BayesSHAP has few background rows of equal weight,
        so that exact values can be had.
    instances
        Held-out inputs: a frame, or a list.
    paper
        The paper's figures of this case, by experiment and explainer.
    exact
        Exact Shapley values ``(n, d)`` of the first ``n`` instances (a list if they differ in d,
        with ``None`` where there are too many coalitions), or ``None`` if there is no way.
    exact_all
        The same over all training rows of a table as the background.
    train, categorical
        Training rows of a table, for the peers, and its columns of 0 and 1.
    about
        What a reader must know of it.
    """

    name: str
    kind: str
    model: Callable[[Any], np.ndarray]
    lime: Any
    shap: Any
    instances: Any
    paper: dict[str, str]
    exact: Callable[[int], Any] | None = None
    exact_all: Callable[[int], Any] | None = None
    train: Any = None
    categorical: tuple[str, ...] = ()
    about: str = ""

    def explainer(self, method: str, **options: Any) -> cx.BayesLIME | cx.BayesSHAP:
        """Return BayesLIME or BayesSHAP on this case."""
        if method == "BayesLIME":
            return cx.BayesLIME(self.model, self.lime, **options)
        return cx.BayesSHAP(self.model, self.shap, **options)

    def whole(self, **options: Any) -> cx.BayesSHAP:
        """Return BayesSHAP as it comes: on a table, with all training rows as the background."""
        return cx.BayesSHAP(self.model, self.lime if self.kind == "table" else self.shap, **options)

    def model_rows(self, method: str, coalitions: int) -> int:
        """Return the model rows that so many coalitions cost shap: each is asked on every row."""
        if method == "BayesLIME" or self.kind != "table":
            return coalitions
        return coalitions * len(self.shap.at(self.row(0)).background_weights)

    def row(self, i: int) -> Any:
        """Return instance ``i``."""
        return self.instances.iloc[i] if hasattr(self.instances, "iloc") else self.instances[i]

    def first(self, n: int) -> Any:
        """Return the first ``n`` instances."""
        return self.instances[:n]


FIGURES: dict[Which, tuple[str, dict[str, str]]] = {
    "compas": ("COMPAS", {"BayesLIME": "95.5", "BayesSHAP": "87.9"}),
    "rearrest": ("COMPAS, rearrest", {"BayesLIME": "–", "BayesSHAP": "–"}),
    "german": ("German Credit", {"BayesLIME": "96.9", "BayesSHAP": "89.6"}),
}
"""Name, and the paper's Table 1."""


@cache
def table(which: Which) -> Case:
    """Return a table and its forest."""
    f = forest(which)
    name, paper = FIGURES[which]
    rows = f.train.sample(BACKGROUND, random_state=0)

    def exact(n: int) -> np.ndarray:
        return tree_values(f.model, rows.to_numpy(), f.test[:n].to_numpy())

    def exact_all(n: int) -> np.ndarray:
        return tree_values(f.model, f.train.to_numpy(), f.test[:n].to_numpy())

    categorical = list(f.categorical)
    return Case(
        name,
        "table",
        f.probability,
        cx.Tabular(f.train, categorical=categorical),
        cx.Tabular(rows, categorical=categorical, background="all"),
        f.test,
        paper,
        exact,
        exact_all,
        f.train,
        f.categorical,
    )


def tables(*, quick: bool) -> list[Case]:
    """Return the tables: COMPAS with both labels, and German Credit."""
    return [table(w) for w in (("german",) if quick else ("compas", "rearrest", "german"))]


def tree_values(model: Any, background: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Exact Shapley values ``(n, d)`` of class 1, by the trees themselves.

    The rows are rounded to float32 first: scikit-learn's trees compare in float32.
    """
    import shap

    explainer = shap.TreeExplainer(
        model, background.astype(np.float32), feature_perturbation="interventional"
    )
    values = explainer.shap_values(rows.astype(np.float32), check_additivity=False)
    return np.asarray(values, dtype=np.float64)[:, :, 1]
