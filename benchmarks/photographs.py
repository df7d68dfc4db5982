"""Photographs and an ImageNet classifier. Run it with ``make bench-photographs``.

EfficientNet-Lite0 classifies ten photographs of 224 × 224. Two questions:

1. Do the regions matter? The three regions with the largest importances are painted over, and so
   are three random regions, many times: how often does the first lower the class probability more?
2. What does a query buy? Coefficients of BayesLIME with a Gaussian process from 300 queries against
   those of lime's LimeImageExplainer from its default of 1,000: the same regions, replacement and
   kernel; the truth is the same regression over all 2^d masks, asked once and kept.
"""

from __future__ import annotations

import argparse
import hashlib
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO

import numpy as np

import credex as cx
from benchmarks.timing import publish, table
from realdata.fetch import kept
from realdata.imagenet import classifier
from realdata.photographs import NAMES, Photograph, photograph

ENUMERATED = ("camera", "flamingo", "chelsea", "hawk", "rocket")
"""Photographs whose 2^d masks are all asked."""

QUERIES, LIME_QUERIES = 300, 1000
TOP = 3
WANTED = 0.95


def probability(pictures: np.ndarray, output: int) -> np.ndarray:
    """Return the probability of one class."""
    return classifier().predict_proba(pictures)[:, output]


@lru_cache(maxsize=len(NAMES))
def named(name: str) -> tuple[Photograph, int]:
    """Return a photograph and the class that is said first."""
    found = photograph(name)
    return found, int(classifier().predict_proba(found.pixels[None])[0].argmax())


# -- 1. do the regions matter? -----------------------------------------------------------------


@dataclass(frozen=True)
class Drop:
    """Loss of probability: of the three regions, and of three random ones, many times."""

    before: float
    chosen: float
    random: np.ndarray

    @property
    def share(self) -> float:
        """Draws in which the chosen regions lower the probability more."""
        return float(np.mean(self.chosen > self.random))


def drop(name: str, kind: type[cx.BayesLIME | cx.BayesSHAP], draws: int) -> tuple[int, Drop]:
    """Explain one photograph, and paint over what it says and what it does not say."""
    found, output = named(name)
    domain = cx.Image(segments=cx.Slic(20))
    explainer = kind(lambda x: probability(x, output), domain)
    e = explainer.explain(found.pixels, queries=QUERIES, posterior="gp")
    d = len(e.names)
    here = domain.at(found.pixels)
    rng = np.random.default_rng(0)
    masks = np.ones((draws + 2, d), dtype=bool)
    masks[1, np.argsort(-e.mean)[:TOP]] = False
    for row in masks[2:]:
        row[rng.choice(d, TOP, replace=False)] = False
    asked, position = np.unique(masks, axis=0, return_inverse=True)
    y = probability(here.coalition_inputs(asked)[0], output)[position.reshape(-1)]
    return d, Drop(float(y[0]), float(y[0] - y[1]), y[0] - y[2:])


# -- 2. what does a query buy? -----------------------------------------------------------------


@dataclass(frozen=True)
class Game:
    """A photograph cut into about a dozen regions, and the class probability of every mask."""

    pixels: np.ndarray
    labels: np.ndarray
    replacement: np.ndarray
    values: np.ndarray
    """``(2^d,)``; bit j of the position is region j."""

    @property
    def d(self) -> int:
        """Regions."""
        return int(self.labels.max()) + 1

    def of_masks(self, masks: np.ndarray) -> np.ndarray:
        """Look up ``(n, d)`` masks."""
        return self.values[masks.astype(np.int64) @ (1 << np.arange(self.d))]

    def of_pictures(self, pictures: np.ndarray) -> np.ndarray:
        """Look up pictures by what they still show: one telling number in each region."""
        different = np.any(self.pixels != self.replacement, axis=2)
        masks = np.ones((len(pictures), self.d), dtype=bool)
        for j in range(self.d):
            at = np.argwhere(different & (self.labels == j))
            if len(at):
                y, x = at[0]
                masks[:, j] = np.all(pictures[:, y, x] == self.pixels[y, x], axis=1)
        return self.of_masks(masks)


def painted_by_lime(pixels: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean colours as LimeImageExplainer makes them: cut to whole numbers, not rounded."""
    out = pixels.copy()
    for j in range(int(labels.max()) + 1):
        out[labels == j] = pixels[labels == j].mean(axis=0).astype(np.uint8)
    return out


def game(name: str) -> Game:
    """Return the table of one photograph; asked once, which takes minutes, and kept."""
    found, output = named(name)
    here = cx.Image(segments=cx.Slic(12)).at(found.pixels)
    labels = here.regions.labels
    d = len(here.names)
    replacement = painted_by_lime(found.pixels, labels)
    mark = hashlib.sha256(found.pixels.tobytes() + labels.tobytes()).hexdigest()[:12]
    path = kept(f"photograph-{name}-{d}-{mark}.npy")
    if not path.exists():
        print(f"asking all {2**d:,} masks of {name}", flush=True)
        around = cx.Image(segments=labels, fill=replacement).at(found.pixels)
        masks = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)
        parts = [
            probability(around.coalition_inputs(masks[i : i + 64])[0], output)
            for i in range(0, len(masks), 64)
        ]
        np.save(path, np.concatenate(parts))
    return Game(found.pixels, labels, replacement, np.load(path))


def lime_says(g: Game, seed: int, queries: int) -> np.ndarray:
    """Coefficients of the real LimeImageExplainer."""
    from lime.lime_image import LimeImageExplainer

    def model(pictures: np.ndarray) -> np.ndarray:
        return g.of_pictures(np.asarray(pictures))[:, None]

    with redirect_stderr(StringIO()):  # its progress bar
        explanation = LimeImageExplainer(random_state=seed).explain_instance(
            g.pixels,
            model,
            labels=(0,),
            top_labels=None,
            num_features=g.d,
            num_samples=queries,
            segmentation_fn=lambda _image: g.labels,
        )
    out = np.zeros(g.d)
    for j, weight in explanation.local_exp[0]:
        out[j] = weight
    return out


def errors(g: Game, seeds: int) -> dict[str, np.ndarray]:
    """Relative RMSE by seed of lime and of BayesLIME against the regression over all masks."""
    ours = cx.BayesLIME(g.of_masks, cx.Masks(g.d))
    truth = ours.explain(queries=2**g.d + 1).mean
    size = np.abs(truth).mean()

    def wrong(found: np.ndarray) -> float:
        return float(np.sqrt(np.mean((found - truth) ** 2)) / size)

    return {
        "lime": np.array([wrong(lime_says(g, s, LIME_QUERIES)) for s in range(seeds)]),
        "linear": np.array(
            [wrong(ours.explain(queries=LIME_QUERIES, seed=s).mean) for s in range(seeds)]
        ),
        "gp": np.array(
            [
                wrong(ours.explain(queries=QUERIES, posterior="gp", seed=s).mean)
                for s in range(seeds)
            ]
        ),
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two photographs, few draws")
    quick = parser.parse_args().quick
    names, some = (NAMES[:2], ENUMERATED[:1]) if quick else (NAMES, ENUMERATED)
    draws, seeds = (20, 2) if quick else (100, 10)
    rows, shares, below = [], [], []
    for name in names:
        for label, kind in (("BayesLIME", cx.BayesLIME), ("BayesSHAP", cx.BayesSHAP)):
            d, found = drop(name, kind, draws)
            shares.append(found.share)
            if found.share < WANTED:
                below.append(f"{name} by {label} ({found.share:.0%})")
            said = classifier().classes_[named(name)[1]]
            rows.append(
                [
                    name,
                    str(said),
                    label,
                    str(d),
                    f"{found.before:.3f}",
                    f"{-found.chosen:+.3f}".replace("-", "−"),
                    f"{-np.median(found.random):+.3f}".replace("-", "−"),
                    f"{found.share:.0%}",
                ]
            )
            print("  ".join(rows[-1]), flush=True)
    head = ["photograph", "class", "explainer", "regions", "probability"]
    head += [f"without the top {TOP}", f"without {TOP} random", "the top lowers more"]
    first = table(head, rows)
    summary = f"The top {TOP} lower the probability more in {np.mean(shares):.1%} of "
    summary += f"{draws * len(shares):,} draws (posterior gp, {QUERIES} queries each; "
    summary += f"wanted: {WANTED:.0%} of all draws). Below that by themselves: "
    summary += ("; ".join(below) or "none") + "."

    rows, ratios = [], []
    for name in some:
        g = game(name)
        e = errors(g, seeds)
        middle = {k: float(np.median(v)) for k, v in e.items()}
        ratios.append(middle["gp"] / middle["lime"])
        row = [name, str(g.d), f"{middle['lime']:.3f}", f"{middle['linear']:.3f}"]
        rows.append([*row, f"{middle['gp']:.3f}", f"{ratios[-1]:.2f}"])
        print("  ".join(rows[-1]), flush=True)
    head = [
        "photograph",
        "regions",
        f"lime, {LIME_QUERIES:,}",
        f"BayesLIME linear, {LIME_QUERIES:,}",
    ]
    head += [f"BayesLIME gp, {QUERIES}", "gp / lime"]
    second = table(head, rows)
    words = f"RMSE of the coefficients over their mean size, median of {seeds} seeds; the truth is "
    words += "the same weighted regression over all masks. In each column: the number of queries."
    body = f"{first}\n\n{summary}\n\n## Error of the coefficients\n\n{second}\n\n{words}"
    publish("photographs", "Photographs", "make bench-photographs", body)
    if not quick:
        assert np.mean(shares) >= WANTED, shares
        assert max(ratios) <= 1.0, ratios


if __name__ == "__main__":
    main()
