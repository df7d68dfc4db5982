"""Weighted linear regression: its prior, sufficient statistics, inverse and sandwich variance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import frexp
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from credex.errors import InputError
from credex.history import Block, Rows
from credex.posteriors.student import quantile
from credex.typing import Floats, Masks, Weights

MIN_PIVOT = 1e-14
"""A smaller Cholesky pivot, relative to the diagonal, means that the matrix is singular."""

CONSTANT = 1e-12
"""A column that differs by less than this, relative to its values, is constant."""

MAX_EXPONENT = 500
"""Outputs above 2^500 ≈ 3e150 have variances that exceed the largest float."""

ENOUGH_ROWS = 30.0
"""Effective rows from which a variance counts as well known."""

MIN_SLACK = 1e-8
"""Lower bound of 1 − leverage."""

TINY = np.finfo(np.float64).tiny

InterceptKind = Literal["flat", "none", "unit"]

INTERCEPT_PRECISIONS = {"flat": 0.0, "unit": 1.0, "none": np.inf}
"""Prior precision of the intercept around zero, in units of 1/σ²."""


@dataclass(frozen=True, slots=True)
class Prior:
    """φ | σ² ~ N(mean, σ² · diag(precision)⁻¹), σ² ~ Scaled-Inv-χ²(n0, sigma0_sq).

    The defaults are the paper's (Eq. 4): unit precision around zero, and next to nothing about
    σ². ``mean`` and ``precision`` may be given per feature: that is how outside knowledge about
    features enters (Zhao et al., BayLIME).

    Parameters
    ----------
    n0, sigma0_sq
        Weight (in observations) and value of the prior guess of σ².
    mean, precision
        A number, one for each feature, or a dict by feature name; features that a dict does not
        name have the default.

    Examples
    --------
    >>> from credex import Prior
    >>> Prior(mean=[0.2, 0.0], precision=[50.0, 1.0]).precision
    (50.0, 1.0)
    >>> Prior(mean={"age": 0.2}, precision={"age": 50}).named(("sex", "age")).precision
    (1.0, 50.0)
    """

    n0: float = 1e-6
    sigma0_sq: float = 1e-6
    mean: float | tuple[float, ...] | dict[str, float] = 0.0
    precision: float | tuple[float, ...] | dict[str, float] = 1.0

    def __init__(
        self,
        n0: float = 1e-6,
        sigma0_sq: float = 1e-6,
        mean: ArrayLike | Mapping[str, float] = 0.0,
        precision: ArrayLike | Mapping[str, float] = 1.0,
    ) -> None:
        values = {
            "n0": _checked("n0", n0, min_value=0.0, max_ndim=0),
            "sigma0_sq": _checked("sigma0_sq", sigma0_sq, min_value=0.0, max_ndim=0),
            "mean": _by_name("mean", mean),
            "precision": _by_name("precision", precision, min_value=0.0),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def means(self, d: int) -> Floats:
        """Prior means, ``(d,)``."""
        return _per_feature("mean", self.mean, d)

    def precisions(self, d: int) -> Floats:
        """Prior precisions λ, ``(d,)``."""
        return _per_feature("precision", self.precision, d)

    def check(self, d: int) -> None:
        """Raise if ``mean`` or ``precision`` was given for another number of features."""
        self.means(d)
        self.precisions(d)

    def named(self, names: Sequence[str]) -> Prior:
        """Return the prior of these features, with a number for each that was given by name."""
        given = {"mean": self.mean, "precision": self.precision}
        if not any(isinstance(value, dict) for value in given.values()):
            self.check(len(names))
            return self
        default = {"mean": 0.0, "precision": 1.0}
        for key, value in given.items():
            if isinstance(value, dict):
                _check_names(key, value, names)
                given[key] = tuple(value.get(name, default[key]) for name in names)
        prior = Prior(self.n0, self.sigma0_sq, **given)
        prior.check(len(names))
        return prior

    def eases(self, d: int) -> Floats | None:
        """Prior variances 1/λ relative to their mean, ``(d,)``; ``None`` if all are equal.

        A Gaussian process fits the size of its linear part, so that only the ratios of the
        precisions matter there.
        """
        lam = self.precisions(d)
        if d == 0 or np.all(lam == lam[0]):
            return None
        if np.any(lam == 0):
            msg = "posterior='gp' compares precisions: with several they must all be above 0; "
            msg += f"got Prior(precision={self.precision!r})"
            raise InputError(msg)
        return np.asarray(1 / lam / np.mean(1 / lam))

    def only(self, keep: Masks) -> Prior:
        """Return the prior of the features in ``keep``, a ``(d,)`` boolean array."""
        d = len(keep)
        mean, precision = self.means(d)[keep], self.precisions(d)[keep]
        return Prior(self.n0, self.sigma0_sq, mean, precision)


def _by_name(
    name: str, value: ArrayLike | Mapping[str, float], *, min_value: float = -np.inf
) -> float | tuple[float, ...] | dict[str, float]:
    """Return numbers as `_checked` does; of a mapping, a dict of one number for each name."""
    if not isinstance(value, Mapping):
        return _checked(name, value, min_value=min_value)
    limits: dict[str, Any] = {"min_value": min_value, "max_ndim": 0}
    return {str(k): float(np.asarray(_checked(name, v, **limits))) for k, v in value.items()}


def _check_names(name: str, given: Mapping[str, float], names: Sequence[str]) -> None:
    unknown = [key for key in given if key not in names]
    if unknown:
        msg = f"Prior({name}=) names the feature {unknown[0]!r}, which is not there; the features "
        raise InputError(f"{msg}are {', '.join(names[:20])}{', …' if len(names) > 20 else ''}")


def _checked(
    name: str, value: ArrayLike, *, min_value: float = -np.inf, max_ndim: int = 1
) -> float | tuple[float, ...]:
    """Return a finite number, or a tuple of them."""
    try:
        a = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):  # a dict, a string, a ragged list
        a = np.asarray(np.nan)
    if a.ndim > max_ndim or not np.all(np.isfinite(a)) or np.any(a < min_value):
        msg = f"Prior({name}=) must be a finite number{' ≥ 0' if min_value == 0 else ''}"
        msg += ", a list in the order of the features, or a dict by name" if max_ndim else ""
        msg += f"; got {value!r}"
        raise InputError(msg)
    return float(a) if a.ndim == 0 else tuple(float(v) for v in a)


def _per_feature(name: str, value: float | tuple[float, ...] | dict[str, float], d: int) -> Floats:
    if isinstance(value, dict):
        msg = f"Prior({name}=) is by feature name: call .named(names) first, or give a list"
        raise InputError(msg)
    if isinstance(value, tuple) and len(value) != d:
        msg = f"Prior({name}=) has {len(value)} numbers, but there are {d} features"
        raise InputError(msg)
    return np.full(d, value)


def output_scale(y: Floats) -> Floats:
    """Return powers of two ≥ 1, ``(k,)``, that exceed all outputs ``y (n, k)``.

    Outputs are divided by them before they are squared: 1e200 squared is beyond the largest float.
    Division by a power of two loses no digits.
    """
    largest = np.abs(y).max(axis=0).tolist()
    return np.array([2.0 ** min(max(frexp(one)[1], 0), 1023) for one in largest])


def squared(scale: Floats) -> Floats:
    """Return ``scale²``, ``(k,)``, the unit of variances of outputs of this scale."""
    if scale.max() > 2.0**MAX_EXPONENT:
        msg = f"outputs of about {scale.max():.0e} are too large: their variances exceed the "
        msg += "largest float, 1e308. Divide the model's outputs by a constant"
        raise InputError(msg)
    return np.square(scale)


class Columns:
    """Rows as columns ``(d + 1 + k, n)`` in chunks, Z, 1 and y / output_scale, and their weights.

    ``pivot (d + 1 + k,)``, the row with the largest weight (0 for the 1), is subtracted first. It
    is at most √n standard deviations from the mean, so that products keep their digits when they
    are centred later, and it leaves nothing of a constant column. One chunk is kept; several are
    made again whenever they are read.
    """

    def __init__(self, rows: Rows) -> None:
        self._chunks = rows.chunks()
        self.d, self.output_scale = rows.blocks[0].d, output_scale(rows.y())
        b, s = max(self._chunks, key=lambda chunk: float(chunk[0].w[chunk[1]].max()))
        stacked = self._stacked(b, s)
        self.pivot = stacked[:, b.w[s].argmax()].copy()
        self.pivot[self.d] = 0.0
        stacked -= self.pivot[:, None]
        self._kept = [(stacked, b.w[s])] if len(self._chunks) == 1 else None

    def __iter__(self) -> Iterator[tuple[Floats, Weights]]:
        if self._kept is not None:
            return iter(self._kept)
        return ((self._stacked(b, s) - self.pivot[:, None], b.w[s]) for b, s in self._chunks)

    def _stacked(self, b: Block, s: slice) -> Floats:
        d, k = self.d, len(self.output_scale)
        out = np.empty((d + 1 + k, s.stop - s.start))
        out[:d], out[d] = np.ascontiguousarray(b.design(s.start, s.stop).T), 1.0
        out[d + 1 :] = (b.y[s] / self.output_scale).T
        return out


@dataclass(slots=True, eq=False)
class Moments:
    """Weighted means and centred cross products of Z, 1 and y / output_scale."""

    weight: float  # sum of the weights
    mean: Floats  # (d + 1 + k,)
    cross: Floats  # (d + 1 + k, d + 1 + k)
    d: int
    output_scale: Floats  # (k,), see `output_scale`

    @classmethod
    def of(cls, columns: Columns) -> Moments:
        """Moments of all rows in one pass."""
        d = columns.d
        products: Floats = np.asarray(sum((z * w) @ z.T for z, w in columns))
        sums, weight = products[d], float(products[d, d])
        shift = sums / (weight if weight > 0 else 1.0)
        cross = products - sums[:, None] * shift
        return cls(weight, columns.pivot + shift, cross, d, columns.output_scale)

    @property
    def z_mean(self) -> Floats:
        """Means of Z, ``(d,)``."""
        return self.mean[: self.d]

    @property
    def y_mean(self) -> Floats:
        """Means of y / output_scale, ``(k,)``."""
        return self.mean[self.d + 1 :]

    @property
    def zz(self) -> Floats:
        """Cross products of Z, ``(d, d)``."""
        return self.cross[: self.d, : self.d]

    @property
    def zy(self) -> Floats:
        """Cross products of Z and y / output_scale, ``(d, k)``."""
        return self.cross[: self.d, self.d + 1 :]

    @property
    def yy(self) -> Floats:
        """Squares of y / output_scale, ``(k,)``."""
        return np.maximum(self.cross.diagonal()[self.d + 1 :], 0.0)

    def intercept_share(self, kind: InterceptKind) -> float:
        """Return k = w̄/(w̄ + λ₀), w̄ = Σw: the part of the means that the intercept takes.

        1 if it is flat, 0 if there is none; λ₀ is its prior precision.
        """
        precision = INTERCEPT_PRECISIONS[kind]
        return 1.0 if precision == 0 else self.weight / (self.weight + precision)

    def less_intercept(self, kind: InterceptKind) -> Moments:
        """The same around k times the means: what an intercept with its prior leaves of them."""
        share, mean = self.intercept_share(kind), self.mean
        cross = self.cross + self.weight * (1 - share) * np.outer(mean, mean)
        return replace(self, mean=share * mean, cross=cross)


def inverse(a: Floats) -> Floats:
    """Inverse ``(d, d)`` of a symmetric positive definite matrix by Cholesky.

    A matrix that is singular to working precision is scaled to a unit diagonal and gets a jitter of
    1e-10 there (a hundred times more while that is not enough), never a pseudo-inverse.
    """
    half, diagonal = _inverse_root(a), a.diagonal()
    if half is not None and (np.square(half.diagonal()) * diagonal <= 1 / MIN_PIVOT).all():
        return np.asarray(half.T @ half)
    root = np.sqrt(np.maximum(diagonal, 0.0))
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
    from scipy.linalg import lapack

    lower, failed = lapack.dpotrf(a, lower=1)
    return None if failed else lapack.dtrtri(lower, lower=1)[0]


def slack(leverage: Floats) -> Floats:
    """Return 1 − leverage, bounded away from zero."""
    return np.asarray(np.maximum(1.0 - leverage, MIN_SLACK))


def sandwich(terms: Iterable[tuple[Floats, Floats]], d: int, k: int, cluster: int = 1) -> Floats:
    """Σ aᵢaᵢᵀuᵢ², ``(d, d, k)``, over chunks of influences a ``(d, n)`` and residuals u ``(k, n)``.

    ``cluster``: number of consecutive rows that were drawn together; their terms aᵢuᵢ are summed
    before they are squared.
    """
    out = np.zeros((d, d, k))
    for influence, residual in terms:
        for j in range(k):
            score = influence * residual[j]
            if cluster > 1:
                starts = np.arange(0, score.shape[1], cluster)
                score = np.add.reduceat(score, starts, axis=1)
            # of a copy: BLAS multiplies two matrices in half the time of one by itself
            out[:, :, j] += score @ score.copy().T
    return out


def effective_rows(total: Floats, squares: Floats) -> Floats:
    """(Σp)²/Σp²: how many equal shares p a sum of unequal ones is worth (Kish's sample size)."""
    return np.asarray(np.square(total) / np.maximum(squares, TINY))


def kurtosis_rows(z: Floats) -> Floats:
    """Effective sample size ``(k,)`` of a variance from residuals ``z (n, k)``.

    3n over the kurtosis, at most n: the variance of a mean of squares grows with it. It is n for
    normal residuals (and for none), and small for a function that is nearly constant except in a
    few rows.
    """
    n, largest = len(z), np.abs(z).max(axis=0)
    z = (z / np.maximum(largest, TINY)).T
    z2 = np.square(z)
    rows = 3 * effective_rows(np.vecdot(z, z), np.vecdot(z2, z2))
    return np.where(largest == 0, n, np.minimum(np.maximum(rows, 1.0), n))


def widen_few(scale: Floats, rows: Floats, dof: float) -> None:
    """Widen ``scale (d, d, k)`` where a variance rests on few effective ``rows (d,)``, in place.

    A variance estimated from few rows is uncertain itself, which the degrees of freedom shared by
    all features do not say: 95 % intervals become those of a Student-t with ``rows + 1`` degrees.
    """
    few = (rows < min(ENOUGH_ROWS, dof)).nonzero()[0]
    if len(few):
        from scipy.special import stdtrit

        wider = np.maximum(stdtrit(1.0 + rows[few], 0.975) / quantile(0.95, dof), 1.0)
        scale[few] *= wider[:, None, None]
        scale[:, few] *= wider[:, None]
