"""Explanations and batches as HTML: tables, intervals over an axis, the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from credex import formatting, markup
from credex.aggregate import Aggregate, aggregate
from credex.cells import clean, display
from credex.errors import InputError
from credex.explanation_base import ExplanationBase
from credex.formatting import View
from credex.verdict import judge_batch, name, printed

MAX_ROWS = 20
"""Most rows of a batch, and most features, that are listed."""


def explanation(e: ExplanationBase) -> str:
    """Return the explanation as HTML."""
    out = []
    for part in formatting.parts(e, blank="\u2007"):  # as wide as a digit
        title = f"<b>{e.method}</b>: {escape(formatting.headline(e, part.output))}"
        out.append(f'<div class="title">{title}</div>')
        if part.columns:
            head, *rows = ([escape(c) for c in cells] for cells in zip(*part.columns, strict=True))
            marks, axis = _marks(e, part.output, part.features)
            words = [
                [f"<bdi>{row[0]}</bdi>", *row[1:], m] for row, m in zip(rows, marks, strict=True)
            ]
            blank = [""] * (len(head))
            out.append(markup.table([*head, ""], [*words, [*blank, axis]], part.n_left))
        out.append(markup.paragraphs(part.more, "small"))
        out.append(markup.paragraphs(printed(e, part.output), "verdict"))
    return markup.fragment(*out, markup.paragraphs(formatting.footer(e), "small"))


def _marks(e: ExplanationBase, output: int, features: list[int]) -> tuple[list[str], str]:
    """Draw the intervals of some features, and their common axis."""
    wide, half = View.of(e, output), View.of(e, output, 0.5)
    ends = np.stack([wide.mean, wide.lower, wide.upper, half.lower, half.upper])[:, features]
    power = formatting.power_of(float(np.abs(ends[np.isfinite(ends)]).max(initial=0.0)))
    ends /= 10.0**power
    scale = markup.Scale.over([0.0, *ends[np.isfinite(ends)].tolist()])
    marks = [scale.mark(m, (a, b), (c, d)) for m, a, b, c, d in ends.T.tolist()]
    return marks, scale.axis()


def batch(
    rows: Sequence[tuple[Any, ExplanationBase]],
    title: str,
    lost: Sequence[str],
    foot: Sequence[str],
) -> str:
    """Return a batch as HTML: labels with their explanations, and what was ``lost`` in words."""
    out = [f'<div class="title"><b>{escape(title)}</b></div>']
    explained = [e for _, e in rows]
    outputs = explained[0].outputs if explained else ("0",)
    for j, output in enumerate(outputs[: formatting.MAX_OUTPUTS]):
        if len(outputs) > 1:
            shown = escape(formatting.shorten(clean(output), 40))
            out.append(f'<div class="title">output <bdi>{shown}</bdi></div>')
        out.append(markup.paragraphs(judge_batch(explained, j, len(lost)).lines, "verdict"))
        if explained and all(e.names == explained[0].names for e in explained):
            try:
                out.append(
                    _averages(aggregate(explained, j, population="rows"), explained[0].level)
                )
            except InputError as error:
                out.append(markup.paragraphs([str(error)], "small"))
        out.append(_rows(rows[:MAX_ROWS], j))
    more = [f"… and {len(rows) - MAX_ROWS} more rows"] if len(rows) > MAX_ROWS else []
    more += [formatting.shorten(clean(words), 200) for words in lost[:MAX_ROWS]]
    return markup.fragment(*out, markup.paragraphs([*more, *foot], "small"))


def _averages(a: Aggregate, level: float) -> str:
    """Table of mean |φ| over the rows."""
    features = a.order[:MAX_ROWS]
    ends = np.stack([a.mean, a.lower, a.upper])[:, features]
    peak = float(ends.max())
    power = formatting.power_of(peak)
    ends, peak = ends / 10.0**power, peak / 10.0**power
    scale = markup.Scale.over([0.0, peak])
    head = [
        "feature",
        f"mean |φ|{formatting.times(power)}",
        f"{formatting.percent(level)} interval",
        "largest in",
        "",
    ]
    body = []
    for i, (mean, low, high) in zip(features, ends.T.tolist(), strict=True):
        places = formatting.decimals((high - low) / 2, peak)
        shown = escape(formatting.shorten(a.names[i], 46))
        between = " … ".join(formatting.number(x, places) for x in (low, high))
        body.append(
            [
                f"<bdi>{shown}</bdi>",
                formatting.number(mean, places),
                between if high > low else "exact",
                f"{100 * a.first[i]:.0f} % of rows",
                scale.mark(mean, (low, high), zero=0.0, colour="down"),
            ]
        )
    left = len(a.names) - len(features)
    body.append([f"… and {left} more" if left else "", "", "", "", scale.axis()])
    return markup.table(head, body, 1)


def _rows(rows: Sequence[tuple[Any, ExplanationBase]], output: int) -> str:
    """Table of the rows: prediction and the feature with the largest importance."""
    body = []
    for label, e in rows:
        view, features = View.of(e, output), formatting.largest(e, output, 1)[0]
        full = float(np.atleast_1d(e.prediction)[output])
        cells = [
            f"<bdi>{escape(formatting.shorten(display(label), 30))}</bdi>",
            formatting.amount(full, abs(full)),
            "",
            "",
        ]
        if features and np.isfinite(view.mean[features[0]]):
            (row,), power = formatting.table(e, view, features)
            cells[2] = f"<bdi>{escape(name(e, features[0]))}</bdi>"
            cells[3] = escape(f"{row.estimate} ({row.interval}){formatting.times(power)}")
        body.append(cells)
    return markup.table(["row", "prediction", "largest importance", ""], body, 1)
