"""Measures of explanations: how much they change when the input hardly does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from credex.errors import InputError, check_count, check_positive
from credex.typing import Floats

__all__ = ["local_lipschitz"]


def local_lipschitz(
    explain: Callable[[Any], Any],
    x: Any,
    neighbours: Any = None,
    *,
    scale: Any = None,
    radius: float = 0.1,
    n: int = 10,
    seed: int = 0,
) -> float:
    """Largest change of the explanation per unit of change of the input, around ``x``.

    L̂(x) = max over neighbours x' of ‖φ(x) − φ(x')‖₂ / ‖x − x'‖₂ (Alvarez-Melis and Jaakkola, 2018;
    Section 4 of the paper). Lower is more stable.

    Parameters
    ----------
    explain
        Takes 1 + m inputs, ``x`` first, and returns `Explanations` or ``(1 + m, d)`` importances:
        ``lime.explain_many``, or a function around a peer.
    x
        One input of numbers: a 1-D array, list or Series; an array of any shape (an image).
    neighbours
        ``(m, …)`` inputs to compare with, a frame if ``x`` is a row of one. By default ``n``
        points drawn uniformly from the ball of this ``radius``, in units of ``scale``.
    scale
        A number, or one for each entry of ``x``, that distances are measured in, such as the
        training data's standard deviations. By default 1.
    radius, n, seed
        Of the neighbours drawn if none are given.

    Returns
    -------
    float
        The largest ratio.

    Raises
    ------
    InputError
        If a neighbour equals ``x``, if shapes do not fit, or if explanations have different
        features.

    Notes
    -----
    An explainer that draws new perturbations for every input also pays for their noise here.
    ``explain_many`` uses the same masks for all rows unless told otherwise.

    Examples
    --------
    >>> import credex as cx
    >>> import numpy as np
    >>> round(cx.metrics.local_lipschitz(lambda X: 3 * X, np.zeros(4), seed=1), 6)
    3.0
    """
    row = np.asarray(x, dtype=np.float64)
    if row.ndim == 0 or not np.all(np.isfinite(row)):
        raise InputError(f"x must be an array of finite numbers; got {x!r:.80}")
    unit = _unit(scale, row)
    if neighbours is None:
        check_positive("radius", radius)
        neighbours = _like(x, _ball(row, radius * unit, check_count("n", n), seed))
    points = np.asarray(neighbours, dtype=np.float64)
    if points.shape[1:] != row.shape or len(points) == 0:
        msg = f"neighbours must be (m, {', '.join(map(str, row.shape))}) with m ≥ 1; "
        msg += f"got {points.shape}"
        raise InputError(msg)
    away = np.linalg.norm(((points - row) / unit).reshape(len(points), -1), axis=1)
    if np.any(away == 0):
        msg = f"neighbour {int(np.argmin(away))} equals x: leave it out, a ratio needs a distance"
        raise InputError(msg)
    phi = _importances(explain(_together(x, row, neighbours)), 1 + len(points))
    moved = np.linalg.norm((phi[1:] - phi[0]).reshape(len(points), -1), axis=1)
    return float(np.max(moved / away))


def _unit(scale: Any, row: Floats) -> Floats:
    unit = np.ones(row.shape) if scale is None else np.asarray(scale, dtype=np.float64)
    if unit.shape not in ((), row.shape) or not np.all(np.isfinite(unit)) or np.any(unit <= 0):
        msg = f"scale must be a positive number or one for each entry of x, shape {row.shape}; "
        msg += f"got shape {unit.shape}"
        raise InputError(msg)
    return np.broadcast_to(unit, row.shape)


def _ball(row: Floats, radius: Floats, n: int, seed: int) -> Floats:
    """Draw ``(n, …)`` points uniformly from an ellipsoid around ``row``."""
    rng = np.random.default_rng(seed)
    step = rng.standard_normal((n, row.size))
    step *= (rng.random(n) ** (1 / row.size) / np.linalg.norm(step, axis=1))[:, None]
    return np.asarray(row + radius * step.reshape(n, *row.shape))


def _like(x: Any, points: Floats) -> Any:
    """Give drawn points the form of ``x``: a frame with its columns if it is a Series."""
    if not hasattr(x, "index") or not hasattr(x, "to_frame"):
        return points
    import pandas as pd

    return pd.DataFrame(points, columns=x.index)


def _together(x: Any, row: Floats, others: Any) -> Any:
    if not hasattr(others, "columns"):
        return np.concatenate([row[None], np.asarray(others, dtype=np.float64)])
    import pandas as pd

    first = pd.DataFrame([row], columns=others.columns)
    if hasattr(x, "index") and list(x.index) != list(others.columns):
        msg = f"x has {list(x.index)}, the neighbours {list(others.columns)}: use the same columns"
        raise InputError(msg)
    return pd.concat([first, others], ignore_index=True).astype(others.dtypes)


def _importances(found: Any, rows: int) -> Floats:
    try:
        # the mean of an array or a frame is a method, that of Explanations is the importances
        own = callable(getattr(found, "mean", None)) or not hasattr(found, "mean")
        phi = np.asarray(found if own else found.mean, dtype=np.float64)
    except (TypeError, ValueError):
        msg = "explain must return Explanations or one row of importances for each input; the "
        msg += "explanations may have different features"
        raise InputError(msg) from None
    if phi.ndim < 2 or len(phi) != rows or not np.all(np.isfinite(phi)):
        msg = f"explain must return ({rows}, d) finite importances; got shape {phi.shape}"
        raise InputError(msg)
    return phi
