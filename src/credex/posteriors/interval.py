"""Credible intervals as values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from credex.typing import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Lower and upper ends of the intervals of all features at one level.

    ``width`` is ALWAYS ``upper - lower``, never half of it.

    Examples
    --------
    >>> import numpy as np
    >>> from credex import Interval
    >>> i = Interval(np.array([0.0, -1.0]), np.array([1.0, 2.0]), level=0.95)
    >>> i.width
    array([1., 3.])
    >>> [0.5, 0.0] in i
    True
    """

    lower: Floats
    upper: Floats
    level: float

    @property
    def width(self) -> Floats:
        """``upper - lower``, the shape of the means."""
        return np.asarray(self.upper - self.lower)

    def covers(self, values: ArrayLike) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Which of the values lie inside, feature by feature."""
        v = np.asarray(values, dtype=np.float64)
        return np.asarray((v >= self.lower) & (v <= self.upper))

    def __contains__(self, values: object) -> bool:
        return bool(np.all(self.covers(np.asarray(values, dtype=np.float64))))
