"""Consistency: the same instance explained again with other seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

from experiments.canvas import COLOURS, GREY, tidy
from experiments.cases import Case, tables
from experiments.peers import lime_values, shap_values
from experiments.result import Result, measured
from experiments.spread import mean_se

QUERIES = 300
LEAST = 0.5
"""Per cent of spread below which a ratio is not judged."""


def cases(*, quick: bool) -> list[Case]:
    """Return the cases of this experiment."""
    return [case for case in tables(quick=quick) if case.name != "COMPAS, rearrest"]


def run(*, quick: bool) -> Result:
    """Explain every instance with every seed, by every method."""
    instances, seeds, seeds_gp = (3, 4, 3) if quick else (8, 20, 3)
    data: dict[str, Any] = {}
    for case in cases(quick=quick):
        X = case.first(instances)
        for method in ("BayesLIME", "BayesSHAP"):
            peer = {"BayesLIME": "lime", "BayesSHAP": "shap"}[method]
            bar = tqdm(range(seeds), disable=None, leave=False, desc=f"consistency, {case.name}")
            values = lime_values if peer == "lime" else shap_values
            theirs = np.array(
                [values(case, X.to_numpy(), samples=QUERIES, seed=s) for s in bar]
            )  # (seeds, instances, d)
            size = np.abs(theirs.mean(axis=0)).mean(axis=1)
            data[f"{case.name}, {peer}"] = summary(theirs, None, size)
            for posterior, n in (("linear", seeds), ("gp", seeds_gp)):
                means, sds = ours(case, method, X, n, posterior=posterior)
                name = f"{case.name}, {method}" + (", GP" if posterior == "gp" else "")
                data[name] = summary(means, sds, size)
    return report(data, instances, seeds, seeds_gp)


def report(data: dict[str, Any], instances: int, seeds: int, seeds_gp: int) -> Result:
    """Put the spreads into a table and judge them."""
    rows = []
    for name, cell in data.items():
        own = measured(*cell["own"], digits=2) if "own" in cell else "says nothing"
        rows.append((name, "–", measured(*cell["spread"], unit=" %"), own))
    # where hardly a coalition is left to ask there is hardly a spread to compare with
    ratios = [c["own"][0] for c in data.values() if "own" in c and c["spread"][0] >= LEAST]
    nil = [name for name, c in data.items() if "own" in c and c["spread"][0] < LEAST]
    times = {
        name: cell["spread"][0] / data[f"{name.rsplit(', Bayes')[0]}, {peer}"]["spread"][0]
        for name, cell in data.items()
        for method, peer in (("BayesLIME", "lime"), ("BayesSHAP", "shap"))
        if f", {method}" in name
    }
    each = ", ".join(f"{value:.2f} ({name})" for name, value in times.items())
    return Result(
        name="consistency",
        title="Consistency: the same instance, other seeds",
        claim=(
            "Runs of LIME and SHAP on the same instance differ; the Bayesian versions are highly "
            "consistent and say how much their runs differ. (No figure in the paper.)"
        ),
        ran=(
            f"{instances} test rows, {seeds} seeds each ({seeds_gp} for the Gaussian process), N = "
            f"{QUERIES} for lime and shap, the same background, and for credex as many model rows "
            f"as they take ({QUERIES}, and {QUERIES} on each background row for shap). Spread: "
            "standard deviation between seeds, relative to the mean |φ| of the instance. Last "
            "column: the posterior's own standard deviation over that spread, root mean square "
            "over features; 1 is right, more is on the safe side."
        ),
        head=("data, method", "paper", "spread between runs", "own sd ÷ spread"),
        rows=tuple(rows),
        verdict="no figure in the paper",
        why=(
            f"With as many model rows, the spread between runs is {each} times that of the peer. "
            f"Every run says how large it is: the posterior's own standard deviation is "
            f"{min(ratios):.2f} to {max(ratios):.2f} times the spread."
        ),
        notes=tuple(
            f"{name}: the spread is below {LEAST:g} % and the ratio says little, except that it is "
            "on the safe side."
            for name in nil
        ),
        data=data,
    )


def ours(
    case: Case, method: str, X: Any, seeds: int, *, posterior: str
) -> tuple[np.ndarray, np.ndarray]:
    """Means and posterior standard deviations, ``(seeds, instances, d)``."""
    explainer = case.explainer(method, posterior=posterior)
    queries = case.model_rows(method, QUERIES)
    found = [explainer.explain_many(X, queries=queries, seed=s) for s in range(seeds)]
    return np.array([f.mean for f in found]), np.array([[e.sd for e in f] for f in found])


def summary(means: np.ndarray, sds: np.ndarray | None, size: np.ndarray) -> dict[str, Any]:
    """Spread between seeds in per cent of the mean |φ|, and own sd over spread."""
    variance = means.var(axis=0, ddof=1).mean(axis=1)
    out: dict[str, Any] = {"spread": mean_se(100 * np.sqrt(variance) / size)}
    if sds is not None:
        own = np.sqrt((sds**2).mean(axis=(0, 2)))
        free = variance > 1e-24
        out["own"] = mean_se(own[free] / np.sqrt(variance[free]))
    return out


def picture(result: Result, figure: Figure) -> None:
    """Spread of every method, and what each says about itself."""
    names = list(result.data)
    figure.set_size_inches(8.6, 1.2 + 0.3 * len(names))
    left, right = (tidy(ax) for ax in figure.subplots(1, 2, sharey=True, width_ratios=(3, 2)))
    at = np.arange(len(names))
    colour = [
        COLOURS["orange"] if "own" not in c else COLOURS["green" if n.endswith("GP") else "blue"]
        for n, c in result.data.items()
    ]
    left.barh(at, [c["spread"][0] for c in result.data.values()], color=colour)
    left.set_yticks(at, names)
    left.invert_yaxis()
    left.set_xlabel("spread between runs, % of mean |φ|")
    for y, cell in enumerate(result.data.values()):
        if "own" in cell:
            right.errorbar(
                cell["own"][0],
                y,
                xerr=1.96 * cell["own"][1],
                fmt="o",
                color=colour[y],
                markersize=5,
            )
        else:
            right.annotate(
                "says nothing",
                (1, y),
                ha="center",
                va="center",
                color=GREY,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
            )
    right.axvline(1, color=GREY, linewidth=0.8)
    right.set_xlabel("own sd ÷ spread")
    right.set_xlim(left=0)
