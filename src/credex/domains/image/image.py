"""`Image`: pictures, whose features are regions that are kept or painted over."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from functools import cached_property
from typing import Any, get_args

import numpy as np

from credex.domains.image.fills import fill_of
from credex.domains.image.picture import Channels, Picture, Pixels, packed, read, unpacked
from credex.domains.image.regions import Regions, Slic, cut
from credex.domains.masked import MaskedDomain, MaskedNeighbourhood
from credex.errors import InputError
from credex.typing import Ints, Masks, Native

__all__ = ["Image", "ImageNeighbourhood", "seen"]

MEMORY_FACTOR = 4
"""Approximate memory of a network, layers included, per byte of its input."""


class Image(MaskedDomain):
    """A domain of pictures: arrays, torch tensors, PIL images, or paths of files.

    Parameters
    ----------
    segments
        How a picture is cut into regions: `Slic`, `Quickshift`, `Felzenszwalb`, `Grid`, an
        ``(H, W)`` array of labels (its numbers become the names), or a function of the picture
        (``(H, W, C)`` floats between 0 and 1) that returns one.
    fill
        What takes the place of a region that is switched off: ``"mean"`` (its own mean colour), a
        number or a colour in the picture's own units, `Blur`, `Noise`, ``"inpaint"`` (what the
        pixels around it suggest), or another picture of the same shape.
    channels
        ``"first"``, ``"last"`` or ``"none"``; ``None`` looks for an axis of length 1, 3 or 4.
    value_range
        Smallest and largest possible value of a pixel; ``None``: the whole range of unsigned
        integers, 0…1 for floats that lie there, else 0…255 if they fit, else what occurs.

    Notes
    -----
    The model receives pictures of the same kind: arrays of the same dtype and layout for an array,
    torch tensors for a tensor, a list of PIL images for a PIL image, and ``(n, H, W, C)`` uint8 for
    a path.

    Examples
    --------
    >>> import credex as cx
    >>> import numpy as np
    >>> picture = np.zeros((8, 8))
    >>> picture[:4, :4] = 1.0  # a bright corner
    >>> brightness = lambda pictures: pictures.mean(axis=(1, 2))
    >>> e = cx.BayesSHAP(brightness, cx.Image(segments=cx.Grid(2, 2), fill=0.0)).explain(picture)
    >>> e.mean
    array([0.25, 0.  , 0.  , 0.  ])
    """

    batch = "several images, (n, H, W), (n, H, W, C) or a list"

    def __init__(
        self,
        segments: Any = None,
        fill: Any = "mean",
        *,
        channels: Channels | None = None,
        value_range: tuple[float, float] | None = None,
    ) -> None:
        if isinstance(segments, str | int | float):
            msg = f"segments={segments!r} is not known; use cx.Slic(20), cx.Grid(4, 5), "
            msg += "cx.Quickshift(), cx.Felzenszwalb(), an array of labels, or a function"
            raise InputError(msg)
        if channels is not None and channels not in get_args(Channels):
            raise InputError(f"channels must be 'first', 'last' or 'none'; got {channels!r}")
        if value_range is not None and not value_range[0] < value_range[1]:
            msg = f"value_range must be (low, high) with low < high; got {value_range!r}"
            raise InputError(msg)
        self.segments = Slic() if segments is None else segments
        self.fill = fill_of(fill)
        self.channels = channels
        self.value_range = value_range

    def at(self, x: Any) -> ImageNeighbourhood:
        """Cut one picture into regions and make its replacement."""
        if isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], Picture):  # from `restore`
            picture, regions = x
        else:
            picture = read(x, channels=self.channels, value_range=self.value_range)
            regions = cut(picture, self.segments)
        replacement = picture.like(self.fill.pixels(picture, regions))
        return ImageNeighbourhood(picture, regions, replacement, self.fill.words)

    def split(self, X: Any) -> list[Any]:
        """Split a batch: ``(n, …)`` pictures, or a list of pictures of any size and kind."""
        shape = getattr(X, "shape", (0,) * 4)
        colour = self.channels is None and len(shape) == 3 and shape[2] in (3, 4)
        if len(shape) < (4 if colour or self.channels in ("first", "last") else 3):
            msg = f"X has shape {shape}, one image: use explain(x), or pass {self.batch}"
            raise InputError(msg)
        return super().split(X)

    def restore(self, payload: Any) -> Any:
        """Turn `ImageNeighbourhood.payload` back into a picture and its regions."""
        if not isinstance(payload, dict) or payload.get("domain") != "image":
            raise InputError("this explanation is not of an image")
        if payload["fill"] != self.fill.words:
            msg = f"this explanation was made with another fill ({payload['fill']}), now it is "
            msg += f"{self.fill.words}: what was asked does not fit"
            raise InputError(msg)
        return seen(payload)


def seen(payload: dict[str, Any]) -> tuple[Picture, Regions]:
    """Return the picture and the regions that an explanation's payload holds."""
    raw, pixels = payload["picture"], unpacked(payload["picture"]["pixels"])
    low, high = raw["range"]
    picture = Picture(pixels, raw["layout"], raw["kind"], low, high, raw["label"])
    labels = unpacked(payload["labels"]).astype(np.int64)
    return picture, Regions(labels, tuple(payload["numbers"]))


class ImageNeighbourhood(MaskedNeighbourhood):
    """One picture, its regions, and the pixels that replace a region that is switched off."""

    def __init__(
        self, picture: Picture, regions: Regions, replacement: Pixels, removal: str
    ) -> None:
        self.picture, self.regions, self.replacement = picture, regions, replacement
        self.names, self.label, self.removal = regions.names, picture.label, removal

    @cached_property
    def values(self) -> tuple[object, ...]:
        """Where each region lies, and its share of the picture."""
        return self.regions.positions()

    @cached_property
    def active(self) -> Masks:
        """``(d,)``: whether the region differs from its replacement somewhere."""
        differs = self.picture.native != self.replacement
        return np.bincount(self._labels[differs], minlength=self.regions.d) > 0

    @cached_property
    def _labels(self) -> Ints:
        """Region of every value of the picture, in its own layout."""
        labels, layout = self.regions.labels, self.picture.layout
        if layout != "HW":
            labels = labels[None] if layout == "CHW" else labels[:, :, None]
        return np.ascontiguousarray(np.broadcast_to(labels, self.picture.native.shape))

    @cached_property
    def row_bytes(self) -> int:
        """Approximate memory of a network on one picture."""
        return MEMORY_FACTOR * self.picture.native.nbytes

    @cached_property
    def form(self) -> Hashable:
        """Pictures of one shape, dtype and kind stack."""
        native = self.picture.native
        return native.shape, native.dtype.str, self.picture.kind

    def inputs(self, masks: Masks) -> Native:
        """Return a picture for each of ``(n, d)`` masks."""
        kept = np.take(masks, self._labels, axis=1, mode="clip")  # half the time of masks[:, …]
        made = np.where(kept, self.picture.native, self.replacement)
        return self.picture.batch(made.astype(self.replacement.dtype, copy=False))

    @cached_property
    def _payload(self) -> dict[str, Any]:
        picture, labels = self.picture, self.regions.labels
        return {
            "domain": "image",
            "picture": {
                "pixels": packed(picture.native),
                "layout": picture.layout,
                "kind": picture.kind,
                "range": [float(picture.low), float(picture.high)],
                "label": picture.label,
            },
            "labels": packed(labels.astype(np.uint8 if self.regions.d <= 256 else np.uint16)),
            "numbers": list(self.regions.numbers),
            "fill": self.removal,
            "replacement": hashlib.sha256(self.replacement.tobytes()).hexdigest(),
        }

    def payload(self) -> dict[str, Any]:
        """Return the picture and its regions, compressed, and a digest of the replacement."""
        return self._payload
