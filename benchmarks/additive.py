"""Exact Shapley values of a logistic model over words, at any length of the text.

For v(z) = σ(b + Σ_j w_j z_j) the Shapley value of word i is

    φ_i = ∫₀¹ E[σ(b + w_i + S_t) − σ(b + S_t)] dt,   S_t = Σ_{j≠i} w_j Bernoulli(t),

with independent coins. σ is written as a Fourier series on an interval far wider than b + S can
reach, where the expectation over the coins is a product, and the integrand is a polynomial in t of
degree d − 1, which Gauss–Legendre with ⌈d/2⌉ nodes integrates exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TAIL = 40.0
"""σ(−40) = 4e−18: further out σ is 0 or 1."""


def logistic_shapley(weights: Floats, bias: float) -> Floats:
    """Shapley values ``(d,)`` of σ(bias + weights·z), to about 1e-12."""
    w = np.asarray(weights, dtype=np.float64)
    d = len(w)
    reach = max(bias + w[w > 0].sum(), -(bias + w[w < 0].sum()), 1.0)
    # σ(x) − σ(x − m) equals σ(x) wherever b + S can be, and is smooth as a function of period 2m
    half = reach + 2 * TAIL
    frequency = np.pi * np.arange(1, int(13.0 * half / np.pi) + 2) / half
    # its Fourier transform at θ: π (1 − e^(−iθm)) / (i sinh(πθ)), over the period 2m
    shift = 1.0 - np.exp(-1j * frequency * half)
    transform = np.pi * shift / (1j * np.sinh(np.pi * frequency))
    factor = transform * np.exp(1j * frequency * bias) / half  # twice the real part of 1/(2m)
    nodes, node_weights = np.polynomial.legendre.leggauss(max((d + 1) // 2, 1))
    turn = np.exp(1j * np.outer(w, frequency)) - 1.0  # (d, K)
    phi = np.zeros(d)
    for t, weight in zip((nodes + 1) / 2, node_weights / 2, strict=True):
        coins = 1.0 + t * turn
        before = np.cumprod(np.vstack([np.ones_like(coins[:1]), coins[:-1]]), axis=0)
        after = np.cumprod(np.vstack([np.ones_like(coins[:1]), coins[:0:-1]]), axis=0)[::-1]
        phi += weight * np.real((turn * before * after) @ factor)
    return phi
