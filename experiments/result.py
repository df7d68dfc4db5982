"""What an experiment gives back, and how it is kept as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

__all__ = ["Result", "Verdict", "judged", "load", "measured", "save"]

Verdict = Literal["reproduced", "partly", "not reproduced", "no figure in the paper"]


@dataclass(frozen=True, slots=True)
class Result:
    """One experiment, finished.

    Attributes
    ----------
    name, title
        As the command line and the page call it.
    claim
        What the paper says.
    ran
        What was run: N, seeds, instances, settings.
    head, rows
        The table, as text: the paper's figure beside ours with its standard error.
    verdict, why
        Whether it reproduces, and why or why not.
    notes
        What else a reader should know.
    learned
        One sentence for the top of the page, made of the numbers; empty if there is none.
    source
        `experiments.source.source_digest` of what it was made with.
    data
        The numbers behind table and picture; plain lists and dicts.
    timings
        Seconds and ratios of seconds: the only part that differs from run to run.
    timed
        Whether the table itself shows timings.
    seconds
        Processor time it took.
    quick
        Made with ``--quick``: never written to the docs.
    """

    name: str
    title: str
    claim: str
    ran: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    verdict: Verdict
    why: str
    notes: tuple[str, ...] = ()
    learned: str = ""
    source: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    timed: bool = False
    seconds: float = 0.0
    quick: bool = False

    def repeatable(self) -> dict[str, Any]:
        """Return everything that must be the same when it is run again."""
        out = asdict(self)
        words = ("rows", "why", "notes", "learned")
        for name in ("timings", "seconds", *(words if self.timed else ())):
            del out[name]
        return json.loads(json.dumps(out, default=_plain))


def measured(value: float, se: float | None = None, *, digits: int = 1, unit: str = "") -> str:
    """Write a figure with its standard error: ``95.2 ± 0.4``."""
    if not np.isfinite(value):
        return "–"
    text = f"{value:.{digits}f}"
    if se is not None and np.isfinite(se):
        text += f" ± {se:.{digits}f}"
    return text.replace("-", "−") + unit


def judged(claims: dict[str, bool]) -> tuple[Verdict, str]:
    """Return the verdict (reproduced if all claims hold, partly if some do) and a list of them."""
    held, failed = ([c for c, holds in claims.items() if holds is side] for side in (True, False))
    text = f"Holds: {'; '.join(held)}. " if held else ""
    text += f"Does not hold: {'; '.join(failed)}. " if failed else ""
    return ("partly" if held else "not reproduced") if failed else "reproduced", text


def save(result: Result, path: Path) -> None:
    """Write JSON; a run cut short leaves no broken file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(asdict(result), default=_plain, indent=1), encoding="utf-8")
    part.replace(path)


def load(path: Path) -> Result:
    """Read what `save` wrote."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["head"], raw["notes"] = tuple(raw["head"]), tuple(raw["notes"])
    raw["rows"] = tuple(tuple(row) for row in raw["rows"])
    return Result(**raw)


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} does not go into JSON")
