"""A portfolio of 100,000 rows on every engine. Run it with ``make bench-scale``.

Each job runs in a process of its own (`benchmarks.scale_jobs`). Efficiency is against one local
process: by the wall clock, on which other programs of the machine weigh, and by processor time,
which says what an engine adds and not how long its workers waited.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import credex as cx
from benchmarks.scale_jobs import (
    COLUMNS,
    ENGINES,
    GOALS,
    NAMES,
    QUERIES,
    TREES,
    WORKERS,
    Boosted,
    Forest,
    explainer,
    reference,
    rows,
)
from benchmarks.timing import publish, table

ONE = "local, 1 process"
LOCAL, ENGINE, FLAT, PEER = 0.8, 0.7, 0.2, 10.0
"""Targets: efficiency of two local processes and of engines, growth of memory, speed by peers'."""

BILLION, SHARES = 1e9, (0.5, 0.9)
"""Rows of the estimate, and the share of a cluster's processors that work, at least and at most."""

BUSY = 0.2
"""Processors that other programs may use before the wall clock says nothing about an engine."""

FULL = 100_000
"""Rows of the portfolio, unless there are to be fewer."""

MOST_SAMPLES, REFERENCE = 12_800, 20_000
"""Most samples that a peer is given to reach our error; queries that stand for the truth."""

LIMIT = 1800
"""Seconds after which a job is given up."""


def job(name: str, n: int, folder: Path) -> dict[str, Any]:
    """Run one job and return its figures."""
    command = [sys.executable, "-m", "benchmarks.scale_jobs", name, str(n), str(folder)]
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1].split("\r")[-1])
    print(f"{name:20} {n:7,} rows {found['seconds']:7.1f} s", flush=True)
    return found


def rate(explain: Callable[[Any], object], given: list[Any]) -> float:
    """Rows per second of processor time, after one call that is thrown away.

    Garbage of what ran before is collected first: it is not this one's.
    """
    explain(given[0])
    gc.collect()
    begun = time.process_time()
    for x in given:
        explain(x)
    return len(given) / (time.process_time() - begun)


def off(found: Iterable[Any], truth: np.ndarray) -> float:
    """Root mean square error of importances."""
    return float(np.sqrt(((np.array(list(found)) - truth) ** 2).mean()))


def same_error(call: Callable[[Any, int], Any], given: list[Any], truth: Any, goal: float) -> int:
    """Samples with which a peer is as near to the truth as ``goal``, between powers of two."""
    n, before = QUERIES, np.inf
    while n <= MOST_SAMPLES:
        error = off((call(x, n) for x in given), truth)
        if error <= goal:
            share = 1.0 if before == np.inf else np.log(before / goal) / np.log(before / error)
            return round(n if before == np.inf else n / 2 * 2**share)
        n, before = 2 * n, error
    return n


def by_shap(model: Boosted) -> Callable[[Any, int], Any]:
    """Return shap's KernelExplainer of a model: an instance and samples to importances."""
    import shap

    kernel = shap.KernelExplainer(model, reference(model.train).to_numpy())
    return lambda x, n: kernel.shap_values(x, nsamples=n, l1_reg=False, silent=True)


def by_lime(model: Boosted) -> Callable[[Any, int], Any]:
    """Return lime's explainer of a model: an instance and samples to coefficients."""
    from lime.lime_tabular import LimeTabularExplainer

    lime = LimeTabularExplainer(model.train, mode="regression", random_state=0)

    def run(x: Any, n: int) -> list[float]:
        e = lime.explain_instance(x, model, num_samples=n, num_features=COLUMNS)
        return [weight for _, weight in sorted(e.local_exp[1])]

    return run


def peers(name: str, model: Boosted, n: int, ours_n: int) -> list[list[str]]:
    """Compare shap and lime row by row with ours on a frame of rows, in processor time.

    Peers have as many samples as we have queries, and as many as they need for the same error.
    """
    given = rows(ours_n)
    few = list(given[NAMES].to_numpy()[:n])
    lines = []
    for peer, call, kind in (
        ("shap.KernelExplainer", by_shap(model), cx.BayesSHAP),
        ("lime", by_lime(model), cx.BayesLIME),
    ):
        ours = explainer(kind, model)
        fast = ours_n * rate(partial(frame_of, ours), [given] * 2)
        asked = partial(ours.explain_many, given[NAMES].iloc[:n], progress=False)
        truth = np.array([e.mean for e in asked(queries=REFERENCE, seed=1)])
        goal = off((e.mean for e in asked(queries=QUERIES)), truth)
        with redirect_stderr(io.StringIO()):
            samples = same_error(call, few, truth, goal)
            theirs = [rate(partial(call, n=m), few) for m in (QUERIES, samples)]
        ratios = [fast / each for each in theirs]
        words = [name, kind.__name__, f"{fast:,.0f}", peer, f"{theirs[0]:,.1f}"]
        words += [f"{ratios[0]:.1f}×", f"{samples:,}", f"{theirs[1]:,.1f}", f"{ratios[1]:.1f}×"]
        lines.append([*words, met(ratios[1] >= PEER)])
        print("  ".join(lines[-1]), flush=True)
    return lines


def frame_of(ours: Any, given: Any) -> object:
    """Explain a frame."""
    return list(ours.frames([given], **GOALS))


def met(good: bool) -> str:  # noqa: FBT001 - what was found
    """Say whether a target is met."""
    return "yes" if good else "no"


def speeds(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Rows per second and efficiency, a line for each engine."""
    one, lines = found[ONE], []
    for name, f in found.items():
        n = 1 if name == ONE else WORKERS
        wall, cpu = one["seconds"] / f["seconds"] / n, one["cpu"] / f["cpu"]
        target = LOCAL if name.startswith("local") else ENGINE
        figures = [name, f"{f['start']:.0f}", f"{f['rows'] / f['seconds']:,.0f}"]
        figures += [f"{f['rows'] / f['cpu']:,.0f}", f"{f['others']:.1f}"]
        if name == ONE:
            lines.append([*figures, "1", "1", "–"])
        else:
            busy = max(one["others"], f["others"]) > BUSY
            told = f"{'busy' if busy else met(wall >= target)} / {met(cpu >= target)}"
            lines.append([*figures, f"{wall:.2f}", f"{cpu:.2f}", f"≥ {target}: {told}"])
    return lines


def memory(small: dict[str, dict[str, Any]], large: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Peak memory with few and with many rows, a line for each engine."""
    lines = []
    for name in large:
        before, after = small[name]["peak"], large[name]["peak"]
        own = [sum(peak[k] for k in ("main", "workers")) for peak in (before, after)]
        line = [f"{before[k]:,.0f} → {after[k]:,.0f}" if after[k] else "–" for k in after]
        lines.append([name, *line, f"{own[1] / own[0]:.2f}", met(abs(own[1] / own[0] - 1) <= FLAT)])
    return lines


def estimate(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Hours for 10⁹ rows, by the processor time that an engine took for each row."""
    lines = []
    for name in ("ray", "spark"):
        each = found[name]["cpu"] / found[name]["rows"]
        line = [name, f"{each * 1e3:.2f} ms", f"{BILLION * each / 3600:,.0f}"]
        for n in (100, 1000):
            hours = [BILLION * each / (n * share) / 3600 for share in reversed(SHARES)]
            line.append(f"{hours[0]:.1f}–{hours[1]:.1f} h")
        lines.append(line)
    return lines


def report(
    small: dict[str, Any], large: dict[str, Any], against: list[list[str]], peer_rows: int
) -> str:
    """Put the tables and what they are of below each other."""
    n, few = large[ONE]["rows"], small[ONE]["rows"]
    head = ["engine", "start-up s", "rows/s", "rows per processor s", "others", "efficiency"]
    body = f"{n:,} rows × {COLUMNS} columns, LightGBM of {TREES} trees, BayesSHAP with {QUERIES} "
    body += "queries per row and the median row as background (median width of the 95 % intervals "
    body += f"{large[ONE]['width']:.3f}), read from Parquet and written to Parquet. "
    body += f"{WORKERS} workers except in the first line; {os.cpu_count()} processors.\n\n"
    body += table([*head, "by processor time", "target: met by clock / processor"], speeds(large))
    digests = {f["digest"] for f in large.values()}
    same = "the same, bit by bit, on all engines" if len(digests) == 1 else "NOT the same"
    body += f"\n\nEstimates and intervals of the {n:,} rows are {same}. Start-up (engine, workers, "
    body += "the first 2,000 rows) is not in the other figures. *Others*: processors that other "
    body += "programs of the machine used meanwhile; the wall clock suffers from them, processor "
    body += f"time says what an engine adds. Above {BUSY:g} of them the verdict by the clock is "
    body += "*busy*. Efficiency is against the first line.\n\n"
    body += f"## Memory\n\nPeak resident MB, {few:,} → {n:,} rows. Servers are the JVM, Ray's "
    body += "raylet and its control store; the ratio is of the rest. Ray reads the footers of "
    body += f"Parquet files with {WORKERS} processes instead of 32 "
    body += "(`RAY_DATA_PARQUET_FOOTER_NUM_ACTORS`).\n\n"
    head = ["engine", "main process", "workers", "servers", "ratio", "within ±20 %"]
    body += table(head, memory(small, large))
    body += "\n\n## Against peers, row by row\n\nRows per second of processor time, one process, "
    body += f"the same model; peers on {peer_rows} rows. Ours have {QUERIES} queries and their "
    body += f"intervals, peers {QUERIES} samples, and as many as they take to be as near to the "
    body += f"truth, which {REFERENCE:,} queries with another seed stand for.\n\n"
    head = ["model", "credex", "rows/s", "peer", f"rows/s, {QUERIES} samples", "ratio"]
    head += ["samples for the same error", "rows/s", "ratio", f"≥ {PEER:g}×"]
    body += table(head, against)
    body += "\n\n## 10⁹ rows\n\nhours = 10⁹ × processor seconds per row ÷ (processors × share that "
    body += (
        f"works) ÷ 3600, with a share from {SHARES[1]:g} to {SHARES[0]:g}: an estimate from two "
    )
    body += "workers of one machine, for this model and these queries. A slower model adds its own "
    body += f"time for {QUERIES} rows to each row.\n\n"
    head = ["engine", "per row", "processor hours", "100 processors", "1,000 processors"]
    return body + table(head, estimate(large))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="4,000 rows, printed only")
    parser.add_argument("--rows", type=int, default=FULL, help="for a busy machine")
    given = parser.parse_args()
    quick, peer_rows = given.quick, 10 if given.quick else 100
    n, few = (4_000, 2_000) if quick else (given.rows, given.rows // 10)
    with tempfile.TemporaryDirectory() as folder:
        against = peers(f"LightGBM, {TREES} trees", Boosted(), peer_rows, 1_000)
        against += peers("forest, 100 trees", Forest(), peer_rows, 1_000)
        small = {name: job(name, few, Path(folder)) for name in ENGINES}
        large = {name: job(name, n, Path(folder)) for name in ENGINES}
    body = report(small, large, against, peer_rows)
    command = "make bench-scale" + (f" ARGS='--rows {n}'" if n != FULL else "")
    publish("scale", "A portfolio on every engine", command, body, quick=quick)


if __name__ == "__main__":
    main()
