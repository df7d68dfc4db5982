"""Digits without the regions that an explanation calls important, for readers to name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

import credex as cx
from experiments.image_cases import digit

__all__ = ["METHODS", "SWEEP", "Masked", "masked_digits"]

METHODS = ("LIME", "BayesLIME")
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
        What is left after hiding, by method: ``(28, 28)``.
    chosen
        Perturbations of the explanation that each method prefers.
    """

    label: int
    left: dict[str, np.ndarray]
    chosen: dict[str, int]


def masked_digits(count: int, *, seed: int = 0) -> list[Masked]:
    """Hide the most important regions of ``count`` test digits that the network names rightly.

    LIME's explanation is the one of the sweep with the best fidelity (weighted R²), BayesLIME's the
    one with the largest P(ε = 0); each size of the sweep has perturbations of its own.
    """
    rng = np.random.default_rng(seed)
    out = []
    for i in tqdm(range(count), disable=None, leave=False, desc="quality"):
        label = int(rng.integers(0, 10))
        case = digit(label)
        x = case.instances[int(rng.integers(0, len(case.instances)))]
        e = cx.BayesLIME(case.model, case.lime).explain(x, queries=sum(SWEEP) + 2, seed=i)
        rows = e.history.rows
        Z, y, w = rows.design(), rows.y()[:, 0], rows.w()
        literal = cx.Exponential(distance="cosine", root=False).weights(Z, np.ones(Z.shape[1]))
        ends = np.cumsum((0, *SWEEP))
        best = {m: (-np.inf, Z[0].astype(float), 0) for m in METHODS}
        for n, a, b in zip(SWEEP, ends[:-1], ends[1:], strict=True):
            lime = cx.LinearPosterior.fit(Z[a:b], y[a:b], w[a:b])
            bayes = cx.LinearPosterior.fit(Z[a:b], y[a:b], literal[a:b], intercept="none")
            for method, p, score in (
                ("LIME", lime, float(lime.r2)),
                ("BayesLIME", bayes, float(bayes.error.density_at_zero)),
            ):
                if score > best[method][0]:
                    best[method] = (score, p.mean, n)
        left = {}
        for method, (_, phi, _) in best.items():
            keep = np.ones((1, len(phi)), dtype=bool)
            keep[0, np.argsort(-phi, kind="stable")[:REGIONS_HIDDEN]] = False
            left[method] = np.asarray(case.lime.at(x).coalition_inputs(keep)[0])[0]
        out.append(Masked(label, left, {m: best[m][2] for m in METHODS}))
    return out
