"""Progress bars: of the rows of a batch, and of one explanation that takes long."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from credex.explanation import Explanation
from credex.model_queue import ModelQueue
from credex.run import Run, states

__all__ = ["progress_bar", "watch"]

DELAY = 1.0
"""Seconds before the bar of one explanation appears."""


def progress_bar(what: str, total: int | None, initial: int = 0, *, show: bool) -> Any:
    """Return a bar over rows, with rate and remaining time: of a terminal or of a notebook."""
    notebook = "ipykernel" in sys.modules and find_spec("ipywidgets") is not None
    bar: Any = import_module("tqdm.notebook" if notebook else "tqdm").tqdm
    return bar(total=total, initial=initial, desc=what, unit="row", disable=not show)


def watch(run: Run, queue: ModelQueue, *, at_once: bool) -> Explanation:
    """Drive a run and show how many model rows it has sent, of those it is likely to need.

    ``at_once``: the bar does not wait for a second.
    """
    bar: Any = None
    begun, sent = time.perf_counter(), 0

    def called(rows: int) -> None:
        nonlocal bar, sent
        sent += rows
        if bar is None and (at_once or time.perf_counter() - begun > DELAY):
            bar = progress_bar(
                "explaining", run.plan.ceiling * run.design.rows_per_query, show=True
            )
            bar.update(sent)
        elif bar is not None:
            bar.update(rows)

    queue.on_call = called
    try:
        for state in states(run, queue):
            if bar is not None:
                bar.total = max(sent + run.rows_to_go(), sent)
                width = float(np.max(state.width))
                note = f"widest interval {width:.3g}" if np.isfinite(width) else ""
                bar.set_postfix_str(state.stop_reason or note)
        return state.explanation
    finally:
        queue.on_call = None
        if bar is not None:
            bar.close()
