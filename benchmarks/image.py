"""From masks to images: speed against lime and shap, and memory. Run it with ``make bench-image``.

The same masks over the same regions of a 224 × 224 photograph, the same replacement, the same
dtype, handed to a model that does nothing, ten (lime's default) or 25 at a time; every image is
compared before the clock is started. lime's images come out of its own
``LimeImageExplainer.data_labels``, shap's out of its own ``maskers.Image``, one mask at a time (as
it is called) and stacked. Times are processor time, one thread. Memory is the peak of a whole
explanation from 10,000 masks above what the process held before it.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np

import credex as cx
from benchmarks.timing import publish, table
from realdata.photographs import photograph

REGIONS, MASKS = 20, 100
LIMIT_MB, WANTED = 300, 5
Model = Callable[[np.ndarray], np.ndarray]


def nothing(pictures: np.ndarray) -> np.ndarray:
    """Answer at once."""
    return np.zeros((len(pictures), 1))


def speed(pixels: np.ndarray, batch: int, rounds: int) -> dict[str, float]:
    """Seconds for all masks, so many handed over at a time: ours, lime's, shap's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lime.lime_image import LimeImageExplainer
        from shap.maskers import Image as Masker

    here = cx.Image(segments=cx.Slic(REGIONS)).at(pixels)
    labels, replacement = here.regions.labels, here.base_inputs()[0]
    by_number = np.broadcast_to(labels[:, :, None], pixels.shape).reshape(-1)
    lime = LimeImageExplainer(random_state=0)
    masker = Masker(replacement, pixels.shape)

    def of_lime(model: Model) -> np.ndarray:
        lime.random_state = np.random.RandomState(0)
        with redirect_stderr(StringIO()):  # its progress bar
            data, _ = lime.data_labels(pixels, replacement, labels, model, MASKS, batch)
        return data.astype(bool)

    shown: list[np.ndarray] = []
    masks = of_lime(lambda p: (shown.append(p.copy()), nothing(p))[1])

    def of_shap(model: Model) -> None:
        for start in range(0, MASKS, batch):
            some = masks[start : start + batch]
            model(np.concatenate([masker(mask[by_number], pixels)[0] for mask in some]))

    def ours(model: Model) -> None:
        for start in range(0, MASKS, batch):
            model(here.coalition_inputs(masks[start : start + batch])[0])

    same: list[list[np.ndarray]] = [shown, [], []]
    of_shap(lambda p: (same[1].append(p.copy()), nothing(p))[1])
    ours(lambda p: (same[2].append(p.copy()), nothing(p))[1])
    want = np.concatenate(same[2])
    for other in map(np.concatenate, same[:2]):
        assert other.dtype == want.dtype
        assert np.array_equal(other.reshape(want.shape), want)
    tools = {"credex": ours, "lime": of_lime, "shap": of_shap}
    tasks = {name: partial(tool, nothing) for name, tool in tools.items()}
    return fastest(tasks, rounds)


def fastest(tasks: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Processor time of each task, its fastest run; all tasks take turns.

    All are one thread of plain computation, so that what else the machine does is not counted.
    """
    out = dict.fromkeys(tasks, np.inf)
    for _ in range(rounds):
        for name, task in tasks.items():
            for _ in range(3):
                start = time.process_time()
                task()
                out[name] = min(out[name], time.process_time() - start)
    return out


def peak_mb() -> float:
    """Peak memory of this process since it was last forgotten (Linux)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def now_mb() -> float:
    """Memory that this process holds now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def memory(masks: int) -> None:
    """Explain one float32 photograph from so many masks; print how far memory rose."""
    x = (photograph("coffee").pixels / 255).astype(np.float32)

    def model(pictures: np.ndarray) -> np.ndarray:
        return pictures[:, ::8, ::8].mean(axis=(1, 2, 3))

    explainer = cx.BayesLIME(model, cx.Image(segments=cx.Slic(REGIONS)))
    explainer.explain(x, queries=30)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    before = now_mb()
    e = explainer.explain(x, queries=masks)
    assert e.n_model_rows == masks
    print(f"{peak_mb() - before:.0f} {e.seconds:.2f}")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory:
        memory(args.memory)
        return
    photo = photograph("coffee").pixels
    rows, short = [], []
    for dtype in (np.uint8, np.float32):
        x = photo if dtype == np.uint8 else (photo / 255).astype(np.float32)
        for batch in (10, 25):
            t = speed(x, batch, 2 if args.quick else 6)
            ratios = {peer: t[peer] / t["credex"] for peer in ("lime", "shap")}
            short += [
                f"{peer}, {dtype.__name__}, {batch} at a time: {r:.1f}×"
                for peer, r in ratios.items()
                if r < WANTED
            ]
            each = [f"{t[k] / MASKS * 1e6:,.0f}" for k in ("credex", "lime", "shap")]
            times = [f"{r:.1f}×" for r in ratios.values()]
            rows.append([dtype.__name__, str(batch), *each, *times])
    head = [
        "dtype",
        "at a time",
        "credex, µs an image",
        "lime",
        "shap",
        "lime / credex",
        "shap / credex",
    ]
    body = table(head, rows)
    missed = "; ".join(short) or "none"
    body += f"\n\nWanted: {WANTED}× in every row. Rows that miss it: {missed}."
    count = 1_000 if args.quick else 10_000
    command = [sys.executable, "-m", "benchmarks.image", "--memory", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - itself
    rise, seconds = (float(v) for v in done.stdout.split())
    body += (
        f"\n\nAn explanation of a 224 × 224 × 3 float32 image from {count:,} masks (all of them "
    )
    body += (
        f"together: {count * x.nbytes / 1e9:.1f} GB) raised the peak memory by {rise:.0f} MB and "
    )
    body += f"took {seconds:.1f} s with a model that looks at a few pixels."
    publish("image", "From masks to images", "make bench-image", body)
    assert not short, short
    assert rise < LIMIT_MB, rise


if __name__ == "__main__":
    main()
