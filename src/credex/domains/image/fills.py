"""What takes the place of a region that is switched off: always one replacement picture.

A fill turns a picture and its regions into ``(H, W, C)`` replacement pixels, once per picture; a
perturbed picture then takes each pixel either from the picture or from its replacement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from credex.checks import check_positive
from credex.domains.image.picture import Picture, Pixels, read
from credex.domains.image.regions import Regions
from credex.domains.masked import unmasked
from credex.errors import InputError
from credex.typing import Floats

__all__ = ["Blur", "Constant", "Fill", "Inpaint", "Mean", "Noise", "Other", "fill_of"]

MAX_INPAINT_PIXELS = 600_000
"""`Inpaint` takes about ten seconds for so many."""


class Fill(Protocol):
    """Makes the replacement of a picture."""

    @property
    def words(self) -> str:
        """What takes the place of a region, for display."""

    def pixels(self, picture: Picture, regions: Regions) -> Floats:
        """``(H, W, C)`` replacement pixels, in the picture's own units."""


@dataclass(frozen=True, slots=True)
class Mean:
    """Each region's own mean colour."""

    words: str = "the mean colour of the region"

    def pixels(self, picture: Picture, regions: Regions) -> Floats:
        """Return each region's mean."""
        flat = regions.labels.ravel()
        planes = picture.pixels.reshape(flat.size, -1).astype(np.float64).T
        sums = np.stack([np.bincount(flat, plane, regions.d) for plane in planes], axis=1)
        return np.asarray(sums / np.bincount(flat)[:, None])[regions.labels]


@dataclass(frozen=True, slots=True)
class Constant:
    """One colour everywhere: a number for all channels, or one for each."""

    colour: tuple[float, ...]

    @property
    def words(self) -> str:
        """``the colour 0`` or ``the colour (255, 0, 0)``."""
        numbers = ", ".join(f"{v:g}" for v in self.colour)
        return f"the colour {numbers if len(self.colour) == 1 else f'({numbers})'}"

    def pixels(self, picture: Picture, regions: Regions) -> Floats:
        """Return the colour everywhere, if the picture can have it."""
        del regions
        colour = np.array(self.colour)
        if len(colour) not in (1, picture.channels):
            kind = "a grey image" if picture.channels == 1 else f"{picture.channels} channels"
            msg = f"fill={self.colour} has {len(colour)} channels, the image is {kind}; "
            msg += "pass one number, or one for each channel"
            raise InputError(msg)
        check_range(picture, colour, f"fill={self.colour if len(colour) > 1 else self.colour[0]}")
        return np.broadcast_to(colour, picture.pixels.shape).copy()


@dataclass(frozen=True, slots=True)
class Blur:
    """The picture itself, blurred by a Gaussian of ``sigma`` pixels."""

    sigma: float = 10.0

    def __post_init__(self) -> None:
        check_positive("Blur(sigma)", self.sigma)

    @property
    def words(self) -> str:
        """Its width included."""
        return f"the picture blurred by {self.sigma:g} pixels"

    def pixels(self, picture: Picture, regions: Regions) -> Floats:
        """Return the blurred picture."""
        del regions
        from scipy.ndimage import gaussian_filter

        planes = picture.pixels.astype(np.float64)
        blurred: Floats = gaussian_filter(planes, (self.sigma, self.sigma, 0), mode="nearest")
        return blurred


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
        """Its scale included."""
        return f"noise about the mean colour (scale {self.scale:g})"

    def pixels(self, picture: Picture, regions: Regions) -> Floats:
        """Return the noise."""
        del regions
        rng = np.random.default_rng([self.seed, 29])
        mean = picture.pixels.astype(np.float64).mean(axis=(0, 1))
        spread = self.scale * (picture.high - picture.low)
        drawn = mean + spread * rng.standard_normal(picture.pixels.shape)
        return np.asarray(np.clip(drawn, picture.low, picture.high))


@dataclass(frozen=True, slots=True)
class Inpaint:
    """Each region filled in smoothly from the pixels around it (Laplace's equation).

    Made once, from the whole picture: a region's filling also shows where its neighbours were.
    """

    words: str = "what the pixels around the region suggest"

    def pixels(self, picture: Picture, regions: Regions) -> Floats:
        """Solve for all regions at once: pixels of other regions are boundary values."""
        labels = regions.labels
        if labels.size > MAX_INPAINT_PIXELS:
            high, wide = picture.size
            msg = f"fill='inpaint' of {high} × {wide} pixels would take minutes and gigabytes; "
            msg += f"scale the image to at most {MAX_INPAINT_PIXELS:,} pixels, or use "
            msg += "cx.Blur(sigma)"
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
        everywhere = (np.append(index, i), np.append(index, j))
        system = coo_array((data, everywhere), shape=(n, n))
        known = picture.pixels.reshape(n, -1).astype(np.float64)
        border = np.zeros_like(known)
        np.add.at(border, a[~inside], known[b[~inside]])
        return np.asarray(splu(system.tocsc()).solve(border)).reshape(picture.pixels.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Other:
    """Another picture of the same shape."""

    image: Any
    words: str = "another picture"

    def pixels(self, picture: Picture, regions: Regions) -> Floats:
        """Return the other picture, if it fits."""
        del regions
        if np.shape(self.image) != picture.native.shape:
            msg = f"fill= is an image of shape {np.shape(self.image)}, the image to explain has "
            msg += f"shape {picture.native.shape}; they must agree"
            raise InputError(msg)
        channels: Any = {"HW": "none", "HWC": "last", "CHW": "first"}[picture.layout]
        other = read(self.image, channels=channels)
        check_range(picture, other.native, "fill=")
        return other.pixels.astype(np.float64)


NAMED: dict[str, Fill] = {"mean": Mean(), "inpaint": Inpaint()}


def fill_of(given: Any) -> Fill:
    """Turn what the user passed as ``fill`` into a fill."""
    if isinstance(given, str) and given in NAMED:
        return NAMED[given]
    if hasattr(given, "pixels") and hasattr(given, "words"):
        found: Fill = given
        return found
    if isinstance(given, int | float | np.number) and not isinstance(given, bool):
        return Constant((float(given),))
    if isinstance(given, list | tuple | np.ndarray) and np.ndim(given) == 1 and len(given):
        return Constant(tuple(float(v) for v in unmasked(given, "fill=")))
    if isinstance(given, np.ndarray) or type(given).__module__.partition(".")[0] == "PIL":
        return Other(given)
    msg = f"fill={given!r} is not known; use 'mean', 'inpaint', a number or colour, an image of "
    msg += "the same shape, cx.Blur(sigma) or cx.Noise(scale)"
    raise InputError(msg)


def check_range(picture: Picture, values: Pixels, what: str) -> None:
    """Raise if ``values`` lie where no pixel of this picture could."""
    if not np.all(np.isfinite(values)):
        raise InputError(f"{what} has values that are NaN or infinite")
    whole = picture.native.dtype.kind in "iu"
    # Where the range is only what occurs in the picture, values may lie somewhat outside.
    found = picture.low < 0 or (not whole and picture.high not in (1.0, 255.0))
    margin = picture.high - picture.low if found else 0.0
    low, high = float(np.min(values)), float(np.max(values))
    if low < picture.low - margin or high > picture.high + margin:
        worst = low if low < picture.low - margin else high
        msg = f"{what} has the value {worst:g}, but this image's values lie between "
        msg += f"{picture.low:g} and {picture.high:g}; scale it, or say "
        msg += "cx.Image(value_range=(low, high))"
        raise InputError(msg)
    if whole and np.any(values != np.rint(values)):
        msg = f"{what} is not a whole number, but the image is of type {picture.native.dtype} with "
        msg += f"values {picture.low:g} to {picture.high:g}"
        raise InputError(msg)
