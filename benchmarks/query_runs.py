"""What ``make bench-queries`` runs: cells, seeds, BayesSHAP itself, and the peers' interpreter.

Results are kept in ``out/queries/``, one file for the versions of the peers and one for the source
of credex, so that a run cut short goes on and a change of credex runs only credex again.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

import credex as cx
from benchmarks import games, large_games
from benchmarks.peer_runs import Record, Task, load, run_all
from benchmarks.peers import Estimator
from benchmarks.stored_games import Counted, Stored, read

ROOT = Path(__file__).resolve().parent.parent
STORE = ROOT / "out" / "queries"

REAL = (*games.REAL, *large_games.REAL)
SYNTHETIC = (*games.SYNTHETIC, *large_games.SYNTHETIC)
QUICK_GAMES = ("digits_rf", "wine_knn", "diabetes_gbr", "ands14", "cancer30_rf")

ROUNDS = {300: 5, 1_000: 3, 10_000: 2}
"""Runs of a cell by its budget, each another instance as long as there are any."""

SLOW_ROUNDS = 2


def explain(game: Counted, budget: int, seed: int, **options: str) -> np.ndarray:
    """One explanation of ours: mean and both ends of the 95 % intervals, ``(3, d)``."""
    e = cx.BayesSHAP(game, cx.Masks(game.d), **options).explain(queries=budget, seed=seed)
    interval = e.interval()
    return np.stack([e.mean, interval.lower, interval.upper])


OURS: dict[str, dict[str, Estimator]] = {
    "credex": {
        "gp": partial(explain, posterior="gp"),
        "gp, random pairs": partial(explain, posterior="gp", sampler="paired"),
        "linear": partial(explain, posterior="linear"),
    }
}


def game_of(name: str) -> Stored:
    """Read a game, built first if it is not there."""
    (games if name in games.REAL or name in games.SYNTHETIC else large_games).load(name)
    return read(name)


def budgets(d: int, *, quick: bool) -> list[int]:
    """Return budgets, smallest first; above 2^d/2 nearly everything is known."""
    if quick:
        wanted = {8 * d, 256}
    elif d < 30:
        wanted = {2 * d, 8 * d, 300, 1_000, 4_000}
    else:
        wanted = {2 * d, 300, 1_000, 2_000, 10_000}
    return sorted(b for b in wanted if 2 * d <= b <= 2 ** (d - 1))


def rounds(*, quick: bool) -> list[list[Task]]:
    """Tasks in the order they are run: every cell once, small budgets first, then again."""
    chosen = [game_of(name) for name in (QUICK_GAMES if quick else (*REAL, *SYNTHETIC))]
    cells = sorted(
        ((b, g.d, g.name, len(g.phi)) for g in chosen for b in budgets(g.d, quick=quick)),
        key=lambda cell: cell[:2],
    )
    runs = {b: next(k for most, k in ROUNDS.items() if b <= most) for b, *_ in cells}
    return [
        [
            Task(name, b, r % n, 1000 * (r % n + 1) + r // n)
            for b, _, name, n in cells
            if quick or r < runs[b]
        ]
        for r in range(2 if quick else max(ROUNDS.values()))
    ]


def peers_python(given: Path | None) -> Path | None:
    """Return the interpreter of the peers' environment, if it is there."""
    path = given or ROOT / ".venv-peers" / "bin" / "python"
    return path if path.exists() else None


def run_peers(python: Path, tasks: list[Task], results: Path, *, slow: bool = False) -> None:
    """Have another interpreter run the peers it has."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work.json"
        work.write_text(json.dumps([asdict(t) for t in tasks]), encoding="utf-8")
        command = [str(python), "-W", "ignore", "-m", "benchmarks.peer_runs"]
        command += [str(work), str(results), *(["--slow"] if slow else [])]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        subprocess.run(command, check=True, env=environment)  # noqa: S603  our own file


def versions_of(python: Path) -> dict[str, str]:
    """Return the versions of the peers that another interpreter has."""
    code = "import json; from benchmarks.peers import versions; print(json.dumps(versions()))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(  # noqa: S603  our own line
        [str(python), "-c", code], check=True, env=environment, capture_output=True, text=True
    )
    return dict(json.loads(run.stdout))


def digest_of_source() -> str:
    """Return a number that changes with the source of credex."""
    files = sorted(Path(cx.__file__).parent.rglob("*.py"))
    return f"{zlib.crc32(b''.join(f.read_bytes() for f in files)):08x}"


def measure(
    python: Path, work: list[list[Task]], folder: Path, *, quick: bool, stored: bool, jobs: int
) -> tuple[list[Record], list[Record], dict[str, str]]:
    """Run what is not stored yet, or nothing if only what is stored is asked for.

    With two jobs the peers run beside ours. ShaplEIG comes last, so that a run cut short has the
    rest.

    Returns
    -------
    Records of ours, of the peers, and the peers' versions.
    """
    found = versions_of(python)
    peers = folder / f"peers-{zlib.crc32(json.dumps(found).encode()):08x}.jsonl"
    ours = folder / f"credex-{digest_of_source()}.jsonl"

    def all_peers() -> None:
        run_peers(python, [t for tasks in work for t in tasks], peers)
        if not quick and "botorch" in found:
            run_peers(python, [t for tasks in work[:SLOW_ROUNDS] for t in tasks], peers, slow=True)

    if not stored:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(all_peers)
            if jobs == 1:
                running.result()
            for tasks in work:  # in this thread, which gets the timer's signal
                run_all(OURS, tasks, ours)
            running.result()
    return *wanted(work, load(ours), load(peers)), found


def wanted(work: list[list[Task]], *stored: Iterable[Record]) -> list[list[Record]]:
    """Leave out records of other cells and of games that were built anew."""
    tasks = {(t.game, t.budget, t.instance, t.seed) for tasks in work for t in tasks}
    digests = {name: read(name).digest for name in {t[0] for t in tasks}}
    return [
        [
            r
            for r in records
            if (r.game, r.budget, r.instance, r.seed) in tasks and r.digest == digests[r.game]
        ]
        for records in stored
    ]
