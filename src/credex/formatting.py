"""Explanations as tables for the terminal, and how their numbers are written."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from credex.cells import clean, display
from credex.errors import InputError
from credex.explanation_base import ExplanationBase
from credex.options import LINKS
from credex.typing import Floats, Masks

ALIKE = "all alike so far"
"""In place of intervals if all outputs were the same, which does not make importances exact."""

ROUNDING = 1e-12
"""Importances below this share of the model's outputs are rounding errors, and count as zero."""

LINE = 100
"""Columns of a sentence below a table."""

MAX_ROWS, MAX_OUTPUTS = 20, 10
"""Most features of one output, and most outputs, that are printed."""

POSITIVE, NEGATIVE, NEUTRAL = "#d55e00", "#0072b2", "#808080"
"""Okabe and Ito's vermillion and blue, which colour-blind readers can tell apart, and a grey."""

ENDINGS = {
    "queries": "the queries were used up",
    "width": "the requested width is met",
    "relative width": "the intervals are narrow beside the largest importance",
    "ranking settled": "the ranking is settled",
    "wall clock": "the time was up",
    "ceiling": "default limit of queries (max_queries= raises it)",
    "max_queries": "max_queries reached",
    "not measurable": "the precision is met, but for features that no query measures",
    "model error": "the model failed",
    "running": "not finished yet",
}


def columns(text: str) -> int:
    """Count the columns of ``text`` in a terminal: wide characters two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(c: str) -> int:
    """Columns of one character."""
    if unicodedata.category(c) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1


def shorten(text: str, max_columns: int) -> str:
    """Shorten ``text`` to ``max_columns``: what is left out of its middle becomes ``…``."""
    if columns(text) <= max_columns:
        return text
    tail = _fitting(reversed(text), (max_columns - 1) * 2 // 5)[::-1]
    head = _fitting(iter(text), max_columns - 1 - columns(tail))
    return f"{head.rstrip()}…{tail.lstrip()}"


def _fitting(characters: Iterator[str], room: int) -> str:
    """Return the first characters that fit into ``room`` columns."""
    out = []
    for c in characters:
        room -= _width(c)
        if room < 0:
            break
        out.append(c)
    return "".join(out)


# -- numbers -----------------------------------------------------------------------------------


def magnitude(x: float) -> int:
    """⌊log₁₀ x⌋; 0 for 0 and infinity."""
    return math.floor(math.log10(x)) if math.isfinite(x) and x > 0 else 0


def decimals(half_width: float, peak: float) -> int:
    """Decimals for two digits of a half-width (−1: tens), at most six of ``peak``.

    A half-width of zero (or none) takes four digits of ``peak``.
    """
    if not math.isfinite(half_width) or half_width <= 0:
        return 3 - magnitude(peak) if peak > 0 else 0
    return min(1 - magnitude(half_width), 5 - magnitude(peak))


def number(x: float, places: int) -> str:
    """Format ``x`` with ``places`` decimals, a real minus sign, and no negative zero."""
    if not math.isfinite(x):
        return "∞" if x > 0 else "−∞" if x < 0 else "?"
    return f"{round(x, places) + 0.0:,.{max(places, 0)}f}".replace("-", "−")


def power_of(peak: float) -> int:
    """Power of ten to take out of numbers up to ``peak``; 0 unless they are huge or tiny."""
    size = magnitude(peak)
    return 0 if -4 <= size < 7 else max(3 * (size // 3), -306)


def times(power: int) -> str:
    """Return `` ×10⁹``, or nothing for 0."""
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f" ×10{raised}" if power else ""


def amount(x: float, peak: float) -> str:
    """Format ``x`` with the decimals that give ``peak`` four digits."""
    unit = 10.0 ** power_of(peak)
    return number(x / unit, max(decimals(0.0, peak / unit), 0)) + times(power_of(peak))


def percent(level: float) -> str:
    """Format a level: ``95 %``."""
    return f"{100 * level:.10g} %"


def chance(p: float) -> str:
    """Format a probability with two decimals, and never as 0 or 1."""
    if math.isnan(p):
        return "?"
    return "<0.01" if p < 0.005 else ">0.99" if p > 0.995 else f"{p:.2f}"


class View(NamedTuple):
    """The numbers of one output for printing: ``(d,)`` importances and ends of their intervals.

    Rounding errors of the model's outputs are 0; unknown ends are infinite.
    """

    output: int
    level: float
    mean: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, e: ExplanationBase, output: Any, level: float | None = None) -> Self:
        """Read the numbers of one output at ``level``, by default the explanation's own."""
        j = e._output(output)  # noqa: SLF001 - outputs are named as in the explanation's methods
        i = e.belief.interval(e.level if level is None else level)
        numbers = np.stack([e.belief.mean[:, j], i.lower[:, j], i.upper[:, j]])
        outputs = [np.atleast_1d(e.prediction), np.atleast_1d(e.base_value)]
        outputs += [b.y for b in e.history.rows.blocks]
        largest_output = np.nanmax(np.abs(np.vstack(outputs)[:, j]), initial=0.0)
        numbers[:, np.abs(numbers).max(axis=0) <= ROUNDING * largest_output] = 0.0
        unknown = np.isnan(numbers[1]) & ~np.isnan(numbers[0])
        numbers[1:, unknown] = [[-np.inf], [np.inf]]
        return cls(j, i.level, *numbers)

    @property
    def unclear(self) -> Masks:
        """``(d,)``: the interval includes zero, and the importance is not known exactly."""
        return (self.lower <= 0) & (self.upper >= 0) & (self.lower < self.upper)

    @property
    def peak(self) -> float:
        """The largest |importance|."""
        return float(np.abs(self.mean[np.isfinite(self.mean)]).max(initial=0.0))

    def check_known(self, what: str) -> None:
        """Raise unless all importances are known."""
        if not np.isfinite(self.mean).all():
            raise InputError(f"too little was asked to {what}; go on with refine()")


# -- words -------------------------------------------------------------------------------------


def feature(e: ExplanationBase, i: int) -> tuple[str, str]:
    """Return name (BayesLIME: condition) and value of a feature; no value if the name says it."""
    name, label, value = clean(e.names[i]), clean(e.labels[i]), display(e.feature_values[i])
    if value == "present" and label == name:  # a part of a mask
        return name, ""
    if e.method != "BayesLIME":
        return name, value
    return label, "" if label.startswith((f"{name} = ", f"{name}: ", f"{name} mis")) else value


def prediction(e: ExplanationBase, output: int) -> tuple[str, str]:
    """Say what was predicted, and what the importances are added to."""
    full, base = (float(np.atleast_1d(x)[output]) for x in (e.prediction, e.base_value))
    peak = float(np.nanmax(np.abs([full, base, 0.0])))
    unit = LINKS[e.settings.get("link", "identity")]
    said = f"prediction {amount(full, peak)}{unit}{output_name(e, output)}"
    start = f"base value {amount(base, peak)}"
    if e.method == "BayesLIME":
        r2 = float(e.estimate.r2[output])
        fit = "" if math.isnan(r2) else f", R² {number(r2, 2)}"
        local = amount(float(e.estimate.local_prediction[output]), peak)
        start = f"linear explanation {local} (intercept {amount(base, peak)}{fit})"
    return said, start


def output_name(e: ExplanationBase, output: Any) -> str:
    """Return `` for malignant``, or nothing if there is only one output without a name."""
    name = clean(e.outputs[e._output(output)])  # noqa: SLF001 - named as in its methods
    of = f" for output {name}" if name.isdigit() else f" for {shorten(name, 40)}"
    return "" if e.outputs == ("0",) else of


def headline(e: ExplanationBase, output: int) -> str:
    """Say what was predicted and how the importances relate to it."""
    said, start = prediction(e, output)
    if np.isnan(e.belief.mean[:, output]).all():
        return f"{said}; too little was asked to say more"
    return f"{said} = {start} + the importances" if e.method == "BayesSHAP" else f"{said}; {start}"


def ending(e: ExplanationBase) -> str:
    """Say why the run ended."""
    if e.exact:
        what = "exact: every coalition was asked"
        return what + (", for this background" if any("background:" in n for n in e.notes) else "")
    why = ENDINGS.get(e.stop_reason, e.stop_reason)
    return why if e.stop_reason == "running" else f"stopped: {why}"


def footer(e: ExplanationBase) -> list[str]:
    """Lines below a table: cost, reason for stopping, units, posterior, notes."""
    s = e.seconds
    time = "<0.01" if s < 0.01 else f"{s:.2g}" if s < 9.5 else f"{s:,.0f}"
    lines = [f"{e.n_queries:,} queries, {e.n_model_rows:,} model rows, {time} s; {ending(e)}"]
    if e.method == "BayesLIME":
        unit = " or ".join(dict.fromkeys(e.units))
        lines.append(f"importances are changes of the prediction, {unit}")
    if np.isfinite(e.belief.mean).any():
        lines.append(f"{e.posterior} posterior, {e.sampler} sampling")
    return lines + [clean(n) for n in e.notes]


# -- tables ------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One feature as text; ``lower`` and ``upper`` are empty if the importance is exact."""

    feature: str
    value: str
    estimate: str
    lower: str
    upper: str
    chance: str

    @property
    def interval(self) -> str:
        """``0.18 … 0.24``, or ``exact``."""
        return f"{self.lower} … {self.upper}" if self.lower else "exact"


def largest(e: ExplanationBase, output: int, max_rows: int | None = None) -> tuple[list[int], int]:
    """Return the indices of selected features, largest first, and how many are left out."""
    order = np.argsort(-np.abs(e.belief.mean[:, output]), kind="stable")
    kept = [int(i) for i in order if e.selected[i, output]]
    return kept[:max_rows], len(kept) - len(kept[:max_rows])


def table(
    e: ExplanationBase, view: View, features: list[int], *, same: bool = False
) -> tuple[list[Row], int]:
    """Return rows of some features, and the power of ten taken out of their numbers.

    ``same``: all with the decimals of the median interval.
    """
    shown = np.stack([view.mean, view.lower, view.upper])[:, features]
    peak = float(np.abs(shown[np.isfinite(shown)]).max(initial=0.0))
    power = power_of(peak)
    likely = np.where(np.isinf(shown[1]), 0.5, e.belief.prob_positive()[features, view.output])
    unit, rows = 10.0**power, []
    halves = (shown[2] - shown[1]) / 2 / unit
    common = decimals(
        float(np.median(halves[halves > 0])) if (halves > 0).any() else 0.0, peak / unit
    )
    for i, (mean, low, high), p in zip(features, (shown / unit).T, likely, strict=True):
        places = common if same else decimals((high - low) / 2, peak / unit)
        rest = ("", "", "–")
        if low != high:
            rest = (number(low, places), number(high, places), chance(p))
        estimate = "?" if math.isinf(high - low) else number(mean, places)
        rows.append(Row(*feature(e, i), estimate, *rest))
    return rows, power


class Part(NamedTuple):
    """One output's table: columns with their heads; the first ``n_left`` are flush left."""

    output: int
    features: list[int]
    columns: list[list[str]]
    n_left: int
    more: list[str]


def shown_outputs(e: ExplanationBase) -> list[int]:
    """Return the outputs that differ most from their base values, in their order."""
    change = np.abs(np.atleast_1d(e.prediction) - np.atleast_1d(e.base_value))
    order = np.argsort(-np.nan_to_num(change, nan=-1.0), kind="stable")
    return sorted(order[:MAX_OUTPUTS].tolist())


def parts(e: ExplanationBase, blank: str) -> Iterator[Part]:
    """Yield a table for each output; ``blank`` pads numbers to put decimal points in one line."""
    k = len(e.outputs)
    outputs = shown_outputs(e)
    for n, j in enumerate(outputs, start=1):
        features, left_out = largest(e, j, MAX_ROWS if k <= 3 else max(5, 60 // len(outputs)))
        more = [f"… and {left_out} more: e.to_frame() has all"] if left_out else []
        if n < k and n == len(outputs):
            more.append(f"… and {k - n} more outputs, which moved less: target= chooses one")
        if np.isnan(e.belief.mean[features, j]).all():
            yield Part(j, features, [], 0, [])
            continue
        rows, power = table(e, View.of(e, j), features)
        lower, upper = (_aligned([r[c] for r in rows], blank) for c in (3, 4))
        ends = zip(rows, lower, upper, strict=True)
        intervals = [r._replace(lower=r.lower and lo, upper=hi).interval for r, lo, hi in ends]
        if not e.exact and not any(r.lower for r in rows):
            intervals = [ALIKE] * len(rows)
        words = [["feature", *(shorten(r.feature, 46) for r in rows)]]
        if any(r.value for r in rows):
            words.append(["value", *(shorten(r.value, 20) for r in rows)])
        means = [f"importance{times(power)}", *_aligned([r.estimate for r in rows], blank)]
        between = [f"{percent(e.level)} interval", *intervals]
        likely = ["P(>0)", *(r.chance for r in rows)]
        yield Part(j, features, [*words, means, between, likely], len(words), more)


def _aligned(numbers: list[str], blank: str) -> list[str]:
    """Pad numbers so that their decimal points are in one line."""
    tails = [len(n) - n.find(".") if "." in n else 0 for n in numbers]
    padded = [n + blank * (max(tails) - t) for n, t in zip(numbers, tails, strict=True)]
    return [n.rjust(max(map(len, padded)), blank) for n in padded]


def text(e: ExplanationBase, verdict: Callable[[int], Sequence[str]]) -> str:
    """Format the explanation as a table for the terminal, with the ``verdict`` on each output."""
    lines: list[str] = []
    for part in parts(e, blank=" "):
        said = headline(e, part.output)
        lines += ["", said] if lines else [f"{e.method}: {said}"]
        padded = []
        for n, cells in enumerate(part.columns):
            width = max(map(columns, cells))
            pads = [" " * (width - columns(c)) for c in cells]
            column = [c + p if n < part.n_left else p + c for c, p in zip(cells, pads, strict=True)]
            padded.append([column[0], "─" * width, *column[1:]])
        lines += ["  " + "  ".join(row).rstrip() for row in zip(*padded, strict=True)]
        lines += [f"  {line}" for line in part.more]
        sentences = [line for s in verdict(part.output) for line in textwrap.wrap(s, LINE)]
        lines += ["", *sentences] if sentences else []
    return "\n".join([*lines, "", *footer(e)])
