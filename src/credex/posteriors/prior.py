"""What is believed about the importances before the model is asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from credex.errors import InputError
from credex.typing import Floats, Masks


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
        A number, or one for each feature.

    Examples
    --------
    >>> from credex import Prior
    >>> Prior(mean=[0.2, 0.0], precision=[50.0, 1.0]).precision
    (50.0, 1.0)
    """

    n0: float = 1e-6
    sigma0_sq: float = 1e-6
    mean: float | tuple[float, ...] = 0.0
    precision: float | tuple[float, ...] = 1.0

    def __init__(
        self,
        n0: float = 1e-6,
        sigma0_sq: float = 1e-6,
        mean: ArrayLike = 0.0,
        precision: ArrayLike = 1.0,
    ) -> None:
        values = {
            "n0": _checked("n0", n0, min_value=0.0, max_ndim=0),
            "sigma0_sq": _checked("sigma0_sq", sigma0_sq, min_value=0.0, max_ndim=0),
            "mean": _checked("mean", mean),
            "precision": _checked("precision", precision, min_value=0.0),
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
        msg += ", or a list of them in the order of the features" if max_ndim else ""
        msg += f"; got {value!r}"
        raise InputError(msg)
    return float(a) if a.ndim == 0 else tuple(float(v) for v in a)


@lru_cache(maxsize=64)
def _per_feature(name: str, value: float | tuple[float, ...], d: int) -> Floats:
    if isinstance(value, tuple) and len(value) != d:
        msg = f"Prior({name}=) has {len(value)} numbers, but there are {d} features"
        raise InputError(msg)
    out = np.full(d, value) if isinstance(value, float) else np.array(value)
    out.flags.writeable = False
    return out
