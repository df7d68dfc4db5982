"""How a picture is cut into regions: strategies, and the check of what they return.

A segmenter is called with ``(H, W, C)`` float64 pixels between 0 and 1 and returns ``(H, W)`` whole
numbers: pixels with the same number are one region. A function of your own will do as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.checks import check_count, check_positive
from credex.domains.image.picture import Picture, image_extra
from credex.errors import InputError
from credex.typing import Floats, Ints

__all__ = ["Felzenszwalb", "Grid", "Quickshift", "Regions", "Segmenter", "Slic", "cut"]

Segmenter = Callable[[Floats], Any]
"""``(H, W, C)`` floats between 0 and 1 to ``(H, W)`` whole numbers."""

MOST = 4_096
"""Most regions that are accepted: more is almost surely a picture passed for its segmentation."""

TRIES, CLOSE = 6, 0.1
"""SLIC merges small regions and returns fewer than asked for: ask again until this close."""


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
        segmentation = _skimage("Slic")
        image = _opaque(image)
        colour = image.shape[2] == 3
        compactness = self.compactness or (10.0 if colour else 0.1)
        best: Any = None
        asked, few, many = float(self.n), 0.0, np.inf  # few gave too few, many gave too many
        for _ in range(TRIES):
            labels = segmentation.slic(
                image,
                n_segments=max(round(asked), 1),
                compactness=compactness,
                sigma=self.sigma,
                convert2lab=colour,
                channel_axis=-1,
                start_label=0,
            )
            found = int(labels.max()) + 1
            if best is None or abs(found - self.n) < abs(int(best.max()) + 1 - self.n):
                best = labels
            if abs(found - self.n) <= CLOSE * self.n:
                break
            few, many = (max(few, asked), many) if found < self.n else (few, min(many, asked))
            between = few > 0 and np.isfinite(many)
            asked = float(np.sqrt(few * many)) if between else min(asked * self.n / found, MOST)
        return best


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
        For ties.
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
        segmentation = _skimage("Quickshift")
        image = _opaque(image)
        colour = image.shape[2] == 3
        return segmentation.quickshift(
            image,
            ratio=self.ratio,
            kernel_size=self.kernel_size,
            max_dist=self.max_dist,
            convert2lab=colour,
            rng=self.seed,
            channel_axis=-1,
        )


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
        segmentation = _skimage("Felzenszwalb")
        return segmentation.felzenszwalb(
            _opaque(image),
            scale=self.scale,
            sigma=self.sigma,
            min_size=self.min_size,
            channel_axis=-1,
        )


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
            msg = f"Grid({self.rows}, {self.columns}) has more cells than an image of "
            msg += f"{height} × {width} pixels"
            raise InputError(msg)
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
        """How many."""
        return len(self.numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """``region 7`` and so on, by the segmenter's own numbers."""
        return tuple(f"region {n}" for n in self.numbers)

    def places(self) -> tuple[str, ...]:
        """Where each region lies and how large it is, such as ``top left, 6 %``."""
        height, width = self.labels.shape
        flat = self.labels.ravel()
        pixels = np.bincount(flat, minlength=self.d)
        rows, columns = np.divmod(np.arange(flat.size), width)
        down = np.bincount(flat, rows, self.d) / pixels / max(height - 1, 1)
        across = np.bincount(flat, columns, self.d) / pixels / max(width - 1, 1)
        return tuple(
            f"{_where(float(v), float(u))}, {_percent(share)}"
            for v, u, share in zip(down, across, pixels / flat.size, strict=True)
        )


def cut(picture: Picture, segments: Any) -> Regions:
    """Cut a picture with a segmenter, or with ``(H, W)`` labels, and check the result."""
    if callable(segments):
        raw, source = segments(picture.scaled()), type(segments).__name__
        source = getattr(segments, "__name__", source)
    else:
        raw, source = segments, "segments="
    labels = np.asarray(raw)
    if labels.ndim == 3 and 1 in (labels.shape[0], labels.shape[2]):
        labels = labels.reshape([n for i, n in enumerate(labels.shape) if not _drop(labels, i)])
    if labels.shape != picture.size:
        high, wide = picture.size
        msg = f"{source} gave labels of shape {labels.shape} for an image of {high} × {wide} "
        msg += f"pixels; ({high}, {wide}) is needed"
        raise InputError(msg)
    if labels.dtype.kind not in "iub":
        msg = f"{source} gave labels of type {labels.dtype}; whole numbers are needed"
        raise InputError(msg)
    return _numbered(labels, source, segments)


def _numbered(labels: NDArray[Any], source: str, segments: Any) -> Regions:
    numbers, positions = np.unique(labels, return_inverse=True)
    if len(numbers) < 2:
        msg = f"{source} cut the image into one region ({segments!r}); at least two are needed: "
        msg += "ask for more, or pass labels of your own"
        if not callable(segments):
            msg = "segments= has the same label everywhere; at least two regions are needed"
        raise InputError(msg)
    if len(numbers) > MOST:
        msg = f"{source} cut the image into {len(numbers):,} regions; at most {MOST:,} are "
        msg += "accepted: ask for fewer (is this an image instead of its labels?)"
        raise InputError(msg)
    return Regions(positions.reshape(labels.shape).astype(np.int64), tuple(int(n) for n in numbers))


def _drop(labels: NDArray[Any], axis: int) -> bool:
    """Whether this axis is the one channel of a label image: the last one wins."""
    return axis == (2 if labels.shape[2] == 1 else 0)


def _opaque(image: Floats) -> Floats:
    """Red, green and blue of a picture with transparency."""
    return image[:, :, :3] if image.shape[2] == 4 else image


def _skimage(what: str) -> Any:
    try:
        from skimage import segmentation
    except ImportError:
        raise image_extra("scikit-image", f"cx.{what}") from None
    return segmentation


def _where(down: float, across: float) -> str:
    v = "top" if down < 1 / 3 else "bottom" if down > 2 / 3 else ""
    h = "left" if across < 1 / 3 else "right" if across > 2 / 3 else ""
    return f"{v} {h}".strip() or "middle"


def _percent(share: float) -> str:
    return "<1 %" if share < 0.01 else f"{100 * share:.0f} %"
