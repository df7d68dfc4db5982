"""Weights of perturbations: the proximity π_x(z), and the Shapley kernel."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
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
        if self.distance == "cosine":
            z = design.astype(np.float64)
            norms = np.sqrt(np.einsum("ij,ij->i", z, z)) * np.sqrt(origin @ origin)
            cos = np.divide(z @ origin, norms, out=np.zeros(len(z)), where=norms > 0)
            squared = np.maximum(1.0 - cos, 0.0) ** 2
            width = COSINE_WIDTH
        else:
            steps = design - origin
            squared = np.einsum("ij,ij->i", steps, steps)
            width = 0.75 * sqrt(design.shape[1])
        width = width if self.width is None else self.width
        power = -0.5 if self.root else -1.0
        return np.asarray(np.exp(squared * (power / width**2)))


def shapley_kernel(sizes: Floats, d: int) -> Weights:
    """Shapley kernel (d−1) / (C(d,s)·s·(d−s)) of coalition sizes s; infinite at 0 and d."""
    s = np.arange(1, d)
    log_binomial = np.log((d - s + 1) / s).cumsum()
    table = np.full(d + 1, np.inf)
    table[1:d] = (d - 1) * np.exp(-log_binomial) / (s * (d - s))
    return table[np.asarray(sizes, dtype=np.int64)]
