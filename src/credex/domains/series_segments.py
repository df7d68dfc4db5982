"""How a series is cut into segments, and what fills a segment that is switched off."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from credex.checks import check_count
from credex.errors import InputError
from credex.typing import Floats, Masks

__all__ = ["Fill", "bounds", "filled_linear", "replacement"]

Fill = Literal["mean", "linear", "noise"] | float | Any
"""``"mean"``, ``"linear"``, ``"noise"``, a number, or a series of the instance's own shape."""

FILLS = ("mean", "linear", "noise")


def bounds(
    steps: int, segments: int | Sequence[int] | None, length: int | None
) -> tuple[tuple[int, int], ...]:
    """Start and end of each segment of a series of ``steps`` time steps.

    Parameters
    ----------
    steps
        Length of the series, T.
    segments
        A number of segments about equally long, or where the 2nd, 3rd, … segment begins.
    length
        Steps of each segment instead; the last may be shorter.

    Examples
    --------
    >>> bounds(10, 3, None)
    ((0, 3), (3, 7), (7, 10))
    >>> bounds(10, [2, 9], None)
    ((0, 2), (2, 9), (9, 10))
    """
    if length is not None:
        starts = list(range(0, steps, length))
    elif isinstance(segments, int):
        if segments > steps:
            msg = f"{segments} segments of a series of {steps} time steps; use segments={steps} "
            msg += "or fewer"
            raise InputError(msg)
        starts = [int(v) for v in np.round(np.linspace(0, steps, segments + 1))[:-1]]
    else:
        own = [int(v) for v in segments or ()]
        starts = own if own[:1] == [0] else [0, *own]
        last = starts.pop() if starts[-1] == steps else starts[-1]
        if any(b <= a for a, b in pairwise(starts)) or last > steps:
            msg = f"segments={own} is not a rising list of time steps between 0 and {steps}"
            raise InputError(msg)
    return tuple(zip(starts, [*starts[1:], steps], strict=True))


def check_segments(
    segments: int | Sequence[int] | None, length: int | None
) -> tuple[int | tuple[int, ...] | None, int | None]:
    """Return ``segments`` and ``length`` in their plain form, or raise."""
    if length is not None:
        if segments is not None:
            raise InputError("give segments= (how many, or where) or length=, not both")
        return None, check_count("length", length)
    if segments is None:
        return 10, None
    if isinstance(segments, int | np.integer) and not isinstance(segments, bool):
        return check_count("segments", segments), None
    try:
        own = tuple(int(v) for v in segments)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        msg = f"segments is {segments!r}; use a number of segments, or the list of time steps "
        msg += "where they begin"
        raise InputError(msg) from None
    if not own:
        raise InputError("segments is an empty list; give the time steps where segments begin")
    return own, None


def replacement(x: Floats, fill: Fill, seed: int) -> Floats:
    """Values that stand where a segment is off, ``(T, C)`` like the series ``x``.

    ``"mean"`` is each channel's mean over time, ``"noise"`` normal noise of each channel's mean and
    standard deviation, drawn once from ``seed``. For ``"linear"`` it is what the empty series is
    filled with: the mean.
    """
    if isinstance(fill, str):
        mean = np.broadcast_to(x.mean(axis=0), x.shape)
        if fill != "noise":
            return np.array(mean)
        noise = np.random.default_rng([seed, 29]).standard_normal(x.shape)
        return np.asarray(mean + x.std(axis=0) * noise)
    own = np.asarray(fill, dtype=np.float64)
    if own.ndim == 1 and x.shape[1] == 1:
        own = own[:, None]
    if own.ndim and own.shape != x.shape:
        msg = f"fill has the shape {np.shape(fill)}, the series has {x.shape} (time, channels); "
        msg += "they must be equal"
        raise InputError(msg)
    return np.array(np.broadcast_to(own, x.shape))


def filled_linear(x: Floats, on: Masks, empty: Floats) -> Floats:
    """``x (T, C)`` with straight lines over the time steps that are off, for n masks.

    Parameters
    ----------
    x
        The series.
    on
        ``(n, T, C)``: which values are kept.
    empty
        ``(T, C)``: what a channel becomes that is off from beginning to end.

    Returns
    -------
    ``(n, T, C)``. Before the first and after the last value that is kept, that value goes on.
    """
    steps = np.arange(len(x), dtype=np.float64)
    out = np.empty(on.shape)
    for c in range(x.shape[1]):
        kept = on[:, :, c]
        # positions of the last value kept before each step and the first one after it
        before = np.maximum.accumulate(np.where(kept, steps, -1.0), axis=1)
        after = np.minimum.accumulate(np.where(kept, steps, np.inf)[:, ::-1], axis=1)[:, ::-1]
        none = np.asarray(~kept.any(axis=1))
        left = np.where(before < 0, after, before)
        right = np.where(np.isinf(after), before, after)
        left[none], right[none] = 0.0, 0.0
        a, b = x[left.astype(np.int64), c], x[right.astype(np.int64), c]
        gap = right - left
        share = np.divide(steps - left, gap, out=np.zeros_like(gap), where=gap > 0)
        line = np.where(kept, x[:, c], a + share * (b - a))
        out[:, :, c] = np.where(none[:, None], empty[:, c], line)
    return out
