"""Shares of the loss over a portfolio: coverage, and model rows against sage-importance.

Part of ``make bench-global``; ``--quick`` takes few runs of three populations and writes nothing.
``--chosen`` runs the populations that the estimator was chosen on. Populations are kept in
``out/loss`` with the number of runs, so that a run that was stopped goes on; delete the folder
after a change of the source.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import credex as cx
from benchmarks.loss_cases import CHOSEN, LEAST, REPORTED, LossPopulation, build, enumerated
from benchmarks.timing import publish, table

KEPT = Path(__file__).resolve().parent.parent / "out" / "loss"
RUNS = 10
QUERIES = 800
WIDTH = 0.2  # of the largest share
FEW = (8, 16)
"""Background rows of the peers beside all of them."""

PEER_RUNS, PEER_SAMPLES = 6, 256

INTRODUCTION = """\
The target is the share of each feature in what a model takes off its loss (SAGE values), over all
rows of a labelled portfolio, with predictions averaged over all background rows inside the loss.
Exact values come from enumeration: every coalition of every row on every background row. {runs}
runs a population, each with a seed of its own. Coverage is the share of 95 % intervals that hold
the exact value, over runs and features; its standard error is about 0.03 a population (features of
one run err together), and 0.01 for the mean of all.

"Fixed" spends {queries} model rows, "to a width" stops when every interval is at most {width} of
the largest share. Error is the root mean square over runs and features, divided by the largest
share; "bias" is the root mean square of the mean error of all runs, of which the runs themselves
leave about a third of the error if there is none.

The estimator and its constants were chosen on: {chosen}. The populations below were not run before
that was done. A first run of the first two, with 16 runs each (fixed 0.990 and 0.979, to a width
0.969 and 0.948), was stopped to save time; nothing changed after it but the number of runs."""

PEERS = """\
## Model rows against sage-importance

Model rows that reach the error of explain_loss to a width, for sage-importance 0.0.6 with its
`MarginalImputer`. The variance of its estimators falls with the number of samples and is measured
({runs} runs of {samples} samples); the bias of fewer background rows ({few} instead of all) does
not fall, and is exact, by enumeration. "Never": the bias alone is larger. For each estimator the
best number of background rows is taken, chosen with the exact answer in view, which no user has.
Rows with which it checks its input are not counted."""


@dataclass(frozen=True)
class Cell:
    """One way of running on one population."""

    coverage: float
    each: list[float]
    error: float
    bias: float
    rows: float
    portfolio: float
    seconds: float


def one(p: LossPopulation, seed: int, goal: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """Run once: hits, errors, model rows, rows of X, seconds."""
    start = time.process_time()
    explainer = cx.BayesSHAP(p.predict, p.background)
    found = explainer.explain_loss(p.X, p.y, loss=p.loss, seed=seed, progress=False, **goal)
    near = 1e-9 * np.abs(p.phi).max()
    return (
        (found.lower <= p.phi + near) & (p.phi - near <= found.upper),
        found.mean - p.phi,
        np.array(found.n_model_rows),
        np.array(found.n_rows),
        np.array(time.process_time() - start),
    )


def cell(p: LossPopulation, goal: dict[str, Any], runs: int) -> Cell:
    """Run with several seeds."""
    found = [one(p, seed, goal) for seed in range(100, 100 + runs)]
    hits, errors, rows, portfolio, seconds = (np.array(x) for x in zip(*found, strict=True))
    top = np.abs(p.phi).max()
    bias = np.sqrt((errors.mean(axis=0) ** 2).mean())
    return Cell(
        float(hits.mean()), hits.mean(axis=0).tolist(),
        float(np.sqrt((errors**2).mean()) / top), float(bias / top),
        float(rows.mean()), float(portfolio.mean()), float(seconds.mean()),
    )  # fmt: skip


# -- peers ---------------------------------------------------------------------------------------

Run = Callable[[Any, LossPopulation, str, int], np.ndarray]


def permutation(imputer: Any, p: LossPopulation, loss: str, seed: int) -> np.ndarray:
    """Values by sage's PermutationEstimator."""
    import sage

    found = sage.PermutationEstimator(imputer, loss, random_state=seed)(
        p.X, p.y, batch_size=PEER_SAMPLES, n_permutations=PEER_SAMPLES,
        detect_convergence=False, bar=False,
    )  # fmt: skip
    return np.asarray(found.values)


def kernel(imputer: Any, p: LossPopulation, loss: str, seed: int) -> np.ndarray:
    """Values by sage's KernelEstimator."""
    import sage

    found = sage.KernelEstimator(imputer, loss, random_state=seed)(
        p.X, p.y, batch_size=PEER_SAMPLES, n_samples=PEER_SAMPLES,
        detect_convergence=False, bar=False,
    )  # fmt: skip
    return np.asarray(found.values)


SETTINGS: dict[str, Run] = {"Permutation": permutation, "Kernel": kernel}


def peers(p: LossPopulation, error: float) -> dict[str, float]:
    """Model rows of every peer for this error (a share of the largest φ)."""
    import sage

    def model(rows: np.ndarray) -> np.ndarray:
        out = p.predict(rows)
        return np.clip(out, LEAST, 1.0) if p.loss == "cross-entropy" else out

    loss = {"squared error": "mse", "cross-entropy": "cross entropy"}[p.loss]
    (n, d), limit = p.X.shape, (error * np.abs(p.phi).max()) ** 2
    out = dict.fromkeys(SETTINGS, np.inf)
    for b in (*FEW, len(p.background)):
        rows = p.background[:b]
        expected = enumerated(p.loss, model, p.X, p.y, rows).mean(axis=0)
        left = limit - ((expected - p.phi) ** 2).mean()
        if left <= 0:
            continue
        imputer = sage.MarginalImputer(model, rows)
        for name, run in SETTINGS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = np.array([run(imputer, p, loss, seed) for seed in range(PEER_RUNS)])
            samples = PEER_SAMPLES * ((values - expected) ** 2).mean() / left
            once, each = (0, (d + 1) * b) if name == "Permutation" else (2 * n * b, 2 * b)
            out[name] = min(out[name], once + each * max(samples, 1.0))
    return out


Found = tuple[str, str, int, int, Cell, Cell, dict[str, float]]


def population(name: str, runs: int) -> Found:
    """Run everything on one population, or read what was kept of it."""
    kept = KEPT / f"{name.replace(' ', '_').replace(',', '')}-{runs}.json"
    if kept.exists():
        raw = json.loads(kept.read_text(encoding="utf-8"))
        fixed, wide = Cell(**raw["fixed"]), Cell(**raw["width"])
        return name, raw["loss"], *raw["shape"], fixed, wide, raw["peers"]
    p = build(name)
    fixed = cell(p, {"queries": QUERIES}, runs)
    wide = cell(p, {"width": WIDTH * float(np.abs(p.phi).max())}, runs)
    others = peers(p, wide.error)
    KEPT.mkdir(parents=True, exist_ok=True)
    raw = {"fixed": asdict(fixed), "width": asdict(wide), "peers": others}
    raw |= {"shape": p.X.shape, "loss": p.loss}
    kept.write_text(json.dumps(raw), encoding="utf-8")
    print(
        f"{name}: {fixed.coverage:.3f}, {wide.coverage:.3f}; {wide.rows:.0f}, {others}", flush=True
    )
    return name, p.loss, *p.X.shape, fixed, wide, others


def main() -> None:
    """Run and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--chosen", action="store_true")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="names of populations")
    args = parser.parse_args()
    names, runs = (CHOSEN if args.chosen else REPORTED), args.runs
    if args.quick:
        names, runs = names[::5], 4  # both losses
    names = args.only or names
    found = Parallel(n_jobs=args.jobs)(delayed(population)(name, runs) for name in names)
    coverage, rows, ratios = [], [], []
    for name, loss, n, d, fixed, wide, peer in found:
        coverage.append(
            [name, loss, str(n), str(d), f"{fixed.coverage:.3f}", f"{fixed.error:.3f}",
             f"{fixed.bias:.3f}", f"{wide.coverage:.3f}", f"{wide.error:.3f}", f"{wide.bias:.3f}",
             f"{wide.rows:,.0f}", f"{wide.portfolio:.0f}", f"{wide.seconds:.1f}"]
        )  # fmt: skip
        ratios.append(wide.rows / min(peer.values()))
        cells = [f"{v:,.0f}" if np.isfinite(v) else "never" for v in peer.values()]
        rows.append([name, f"{wide.error:.3f}", f"{wide.rows:,.0f}", *cells, f"{ratios[-1]:.4f}"])
    pooled = [f"{np.mean([f[i].coverage for f in found]):.3f}" for i in (4, 5)]
    coverage.append(["mean", "", "", "", pooled[0], "", "", pooled[1], *[""] * 5])
    head = ["population", "loss", "rows", "d", "fixed: coverage", "error", "bias"]
    head += ["to a width: coverage", "error", "bias", "model rows", "rows asked", "processor s"]
    body = INTRODUCTION.format(runs=runs, queries=QUERIES, width=WIDTH, chosen="; ".join(CHOSEN))
    body += "\n\n## Coverage\n\n" + table(head, coverage)
    few = " or ".join(map(str, FEW))
    body += "\n\n" + PEERS.format(runs=PEER_RUNS, samples=PEER_SAMPLES, few=few) + "\n\n"
    body += table(["population", "error", "explain_loss", *SETTINGS, "÷ best of sage"], rows)
    body += f"\n\nMedian of the last column: {np.median(ratios):.3f}; largest {max(ratios):.3f}."
    publish(
        "loss", "Shares of the loss", "make bench-global", body, quick=args.quick or args.chosen
    )


if __name__ == "__main__":
    main()
