"""`Series`: segments of a time series, filled where they are switched off."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from credex.domains.masked import MaskedDomain, MaskedNeighbourhood, numbers
from credex.errors import InputError, check_count
from credex.seeds import Purpose, spawn
from credex.typing import Floats, Ints, Masks

__all__ = ["Series", "SeriesNeighbourhood"]

FILLS = {
    "mean": "the mean of its channel takes a segment's place",
    "linear": "a straight line takes a segment's place",
    "noise": "noise of its channel's mean and spread takes a segment's place",
}


class Series(MaskedDomain):
    """A domain of time series: the model receives ``(n, T)`` or ``(n, T, C)``, as given.

    Parameters
    ----------
    segments
        How many, about equally long (10 by default), or the time steps where they begin.
    length
        Time steps of each segment instead; the last may be shorter.
    fill
        What stands where a segment is off: ``"mean"`` of its channel; ``"linear"``, a straight
        line between the values that are kept; ``"noise"``, normal noise of the channel's mean and
        standard deviation, drawn once from ``seed``; a number; or a series of the same shape.
    channels
        ``"together"``: a segment is off in all channels at once; ``"each"``: every channel has
        segments of its own; or the channels' names, which means ``"each"``.
    seed
        Seed of the noise.

    Examples
    --------
    >>> import numpy as np
    >>> here = Series(segments=2).at(np.array([1.0, 1.0, 5.0, 5.0]))
    >>> here.names
    ('steps 0–1', 'steps 2–3')
    >>> here.coalition_inputs(np.array([[True, False]]))[0]
    array([[1., 1., 3., 3.]])
    """

    batch = "an array (n, T) or (n, T, C), or a list of series"

    def __init__(
        self,
        segments: int | Sequence[int] | None = None,
        *,
        length: int | None = None,
        fill: Any = "mean",
        channels: Literal["together", "each"] | Sequence[str] = "together",
        seed: int = 0,
    ) -> None:
        self.segments, self.length = _check_segments(segments, length)
        if isinstance(fill, str):
            if fill not in FILLS:
                msg = f"fill={fill!r}; use 'mean', 'linear', 'noise', a number, or another series"
                raise InputError(msg)
            self.removal = FILLS[fill]
        elif numbers(fill, "fill").ndim == 0:
            self.removal = f"the number {float(fill):g} takes a segment's place"
        else:
            self.removal = "another series takes a segment's place"
        if isinstance(channels, str) and channels not in ("together", "each"):
            raise InputError(f"channels={channels!r}; use 'together', 'each', or a list of names")
        given: Any = seed
        if not isinstance(given, int | np.integer) or isinstance(given, bool) or given < 0:
            raise InputError(f"seed must be a whole number ≥ 0; got {seed!r}")
        self.fill, self.seed = fill, int(seed)
        self.channels = channels if isinstance(channels, str) else tuple(map(str, channels))

    def at(self, x: Any) -> SeriesNeighbourhood:
        """Return the neighbourhood of one series, ``(T,)`` or ``(T, C)``."""
        raw = numbers(x, "x")
        if raw.ndim not in (1, 2):
            msg = f"x has the shape {raw.shape}; a series is (T,) or (T, C)"
            if raw.ndim == 3:
                msg += ". explain_many takes (n, T, C)"
            raise InputError(msg)
        return SeriesNeighbourhood(self, raw)

    def restore(self, payload: Any) -> Any:
        """Turn `SeriesNeighbourhood.payload` back into an array."""
        if not isinstance(payload, dict) or payload.get("kind") != "series":
            raise InputError("this explanation is not of a series; use the domain it was made with")
        return np.array(payload["values"], dtype=payload["dtype"]).reshape(payload["shape"])


class SeriesNeighbourhood(MaskedNeighbourhood):
    """One series, ``(T, C)``, and the series with some of its segments filled."""

    part = "segment"

    def __init__(self, domain: Series, x: NDArray[Any]) -> None:
        self._native, self._fill, self._seed = x, domain.fill, domain.seed
        self._linear = isinstance(domain.fill, str) and domain.fill == "linear"
        self.x: Floats = x.astype(np.float64).reshape(len(x), -1)
        self.removal = domain.removal
        self.replacement = _replacement(self.x, domain.fill, domain.seed)
        self.bounds = bounds(len(x), domain.segments, domain.length)
        steps = [f"steps {a}–{b - 1}" if b - a > 1 else f"step {a}" for a, b in self.bounds]
        n_channels = self.x.shape[1]
        self.channels: tuple[str, ...] = ()  # names of channels with segments of their own
        if isinstance(domain.channels, tuple):
            if len(domain.channels) != n_channels:
                msg = f"{len(domain.channels)} names of channels for a series of {n_channels}"
                raise InputError(msg)
            self.channels = domain.channels
        elif domain.channels == "each" and n_channels > 1:
            self.channels = tuple(f"channel {c}" for c in range(n_channels))
        self.names = tuple(f"{c}, {s}" for c in self.channels for s in steps) or tuple(steps)

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of the series and of the arrays it is made from."""
        return 4 * self.x.nbytes

    @cached_property
    def _part_of(self) -> Ints:
        """``(T, C)``: the part each value belongs to."""
        lengths = [b - a for a, b in self.bounds]
        segment = np.repeat(np.arange(len(lengths)), lengths)[:, None]
        n_channels = self.x.shape[1]
        return segment + (len(lengths) if self.channels else 0) * np.arange(n_channels)

    @cached_property
    def active(self) -> Masks:
        """``(d,)``: false where a segment equals what always replaces it."""
        if self._linear:
            return np.ones(len(self.names), dtype=np.bool_)
        differs = self.x != self.replacement
        return np.bincount(self._part_of[differs], minlength=len(self.names)) > 0

    def inputs(self, masks: Masks) -> NDArray[Any]:
        """Return ``(n, T)`` or ``(n, T, C)`` series; integers become float64, as fills are."""
        on = masks[:, self._part_of]
        fill = interpolated(self.x, on, self.replacement) if self._linear else self.replacement
        made = np.where(on, self.x, fill)
        dtype = self._native.dtype if self._native.dtype.kind == "f" else np.float64
        return made.reshape(len(on), *self._native.shape).astype(dtype)

    def payload(self) -> dict[str, Any]:
        """Return the series, its segments, and what fills them."""
        fill = self._fill
        return {
            "kind": "series",
            "shape": list(self._native.shape),
            "dtype": str(self._native.dtype),
            "values": self._native.ravel().tolist(),
            "bounds": [list(b) for b in self.bounds],
            "channels": list(self.channels),
            "fill": fill if isinstance(fill, str) else np.asarray(fill, dtype=np.float64).tolist(),
            "seed": self._seed,
        }


def bounds(
    steps: int, segments: int | Sequence[int] | None, length: int | None
) -> tuple[tuple[int, int], ...]:
    """Start and end of each segment of a series of ``steps`` time steps; see `Series`.

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
            msg = f"{segments} segments of a series of {steps} time steps; use {steps} or fewer"
            raise InputError(msg)
        starts = [int(v) for v in np.round(np.linspace(0, steps, segments + 1))[:-1]]
    else:
        given = [int(v) for v in segments or ()]
        starts = given if given[:1] == [0] else [0, *given]
        last = starts.pop() if starts[-1] == steps else starts[-1]
        if any(b <= a for a, b in pairwise(starts)) or last > steps:
            msg = f"segments={given} is not a rising list of time steps between 0 and {steps}"
            raise InputError(msg)
    return tuple(pairwise([*starts, steps]))


def interpolated(x: Floats, on: Masks, empty: Floats) -> Floats:
    """Interpolate linearly between the kept values of ``x (T, C)``, for n masks.

    ``on (n, T, C)`` says which values are kept. The first and the last of them are repeated
    outwards; a channel of which nothing is kept becomes ``empty (T, C)``. Returns ``(n, T, C)``.
    """
    steps, out = np.arange(len(x)), np.empty(on.shape)
    for row, kept in zip(out, on, strict=True):
        for c, k in enumerate(kept.T):
            row[:, c] = np.interp(steps, steps[k], x[k, c]) if k.any() else empty[:, c]
    return out


def _check_segments(
    segments: int | Sequence[int] | None, length: int | None
) -> tuple[int | tuple[int, ...] | None, int | None]:
    """Return ``segments`` and ``length`` as integers, or raise; one of the two is ``None``."""
    if length is not None:
        if segments is not None:
            raise InputError("give segments= (how many, or where) or length=, not both")
        return None, check_count("length", length)
    if segments is None:
        return 10, None
    if isinstance(segments, int | np.integer) and not isinstance(segments, bool):
        return check_count("segments", segments), None
    try:
        starts = tuple(int(v) for v in segments)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        msg = f"segments is {segments!r}; use a number, or the time steps where segments begin"
        raise InputError(msg) from None
    if not starts:
        raise InputError("segments is an empty list; give the time steps where segments begin")
    return starts, None


def _replacement(x: Floats, fill: Any, seed: int) -> Floats:
    """Return ``(T, C)`` values for segments that are off; ``"linear"``: for a whole channel."""
    if isinstance(fill, str):
        mean = np.broadcast_to(x.mean(axis=0), x.shape)
        if fill != "noise":
            return mean
        noise = spawn(seed, Purpose.FILL_NOISE).standard_normal(x.shape)
        return np.asarray(mean + x.std(axis=0) * noise)
    given = np.asarray(fill, dtype=np.float64)
    if given.ndim == 1 and x.shape[1] == 1:
        given = given[:, None]
    if given.ndim and given.shape != x.shape:
        msg = f"fill has the shape {np.shape(fill)}; the series has {x.shape} (time, channels)"
        raise InputError(msg)
    return np.broadcast_to(given, x.shape)
