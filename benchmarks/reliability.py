"""Coverage of BayesSHAP's intervals on the games of `benchmarks.games`, against exact values.

Linear and Gaussian-process posterior, every sampler, at a fixed budget and stopped at a width, at
four levels. Part of ``make bench-coverage``; ``--quick`` measures a few games and writes nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from tqdm import tqdm

import credex as cx
from benchmarks.games import REAL, SYNTHETIC, Game, index_of, load
from benchmarks.timing import publish, table

LEVELS = (0.5, 0.8, 0.95, 0.99)
NOMINAL = 2
"""Position of the level that the band is about."""

BAND, LEAST = (0.94, 0.97), 0.91
"""Pooled coverage of 95 % intervals must touch the band; no game may lie below the second."""

NARROWER = 0.6
"""Mean width of the process over the regression's at the same budget, at most."""

QUERIES = 100
WIDTH = 1.0
"""Of intervals when a run stops at a width, in units of the game's mean |φ|."""

SETTINGS = (
    ("linear", "random"),
    ("linear", "paired"),
    ("gp", "random"),
    ("gp", "paired"),
    ("gp", "focused"),
)
QUICK_GAMES = ("digits_rf", "wine_knn")
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "reliability.png"


@dataclass
class Tally:
    """Runs of one setting on one game: by instance, the share of values inside at each level."""

    game: str
    posterior: str
    sampler: str
    stopped: str
    inside: list[list[np.ndarray]] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    queries: list[int] = field(default_factory=list)

    @property
    def clusters(self) -> np.ndarray:
        """``(instances, levels)`` mean shares; instances without a width above zero left out."""
        return np.array([np.mean(runs, axis=0) for runs in self.inside if runs])

    @property
    def interval(self) -> tuple[float, float, float]:
        """Coverage at the nominal level and its 95 % interval, clustered by instance."""
        return clustered(self.clusters[:, NOMINAL]) if len(self.clusters) else (np.nan,) * 3


def clustered(shares: np.ndarray) -> tuple[float, float, float]:
    """Mean of the clusters and its 95 % interval (Student-t)."""
    from scipy.stats import t

    if len(shares) < 2:
        return float(shares.mean()), 0.0, 1.0
    mean = float(shares.mean())
    half = float(t.ppf(0.975, len(shares) - 1) * shares.std(ddof=1) / np.sqrt(len(shares)))
    return mean, mean - half, mean + half


def measure(
    game: str | Game, posterior: str, sampler: str, stopped: str, seeds: int, *, first: int = 0
) -> Tally:
    """All runs of one setting on one game (or on that of this name); seeds from ``first`` on."""
    game = load(game) if isinstance(game, str) else game
    out = Tally(game.name, posterior, sampler, stopped)
    for i, (values, truth) in enumerate(zip(game.tables, game.phi, strict=True)):
        out.inside.append([])
        explainer = cx.BayesSHAP(
            lambda z, v=values: v[index_of(z)],
            cx.Masks(game.d),
            posterior=posterior,
            sampler=sampler,
        )
        for seed in range(seeds):
            number = first + 1000 * (i + 1) + seed
            if stopped == "budget":
                e = explainer.explain(queries=QUERIES, seed=number)
            else:
                e = explainer.explain(width=WIDTH * game.scale, seed=number)
            counted = e.interval().width > 0
            if counted.any():
                hits = [e.interval(level).covers(truth)[counted].mean() for level in LEVELS]
                out.inside[-1].append(np.array(hits))
                out.widths.append(float(e.interval().width[counted].mean()) / game.scale)
                out.queries.append(e.n_queries)
    return out


def work(*, quick: bool) -> Iterator[tuple[str, str, str, str, int]]:
    """Every cell: game, posterior, sampler, how it stops, seeds."""
    for name in QUICK_GAMES if quick else (*REAL, *SYNTHETIC):
        if 2 ** load(name).d <= QUERIES + 20:
            continue  # exact at this budget
        for posterior, sampler in SETTINGS:
            for stopped in ("budget", "width"):
                yield name, posterior, sampler, stopped, 1 if quick else 20


def rows_of(cells: list[Tally]) -> list[list[str]]:
    """One printed row for each setting: pooled coverage, worst game, levels, width."""
    rows = []
    for posterior, sampler in SETTINGS:
        for stopped in ("budget", "width"):
            group = [c for c in cells if (c.posterior, c.sampler) == (posterior, sampler)]
            group = [c for c in group if c.stopped == stopped and len(c.clusters)]
            pooled = np.concatenate([c.clusters for c in group])
            share, low, high = clustered(pooled[:, NOMINAL])
            worst = min(group, key=lambda c: c.interval[0])
            touches = low <= BAND[1] and high >= BAND[0]
            below = [c for c in group if c.interval[0] < LEAST]
            misses = [c.game + ("*" if c.interval[2] < LEAST else "") for c in below]
            rows.append(
                [
                    posterior,
                    sampler,
                    f"{QUERIES} queries" if stopped == "budget" else "width",
                    f"{share:.3f} ({low:.3f} … {high:.3f})" + ("" if touches else " OUTSIDE"),
                    f"{worst.interval[0]:.3f} ({worst.game})",
                    ", ".join(misses) or "none",
                    *(f"{x:.3f}" for x in np.delete(pooled.mean(axis=0), NOMINAL)),
                    f"{np.mean([np.mean(c.widths) for c in group]):.2f}",
                    f"{np.mean([np.mean(c.queries) for c in group]):.0f}",
                ]
            )
    return rows


HEAD = [
    "posterior",
    "sampler",
    "stopped by",
    "coverage of 95 % (its own interval)",
    "worst game",
    f"games below {LEAST} (*: surely)",
    "of 50 %",
    "of 80 %",
    "of 99 %",
    "mean width ÷ mean size",
    "mean queries",
]


def by_game(cells: list[Tally]) -> str:
    """Coverage at a fixed budget, game by game."""
    names = list(dict.fromkeys(c.game for c in cells))
    rows = []
    for name in names:
        found = {
            (c.posterior, c.sampler, c.stopped): c for c in cells if c.game == name and c.widths
        }
        row = [name]
        for posterior, sampler in SETTINGS:
            for stopped in ("budget", "width"):
                c = found.get((posterior, sampler, stopped))
                row.append("–" if c is None else f"{c.interval[0]:.3f}")
        rows.append(row)
    head = [f"{p}, {s}, {w}" for p, s in SETTINGS for w in ("budget", "width")]
    return table(["game", *head], rows)


def narrower(cells: list[Tally]) -> float:
    """Mean over games of the focused process's width over the paired regression's.

    Games that the regression finds exactly (additive ones) have no width to compare.
    """
    fixed = [c for c in cells if c.stopped == "budget" and c.widths]
    width = {(c.game, c.posterior, c.sampler): float(np.mean(c.widths)) for c in fixed}
    games = {c.game for c in fixed if width.get((c.game, "linear", "paired"), 0.0) > 1e-6}
    ratios = [
        width.get((g, "gp", "focused"), 0.0) / width[g, "linear", "paired"] for g in sorted(games)
    ]
    return float(np.mean(ratios))


def draw(cells: list[Tally]) -> None:
    """Write the reliability curves: measured coverage against the level."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    for ax, stopped in zip(figure.subplots(1, 2, sharey=True), ("budget", "width"), strict=True):
        ax.plot([0, 1], [0, 1], color="0.6", lw=0.8, ls="--")
        for (posterior, sampler), colour, mark in zip(
            SETTINGS, ("#999999", "#555555", "#E69F00", "#0072B2", "#009E73"), "o^sDv", strict=True
        ):
            group = [c for c in cells if (c.posterior, c.sampler) == (posterior, sampler)]
            pooled = [c.clusters for c in group if c.stopped == stopped and len(c.clusters)]
            share = np.concatenate(pooled).mean(axis=0)
            name = "regression" if posterior == "linear" else "Gaussian process"
            ax.plot(
                LEVELS, share, marker=mark, ms=4, lw=1, color=colour, label=f"{name}, {sampler}"
            )
        ax.set(xlim=(0.45, 1.01), ylim=(0.45, 1.01), xlabel="level asked for", aspect="equal")
        ax.set_title(f"{QUERIES} queries" if stopped == "budget" else "stopped at a width", size=10)
        ax.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("share of exact values inside")
    figure.axes[0].legend(fontsize=7, frameon=False)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=150)


def arguments(about: str | None) -> argparse.Namespace:
    """Read ``--quick`` and ``--jobs`` from the command line."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="a few runs, printed only")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    given = arguments(__doc__)
    start = time.perf_counter()
    todo = list(work(quick=given.quick))
    done = Parallel(n_jobs=given.jobs, return_as="generator")(delayed(measure)(*w) for w in todo)
    cells = list(tqdm(done, total=len(todo), disable=None, unit="cell"))
    ratio = narrower(cells)
    verdict = "met" if ratio <= NARROWER else "NOT MET"
    body = table(HEAD, rows_of(cells))
    body += f"\n\nRequired: the interval of the coverage touches {BAND[0]}–{BAND[1]}, and that of"
    body += f" no game lies below {LEAST}. Games are listed by their point estimate; a star marks"
    body += " those whose own interval lies below, too. Mean width of the focused process over the"
    body += f" paired regression's at {QUERIES} queries: {ratio:.2f}, required at most {NARROWER}:"
    body += f" {verdict}.\n\nStopped at a width: {WIDTH:g} × mean |φ| of the game. Widths of zero"
    body += (
        " (answers that are exact) are not counted. Game by game, coverage of 95 % intervals:\n\n"
    )
    body += by_game(cells)
    body += f"\n\n{'5' if given.quick else '100'} runs a cell (5 instances, clustered);"
    body += f" {(time.perf_counter() - start) / 60:.0f} minutes."
    title = "Coverage against exact Shapley values"
    if not given.quick:
        draw(cells)
        body += "\n\n![Measured coverage against the level asked for](../images/reliability.png)"
    publish("reliability", title, "make bench-coverage", body, quick=given.quick)


if __name__ == "__main__":
    main()
