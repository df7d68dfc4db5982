"""Print which files of the package an explanation passes: ``python -m benchmarks.walk``.

Traces ``explain(x, width=0.05)`` and ``explain(x, queries=500)`` of both explainers on a table, the
first and the second call, and lists the files in the order they are entered.
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


def walks() -> dict[str, list[str]]:
    """Return the files of each kind of call."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 12))
    out = {}
    for method in (cx.BayesSHAP, cx.BayesLIME):
        for goal in ({"width": 0.05}, {"queries": 500}):
            explainer = method(lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], X)
            for call in ("first", "second"):
                name = f"{method.__name__}, {goal}, {call} call"
                out[name] = files_of(lambda e=explainer, g=goal: e.explain(X[0], **g))
    return out


def main() -> None:
    """Print the walks."""
    for name, files in walks().items():
        print(f"{name}: {len(files)} files")
        print("  " + " → ".join(files))


if __name__ == "__main__":
    main()
