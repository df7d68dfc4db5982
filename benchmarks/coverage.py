"""How often the intervals hold the true value. Run it with ``make bench-coverage``.

BayesLIME is checked against its own answer from 20,000 perturbations, BayesSHAP against exact
Shapley values. Standard errors are clustered by instance. Features known without a query (zero
width) are not counted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import credex as cx
from benchmarks.timing import publish, table


@dataclass(frozen=True)
class Coverage:
    """Share of true values inside, with its 95 % interval clustered by instance."""

    share: float
    low: float
    high: float
    runs: int
    width: float

    @classmethod
    def of(cls, hits: list[list[float]], widths: list[float]) -> Coverage:
        """From hit rates ``hits[instance][run]``."""
        means = np.array([np.mean(h) for h in hits if h])
        se = means.std(ddof=1) / np.sqrt(len(means))
        share = float(means.mean())
        runs = sum(len(h) for h in hits)
        return cls(share, share - 1.96 * se, share + 1.96 * se, runs, float(np.mean(widths)))

    def row(self) -> list[str]:
        """Cells of the printed table."""
        return [f"{self.share:.3f}", f"{self.low:.3f} … {self.high:.3f}", str(self.runs)]


def forests() -> Iterator[tuple[str, object, object, dict[str, int]]]:
    """Name, data, fitted forest, target."""
    for name, load, forest, kw in (
        ("breast cancer", load_breast_cancer, RandomForestClassifier, {"target": 1}),
        ("wine", load_wine, RandomForestClassifier, {"target": 0}),
        ("diabetes", load_diabetes, RandomForestRegressor, {}),
    ):
        X, y = load(return_X_y=True, as_frame=True)
        yield name, X, forest(50, random_state=0).fit(X, y), kw


def tally(e: cx.Explanation, truth: np.ndarray, hits: list[float], widths: list[float]) -> None:
    """Count which true values lie inside."""
    i = e.interval()
    counted = i.width > 0
    if counted.any():
        hits.append(float(i.covers(truth)[counted].mean()))
        widths.append(float(i.width[counted].mean()))


def measured(
    explainer: cx.BayesLIME | cx.BayesSHAP,
    rows: Any,
    truth: cx.Explanations,
    *,
    queries: int,
    seeds: int,
) -> Coverage:
    """Coverage of the ``truth`` of some rows, each explained with several seeds of its own."""
    hits: list[list[float]] = [[] for _ in range(len(rows))]
    widths: list[float] = []
    for i in range(len(rows)):
        for seed in range(seeds * i, seeds * (i + 1)):  # no seed twice: rows are independent
            e = explainer.explain(rows.iloc[[i]], queries=queries, seed=seed)
            tally(e, truth[i].mean, hits[i], widths)
    return Coverage.of(hits, widths)


def lime_forest(
    X: object, model: object, kw: dict[str, int], *, queries: int, instances: int, seeds: int
) -> Coverage:
    """BayesLIME on a table, against 20,000 perturbations."""
    lime = cx.BayesLIME(model, X, **kw)
    rows = X.iloc[np.random.default_rng(1).choice(len(X), instances, replace=False)]
    truth = lime.explain_many(rows, queries=20_000, seed=999)
    return measured(lime, rows, truth, queries=queries, seeds=seeds)


def shap_forest(
    X: object, model: object, kw: dict[str, int], *, queries: int, instances: int, seeds: int
) -> Coverage:
    """BayesSHAP on at most ten groups of columns, against exact values."""
    names = list(X.columns)
    groups = {f"group {g}": names[g::10] for g in range(10)} if len(names) > 10 else None
    shap = cx.BayesSHAP(model, cx.Tabular(X, background=10, groups=groups), **kw)
    rows = X.iloc[np.random.default_rng(2).choice(len(X), instances, replace=False)]
    truth = shap.explain_many(rows, posterior="exact")
    return measured(shap, rows, truth, queries=queries, seeds=seeds)


def synthetic(
    method: type[cx.BayesLIME | cx.BayesSHAP],
    *,
    games: int,
    seeds: int,
    explain: Callable[[cx.BayesLIME | cx.BayesSHAP, int, float], cx.Explanation],
) -> Coverage:
    """Curved functions of 12 masks with interactions, against all 4,096 masks."""
    d = 12
    masks = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(float)
    powers = 1 << np.arange(d)
    hits: list[list[float]] = [[] for _ in range(games)]
    widths: list[float] = []
    for g in range(games):
        rng = np.random.default_rng(1000 + g)
        inner = masks @ rng.normal(size=d) / np.sqrt(d)
        inner += np.einsum("ni,ij,nj->n", masks, rng.normal(size=(d, d)) / d, masks)
        values = np.tanh(2 * inner)
        ex = method(lambda z, v=values: v[z @ powers], cx.Masks(d))
        truth = ex.explain(queries=2**d).mean
        for seed in range(seeds):
            e = explain(ex, seeds * g + seed, float(np.abs(truth).max()))
            tally(e, truth, hits[g], widths)
    return Coverage.of(hits, widths)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer budgets and runs, printed only")
    quick = parser.parse_args().quick
    budgets = (100,) if quick else (100, 300)
    rows = []
    for name, X, model, kw in forests():
        for queries in budgets:
            size = {"queries": queries, "instances": 5 if quick else 30, "seeds": 2 if quick else 5}
            for label, measure in (("BayesLIME", lime_forest), ("BayesSHAP", shap_forest)):
                c = measure(X, model, kw, **size)
                rows.append([label, f"forest, {name}", f"{queries} queries", *c.row()])
                print("  ".join(rows[-1]), flush=True)
    for label, method in (("BayesLIME", cx.BayesLIME), ("BayesSHAP", cx.BayesSHAP)):
        for what, explain in (
            ("100 queries", lambda ex, s, _m: ex.explain(queries=100, seed=s)),
            ("width ¼ of the largest", lambda ex, s, m: ex.explain(width=m / 4, seed=s)),
        ):
            c = synthetic(method, games=5 if quick else 30, seeds=5, explain=explain)
            rows.append([label, "curved games, d = 12", what, *c.row()])
            print("  ".join(rows[-1]), flush=True)
    head = ["explainer", "model", "stopped by", "coverage of 95 %", "its own interval", "runs"]
    body = table(head, rows)
    publish("coverage", "Measured coverage", "make bench-coverage", body, quick=quick)


if __name__ == "__main__":
    main()
