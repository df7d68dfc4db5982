"""Real photographs, 224 × 224: samples of scikit-image and scikit-learn, pictures of the ISLP book.

Only files that lie inside the wheels are read: nothing is downloaded by scikit-image itself. The
ten were chosen because EfficientNet-Lite0 says something sensible about them.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from importlib import resources

import numpy as np

from realdata.fetch import Package

__all__ = ["NAMES", "PACKAGE", "Photograph", "photograph", "photographs"]

PACKAGE = Package(
    "pypi",
    "ISLP",
    "0.6.0",
    "ca772cecca1747a2f84ee799a5503ddddbdf0e98f90c235494790c1d036c694b",
    "BSD 3-clause",
)
SIDE = 224
IMAGE, LEARN, BOOK = "skimage.data", "sklearn.datasets.images", "ISLP/data/book_images"
SOURCES = {  # name: where it lies, file
    "camera": (IMAGE, "camera.png"),
    "chelsea": (IMAGE, "chelsea.png"),
    "coffee": (IMAGE, "coffee.png"),
    "motorcycle": (IMAGE, "motorcycle_left.png"),
    "rocket": (IMAGE, "rocket.jpg"),
    "china": (LEARN, "china.jpg"),
    "flower": (LEARN, "flower.jpg"),
    "flamingo": (BOOK, "flamingo.jpg"),
    "hawk": (BOOK, "hawk.jpg"),
    "huey": (BOOK, "huey.jpg"),
}
NAMES = tuple(SOURCES)


@dataclass(frozen=True)
class Photograph:
    """One picture: its name and ``pixels (224, 224, 3)`` uint8."""

    name: str
    pixels: np.ndarray


def photograph(name: str) -> Photograph:
    """Return one of `NAMES`, its middle square scaled to 224 × 224."""
    from PIL import Image

    where, file = SOURCES[name]
    if where == BOOK:
        raw = PACKAGE.read(f"{BOOK}/{file}")
    else:
        raw = resources.files(where).joinpath(file).read_bytes()
    picture = Image.open(io.BytesIO(raw)).convert("RGB")
    side = min(picture.size)
    left, top = ((length - side) // 2 for length in picture.size)
    square = picture.crop((left, top, left + side, top + side))
    return Photograph(name, np.array(square.resize((SIDE, SIDE), Image.Resampling.BICUBIC)))


def photographs() -> list[Photograph]:
    """Return all of them."""
    return [photograph(name) for name in NAMES]
