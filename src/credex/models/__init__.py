"""Torch modules, ONNX files and Hugging Face pipelines as models."""

from __future__ import annotations

from credex.models.onnx import OnnxModel, from_onnx
from credex.models.torch import TorchModel, from_torch

__all__ = ["OnnxModel", "TorchModel", "from_onnx", "from_torch"]
