"""Print which files of the package an explanation passes: ``python -m benchmarks.walk``.

Traces ``explain(x, width=0.05)`` and ``explain(x, queries=500)`` of both explainers on a table, the
first and the second call, and lists the files in the order they are entered. ``--check`` exits with
an error if a call passes more than `MAX_FILES` files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import credex as cx

PACKAGE = Path(cx.__file__).parent

MAX_FILES = 25
"""Files that one explanation may pass."""


def files_of(action: Callable[[], Any]) -> list[str]:
    """Return the files of the package whose functions ``action`` runs, in order of first entry."""
    seen: dict[str, None] = {}

    def trace(frame: FrameType, event: str, _arg: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            seen.setdefault(str(path.relative_to(PACKAGE)))

    sys.setprofile(trace)
    try:
        action()
    finally:
        sys.setprofile(None)
    return list(seen)


def walks() -> dict[str, tuple[list[str], list[str]]]:
    """Return the files of the first and of the second call, for each explainer and goal."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 12))
    out = {}
    for method in (cx.BayesSHAP, cx.BayesLIME):
        for goal in ({"width": 0.05}, {"queries": 500}):
            explainer = method(lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], X)
            first, second = (
                files_of(lambda e=explainer, g=goal: e.explain(X[0], **g)) for _ in range(2)
            )
            out[f"{method.__name__}, {goal}"] = (first, second)
    return out


def main() -> int:
    """Print the walks; return 1 if ``--check`` was given and a walk is too long."""
    good = True
    for name, (first, second) in walks().items():
        once = [file for file in first if file not in second]
        new = [file for file in second if file not in first]
        good &= max(len(first), len(second)) <= MAX_FILES
        print(f"{name}, first call:\n  {' → '.join(first)}")
        print(f"  {len(first)} files (at most {MAX_FILES})")
        print(f"{name}, second call:\n  {' → '.join(second)}")
        print(f"  prepared once per explainer, by the first call: {', '.join(once) or 'nothing'}")
        print(f"  run by the second call only: {', '.join(new) or 'nothing'}")
        print(f"  {len(second)} files (at most {MAX_FILES})")
    return int("--check" in sys.argv[1:] and not good)


if __name__ == "__main__":
    sys.exit(main())
