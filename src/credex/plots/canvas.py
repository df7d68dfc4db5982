"""What all plots share: axes of the right size, titles and labels that fit, marks of intervals."""

from __future__ import annotations

import textwrap
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting
from credex.errors import InputError
from credex.explanation_base import ExplanationBase
from credex.options import LINKS
from credex.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LABEL = 30
"""Longest label, in columns of text, of a figure of our own."""

ROOM = 4.0
"""Inches to the right of the labels in a figure of our own."""

LUMA = np.array([0.299, 0.587, 0.114])
"""Weights of red, green and blue in brightness."""

PLAIN: dict[str, Any] = {"parse_math": False}
"""For names given by the user: a dollar sign does not begin a formula."""

PALE = 0.55
"""Opacity of intervals that include zero."""

BAR = 6.0
"""Height of a 50 % interval in points; the stroke at the mean is twice as high."""

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's colours, for up to six features beside each other."""


ON_DARK = ("#f0914e", "#56b4e9")
"""A light orange and Okabe and Ito's sky blue, for areas on dark backgrounds."""


def sign_colour(mean: float) -> str:
    """Orange for what raises the prediction, blue for what lowers it."""
    return formatting.POSITIVE if mean > 0 else formatting.NEGATIVE


def is_dark(ax: Axes) -> bool:
    """Say whether the axes have a dark background."""
    from matplotlib.colors import to_rgba

    return bool(np.array(to_rgba(ax.get_facecolor())[:3]) @ LUMA < 0.5)


def shades(ax: Axes) -> tuple[str, str]:
    """Colours for areas, of what raises and what lowers: light ones on a dark background."""
    return ON_DARK if is_dark(ax) else (formatting.POSITIVE, formatting.NEGATIVE)


def ink() -> Any:
    """Colour of the current style's text."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def axes(ax: Axes | None, width: float, height: float) -> tuple[Axes, float, int]:
    """Return axes, the inches there are for titles, and the columns there are for labels.

    Without ``ax`` these are axes of a new figure; its size in inches is for letters of 10 points.
    """
    from matplotlib.axes import Axes

    if ax is None:
        from matplotlib import pyplot as plt

        high = height * points("medium") / 10
        return plt.subplots(figsize=(width, high), layout="constrained")[1], ROOM, MAX_LABEL
    if not isinstance(ax, Axes):
        msg = f"ax must be matplotlib Axes, for example of plt.subplots(); got {type(ax).__name__}"
        raise InputError(msg)
    inches = _cell_width(ax)
    return ax, 0.56 * inches, columns(0.38 * inches, "medium")


def label(e: ExplanationBase, i: int, max_columns: int) -> str:
    """Return ``age = 41`` (BayesLIME: ``29 < age ≤ 41``) in at most ``max_columns``."""
    name, value = formatting.feature(e, i)
    if e.method == "BayesLIME" or not value:
        return drawable(formatting.shorten(name, max_columns))
    left = max_columns - 3
    value = formatting.shorten(value, max(max_columns * 2 // 5, left - formatting.columns(name)))
    name = formatting.shorten(name, left - formatting.columns(value))
    return drawable(f"{name} = {value}")


def drawable(text: str) -> str:
    """Replace characters that the current font does not have by ▯, as matplotlib would, quietly."""
    from matplotlib import rcParams

    known = _glyphs(tuple(rcParams["font.family"]), tuple(rcParams["font.sans-serif"]))
    return "".join(c if ord(c) in known else "▯" for c in text)


@lru_cache(maxsize=8)
def _glyphs(families: tuple[str, ...], sans: tuple[str, ...]) -> frozenset[int]:
    """Return the characters of the fonts of the current style; ``sans`` is part of that style."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    del sans
    fonts = [get_font(findfont(FontProperties(family=[f]))) for f in families]
    return frozenset(c for font in fonts for c in font.get_charmap())


def _cell_width(ax: Axes) -> float:
    """Return the width in inches that the axes and their labels share."""
    figure: Any = ax.figure
    share, spec = ax.get_position().width, ax.get_subplotspec()
    if spec is not None:
        ratios = np.asarray(spec.get_gridspec().get_width_ratios(), dtype=float)
        share = float(ratios[list(spec.colspan)].sum() / ratios.sum())
    return float(share * figure.bbox.width / figure.dpi)


def columns(inches: float, size: str) -> int:
    """Return about how many columns of text of a font size (``"small"``, …) fit."""
    return max(int(72 * inches / (0.55 * points(size))), 16)


def points(size: str | float) -> float:
    """Return a font size in points, in the current style."""
    from matplotlib.font_manager import FontProperties

    return FontProperties(size=size).get_size_in_points()


def title(ax: Axes, inches: float, e: ExplanationBase, output: int, *more: str) -> None:
    """Write method, prediction and ``more`` lines above the axes, flush left."""
    heading(ax, inches, f"{e.method}: {formatting.prediction(e, output)[0]}", *more)


def heading(ax: Axes, inches: float, *lines: str) -> None:
    """Write lines above the axes, flush left, wrapped to the inches there are."""
    wrapped = (textwrap.fill(drawable(line), columns(inches, "medium")) for line in lines)
    drawn = ax.set_title("\n".join(wrapped), loc="left", fontsize="medium", linespacing=1.4)
    drawn.set_parse_math(False)


def caption(ax: Axes, inches: float, label: str, *more: str) -> None:
    """Write the label of the horizontal axis and, in smaller type below it, ``more`` lines.

    Empty lines are left out.
    """
    lines = [textwrap.fill(drawable(line), columns(inches, "small")) for line in more if line]
    words = textwrap.fill(drawable(label), columns(inches, "medium"))
    below = "\n".join(lines)
    gap = "\n" * (below.count("\n") + 1) if below else ""  # the label keeps the place free
    ax.set_xlabel(words + gap, **PLAIN)
    if below:
        ax.annotate(
            below,
            xy=(0.0, 0.0),
            xycoords=("axes fraction", ax.xaxis.label),
            va="bottom",
            fontsize="small",
            alpha=0.75,
            annotation_clip=False,
            in_layout=False,
            **PLAIN,
        )


def unit(e: ExplanationBase) -> str:
    """Say what an importance is a change of."""
    words = "change of the prediction" + LINKS[e.settings.get("link", "identity")]
    if e.method == "BayesLIME":
        words += ", " + " or ".join(dict.fromkeys(e.units))
    return words


def row_labels(ax: Axes, names: list[str]) -> None:
    """Write names beside the rows 0, 1, …, in smaller letters if the axes are low."""
    from matplotlib import rcParams

    figure: Any = ax.figure
    share, spec = ax.get_position().height, ax.get_subplotspec()
    if spec is not None:
        ratios = np.asarray(spec.get_gridspec().get_height_ratios(), dtype=float)
        share = float(ratios[list(spec.rowspan)].sum() / ratios.sum())
    inches = share * figure.bbox.height / figure.dpi
    inches = max(inches - 2.1, 0.45 * inches)  # title and caption take the rest
    usual = points(rcParams["ytick.labelsize"])
    size = min(max(72 * inches / (1.25 * len(names)), 5.0), usual)
    ax.set_yticks(range(len(names)), names, fontsize=size, **PLAIN)


def bare(ax: Axes) -> None:
    """Remove grid, box and tick marks."""
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def mark(
    ax: Axes,
    y: float,
    mean: float,
    thin: tuple[float, float],
    thick: tuple[float, float] | None,
    *,
    colour: str,
    unclear: bool,
) -> None:
    """Draw an interval: thin line, thick 50 % bar, a stroke at the mean that hides neither.

    ``unclear``: pale, with a hollow bar. A value known exactly is a diamond.
    """
    from matplotlib.transforms import offset_copy

    if thin[0] == thin[1]:
        ax.plot([mean], [y], marker="D", ms=5.5, ls="", mec=colour, mfc=colour, zorder=3)
        return
    style: dict[str, Any] = {"color": colour, "alpha": PALE if unclear else 1.0, "zorder": 2}
    a, b = thick or (mean, mean)
    ax.plot([thin[0], a, np.nan, b, thin[1]], [y] * 5, lw=1.5, marker="", ls="-", **style)
    if thick is not None and unclear:  # a box of lines needs no colour of the background
        figure: Any = ax.get_figure()  # a part of a figure has its scale, too
        for side in (-1, 1):
            up = offset_copy(ax.transData, figure, y=side * BAR / 2, units="points")
            ax.plot([a, b], [y, y], lw=1.2, marker="", ls="-", transform=up, **style)
        ax.plot([a, b], [y, y], marker="|", ms=BAR, mew=1.2, ls="", **style)
    elif thick is not None:
        ax.plot([a, b], [y, y], lw=BAR, marker="", ls="-", solid_capstyle="butt", **style)
    ax.plot([mean], [y], marker="|", ms=2 * BAR, mew=2, ls="", color=colour, zorder=3)


def value_axis(ax: Axes, ends: Floats, *, zero: bool = True) -> int:
    """Draw zero line and guides of rows, format the axis; return the power of ten of its numbers.

    ``ends`` are the numbers that must be on the axis; unknown ones are left out.
    """
    from matplotlib import rcParams
    from matplotlib.ticker import MaxNLocator

    line = rcParams["axes.labelcolor"]
    finite = ends[np.isfinite(ends)]
    finite = np.append(finite, 0.0) if zero or not finite.size else finite
    margin = 0.04 * float(np.ptp(finite)) or 1.0
    ax.set_xlim(float(finite.min()) - margin, float(finite.max()) + margin)
    if zero:
        ax.axvline(0.0, color=line, lw=0.9, alpha=0.7, zorder=1)
    ax.grid(visible=False)
    ax.yaxis.grid(visible=True, color=line, alpha=0.13, lw=0.8, ls="-")
    ax.set_axisbelow(True)
    ax.spines[["left", "right", "top"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    return number_axis(ax.xaxis, float(np.abs(finite).max()))


def number_axis(axis: Any, peak: float) -> int:
    """Format the numbers of an axis up to ``peak``; return the power of ten taken out of them."""
    from matplotlib.ticker import ScalarFormatter, StrMethodFormatter

    power = formatting.power_of(peak)
    numbers = ScalarFormatter(useOffset=False, useMathText=True)
    numbers.set_scientific(bool(power))
    numbers.set_powerlimits((power, power))
    thousands = power == 0 and peak >= 1000
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}") if thousands else numbers)
    axis.get_offset_text().set_visible(False)  # the label says it
    return power


def beside(ax: Axes, columns_of_text: list[list[str]]) -> None:
    """Print columns of text to the right of the rows 0, 1, …; their heads stand above."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size="small")
    right = 4.0
    for column in columns_of_text:
        sizes = (text_to_path.get_text_width_height_descent(c, font, ismath=False) for c in column)
        right += 16 + max(width for width, _, _ in sizes)  # in points
        for y, words in enumerate(column, start=-1):
            ax.annotate(
                words,
                xy=(1.0, max(y, -0.9)),
                xycoords=ax.get_yaxis_transform(),
                xytext=(right, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                fontsize="small",
                alpha=0.75 if y < 0 else 1.0,
                annotation_clip=False,
                **PLAIN,
            )
