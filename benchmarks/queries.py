"""Error to exact Shapley values at the same number of queries. Run it with ``make bench-queries``.

BayesSHAP against the estimators of shap, shapiq and LightSHAP on the games of `benchmarks.games`
and `benchmarks.large_games`. The peers run in an environment of their own (`benchmarks.peer_runs`);
`benchmarks.query_runs` says what is run and keeps the results. ``--quick`` measures a few cells and
writes nothing; without the peers' environment it takes the peers of ours.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from benchmarks.peer_runs import LIMIT, LONG, Record, Task
from benchmarks.peers import FEW_PLAYERS, OLD, TERMS
from benchmarks.query_cells import (
    HEAD,
    LINEAR,
    MAIN,
    PAIRS,
    TIE,
    Cell,
    error,
    join,
    number,
    real,
    seconds,
    share,
)
from benchmarks.query_runs import REAL, ROUNDS, STORE, measure, peers_python, rounds
from benchmarks.timing import publish, table

CLOSE = 1.5
"""Cells below this ratio are listed."""

GROUPS: dict[str, Callable[[int], bool]] = {
    "N ≤ 300": lambda n: n <= 300,
    "N = 1,000": lambda n: 300 < n <= 1_000,
    "N > 1,000": lambda n: n > 1_000,
}
REQUIRED = {"N ≤ 300": 3.0, "N = 1,000": 2.0, "N > 1,000": 1.5}
"""Median of best peer ÷ ours over the cells of a group."""
LEAST = 1.0
"""Of best peer ÷ ours on a real model."""
SECONDS = 4.0
"""Processor time of the process at d = 64 and 2,000 queries, at most."""

PLAYERS = ((8, 12), (13, 14), (15, 18), (30, 30), (64, 64), (100, 100))


def summary(cells: list[Cell]) -> str:
    """Medians and minima by budget."""
    head = ["queries", "games", "cells", "best peer ÷ ours: median", "least", "below 1"]
    head += ["best of the old seven ÷ ours: median", "best peer ÷ linear: median"]
    head += ["random pairs ÷ focused: median", "coverage, focused", "random pairs", "linear"]
    rows = []
    for word, inside in GROUPS.items():
        for label, pick in (("real", real), ("all", list)):
            group = [c for c in pick(cells) if inside(c.budget)]
            if not group:
                continue
            least = min(group, key=lambda c: c.against_best)
            covered = [
                share([h for c in group if s in c.ours for h in c.ours[s].intervals()[0]])
                for s in (MAIN, PAIRS, LINEAR)
            ]
            rows.append(
                [
                    word,
                    label,
                    str(len(group)),
                    median(c.against_best for c in group),
                    f"{number(least.against_best)} ({least.name})",
                    str(sum(c.against_best < 1 for c in group)),
                    median(c.against_old for c in group),
                    median(c.linear_against_best for c in group),
                    median(c.against_pairs for c in group),
                    *covered,
                ]
            )
    return table(head, rows)


def median(ratios: Iterable[float]) -> str:
    """Format a median; a dash if there is none."""
    found = [x for x in ratios if not np.isnan(x)]
    return number(float(np.median(found))) if found else "–"


def by_players(cells: list[Cell], ratio: Callable[[Cell], float]) -> str:
    """Medians over real models, players against queries; the least and the cells in brackets."""
    columns: tuple[tuple[str, Callable[[Cell], bool]], ...] = (
        ("2d", lambda c: c.budget == 2 * c.game.d),
        ("to 300", lambda c: 2 * c.game.d < c.budget <= 300),
        ("1,000", lambda c: c.budget == 1_000),
        ("2,000–4,000", lambda c: 1_000 < c.budget <= 4_000),
        ("10,000", lambda c: c.budget > 4_000),
    )
    rows = []
    for low, high in PLAYERS:
        row = [f"{low}–{high}" if low < high else str(low)]
        for _, inside in columns:
            here = [c for c in real(cells) if low <= c.game.d <= high and inside(c)]
            found = [x for x in map(ratio, here) if not np.isnan(x)]
            text = f"{median(found)} (least {number(min(found))} of {len(found)})" if found else "–"
            row.append(text)
        rows.append(row)
    return table(["d", *(word for word, _ in columns)], rows)


def peer_by_peer(cells: list[Cell]) -> str:
    """How far each peer is from ours, and what it costs."""
    head = ["peer", "cells", "best in", *(f"÷ ours, {word}" for word in GROUPS)]
    head += ["least on a real model", "its time ÷ ours, median"]
    rows = []
    for peer in sorted({p for c in cells for p in c.peers}):
        own = [c for c in cells if peer in c.peers]
        row = [peer, str(len(own)), str(sum(c.best == peer for c in own))]
        row += [
            median(c.better(peer)[0] for c in own if inside(c.budget)) for inside in GROUPS.values()
        ]
        least = min(real(own), key=lambda c: c.better(peer)[0], default=None)
        row.append(f"{number(least.better(peer)[0])} ({least.name})" if least else "–")
        times = [c.peers[peer][c.better(peer)[1]].seconds / c.ours[MAIN].seconds for c in own]
        rows.append([*row, number(float(np.median(times)))])
    return table(head, rows)


def errors_and_times(cells: list[Cell]) -> str:
    """Every peer in every cell: RMSE and seconds, in the setting that is best there."""
    names = [p for p in OLD if any(p in c.peers for c in cells)]
    names += sorted({p for c in cells for p in c.peers} - set(names))
    settings = (MAIN, PAIRS, LINEAR)
    rows = []
    for c in cells:
        tried = {name: c.peers[name][c.better(name)[1]] for name in names if name in c.peers}
        tried |= c.ours
        words = [
            f"{error(tried[who].rmse())} ({seconds(tried[who].seconds)})"
            if who in tried
            else c.outcomes.get(who, "–").split(":")[0]
            for who in (*settings, *names)
        ]
        rows.append([c.game.name, str(c.game.d), str(c.budget), *words])
    return table(["game", "d", "N", *settings, *names], rows)


def coverage(cells: list[Cell]) -> str:
    """95 % intervals of the peers that give standard errors, and ours on the same runs."""
    head = ["peer", "queries", "cells", "its coverage", "its mean width"]
    head += [f"{s}: {what}" for s in (MAIN, PAIRS, LINEAR) for what in ("coverage", "width")]
    rows = []
    for peer in ("ShaplEIG", "LightSHAP"):
        for word, inside in GROUPS.items():
            pools: dict[str, tuple[list[bool], list[float]]] = defaultdict(lambda: ([], []))
            count = 0
            for c in cells:
                if peer not in c.peers or not inside(c.budget):
                    continue
                runs = c.peers[peer][c.better(peer)[1]]
                finite = {k for k, r in runs.records.items() if np.isfinite(r.lower or []).all()}
                keys = finite & c.ours[MAIN].records.keys()
                count += bool(keys)
                for who, those in ((peer, runs), *c.ours.items()):
                    hits, widths = those.intervals(keys)
                    pools[who][0].extend(hits)
                    pools[who][1].extend(widths)
            if count:
                row = [peer, word, str(count)]
                for who in (peer, MAIN, PAIRS, LINEAR):
                    hits, widths = pools[who]
                    row += [share(hits), f"{np.mean(widths):.3g}" if widths else "–"]
                rows.append(row)
    return table(head, rows) if rows else ""


def close_cells(cells: list[Cell]) -> str:
    """Cells where the best peer is ahead or near."""
    near = sorted((c for c in cells if c.against_best < CLOSE), key=lambda c: c.against_best)
    head = ["game", "kind", "d", "N", "best peer ÷ ours", "best peer", "its RMSE", "ours", "linear"]
    rows = [
        [
            c.game.name,
            "real" if c.game.name in REAL else "synthetic",
            str(c.game.d),
            str(c.budget),
            "tie" if c.ours[MAIN].rmse() < TIE and c.against_best == 1 else number(c.against_best),
            c.best_words,
            *c.best_errors,
            c.linear_error,
        ]
        for c in near
    ]
    return table(head, rows) if rows else f"No cell below {CLOSE}."


def verdicts(cells: list[Cell]) -> str:
    """What is required and what was measured."""
    figures: list[tuple[str, float, float, bool]] = []
    for word, limit in REQUIRED.items():
        group = [c for c in cells if GROUPS[word](c.budget)]
        rest = [c for c in group if c.budget > 2 * c.game.d]
        for which, part in (("", group), (", N = 2d left out", rest)):
            if part and (not which or len(rest) < len(group)):
                x = float(np.median([c.against_best for c in part]))
                words = f"best peer ÷ ours, median of {len(part)} cells with {word}{which}"
                figures.append((words, x, limit, x >= limit))
    least = min(real(cells), key=lambda c: c.against_best)
    x = least.against_best
    figures.append(
        (f"best peer ÷ ours, least on a real model ({least.name})", x, LEAST, x >= LEAST)
    )
    times = [c.ours[MAIN].seconds for c in cells if (c.game.d, c.budget) == (64, 2_000)]
    if times:
        x = float(np.median(times))
        figures.append(("processor seconds at d = 64, N = 2,000", x, SECONDS, x <= SECONDS))
    return "\n".join(
        f"- {what}: {number(x)}, required {limit:.2f}: {'met' if met else 'NOT MET'}"
        for what, x, limit, met in figures
    )


def notes(cells: list[Cell], records: list[Record], versions: dict[str, str]) -> str:
    """How the figures were made."""
    over: dict[str, int] = {}
    for r in records:
        if r.asked > r.budget:
            over[r.method] = max(over.get(r.method, 0), r.asked - r.budget)
    spent = "; ".join(f"{name} by {n}" for name, n in over.items())
    runs = [len(c.ours[MAIN].records) for c in cells]
    planned = ", ".join(f"{k} up to {n:,} queries" for n, k in ROUNDS.items())
    limited = " and ".join(f"{name} up to {d} players" for name, d in FEW_PLAYERS.items())
    total = np.nansum([r.seconds for r in records]) / 60
    return (
        f"Errors are RMSEs to exact Shapley values, divided by mean |φ| of the game, pooled over "
        f"runs: {min(runs)} to {max(runs)} a cell (planned: {planned}), each another instance as "
        f"long as there are any. Ours is the Gaussian process with its default sampler, linear the "
        "linear posterior. A peer's ratio is taken over the runs that both have; of several "
        f"settings the better one counts, cell by cell. Peers: "
        + ", ".join(f"{name} {v}" for name, v in versions.items())
        + ". N counts every coalition asked, the empty and the full one and repeats included. "
        + (f"Asked more than N: {spent}. " if spent else "No method asked for more. ")
        + "Budgets above 2^d/2 are left out. "
        f"A tie is both below {TIE:.0e} and counts as 1; if only ours is, the ratio is a lower "
        "bound. Seconds (s) are processor time beside the game, the median of the runs, one "
        f"thread. A run may take {LIMIT:.0f} s, and a setting that passed this is not tried with "
        f"as many players and queries or more; one that took more than {LONG:.0f} s is run once "
        f"in a cell. {limited}; PolySHAP has at most {TERMS:,} terms. Coverage is that of "
        "nominal 95 % intervals and leaves out widths of zero; a peer's interval is ± 1.96 "
        f"standard errors. All runs together took {total:.0f} min of processor time."
    )


def unfinished(cells: list[Cell], work: list[list[Task]]) -> list[str]:
    """Say how much of the plan is measured, if not all."""
    planned = Counter((t.game, t.budget) for tasks in work for t in tasks)
    done = {(c.game.name, c.budget): len(c.ours[MAIN].records) for c in cells}
    if all(done.get(cell, 0) >= n for cell, n in planned.items()):
        return []
    words = (
        f"**Not complete: {len(done)} of {len(planned)} cells and {sum(done.values())} of "
        f"{planned.total()} runs of ours so far.** One or two runs a cell are too few to trust a "
        "single ratio, and the best of more than twenty settings of peers on few runs is lower "
        "than it would be on many. `make bench-queries` goes on from the stored runs."
    )
    return [words]


def page(
    cells: list[Cell],
    records: list[Record],
    versions: dict[str, str],
    work: list[list[Task]],
    *,
    quick: bool,
) -> str:
    """All tables."""
    parts = [*unfinished(cells, work), summary(cells)]
    if not quick:  # a few runs decide nothing
        parts += [
            verdicts(cells),
            "## Players and queries\n\nBest peer ÷ ours (Gaussian process), real models: median.",
            by_players(cells, lambda c: c.against_best),
            "Best peer ÷ the linear posterior:",
            by_players(cells, lambda c: c.linear_against_best),
            f"## Where it is close\n\nEvery cell in which best peer ÷ ours is below {CLOSE}.",
            close_cells(cells),
            "## Peer by peer\n\nMedian of peer ÷ ours over cells.",
            peer_by_peer(cells),
            "## Coverage side by side\n\nOn the same runs; widths relative to mean |φ|.",
            coverage(cells),
            "## Every cell",
        ]
    parts.append(table(HEAD, [c.row() for c in cells]))
    if not quick:
        parts += ["## Every error\n\nRMSE (processor seconds).", errors_and_times(cells)]
        parts.append("## How it was measured")
    parts.append(notes(cells, records, versions))
    return "\n\n".join(parts)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few cells, printed only")
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=1, help="2: peers beside ours")
    parser.add_argument("--stored", action="store_true", help="write the page from stored runs")
    parser.add_argument("--peers", type=Path, help="interpreter of the peers' environment")
    given = parser.parse_args()
    python = peers_python(given.peers)
    if python is None and not given.quick:
        parser.error("the peers' environment is missing: run `make bench-queries`, which makes it")
    if python is None:
        print("No environment of the peers (make peers): only those of ours, none of 2026.")
        python = Path(sys.executable)
    work = rounds(quick=given.quick)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if given.quick else STORE
        options = {"quick": given.quick, "stored": given.stored, "jobs": given.jobs}
        ours, peers, versions = measure(python, work, folder, **options)
    body = page(join(ours, peers), [*ours, *peers], versions, work, quick=given.quick)
    title = "Error at the same number of queries"
    publish("queries", title, "make bench-queries", body, quick=given.quick)


if __name__ == "__main__":
    main()
