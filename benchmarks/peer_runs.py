"""Runs of estimators on stored games, kept line by line so that a run cut short can go on.

``python -m benchmarks.peer_runs WORK RESULTS`` runs the peers that the interpreter has; needs numpy
and the peers, not credex. WORK is a JSON list of `Task`, RESULTS a file of JSON lines.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import FEW_PLAYERS, SLOW, Estimator, NotHereError, available
from benchmarks.stored_games import Counted, Stored, read

LIMIT = 60.0
"""Seconds of processor time that one run may take."""

LONG = 5.0
"""A run that took longer is not repeated with other seeds and instances."""

NORMAL = 1.959964
"""Half-width of a 95 % interval in standard errors, for peers that give standard errors."""


@dataclass(frozen=True)
class Task:
    """One instance of a game, explained with a budget and a seed."""

    game: str
    budget: int
    instance: int
    seed: int


@dataclass(frozen=True)
class Record:
    """One run of one method; ``outcome`` is "done", "over the limit", "skipped" or an error."""

    game: str
    digest: int
    d: int
    budget: int
    instance: int
    seed: int
    method: str
    setting: str
    outcome: str
    seconds: float = math.nan
    asked: int = 0
    mean: list[float] | None = None
    lower: list[float] | None = None
    upper: list[float] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes it another run."""
        return (*self.cell, self.instance, self.seed)

    @property
    def cell(self) -> tuple[Any, ...]:
        """Runs that are pooled."""
        return (self.game, self.digest, self.budget, self.method, self.setting)


class OverLimitError(BaseException):
    """The limit has passed. Not an Exception: a peer's own handlers must not catch it."""


def stop(*_: object) -> None:
    """Handle the timer's signal."""
    raise OverLimitError


def load(path: Path) -> list[Record]:
    """Read what was run; a line cut short is left out."""
    if not path.exists():
        return []
    whole = [line for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    return [Record(**json.loads(line)) for line in whole]


def run(estimate: Estimator, game: Stored, task: Task) -> dict[str, Any]:
    """One run: outcome, time beside the game, estimate."""
    v = Counted(game.values[task.instance])
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        found = np.atleast_2d(estimate(v, task.budget, task.seed))
    except OverLimitError:
        return {"outcome": "over the limit", "seconds": LIMIT}
    except NotHereError:
        return {"outcome": "skipped"}
    except Exception as error:  # noqa: BLE001  a peer that fails in a cell is printed, not fatal
        return {"outcome": f"{type(error).__name__}: {error}"[:200]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = time.process_time() - start - v.seconds
    out = {"outcome": "done", "seconds": seconds, "asked": v.asked, "mean": found[0].tolist()}
    if len(found) == 2:  # standard errors
        out["lower"] = (found[0] - NORMAL * found[1]).tolist()
        out["upper"] = (found[0] + NORMAL * found[1]).tolist()
    elif len(found) == 3:
        out["lower"], out["upper"] = found[1].tolist(), found[2].tolist()
    return out


def run_all(methods: Mapping[str, Mapping[str, Estimator]], tasks: list[Task], path: Path) -> None:
    """Run what is not in the file yet and append it, in the order of the tasks.

    A setting that passed the limit is not tried with as many players and queries or more; one that
    took long is run once in a cell.
    """
    past = load(path)
    done = {r.key for r in past}
    over = {(r.method, r.setting, r.d, r.budget) for r in past if r.outcome == "over the limit"}
    long = {r.cell for r in past if r.seconds > LONG}
    signal.signal(signal.SIGPROF, stop)
    warm_up(methods)
    game: Stored | None = None
    path.parent.mkdir(parents=True, exist_ok=True)
    cut_short = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * cut_short)
        for task in tasks:
            if game is None or game.name != task.game:
                game = read(task.game)
            for method, settings in methods.items():
                if game.d > FEW_PLAYERS.get(method, game.d):
                    continue
                for setting, estimate in settings.items():
                    known = Record(
                        **asdict(task),
                        digest=game.digest,
                        d=game.d,
                        method=method,
                        setting=setting,
                        outcome="over the limit",
                    )
                    if known.key in done or known.cell in long:
                        continue
                    if not any(
                        (m, s) == (method, setting) and d <= game.d and n <= task.budget
                        for m, s, d, n in over
                    ):
                        known = Record(**asdict(known) | run(estimate, game, task))
                        if known.outcome == "over the limit":
                            over.add((method, setting, game.d, task.budget))
                        if known.seconds > LONG:
                            long.add(known.cell)
                    file.write(json.dumps(asdict(known)) + "\n")
                    file.flush()
            print(f"{task.game} {task.budget} {task.instance} {task.seed}", flush=True)


def warm_up(methods: Mapping[str, Mapping[str, Estimator]]) -> None:
    """Import and compile what the estimators need, so that no run is charged for it."""
    table = np.random.default_rng(0).normal(size=2**8)
    for settings in methods.values():
        for estimate in settings.values():
            try:
                estimate(Counted(table), 40, 0)
            except NotHereError:
                continue


def main() -> None:
    """Run the peers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--slow", action="store_true", help="the slow peers instead of the others")
    given = parser.parse_args()
    tasks = [Task(**entry) for entry in json.loads(given.work.read_text(encoding="utf-8"))]
    methods = {name: s for name, s in available().items() if (name in SLOW) == given.slow}
    run_all(methods, tasks, given.results)


if __name__ == "__main__":
    main()
