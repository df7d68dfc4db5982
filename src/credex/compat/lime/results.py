"""What lime's explainers return: the fields and methods of lime's results, filled by credex."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from credex import interop
from credex.errors import InputError
from credex.explanation import Explanation
from credex.typing import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ImageExplanation", "LimeExplanation"]

REGRESSION_LABEL = 1
"""The label that lime gives the only output of a regression."""

Pairs = list[tuple[int, float]]


class LocalResult:
    """What lime's results of tables, texts and images share.

    Attributes
    ----------
    explanation
        The `credex.Explanation`, with intervals; its outputs are the labels, in order.
    local_exp
        ``(feature, importance)`` by label, largest first.
    intercept
        Intercept of the linear explanation by label.
    score, local_pred
        R² and local prediction of the last label, as lime keeps them.
    top_labels
        The labels that ``top_labels=`` chose, most likely first, or ``None``.
    """

    def __init__(self, e: Explanation, labels: Sequence[int], top_labels: list[int] | None) -> None:
        self.explanation = e
        self._output = {label: j for j, label in enumerate(labels)}
        self.local_exp: dict[int, Pairs] = {
            label: interop.pairs(e, j) for label, j in self._output.items()
        }
        intercepts = np.atleast_1d(e.intercept)
        self.intercept = {label: float(intercepts[j]) for label, j in self._output.items()}
        self.score = float(np.atleast_1d(e.r2)[-1])
        self.local_pred = np.atleast_1d(e.local_prediction)[-1:]
        self.top_labels = top_labels

    def _index(self, label: Any) -> int:
        """Return the output of a label."""
        if label not in self._output:
            known = ", ".join(map(str, self._output))
            msg = f"label {label!r} was not explained; explained are: {known}. Pass labels=({label}"
            raise InputError(f"{msg},) or top_labels= to explain_instance")
        return self._output[label]


class LimeExplanation(LocalResult):
    """lime's ``Explanation`` of a table's row or a text.

    Attributes
    ----------
    mode
        ``"classification"`` or ``"regression"``.
    class_names
        Names of all outputs of the model.
    predict_proba
        f(x) of all outputs (classification).
    predicted_value, min_value, max_value
        f(x), and the range of predictions of the perturbations (regression).
    """

    def __init__(
        self,
        e: Explanation,
        labels: Sequence[int],
        top_labels: list[int] | None,
        *,
        mode: Literal["classification", "regression"],
        class_names: list[str],
        at_instance: Floats,
    ) -> None:
        super().__init__(e, labels, top_labels)
        self.mode = mode
        self.class_names = class_names
        if mode == "classification":
            self.predict_proba = at_instance
            return
        y = e.history.rows.y()[:, 0]
        self.predicted_value = float(at_instance[0])
        self.min_value = float(min(y.min(), self.predicted_value))
        self.max_value = float(max(y.max(), self.predicted_value))
        self.dummy_label = REGRESSION_LABEL
        # lime shows a regression as two classes, "negative" and "positive"
        self.class_names = ["negative", "positive"]
        self.local_exp[0] = [(i, -value) for i, value in self.local_exp[REGRESSION_LABEL]]
        self.intercept[0] = self.intercept[REGRESSION_LABEL]

    def available_labels(self) -> list[int]:
        """Return the labels that were explained."""
        if self.mode == "regression":
            raise NotImplementedError("a regression has no labels; lime does not list any either")
        return list(self.top_labels or self.local_exp)

    def as_list(self, label: int = 1, *, positions: bool = False) -> list[tuple[str, float]]:
        """Return ``(condition, importance)`` pairs of a label, largest first.

        ``positions`` (texts): a word with the positions of its occurrences, ``bad_3-17``.
        """
        e, j = self.explanation, self._index(self._given(label))
        names = list(e.labels)
        if positions:
            if "spans" not in (e.payload or {}):
                raise InputError("positions=True is for texts: a table's columns have no positions")
            starts = ["-".join(str(a) for a, _ in part) for part in e.payload["spans"]]
            names = [f"{name}_{start}" for name, start in zip(names, starts, strict=True)]
        return [(names[i], value) for i, value in interop.pairs(e, j)]

    def as_map(self) -> dict[int, Pairs]:
        """Return ``(feature, importance)`` pairs by label."""
        return self.local_exp

    def as_pyplot_figure(self, label: int = 1) -> Figure:
        """Draw importances with their intervals, where lime draws bars."""
        return interop.as_pyplot_figure(self.explanation, self._index(self._given(label)))

    def show_in_notebook(
        self,
        labels: Sequence[int] | None = None,
        predict_proba: bool = True,
        show_predicted_value: bool = True,
        **more: Any,
    ) -> None:
        """Show a table with intervals below the cell, of some ``labels`` or all."""
        text = self._text(more, predict_proba=predict_proba, predicted=show_predicted_value)
        interop.show_in_notebook(self.explanation, self._outputs(labels), text=text)

    def save_to_file(
        self,
        file_path: str | Path,
        labels: Sequence[int] | None = None,
        predict_proba: bool = True,
        show_predicted_value: bool = True,
        **more: Any,
    ) -> None:
        """Write the page of `as_html` to a file."""
        text = self._text(more, predict_proba=predict_proba, predicted=show_predicted_value)
        interop.save_to_file(self.explanation, file_path, self._outputs(labels), text=text)

    def as_html(
        self,
        labels: Sequence[int] | None = None,
        predict_proba: bool = True,
        show_predicted_value: bool = True,
        **more: Any,
    ) -> str:
        """Return a page of HTML with intervals, of some ``labels`` or all."""
        text = self._text(more, predict_proba=predict_proba, predicted=show_predicted_value)
        return interop.page(self.explanation, self._outputs(labels), text=text)

    def _given(self, label: int) -> int:
        """Return the label; lime ignores it for a regression."""
        return label if self.mode == "classification" else REGRESSION_LABEL

    def _outputs(self, labels: Sequence[int] | None) -> list[int] | None:
        if labels is None or self.mode == "regression":
            return None
        return [self._index(label) for label in labels]

    def _text(self, more: dict[str, Any], *, predict_proba: bool, predicted: bool) -> bool:
        """Check lime's options of its page; return whether to show the words of a text."""
        own = {"text", "opacity"} if "spans" in (self.explanation.payload or {}) else set()
        own |= {"show_table", "show_all"} - {name for name in ("show_table",) if own}
        for name in more:
            if name not in own:
                msg = f"there is no option {name!r}; labels= chooses labels"
                raise InputError(f"{msg}, text=False leaves out the words of a text")
        changed = [name for name, on in more.items() if name != "text" and on != _DEFAULT[name]]
        changed += [] if predict_proba else ["predict_proba"]
        changed += [] if predicted else ["show_predicted_value"]
        if changed:
            msg = f"{', '.join(changed)}: the page always has the prediction, and a table of the "
            msg += "explanation's features with values and intervals"
            warnings.warn(msg, stacklevel=3)
        return bool(more.get("text", True))


_DEFAULT = {"show_table": True, "show_all": False, "opacity": True}
"""Options of lime's page that credex's page has no counterpart of."""


class ImageExplanation(LocalResult):
    """lime's ``ImageExplanation``.

    Attributes
    ----------
    image, segments
        The picture, and the region of each pixel: 0 to d − 1.
    """

    def __init__(
        self,
        e: Explanation,
        labels: Sequence[int],
        top_labels: list[int] | None,
        *,
        image: NDArray[Any],
        segments: Ints,
    ) -> None:
        super().__init__(e, labels, top_labels)
        self.image, self.segments = image, segments

    def get_image_and_mask(
        self,
        label: int,
        positive_only: bool = True,
        negative_only: bool = False,
        hide_rest: bool = False,
        num_features: int = 5,
        min_weight: float = 0.0,
    ) -> tuple[NDArray[Any], Ints]:
        """Return a picture of the most important regions, and where they are.

        The mask is 1 there, and −1 where a region lowers the prediction. Of regions of both signs,
        green is turned up where they raise the prediction and red where they lower it.
        """
        if positive_only and negative_only:
            raise InputError("positive_only and negative_only exclude each other")
        self._index(label)
        wanted = [
            (region, weight)
            for region, weight in self.local_exp[label]
            if not (positive_only and weight <= max(0.0, min_weight))
            and not (negative_only and (weight >= 0 or -weight <= min_weight))
        ][:num_features]
        shown = np.zeros(self.image.shape) if hide_rest else self.image.copy()
        mask = np.zeros(self.segments.shape, dtype=self.segments.dtype)
        for region, weight in wanted:
            if abs(weight) < min_weight:
                continue
            here = self.segments == region
            shown[here] = self.image[here]
            one_sign = positive_only or negative_only
            mask[here] = 1 if one_sign or weight >= 0 else -1
            if not one_sign:
                shown[here, 1 if weight >= 0 else 0] = np.max(self.image)
        return shown, mask
