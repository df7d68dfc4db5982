"""What the page shows of explanations: one as it stands, two compared, the files to download."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np

from credex import formatting
from credex.comparison import compare
from credex.errors import InputError
from credex.explanation import Explanation
from credex.report import assets, pictures
from credex.report.data import LEVELS, explanation_data, number

__all__ = ["differences", "page_files", "view_of"]

FULL_OUTPUTS = 3
"""Outputs up to which sentences are made for every level at the end, for one level before."""

SCRIPTS = ("page", "server", "rows", "form", "goal", "progress", "difference")
FILES = ("index.html", "page.css", "icon.svg", *(f"{name}.js" for name in SCRIPTS))
"""Files of the page's own; the components are those of the report."""


def view_of(e: Explanation, *, ended: bool) -> str:
    """Return the JSON that the components draw; what takes long is left for the end."""
    few = len(e.outputs) <= FULL_OUTPUTS
    said = (*LEVELS, e.level) if ended and few else (e.level,) if ended or few else ()
    outputs = formatting.shown_outputs(e)
    data = explanation_data(e, said=said, outputs=outputs)
    if ended or pictures.kind(e) == "text":  # other pictures take long to draw
        pictures.add(data, e, outputs)
    return json.dumps(data, allow_nan=False)


def differences(a: Explanation, b: Explanation, shown: int) -> dict[str, Any]:
    """Return the differences between two explanations, the largest first.

    ``shown`` is the number of the output among those that the page shows of ``a``.
    """
    outputs = formatting.shown_outputs(a)
    if not 0 <= shown < len(outputs) or a.outputs != b.outputs:
        raise InputError(f"there is no output {shown} in both explanations")
    output = outputs[shown]
    c, half = compare(a, b, output), compare(a, b, output, 0.5)
    order = np.argsort(-np.abs(np.nan_to_num(c.difference)), kind="stable")
    full = [float(np.atleast_1d(e.prediction)[output]) for e in (a, b)]
    ends = np.stack([c.difference, c.lower, c.upper, half.lower, half.upper])
    peak = float(np.abs(ends[np.isfinite(ends)]).max(initial=0.0))
    power = formatting.power_of(peak)
    halves = (c.upper - c.lower)[np.isfinite(c.upper - c.lower)] / 2 / 10.0**power
    middle = float(np.median(halves)) if len(halves) else 0.0
    return {
        "level": formatting.percent(c.level),
        "unit": formatting.times(power),
        "places": max(formatting.decimals(middle, peak / 10.0**power), 0),
        "predictions": [formatting.amount(x, max(map(abs, full))) for x in full],
        "change": formatting.amount(full[0] - full[1], max(map(abs, full))),
        "rows": [
            {
                "name": formatting.shorten(c.names[i] or "(no name)", 120),
                "ends": [number(x / 10.0**power) for x in ends[:, i]],
                "p": number(float(c.probability[i]), 4),
                "real": bool(c.real[i]),
            }
            for i in order
        ],
    }


def page_files() -> dict[str, str]:
    """Return the files of the page by their names."""
    own = files("credex.serve").joinpath("static")
    out = {name: own.joinpath(name).read_text(encoding="utf-8") for name in FILES}
    shared = {"components.css": assets.style("page.css"), "components.js": assets.script()}
    return out | shared
