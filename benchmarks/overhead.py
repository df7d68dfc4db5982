"""Time per explanation as a multiple of what cannot be avoided: a near-free model, and real ones.

The floor is drawing the perturbations, the model on the same rows in one call, and one solve.
Everything above it is overhead: bookkeeping, checks, and the honest intervals that peers do not
give. Run it with ``make bench-overhead``.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

import credex as cx
from benchmarks.timing import publish, table, together, yardstick
from credex.designs.coalitions import ShapleySequence

FLOOR, REAL, LIME, SHAP = 2.0, 1.3, 15.0, 20.0


@dataclass(frozen=True)
class Problem:
    """Training data, instances to explain, and a model of one output."""

    X: Any
    others: Sequence[Any]
    model: Callable[[Any], np.ndarray]


def near_free(d: int) -> Problem:
    """Return a logistic function of normal numbers, which costs next to nothing."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(1000, d))
    w = rng.normal(size=d)
    return Problem(X, X[:32] + 0.1, lambda A: 1 / (1 + np.exp(-(A @ w))))


def real_models() -> dict[str, Problem]:
    """Models as people have them, on twelve columns of the breast cancer data."""
    from sklearn.compose import make_column_transformer
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame, y = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = frame.iloc[:, :12]
    X = frame.to_numpy()
    mixed = frame.iloc[:, :10].assign(
        size=np.where(X[:, 0] > 14, "large", "small"),
        ward=np.random.default_rng(0).choice(["a", "b", "c"], len(X)),
    )
    scaled = make_column_transformer(
        (StandardScaler(), list(frame.columns[:10])), (OneHotEncoder(), ["size", "ward"])
    )

    def of(model: Any, data: Any) -> Problem:
        model.fit(data, y)
        rows = [data.iloc[i] for i in range(32)] if hasattr(data, "iloc") else data[:32]
        return Problem(data, rows, lambda A: model.predict_proba(A)[:, 1])

    logistic = LogisticRegression(max_iter=2000)
    return {
        "logistic regression": of(make_pipeline(StandardScaler(), logistic), X),
        "gradient boosting": of(HistGradientBoostingClassifier(random_state=0), X),
        "forest of 100 trees": of(RandomForestClassifier(100, random_state=0), X),
        "pipeline on a mixed frame": of(make_pipeline(scaled, LogisticRegression()), mixed),
    }


def solve(z: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """One weighted ridge regression."""
    zw = z * w[:, None]
    a = zw.T @ z + np.eye(z.shape[1])
    return cho_solve(cho_factor(a), zw.T @ y)


def _rounds(p: Problem, n: int) -> int:
    """More turns where one is short: what is quick is also what noise spoils."""
    return 40 if n * p.X.shape[1] <= 50_000 else 8


def lime_cell(p: Problem, n: int) -> dict[str, float]:
    """BayesLIME, its floor, and lime (which takes arrays only)."""
    from lime.lime_tabular import LimeTabularExplainer

    ours, f, x = cx.BayesLIME(p.model, p.X), p.model, p.others[0]
    here = ours.domain.at(x)
    kernel = cx.Exponential()
    seeds, others = count(), cycle(p.others)

    def floor() -> np.ndarray:
        drawn = here.perturb(next(seeds), 0, n)  # a fresh seed each time: it remembers nothing
        y = f(drawn.inputs())
        w = kernel.weights(drawn.design, here.design_at)
        return solve(drawn.design.astype(float), y, w)

    tasks: dict[str, Callable[[], object]] = {
        "ours": lambda: ours.explain(next(others), queries=n, seed=next(seeds)).interval(),
        "again": lambda: ours.explain(next(others), queries=n).interval(),
        "floor": floor,
    }
    if isinstance(p.X, np.ndarray):
        theirs = LimeTabularExplainer(p.X, mode="regression", random_state=0)
        many = p.X.shape[1]
        tasks["peer"] = lambda: theirs.explain_instance(
            next(others), f, num_features=many, num_samples=n
        )
    return together(tasks, rounds=_rounds(p, n), runs=8)


def shap_cell(p: Problem, n: int) -> dict[str, float]:
    """BayesSHAP, its floor, and shap's KernelExplainer (arrays only) on one background row."""
    import shap

    f, x = p.model, p.others[0]
    row = p.X[40:41]
    ours = cx.BayesSHAP(f, row, posterior="linear")
    here = ours.domain.at(x)
    d = int(here.active.sum())
    seeds, others = count(), cycle(p.others)

    def floor() -> np.ndarray:
        half = ShapleySequence(d, next(seeds), paired=True).units(0, (n - 2) // 2)
        z = np.ones((2 * len(half), len(here.active)), dtype=np.bool_)
        z[: len(half), here.active] = half
        z[len(half) :, here.active] = ~half
        rows, _ = here.coalition_inputs(z)
        return solve(z.astype(float), f(rows), np.ones(len(z)))

    tasks: dict[str, Callable[[], object]] = {
        "ours": lambda: ours.explain(next(others), queries=n, seed=next(seeds)).interval(),
        "again": lambda: ours.explain(next(others), queries=n).interval(),
        "floor": floor,
    }
    if isinstance(p.X, np.ndarray):
        theirs = shap.KernelExplainer(f, row)

        def peer() -> object:
            with redirect_stderr(io.StringIO()):
                return theirs.shap_values(next(others), nsamples=n, silent=True)

        tasks["peer"] = peer
    return together(tasks, rounds=_rounds(p, n), runs=8)


def cells(p: Problem, n: int) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Both explainers: name, peer, seconds."""
    yield "BayesLIME", "lime", lime_cell(p, n)
    yield "BayesSHAP", "shap", shap_cell(p, n)


def row(head: list[str], name: str, peer: str, t: dict[str, float]) -> list[str]:
    """One line of a table."""
    out = [
        name,
        *head,
        f"{1e3 * t['again']:.1f} ms",
        f"{t['again'] / t['floor']:.2f}×",
        f"{t['peer'] / t['again']:.1f}× {peer}" if "peer" in t else "–",
        f"{t['ours'] / t['floor']:.2f}×",
        f"{t['peer'] / t['ours']:.1f}× {peer}" if "peer" in t else "–",
    ]
    print("  ".join(out), flush=True)
    return out


def memory() -> float:
    """Peak MB of a BayesSHAP run with N = 100,000 at d = 50, in a fresh process."""
    code = """
import tracemalloc, credex as cx
f = lambda m: m[:, 0] + m[:, 1] * m[:, 2]
ex = cx.BayesSHAP(f, cx.Masks(50))
ex.explain(queries=300).interval()
tracemalloc.start()
ex.explain(queries=100_000).interval()
print(tracemalloc.get_traced_memory()[1] / 2**20)
"""
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    return float(done.stdout)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one size, printed only")
    quick = parser.parse_args().quick
    sizes = [(12, 1000)] if quick else [(d, n) for d in (12, 20, 50, 100) for n in (1000, 4000)]
    free = [row([str(d), f"{n:,}"], *cell) for d, n in sizes for cell in cells(near_free(d), n)]
    real = [
        row([model, f"{n:,}"], *cell)
        for model, problem in real_models().items()
        for n in ((100,) if quick else (100, 1000))
        for cell in cells(problem, n)
    ]
    columns = ["time", "of the floor", "faster than", "new seed", "faster than"]
    body = "## A near-free model\n\n" + table(["explainer", "d", "N", *columns], free)
    body += "\n\n## Real models, twelve columns\n\n"
    body += table(["explainer", "model", "N", *columns], real)
    body += f"\n\nTargets: at most {FLOOR:g}× the floor on the near-free model at d = 12, and"
    body += f" {REAL}× on real ones; at d = 12 at least {LIME:g}× faster than lime and {SHAP:g}×"
    body += " than shap's KernelExplainer on the near-free model. The floor is drawing the"
    body += " perturbations, the model on the same rows in one call, and one solve, by NumPy and"
    body += " credex's own drawing. One background row. Another instance in every run.\n"
    body += "\nTime, floor and peer are of `explain(x, queries=N)`: with the default seed the masks"
    body += " are drawn once per explainer. The last two columns: a new seed for every run, so that"
    body += " they are drawn each time, as the floor's are. lime and shap take no mixed frames.\n"
    body += f"\nPeak memory of 100,000 queries at d = 50: {memory():.0f} MB above the baseline"
    body += f" (target: under 200). A 2000×2000 matrix product took {yardstick():.2f} s here."
    publish("overhead", "Overhead per explanation", "make bench-overhead", body, quick=quick)


if __name__ == "__main__":
    main()
