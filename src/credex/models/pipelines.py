"""Hugging Face pipelines as models: a list of texts in, ``(n, k)`` scores out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from credex.errors import InputError, ModelOutputError
from credex.typing import Floats

__all__ = ["PipelineModel", "from_pipeline"]


class PipelineModel:
    """A text-classification pipeline with ``predict_proba`` and ``classes_``; see `from_pipeline`.

    Attributes
    ----------
    classes_
        ``(k,)`` labels, in the order of the model's own ids.
    """

    def __init__(self, pipeline: Any, options: dict[str, Any]) -> None:
        self.pipeline, self.options = pipeline, options
        labels = dict(pipeline.model.config.id2label)
        self.classes_ = np.array([str(labels[i]) for i in sorted(labels)])

    def predict_proba(self, texts: Sequence[str]) -> Floats:
        """Return ``(n, k)`` scores of n texts, one column for each label."""
        found = self.pipeline(list(texts), top_k=None, **self.options)
        column = {label: j for j, label in enumerate(self.classes_)}
        out = np.full((len(found), len(column)), np.nan)
        for row, scores in zip(out, found, strict=True):
            for score in scores:
                if score["label"] not in column:
                    known = ", ".join(self.classes_)
                    msg = f"the pipeline answered with the label {score['label']!r}, which its "
                    msg += f"model does not list ({known})"
                    raise ModelOutputError(msg)
                row[column[score["label"]]] = score["score"]
        return out


def from_pipeline(pipeline: Any, *, batch_size: int = 32, truncation: bool = True) -> PipelineModel:
    """Make a model of a Hugging Face text-classification pipeline.

    Parameters
    ----------
    pipeline
        ``transformers.pipeline("text-classification", …)``.
    batch_size
        Texts in one batch of the pipeline's network.
    truncation
        Cut texts that are longer than the model can read, instead of failing on them.

    Returns
    -------
    PipelineModel
        For `BayesSHAP` or `BayesLIME` with `Text`; ``target=`` takes the pipeline's labels.
    """
    if not callable(pipeline) or not hasattr(getattr(pipeline, "model", None), "config"):
        msg = f"from_pipeline takes a transformers pipeline; got {type(pipeline).__name__}"
        raise InputError(msg)
    task = str(getattr(pipeline, "task", ""))
    if task not in ("text-classification", "sentiment-analysis"):
        msg = f"from_pipeline takes a text-classification pipeline; this one does {task!r}. Wrap "
        msg += "it in a function from a list of texts to an array of scores"
        raise InputError(msg)
    return PipelineModel(pipeline, {"batch_size": batch_size, "truncation": truncation})
