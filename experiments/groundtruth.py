"""A piecewise linear function whose explanation is known: are tight intervals close to it."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

import credex as cx
from experiments.canvas import COLOURS, tidy
from experiments.result import Result, Verdict, judged, measured

SIZES = (10, 20, 50, 100, 200, 500, 1_000)
COEFFICIENTS = {
    (True, True): (0.3, 0.2),
    (True, False): (0.2, -0.1),
    (False, False): (-1.0, -0.05),
    (False, True): (-0.8, 0.2),
}
"""By x > 0 and y > 0."""


def f(X: np.ndarray) -> np.ndarray:
    """Return the paper's function of two variables."""
    out = np.zeros(len(X))
    for (right, up), c in COEFFICIENTS.items():
        at = ((X[:, 0] > 0) == right) & ((X[:, 1] > 0) == up)
        out[at] = X[at] @ c
    return out


def run(*, quick: bool) -> Result:
    """Explain points all over the plane with growing N."""
    points = 20 if quick else 300
    rng = np.random.default_rng(0)
    train = rng.normal(size=(10_000, 2))
    X = rng.uniform(-4, 4, (points, 2))
    truth = np.array([COEFFICIENTS[(bool(x > 0), bool(y > 0))] for x, y in X])
    scale = train.std(axis=0)  # importances are per standard deviation
    lime = cx.BayesLIME(f, cx.Tabular(train, bins=None, around="instance"))
    distance = np.zeros((len(SIZES), points))
    width = np.zeros_like(distance)
    for k, n in enumerate(SIZES):
        for i, x in enumerate(X):
            e = lime.explain(x, queries=n, seed=i)
            distance[k, i] = np.abs(e.mean / scale - truth[i]).sum()
            width[k, i] = (e.interval().width / scale).max()
    within = [spearmanr(width[:, i], distance[:, i]).statistic for i in range(points)]
    across = [spearmanr(width[k], distance[k]).statistic for k in range(len(SIZES))]
    pooled = float(spearmanr(width.ravel(), distance.ravel()).statistic)
    se = float(np.std(within, ddof=1) / np.sqrt(points))
    far = np.abs(X).min(axis=1) > 2.5
    rows = [
        ("rank correlation, all points and N", "rises together", measured(pooled, digits=2)),
        (
            "rank correlation as N grows, mean over points",
            "rises together",
            measured(float(np.mean(within)), se, digits=2),
        ),
    ]
    rows += [
        (
            f"rank correlation over points, N = {n}",
            "–",
            measured(float(c), 1 / np.sqrt(points - 1), digits=2),
        )
        for n, c in zip(SIZES, across, strict=True)
        if n in (10, 100, 1_000)
    ]
    quarter = np.quantile(width[-1], (0.25, 0.75))
    tight, wide = distance[-1][width[-1] <= quarter[0]], distance[-1][width[-1] >= quarter[1]]
    rows += [
        (
            "L1 distance, N = 1,000, tightest quarter of points",
            "small",
            f"{tight.mean():.4f} ± {tight.std() / np.sqrt(len(tight)):.4f}",
        ),
        (
            "L1 distance, N = 1,000, widest quarter of points",
            "larger",
            f"{wide.mean():.3f} ± {wide.std() / np.sqrt(len(wide)):.3f}",
        ),
    ]
    quarters = float(tight.mean()), float(wide.mean())
    verdict, why = judge(float(pooled), float(np.mean(within)), quarters)
    return Result(
        name="groundtruth",
        title="A function whose explanation is known",
        claim=(
            "On a piecewise linear function the L1 distance from BayesLIME's means to the "
            "coefficients of the quadrant falls with the widest interval: tighter is closer."
        ),
        ran=(
            f"The paper's function, {points} points uniform on [−4, 4]², perturbations normal "
            f"around each with standard deviation 1, N = {SIZES[0]} to {SIZES[-1]:,}, a seed for "
            "each point."
        ),
        head=("what", "paper", "credex"),
        rows=tuple(rows),
        verdict=verdict,
        why=(
            f"{why}At N = 1,000 the distance to one quadrant's coefficients is "
            f"{distance[-1][far].mean():.4f} far from the edges and {distance[-1][~far].mean():.3f}"
            " near them, where the neighbourhood has two linear pieces: the interval is that of "
            "the local linear fit, which is then not the quadrant's."
        ),
        data={"sizes": list(SIZES), "width": width, "distance": distance, "across": across},
    )


def judge(pooled: float, within: float, quarters: tuple[float, float]) -> tuple[Verdict, str]:
    """Judge rank correlations over all runs and for each point, and the quarters of points."""
    return judged(
        {
            f"widest interval and distance rise together (rank correlation {pooled:.2f})": (
                pooled > 0.5
            ),
            f"the same for one point as N grows ({within:.2f})": within > 0.5,
            "the quarter of points with the tightest intervals is nearer than the widest": (
                quarters[0] < quarters[1]
            ),
        }
    )


def picture(result: Result, figure: Figure) -> None:
    """L1 distance against the widest interval, coloured by N."""
    figure.set_size_inches(7.0, 4.0)
    ax = tidy(figure.subplots())
    width, distance = (np.array(result.data[k]) for k in ("width", "distance"))
    shown = [(10, "orange"), (100, "green"), (1_000, "blue")]
    for n, colour in shown:
        k = result.data["sizes"].index(n)
        ax.loglog(
            width[k],
            distance[k],
            ".",
            color=COLOURS[colour],
            markersize=5,
            alpha=0.6,
            label=f"N = {n:,}",
        )
    low, high = width[width > 0].min(), width.max()
    ax.loglog([low, high], [low, high], ":", color="#6b6b6b", label="equal")
    ax.set_xlabel("widest 95 % interval")
    ax.set_ylabel("L1 distance to the quadrant's coefficients")
    ax.legend(frameon=False)
