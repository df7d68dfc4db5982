"""`Series`: segments of a time series, filled where they are switched off."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np

from credex.domains.masked import PartsNeighbourhood
from credex.domains.series_segments import (
    FILLS,
    Fill,
    bounds,
    check_segments,
    filled_linear,
    replacement,
)
from credex.errors import InputError
from credex.typing import Floats, Ints, Masks, Native

__all__ = ["Series", "SeriesNeighbourhood"]

Channels = Literal["together", "each"] | Sequence[str]


class Series:
    """A domain of time series: the model receives ``(n, T)`` or ``(n, T, C)``, as given.

    Parameters
    ----------
    segments
        How many, about equally long (10 by default), or the time steps where they begin.
    length
        Time steps of each segment instead.
    fill
        What stands where a segment is off: ``"mean"`` of its channel; ``"linear"``, a straight
        line between the values that are kept; ``"noise"``, normal noise of the channel's mean and
        standard deviation, drawn once from ``seed``; a number; or a series of the same shape.
    channels
        ``"together"``: a segment is off in all channels at once; ``"each"``: every channel has
        segments of its own; or the channels' names, which means ``"each"``.
    seed
        Of the noise.

    Examples
    --------
    >>> import numpy as np
    >>> here = Series(segments=2).at(np.array([1.0, 1.0, 5.0, 5.0]))
    >>> here.names
    ('steps 0–1', 'steps 2–3')
    >>> here.coalition_inputs(np.array([[True, False]]))[0]
    array([[1., 1., 3., 3.]])
    """

    names = None  # the number of segments may depend on the length of the series

    def __init__(
        self,
        segments: int | Sequence[int] | None = None,
        *,
        length: int | None = None,
        fill: Fill = "mean",
        channels: Channels = "together",
        seed: int = 0,
    ) -> None:
        self.segments, self.length = check_segments(segments, length)
        if isinstance(fill, str) and fill not in FILLS:
            msg = f"fill={fill!r}; use 'mean', 'linear', 'noise', a number, or a series of the "
            msg += "instance's shape"
            raise InputError(msg)
        if not isinstance(fill, str):
            _numbers(fill, "fill")
        if isinstance(channels, str) and channels not in ("together", "each"):
            msg = f"channels={channels!r}; use 'together', 'each', or a list of names"
            raise InputError(msg)
        given: Any = seed
        if not isinstance(given, int | np.integer) or isinstance(given, bool) or given < 0:
            raise InputError(f"seed must be a whole number ≥ 0; got {seed!r}")
        self.fill, self.seed = fill, int(seed)
        self.channels = channels if isinstance(channels, str) else tuple(map(str, channels))
        self.summary = f"no background: {_removal(fill)}"

    def at(self, x: Any) -> SeriesNeighbourhood:
        """Look at one series, ``(T,)`` or ``(T, C)``."""
        return SeriesNeighbourhood(self, _one(x))

    def split(self, X: Any) -> list[Any]:
        """Take a batch apart: ``(n, T)``, ``(n, T, C)``, or a list of series."""
        if isinstance(X, str) or not hasattr(X, "__len__"):
            msg = f"X is a {type(X).__name__}; pass an array (n, T) or (n, T, C), or a list"
            raise InputError(msg)
        return list(np.asarray(X) if hasattr(X, "to_numpy") else X)

    def concat(self, inputs: Sequence[Native]) -> Native:
        """Stack blocks of series of one shape."""
        return np.concatenate(list(inputs))

    def restore(self, payload: Any) -> Any:
        """Turn `SeriesNeighbourhood.payload` back into an array."""
        if not isinstance(payload, dict) or payload.get("kind") != "series":
            raise InputError("this explanation is not of a series; use the domain it was made with")
        return np.array(payload["values"], dtype=payload["dtype"]).reshape(payload["shape"])


def _numbers(a: Any, what: str) -> Any:
    raw = np.asarray(a)
    if raw.dtype.kind not in "iuf" or raw.size == 0:
        msg = f"{what} is a {type(a).__name__} of type {raw.dtype}, shape {raw.shape}; numbers "
        msg += "are needed"
        raise InputError(msg)
    if not np.all(np.isfinite(raw)):
        msg = f"{what} has {int(np.sum(~np.isfinite(raw)))} values that are missing or infinite; "
        msg += "fill them first"
        raise InputError(msg)
    return raw


def _one(x: Any) -> Any:
    raw = _numbers(x, "x")
    if raw.ndim not in (1, 2):
        msg = f"x has the shape {raw.shape}; a series is (T,) or (T, C)"
        if raw.ndim == 3:
            msg += ". explain_many takes (n, T, C)"
        raise InputError(msg)
    return raw


def _removal(fill: Fill) -> str:
    words = {
        "mean": "the mean of its channel takes a segment's place",
        "linear": "a straight line takes a segment's place",
        "noise": "noise of its channel's mean and spread takes a segment's place",
    }
    if isinstance(fill, str):
        return words[fill]
    if np.ndim(fill) == 0:
        return f"the number {float(fill):g} takes a segment's place"
    return "another series takes a segment's place"


class SeriesNeighbourhood(PartsNeighbourhood):
    """One series and all series that are left when segments of it are filled."""

    label = None

    def __init__(self, domain: Series, x: Any) -> None:
        self._raw, self._fill, self._seed = x, domain.fill, domain.seed
        self.x: Floats = np.asarray(x, dtype=np.float64).reshape(len(x), -1)
        self.bounds = bounds(len(x), domain.segments, domain.length)
        count = self.x.shape[1]
        together = domain.channels == "together"
        if isinstance(domain.channels, tuple):
            if len(domain.channels) != count:
                msg = f"{len(domain.channels)} names of channels for a series of {count}"
                raise InputError(msg)
            channels = domain.channels
        else:
            channels = tuple(f"channel {c}" for c in range(count))
        stretches = [
            f"steps {a}–{b - 1}" if b - a > 1 else f"step {a}"  # noqa: RUF100
            for a, b in self.bounds
        ]
        one = together or (count == 1 and not isinstance(domain.channels, tuple))
        self.channels: tuple[str, ...] = () if one else channels
        self.names = tuple(
            s if one else f"{c}, {s}"
            for c in (channels[:1] if one else channels)
            for s in stretches
        )
        self.background_note = "no background: the base is the series with every segment off"
        self.removal = _removal(domain.fill)
        self.replacement = replacement(self.x, domain.fill, domain.seed)

    @property
    def unit(self) -> tuple[str, ...]:
        """``"per segment present"`` for each part."""
        return ("per segment present",) * len(self.names)

    @property
    def form(self) -> Any:  # type: ignore[override]
        """Series of one shape and type stack."""
        return (self._raw.shape, str(self._dtype))

    @property
    def _dtype(self) -> np.dtype[Any]:
        """Floats keep their precision; whole numbers become float64, as fills are not whole."""
        kept: np.dtype[Any] = self._raw.dtype
        return kept if kept.kind == "f" else np.dtype(np.float64)

    @property
    def row_bytes(self) -> int:
        """Bytes of the series, and of the work on it."""
        return 8 * 4 * self.x.size

    @cached_property
    def _owner(self) -> Ints:
        """``(T, C)``: the part each value belongs to."""
        out = np.empty(self.x.shape, dtype=np.int64)
        for i, (a, b) in enumerate(self.bounds):
            out[a:b] = i
        if self.channels:
            out += len(self.bounds) * np.arange(self.x.shape[1])
        return out

    @cached_property
    def active(self) -> Masks:
        """``(d,)``: false where a segment equals what would fill it, whatever else is off."""
        if isinstance(self._fill, str) and self._fill == "linear":
            return np.ones(len(self.names), dtype=np.bool_)
        differs = self.x != self.replacement
        return np.bincount(self._owner[differs], minlength=len(self.names)) > 0

    def coalition_inputs(
        self,
        masks: Masks,
        *,
        merge: bool = True,  # noqa: ARG002 - series are never merged
    ) -> tuple[Native, None]:
        """Return ``(n, T)`` or ``(n, T, C)`` series for ``(n, d)`` masks."""
        on = np.asarray(masks, dtype=np.bool_)[:, self._owner]
        if isinstance(self._fill, str) and self._fill == "linear":
            made = filled_linear(self.x, on, self.replacement)
        else:
            made = np.where(on, self.x, self.replacement)
        return made.reshape(len(on), *self._raw.shape).astype(self._dtype), None

    def payload(self) -> dict[str, Any]:
        """The series, its segments, and what fills them."""
        own = not isinstance(self._fill, str)
        fill = np.asarray(self._fill, dtype=np.float64).tolist() if own else self._fill
        return {
            "kind": "series",
            "shape": list(self._raw.shape),
            "dtype": str(self._raw.dtype),
            "values": self._raw.ravel().tolist(),
            "bounds": [list(b) for b in self.bounds],
            "channels": list(self.channels),
            "fill": fill,
            "seed": self._seed,
        }
