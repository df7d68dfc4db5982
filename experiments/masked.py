"""Digits without the regions that an explanation calls important, for readers to name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from tqdm import tqdm

import credex as cx
from experiments.image_cases import COMPACTNESS, digit

__all__ = ["METHODS", "REGIONS_HIDDEN", "SWEEP", "WAYS", "Masked", "Regression", "masked_digits"]

Regression = Literal["published", "lime"]

METHODS = ("LIME", "BayesLIME")
"""What people are shown: the same regression, chosen by fidelity or by P(ε = 0)."""

WAYS = (*METHODS, "largest N")
"""What else is compared: no choice at all."""

SWEEP = tuple(round(10 ** (k / 2)) for k in range(1, 8))
"""Perturbations of the seven explanations to choose from: 10^0.5 to 10^3.5."""

REGIONS_HIDDEN = 2
"""Of about twenty, most of them black already; the paper does not say how many."""


@dataclass(frozen=True)
class Masked:
    """A digit, what is left of it, and how much of the sweep each method chose.

    Attributes
    ----------
    label
        The digit.
    left
        What is left after hiding, by way: ``(28, 28)``.
    chosen
        Perturbations of the explanation that each way prefers.
    """

    label: int
    left: dict[str, np.ndarray]
    chosen: dict[str, int]


def masked_digits(
    count: int,
    *,
    seed: int = 0,
    compactness: float = COMPACTNESS,
    regression: Regression = "published",
) -> list[Masked]:
    """Hide the most important regions of ``count`` test digits that the network names rightly.

    All ways fit the same regression. “LIME” is the explanation of the sweep with the best fidelity
    (weighted R²), “BayesLIME” the one with the largest P(ε = 0). Each size of the sweep has
    perturbations of its own; the published code's regression has the instance's row, too.
    """
    rng = np.random.default_rng(seed)
    out = []
    for i in tqdm(range(count), disable=None, leave=False, desc="quality"):
        label = int(rng.integers(0, 10))
        case = digit(label, compactness)
        x = case.instances[int(rng.integers(0, len(case.instances)))]
        lime = cx.BayesLIME(case.model, case.lime, recipe="published")
        rows = lime.explain(x, queries=sum(SWEEP), seed=i).history.rows
        Z, y, w = rows.design(), rows.y()[:, 0], rows.w()
        published = regression == "published"
        if not published:
            w = cx.Exponential(distance="cosine").weights(Z, np.ones(Z.shape[1]))
        ends = np.cumsum((1, *(n - 1 for n in SWEEP)))
        best = {way: (-np.inf, Z[0].astype(float), 0) for way in WAYS}
        for n, a, b in zip(SWEEP, ends[:-1], ends[1:], strict=True):
            at, intercept = (np.r_[0, a:b], "unit") if published else (np.arange(a, b), "flat")
            p = cx.LinearPosterior.fit(Z[at], y[at], w[at], intercept=intercept)
            scores = (float(p.r2), float(p.error.density_at_zero), float(n))
            for way, score in zip(WAYS, scores, strict=True):
                if score > best[way][0]:
                    best[way] = (score, p.mean, n)
        left = {}
        for way, (_, phi, _) in best.items():
            keep = np.ones((1, len(phi)), dtype=bool)
            keep[0, np.argsort(-phi, kind="stable")[:REGIONS_HIDDEN]] = False
            left[way] = np.asarray(case.lime.at(x).coalition_inputs(keep)[0])[0]
        out.append(Masked(label, left, {way: best[way][2] for way in WAYS}))
    return out
