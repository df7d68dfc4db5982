"""lime and shap on a case, as functions from rows to importances, with settings as they ship."""

from __future__ import annotations

import warnings

import numpy as np

from experiments.cases import Case

__all__ = ["lime_values", "shap_values"]


def lime_values(case: Case, rows: np.ndarray, *, samples: int, seed: int) -> np.ndarray:
    """Coefficients ``(n, d)`` of `lime`, features in order; new perturbations for every row."""
    from lime.lime_tabular import LimeTabularExplainer

    names = list(case.train.columns)
    explainer = LimeTabularExplainer(
        case.train.to_numpy(),
        mode="regression",
        categorical_features=[names.index(c) for c in case.categorical],
        discretize_continuous=True,
        random_state=seed,
    )
    out = np.zeros((len(rows), len(names)))
    for i, row in enumerate(rows):
        found = explainer.explain_instance(
            row, case.model, num_features=len(names), num_samples=samples
        )
        for j, value in found.local_exp[1]:
            out[i, j] = value
    return out


def shap_values(
    case: Case, rows: np.ndarray, *, samples: int | str = "auto", seed: int
) -> np.ndarray:
    """Values ``(n, d)`` of shap's KernelExplainer on the background of the case."""
    import shap

    before = np.random.get_state()  # noqa: NPY002 - shap has no other source of randomness
    np.random.seed(seed)  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # regressions that are singular at small budgets
            background = case.shap.at(case.instances.iloc[0]).base_inputs().to_numpy()
            explainer = shap.KernelExplainer(case.model, background)
            found = explainer.shap_values(
                rows, nsamples=samples, l1_reg=f"num_features({rows.shape[1]})", silent=True
            )
    finally:
        np.random.set_state(before)  # noqa: NPY002
    return np.asarray(found, dtype=np.float64)
