"""The peers of BayesSHAP, each as a function of a game, a budget and a seed.

Each gets the budget as the number of coalitions it may ask, the empty and the full one included.
This file runs under the interpreter of credex and under that of the peers' own environment (shapiq
1.8 needs Python 3.12), so it imports neither credex nor what only one of them has.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from math import comb
from typing import Any

import numpy as np

from benchmarks.stored_games import Counted

Estimator = Callable[[Counted, int, int], np.ndarray]
"""From a game, a budget and a seed: Shapley values ``(d,)``, or with standard errors ``(2, d)``."""

TERMS = 2_000
"""Terms of PolySHAP, at most: its solver takes minutes for 5,000."""


class NotHereError(ValueError):
    """The estimator has nothing to say at this number of players and queries."""


def kernel_explainer(game: Counted, budget: int, seed: int, *, l1_reg: Any) -> np.ndarray:
    """shap.KernelExplainer, which asks the empty and the full coalition on top of nsamples."""
    import shap

    np.random.seed(seed)  # noqa: NPY002  its only source of randomness
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # singular regressions at small budgets
        ex = shap.KernelExplainer(game, np.zeros((1, game.d)))
        return ex.shap_values(
            np.ones((1, game.d)), nsamples=budget - 2, l1_reg=l1_reg, silent=True
        )[0]


def permutation_explainer(game: Counted, budget: int, seed: int) -> np.ndarray:
    """shap.PermutationExplainer: whole permutations, there and back, as many as fit."""
    import shap

    if budget < 2 * game.d + 1:
        raise NotHereError
    masker = shap.maskers.Independent(np.zeros((1, game.d)))
    ex = shap.PermutationExplainer(game, masker, seed=seed)
    return ex(np.ones((1, game.d)), max_evals=budget, silent=True).values[0]


def from_shapiq(game: Counted, budget: int, seed: int, *, name: str, **options: Any) -> np.ndarray:
    """One of shapiq's approximators."""
    import shapiq

    make = getattr(shapiq.approximator, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # slow sampling when nearly all coalitions are asked
        values = make(n=game.d, random_state=seed, **options).approximate(budget, game)
    return np.array([values[(i,)] for i in range(game.d)])


def polyshap(game: Counted, budget: int, seed: int, *, order: int) -> np.ndarray:
    """PolySHAP with half as many terms as queries: with more its regression falls apart."""
    terms = max(game.d + 1, min(budget // 2, TERMS))
    if order > 2 and sum(comb(game.d, k) for k in range(order)) >= terms:
        raise NotHereError  # lower orders fill the terms: the same estimate again
    options = {"max_order": order, "max_terms": terms, "pairing_trick": True}
    return from_shapiq(game, budget, seed, name="PolySHAP", **options)


def shapleig(game: Counted, budget: int, seed: int) -> np.ndarray:
    """ShaplEIG with the schedule that its documentation recommends for large budgets."""
    from shapiq.approximator import ShaplEIG

    make = ShaplEIG(n=game.d, random_state=seed, show_progress=False, refit="decaying")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its optimiser
        values, variances = make.approximate_with_variance(budget=budget, game=game)
    mean = np.array([values[(i,)] for i in range(game.d)])
    return np.stack([mean, np.sqrt(np.maximum(variances, 0))])


def lightshap(game: Counted, budget: int, seed: int, *, method: str, degree: int) -> np.ndarray:
    """LightSHAP for as many iterations as fit, with all coalitions up to a size if it can.

    Its default is degree 2 up to 16 players and degree 1 beyond.
    """
    from lightshap import explain_any

    d = game.d
    ask = 2 + (2 * d if degree else 0) + (d * (d - 1) if degree == 2 else 0)
    iterations = (budget - ask) // (2 * (d - 1 - 2 * degree))
    if iterations < 1:
        raise NotHereError
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it did not converge
        found = explain_any(
            game,
            np.ones((1, d)),
            bg_X=np.zeros((1, d)),
            method=method,
            how="sampling" if method == "permutation" or not degree else f"h{degree}",
            max_iter=iterations,
            tol=0.0,
            random_state=seed,
            verbose=False,
        )
    return np.stack([np.ravel(found.shap_values), np.ravel(found.standard_errors)])


OLD: dict[str, dict[str, Estimator]] = {
    "KernelExplainer": {
        "default": partial(kernel_explainer, l1_reg="num_features(10)"),
        "l1_reg=False": partial(kernel_explainer, l1_reg=False),
    },
    "PermutationExplainer": {"": permutation_explainer},
    "KernelSHAP": {"": partial(from_shapiq, name="KernelSHAP", pairing_trick=True)},
    "kADDSHAP": {"": partial(from_shapiq, name="kADDSHAP", max_order=2)},
    "SVARM": {"": partial(from_shapiq, name="SVARM")},
    "PermutationSamplingSV": {"": partial(from_shapiq, name="PermutationSamplingSV")},
    "UnbiasedKernelSHAP": {"": partial(from_shapiq, name="UnbiasedKernelSHAP", pairing_trick=True)},
}
"""Those of shap 0.51 and shapiq 1.4.1, with their settings: the better one counts in every cell."""

NEW: dict[str, dict[str, Estimator]] = {
    "LeverageSHAP": {"": partial(from_shapiq, name="LeverageSHAP")},
    "OddSHAP": {
        f"factor {k}": partial(from_shapiq, name="OddSHAP", interaction_factor=k)
        for k in (10, 5, 3)
    },
    "PolySHAP": {f"order {k}": partial(polyshap, order=k) for k in (2, 3, 4)},
    "RegressionMSR": {
        f"{k} folds": partial(from_shapiq, name="RegressionMSR", index="SV", k_folds=k)
        for k in (5, 1)
    },
    "ProxySHAP": {
        word: partial(from_shapiq, name="ProxySHAP", index="SV", max_order=1, adjustment=adjusted)
        for word, adjusted in (("plain", False), ("adjusted", True))
    },
    "LightSHAP": {
        "kernel": partial(lightshap, method="kernel", degree=0),
        "kernel h1": partial(lightshap, method="kernel", degree=1),
        "kernel h2": partial(lightshap, method="kernel", degree=2),
        "permutation": partial(lightshap, method="permutation", degree=1),
    },
    "ShaplEIG": {"": shapleig},
}
"""Those of 2026, which need shapiq 1.8."""

SLOW = ("ShaplEIG",)
"""Peers that take half a minute where others take a tenth of a second: run last, and less often."""

FEW_PLAYERS = {"kADDSHAP": 30, "SVARM": 30}
"""Most players that a peer is tried with: beyond, these take up to half a minute and are no match
(errors of 0.92 and 0.62 at d = 100 and 2,000 queries, where LeverageSHAP has 0.25)."""


def available() -> dict[str, dict[str, Estimator]]:
    """Return the peers that can run under this interpreter."""
    if find_spec("shapiq") is None or tuple(map(int, version("shapiq").split(".")[:2])) < (1, 8):
        return OLD
    new = dict(NEW)
    if find_spec("botorch") is None:
        del new["ShaplEIG"]
    return {**OLD, **new}


def versions() -> dict[str, str]:
    """Return the versions of what the peers stand on, as far as it is installed."""
    out = {}
    for name in ("shap", "shapiq", "lightshap", "xgboost-cpu", "lightgbm", "torch", "botorch"):
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    return out
