"""Games on disk, read alike by every interpreter: this file needs numpy and nothing else.

A file ``benchmarks/data/NAME.npz`` holds the exact Shapley values ``phi (n, d)`` of n instances and
either the value of every coalition, ``tables (n, 2^d)``, or a `Formula` for each instance.
`benchmarks.games` and `benchmarks.large_games` write them.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent / "data"
CHUNK = 20_000_000
"""Entries of the matrix masks × terms that a formula evaluates at once."""


def index_of(Z: np.ndarray) -> np.ndarray:
    """Rows of a table for masks ``Z (n, d)``: Σ_j z_j 2^j."""
    return Z.astype(np.int64) @ (1 << np.arange(Z.shape[1], dtype=np.int64))


@dataclass(frozen=True)
class Formula:
    """A game of many players as a sum of terms whose Shapley values have a closed form.

    v(z) = Σ_t weight_t Π_{j in on_t} z_j Π_{j in off_t} (1 − z_j)
    + Σ_k height_k exp(start_k + Σ_j slope_kj z_j) + Σ_s size_s Π_{j in signs_s} (2 z_j − 1).

    Attributes
    ----------
    weight, on, off : ``(T,)``, boolean ``(T, d)``: conjunctions, such as the leaves of trees.
    height, start, slope : ``(K,)``, ``(K,)``, ``(K, d)``: products, such as Gaussian kernels.
    size, signs : ``(S,)``, boolean ``(S, d)``: products of signs.
    """

    weight: np.ndarray
    on: np.ndarray
    off: np.ndarray
    height: np.ndarray
    start: np.ndarray
    slope: np.ndarray
    size: np.ndarray
    signs: np.ndarray

    @classmethod
    def empty(cls, d: int) -> Formula:
        """Return v = 0 for ``d`` players."""
        none, flags = np.zeros(0), np.zeros((0, d), dtype=bool)
        return cls(none, flags, flags, none, none, np.zeros((0, d)), none, flags)

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        """Values of boolean masks ``Z (n, d)``."""
        terms = len(self.weight) + len(self.height) + len(self.size)
        step = max(1, CHUNK // max(1, terms))
        parts = [self._values(Z[a : a + step]) for a in range(0, len(Z), step)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _values(self, Z: np.ndarray) -> np.ndarray:
        single, exact = Z.astype(np.float32), Z.astype(float)  # counts of players fit float32
        out = np.zeros(len(Z))
        if len(self.weight):
            violated = single @ (self.off.astype(np.float32) - self.on).T + self.on.sum(axis=1)
            out += (violated == 0) @ self.weight
        if len(self.height):
            out += np.exp(exact @ self.slope.T + self.start) @ self.height
        if len(self.size):
            missing = self.signs.sum(axis=1) - single @ self.signs.T.astype(np.float32)
            out += (1.0 - 2.0 * (missing % 2)) @ self.size
        return out

    def shapley(self) -> np.ndarray:
        """Exact Shapley values ``(d,)``, term by term."""
        d = self.on.shape[1]
        phi = np.zeros(d)
        p, n = self.on.sum(axis=1), self.off.sum(axis=1)
        # A conjunction of p players present and n absent: φ = (p−1)! n!/(p+n)! for one present,
        # −p! (n−1)!/(p+n)! for one absent.
        factorial = np.concatenate([[1.0], np.cumprod(np.arange(1.0, d + 1))])
        share = self.weight / factorial[p + n]
        phi += (share * factorial[np.maximum(p - 1, 0)] * factorial[n]) @ self.on
        phi -= (share * factorial[p] * factorial[np.maximum(n - 1, 0)]) @ self.off
        # A product Π_j (1 + (r_j − 1) z_j): φ_i = (r_i − 1) ∫ Π_{j ≠ i} (1 + t (r_j − 1)) dt, a
        # polynomial of degree d − 1 in t, so d/2 nodes of Gauss and Legendre give it exactly.
        nodes, shares = np.polynomial.legendre.leggauss(d // 2 + 1)
        rise = np.expm1(self.slope)
        for t, w in zip((nodes + 1) / 2, shares / 2, strict=True):
            log = np.log1p(t * rise)
            total = log.sum(axis=1, keepdims=True) + self.start[:, None]
            phi += w * self.height @ (rise * np.exp(total - log))
        k = self.signs.sum(axis=1)  # v(all) − v(none) = 1 − (−1)^k, shared equally
        return phi + (self.size * (1 - (-1.0) ** k) / k) @ self.signs


@dataclass(frozen=True)
class Stored:
    """Instances of a game as they lie on disk."""

    name: str
    values: list[np.ndarray | Formula]
    phi: np.ndarray
    digest: int

    @property
    def d(self) -> int:
        """Number of players."""
        return int(self.phi.shape[1])

    @property
    def scale(self) -> float:
        """Mean |φ| over all instances: errors are printed relative to it."""
        return float(np.abs(self.phi).mean())


def write(name: str, formulas: list[Formula]) -> None:
    """Store a game given by formulas, with its exact Shapley values."""
    arrays = {
        f"{field.name}_{i}": getattr(formula, field.name)
        for i, formula in enumerate(formulas)
        for field in fields(Formula)
    }
    DATA.mkdir(parents=True, exist_ok=True)
    part = DATA / f"{name}.part.npz"  # a build cut short leaves no broken file
    np.savez_compressed(part, phi=[f.shapley() for f in formulas], **arrays)
    part.replace(DATA / f"{name}.npz")


def read(name: str) -> Stored:
    """Read a game; the digest changes with its Shapley values."""
    with np.load(DATA / f"{name}.npz") as saved:
        phi = saved["phi"]
        if "tables" in saved:
            values: list[np.ndarray | Formula] = list(saved["tables"])
        else:
            values = [
                Formula(**{field.name: saved[f"{field.name}_{i}"] for field in fields(Formula)})
                for i in range(len(phi))
            ]
    return Stored(name, values, phi, zlib.crc32(np.round(phi, 9).tobytes()))


class Counted:
    """A value function that counts the coalitions asked of it and the time it takes itself.

    A coalition asked twice counts twice: a peer that repeats itself pays for it.

    Parameters
    ----------
    values : a table ``(2^d,)`` or a formula.
    """

    def __init__(self, values: np.ndarray | Formula) -> None:
        self.values = values
        formula = isinstance(values, Formula)
        self.d = values.on.shape[1] if formula else len(values).bit_length() - 1
        self.asked = 0
        self.seconds = 0.0

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        """Values of masks ``Z (n, d)`` or ``(d,)``."""
        start = time.process_time()
        Z = np.atleast_2d(np.asarray(Z)) > 0.5
        self.asked += len(Z)
        out = self.values(Z) if isinstance(self.values, Formula) else self.values[index_of(Z)]
        self.seconds += time.process_time() - start
        return out
