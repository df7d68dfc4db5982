"""lime's explainer of tables, computed by BayesLIME: change the import, keep the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from credex.compat.lime.base import (
    LimeExplainer,
    as_outputs,
    chosen_labels,
    class_outputs,
    ignored,
)
from credex.compat.lime.results import REGRESSION_LABEL, LimeExplanation
from credex.compat.lime.table import LimeTable, bins_of
from credex.errors import InputError
from credex.typing import Floats

__all__ = ["LimeTabularExplainer"]


class LimeTabularExplainer(LimeExplainer):
    """lime's explainer of rows of numbers; its arguments are lime's.

    ``training_data_stats`` is an error: bins and frequencies come from ``training_data``.
    """

    def __init__(
        self,
        training_data: Any,
        mode: Literal["classification", "regression"] = "classification",
        training_labels: Any = None,
        feature_names: Sequence[str] | None = None,
        categorical_features: Sequence[int] | None = None,
        categorical_names: Mapping[int, Sequence[str]] | None = None,
        kernel_width: float | None = None,
        kernel: Callable[..., Any] | None = None,
        verbose: bool = False,
        class_names: Sequence[str] | None = None,
        feature_selection: str = "auto",
        discretize_continuous: bool = True,
        discretizer: Any = "quartile",
        sample_around_instance: bool = False,
        random_state: Any = None,
        training_data_stats: Any = None,
    ) -> None:
        import pandas as pd

        super().__init__(
            kernel_width=kernel_width,
            kernel=kernel,
            verbose=verbose,
            feature_selection=feature_selection,
            random_state=random_state,
        )
        if mode not in ("classification", "regression"):
            raise InputError(f"mode must be 'classification' or 'regression'; got {mode!r}")
        if training_data_stats is not None:
            msg = "training_data_stats cannot be used: bins and frequencies come from the rows of "
            raise InputError(msg + "training_data; leave it out")
        if training_labels is not None and not (discretize_continuous and discretizer == "entropy"):
            ignored("training_labels", "only discretizer='entropy' reads them")
        if sample_around_instance and discretize_continuous:
            ignored("sample_around_instance", "as in lime it needs discretize_continuous=False")
        data = _numbers(training_data)
        d = data.shape[1]
        self.mode: Literal["classification", "regression"] = mode
        self.feature_names = _names(feature_names, d)
        columns = () if categorical_features is None else categorical_features
        self.categorical_features = sorted({int(j) % d for j in columns})
        self.categorical_names = dict(categorical_names or {})
        self.class_names = None if class_names is None else [str(name) for name in class_names]
        around = sample_around_instance and not discretize_continuous
        numeric = [j for j in range(d) if j not in self.categorical_features]
        self._bins = None
        if discretize_continuous:
            self._bins = bins_of(data, numeric, discretizer, training_labels, self.seed)
        self._domain = LimeTable(
            pd.DataFrame(data, columns=self.feature_names),
            self._bins,
            categorical=[self.feature_names[j] for j in self.categorical_features],
            bins="quartile" if discretize_continuous else None,
            around="instance" if around else "training",
        )

    def explain_instance(
        self,
        data_row: Any,
        predict_fn: Callable[[Any], Any],
        labels: Sequence[int] = (1,),
        top_labels: int | None = None,
        num_features: int = 10,
        num_samples: int = 5000,
        distance_metric: str = "euclidean",
        model_regressor: Any = None,
    ) -> LimeExplanation:
        """Explain one row: ``num_samples`` perturbed rows, as lime draws them."""
        x = _numbers(np.atleast_2d(_dense(data_row, "data_row")))[0]
        d = len(self.feature_names)
        if len(x) != d:
            raise InputError(f"data_row has {len(x)} values; training_data has {d} columns")
        regression = self.mode == "regression"
        y = predict_fn(x[None])
        at_instance = as_outputs(y)[0] if regression else class_outputs(y, "one row")
        chosen, top = ([0], None) if regression else chosen_labels(at_instance, labels, top_labels)
        names = self.class_names or [str(j) for j in range(len(at_instance))]
        if regression:
            names = ["prediction", *names]
        elif len(names) != len(at_instance):
            msg = f"class_names has {len(names)} names; the model has {len(at_instance)} outputs"
            raise InputError(msg)
        e = self._explain(
            self._domain,
            x,
            lambda frame: predict_fn(frame.to_numpy()),
            at_instance,
            labels=chosen,
            names=names,
            d=d,
            num_features=num_features,
            num_samples=num_samples,
            model_regressor=model_regressor,
            kernel=self._weighting(distance_metric, d),
        )
        e = replace(e, instance=replace(e.instance, labels=self._labels(x)))
        return LimeExplanation(
            e,
            [REGRESSION_LABEL] if regression else chosen,
            top,
            mode=self.mode,
            class_names=names,
            at_instance=at_instance,
        )

    def _labels(self, x: Floats) -> tuple[str, ...]:
        """Return lime's condition for each feature: ``0.50 < age <= 1.00``, ``sex=Male``, name."""
        out = []
        for j, name in enumerate(self.feature_names):
            if j in self.categorical_features:
                shown: Any = int(x[j])
                if j in self.categorical_names:
                    shown = self.categorical_names[j][shown]
                out.append(f"{name}={shown}")
            else:
                out.append(name if self._bins is None else self._bins[j].label(name, x[j]))
        return tuple(out)


def _dense(data: Any, name: str) -> Any:
    if hasattr(data, "tocsr"):
        raise InputError(f"{name} is a sparse matrix; pass {name}.toarray()")
    if hasattr(data, "columns"):
        msg = f"{name} is a frame, which lime does not take either: pass .to_numpy(), or use "
        raise InputError(msg + "cx.BayesLIME(model, frame), which keeps columns and dtypes")
    return data


def _numbers(data: Any) -> Floats:
    """Return a table as floats, or raise."""
    try:
        out = np.array(_dense(data, "training_data"), dtype=np.float64)
    except (TypeError, ValueError) as cause:
        msg = f"the data must be numbers, with categories as whole numbers ({cause}); use "
        raise InputError(msg + "cx.BayesLIME(model, frame) for text and dates") from None
    if out.ndim != 2:
        raise InputError(f"training_data must have rows and columns; its shape is {out.shape}")
    if not np.isfinite(out).all():
        msg = "there are missing or infinite values, which lime cannot put into bins; fill them "
        raise InputError(msg + "in, or use cx.BayesLIME(model, frame), where missing is a bin")
    return out


def _names(given: Sequence[str] | None, d: int) -> list[str]:
    names = [str(j) for j in range(d)] if given is None else [str(name) for name in given]
    if len(names) != d:
        raise InputError(f"feature_names has {len(names)} names for {d} columns")
    return names
