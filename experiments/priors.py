"""Sensitivity to the prior of the error: the 5 × 5 grid of n0 and σ0² on digit 4."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import credex as cx
from experiments.canvas import COLOURS
from experiments.image_cases import digit
from experiments.result import Result, measured
from experiments.spread import two_way

N0 = (1e-5, 1e-1, 1.0, 10.0, 100.0)
SIGMA0 = (1e-5, 1e-1, 1.0, 10.0, 100.0)
QUERIES = 100

PAPER = (
    (95.7, 95.7, 96.4, 96.6, 96.6),
    (96.6, 96.6, 96.9, 98.9, 100.0),
    (96.5, 96.9, 98.6, 100.0, 100.0),
    (94.2, 98.2, 100.0, 100.0, 100.0),
    (72.2, 99.0, 100.0, 100.0, 100.0),
)
"""By n0 (rows) and σ0² (columns)."""


def run(*, quick: bool) -> Result:
    """Refit the same perturbations with every prior of the grid."""
    instances, seeds, large = (2, 2, 400) if quick else (15, 10, 10_000)
    case = digit(4)
    lime = case.explainer("BayesLIME", recipe="paper")
    X = case.first(instances)
    truth = [e.mean for e in lime.explain_many(X, queries=large, seed=10**6)]
    asked = [
        lime.explain_many(X, queries=QUERIES, seed=s)
        for s in tqdm(range(seeds), disable=None, leave=False, desc="priors")
    ]
    grid = np.zeros((len(N0), len(SIGMA0), 2))
    for r, n0 in enumerate(N0):
        for c, sigma in enumerate(SIGMA0):
            prior = cx.Prior(n0=n0, sigma0_sq=sigma)
            hits = np.zeros((instances, seeds))
            for s, found in enumerate(asked):
                for i, e in enumerate(found):
                    rows = e.history.rows
                    p = cx.LinearPosterior.fit(
                        rows.design(), rows.y()[:, 0], rows.w(), prior=prior, intercept="none"
                    )
                    hits[i, s] = 100 * p.interval().covers(truth[i]).mean()
            grid[r, c] = two_way(hits)
    difference = np.abs(grid[..., 0] - np.array(PAPER))
    worst = np.unravel_index(int(np.argmin(grid[..., 0])), grid.shape[:2])
    same = worst == (len(N0) - 1, 0)
    return Result(
        name="priors",
        title="Figure 5: sensitivity to n0 and σ0²",
        claim=(
            "On digit 4 BayesLIME's calibration depends little on the prior of σ²: 94–100 % over "
            "the grid, except 72.2 % for a strong belief in no error (n0 = 100, σ0² = 1e−5)."
        ),
        ran=(
            f'BayesLIME with `recipe="paper"` on {instances} test digits “4” that a two-layer '
            f"network names rightly, SLIC with about 20 regions, {QUERIES} perturbations, {seeds} "
            f"seeds, against {large:,} perturbations. Per cent of 95 % intervals that hold the "
            "value; the paper's figure in brackets."
        ),
        head=("n0 \\ σ0²", *(f"{s:g}" for s in SIGMA0)),
        rows=tuple(
            (
                f"{n0:g}",
                *(f"{measured(*grid[r, c])} ({PAPER[r][c]:g})" for c in range(len(SIGMA0))),
            )
            for r, n0 in enumerate(N0)
        ),
        verdict="reproduced" if same and difference.max() < 10 else "partly",
        why=(
            "The pattern is the paper's: a larger n0·σ0² widens the intervals until they hold "
            f"everything, and a strong belief in no error narrows them ({grid[-1, 0, 0]:.1f} % in "
            f"that corner, the paper 72.2 %). With next to no prior we find {grid[0, 0, 0]:.1f} % "
            f"(95.7 %). The median difference from the paper's grid is {np.median(difference):.1f} "
            "points. “Robust to the choice of hyperparameters” holds on the safe side only: 100 % "
            "is not calibrated."
        ),
        data={"grid": grid, "paper": PAPER},
    )


def picture(result: Result, figure: Figure) -> None:
    """Two grids: the paper's and ours."""
    figure.set_size_inches(8.6, 3.6)
    ours = np.array(result.data["grid"])[..., 0]
    axes = figure.subplots(1, 2)
    for ax, values, title in (
        (axes[0], np.array(result.data["paper"]), "the paper"),
        (axes[1], ours, "ours"),
    ):
        ax.imshow(np.abs(values - 95), cmap="Blues", vmin=0, vmax=25)
        for (r, c), value in np.ndenumerate(values):
            dark = abs(value - 95) > 14
            ax.text(
                c, r, f"{value:.1f}", ha="center", va="center", color="white" if dark else "black"
            )
        ax.set_xticks(range(len(SIGMA0)), [f"{s:g}" for s in SIGMA0])
        ax.set_yticks(range(len(N0)), [f"{n:g}" for n in N0])
        ax.set_xlabel("σ0²")
        ax.set_ylabel("n0")
        ax.set_title(f"{title}: % held (95 is right)", loc="left", fontsize="medium")
        for spine in ax.spines.values():
            spine.set_color(COLOURS["blue"])
