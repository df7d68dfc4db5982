"""lime and shap on a case, as functions from rows to importances, with settings as they ship."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from experiments.cases import Case

__all__ = ["lime_picture_values", "lime_values", "shap_picture_values", "shap_values"]


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
    background = case.shap.at(case.instances.iloc[0]).base_inputs().to_numpy()
    return _kernel(case.model, background, rows, samples, seed)


def lime_picture_values(case: Case, rows: np.ndarray, *, samples: int, seed: int) -> np.ndarray:
    """Coefficients ``(n, d)`` of lime for pictures, on the regions of the case."""
    from lime.lime_image import LimeImageExplainer

    def one(pictures: np.ndarray) -> np.ndarray:
        pictures = pictures[..., 0] if rows.ndim == 3 else pictures  # lime makes grey ones RGB
        return np.asarray(case.model(pictures))[:, None]

    out = []
    for i, row in enumerate(rows):
        labels = case.lime.at(row).regions.labels
        found = LimeImageExplainer(random_state=1_000 * seed + i).explain_instance(
            row,
            one,
            labels=(0,),
            hide_color=0,
            top_labels=None,
            num_features=int(labels.max()) + 1,
            num_samples=samples,
            batch_size=100,
            segmentation_fn=lambda _, labels=labels: labels,
        )
        out.append([value for _, value in sorted(found.local_exp[0])])
    return np.array(out)


def shap_picture_values(case: Case, rows: np.ndarray, *, samples: int, seed: int) -> np.ndarray:
    """Values ``(n, d)`` of shap's KernelExplainer, as a function of the regions kept."""
    out = []
    for i, row in enumerate(rows):
        hood = case.shap.at(row)

        def kept(masks: np.ndarray, hood: Any = hood) -> np.ndarray:
            return np.asarray(case.model(hood.coalition_inputs(masks > 0.5)[0]))

        active = np.flatnonzero(hood.active)
        d = len(hood.active)
        values = np.zeros(d)
        background, whole = np.zeros((1, d)), np.ones((1, d))
        background[:, ~hood.active] = 1.0  # black already: nothing to switch off
        found = _kernel(kept, background, whole, samples, 1_000 * seed + i)
        values[active] = found[0, active]
        out.append(values)
    return np.array(out)


def _kernel(
    model: Any, background: np.ndarray, rows: np.ndarray, samples: int | str, seed: int
) -> np.ndarray:
    import shap

    before = np.random.get_state()  # noqa: NPY002 - shap has no other source of randomness
    np.random.seed(seed)  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # regressions that are singular at small budgets
            explainer = shap.KernelExplainer(model, background)
            found = explainer.shap_values(
                rows, nsamples=samples, l1_reg=f"num_features({rows.shape[1]})", silent=True
            )
    finally:
        np.random.set_state(before)  # noqa: NPY002
    return np.asarray(found, dtype=np.float64)
