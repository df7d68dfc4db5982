"""What takes the place of a region that is switched off: always one replacement picture.

``fill.pixels(picture, regions)`` returns ``(H, W, C)`` replacement pixels in the picture's own
units, once per picture; a perturbed picture then takes each pixel either from the picture or from
its replacement. ``fill.words`` says what that is, for display.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from credex.domains.image.picture import Picture, Pixels, read
from credex.domains.image.regions import Regions
from credex.domains.masked import numbers
from credex.errors import InputError, check_positive
from credex.seeds import Purpose, spawn
from credex.typing import Floats

__all__ = ["Blur", "Fill", "Noise", "fill_of"]

MAX_INPAINT_PIXELS = 600_000
"""`inpaint` takes about ten seconds for an image of this size."""


@dataclass(frozen=True, slots=True)
class Blur:
    """The picture itself, blurred by a Gaussian of ``sigma`` pixels."""

    sigma: float = 10.0

    def __post_init__(self) -> None:
        check_positive("Blur(sigma)", self.sigma)

    @property
    def words(self) -> str:
        """What takes a region's place, for display."""
        return f"the picture blurred by {self.sigma:g} pixels"

    def pixels(self, picture: Picture, _: Regions) -> Floats:
        """Return the blurred picture."""
        from scipy.ndimage import gaussian_filter

        sigma = (self.sigma, self.sigma, 0)
        return np.asarray(gaussian_filter(picture.floats, sigma, mode="nearest"))


@dataclass(frozen=True, slots=True)
class Noise:
    """Normal noise about the picture's mean colour, clipped to the range of its values.

    Parameters
    ----------
    scale
        Standard deviation, as a share of the range (255 for uint8).
    seed
        The same seed gives the same noise for every picture of a size.
    """

    scale: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("Noise(scale)", self.scale)

    @property
    def words(self) -> str:
        """What takes a region's place, for display."""
        return f"noise about the mean colour (scale {self.scale:g})"

    def pixels(self, picture: Picture, _: Regions) -> Floats:
        """Return the noise."""
        rng = spawn(self.seed, Purpose.FILL_NOISE)
        sd = self.scale * (picture.high - picture.low)
        drawn = picture.floats.mean(axis=(0, 1)) + sd * rng.standard_normal(picture.pixels.shape)
        return np.asarray(np.clip(drawn, picture.low, picture.high))


@dataclass(frozen=True, slots=True)
class NamedFill:
    """A fill that the user gives as a word, a number, a colour or a picture."""

    words: str
    pixels: Callable[[Picture, Regions], Floats]


Fill = Blur | Noise | NamedFill


def fill_of(given: Any) -> Fill:
    """Turn what the user passed as ``fill`` into a fill."""
    if hasattr(given, "pixels") and hasattr(given, "words"):
        found: Fill = given
        return found
    if isinstance(given, str) and given == "mean":
        return NamedFill("the mean colour of the region", mean_colour)
    if isinstance(given, str) and given == "inpaint":
        return NamedFill("what the pixels around the region suggest", inpaint)
    if isinstance(given, int | float | np.number) and not isinstance(given, bool):
        return NamedFill(f"the colour {float(given):g}", partial(constant, (float(given),)))
    if isinstance(given, list | tuple | np.ndarray) and np.ndim(given) == 1 and len(given):
        colour = tuple(float(v) for v in numbers(given, "fill="))
        words = ", ".join(f"{v:g}" for v in colour)
        words = words if len(colour) == 1 else f"({words})"
        return NamedFill(f"the colour {words}", partial(constant, colour))
    if isinstance(given, np.ndarray) or type(given).__module__.partition(".")[0] == "PIL":
        return NamedFill("another picture", partial(other_picture, given))
    msg = f"fill={given!r} is not known; use 'mean', 'inpaint', a number or colour, an image of "
    msg += "the same shape, cx.Blur(sigma) or cx.Noise(scale)"
    raise InputError(msg)


def mean_colour(picture: Picture, regions: Regions) -> Floats:
    """Return each region's own mean colour."""
    flat = regions.labels.ravel()
    planes = picture.floats.reshape(flat.size, -1).T
    sums = np.stack([np.bincount(flat, plane) for plane in planes], axis=1)
    return np.asarray(sums / np.bincount(flat)[:, None])[regions.labels]


def inpaint(picture: Picture, regions: Regions) -> Floats:
    """Fill each region smoothly from the pixels around it (Laplace's equation).

    All regions are solved for at once, with the pixels of other regions as boundary values, so a
    region's replacement also shows where its neighbours were.
    """
    labels = regions.labels
    if labels.size > MAX_INPAINT_PIXELS:
        high, wide = picture.size
        msg = f"fill='inpaint' of {high} × {wide} pixels would take minutes and gigabytes; "
        msg += f"scale the image to {MAX_INPAINT_PIXELS:,} pixels or fewer, or use cx.Blur(sigma)"
        raise InputError(msg)
    from scipy.sparse import coo_array
    from scipy.sparse.linalg import splu

    n, flat = labels.size, labels.ravel()
    index = np.arange(n).reshape(labels.shape)
    a = np.concatenate([index[:, :-1].ravel(), index[:-1].ravel()])
    b = np.concatenate([index[:, 1:].ravel(), index[1:].ravel()])
    a, b = np.concatenate([a, b]), np.concatenate([b, a])  # each pair of neighbours, both ways
    inside = flat[a] == flat[b]
    i, j = a[inside], b[inside]
    data = np.concatenate([np.bincount(a, minlength=n), np.full(len(i), -1)]).astype(float)
    system = coo_array((data, (np.append(index, i), np.append(index, j))), shape=(n, n))
    known = picture.floats.reshape(n, -1)
    border = np.zeros_like(known)
    np.add.at(border, a[~inside], known[b[~inside]])
    return np.asarray(splu(system.tocsc()).solve(border)).reshape(picture.pixels.shape)


def constant(colour: tuple[float, ...], picture: Picture, _: Regions) -> Floats:
    """Return one colour everywhere: a number for all channels, or one for each."""
    if len(colour) not in (1, picture.channels):
        kind = "a grey image" if picture.channels == 1 else f"{picture.channels} channels"
        msg = f"fill={colour} has {len(colour)} channels, the image is {kind}; "
        msg += "pass one number, or one for each channel"
        raise InputError(msg)
    check_range(picture, np.array(colour), f"fill={colour if len(colour) > 1 else colour[0]}")
    return np.broadcast_to(colour, picture.pixels.shape)


def other_picture(image: Any, picture: Picture, _: Regions) -> Floats:
    """Return another picture of the same shape."""
    shape = picture.native.shape
    if np.shape(image) != shape:
        msg = f"fill= has shape {np.shape(image)}, the image has {shape}; they must agree"
        raise InputError(msg)
    channels: Any = {"HW": "none", "HWC": "last", "CHW": "first"}[picture.layout]
    other = read(image, channels=channels)
    check_range(picture, other.native, "fill=")
    return other.floats


def check_range(picture: Picture, values: Pixels, what: str) -> None:
    """Raise if ``values`` lie where no pixel of this picture could."""
    if not np.all(np.isfinite(values)):
        raise InputError(f"{what} has values that are NaN or infinite")
    whole = picture.native.dtype.kind in "iu"
    # Where the range is only what occurs in the picture, values may lie somewhat outside.
    found = picture.low < 0 or (not whole and picture.high not in (1.0, 255.0))
    margin = picture.high - picture.low if found else 0.0
    for value in (float(np.min(values)), float(np.max(values))):
        if not picture.low - margin <= value <= picture.high + margin:
            msg = f"{what} has the value {value:g}, but this image's values lie between "
            msg += f"{picture.low:g} and {picture.high:g}; scale it, or say "
            msg += "cx.Image(value_range=(low, high))"
            raise InputError(msg)
    if whole and np.any(values != np.rint(values)):
        msg = f"{what} is not a whole number, but the image is of type {picture.native.dtype}"
        raise InputError(msg)
