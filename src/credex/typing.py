"""Array types used across credex, each with its shape.

Letters: ``n`` masks (or perturbed rows), ``d`` features, ``k`` outputs, ``B`` background rows,
``p`` columns of the model's input.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
"""Any float array; the docstring that uses it says the shape."""

Ints: TypeAlias = NDArray[np.int64]
"""Any integer array; the docstring that uses it says the shape."""

Masks: TypeAlias = NDArray[np.bool_]
"""``(n, d)`` booleans: ``True`` keeps the instance's own value, ``False`` switches it off."""

Design: TypeAlias = NDArray[Any]
"""``(n, d)`` rows a linear posterior is fitted on: booleans, or floats for continuous features."""

Outputs: TypeAlias = NDArray[np.float64]
"""``(n, k)`` values of the model, one column an output."""

Weights: TypeAlias = NDArray[np.float64]
"""``(n,)`` non-negative weights of the rows."""

Native: TypeAlias = Any
"""Rows in the form the user gave: a numpy array, a pandas or polars frame, a list."""
