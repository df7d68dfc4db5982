"""Which experiments there are, in the order of the page."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from matplotlib.figure import Figure

from experiments.result import Result

__all__ = ["NAMES", "Experiment", "experiment"]

NAMES = (
    *("figure1", "table1", "theory", "ptg", "focused", "stability", "consistency"),
    *("priors", "quality", "toy", "groundtruth", "mcmc", "baylime"),
)
"""Each is a module of this package."""


class Experiment(Protocol):
    """What a module of an experiment has."""

    def run(self, *, quick: bool) -> Result:
        """Run it; ``quick`` takes seconds and proves only that it runs."""
        ...

    def picture(self, result: Result, figure: Figure) -> None:
        """Draw the result on an empty figure."""
        ...


def experiment(name: str) -> Experiment:
    """Return the module of an experiment."""
    if name not in NAMES:
        raise SystemExit(f"there is no experiment {name!r}; there are: {', '.join(NAMES)}")
    return import_module(f"experiments.{name}")  # type: ignore[return-value]
