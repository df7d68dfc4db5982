"""Credible intervals as values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from credex.errors import InputError
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


def check_level(level: float) -> float:
    """Return ``level`` if it is a probability strictly between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.floating):
        msg = f"level must be a number between 0 and 1, for example 0.95; got {level!r}"
        raise InputError(msg)
    if not 0.0 < float(level) < 1.0:
        hint = f" (did you mean {float(level) / 100:g}?)" if 1.0 < float(level) < 100.0 else ""
        msg = f"level must lie strictly between 0 and 1, for example 0.95; got {level!r}{hint}"
        raise InputError(msg)
    return float(level)
