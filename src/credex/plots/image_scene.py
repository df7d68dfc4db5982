"""What the pictures of images share: the image in grey, signed colours, borders, hatches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.domains.image.image import seen
from credex.domains.image.picture import Picture
from credex.domains.image.regions import Regions
from credex.errors import InputError
from credex.typing import Floats, Ints, Masks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

    from credex.explanation import Explanation

LUMA = np.array([0.299, 0.587, 0.114])
"""Weights of red, green and blue in brightness."""

STRONGEST, PALE = 0.8, 0.35
"""Opacity of the largest importance; and how much of it is left where the sign is uncertain."""


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """An image and its regions, ready to be drawn.

    Attributes
    ----------
    picture, regions
        From the explanation.
    colour
        ``(H, W, 3)`` floats between 0 and 1.
    """

    picture: Picture
    regions: Regions
    colour: Floats

    @classmethod
    def of(cls, e: Explanation) -> Scene:
        """From an explanation of an image; anything else is an error."""
        if not isinstance(e.payload, dict) or e.payload.get("domain") != "image":
            msg = "this explanation is not of an image; plot.intervals() draws any explanation"
            raise InputError(msg)
        picture, regions = seen(e.payload)
        scaled = np.clip(picture.scaled(), 0.0, 1.0)
        if scaled.shape[2] not in (1, 3, 4):  # many bands: their mean
            scaled = scaled.mean(axis=2, keepdims=True)
        if scaled.shape[2] == 4:  # transparent over white
            scaled = scaled[:, :, :3] * scaled[:, :, 3:] + 1 - scaled[:, :, 3:]
        return cls(picture, regions, np.broadcast_to(scaled, (*scaled.shape[:2], 3)))

    @property
    def grey(self) -> Floats:
        """``(H, W, 3)`` the image without colour, a little flat, so that colours on it are seen."""
        brightness = self.colour @ LUMA
        return np.repeat((0.15 + 0.75 * brightness)[:, :, None], 3, axis=2)

    def scaled_to(self, high: int, wide: int) -> Scene:
        """Return the same scene in another size, each pixel a block."""
        rows = np.arange(high) * self.colour.shape[0] // high
        columns = np.arange(wide) * self.colour.shape[1] // wide
        regions = Regions(self.regions.labels[rows][:, columns], self.regions.numbers)
        return Scene(self.picture, regions, self.colour[rows][:, columns])

    def lines(self) -> Masks:
        """``(H, W)``: the pixel's right or lower neighbour belongs to another region."""
        labels = np.pad(self.regions.labels, ((0, 1), (0, 1)), mode="edge")
        here = labels[:-1, :-1]
        return np.asarray((here != labels[:-1, 1:]) | (here != labels[1:, :-1]))

    def heat(self, importances: Floats, peak: float, certain: Masks) -> Floats:
        """``(H, W, 3)`` the grey image under the colours of ``(d,)`` importances."""
        from matplotlib.colors import to_rgb

        share = np.clip(np.abs(importances) / (peak or 1.0), 0.0, 1.0)
        # The root makes small importances visible; pale where the sign is not certain.
        opacity = STRONGEST * np.sqrt(share) * np.where(certain, 1.0, PALE)
        signs = np.where(
            importances[:, None] > 0, to_rgb(formatting.POSITIVE), to_rgb(formatting.NEGATIVE)
        )
        a = opacity[self.regions.labels][:, :, None]
        mixed: Floats = (1 - a) * self.grey + a * signs[self.regions.labels]
        return mixed


def colours() -> Colormap:
    """Return the colour map of the bar: blue, the middle grey of the image, orange."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    x = np.linspace(-1, 1, 65)
    a = (STRONGEST * np.sqrt(np.abs(x)))[:, None]
    ends = np.where(x[:, None] > 0, to_rgb(formatting.POSITIVE), to_rgb(formatting.NEGATIVE))
    return LinearSegmentedColormap.from_list("credex", ((1 - a) * 0.7 + a * ends).tolist())


def borders(labels: Ints) -> Floats:
    """``(m, 2, 2)`` ends of the lines between pixels of different regions, as x and y."""
    down = np.argwhere(labels[:, 1:] != labels[:, :-1])  # a vertical line right of (y, x)
    across = np.argwhere(labels[1:] != labels[:-1])  # a horizontal line below (y, x)
    y, x = down[:, 0], down[:, 1]
    vertical = np.stack([np.stack([x + 0.5, y - 0.5], 1), np.stack([x + 0.5, y + 0.5], 1)], 1)
    y, x = across[:, 0], across[:, 1]
    level = np.stack([np.stack([x - 0.5, y + 0.5], 1), np.stack([x + 0.5, y + 0.5], 1)], 1)
    return np.concatenate([vertical, level]).astype(np.float64)


def draw_borders(ax: Axes, labels: Ints, **style: Any) -> None:
    """Draw the borders of all regions as lines that stay thin at any zoom."""
    from matplotlib.collections import LineCollection

    ax.add_collection(LineCollection(list(borders(labels)), **style), autolim=False)


def framed(labels: Ints) -> Ints:
    """Labels with one more pixel of nothing (−1) around them: outlines then close."""
    return np.pad(labels, 1, constant_values=-1)


def hatch(ax: Axes, where: Masks, colour: str) -> None:
    """Hatch the pixels ``where (H, W)`` is true."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if not where.any():
        return
    y, x = np.nonzero(where)
    # One square a pixel: exact at the borders, and the pattern runs on across them.
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5], [-0.5, -0.5]])
    squares = np.stack([x, y], axis=1)[:, None, :] + corners
    codes = np.tile([Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY], len(x))
    path = Path(squares.reshape(-1, 2), codes)
    patch = PathPatch(path, facecolor="none", edgecolor=colour, lw=0.0, hatch="////")
    ax.add_patch(patch)


def bare(ax: Axes) -> None:
    """No ticks, no box, no grid: the image is all."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_visible(False)


def settle(ax: Axes) -> None:
    """Lay a figure of our own out once: the first pass does not know how large the image gets."""
    figure: Any = ax.figure
    figure.draw_without_rendering()


def certain_of(e: Explanation, j: int, level: float) -> Masks:
    """``(d,)``: the interval does not include zero (or the importance is known exactly)."""
    i = e.belief.interval(level)
    low, high = i.lower[:, j], i.upper[:, j]
    return np.asarray(~((low <= 0) & (high >= 0) & (low < high)))


def known(e: Explanation, j: int) -> Floats:
    """``(d,)`` importances; an error if too little was asked."""
    means = e.belief.mean[:, j]
    if not np.isfinite(means).all():
        msg = "too little was asked to draw the regions; go on with refine()"
        raise InputError(msg)
    return means
