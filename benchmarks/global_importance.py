"""Mean importances over a portfolio: coverage, and model rows against shap's explainers averaged.

Run it with ``make bench-global``; ``--quick`` takes few runs of three populations and writes
nothing. ``--chosen`` runs the populations that the estimators were chosen on. Populations are kept
in ``out/global`` with the number of runs, so that a run that was stopped goes on; delete the folder
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

import numpy as np
from joblib import Parallel, delayed

import credex as cx
from benchmarks.global_cases import CHOSEN, REPORTED, Population
from benchmarks.global_rare_cases import RARE, build
from benchmarks.timing import publish, table

KEPT = Path(__file__).resolve().parent.parent / "out" / "global"
RUNS = 12
QUERIES = 800
WIDTH = 0.2  # of the largest mean |φ|
PEER_ROWS = 16
"""Rows that a peer explains; its error for any other number follows from them."""

INTRODUCTION = """\
The target is the mean |φ| over all rows of a portfolio, with φ over all background rows. Exact
values of every row come from enumeration, closed forms, or shap's TreeExplainer. {runs} runs a
population, each with a seed of its own (other rows, coalitions and background rows). Coverage is
the share of 95 % intervals that hold the exact mean, over runs and features: of mean |φ| ("size")
and of mean φ. Its standard error is about 0.03 a population, and 0.01 for the mean of all.

"Fixed" spends {queries} model rows, "to a width" stops when every interval is at most {width:.0%}
of the largest mean |φ|. Error is the root mean square over runs and features, divided by the
largest mean |φ|.

Estimators and constants were chosen on: {chosen}. The populations below were not looked at then,
with this reservation: an earlier estimator of mean |φ| was reported on them, with 0.54 for one
feature of "conjunctions" to a width, and the present one, which replaces it for that reason, was
chosen on other populations of that kind and run on these once."""

PEERS = """\
## Model rows against explaining rows with shap and averaging

Rows that reach the error of explain_global to a width. For peers: the error of an average over n
rows has a variance that falls with n and a bias that does not (noise makes |φ| too large, and a few
background rows are not all); both are measured on {rows} rows and give the n that is needed.
"Never": the bias alone is larger. Each peer has the best of its settings for each population,
chosen with the exact answer in view, which no user has: Permutation with 10 or 50 background rows,
Kernel with 10 and 4d or 16d samples or with 50 and 4d, Sampling with 10d or 40d samples. "Exact φ"
is what an explainer without any error would need at one model row a row, and one for each
background row.

sage-importance estimates shares of the loss, another target: [shares of the loss](loss.md)."""


@dataclass(frozen=True)
class Cell:
    """One way of running on one population."""

    coverage: float
    signed: float
    each: list[float]
    error: float
    rows: float
    portfolio: float
    seconds: float


def one(p: Population, seed: int, goal: dict[str, float]) -> tuple[np.ndarray, ...]:
    """Run once: hits of mean |φ| and of mean φ, errors, model rows, rows of X, seconds."""
    start = time.process_time()
    explainer = cx.BayesSHAP(p.predict, p.background)
    found = explainer.explain_global(p.X, seed=seed, progress=False, **goal)
    a, truth, signed = found.of(), p.sizes, p.phi.mean(axis=0)
    near = 1e-9 * truth.max()
    return (
        (a.size.lower <= truth + near) & (truth - near <= a.size.upper),
        (a.signed.lower <= signed + near) & (signed - near <= a.signed.upper),
        a.size.value - truth,
        np.array(found.n_model_rows),
        np.array(found.n_rows),
        np.array(time.process_time() - start),
    )


def cell(p: Population, goal: dict[str, float], runs: int) -> Cell:
    """Run with several seeds."""
    found = [one(p, seed, goal) for seed in range(100, 100 + runs)]
    hits, signed, errors, rows, portfolio, seconds = (np.array(x) for x in zip(*found, strict=True))
    error = float(np.sqrt((errors**2).mean()) / p.sizes.max())
    return Cell(
        float(hits.mean()), float(signed.mean()), hits.mean(axis=0).tolist(), error,
        float(rows.mean()), float(portfolio.mean()), float(seconds.mean()),
    )  # fmt: skip


# -- peers ---------------------------------------------------------------------------------------

Peer = Callable[[Population, Callable[[np.ndarray], np.ndarray], np.ndarray, int], np.ndarray]


def permutation(p: Population, f: Callable[..., np.ndarray], X: np.ndarray, b: int) -> np.ndarray:
    """Shap's PermutationExplainer with one permutation, forwards and backwards."""
    import shap

    rows = p.background[: min(b, len(p.background))]
    masker = shap.maskers.Independent(rows, max_samples=len(rows))
    explainer = shap.PermutationExplainer(f, masker, seed=0)
    return np.asarray(explainer(X, max_evals=2 * X.shape[1] + 1, silent=True).values)


def kernel(p: Population, f: Callable[..., np.ndarray], X: np.ndarray, setting: int) -> np.ndarray:
    """Shap's KernelExplainer."""
    import shap

    b, samples = divmod(setting, 1000)
    np.random.seed(0)  # noqa: NPY002 - shap reads the global state
    explainer = shap.KernelExplainer(f, p.background[:b], silent=True)
    n = samples * X.shape[1]
    return np.asarray(explainer.shap_values(X, nsamples=n, l1_reg=False, silent=True))


def sampling(
    p: Population, f: Callable[..., np.ndarray], X: np.ndarray, samples: int
) -> np.ndarray:
    """Shap's SamplingExplainer on all background rows."""
    import shap

    np.random.seed(0)  # noqa: NPY002
    explainer = shap.SamplingExplainer(f, p.background)
    return np.asarray(explainer.shap_values(X, nsamples=samples * X.shape[1], silent=True))


SETTINGS: dict[str, list[tuple[Peer, int]]] = {
    "Permutation": [(permutation, 10), (permutation, 50)],
    "Kernel": [(kernel, 10_004), (kernel, 10_016), (kernel, 50_004)],
    "Sampling": [(sampling, 10), (sampling, 40)],
}


def needed(p: Population, sizes: np.ndarray, truth: np.ndarray, cost: float, error: float) -> float:
    """Model rows for an error (a share of the largest mean) by averaging |φ̂| over rows."""
    bias = (sizes - truth).mean(axis=0)
    noise = (sizes - truth).var(axis=0, ddof=1) / len(sizes)
    bias2 = np.maximum(bias**2 - noise, 0.0).mean()  # without the error of the bias itself
    spread = (sizes.var(axis=0, ddof=1)).mean()
    left = (error * p.sizes.max()) ** 2 - bias2
    if left <= 0:
        return np.inf
    n = 1.0 / (left / spread + 1.0 / len(p.X))  # out of the rows of the portfolio
    return cost * n


def peers(p: Population, error: float) -> dict[str, float]:
    """Model rows of every peer for this error."""
    rng = np.random.default_rng(5)
    at = rng.choice(len(p.X), PEER_ROWS, replace=False)
    truth, out = np.abs(p.phi[at]), {}
    for name, settings in SETTINGS.items():
        found = [np.inf]
        for run, setting in settings:
            sent = 0

            def counted(rows: np.ndarray) -> np.ndarray:
                nonlocal sent
                sent += len(rows)
                return np.asarray(p.predict(np.asarray(rows, dtype=float)))

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = run(p, counted, p.X[at], setting)
            found.append(needed(p, np.abs(values), truth, sent / len(at), error))
        out[name] = min(found)
    spread = truth.var(axis=0, ddof=1).mean()
    n = 1.0 / ((error * p.sizes.max()) ** 2 / spread + 1.0 / len(p.X))
    out["Exact φ"] = n + len(p.background)
    return out


Found = tuple[str, int, int, Cell, Cell, dict[str, float]]


def population(name: str, runs: int) -> Found:
    """Run everything on one population, or read what was kept of it."""
    kept = KEPT / f"{name.replace(' ', '_').replace(',', '')}-{runs}.json"
    if kept.exists():
        raw = json.loads(kept.read_text(encoding="utf-8"))
        return name, *raw["shape"], Cell(**raw["fixed"]), Cell(**raw["width"]), raw["peers"]
    p = build(name)
    fixed = cell(p, {"queries": QUERIES}, runs)
    wide = cell(p, {"width": WIDTH * float(p.sizes.max())}, runs)
    others = peers(p, wide.error)
    KEPT.mkdir(parents=True, exist_ok=True)
    raw = {"shape": p.X.shape, "fixed": asdict(fixed), "width": asdict(wide), "peers": others}
    kept.write_text(json.dumps(raw), encoding="utf-8")
    print(f"{name}: {fixed.coverage:.3f}, {wide.coverage:.3f}", flush=True)
    return name, *p.X.shape, fixed, wide, others


def main() -> None:
    """Run and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--chosen", action="store_true")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="names of populations")
    args = parser.parse_args()
    names, runs = ((*CHOSEN, *RARE) if args.chosen else REPORTED), args.runs
    if args.quick:
        names, runs = names[:3], 4
    names = args.only or names
    found = Parallel(n_jobs=args.jobs)(delayed(population)(name, runs) for name in names)
    coverage, rows = [], []
    ratios = []
    for name, n, d, fixed, wide, peer in found:
        coverage.append(
            [name, str(n), str(d), f"{fixed.coverage:.3f}", f"{fixed.signed:.3f}",
             f"{fixed.error:.3f}", f"{wide.coverage:.3f}",
             f"{min(wide.each):.2f}", f"{wide.signed:.3f}", f"{wide.error:.3f}",
             f"{wide.rows:,.0f}", f"{wide.portfolio:.0f}", f"{wide.seconds:.1f}"]
        )  # fmt: skip
        best = min(v for k, v in peer.items() if k != "Exact φ")
        ratios.append(wide.rows / best)
        cells = [f"{v:,.0f}" if np.isfinite(v) else "never" for v in peer.values()]
        rows.append([name, f"{wide.error:.3f}", f"{wide.rows:,.0f}", *cells, f"{ratios[-1]:.3f}"])
    pooled = [
        [f"{np.mean([getattr(f[i], key) for f in found]):.3f}" for key in ("coverage", "signed")]
        for i in (3, 4)
    ]
    coverage.append(["mean", "", "", *pooled[0], "", pooled[1][0], "", pooled[1][1], *[""] * 4])
    head = ["population", "rows", "d", "fixed: size", "mean φ", "error", "to a width: size"]
    head += ["worst feature", "mean φ", "error", "model rows", "rows asked", "processor s"]
    body = INTRODUCTION.format(
        runs=runs, queries=QUERIES, width=WIDTH, chosen="; ".join((*CHOSEN, *RARE))
    )
    body += "\n\n## Coverage\n\n" + table(head, coverage)
    body += "\n\n" + PEERS.format(rows=PEER_ROWS) + "\n\n"
    body += table(
        ["population", "error", "explain_global", *SETTINGS, "Exact φ", "÷ best of shap"], rows
    )
    body += f"\n\nMedian of the last column: {np.median(ratios):.3f}; largest {max(ratios):.2f}."
    publish(
        "global", "Global importance", "make bench-global", body, quick=args.quick or args.chosen
    )


if __name__ == "__main__":
    main()
