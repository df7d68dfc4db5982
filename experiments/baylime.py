"""Informative priors (BayLIME): what right, wrong and no prior knowledge do."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import credex as cx
from experiments.canvas import COLOURS, GREY, tidy
from experiments.cases import Case, tables
from experiments.result import Result, measured
from experiments.spread import two_way

QUERIES = 100
LARGE = 10_000
PRECISIONS = (1.0, 10.0, 100.0)
KINDS = ("none", "right", "wrong")


def cases(*, quick: bool) -> list[Case]:
    """Return the cases of this experiment."""
    return [case for case in tables(quick=quick) if case.name != "COMPAS, rearrest"]


def run(*, quick: bool) -> Result:
    """Explain with priors around the truth, around its negative, and around zero."""
    instances, seeds = (3, 3) if quick else (40, 20)
    cells: dict[str, Any] = {}
    rows = []
    for case in cases(quick=quick):
        lime = case.explainer("BayesLIME")
        X = case.first(instances)
        truth = lime.explain_many(X, queries=LARGE, seed=10**6).mean
        asked = [
            [(e.history.rows.design(), e.history.rows.y()[:, 0], e.history.rows.w()) for e in found]
            for found in (
                lime.explain_many(X, queries=QUERIES, seed=s)
                for s in tqdm(range(seeds), disable=None, leave=False, desc=case.name)
            )
        ]
        for kind in KINDS:
            for precision in PRECISIONS:
                if kind != "none" or precision == 1.0:
                    name = f"{case.name}, {kind}" + (
                        f", λ = {precision:g}" if kind != "none" else ""
                    )
                    cells[name] = measure(asked, truth, kind, precision)
                    c = cells[name]
                    rows.append(
                        (
                            name,
                            measured(*c["spread"], digits=0, unit=" %"),
                            measured(*c["error"], digits=0, unit=" %"),
                            measured(*c["robust"], unit=" %"),
                            measured(*c["plain"], unit=" %"),
                        )
                    )

    def mean(kind: str, what: str) -> float:
        end = kind if kind == "none" else f"{kind}, λ = 100"
        return float(np.mean([c[what][0] for n, c in cells.items() if n.endswith(end)]))

    spread, error = (partial(mean, what=what) for what in ("spread", "error"))
    plain, robust = mean("wrong", "plain"), mean("wrong", "robust")
    return Result(
        name="baylime",
        title="Informative priors (Zhao et al.'s BayLIME)",
        claim=(
            "Zhao et al. (cited in the paper) find that informative priors make explanations more "
            "consistent; the paper keeps its priors uninformative. (No figure in the paper.)"
        ),
        ran=(
            f"BayesLIME, N = {QUERIES}, {instances} test rows, {seeds} seeds, shared by the rows. "
            f"Prior mean: 0 (none), the answer of {LARGE:,} perturbations (right), or its negative "
            "(wrong), with precision λ (λ = 1 is lime's ridge). Spread and error (root mean "
            "square) relative to the mean |φ|; coverage of 95 % intervals, credex's and the "
            "paper's homoscedastic ones."
        ),
        head=(
            "data, prior",
            "spread between seeds",
            "error",
            "held, credex",
            "held, `robust=False`",
        ),
        rows=tuple(rows),
        verdict="no figure in the paper",
        why=(
            f"With λ = 100 the spread between seeds is {spread('right'):.0f} % of the mean |φ| "
            f"under a right prior and {spread('wrong'):.0f} % under a wrong one, against "
            f"{spread('none'):.0f} % without; the error is {error('right'):.0f}, "
            f"{error('wrong'):.0f} and {error('none'):.0f} %. Runs that agree need not be right. "
            f"Under the wrong prior the paper's intervals hold the true value {plain:.0f} % of the "
            f"time, credex's, which include the prior's pull, {robust:.0f} %."
        ),
        data=cells,
    )


def measure(
    asked: list[list[tuple[np.ndarray, ...]]], truth: np.ndarray, kind: str, precision: float
) -> dict[str, Any]:
    """Spread, error and coverage with one kind of prior on ``asked[seed][instance]``."""
    seeds, shape = len(asked), (len(truth), len(asked))
    mean = np.zeros((*shape, truth.shape[1]))
    hits = {"robust": np.zeros(shape), "plain": np.zeros(shape)}
    sign = {"none": 0.0, "right": 1.0, "wrong": -1.0}[kind]
    for i, star in enumerate(truth):
        prior = cx.Prior(mean=sign * star, precision=precision)
        for s in range(seeds):
            Z, y, w = asked[s][i]
            p = cx.LinearPosterior.fit(Z, y, w, prior=prior)
            mean[i, s] = p.mean
            for name, robust in (("robust", True), ("plain", False)):
                hits[name][i, s] = 100 * p.interval(robust=robust).covers(star).mean()
    size = np.abs(truth).mean(axis=1)
    error = np.sqrt(((mean - truth[:, None]) ** 2).mean(axis=2)) / size[:, None]
    centre = mean.mean(axis=1, keepdims=True)
    spread = np.sqrt(((mean - centre) ** 2).mean(axis=2) * seeds / (seeds - 1)) / size[:, None]
    return {
        "spread": two_way(100 * spread),
        "error": two_way(100 * error),
        "robust": two_way(hits["robust"]),
        "plain": two_way(hits["plain"]),
    }


def picture(result: Result, figure: Figure) -> None:
    """Error against spread, and coverage of both kinds of interval."""
    names = list(result.data)
    figure.set_size_inches(8.6, 1.3 + 0.3 * len(names))
    left, right = (tidy(ax) for ax in figure.subplots(1, 2, sharey=True))
    at = np.arange(len(names))
    for ax, offset, key, colour, label in (
        (left, -0.15, "spread", "blue", "spread between seeds"),
        (left, 0.15, "error", "orange", "error"),
        (right, -0.15, "robust", "blue", "credex"),
        (right, 0.15, "plain", "orange", "robust=False"),
    ):
        ax.errorbar(
            [c[key][0] for c in result.data.values()],
            at + offset,
            xerr=[1.96 * c[key][1] for c in result.data.values()],
            fmt="o",
            color=COLOURS[colour],
            markersize=4,
            label=label,
        )
    right.axvline(95, color=GREY, linewidth=0.8)
    left.set_yticks(at, names)
    left.invert_yaxis()
    left.set_xscale("log")
    left.set_xlabel("% of the mean |φ|")
    right.set_xlabel("% of 95 % intervals that hold the value")
    for ax in (left, right):
        ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
