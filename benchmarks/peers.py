"""The peers of BayesSHAP, each as a function of a game, a budget and a seed.

Each gets the budget as the number of coalitions it may ask, the empty and the full one included.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.games import index_of


class Counted:
    """A value function that reads a table ``(2^d,)`` and counts the coalitions asked of it.

    A coalition asked twice counts twice: a peer that repeats itself pays for it.
    """

    def __init__(self, table: np.ndarray) -> None:
        self.table = table
        self.d = len(table).bit_length() - 1
        self.asked = 0

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        """Values of masks ``Z (n, d)`` or ``(d,)``."""
        Z = np.atleast_2d(np.asarray(Z)) > 0.5
        self.asked += len(Z)
        return self.table[index_of(Z)]


Estimator = Callable[[Counted, int, int], np.ndarray]
"""Shapley values ``(d,)`` from a game, a budget and a seed."""


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


PEERS: dict[str, tuple[Estimator, ...]] = {
    "KernelExplainer": (
        partial(kernel_explainer, l1_reg="num_features(10)"),  # the default
        partial(kernel_explainer, l1_reg=False),
    ),
    "PermutationExplainer": (permutation_explainer,),
    "KernelSHAP": (partial(from_shapiq, name="KernelSHAP", pairing_trick=True),),
    "kADDSHAP": (partial(from_shapiq, name="kADDSHAP", max_order=2),),
    "SVARM": (partial(from_shapiq, name="SVARM"),),
    "PermutationSamplingSV": (partial(from_shapiq, name="PermutationSamplingSV"),),
    "UnbiasedKernelSHAP": (partial(from_shapiq, name="UnbiasedKernelSHAP", pairing_trick=True),),
}
"""Every peer; of several settings the better one counts, cell by cell."""
