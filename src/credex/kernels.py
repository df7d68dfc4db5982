"""How much a perturbation counts: the proximity π_x(z)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb, lgamma, sqrt
from typing import Literal

import numpy as np

from credex.errors import InputError
from credex.typing import Design, Floats, Weights

COSINE_WIDTH = 0.25
"""Width of ``lime``'s kernel for images (its text kernel is the same on distances times 100)."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """``lime``'s kernel √exp(−D²/width²).

    Parameters
    ----------
    width
        ``None`` means lime's default: 0.75·√d for Euclidean distance, 0.25 for cosine.
    distance
        ``"euclidean"`` between design rows, or ``"cosine"`` (for masks: 1 − √(|z|/d)).
    root
        ``False`` leaves the root out: exp(−D²/width²), as the paper prints it.

    Examples
    --------
    >>> import numpy as np
    >>> from credex import Exponential
    >>> Exponential(width=1.0).weights(np.array([[True, True], [True, False]]), np.ones(2)).round(4)
    array([1.    , 0.6065])
    """

    width: float | None = None
    distance: Literal["euclidean", "cosine"] = "euclidean"
    root: bool = True

    def __post_init__(self) -> None:
        if self.width is not None and not (np.isfinite(self.width) and self.width > 0):
            msg = f"the kernel's width must be a positive number or None; got {self.width!r}"
            raise InputError(msg)
        if self.distance not in ("euclidean", "cosine"):
            msg = f"distance must be 'euclidean' or 'cosine'; got {self.distance!r}"
            raise InputError(msg)

    def weights(self, design: Design, origin: Floats) -> Weights:
        """Weights of the rows ``design (n, d)`` seen from ``origin (d,)``."""
        d = design.shape[1]
        power = -0.5 if self.root else -1.0
        if self.distance == "cosine":
            z = design.astype(np.float64)
            norms = np.sqrt(np.einsum("ij,ij->i", z, z)) * np.sqrt(origin @ origin)
            cos = np.divide(z @ origin, norms, out=np.zeros(len(z)), where=norms > 0)
            squared = np.maximum(1.0 - cos, 0.0) ** 2
            width = COSINE_WIDTH if self.width is None else self.width
        else:
            width = 0.75 * sqrt(d) if self.width is None else self.width
            if design.dtype == np.bool_ and np.count_nonzero(origin == 1) == d:
                on = design @ origin.astype(np.float32)  # exact: they are whole
                return _by_count(d, power / width**2).take(on.astype(np.intp))
            squared = np.einsum("ij,ij->i", design - origin, design - origin)
        squared *= power / width**2
        return np.asarray(np.exp(squared, out=squared))


@lru_cache(maxsize=64)
def _by_count(d: int, power: float) -> Weights:
    """``(d + 1,)`` weights of masks of which 0 … d features are on."""
    return np.asarray(np.exp(np.arange(d, -1.0, -1.0) * power))


def shapley_kernel(sizes: Floats, d: int) -> Weights:
    """Shapley kernel (d−1) / (C(d,s)·s·(d−s)) of coalition sizes s; infinite at 0 and d."""
    s = np.asarray(sizes, dtype=np.int64)
    table = np.full(d + 1, np.inf)
    for i in range(1, d):
        table[i] = (d - 1) / (comb(d, i) * i * (d - i)) if d <= 60 else np.exp(_log_kernel(i, d))
    return table[s]


def _log_kernel(s: int, d: int) -> float:
    log_binomial = lgamma(d + 1) - lgamma(s + 1) - lgamma(d - s + 1)
    return float(np.log(d - 1) - log_binomial - np.log(s) - np.log(d - s))
