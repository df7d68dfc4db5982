"""A surrogate of the model whose Shapley values cost next to nothing, for every row of a portfolio.

The surrogate is a ridge regression on the kernel of a functional ANOVA with single features and
pairs of them. With k_j the similarity of two values of feature j (`InputSpace`) and amplitudes a_j,

    k(u, w) = 1 + Σ_j A_j + Σ_{j<l} A_j A_l,    A_j = a_j k_j(u_j, w_j).

Its Shapley values over a background have a closed form in sums over features: with the means B̄_j
and M_j of A_j and A_j Σ_{l≠j} A_l over the background rows,

    φ_j = A_j − B̄_j + ½ (A_j Σ_{l≠j} A_l − M_j + A_j Σ_{l≠j} B̄_l − B̄_j Σ_{l≠j} A_l).

It is fitted several times, each time without one fold of the rows that are explained, so that the
residuals of a fold are those of a surrogate that has not seen it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.posteriors.assisted import InputSpace, fit_kernel
from credex.typing import Floats, Ints, Masks

__all__ = ["FOLDS", "Games", "PairSurrogate", "Shapley"]

FOLDS = 5
"""Folds of the rows; each surrogate learns from all but one."""

MAX_BASIS = 256
"""Rows of the kernel's basis: what a fit costs grows with their cube."""

CELLS = 4_000_000
"""Kernel values (rows × basis × features) held at a time."""

PENALTIES = np.logspace(-6, 1, 15)
"""Ridge penalties, as shares of the mean square of a kernel feature; cross-validation chooses."""


@dataclass(frozen=True, slots=True, eq=False)
class Shapley:
    """Coefficients of the Shapley values: those of an instance are linear in them.

    ``mean (m, d)`` and ``cross (m, d)`` are B̄ and M over the background.
    """

    mean: Floats
    cross: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Games:
    """Values of coalitions of n rows by F surrogates: constant + zᵀ form z for the mask z.

    ``constant (n, F)`` and ``form (n, F, d, d)``, whose diagonal has the effects of single
    features.
    """

    constant: Floats
    form: Floats

    def values(self, masks: Masks) -> Floats:
        """Values ``(n, T, F)`` of coalitions ``(n, T, d)``, or ``(T, d)`` for all rows alike."""
        z = np.asarray(masks, dtype=np.float64)
        z = z if z.ndim == 2 else z[:, None]
        out = ((z @ self.form) * z).sum(axis=3)  # (n, F, T)
        return np.asarray((out + self.constant[:, :, None]).transpose(0, 2, 1))

    def of(self, fold: Ints) -> Games:
        """Return the games of the first rows by the surrogate without the row's fold, F = 1."""
        at = np.arange(len(fold))
        return Games(self.constant[at, fold][:, None], self.form[at, fold][:, None])


class PairSurrogate:
    """Surrogates without one fold each, of outputs ``y (n, k)`` at encoded ``rows (n, p)``.

    ``fold (n,)`` is the fold of each row, −1 for rows that every surrogate may learn from.
    """

    def __init__(
        self,
        space: InputSpace,
        rows: Floats,
        y: Floats,
        fold: Ints,
        *,
        background: Floats,
        weights: Floats,
        amplitudes: Floats,
    ) -> None:
        self.space, self.amplitudes = space, amplitudes
        take = np.linspace(0, len(rows) - 1, min(MAX_BASIS, len(rows))).round().astype(int)
        self._basis = rows[np.unique(take)]
        self._middle, spread = y.mean(axis=0), y.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        features = self._kernel(rows)
        self.coefficients, self.r2 = _ridge(features, (y - self._middle) / self._spread, fold)
        self._over = self._background(background, weights)

    @property
    def k(self) -> int:
        """Number of outputs."""
        return len(self._middle)

    def predict(self, rows: Floats, fold: Ints) -> Floats:
        """Predict ``(n, k)`` for encoded rows, each by the surrogate without its fold."""
        kernel, each = self._kernel(rows), np.empty((len(rows), self.k))
        for f in np.unique(fold).tolist():
            each[fold == f] = kernel[fold == f] @ self.coefficients[f]
        return np.asarray(self._middle + self._spread * each)

    def base(self, background: Floats, weights: Floats) -> Floats:
        """Mean over the background ``(FOLDS, k)`` of each surrogate."""
        mean = weights @ self._kernel(background)
        return np.asarray(self._middle + self._spread * (mean @ self.coefficients))

    def shapley(self, rows: Floats) -> Floats:
        """Shapley values ``(n, d, FOLDS, k)`` of each surrogate at encoded rows."""
        out = np.empty((len(rows), self.space.d, *self.coefficients.shape[::2]))
        flat = self.coefficients.transpose(1, 0, 2).reshape(len(self._basis), -1)
        mean, cross = self._over.mean, self._over.cross
        total = mean.sum(axis=1, keepdims=True)
        for part in self._parts(len(rows)):
            A = self._factors(rows[part])  # (n, m, d)
            others = A.sum(axis=2, keepdims=True) - A
            phi = A - mean + 0.5 * (A * others - cross + A * (total - mean) - mean * others)
            found = np.einsum("nmd,mc->ndc", phi, flat, optimize=True)
            out[part] = found.reshape(*found.shape[:2], *out.shape[2:])
        return out * self._spread

    def quadratic(self, rows: Floats, output: Ints, background: Floats, weights: Floats) -> Games:
        """Return the mean over the background with features off, a polynomial of the mask.

        ``output (n,)`` is the output of each row that is wanted. Only pairs of features interact,
        so that the polynomial has degree two.
        """
        mean, cross, pairs = self._over.mean, self._over.cross, self._pairs(background, weights)
        total = mean.sum(axis=1, keepdims=True)
        folds, _, k = self.coefficients.shape
        d = self.space.d
        forms = np.empty((len(rows), folds, d, d))
        diagonal = np.arange(d)
        for part in self._parts(len(rows)):
            A = self._factors(rows[part])
            single = A * (1.0 + total - mean) - mean - cross
            D = A - mean
            for c in range(k):
                at = np.flatnonzero(output[part] == c)
                for f in range(folds) if len(at) else ():
                    w = self.coefficients[f, :, c]
                    form = 0.5 * ((D[at] * w[:, None]).transpose(0, 2, 1) @ D[at])
                    form += 0.5 * np.tensordot(w, pairs, axes=1)
                    form[:, diagonal, diagonal] = w @ single[at]
                    forms[part.start + at, f] = self._spread[c] * form
        constant = self.base(background, weights)[:, output].T
        return Games(constant, forms)

    def _pairs(self, rows: Floats, weights: Floats) -> Floats:
        """Covariances ``(m, d, d)`` of the factors of two features over the background."""
        d, mean = self.space.d, self._over.mean
        out = np.zeros((len(self._basis), d, d))
        for part in self._parts(len(rows)):
            D = (self._factors(rows[part]) - mean).transpose(1, 0, 2)  # (m, n, d)
            out += (D * weights[part, None]).transpose(0, 2, 1) @ D
        return out

    def _background(self, rows: Floats, weights: Floats) -> Shapley:
        mean, cross = np.zeros((2, len(self._basis), self.space.d))
        for part in self._parts(len(rows)):
            A, w = self._factors(rows[part]), weights[part]
            mean += np.einsum("n,nmd->md", w, A)
            cross += np.einsum("n,nmd->md", w, A * (A.sum(axis=2, keepdims=True) - A))
        return Shapley(mean, cross)

    def _kernel(self, rows: Floats) -> Floats:
        out = np.empty((len(rows), len(self._basis)))
        for part in self._parts(len(rows)):
            A = self._factors(rows[part])
            single = A.sum(axis=2)
            out[part] = 1.0 + single + 0.5 * (single**2 - np.einsum("nmd,nmd->nm", A, A))
        return out

    def _factors(self, rows: Floats) -> Floats:
        """A_j between rows and basis, ``(n, m, d)``."""
        each = [
            a * self.space.similar(j, rows[:, None], self._basis)
            for j, a in enumerate(self.amplitudes.tolist())
        ]
        return np.stack(each, axis=2)

    def _parts(self, n: int) -> list[slice]:
        step = max(CELLS // (len(self._basis) * self.space.d), 1)
        return [slice(s, s + step) for s in range(0, n, step)]


def amplitudes_of(space: InputSpace, rows: Floats, y: Floats, seed: int) -> Floats:
    """Fit the amplitudes ``(d,)`` of the features by marginal likelihood."""
    spread = y.std(axis=0)
    standard = (y - y.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return fit_kernel(space, rows, standard, seed).amplitudes


def _ridge(features: Floats, y: Floats, fold: Ints) -> tuple[Floats, float]:
    """Coefficients ``(FOLDS, m, k)`` without each fold, and the share of y that they predict.

    The penalty is the one with the smallest error on the folds left out.
    """
    m = features.shape[1]
    whole, right = features.T @ features, features.T @ y
    left = [fold == f for f in range(FOLDS)]
    grams = [(whole - features[h].T @ features[h], right - features[h].T @ y[h]) for h in left]
    solved = []
    size = float(np.trace(whole)) / m
    for gram, vector in grams:
        values, vectors = np.linalg.eigh(gram)
        solved.append((np.maximum(values, 0.0), vectors, vectors.T @ vector))
    best, chosen = np.inf, np.zeros((FOLDS, m, y.shape[1]))
    for penalty in PENALTIES * size / m:
        found = np.stack([v @ (r / (e + penalty)[:, None]) for e, v, r in solved])
        error = sum(
            float(((y[h] - features[h] @ c) ** 2).sum()) for h, c in zip(left, found, strict=True)
        )
        if error < best:
            best, chosen = error, found
    scale = sum(float((y[h] ** 2).sum()) for h in left)
    return chosen, 1.0 - best / scale if scale > 0 else 1.0
