"""Timing on a noisy machine: the best of several repeats, everything in one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

DOCS = Path(__file__).resolve().parent.parent / "docs" / "benchmarks"


def best(task: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest of ``repeats`` runs, after one that is thrown away."""
    task()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def together(
    tasks: dict[str, Callable[[], object]], rounds: int = 6, runs: int = 5
) -> dict[str, float]:
    """Seconds of each task: its fastest run of ``rounds`` in which all tasks take turns.

    In a turn a task runs ``runs`` times, so that none pays for the caches another has emptied.
    """
    out = dict.fromkeys(tasks, np.inf)
    for _ in range(rounds):
        for name, task in tasks.items():
            for _ in range(runs):
                start = time.perf_counter()
                task()
                out[name] = min(out[name], time.perf_counter() - start)
    return out


def yardstick() -> float:
    """Seconds of a 2000×2000 float64 matrix product: how fast this machine is today."""
    a = np.random.default_rng(0).normal(size=(2000, 2000))
    return best(lambda: a @ a, 3)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table that also reads well in a terminal."""
    cells = [head, *rows]
    widths = [max(len(r[c]) for r in cells) for c in range(len(head))]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) + " |" for r in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def publish(name: str, title: str, command: str, body: str, *, quick: bool = False) -> None:
    """Print a result and, unless it is a quick one, write it to ``docs/benchmarks/``."""
    print(f"\n{title}{' (quick)' if quick else ''}\n\n{body}\n")
    if quick:
        return
    DOCS.mkdir(parents=True, exist_ok=True)
    text = f"# {title}\n\nMade by `{command}`.\n\n{body}\n"
    (DOCS / f"{name}.md").write_text(text, encoding="utf-8")
