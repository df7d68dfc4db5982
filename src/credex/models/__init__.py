"""Torch modules, ONNX files, Hugging Face pipelines and HTTP endpoints as models."""

from __future__ import annotations

from credex.models.http import HttpModel, from_http
from credex.models.onnx import OnnxModel, from_onnx
from credex.models.torch import TorchModel, from_torch

__all__ = ["HttpModel", "OnnxModel", "TorchModel", "from_http", "from_onnx", "from_torch"]
