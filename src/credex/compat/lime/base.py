"""What lime's three explainers share: kernel, labels, and how they ask BayesLIME."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credex.designs.perturbations import Exponential
from credex.errors import InputError, check_count, check_positive
from credex.explanation import Explanation
from credex.lime import BayesLIME
from credex.posteriors import Prior
from credex.typing import Design, Floats, Weights

__all__ = ["LimeExplainer", "as_outputs", "chosen_labels", "class_outputs", "ignored"]

SELECTIONS = {
    "auto": "auto",
    "forward_selection": "forward",
    "highest_weights": "highest",
    "lasso_path": "lasso",
    "none": "none",
}
"""lime's names of feature selection, and credex's."""


def _exponential(distance: Floats, kernel_width: float) -> Floats:
    return np.asarray(np.exp(-0.5 * distance**2 / kernel_width**2))


@dataclass(frozen=True, slots=True)
class DistanceKernel:
    """A kernel of the user's: any function of any distance that scikit-learn knows."""

    function: Callable[..., Any]
    width: float
    metric: str
    factor: float

    def weights(self, design: Design, origin: Floats) -> Weights:
        """Weights of the rows ``design (n, d)`` seen from ``origin (d,)``."""
        from sklearn.metrics import pairwise_distances

        rows = np.asarray(design, dtype=np.float64)
        distance = pairwise_distances(rows, origin[None], metric=self.metric).ravel()
        return np.asarray(self.function(distance * self.factor, kernel_width=self.width))


class LimeExplainer:
    """Settings of a lime explainer, and how its question is put to BayesLIME."""

    factor = 1.0
    """What distances are multiplied by before the kernel."""

    def __init__(
        self,
        *,
        kernel_width: float | None,
        kernel: Callable[..., Any] | None,
        verbose: bool,
        feature_selection: str,
        random_state: Any,
    ) -> None:
        if kernel_width is not None:
            check_positive("kernel_width", kernel_width)
        if feature_selection not in SELECTIONS:
            known = ", ".join(map(repr, SELECTIONS))
            raise InputError(f"feature_selection must be one of {known}; got {feature_selection!r}")
        self.kernel_width, self.kernel, self.verbose = kernel_width, kernel, verbose
        self.feature_selection = feature_selection
        self.seed = _seed(random_state)

    def _weighting(self, metric: str, d: int) -> Exponential | DistanceKernel:
        """Return the kernel for d features."""
        plain = self.kernel is None and metric in ("euclidean", "cosine")
        if plain:
            width = None if self.kernel_width is None else self.kernel_width / self.factor
            return Exponential(width, distance=metric)  # type: ignore[arg-type] # one of the two
        width = 0.75 * np.sqrt(d) if self.kernel_width is None else float(self.kernel_width)
        return DistanceKernel(self.kernel or _exponential, width, metric, self.factor)

    def _explain(
        self,
        domain: Any,
        x: Any,
        model: Callable[[Any], Any],
        at_instance: Floats,
        *,
        labels: Sequence[int],
        names: Sequence[str],
        d: int,
        num_features: int,
        num_samples: int,
        model_regressor: Any,
        **options: Any,
    ) -> Explanation:
        """Explain some outputs of ``model`` at ``x``; ``at_instance (k,)`` is f(x), asked before.

        That row is counted, too.
        """
        bad = [label for label in labels if not 0 <= label < len(at_instance)]
        if bad:
            msg = f"label {bad[0]!r}: the model has {len(at_instance)} outputs; labels are 0 to "
            raise InputError(f"{msg}{len(at_instance) - 1}")
        keep = min(check_count("num_features", num_features), d)
        chosen = self.feature_selection != "none" and keep < d
        columns = list(labels)
        e = BayesLIME(lambda rows: as_outputs(model(rows))[:, columns], domain).explain(
            x,
            queries=check_count("num_samples", num_samples),
            features=keep if chosen else None,
            selection=SELECTIONS[self.feature_selection],
            prior=_prior(model_regressor),
            seed=self.seed,
            **options,
        )
        if self.verbose:
            for j, label in enumerate(labels):
                _print_fit(e, j, float(at_instance[label]))
        history = replace(e.history, n_model_rows=e.n_model_rows + 1)
        return replace(e, history=history, outputs=tuple(str(names[label]) for label in labels))


def _seed(random_state: Any) -> int:
    """Return a seed: credex's default for ``None``, a draw from a generator."""
    if random_state is None:
        return 0
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    msg = f"random_state must be a whole number or a generator of numpy; got {random_state!r}"
    raise InputError(msg)


def _prior(regressor: Any) -> Prior | None:
    """Return the prior that gives the coefficients of a ridge regression."""
    if regressor is None:
        return None
    from sklearn.linear_model import Ridge

    if type(regressor) is Ridge and regressor.fit_intercept and np.ndim(regressor.alpha) == 0:
        return Prior(precision=float(regressor.alpha))
    msg = f"model_regressor is {regressor!r}; credex fits a Bayesian linear regression, whose mean "
    msg += "is that of Ridge(alpha) with an intercept: pass that, or leave it out for Ridge(1)"
    raise InputError(msg)


def as_outputs(y: Any) -> Floats:
    """Return what a model answered as ``(n, k)`` numbers."""
    out = np.asarray(y, dtype=np.float64)
    return out[:, None] if out.ndim == 1 else out


def class_outputs(y: Any, row: Any) -> Floats:
    """Return f(x) of all classes, ``(k,)``."""
    out = np.asarray(y, dtype=np.float64)
    if out.ndim != 2:
        msg = f"the classifier returned an array of shape {out.shape} for {row}; it must return a "
        msg += "row of probabilities, (n, k): pass predict_proba, or use mode='regression'"
        raise InputError(msg)
    return np.asarray(out[0])


def chosen_labels(
    at_instance: Floats, labels: Sequence[int], top_labels: int | None
) -> tuple[list[int], list[int] | None]:
    """Return the labels to explain, and those that ``top_labels`` chose, if it did."""
    if not top_labels:
        return [int(label) for label in labels], None
    top = [int(i) for i in np.argsort(at_instance)[::-1][: check_count("top_labels", top_labels)]]
    return top, top


def _print_fit(e: Explanation, j: int, right: float) -> None:
    local, intercept = np.atleast_1d(e.local_prediction)[j], np.atleast_1d(e.intercept)[j]
    print("Intercept", float(intercept))  # noqa: T201 - verbose=True asks for it
    print("Prediction_local", np.array([local]))  # noqa: T201
    print("Right:", right)  # noqa: T201


def ignored(name: str, why: str) -> None:
    """Warn the caller of a constructor that an argument changes nothing."""
    warnings.warn(f"{name} changes nothing: {why}", stacklevel=3)
