"""Figure 1: one instance of COMPAS at 100 and at 2,000 perturbations."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.canvas import COLOURS, GREY, tidy
from experiments.cases import table
from experiments.result import Result, Verdict, judged, measured
from experiments.spread import mean_se

FEW, MANY = 100, 2_000


def run(*, quick: bool) -> Result:
    """Explain test rows with few and with many perturbations."""
    instances = 10 if quick else 200
    case = table("german" if quick else "compas")
    lime = case.explainer("BayesLIME")
    at = range(instances)
    runs = {
        n: [lime.explain(case.instances.iloc[i], queries=n, seed=i) for i in at]
        for n in (FEW, MANY)
    }
    few, many = runs[FEW], runs[MANY]
    overlap = {n: np.array([overlapping(e) for e in runs[n]]) for n in runs}
    changed = np.array([a.top(1) != b.top(1) for a, b in zip(few, many, strict=True)])
    inside = np.array([a.interval().covers(b.mean).mean() for a, b in zip(few, many, strict=True)])
    width = {n: np.array([e.interval().width.max() for e in runs[n]]) for n in runs}
    shares = {
        "the two largest overlap, 100": mean_se(100 * overlap[FEW]),
        "the two largest overlap, 2,000": mean_se(100 * overlap[MANY]),
        "largest feature changes": mean_se(100 * changed),
        "2,000's values inside 100's intervals": mean_se(100 * inside),
        "widest interval shrinks by": mean_se(width[FEW] / width[MANY]),
    }
    shown = int(np.argmax(overlap[FEW] & ~overlap[MANY]))
    first = {n: summary(runs[n][shown]) for n in runs}
    verdict, why = judge({name: share for name, (share, _) in shares.items()})
    return Result(
        name="figure1",
        title="Figure 1: the same instance with few and with many perturbations",
        claim=(
            "With 100 perturbations the intervals of a COMPAS instance overlap, so it is unclear "
            "which feature matters most, and LIME's order is luck; with 2,000 they separate."
        ),
        ran=(
            f"BayesLIME on the first {instances} test rows of {case.name}, a seed for each, N = "
            f"{FEW} and {MANY:,}. The picture shows test row {shown}, the first whose two largest "
            "importances overlap at 100 and are apart at 2,000."
        ),
        head=("over all rows", "paper", "credex"),
        rows=(
            row(
                "rows whose two largest importances overlap, N = 100",
                "picture",
                shares["the two largest overlap, 100"],
            ),
            row("the same, N = 2,000", "picture", shares["the two largest overlap, 2,000"]),
            row(
                "rows whose largest importance is another feature's",
                "picture",
                shares["largest feature changes"],
            ),
            row(
                "values at N = 2,000 inside the intervals of N = 100",
                "–",
                shares["2,000's values inside 100's intervals"],
            ),
            (
                "widest interval, N = 100 ÷ N = 2,000 (√20 = 4.5)",
                "–",
                measured(*shares["widest interval shrinks by"], digits=2, unit="×"),
            ),
        ),
        verdict=verdict,
        why=why,
        data={"first": {str(n): v for n, v in first.items()}, "shares": shares},
    )


def judge(shares: dict[str, float]) -> tuple[Verdict, str]:
    """Judge the picture by all rows: it must be so in most of them."""
    few, many = (shares[f"the two largest overlap, {n}"] for n in ("100", "2,000"))
    verdict, claims = judged(
        {
            "at N = 100 the two largest importances overlap in most rows": few > 50,
            "at N = 2,000 they are apart in most rows": many < 50,
            "values at N = 2,000 are inside the intervals of N = 100 at least nine times in ten": (
                shares["2,000's values inside 100's intervals"] >= 90
            ),
        }
    )
    return verdict, claims + (
        f"With {FEW} perturbations the two largest importances cannot be told apart in {few:.0f} % "
        f"of the rows, with {MANY:,} in {many:.0f} %."
    )


def overlapping(e: Any) -> bool:
    """Whether the intervals of the two largest |φ| overlap, signs left aside."""
    m, i = np.abs(e.mean), e.interval()
    a, b = np.argsort(-m, kind="stable")[:2]
    return bool(m[a] - i.width[a] / 2 < m[b] + i.width[b] / 2)


def summary(e: Any) -> dict[str, Any]:
    """What the picture needs of an explanation."""
    i = e.interval()
    return {
        "labels": list(e.labels),
        "mean": e.mean.tolist(),
        "lower": i.lower.tolist(),
        "upper": i.upper.tolist(),
    }


def row(label: str, paper: str, cell: tuple[float, float]) -> tuple[str, str, str]:
    """A row in per cent."""
    return label, paper, measured(*cell, unit=" %")


def picture(result: Result, figure: Figure) -> None:
    """Intervals of one row, N = 100 left and N = 2,000 right; orange raises, blue lowers."""
    figure.set_size_inches(8.6, 3.9)
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    order = np.argsort(np.abs(result.data["first"][str(MANY)]["mean"]))
    for ax, n in zip(axes, (FEW, MANY), strict=True):
        e = result.data["first"][str(n)]
        tidy(ax).axvline(0, color=GREY, linewidth=0.8)
        for at, j in enumerate(order):
            colour = COLOURS["orange"] if e["mean"][j] > 0 else COLOURS["blue"]
            ax.plot([e["lower"][j], e["upper"][j]], [at, at], color=colour, linewidth=5, alpha=0.35)
            ax.plot(e["mean"][j], at, "o", color=colour, markersize=5)
        ax.set_title(f"{n:,} perturbations", loc="left", fontsize="medium")
        ax.set_xlabel("importance for a high score")
    labels = result.data["first"][str(MANY)]["labels"]
    axes[0].set_yticks(range(len(order)), [labels[j] for j in order])
