"""Images: regions coloured by importance, the most important ones cut out, an animation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.domains.image.image import seen
from credex.domains.image.regions import Regions
from credex.errors import InputError, check_count, check_positive
from credex.explanation_base import ExplanationBase
from credex.formatting import View
from credex.plots.canvas import LUMA, PLAIN, axes, bare, sign_colour, title
from credex.typing import Floats, Ints, Masks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRONGEST, PALE = 0.8, 0.35
"""Opacity of the largest importance; and how much of it is left where the sign is uncertain."""

DIM = 0.75
"""How far regions that are not listed fade into the background."""

SIDE = 4.6
"""Inches of the longer side of the image in a figure of our own."""

FRAME = 0.12
"""Seconds of a frame of the animation; a GIF counts in hundredths."""

DPI, COLOURS = 80, 96
"""Resolution and number of colours of the animation: they decide the size of the file."""


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """An image, ``(H, W, 3)`` floats between 0 and 1, and its regions."""

    regions: Regions
    colour: Floats

    @classmethod
    def of(cls, e: ExplanationBase) -> Scene:
        """Read the image that was explained; raise if it was something else."""
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
        """``(H, W, 3)`` the image without colour, with less contrast so that colours show."""
        brightness = self.colour @ LUMA
        return np.repeat((0.15 + 0.75 * brightness)[:, :, None], 3, axis=2)

    def scaled_to(self, high: int, wide: int) -> Scene:
        """Return the scene in another size, by nearest neighbours."""
        rows = np.arange(high) * self.colour.shape[0] // high
        columns = np.arange(wide) * self.colour.shape[1] // wide
        regions = Regions(self.regions.labels[rows][:, columns], self.regions.numbers)
        return Scene(regions, self.colour[rows][:, columns])

    def heat_map(self, importances: Floats, peak: float, pale: Masks | None = None) -> Floats:
        """Return ``(H, W, 3)`` the grey image coloured by ``(d,)`` importances."""
        share = np.clip(importances / (peak or 1.0), -1.0, 1.0)
        fade = np.ones(len(share)) if pale is None else np.where(pale, PALE, 1.0)
        labels = self.regions.labels
        return _tinted(self.grey, share[labels], fade[labels])


def _tinted(grey: Floats | float, share: Floats, fade: Floats | float = 1.0) -> Floats:
    """Mix grey with orange or blue by importances as shares of the largest, −1 to 1."""
    from matplotlib.colors import to_rgb

    opacity = (STRONGEST * np.sqrt(np.abs(share)) * fade)[..., None]  # small ones stay visible
    up, down = to_rgb(formatting.POSITIVE), to_rgb(formatting.NEGATIVE)
    return np.asarray((1 - opacity) * grey + opacity * np.where(share[..., None] > 0, up, down))


# -- plots -------------------------------------------------------------------------------------


def overlay(e: ExplanationBase, output: Any, level: float | None, ax: Axes | None) -> Axes:
    """Draw the image coloured by importance; see `credex.plots.Plots.overlay`."""
    view, scene = View.of(e, output, level), Scene.of(e)
    view.check_known("draw the regions")
    own_figure = ax is None
    high, wide = scene.inches
    wide = max(wide, 3.2)
    ax, room, _ = axes(ax, wide + 1.7, high + 1.25)
    n, d = int(view.unclear.sum()), len(view.mean)
    labels = scene.regions.labels
    ax.imshow(scene.heat_map(view.mean, view.peak, view.unclear), interpolation="nearest")
    _draw_lines(ax, borders(labels), colors="white", linewidths=0.6, alpha=0.55)
    _hatch(ax, view.unclear[labels])
    title(ax, wide + 1.2 if own_figure else room, e, view.output)
    percent = formatting.percent(view.level)
    words = "exact" if e.exact else f"no {percent} interval includes zero"
    if n:
        words = f"hatched: the {percent} interval includes zero ({n} of {d})"
    _image_only(ax, f"{words}\n{d} regions · {e.n_queries:,} queries", alpha=0.85)
    if own_figure:
        _colour_bar(ax, view.peak)
        _lay_out(ax)
    return ax


def regions(
    e: ExplanationBase, k: int, output: Any, level: float | None, ax: Axes | None, *, signed: bool
) -> Axes:
    """Draw the largest regions; see `credex.plots.Plots.regions`."""
    from matplotlib.colors import to_rgb

    view, scene = View.of(e, output, level), Scene.of(e)
    view.check_known("draw the regions")
    order = np.argsort(-(view.mean if signed else np.abs(view.mean)), kind="stable")
    chosen = [int(i) for i in order if e.selected[i, view.output]]
    chosen = [i for i in chosen if view.mean[i] > 0 or not signed][: check_count("k", k)]
    own_figure = ax is None
    high, wide = scene.inches
    wide = max(wide, 3.6)
    ax, room, _ = axes(ax, wide + 0.4, high + 0.85 + 0.19 * len(chosen))

    labels = scene.regions.labels
    faint = (1 - DIM) * scene.grey + DIM * np.array(to_rgb(ax.get_facecolor()))
    kept = np.isin(labels, chosen)[:, :, None]
    ax.imshow(np.where(kept, scene.colour, faint), interpolation="nearest")
    padded = np.pad(labels, 1, constant_values=-1)  # outlines close at the edge of the image
    for rank, i in enumerate(chosen, start=1):
        colour = sign_colour(view.mean[i])
        lines = borders((padded == i).astype(np.int64)) - 1.0
        style = {"linestyles": [(0, (2, 1.5)) if view.unclear[i] else "solid"], "capstyle": "round"}
        _draw_lines(ax, lines, colors="white", linewidths=3.6, **style)
        _draw_lines(ax, lines, colors=colour, linewidths=1.8, **style)
        x, y = _inside(labels == i)
        box = {"boxstyle": "circle,pad=0.25", "fc": colour, "ec": "white", "lw": 0.8}
        ax.text(x, y, str(rank), color="white", ha="center", va="center", size="small", bbox=box)
    title(ax, wide if own_figure else room, e, view.output)
    rows, power = formatting.table(e, view, chosen)
    listed = [f"importance{formatting.times(power)} and {formatting.percent(view.level)} interval"]
    for rank, r in enumerate(rows, start=1):
        between = f"  ({r.interval})" if r.lower else ", exact"
        listed.append(f"{rank}  {r.feature}: {r.estimate}{between}")
    _image_only(ax, "\n".join(listed), **PLAIN)
    if own_figure:
        _lay_out(ax)
    return ax


def posterior_gif(
    e: ExplanationBase, path: str | Path, *, draws: int, seconds: float, output: Any, seed: int
) -> Path:
    """Write the animation; see `credex.plots.Plots.posterior_gif`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    view, path = View.of(e, output), Path(path)
    if path.suffix.lower() != ".gif":
        msg = f"posterior_gif writes a GIF; call the file {path.with_suffix('.gif')}, not {path}"
        raise InputError(msg)
    scene = Scene.of(e)
    view.check_known("draw the regions")
    n_frames = max(round(check_positive("seconds", seconds) / FRAME), 2)
    importances = walk(e, view.output, check_count("draws", draws), n_frames, seed)
    peak = float(np.abs(importances).max())

    high, wide = scene.inches
    wide = max(wide, 3.2) + 1.7
    figure = Figure(figsize=(wide, high + 1.25), dpi=DPI, layout="constrained")  # not pyplot's
    canvas: Any = FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    ax.imshow(scene.grey)
    title(ax, wide - 0.5, e, view.output)
    words = "every frame is a draw from the posterior:\nwhat keeps its colour is certain"
    _image_only(ax, words, alpha=0.85)
    _colour_bar(ax, peak)
    _lay_out(ax)
    canvas.draw()
    sheet = np.array(np.asarray(canvas.buffer_rgba())[:, :, :3])
    # Only the pixels of the image change; drawing the whole figure for each frame is slow.
    box = ax.get_window_extent()
    left, right = math.floor(box.x0), math.ceil(box.x1)
    top, bottom = len(sheet) - math.ceil(box.y1), len(sheet) - math.floor(box.y0)
    large = scene.scaled_to(bottom - top, right - left)
    labels = np.pad(large.regions.labels, ((0, 1), (0, 1)), mode="edge")
    here = labels[:-1, :-1]
    lines = ((here != labels[:-1, 1:]) | (here != labels[1:, :-1]))[:, :, None]
    frames = []
    for values in importances:
        heat = large.heat_map(values, peak)
        heat = np.where(lines, 0.5 * heat + 0.5, heat)
        sheet[top:bottom, left:right] = np.rint(255 * heat)
        frames.append(Image.fromarray(sheet.copy()))
    # One palette and no dithering: pixels that do not change take no space in the file.
    sampled = np.concatenate([np.asarray(f) for f in frames[:: max(n_frames // 6, 1)]])
    palette = Image.fromarray(sampled).quantize(COLOURS)
    pictures = [f.quantize(palette=palette, dither=Image.Dither.NONE) for f in frames]
    pictures[0].save(
        path, save_all=True, append_images=pictures[1:], duration=round(1000 * FRAME), loop=0
    )
    return path


def walk(e: ExplanationBase, output: int, draws: int, n_frames: int, seed: int) -> Floats:
    """``(n_frames, d)`` importances on a closed walk through ``draws`` draws of the posterior.

    Between two draws a and b the deviation from the mean is a·cos t + b·sin t: for independent
    normal draws every point of the walk has the distribution of the posterior itself.
    """
    mean = e.belief.mean[:, output]
    away = e.belief.sample(draws, seed)[:, :, output] - mean
    place = np.arange(n_frames) * draws / n_frames
    first = place.astype(np.int64)
    t = ((place - first) * np.pi / 2)[:, None]
    between = away[first] * np.cos(t) + away[(first + 1) % draws] * np.sin(t)
    return np.asarray(mean + (between if draws > 1 else away[first]))


# -- parts of the plots ------------------------------------------------------------------------


def _colour_bar(ax: Axes, peak: float) -> None:
    """Draw a colour bar from −peak to peak."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    figure: Any = ax.figure
    colours = _tinted(0.7, np.linspace(-1, 1, 65)).tolist()
    scale = Normalize(-peak or -1.0, peak or 1.0)
    mapped = ScalarMappable(scale, LinearSegmentedColormap.from_list("credex", colours))
    drawn = figure.colorbar(mapped, ax=ax, shrink=0.9, pad=0.02, aspect=25)
    drawn.outline.set_visible(False)
    ticks = [float(t) for t in np.linspace(-1, 1, 5) * (peak or 1.0)]
    power = formatting.power_of(peak)
    unit = 10.0**power
    places = max(formatting.decimals(0.0, peak / unit) - 2, 0)  # two digits are enough for colours
    drawn.set_ticks(ticks, labels=[formatting.number(t / unit, places) for t in ticks])
    drawn.ax.tick_params(labelsize="small", length=0)
    words = f"lowers      importance{formatting.times(power)}      raises"
    drawn.set_label(words, fontsize="small")


def borders(labels: Ints) -> Floats:
    """``(m, 2, 2)`` ends of the lines between pixels of different regions, as x and y."""
    y, x = np.nonzero(labels[:, 1:] != labels[:, :-1])  # a vertical line right of (y, x)
    vertical = np.stack([x + 0.5, y - 0.5, x + 0.5, y + 0.5], axis=1)
    y, x = np.nonzero(labels[1:] != labels[:-1])  # a horizontal line below (y, x)
    horizontal = np.stack([x - 0.5, y + 0.5, x + 0.5, y + 0.5], axis=1)
    return np.concatenate([vertical, horizontal]).reshape(-1, 2, 2)


def _draw_lines(ax: Axes, lines: Floats, **style: Any) -> None:
    """Draw lines whose width does not depend on the zoom."""
    from matplotlib.collections import LineCollection

    ax.add_collection(LineCollection(list(lines), **style), autolim=False)


def _hatch(ax: Axes, where: Masks) -> None:
    """Hatch the pixels where ``(H, W)`` is true."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if not where.any():
        return
    y, x = np.nonzero(where)
    # One square a pixel: exact at the borders, and the pattern continues across them.
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5], [-0.5, -0.5]])
    squares = np.stack([x, y], axis=1)[:, None, :] + corners
    codes = np.tile([Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY], len(x))
    path = Path(squares.reshape(-1, 2), codes)
    patch = PathPatch(path, facecolor="none", edgecolor="#ffffff70", lw=0.0, hatch="////")
    ax.add_artist(patch)  # add_patch() would follow all squares to find the limits: seconds


def _inside(where: Masks) -> tuple[float, float]:
    """Return the point (x, y) of a region farthest from its border."""
    from scipy.ndimage import distance_transform_edt

    depth = np.asarray(distance_transform_edt(np.pad(where, 1)))[1:-1, 1:-1]
    y, x = np.unravel_index(int(depth.argmax()), depth.shape)
    return float(x), float(y)


def _image_only(ax: Axes, words: str, **style: Any) -> None:
    """Remove ticks, box and grid; write ``words`` below the image."""
    ax.set_xticks([])
    ax.set_yticks([])
    bare(ax)
    ax.set_xlabel(words, fontsize="small", loc="left", **style)


def _lay_out(ax: Axes) -> None:
    """Run the layout once: the first pass does not know how large the image gets."""
    figure: Any = ax.figure
    figure.draw_without_rendering()
