"""How a picture is cut into regions: segmenters, and the check of what they return.

A segmenter is called with ``(H, W, C)`` float64 pixels between 0 and 1 and returns ``(H, W)`` whole
numbers: pixels with the same number are one region. A function of your own will do as well.
"""

from __future__ import annotations

import operator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from credex.domains.image.picture import Picture
from credex.domains.masked import unmasked
from credex.errors import InputError, MissingExtraError, check_count, check_positive
from credex.typing import Floats, Ints

__all__ = ["Felzenszwalb", "Grid", "Quickshift", "Regions", "Slic", "cut"]

MAX_REGIONS = 4_096
"""With more regions than this, a picture was almost surely passed instead of its labels."""

SLIC_TRIES, SLIC_TOLERANCE = 6, 0.1
"""SLIC merges small regions and returns fewer than requested: repeat until within 10 %."""


@dataclass(frozen=True, slots=True)
class Slic:
    """Superpixels by SLIC: about ``n`` compact regions of similar colour.

    Parameters
    ----------
    n
        About how many regions.
    compactness
        Larger: squarer regions; smaller: they follow colours. ``None``: 10 for colour pictures, 0.1
        for others (scikit-image measures colours in Lab, grey values between 0 and 1).
    sigma
        Width of the blur before cutting, in pixels.

    Examples
    --------
    >>> import credex as cx
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).random((32, 32, 3))
    >>> cx.Image(segments=cx.Slic(9)).at(picture).names[:2]
    ('region 0', 'region 1')
    """

    n: int = 20
    compactness: float | None = None
    sigma: float = 0.0

    def __post_init__(self) -> None:
        check_count("Slic(n)", self.n)
        if self.compactness is not None:
            check_positive("compactness", self.compactness)

    def __call__(self, image: Floats) -> Any:
        """Cut the picture."""
        colour = image.shape[2] in (3, 4)
        options = {
            "compactness": self.compactness or (10.0 if colour else 0.1),
            "sigma": self.sigma,
            "convert2lab": colour,
            "start_label": 0,
        }
        tries: list[tuple[int, Any]] = []
        asked, too_few, too_many = float(self.n), 0.0, np.inf
        for _ in range(SLIC_TRIES):
            labels = _skimage("slic", image, n_segments=max(round(asked), 1), **options)
            found = int(labels.max()) + 1
            tries.append((abs(found - self.n), labels))
            if abs(found - self.n) <= SLIC_TOLERANCE * self.n:
                break
            if found < self.n:
                too_few = max(too_few, asked)
            else:
                too_many = min(too_many, asked)
            if too_few > 0 and np.isfinite(too_many):
                asked = float(np.sqrt(too_few * too_many))
            else:
                asked = min(asked * self.n / found, MAX_REGIONS)
        return min(tries, key=operator.itemgetter(0))[1]


@dataclass(frozen=True, slots=True)
class Quickshift:
    """Regions by quickshift; the defaults are those of lime.

    Parameters
    ----------
    kernel_size
        Width of the density's kernel: larger means fewer regions.
    max_dist
        Largest distance within a region: larger means fewer regions.
    ratio
        Weight of colour against place, between 0 and 1.
    seed
        Seed that breaks ties.
    """

    kernel_size: float = 4.0
    max_dist: float = 200.0
    ratio: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("kernel_size", self.kernel_size)
        check_positive("max_dist", self.max_dist)

    def __call__(self, image: Floats) -> Any:
        """Cut the picture."""
        options = asdict(self)
        rng, colour = options.pop("seed"), image.shape[2] in (3, 4)
        return _skimage("quickshift", image, rng=rng, convert2lab=colour, **options)


@dataclass(frozen=True, slots=True)
class Felzenszwalb:
    """Regions by Felzenszwalb and Huttenlocher's graph: of very different sizes, along edges.

    Parameters
    ----------
    scale
        Larger means larger regions.
    sigma
        Width of the blur before cutting, in pixels.
    min_size
        Smallest region, in pixels.
    """

    scale: float = 100.0
    sigma: float = 0.8
    min_size: int = 50

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        check_count("min_size", self.min_size)

    def __call__(self, image: Floats) -> Any:
        """Cut the picture."""
        return _skimage("felzenszwalb", image, **asdict(self))


@dataclass(frozen=True, slots=True)
class Grid:
    """A regular grid of ``rows`` × ``columns`` rectangles, numbered row by row.

    Examples
    --------
    >>> import numpy as np
    >>> Grid(2, 2)(np.zeros((2, 4, 1)))
    array([[0, 0, 1, 1],
           [2, 2, 3, 3]])
    """

    rows: int
    columns: int

    def __post_init__(self) -> None:
        check_count("Grid(rows)", self.rows)
        check_count("Grid(columns)", self.columns)

    def __call__(self, image: Floats) -> Ints:
        """Cut the picture."""
        height, width = image.shape[:2]
        if self.rows > height or self.columns > width:
            raise InputError(f"{self!r} has more cells than an image of {height} × {width} pixels")
        down = np.arange(height) * self.rows // height
        across = np.arange(width) * self.columns // width
        return np.asarray(down[:, None] * self.columns + across, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """``labels (H, W)`` numbers 0 … d − 1, and the d numbers that the segmenter used."""

    labels: Ints
    numbers: tuple[int, ...]

    @property
    def d(self) -> int:
        """Number of regions."""
        return len(self.numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """``region 7`` and so on, by the segmenter's own numbers."""
        return tuple(f"region {n}" for n in self.numbers)

    def positions(self) -> tuple[str, ...]:
        """Where each region lies and how large it is, such as ``top left, 6 %``."""
        flat = self.labels.ravel()
        pixels = np.bincount(flat, minlength=self.d)
        thirds = []  # 0, 1 or 2 of each region's centre, down and across
        for index, n in zip(np.indices(self.labels.shape), self.labels.shape, strict=True):
            centre = np.bincount(flat, index.ravel(), self.d) / pixels / max(n - 1, 1)
            thirds.append((centre >= 1 / 3).astype(int) + (centre > 2 / 3))
        out = []
        for v, h, share in zip(*thirds, pixels / flat.size, strict=True):
            where = f"{('top', '', 'bottom')[v]} {('left', '', 'right')[h]}".strip() or "middle"
            out.append(f"{where}, {'<1' if share < 0.01 else f'{100 * share:.0f}'} %")
        return tuple(out)


def cut(picture: Picture, segments: Any) -> Regions:
    """Cut a picture with a segmenter, or with ``(H, W)`` labels, and check the result."""
    if callable(segments):
        source = getattr(segments, "__name__", type(segments).__name__)
        labels = unmasked(segments(picture.scaled()), source)
    else:
        source, labels = "segments=", unmasked(segments, "segments=")
    if labels.ndim == 3 and 1 in (labels.shape[0], labels.shape[2]):  # the one channel of an image
        labels = labels[:, :, 0] if labels.shape[2] == 1 else labels[0]
    if labels.shape != picture.size:
        high, wide = picture.size
        msg = f"{source} gave labels of shape {labels.shape} for an image of {high} × {wide} "
        msg += f"pixels; ({high}, {wide}) is needed"
        raise InputError(msg)
    if labels.dtype.kind not in "iub":
        raise InputError(f"{source} gave labels of type {labels.dtype}; whole numbers are needed")
    numbers, index = np.unique(labels, return_inverse=True)
    if len(numbers) < 2:
        msg = "segments= has the same label everywhere; at least two regions are needed"
        if callable(segments):
            msg = f"{source} cut the image into one region ({segments!r}); at least two are "
            msg += "needed: ask for more, or pass labels of your own"
        raise InputError(msg)
    if len(numbers) > MAX_REGIONS:
        msg = f"{source} cut the image into {len(numbers):,} regions; at most {MAX_REGIONS:,} are "
        msg += "accepted: ask for fewer (is this an image instead of its labels?)"
        raise InputError(msg)
    return Regions(index.reshape(labels.shape).astype(np.int64), tuple(int(n) for n in numbers))


def _skimage(function: str, image: Floats, **options: Any) -> Any:
    """Call a segmenter of scikit-image on a picture, without its transparency."""
    try:
        from skimage import segmentation
    except ImportError:
        msg = f"cx.{function.capitalize()} needs scikit-image: pip install 'credex[image]'"
        raise MissingExtraError(msg) from None
    opaque = image[:, :, :3] if image.shape[2] == 4 else image
    return getattr(segmentation, function)(opaque, channel_axis=-1, **options)
