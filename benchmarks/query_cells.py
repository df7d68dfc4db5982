"""Cells of ``make bench-queries``: the runs of ours and of the peers, side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.peer_runs import Record
from benchmarks.peers import OLD
from benchmarks.query_runs import REAL
from benchmarks.stored_games import Stored, read

TIE = 1e-6
"""An RMSE below this share of mean |φ| is zero."""

MAIN, PAIRS, LINEAR = "gp", "gp, random pairs", "linear"

Key = tuple[int, int]


class Runs:
    """The runs of one method in one setting in one cell, by instance and seed."""

    def __init__(self, game: Stored, records: Iterable[Record]) -> None:
        self.game, self.records = game, {(r.instance, r.seed): r for r in records}

    def rmse(self, keys: Collection[Key] | None = None) -> float:
        """Pooled over runs and features, relative to mean |φ|; not a number counts as infinite."""
        squares = [
            np.mean((np.array(r.mean, dtype=float) - self.game.phi[r.instance]) ** 2)
            for k, r in self.records.items()
            if keys is None or k in keys
        ]
        return float(np.nan_to_num(np.sqrt(np.mean(squares)), nan=np.inf)) / self.game.scale

    @property
    def seconds(self) -> float:
        """Mean processor time beside the game."""
        return float(np.mean([r.seconds for r in self.records.values()]))

    def intervals(self, keys: Collection[Key] | None = None) -> tuple[list[bool], list[float]]:
        """Which values lie inside their intervals, and widths over mean |φ|; none of width zero."""
        hits: list[bool] = []
        widths: list[float] = []
        for k, r in self.records.items():
            if (keys is None or k in keys) and r.lower is not None and r.upper is not None:
                low, high = np.array(r.lower), np.array(r.upper)
                phi, some = self.game.phi[r.instance], high - low > 0
                hits.extend(((low <= phi) & (phi <= high))[some].tolist())
                widths.extend(((high - low) / self.game.scale)[some].tolist())
        return hits, widths


@dataclass(frozen=True)
class Cell:
    """A game at a budget: runs of ours by setting, of the peers by name and setting."""

    game: Stored
    budget: int
    ours: dict[str, Runs]
    peers: dict[str, dict[str, Runs]]
    outcomes: dict[str, str]

    @property
    def name(self) -> str:
        """Game and budget."""
        return f"{self.game.name}, {self.budget}"

    def ratio(self, other: Runs, setting: str = MAIN) -> float:
        """RMSE of the other over ours on the runs both have: 1 if both are zero, nan if none."""
        own = self.ours.get(setting)
        keys = own.records.keys() & other.records.keys() if own else set()
        if own is None or not keys:
            return np.nan
        theirs, mine = other.rmse(keys), own.rmse(keys)
        return 1.0 if max(theirs, mine) < TIE else theirs / max(mine, TIE)

    def better(self, peer: str, setting: str = MAIN) -> tuple[float, str]:
        """Ratio of a peer in the setting that is best here, and that setting."""
        found = {word: self.ratio(runs, setting) for word, runs in self.peers[peer].items()}
        word = min(found, key=lambda w: np.nan_to_num(found[w], nan=np.inf))
        return found[word], word

    @cached_property
    def best(self) -> str:
        """The peer with the smallest ratio."""
        return min(self.peers, key=lambda peer: np.nan_to_num(self.better(peer)[0], nan=np.inf))

    @property
    def against_best(self) -> float:
        """Best peer ÷ ours."""
        return self.better(self.best)[0]

    @property
    def linear_against_best(self) -> float:
        """Best peer ÷ our linear posterior, nan if the budget is too small for it."""
        ratios = np.array([self.better(peer, LINEAR)[0] for peer in self.peers])
        return float(np.nanmin(ratios)) if np.isfinite(ratios).any() else np.nan

    @property
    def against_old(self) -> float:
        """Best of the old seven ÷ ours."""
        return float(np.nanmin([self.better(peer)[0] for peer in self.peers if peer in OLD]))

    @property
    def against_pairs(self) -> float:
        """Random pairs ÷ focused, both with the process."""
        return self.ratio(self.ours[PAIRS]) if PAIRS in self.ours else np.nan

    @property
    def best_words(self) -> str:
        """The best peer and its setting."""
        setting = self.better(self.best)[1]
        return f"{self.best} ({setting})" if setting else self.best

    @property
    def best_errors(self) -> tuple[str, str]:
        """RMSEs of the best peer and of ours, on the runs both have."""
        own, runs = self.ours[MAIN], self.peers[self.best][self.better(self.best)[1]]
        keys = own.records.keys() & runs.records.keys()
        return error(runs.rmse(keys)), error(own.rmse(keys))

    @property
    def linear_error(self) -> str:
        """RMSE of the linear posterior; a dash if the budget is too small for it."""
        return error(self.ours[LINEAR].rmse()) if LINEAR in self.ours else "–"

    def row(self) -> list[str]:
        """Cells of the printed table."""
        own, runs = self.ours[MAIN], self.peers[self.best][self.better(self.best)[1]]
        hits, _ = own.intervals()
        return [
            self.game.name,
            str(self.game.d),
            str(self.budget),
            str(len(own.records)),
            error(own.rmse()),
            seconds(own.seconds),
            self.linear_error,
            self.best_words,
            self.best_errors[0],
            seconds(runs.seconds),
            number(self.against_best),
            number(self.against_old),
            number(self.linear_against_best),
            number(self.against_pairs),
            share(hits),
        ]


HEAD = [
    "game",
    "d",
    "N",
    "runs",
    "ours",
    "s",
    "linear",
    "best peer",
    "its RMSE",
    "its s",
    "best peer ÷ ours",
    "best of the old seven ÷ ours",
    "best peer ÷ linear",
    "random pairs ÷ focused",
    "coverage of 95 %",
]


def error(x: float) -> str:
    """Format a relative RMSE."""
    if x >= 100:
        return f"{x:.0f}" if x < 1e5 else "> 1e5"
    return f"{x:.4f}" if x >= 1e-4 else f"{x:.0e}"


def seconds(x: float) -> str:
    """Format a time."""
    return f"{x:.2f}" if x < 10 else f"{x:.0f}"


def number(x: float) -> str:
    """Format a ratio; beyond 1000 the digits mean nothing."""
    if np.isnan(x):
        return "–"
    return f"{x:.2f}" if x < 1000 else "> 1000"


def share(hits: list[bool]) -> str:
    """Format a coverage; a dash if every width was zero."""
    return f"{np.mean(hits):.3f}" if hits else "–"


def join(ours: list[Record], peers: list[Record]) -> list[Cell]:
    """Cells for which ours and some peers have been run, by players and budget."""
    found: dict[tuple[str, int], dict[tuple[str, str], list[Record]]] = {}
    outcomes: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for r in [*ours, *peers]:
        if r.outcome == "done":
            found.setdefault((r.game, r.budget), {}).setdefault((r.method, r.setting), []).append(r)
        elif r.outcome != "skipped":
            outcomes[r.game, r.budget][r.method] = r.outcome
    stored = {name: read(name) for name in {name for name, _ in found}}
    cells = []
    for (name, budget), runs in found.items():
        own: dict[str, Runs] = {}
        others: dict[str, dict[str, Runs]] = defaultdict(dict)
        for (method, setting), records in runs.items():
            made = Runs(stored[name], records)
            (own if method == "credex" else others[method])[setting] = made
        if others and MAIN in own:
            cells.append(Cell(stored[name], budget, own, dict(others), outcomes[name, budget]))
    return sorted(cells, key=lambda c: (c.game.d, c.game.name, c.budget))


def real(cells: Iterable[Cell]) -> list[Cell]:
    """Those of real models."""
    return [c for c in cells if c.game.name in REAL]
