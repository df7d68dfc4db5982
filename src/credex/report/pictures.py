"""What was explained, for the page: images and series as pictures, texts in pieces."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

from credex import formatting
from credex.explanation_base import ExplanationBase
from credex.plots import Plots
from credex.plots.text import visible

DPI, COLOURS = 110, 256
"""Resolution of pictures (4.6 inches of an image are 500 pixels), and their number of colours."""

GROUNDS = {"light": ("#fcfcfb", "#1b1c1e"), "dark": ("#141517", "#ececec")}
"""Ground and ink of the page, as in components.css."""

INK = "text.color axes.edgecolor axes.labelcolor axes.titlecolor xtick.color ytick.color"
GROUND = "figure.facecolor axes.facecolor savefig.facecolor"


def kind(e: ExplanationBase) -> str:
    """``"text"``, ``"image"``, ``"series"``, or nothing for features without a picture."""
    if not isinstance(e.payload, dict):
        return ""
    found = e.payload.get("domain") if "domain" in e.payload else e.payload.get("kind")
    return str(found) if found in ("text", "image", "series") else ""


def add(data: dict[str, Any], e: ExplanationBase, outputs: Sequence[int]) -> None:
    """Add the text, or a picture of each output, to the data of an explanation."""
    what = kind(e)
    if what == "text":
        data["text"] = pieces(e)
    elif what:
        for shown, j in zip(data["outputs"], outputs, strict=True):
            shown["picture"] = picture(e, j, what)


def pieces(e: ExplanationBase) -> list[list[Any]]:
    """Return the text as pairs: a piece, and its feature or −1 for what lies between."""
    text, done, out = e.payload["text"], 0, []
    spans = ((a, b, i) for i, parts in enumerate(e.payload["spans"]) for a, b in parts)
    for a, b, i in sorted(spans):
        if done < a:
            out.append([visible(text[done:a]), -1])
        out.append([visible(text[a:b]), i])
        done = b
    if done < len(text):
        out.append([visible(text[done:]), -1])
    return out


def picture(e: ExplanationBase, output: int, what: str) -> dict[str, str]:
    """Return the plot of an image or a series for light and dark pages, as data URIs."""
    from matplotlib import rc_context

    out = {}
    for theme, (ground, ink) in GROUNDS.items():
        style: Any = dict.fromkeys(INK.split(), ink) | dict.fromkeys(GROUND.split(), ground)
        with rc_context(style):
            out[theme] = _drawn(e, output, what)
    level = formatting.percent(e.level)
    return {
        **out,
        "alt": f"The {what} with its importances; the table below has the numbers",
        "caption": f"At {level}; the picture does not follow the level.",
    }


def _drawn(e: ExplanationBase, output: int, what: str) -> str:
    """Draw one picture; its figure is closed again."""
    from matplotlib import pyplot as plt
    from PIL import Image  # matplotlib needs it, too

    plots = Plots(e)
    axes = plots.overlay(output=output) if what == "image" else plots.series(output=output)[0]
    figure: Any = axes.figure
    drawn, small = io.BytesIO(), io.BytesIO()
    try:
        figure.savefig(drawn, format="png", dpi=DPI)
    finally:
        plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(COLOURS).save(small, format="png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(small.getvalue()).decode("ascii")
