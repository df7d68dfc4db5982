"""One picture in the user's own layout and dtype, and batches of its kind for the model."""

from __future__ import annotations

import base64
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from credex.domains.masked import numbers
from credex.errors import InputError, MissingExtraError
from credex.typing import Floats

__all__ = ["Picture", "packed", "read", "unpacked"]

Layout = Literal["HW", "HWC", "CHW"]
Channels = Literal["first", "last", "none"]
Pixels = NDArray[Any]

COLOURS = (1, 3, 4)
"""Lengths of an axis that is taken for that of the channels."""

MODES = ("L", "RGB", "RGBA")
"""Modes of PIL images whose pixels are plain numbers, not indices of a palette."""


@dataclass(frozen=True)
class Picture:
    """One picture, as a C-contiguous copy in the user's layout and dtype."""

    native: Pixels
    layout: Layout
    kind: str  # what the model is given: "array", "pil" (a list of PIL images) or "torch"
    low: float  # smallest and largest value that a pixel of this kind may have
    high: float
    label: str | None = None  # the name of its file

    @property
    def pixels(self) -> Pixels:
        """``(H, W, C)`` view."""
        if self.layout == "HW":
            return self.native[:, :, None]
        return np.moveaxis(self.native, 0, 2) if self.layout == "CHW" else self.native

    @property
    def floats(self) -> Floats:
        """``(H, W, C)`` float64 copy, in the picture's own units."""
        return self.pixels.astype(np.float64)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[0], self.pixels.shape[1]

    @property
    def channels(self) -> int:
        """Number of channels; 1 for a grey picture."""
        return int(self.pixels.shape[2])

    def scaled(self) -> Floats:
        """``(H, W, C)`` float64 between 0 and 1: what segmenters see."""
        return (self.floats - self.low) / ((self.high - self.low) or 1.0)

    def like(self, pixels: Floats) -> Pixels:
        """Return ``(H, W, C)`` numbers in the layout and dtype of this picture."""
        dtype = self.native.dtype
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            pixels = np.clip(np.rint(pixels), info.min, info.max)
        if self.layout == "HW":
            pixels = pixels[:, :, 0]
        elif self.layout == "CHW":
            pixels = np.moveaxis(pixels, 2, 0)
        return np.ascontiguousarray(pixels, dtype=dtype)

    def batch(self, stack: Pixels) -> Any:
        """Return ``(n, …)`` pictures in this layout as the model is given them."""
        if self.kind == "pil":
            from PIL import Image

            return [Image.fromarray(one) for one in stack]
        if self.kind == "torch":
            import torch

            return torch.from_numpy(stack)
        return stack


def packed(a: Pixels) -> dict[str, Any]:
    """Compress an array for JSON."""
    little = np.ascontiguousarray(a, dtype=a.dtype.newbyteorder("<"))
    data = base64.b64encode(zlib.compress(little.tobytes(), 6)).decode("ascii")
    return {"shape": list(a.shape), "dtype": little.dtype.str, "zlib": data}


def unpacked(raw: dict[str, Any]) -> Pixels:
    """Read what `packed` wrote."""
    data = zlib.decompress(base64.b64decode(raw["zlib"]))
    a = np.frombuffer(data, dtype=np.dtype(raw["dtype"])).reshape(raw["shape"])
    return a.astype(a.dtype.newbyteorder("="))


def read(
    x: Any, *, channels: Channels | None = None, value_range: tuple[float, float] | None = None
) -> Picture:
    """Read one picture: an array, a torch tensor, a PIL image, or the path of an image file."""
    label, kind = None, "array"
    if isinstance(x, str | Path):
        x, label = _from_file(x), str(x)
    elif type(x).__module__.partition(".")[0] == "PIL":
        if x.mode not in MODES:
            msg = f"a PIL image of mode {x.mode!r} cannot be painted over; use x.convert('RGB')"
            raise InputError(msg)
        x, kind = np.array(x), "pil"
    elif "torch" in sys.modules and hasattr(x, "detach"):
        x, kind = x.detach().cpu().numpy(), "torch"
    elif not isinstance(x, np.ndarray | Sequence):
        msg = f"explain() needs an image: an array, a PIL image or a path; got {type(x).__name__}"
        raise InputError(msg)
    a = np.array(numbers(x, "the image"), order="C")
    return Picture(a, _layout(a.shape, channels), kind, *_range(a, value_range), label)


def _layout(shape: tuple[int, ...], channels: Channels | None) -> Layout:
    """Return the layout of an image; the axis of length 1, 3 or 4 is that of the channels."""
    if len(shape) == 4:
        msg = f"this is a batch of {shape[0]} images (shape {shape}); explain() takes one, such as "
        msg += "x[0], explain_many() takes them all"
        raise InputError(msg)
    if len(shape) == 2 and channels in (None, "none"):
        return "HW"
    if len(shape) != 3 or channels == "none":
        want = {"none": "(H, W)", "first": "(C, H, W)", "last": "(H, W, C)"}
        told = want[channels] if channels else "(H, W), (H, W, C) or (C, H, W)"
        raise InputError(f"the image has shape {shape}; {told} is needed")
    if channels is None:
        first, last = shape[0] in COLOURS, shape[2] in COLOURS
        if first == last:
            why = "either end could be the" if first else "no axis has 1, 3 or 4"
            msg = f"the image has shape {shape}, and {why} channels; say "
            msg += "cx.Image(channels='first') or channels='last'"
            raise InputError(msg)
        channels = "first" if first else "last"
    return "CHW" if channels == "first" else "HWC"


def _range(a: Pixels, given: tuple[float, float] | None) -> tuple[float, float]:
    """Return the smallest and largest possible value of a pixel, as `Image` documents it."""
    low, high = float(a.min()), float(a.max())
    if given is not None:
        if low < given[0] or high > given[1]:
            msg = f"the image has values from {low:g} to {high:g}, outside value_range={given}"
            raise InputError(msg)
        return given
    if a.dtype.kind == "u":
        return 0.0, float(np.iinfo(a.dtype).max)
    if low >= 0 and high <= 255:
        return 0.0, 1.0 if high <= 1 and a.dtype.kind == "f" else 255.0
    return low, high


def _from_file(path: str | Path) -> Pixels:
    """Read an image file with PIL, turned upright as its EXIF data say."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        msg = "reading an image file needs pillow: pip install 'credex[image]'"
        raise MissingExtraError(msg) from None
    if not Path(path).is_file():
        raise InputError(f"there is no image file {str(path)!r}")
    try:
        with Image.open(path) as found:
            picture = ImageOps.exif_transpose(found)
            if picture.mode not in (*MODES, "I;16", "F"):
                clear = picture.mode in ("LA", "PA") or "transparency" in picture.info
                picture = picture.convert("RGBA" if clear else "RGB")
            return np.array(picture)
    except (OSError, SyntaxError, ValueError) as cause:
        msg = f"{str(path)!r} is not an image that can be read: {cause}"
        raise InputError(msg) from cause
