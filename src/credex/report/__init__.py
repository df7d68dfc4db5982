"""The report: one HTML file about an explanation or a batch, which needs nothing else.

`data.explanation_data` turns an explanation into plain values, `components.js` draws them, and
`assets` puts styles, scripts and data into one page. ``credex serve`` uses the same three.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from credex.cells import display
from credex.errors import InputError, OutputError
from credex.explanation_base import ExplanationBase
from credex.formatting import shorten, shown_outputs
from credex.report import assets, audit, pictures
from credex.report.batch import Batch, batch_data
from credex.report.data import explanation_data, row_name

__all__ = ["Batch", "explanation_page", "write_batch", "write_explanation"]

MAX_TITLE = 80
"""Longest title, in columns of text."""


def write_explanation(
    e: ExplanationBase, path: str | Path, verification: Any = None, title: str | None = None
) -> Path:
    """Write the report of one explanation; see `credex.Explanation.report`."""
    target = _target(path)
    return _write(target, explanation_page(e, verification, title))


def explanation_page(e: ExplanationBase, verification: Any = None, title: str | None = None) -> str:
    """Return the report of one explanation as text."""
    measured = audit.check_verification(verification)
    outputs = shown_outputs(e)
    data = explanation_data(e, outputs=outputs)
    pictures.add(data, e, outputs)
    said = "Why this prediction?"
    said = said if e.label is None else f"{said} {row_name(e.label)}"
    return _page(title or said, e.method, audit.single(e, measured), data)


def write_batch(
    batch: Batch,
    path: str | Path,
    verification: Any = None,
    title: str | None = None,
    rows: Sequence[int] | None = None,
) -> Path:
    """Write the report of a batch; see `credex.Explanations.report`."""
    target, measured = _target(path), audit.check_verification(verification)
    data = batch_data(batch, rows)
    explained = [e for _, _, e in batch.rows]
    method = explained[0].method if explained else "credex"
    section = audit.batch(explained, batch.counts, batch.lost, measured)
    said = f"{len(batch.rows):,} predictions explained"
    return _write(target, _page(title or said, method, section, data))


def _target(path: str | Path) -> Path:
    """Return the path; raise before anything is worked out if it cannot be written."""
    if not isinstance(path, str | Path):
        raise InputError(f"path must be a file name such as 'why.html'; got {path!r}")
    target = Path(path)
    if os.path.isdir(target):  # noqa: PTH112 - Path.is_dir() raises if a name is too long
        raise OutputError(f"{str(target)!r} is a folder; name a file in it, such as 'why.html'")
    if not target.parent.is_dir():
        raise OutputError(f"there is no folder {str(target.parent)!r}; make it first")
    return target


def _page(title: str, method: str, section: str, data: dict[str, Any]) -> str:
    shown = escape(shorten(display(title), MAX_TITLE))
    return assets.page(shown, f"{escape(method)} report", section, data)


def _write(target: Path, text: str) -> Path:
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as cause:
        raise OutputError(f"{str(target)!r} cannot be written: {cause}") from cause
    return target
