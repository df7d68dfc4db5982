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
from credex.errors import InputError
from credex.typing import Floats

__all__ = ["Blur", "Constant", "Fill", "Inpaint", "Mean", "Noise", "Other", "fill_of"]

INPAINT_MOST = 600_000
"""Pixels up to which `Inpaint` solves its equations: about ten seconds."""


class Fill(Protocol):
    """Makes the replacement."""

    @property
    def words(self) -> str:
        """What takes the place of a region, for people."""
        ...

    def pixels(self, picture: Picture, regions: Regions) -> Floats:
        """``(H, W, C)`` replacement pixels, in the picture's own units."""
        ...


@dataclass(frozen=True, slots=True)
class Mean:
    """Each region's own mean colour."""

    words: str = "the mean colour of the region"

    def pixels(self, picture: Picture, regions: Regions) -> Floats:
        """Average over each region."""
        flat = regions.labels.ravel()
        counts = np.bincount(flat, minlength=regions.d)
        planes = picture.pixels.reshape(-1, picture.channels).astype(np.float64)
        means = [
            np.bincount(flat, planes[:, c], regions.d) / counts for c in range(picture.channels)
        ]
        return np.stack(means, axis=1)[regions.labels]


@dataclass(frozen=True, slots=True)
class Constant:
    """One colour everywhere: a number for all channels, or one for each."""

    colour: tuple[float, ...]

    @property
    def words(self) -> str:
        """``the colour 0`` or ``the colour (255, 0, 0)``."""
        said = ", ".join(f"{v:g}" for v in self.colour)
        return f"the colour {said if len(self.colour) == 1 else f'({said})'}"

    def pixels(self, picture: Picture, regions: Regions) -> Floats:
        """Paint it."""
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
        """With its width."""
        return f"the picture blurred by {self.sigma:g} pixels"

    def pixels(self, picture: Picture, regions: Regions) -> Floats:
        """Blur each channel by itself."""
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
        """With its size."""
        return f"noise about the mean colour (scale {self.scale:g})"

    def pixels(self, picture: Picture, regions: Regions) -> Floats:
        """Draw it."""
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
        if regions.labels.size > INPAINT_MOST:
            high, wide = picture.size
            msg = f"fill='inpaint' of {high} × {wide} pixels would take minutes and gigabytes; "
            msg += f"scale the image to at most {INPAINT_MOST:,} pixels, or use cx.Blur(sigma)"
            raise InputError(msg)
        from scipy.sparse import csr_array
        from scipy.sparse.linalg import splu

        labels = regions.labels
        height, width = labels.shape
        at = np.arange(height * width).reshape(height, width)
        known = picture.pixels.reshape(height * width, -1).astype(np.float64)
        total = np.zeros_like(known)
        degree = np.zeros(height * width)
        rows, columns = [], []
        pairs = ((at[:, :-1], at[:, 1:]), (at[:-1], at[1:]))
        flat = labels.ravel()
        for a, b in ((x.ravel(), y.ravel()) for x, y in pairs):
            degree += np.bincount(a, minlength=at.size) + np.bincount(b, minlength=at.size)
            same = flat[a] == flat[b]
            rows += [a[same], b[same]]
            columns += [b[same], a[same]]
            np.add.at(total, a[~same], known[b[~same]])
            np.add.at(total, b[~same], known[a[~same]])
        i, j = np.concatenate(rows), np.concatenate(columns)
        data = np.concatenate([degree, np.full(len(i), -1.0)])
        index = np.arange(at.size)
        system = csr_array(
            (data, (np.concatenate([index, i]), np.concatenate([index, j]))),
            shape=(at.size, at.size),
        )
        solved = splu(system.tocsc()).solve(total)
        return np.asarray(solved).reshape(picture.pixels.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Other:
    """Another picture of the same shape."""

    image: Any
    words: str = "another picture"

    def pixels(self, picture: Picture, regions: Regions) -> Floats:
        """Take it, if it fits."""
        del regions
        channels = {"HW": "none", "HWC": "last", "CHW": "first"}[picture.layout]
        shape: Any = np.shape(self.image) or None
        if shape is not None and shape != picture.native.shape:
            msg = f"fill= is an image of shape {shape}, the image to explain has shape "
            msg += f"{picture.native.shape}; they must agree"
            raise InputError(msg)
        other = read(self.image, channels=channels)  # type: ignore[arg-type]
        if other.native.shape != picture.native.shape:
            msg = f"fill= is an image of shape {other.native.shape}, the image to explain has "
            msg += f"shape {picture.native.shape}; they must agree"
            raise InputError(msg)
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
    if isinstance(given, bool | np.bool_ | None):
        pass
    elif isinstance(given, int | float | np.number):
        return Constant((float(given),))
    elif isinstance(given, list | tuple | np.ndarray) and np.ndim(given) == 1 and len(given):
        return Constant(tuple(float(v) for v in given))
    elif isinstance(given, np.ndarray) or type(given).__module__.partition(".")[0] == "PIL":
        return Other(given)
    msg = (
        f"fill={given!r} is not known; use 'mean', 'inpaint', a number or colour, an image of the "
    )
    msg += "same shape, cx.Blur(sigma) or cx.Noise(scale)"
    raise InputError(msg)


def check_range(picture: Picture, values: Pixels, what: str) -> None:
    """Raise if ``values`` lie where no pixel of this picture could."""
    if not np.all(np.isfinite(np.asarray(values, dtype=np.float64))):
        msg = f"{what} has values that are NaN or infinite"
        raise InputError(msg)
    low, high = float(np.min(values)), float(np.max(values))
    bound_low, bound_high = picture.low, picture.high
    whole = picture.native.dtype.kind in "iu"
    if bound_low < 0 or (not whole and bound_high not in (1.0, 255.0)):
        span = bound_high - bound_low  # the range is only what occurs: leave it some room
        bound_low, bound_high = bound_low - span, bound_high + span
    if low < bound_low or high > bound_high:
        worst = low if low < bound_low else high
        msg = f"{what} has the value {worst:g}, but this image's values lie between "
        msg += f"{picture.low:g} and {picture.high:g}; scale it, or say "
        msg += "cx.Image(value_range=(low, high))"
        raise InputError(msg)
    if whole and np.any(np.asarray(values) != np.rint(values)):
        msg = f"{what} is not a whole number, but the image is of type {picture.native.dtype} with "
        msg += f"values {picture.low:g} to {picture.high:g}"
        raise InputError(msg)
