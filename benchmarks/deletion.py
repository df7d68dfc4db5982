"""Deletion curves on MNIST. Run it with ``make bench-deletion``.

A small convolutional network (99 % of the test digits) is explained on 100 test digits: about 20
regions by SLIC, a region that is off is grey (0.5), not black, which on black would hide nothing.
Every explainer is given the same regions, the same replacement and the same number of queries.
Then regions are removed one after the other, the most important first, and the area under the
curve of the digit's probability is measured: the smaller, the better the order.

lime is its own ``LimeImageExplainer``; shap is its own ``KernelExplainer`` over the same masks.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO

import numpy as np
from scipy import stats

import credex as cx
from benchmarks.timing import publish, table
from realdata.cnn import accuracy, cnn
from realdata.mnist import digits

GREY, REGIONS = 0.5, 20
QUERIES = (60, 200)
DIGITS = 100
CHANCE, CLEARLY = 0.05, 0.05


@lru_cache(maxsize=1)
def model() -> Callable[[np.ndarray], np.ndarray]:
    """Return the network: ``(n, 28, 28)`` to ``(n, 10)`` probabilities."""
    import torch

    torch.set_num_threads(1)
    return cx.from_torch(cnn(), activation="softmax", prepare=lambda x: x[:, None], batch_size=256)


@dataclass(frozen=True)
class Digit:
    """One test digit, cut into regions, and the class that the network says."""

    pixels: np.ndarray
    labels: np.ndarray
    said: int

    @property
    def d(self) -> int:
        """Regions."""
        return int(self.labels.max()) + 1

    @property
    def domain(self) -> cx.Image:
        """The same regions and replacement for everybody."""
        return cx.Image(segments=self.labels, fill=GREY)

    def of_masks(self, masks: np.ndarray) -> np.ndarray:
        """Probability of the digit for ``(n, d)`` masks."""
        pictures, _ = self.domain.at(self.pixels).coalition_inputs(np.asarray(masks) > 0.5)
        return model()(pictures)[:, self.said].astype(np.float64)

    def area(self, order: np.ndarray) -> float:
        """Return the area under the probability as regions leave in this order, 0 to 1."""
        left = np.ones((self.d + 1, self.d), dtype=bool)
        for step, region in enumerate(order, start=1):
            left[step:, region] = False
        return float(np.trapezoid(self.of_masks(left), dx=1 / self.d))


def chosen(n: int) -> list[Digit]:
    """Return the first ``n`` test digits that the network names rightly."""
    data = digits("test")
    said = model()(data.images[: 2 * n]).argmax(axis=1)
    right = np.flatnonzero(said == data.labels[: 2 * n])[:n]
    segment = cx.Image(segments=cx.Slic(REGIONS), fill=GREY)
    return [
        Digit(data.images[i], segment.at(data.images[i]).regions.labels, int(said[i]))
        for i in right
    ]


# -- orders: (d,) importances of a digit's regions ---------------------------------------------


def ours(kind: type[cx.BayesLIME | cx.BayesSHAP], posterior: str) -> Callable[..., np.ndarray]:
    """Importances by credex."""

    def importances(digit: Digit, queries: int, seed: int) -> np.ndarray:
        explainer = kind(model(), digit.domain, target=digit.said)
        return explainer.explain(digit.pixels, queries=queries, seed=seed, posterior=posterior).mean

    return importances


def by_lime(digit: Digit, queries: int, seed: int) -> np.ndarray:
    """Importances by LimeImageExplainer, which works on colour: three equal channels."""
    from lime.lime_image import LimeImageExplainer

    with redirect_stderr(StringIO()):  # its progress bar
        e = LimeImageExplainer(random_state=seed).explain_instance(
            np.repeat(digit.pixels[:, :, None], 3, axis=2),
            lambda p: model()(np.ascontiguousarray(p[:, :, :, 0], dtype=np.float32)),
            labels=(digit.said,),
            top_labels=None,
            hide_color=GREY,
            num_features=digit.d,
            num_samples=queries,
            segmentation_fn=lambda _image: digit.labels,
        )
    out = np.zeros(digit.d)
    for j, weight in e.local_exp[digit.said]:
        out[j] = weight
    return out


def by_shap(digit: Digit, queries: int, seed: int) -> np.ndarray:
    """Importances by KernelExplainer, one background row: everything off."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap

        np.random.seed(seed)  # noqa: NPY002 - shap draws from the global state
        explainer = shap.KernelExplainer(digit.of_masks, np.zeros((1, digit.d)), silent=True)
        found = explainer.shap_values(
            np.ones((1, digit.d)), nsamples=queries, silent=True, l1_reg=False
        )
    return np.asarray(found).reshape(-1)


def at_random(digit: Digit, queries: int, seed: int) -> np.ndarray:
    """Any order."""
    del queries
    return np.random.default_rng([seed, 5]).random(digit.d)


EXPLAINERS: dict[str, Callable[[Digit, int, int], np.ndarray]] = {
    "BayesLIME": ours(cx.BayesLIME, "linear"),
    "BayesLIME, gp": ours(cx.BayesLIME, "gp"),
    "BayesSHAP": ours(cx.BayesSHAP, "linear"),
    "BayesSHAP, gp": ours(cx.BayesSHAP, "gp"),
    "lime": by_lime,
    "shap": by_shap,
    "random order": at_random,
}


def areas(all_digits: list[Digit], queries: int) -> dict[str, np.ndarray]:
    """``(digits,)`` area of every explainer's order."""
    out: dict[str, list[float]] = {name: [] for name in EXPLAINERS}
    for i, digit in enumerate(all_digits):
        for name, importances in EXPLAINERS.items():
            out[name].append(digit.area(np.argsort(-importances(digit, queries, i))))
    return {name: np.array(a) for name, a in out.items()}


def paired(ours_: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Mean difference, and the chance of one at least as bad if there were none (one-sided t)."""
    gap = ours_ - theirs
    if np.ptp(gap) == 0:
        return 0.0, 1.0
    return float(gap.mean()), float(stats.ttest_1samp(gap, 0.0, alternative="greater").pvalue)


def to_width(all_digits: list[Digit]) -> str:
    """What it takes to explain a digit to width 0.1."""
    rows = []
    for name, kind in (("BayesLIME", cx.BayesLIME), ("BayesSHAP", cx.BayesSHAP)):
        for posterior in ("linear", "gp"):
            found = [
                kind(model(), d.domain, target=d.said).explain(
                    d.pixels, width=0.1, posterior=posterior
                )
                for d in all_digits
            ]
            assert all(e.converged for e in found)
            assert max(float(np.max(e.interval().width)) for e in found) <= 0.1
            queries = np.array([e.n_queries for e in found])
            seconds = np.median([e.seconds for e in found])
            low, middle, high = (f"{np.quantile(queries, q):.0f}" for q in (0.1, 0.5, 0.9))
            rows.append([name, posterior, middle, f"{low} … {high}", f"{seconds:.2f}"])
    head = ["explainer", "posterior", "queries, median", "10 % … 90 %", "seconds, median"]
    return table(head, rows)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="ten digits")
    quick = parser.parse_args().quick
    all_digits = chosen(10 if quick else DIGITS)
    right = accuracy(cnn())
    rows, verdicts = [], []
    for queries in QUERIES:
        found = areas(all_digits, queries)
        for name, area in found.items():
            cells = [name, str(queries), f"{area.mean():.4f}"]
            for other in ("lime", "shap", "random order"):
                gap, p = paired(area, found[other])
                known = name in (other, "random order")
                cells.append("" if known else f"{gap:+.4f} (p = {p:.2f})".replace("-", "−"))
                if name.startswith("Bayes"):
                    verdicts.append((name, other, queries, gap, p))
            rows.append(cells)
            print("  ".join(cells), flush=True)
    head = ["order of", "queries", "area", "− lime", "− shap", "− random"]
    d = np.array([digit.d for digit in all_digits])
    body = f"{len(all_digits)} digits, {d.min()} to {d.max()} regions, a network that names "
    body += (
        f"{right:.2%} of the test digits rightly. Smaller areas are better; p is the chance of a "
    )
    body += "difference at least that bad if there were none (paired, one-sided).\n\n"
    body += table(head, rows)
    worse = [
        f"{name} against {other} at {queries} queries ({gap:+.4f}, p = {p:.3f})".replace("-", "−")
        for name, other, queries, gap, p in verdicts
        if (gap > -CLEARLY if other == "random order" else p <= CHANCE)
    ]
    body += f"\n\nWanted: no order worse than lime's or shap's (p > {CHANCE}, every pair, not "
    body += f"corrected for their number) and {CLEARLY} below random. Pairs that miss it: "
    body += ("; ".join(worse) or "none") + "."
    body += "\n\n## To width 0.1\n\n" + to_width(all_digits[: 3 if quick else 20])
    publish("deletion", "Deletion curves", "make bench-deletion", body)
    assert right >= 0.98, right
    assert not worse, worse


if __name__ == "__main__":
    main()
