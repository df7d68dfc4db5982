"""The toy surfaces: 1,000 runs of LIME against one run of BayesLIME."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from tqdm import tqdm

import credex as cx
from experiments.canvas import COLOURS, tidy
from experiments.result import Result, Verdict, judged, measured
from experiments.spread import mean_se

INSTANCE = np.array([1.0, 1.0])
SIZES = (250, 25)
LARGE = 100_000
FLAT = 1e-9
"""Precision of a prior that does not pull."""


def linear(X: np.ndarray) -> np.ndarray:
    """Return x₁."""
    return X[:, 0]


def curved(X: np.ndarray) -> np.ndarray:
    """Return 10·sin(x₁/2) + cos(10 + x₁x₂/2)·cos(x₁)."""
    return np.sin(X[:, 0] / 2) * 10 + np.cos(10 + X[:, 0] * X[:, 1] / 2) * np.cos(X[:, 0])


SURFACES = {"linear": linear, "non-linear": curved}


def run(*, quick: bool) -> Result:
    """Run LIME many times and BayesLIME once on each surface and size."""
    runs, repeats = (30, 10) if quick else (1_000, 200)
    train = np.random.default_rng(0).normal(size=(10_000, 2))
    domain = cx.Tabular(train, bins=None, around="instance")
    rows, data = [], {}
    for surface, f in SURFACES.items():
        bayes = cx.BayesLIME(f, domain)
        truth = bayes.explain(INSTANCE, queries=LARGE, seed=10**6).mean
        for n in SIZES:
            lime = lime_runs(f, train, n, runs)
            many = [bayes.explain(INSTANCE, queries=n, seed=s) for s in range(repeats)]
            one = many[0]
            sd = lime.std(axis=0, ddof=1)
            ratio = mean_se(np.array([np.mean(e.sd / sd) for e in many]))
            hold = mean_se(np.array([100 * e.interval().covers(truth).mean() for e in many]))
            flat = [
                bayes.explain(INSTANCE, queries=n, seed=s, prior=cx.Prior(precision=FLAT))
                for s in range(repeats)
            ]
            own = np.mean([e.sd for e in flat], axis=0) / np.std(
                [e.mean for e in flat], axis=0, ddof=1
            )
            rows.append(
                (
                    f"{surface}, N = {n}",
                    "picture",
                    f"{sd[0]:.3g}",
                    f"{one.sd[0]:.3g}",
                    measured(*ratio, digits=2),
                    measured(*hold, unit=" %"),
                )
            )
            data[f"{surface}, {n}"] = {
                "lime": lime[:1_000],
                "mean": one.mean,
                "covariance": one.covariance,
                "dof": one.dof,
                "ratio": ratio,
                "flat": float(own.mean()),
                "hold": hold,
                "sd": sd,
                "one": one.sd,
            }
    verdict, why = judge(data)
    return Result(
        name="toy",
        title="Toy surfaces: one run knows how much a thousand runs differ",
        claim=(
            "1,000 runs of LIME differ, more so with 25 perturbations than with 250 and on the "
            "non-linear surface; the credible region of one BayesLIME run shows how much."
        ),
        ran=(
            "The paper's two surfaces at (1, 1), perturbations normal around it with standard "
            f"deviation 1 (the paper does not say), N = 25 and 250; {runs:,} runs of the lime "
            f"package with as many seeds, one run of BayesLIME (seed 0), and {repeats} more of it "
            "for the averages."
        ),
        head=(
            *("surface", "paper", "sd of φ₁, LIME's runs", "sd of φ₁, one BayesLIME run"),
            *("BayesLIME's sd ÷ LIME's, all runs", "95 % intervals that hold φ*"),
        ),
        rows=tuple(rows),
        verdict=verdict,
        why=why,
        data=data,
    )


def judge(data: dict[str, Any]) -> tuple[Verdict, str]:
    """Judge the size of one run's region: by N, by surface, against φ* and LIME's runs."""
    wide = {k: float(np.mean(v["one"])) for k, v in data.items()}
    ratio = {n: data[f"non-linear, {n}"]["ratio"][0] for n in SIZES}
    flat = {n: data[f"non-linear, {n}"]["flat"] for n in SIZES}
    verdict, claims = judged(
        {
            "the region of one run is wider with fewer perturbations": all(
                wide[f"{s}, 25"] > wide[f"{s}, 250"] for s in SURFACES
            ),
            "it is wider on the non-linear surface": all(
                wide[f"non-linear, {n}"] > wide[f"linear, {n}"] for n in SIZES
            ),
            "its 95 % intervals hold the answer of 100,000 perturbations": all(
                v["hold"][0] + 1.96 * v["hold"][1] >= 93 for v in data.values()
            ),
            "on the non-linear surface its standard deviations are those of LIME's runs to a "
            "quarter": all(0.75 <= r <= 1.25 for r in ratio.values()),
        }
    )
    each = " and ".join(f"{ratio[n]:.2f} (N = {n})" for n in SIZES)
    without = " and ".join(f"{flat[n]:.2f}" for n in SIZES)
    return verdict, claims + (
        f"On the non-linear surface the region's standard deviation is {each} times that of LIME's "
        f"runs, with a flat prior {without} times. The prior's share is the pull of the ridge "
        "towards zero, which all of LIME's runs have in common."
    )


def lime_runs(f: Any, train: np.ndarray, n: int, runs: int) -> np.ndarray:
    """Coefficients ``(runs, 2)`` of the lime package, a seed for each run."""
    from lime.lime_tabular import LimeTabularExplainer

    out = np.zeros((runs, 2))
    for s in tqdm(range(runs), disable=None, leave=False, desc=f"lime, N = {n}"):
        explainer = LimeTabularExplainer(
            train,
            mode="regression",
            discretize_continuous=False,
            sample_around_instance=True,
            random_state=s,
        )
        e = explainer.explain_instance(INSTANCE, f, num_features=2, num_samples=n)
        for j, value in e.local_exp[1]:
            out[s, j] = value
    return out


def picture(result: Result, figure: Figure) -> None:
    """Runs of LIME as dots, the 95 % region of one BayesLIME run as an ellipse."""
    from scipy.stats import f as snedecor

    figure.set_size_inches(8.6, 3.0)
    names = [f"{s}, {n}" for s in SURFACES for n in SIZES]
    for ax, name in zip(figure.subplots(1, 4), names, strict=True):
        cell = result.data[name]
        points = np.array(cell["lime"])
        tidy(ax).plot(
            *points.T, ".", color=COLOURS["blue"], markersize=2, alpha=0.4, rasterized=True
        )
        values, vectors = np.linalg.eigh(np.array(cell["covariance"]))
        radius = np.sqrt(2 * snedecor.ppf(0.95, 2, cell["dof"]) * np.maximum(values, 0))
        angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
        ax.add_patch(
            Ellipse(
                tuple(cell["mean"]),
                2 * radius[1],
                2 * radius[0],
                angle=angle,
                fill=False,
                color="black",
                linewidth=1.4,
            )
        )
        ax.plot(*cell["mean"], "k+", markersize=7)
        ax.set_title(
            f"{name.split(',')[0]}, N = {name.split(' ')[-1]}", loc="left", fontsize="medium"
        )
        ax.set_xlabel("φ₁")
        ax.tick_params(labelsize="x-small")
        ax.locator_params(nbins=4)
        ax.margins(0.15)
    figure.axes[0].set_ylabel("φ₂")
