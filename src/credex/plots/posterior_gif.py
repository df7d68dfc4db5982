"""An animation that wanders through the posterior of an image's regions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from credex import formatting
from credex.checks import check_count, check_positive
from credex.errors import InputError
from credex.explanation_base import ExplanationBase
from credex.plots.canvas import View, title
from credex.plots.image_scene import Scene, colour_bar, image_only, settle
from credex.typing import Floats

FRAME = 0.12
"""Seconds of a frame; a GIF counts in hundredths."""

DPI, COLOURS = 80, 96
"""Dots an inch, and colours: a GIF grows fast."""


def posterior_gif(
    e: ExplanationBase, path: str | Path, *, draws: int, seconds: float, output: Any, seed: int
) -> Path:
    """Write the animation; see `credex.plots.Plots.posterior_gif`."""
    from PIL import Image

    view, path = View.of(e, output), Path(path)
    if path.suffix.lower() != ".gif":
        msg = f"posterior_gif writes a GIF; call the file {path.with_suffix('.gif')}, not {path}"
        raise InputError(msg)
    scene = Scene.of(e)
    view.check_known("draw the regions")
    frames = max(round(check_positive("seconds", seconds) / FRAME), 2)
    importances = walk(e, view.output, check_count("draws", draws), frames, seed)
    peak = float(np.abs(importances).max())
    sheet, (top, left, high, wide) = _sheet(e, view.output, scene, peak)
    large = scene.scaled_to(high, wide)
    lines = large.lines()[:, :, None]
    drawn = []
    for values in importances:
        heat = large.heat(values, peak)
        heat = np.where(lines, 0.5 * heat + 0.5, heat)
        sheet[top : top + high, left : left + wide] = np.rint(255 * heat)
        drawn.append(Image.fromarray(sheet.copy()))
    # One palette for all frames, no dithering: what does not change costs nothing.
    sampled = np.concatenate([np.asarray(f) for f in drawn[:: max(frames // 6, 1)]])
    palette = Image.fromarray(sampled).quantize(COLOURS)
    pictures = [f.quantize(palette=palette, dither=Image.Dither.NONE) for f in drawn]
    pictures[0].save(
        path, save_all=True, append_images=pictures[1:], duration=round(1000 * FRAME), loop=0
    )
    return path


def _sheet(e: ExplanationBase, j: int, scene: Scene, peak: float) -> tuple[Any, tuple[int, ...]]:
    """Return what stays (title, colour bar) as RGB bytes; and top, left, height, width inside."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    high, wide = scene.inches
    wide = max(wide, 3.2) + 1.7
    figure = Figure(figsize=(wide, high + 1.25), dpi=DPI, layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    ax.imshow(scene.grey, interpolation="nearest")
    title(ax, wide - 0.5, f"{e.method}: {formatting.prediction(e, j)[0]}")
    words = "every frame is a draw from the posterior:\nwhat keeps its colour is certain"
    image_only(ax, words, alpha=0.85)
    colour_bar(ax, peak)
    settle(ax)
    canvas.draw()
    sheet = np.array(np.asarray(canvas.buffer_rgba())[:, :, :3])
    box = ax.get_window_extent()
    left, right = math.floor(box.x0), math.ceil(box.x1)
    top, bottom = len(sheet) - math.ceil(box.y1), len(sheet) - math.floor(box.y0)
    return sheet, (top, left, bottom - top, right - left)


def walk(e: ExplanationBase, j: int, draws: int, frames: int, seed: int) -> Floats:
    """``(frames, d)`` importances on a closed walk through ``draws`` draws of the posterior.

    Between two draws a and b the deviation from the mean is a·cos t + b·sin t: for independent
    normal draws every point of the walk has the distribution of the posterior itself.
    """
    mean = e.belief.mean[:, j]
    away = e.belief.sample(draws, seed)[:, :, j] - mean
    place = np.arange(frames) * draws / frames
    first = place.astype(np.int64)
    t = ((place - first) * np.pi / 2)[:, None]
    between = away[first] * np.cos(t) + away[(first + 1) % draws] * np.sin(t)
    walked: Floats = mean + (between if draws > 1 else away[first])
    return walked
