"""Run experiments: ``python -m experiments NAME … | all [--quick] [--again] [--jobs N]``.

What is finished is kept as JSON in ``out/paper`` and not run again unless ``--again`` says so; an
interrupted ``all`` goes on where it was. ``--quick`` takes minutes for all of them, keeps to
``out/paper/quick`` and leaves the docs alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from experiments.canvas import blank, write
from experiments.catalogue import NAMES, experiment
from experiments.page import page
from experiments.result import Result, load, save
from experiments.source import source_digest

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "out" / "paper"
PAGE = ROOT / "docs" / "paper.md"
PICTURES = ROOT / "docs" / "images" / "paper"

LONGEST = ("stability", "table1", "focused", "ptg")
"""Started first where several run at a time."""


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"all, or {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="seconds each; the docs stay as is")
    parser.add_argument("--again", action="store_true", help="run even what is finished")
    parser.add_argument("--jobs", type=int, default=1, help="experiments at a time")
    parser.add_argument("--no-docs", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = list(NAMES) if args.names == ["all"] else args.names
    for name in names:
        experiment(name)  # a wrong name ends here, before anything is run
    if args.jobs > 1:
        in_processes(names, args)
    for name in tqdm(names, disable=None if len(names) > 1 else True, unit="experiment"):
        result = finished(name, quick=args.quick, again=args.again and args.jobs == 1)
        show(result)
        if not (args.quick or args.no_docs):
            publish(result)


def finished(name: str, *, quick: bool, again: bool) -> Result:
    """Return the kept result, or run the experiment and keep it."""
    folder = KEPT / "quick" if quick else KEPT
    path = folder / f"{name}.json"
    if path.exists() and not again:
        return load(path)
    module = experiment(name)
    start = time.process_time()
    result = module.run(quick=quick)
    seconds = time.process_time() - start
    result = replace(result, seconds=seconds, quick=quick, source=source_digest())
    save(result, path)
    result = load(path)  # what is drawn and printed is what was kept
    figure = blank()
    module.picture(result, figure)
    write(figure, folder / f"{name}.png")
    return result


def publish(result: Result) -> None:
    """Write the picture and the section of the docs."""
    figure = blank()
    experiment(result.name).picture(result, figure)
    write(figure, PICTURES / f"{result.name}.png")
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    PAGE.write_text(page(old, [result]), encoding="utf-8")


def in_processes(names: list[str], args: argparse.Namespace) -> None:
    """Run each in a process of its own, ``args.jobs`` at a time; the results are kept."""
    flags = ["--no-docs", *(f"--{f}" for f in ("quick", "again") if getattr(args, f))]

    def one(name: str) -> None:
        command = [sys.executable, "-m", "experiments", name, *flags]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # noqa: S603

    order = sorted(names, key=lambda name: (name not in LONGEST, names.index(name)))
    with ThreadPoolExecutor(args.jobs) as pool:
        list(tqdm(pool.map(one, order), total=len(order), disable=None, unit="experiment"))


def show(result: Result) -> None:
    """Print the table and the verdict."""
    tqdm.write(f"\n{result.title} ({result.seconds:.0f} s)")
    widths = [max(map(len, column)) for column in zip(result.head, *result.rows, strict=True)]
    for row in (result.head, *result.rows):
        tqdm.write("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())
    tqdm.write(f"{result.verdict}: {result.why}")
    for note in result.notes:
        tqdm.write(f"- {note}")


if __name__ == "__main__":
    main()
