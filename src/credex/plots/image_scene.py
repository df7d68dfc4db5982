"""What the pictures of images share: the image in grey, signed colours, borders, hatches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.domains.image.image import seen
from credex.domains.image.regions import Regions
from credex.errors import InputError
from credex.explanation_base import ExplanationBase
from credex.plots.canvas import LUMA, bare
from credex.typing import Floats, Ints, Masks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

STRONGEST, PALE = 0.8, 0.35
"""Opacity of the largest importance; and how much of it is left where the sign is uncertain."""

SIDE = 4.6
"""Inches of the longer side of the image in a figure of our own."""


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """An image and its regions, ready to be drawn.

    Attributes
    ----------
    regions
        From the explanation.
    colour
        ``(H, W, 3)`` floats between 0 and 1.
    """

    regions: Regions
    colour: Floats

    @classmethod
    def of(cls, e: ExplanationBase) -> Scene:
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
        return cls(regions, np.broadcast_to(scaled, (*scaled.shape[:2], 3)))

    @property
    def inches(self) -> tuple[float, float]:
        """Height and width in a figure of our own."""
        high, wide = self.colour.shape[:2]
        return SIDE * high / max(high, wide), SIDE * wide / max(high, wide)

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
        return Scene(regions, self.colour[rows][:, columns])

    def lines(self) -> Masks:
        """``(H, W)``: the pixel's right or lower neighbour belongs to another region."""
        labels = np.pad(self.regions.labels, ((0, 1), (0, 1)), mode="edge")
        here = labels[:-1, :-1]
        return np.asarray((here != labels[:-1, 1:]) | (here != labels[1:, :-1]))

    def heat(self, importances: Floats, peak: float, pale: Masks | None = None) -> Floats:
        """``(H, W, 3)`` the grey image under the colours of ``(d,)`` importances."""
        from matplotlib.colors import to_rgb

        share = np.clip(np.abs(importances) / (peak or 1.0), 0.0, 1.0)
        opacity = STRONGEST * np.sqrt(share)  # the root makes small importances visible
        opacity = opacity if pale is None else opacity * np.where(pale, PALE, 1.0)
        signs = np.where(
            importances[:, None] > 0, to_rgb(formatting.POSITIVE), to_rgb(formatting.NEGATIVE)
        )
        a = opacity[self.regions.labels][:, :, None]
        mixed: Floats = (1 - a) * self.grey + a * signs[self.regions.labels]
        return mixed


def colour_bar(ax: Axes, peak: float) -> None:
    """Draw a colour bar from −peak to peak."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    figure: Any = ax.figure
    scale = ScalarMappable(Normalize(-peak or -1.0, peak or 1.0), _colours())
    drawn = figure.colorbar(scale, ax=ax, shrink=0.9, pad=0.02, aspect=25)
    drawn.outline.set_visible(False)
    ticks = [float(t) for t in np.linspace(-1, 1, 5) * (peak or 1.0)]
    power = formatting.power_of(peak)
    unit = 10.0**power
    places = max(formatting.decimals(0.0, peak / unit) - 2, 0)  # two digits are enough for colours
    drawn.set_ticks(ticks, labels=[formatting.number(t / unit, places) for t in ticks])
    drawn.ax.tick_params(labelsize="small", length=0)
    words = f"lowers      importance{formatting.times(power)}      raises"
    drawn.set_label(words, fontsize="small")


def _colours() -> Colormap:
    """The colour map of the bar: blue, the middle grey of the image, orange."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    x = np.linspace(-1, 1, 65)
    a = (STRONGEST * np.sqrt(np.abs(x)))[:, None]
    ends = np.where(x[:, None] > 0, to_rgb(formatting.POSITIVE), to_rgb(formatting.NEGATIVE))
    return LinearSegmentedColormap.from_list("credex", ((1 - a) * 0.7 + a * ends).tolist())


def borders(labels: Ints) -> Floats:
    """``(m, 2, 2)`` ends of the lines between pixels of different regions, as x and y."""
    y, x = np.nonzero(labels[:, 1:] != labels[:, :-1])  # a vertical line right of (y, x)
    vertical = np.stack([x + 0.5, y - 0.5, x + 0.5, y + 0.5], axis=1)
    y, x = np.nonzero(labels[1:] != labels[:-1])  # a horizontal line below (y, x)
    horizontal = np.stack([x - 0.5, y + 0.5, x + 0.5, y + 0.5], axis=1)
    return np.concatenate([vertical, horizontal]).reshape(-1, 2, 2)


def draw_borders(ax: Axes, lines: Floats, **style: Any) -> None:
    """Draw lines that stay as thin at any zoom."""
    from matplotlib.collections import LineCollection

    ax.add_collection(LineCollection(list(lines), **style), autolim=False)


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
    ax.add_patch(PathPatch(path, facecolor="none", edgecolor=colour, lw=0.0, hatch="////"))


def image_only(ax: Axes, words: str, **style: Any) -> None:
    """Remove ticks, box and grid; write ``words`` below the image."""
    ax.set_xticks([])
    ax.set_yticks([])
    bare(ax)
    ax.set_xlabel(words, fontsize="small", loc="left", **style)


def settle(ax: Axes) -> None:
    """Lay a figure of our own out once: the first pass does not know how large the image gets."""
    figure: Any = ax.figure
    figure.draw_without_rendering()
