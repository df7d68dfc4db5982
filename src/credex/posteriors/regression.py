"""Weighted linear regression: sufficient statistics, factorisation and sandwich variances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from credex.errors import InputError
from credex.history import Rows
from credex.posteriors.student import heavier
from credex.typing import Design, Floats, Weights

MIN_PIVOT = 1e-14
"""A smaller Cholesky pivot, relative to the diagonal, means that the matrix is singular."""

CONSTANT = 1e-12
"""A column that differs by less than this, relative to its values, is constant."""

MAX_EXPONENT = 500
"""Outputs above 2^500 ≈ 3e150 have variances that exceed the largest float."""


def output_scale(*outputs: Floats) -> Floats:
    """Return powers of two ≥ 1, ``(k,)``, that exceed all ``outputs``, each ``(n, k)`` or ``(k,)``.

    Outputs are divided by them before they are squared: 1e200 squared is beyond the largest float.
    Division by a power of two loses no digits.
    """
    sizes = [np.abs(y) if y.ndim == 1 else np.abs(y).max(axis=0) for y in outputs]
    largest = np.maximum.reduce(sizes)
    exponent = np.minimum(np.maximum(np.frexp(largest)[1], 0), 1023)
    return np.asarray(np.ldexp(1.0, exponent))


def squared(scale: Floats) -> Floats:
    """Return ``scale²``, ``(k,)``, the unit of variances of outputs of this scale."""
    if (scale > 2.0**MAX_EXPONENT).any():
        msg = f"outputs of about {scale.max():.0e} are too large: their variances exceed the "
        msg += "largest float, 1e308. Divide the model's outputs by a constant"
        raise InputError(msg)
    return np.square(scale)


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Weighted means and centred cross products of ``Z (n, d)`` and ``y (n, k)``.

    Two parts are merged by the formula of Chan, Golub and LeVeque, so that a constant of 1e6 in
    ``y`` costs no digits. ``y_mean``, ``zy`` and ``yy`` are those of ``y / output_scale``.

    Attributes
    ----------
    n, weight
        Number of rows, and the sum of their weights.
    z_mean, y_mean
        ``(d,)`` and ``(k,)`` weighted means.
    zz, zy, yy
        ``(d, d)``, ``(d, k)`` and ``(k,)`` weighted cross products around the means.
    output_scale
        ``(k,)``, see `output_scale`.
    """

    n: int
    weight: float
    z_mean: Floats
    y_mean: Floats
    zz: Floats
    zy: Floats
    yy: Floats
    output_scale: Floats

    @classmethod
    def of(cls, rows: Rows) -> Moments:
        """Moments of all rows, a chunk at a time."""
        return reduce(add, (cls._of_chunk(z, y, w) for z, y, w in rows.chunks()))

    @classmethod
    def _of_chunk(cls, z: Design, y: Floats, w: Weights) -> Moments:
        scale, weight = output_scale(y), float(w.sum())
        share = w / weight if weight > 0 else w
        z_mean, y_mean = share @ z, share @ y / scale
        heaviest = z[int(w.argmax())].astype(np.float64)
        constant = np.abs(z_mean - heaviest) <= CONSTANT * np.abs(heaviest)
        z_mean[constant] = heaviest[constant]  # centred, nothing must be left of these columns
        root = np.sqrt(w)[:, None]
        z = (z - z_mean) * root
        y = (y / scale - y_mean) * root
        yy = np.einsum("ij,ij->j", y, y)
        return cls(len(y), weight, z_mean, y_mean, z.T @ z, z.T @ y, yy, scale)

    def __add__(self, other: Moments) -> Moments:
        scale = np.maximum(self.output_scale, other.output_scale)
        a, b = self._rescaled(scale), other._rescaled(scale)
        weight = a.weight + b.weight
        if weight <= 0:
            return replace(a, n=a.n + b.n)
        share = b.weight / weight
        dz, dy = b.z_mean - a.z_mean, b.y_mean - a.y_mean
        between = a.weight * share
        return Moments(
            a.n + b.n,
            weight,
            a.z_mean + share * dz,
            a.y_mean + share * dy,
            a.zz + b.zz + between * np.outer(dz, dz),
            a.zy + b.zy + between * np.outer(dz, dy),
            a.yy + b.yy + between * dy * dy,
            scale,
        )

    def _rescaled(self, scale: Floats) -> Moments:
        if np.array_equal(scale, self.output_scale):
            return self
        r = self.output_scale / scale
        return replace(
            self, y_mean=self.y_mean * r, zy=self.zy * r, yy=self.yy * r * r, output_scale=scale
        )

    def uncentred(self) -> Moments:
        """The same around zero instead of the means."""
        z, y, weight = self.z_mean, self.y_mean, self.weight
        return replace(
            self,
            z_mean=np.zeros_like(z),
            y_mean=np.zeros_like(y),
            zz=self.zz + weight * np.outer(z, z),
            zy=self.zy + weight * np.outer(z, y),
            yy=self.yy + weight * y * y,
        )


def centred(rows: Rows, moments: Moments) -> Iterator[tuple[Floats, Floats, Weights]]:
    """Iterate over z − z_mean ``(n, d)``, y/scale − y_mean ``(n, k)`` and w ``(n,)`` in chunks."""
    for z, y, w in rows.chunks():
        yield z - moments.z_mean, y / moments.output_scale - moments.y_mean, w


def inverse(a: Floats) -> Floats:
    """Inverse ``(d, d)`` of a symmetric positive definite matrix by Cholesky.

    A matrix that is singular to working precision is scaled to a unit diagonal and gets a jitter of
    1e-10 there (a hundred times more while that is not enough), never a pseudo-inverse.
    """
    half = _inverse_root(a)
    if half is not None and (np.square(half.diagonal()) * a.diagonal() <= 1 / MIN_PIVOT).all():
        return np.asarray(half.T @ half)
    root = np.sqrt(np.maximum(a.diagonal(), 0.0))
    root[root == 0] = 1.0
    both = np.outer(root, root)
    for jitter in (1e-10, 1e-8, 1e-6):
        half = _inverse_root(a / both + jitter * np.eye(len(a)))
        if half is not None:
            return np.asarray(half.T @ half / both)
    msg = "the perturbations do not determine the explanation; ask for more queries"
    raise InputError(msg)


def constrained_inverse(a: Floats) -> Floats:
    """Inverse on the plane Σφ = const, V1 = 0: the V of a regression with that constraint.

    Adding a multiple of 11ᵀ to ``a`` changes nothing on the plane, and conditions ``a`` well.
    """
    whole = inverse(a + a.trace() / len(a) ** 2)
    ones = whole.sum(axis=1)
    return np.asarray(whole - np.outer(ones, ones / ones.sum()))


def _inverse_root(a: Floats) -> Floats | None:
    """Inverse of the lower Cholesky factor; ``None`` if ``a`` is not positive definite."""
    try:
        return np.linalg.inv(np.linalg.cholesky(a))
    except np.linalg.LinAlgError:
        return None


ENOUGH_ROWS = 30.0
"""Effective rows from which a variance counts as well known."""

MIN_SLACK = 1e-8
"""Lower bound of 1 − leverage."""

TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """A chunk of the rows of a regression, and what each does to its coefficients.

    Attributes
    ----------
    z, w
        ``(n, d)`` centred rows, and their weights ``(n,)``.
    influence
        ``(n, d)``: z·V, the change of each coefficient per unit of a row's w·ε.
    residual
        ``(n, k)``: ε.
    slack
        ``(n,)``: 1 − leverage.
    """

    z: Floats
    w: Weights
    influence: Floats
    residual: Floats
    slack: Floats


def slack(leverage: Floats) -> Floats:
    """Return 1 − leverage, ``(n,)``, bounded away from zero."""
    return np.asarray(np.maximum(1.0 - leverage, MIN_SLACK))


def covariance(terms: Iterable[tuple[Floats, Floats]], d: int, k: int, cluster: int = 1) -> Floats:
    """Σ aᵢaᵢᵀuᵢ², ``(d, d, k)``, over chunks of influences a ``(n, d)`` and residuals u ``(n, k)``.

    ``cluster``: number of consecutive rows that were drawn together; their terms aᵢuᵢ are summed
    before they are squared.
    """
    out = np.zeros((d, d, k))
    for influence, residual in terms:
        for j in range(k):
            score = influence * residual[:, j : j + 1]
            if cluster > 1:
                score = np.add.reduceat(score, np.arange(0, len(score), cluster), axis=0)
            out[:, :, j] += score.T @ score
    return out


def effective_rows(total: Floats, squares: Floats) -> Floats:
    """(Σp)²/Σp²: how many equal shares p a sum of unequal ones is worth (Kish's sample size)."""
    return np.asarray(np.square(total) / np.maximum(squares, TINY))


def hc3(rows: Iterable[Influence], d: int, k: int, cluster: int) -> tuple[Floats, Floats]:
    """HC3 covariance ``(d, d, k)``, and the effective rows ``(d,)`` behind each variance.

    The rows' shares in a variance are w times their squared influences: of a column that is nearly
    constant, only the few rows that differ tell.
    """
    out, total, squares = np.zeros((d, d, k)), np.zeros(d), np.zeros(d)
    for r in rows:
        out += covariance([(r.influence, r.residual * (r.w / r.slack)[:, None])], d, k, cluster)
        square = np.square(r.influence)
        total += r.w @ square
        squares += np.square(r.w) @ np.square(square)
    return out, effective_rows(total, squares)


def few_rows_factors(rows: Floats, dof: float) -> Floats:
    """Factors ``(d,)`` ≥ 1 of variances that rest on so many effective ``rows (d,)``.

    A variance estimated from few rows is uncertain itself, which the degrees of freedom shared by
    all features do not say: 95 % intervals become those of a Student-t with ``rows + 1`` degrees.
    """
    return np.array(
        [
            max(heavier(1.0 + r, dof), 1.0) if r < min(ENOUGH_ROWS, dof) else 1.0
            for r in rows.tolist()
        ]
    )


def projected_meat(rows: Iterable[Influence], d: int, k: int) -> tuple[Floats, float, Floats]:
    """Meat ``(d, d, k)`` from unbiased squared residuals e²/(1−h), for forecasts.

    Returns
    -------
    meat
        ``(d, d, k)``: Σ wᵢ²zᵢzᵢᵀeᵢ²/(1−hᵢ).
    leverage
        Mean leverage, weighted by the squared residuals.
    luck
        ``(d, d, k)``: products of the rows' relative shares in two features' variances, summed
        over rows.
    """
    meat, products, total = np.zeros((d, d, k)), np.zeros((d, d, k)), np.zeros((d, k))
    leverage = mass = 0.0
    for r in rows:
        e2 = np.square(r.residual) * (np.square(r.w) / r.slack)[:, None]
        meat += covariance([(r.z, np.sqrt(e2))], d, k)
        products += covariance([(np.square(r.influence), e2)], d, k)
        total += np.square(r.influence).T @ e2
        each = e2.sum(axis=1)
        leverage += float(np.sum((1 - r.slack) * each))
        mass += float(each.sum())
    luck = products / np.maximum(total[:, None] * total[None], TINY)
    return meat, leverage / mass if mass > 0 else 0.0, luck
