"""Explanations in the forms of other tools: shap's, lime's, ArviZ'."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.cells import as_float, clean, display, plain
from credex.errors import InputError, MissingExtraError, check_count
from credex.explanation_base import ExplanationBase
from credex.formatting import View, footer, headline, largest, percent, shorten, table, times
from credex.plots import Plots
from credex.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# -- shap ----------------------------------------------------------------------------------------


def to_shap(explanations: Sequence[ExplanationBase], *, single: bool) -> Any:
    """Return a ``shap.Explanation`` of one explanation (``single``), or of rows below each other.

    Intervals are its ``lower_bounds`` and ``upper_bounds``, standard deviations its ``error_std``.
    """
    try:
        import shap
    except ImportError:
        msg = "to_shap() makes a shap.Explanation: pip install 'credex[shap]'"
        raise MissingExtraError(msg) from None
    if not explanations:
        raise InputError("there is no explanation to convert")
    if any(e.method == "BayesLIME" for e in explanations):
        msg = "shap's plots add importances up to a prediction; BayesLIME's importances add up to "
        msg += "e.local_prediction at most, not to f(x)"
        warnings.warn(msg, stacklevel=3)
    ends = [e.interval() for e in explanations]
    fields = {
        "values": [e.mean for e in explanations],
        "base_values": [np.asarray(e.base_value) for e in explanations],
        "lower_bounds": [i.lower for i in ends],
        "upper_bounds": [i.upper for i in ends],
        "error_std": [e.sd for e in explanations],
    }
    first = explanations[0]
    alike = all(e.names == first.names and e.outputs == first.outputs for e in explanations)
    if any(_is_text(e) for e in explanations):
        fields["data"] = [_pieces(e) for e in explanations]
        alike = single  # words are read row by row
    else:
        data, shown = _numbers([e.feature_values for e in explanations])
        fields["data"] = list(data)
        if shown is not None:
            fields["display_data"] = list(shown)
    if not alike and len({e.outputs for e in explanations}) > 1:
        raise InputError(
            "these explanations have different outputs, which make no shap.Explanation"
        )
    arrays = {k: v[0] if single else _stacked(v, alike=alike) for k, v in fields.items()}
    if single and len(first.outputs) == 1:
        arrays["base_values"] = float(arrays["base_values"])
    return shap.Explanation(
        **arrays,
        feature_names=list(first.names) if alike else [list(e.names) for e in explanations],
        output_names=list(first.outputs) if len(first.outputs) > 1 else None,
        compute_time=sum(e.seconds for e in explanations),
    )


def _stacked(arrays: list[Any], *, alike: bool) -> Any:
    """Stack arrays; rows of different lengths are an array of objects, as shap has them."""
    if alike or np.ndim(arrays[0]) == 0 or len({np.shape(a) for a in arrays}) == 1:
        return np.stack(arrays)
    out = np.empty(len(arrays), dtype=object)
    out[:] = arrays
    return out


def _numbers(rows: Sequence[Sequence[Any]]) -> tuple[Floats, Any]:
    """Return values ``(n, d)`` as numbers, or codes; and as they are read, if there are codes."""
    objects = np.empty((len(rows), len(rows[0])), dtype=object)
    for i, row in enumerate(rows):
        objects[i, :] = [plain(value) for value in row]
    numbers = np.array([[as_float(value) for value in row] for row in objects])
    numbers = numbers.reshape(objects.shape)
    coded = False
    for j in range(objects.shape[1]):
        missing = np.array([value is None for value in objects[:, j]])
        if np.isnan(numbers[~missing, j]).any():
            texts = [display(value) for value in objects[:, j]]
            numbers[:, j] = np.unique(texts, return_inverse=True)[1]
            objects[:, j], coded = texts, True
        elif not missing.any():
            objects[:, j] = [float(f"{value:.4g}") for value in numbers[:, j]]
    return numbers, objects if coded else None


def _is_text(e: ExplanationBase) -> bool:
    return isinstance(e.payload, dict) and e.payload.get("kind") == "text"


def _pieces(e: ExplanationBase) -> Any:
    """Return the words of a text with what stands between them, for shap's text plot."""
    text, spans = e.payload["text"], e.payload["spans"]
    starts = [part[0][0] for part in spans]
    if any(len(part) > 1 for part in spans) or starts != sorted(starts):
        return np.array([text[a:b] for ((a, b), *_) in spans], dtype=object)
    cuts = [0, *starts[1:], len(text)]
    return np.array([text[a:b] for a, b in pairwise(cuts)], dtype=object)


# -- ArviZ ---------------------------------------------------------------------------------------


def to_arviz(e: ExplanationBase, *, draws: int, chains: int, seed: int) -> Any:
    """Return draws of the importances as ArviZ' ``InferenceData`` (ArviZ 1: a ``DataTree``)."""
    try:
        import arviz as az
        import xarray as xr
    except ImportError:
        msg = "to_arviz() needs ArviZ: pip install 'credex[arviz]'"
        raise MissingExtraError(msg) from None
    check_count("draws", draws)
    check_count("chains", chains)
    phi = e.sample(draws * chains, seed).reshape(chains, draws, len(e.names), -1)
    dims = ["chain", "draw", "feature"]
    coords: dict[str, Any] = {"feature": list(e.names)}
    if len(e.outputs) > 1:
        dims, coords = [*dims, "output"], {**coords, "output": list(e.outputs)}
    else:
        phi = phi[..., 0]
    coords |= {"chain": list(range(chains)), "draw": list(range(draws))}
    attrs = {"inference_library": "credex", "method": e.method, "n_queries": e.n_queries}
    posterior = xr.Dataset({"importance": (dims, phi)}, coords=coords, attrs=attrs)
    values = xr.Dataset(
        {"value": (["feature"], [display(v) for v in e.feature_values])},
        coords={"feature": list(e.names)},
    )
    groups: dict[str, Any] = {"posterior": posterior, "constant_data": values}
    if hasattr(az, "InferenceData"):
        return az.InferenceData(**groups)
    return xr.DataTree.from_dict(groups)


# -- lime ----------------------------------------------------------------------------------------


def output_of(e: ExplanationBase, label: Any) -> int:
    """Return the index of the output that lime's ``label`` means: an index, a class, a target."""
    target = e.settings.get("target")
    if len(e.outputs) == 1 and label is not None and label == target:
        return 0
    return e._output(label)  # noqa: SLF001 - the explanation's own way to name outputs


def pairs(e: ExplanationBase, output: int) -> list[tuple[int, float]]:
    """Return ``(feature, importance)`` of the selected features, largest first."""
    features, _ = largest(e, output)
    return [(i, float(e.belief.mean[i, output])) for i in features]


def as_map(e: ExplanationBase) -> dict[int, list[tuple[int, float]]]:
    """Return `pairs` by output; the key of a single output is its target, if that is a number."""
    target = e.settings.get("target")
    if len(e.outputs) == 1 and isinstance(target, int):
        return {int(target): pairs(e, 0)}
    return {j: pairs(e, j) for j in range(len(e.outputs))}


def as_pyplot_figure(e: ExplanationBase, output: int) -> Figure:
    """Draw importances with their intervals in a new figure of pyplot."""
    figure: Figure = Plots(e).intervals(output=output).figure
    return figure


def show_in_notebook(
    e: ExplanationBase, outputs: Iterable[int] | None, *, text: bool = True
) -> None:
    """Show `body` below a notebook's cell."""
    try:
        from IPython.display import HTML
        from IPython.display import display as show
    except ImportError:
        msg = "show_in_notebook() needs IPython, which every notebook has; elsewhere print(e) or "
        raise MissingExtraError(msg + "use save_to_file(path)") from None
    show(HTML(body(e, outputs, text=text)))


def save_to_file(
    e: ExplanationBase, path: str | Path, outputs: Iterable[int] | None, *, text: bool = True
) -> None:
    """Write `page` to a file."""
    Path(path).write_text(page(e, outputs, text=text), encoding="utf-8")


STYLE = """
.credex{font:14px/1.5 system-ui,sans-serif;max-width:60rem;margin:1rem auto;padding:0 1rem}
.credex h2{font-size:1.1em;overflow-wrap:anywhere}
.credex .scroll{overflow-x:auto}
.credex table{border-collapse:collapse;font-variant-numeric:tabular-nums}
.credex th,.credex td{padding:2px 10px;text-align:right;white-space:nowrap}
.credex th:first-child,.credex td:first-child{text-align:left;white-space:normal;
min-width:9em;overflow-wrap:anywhere}
.credex svg{display:block;overflow:visible}
.credex .up{stroke:#d55e00;fill:#d55e00}.credex .down{stroke:#0072b2;fill:#0072b2}
.credex .unclear circle{fill:Canvas}
.credex .zero{stroke:currentColor;stroke-opacity:.4}
.credex small{opacity:.75;overflow-wrap:anywhere}
"""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title>
<style>:root{{color-scheme:light dark}}body{{background:Canvas;color:CanvasText}}</style>
</head><body>
{body}
</body></html>
"""

MAX_NAME = 80
"""Longest name in a table, in columns of text."""

BAR_WIDTH = 160
"""Pixels of the drawing of an interval."""


def page(e: ExplanationBase, outputs: Iterable[int] | None = None, *, text: bool = True) -> str:
    """Return a whole page of HTML for some outputs (all): see `body`."""
    return PAGE.format(title=escape(e.method), body=body(e, outputs, text=text))


def body(e: ExplanationBase, outputs: Iterable[int] | None = None, *, text: bool = True) -> str:
    """Return tables of importances and intervals, and the words of a text, without scripts."""
    words = text and _is_text(e)  # their drawing says what was predicted, and how it was made
    out = [f"<style>{STYLE}</style>", '<div class="credex">']
    for j in range(len(e.outputs)) if outputs is None else outputs:
        view, (features, _) = View.of(e, j), largest(e, j)
        rows, power = table(e, view, features)
        name = "" if e.outputs == ("0",) else f": {escape(shorten(clean(e.outputs[j]), MAX_NAME))}"
        out.append(f"<h2>{escape(e.method)}{name}</h2>")
        out.append("" if words else f"<p>{escape(headline(e, j))}</p>")
        columns = [
            ["feature", *(shorten(row.feature, MAX_NAME) for row in rows)],
            ["value", *(shorten(row.value, MAX_NAME // 2) for row in rows)],
            [f"importance{times(power)}", *(row.estimate for row in rows)],
            [f"{percent(view.level)} interval", *(row.interval for row in rows)],
            ["P(>0)", *(row.chance for row in rows)],
        ]
        columns = [column for column in columns if any(column[1:])]
        out.append('<div class="scroll"><table>')
        bars = ["", *_bars(view, features)]
        for bar, cells in zip(bars, zip(*columns, strict=True), strict=True):
            tag = "td" if bar else "th"
            shown = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)
            out.append(f"<tr>{shown}<td>{bar}</td></tr>")
        out.append("</table></div>")
        if words:
            out.append(Plots(e).text(output=j)._repr_html_())
    notes = "<br>".join(map(escape, footer(e)))
    return "\n".join([*out, "" if words else f"<p><small>{notes}</small></p>", "</div>"])


def _bars(view: View, features: list[int]) -> list[str]:
    """Draw each interval as a line with a dot at the importance, all on one scale."""
    ends = np.stack([view.lower, view.mean, view.upper])[:, features]
    known = np.append(ends[np.isfinite(ends)], 0.0)
    scale = (BAR_WIDTH - 10) / max(float(np.ptp(known)), 1e-300)
    zero, out = 5 - known.min() * scale, []
    for x in ends.T:
        low, mean, high = (x - known.min()) * scale + 5
        drawn = f'<path class="zero" d="M{zero:.1f} 0V16"/>'
        if np.isfinite(x).all():
            kind = "up" if x[1] > 0 else "down"
            kind += " unclear" if x[0] <= 0 <= x[2] else ""
            drawn += f'<g class="{kind}"><path stroke-width="2" d="M{low:.1f} 8H{high:.1f}"/>'
            drawn += f'<circle cx="{mean:.1f}" cy="8" r="3.5"/></g>'
        out.append(f'<svg width="{BAR_WIDTH}" height="16" aria-hidden="true">{drawn}</svg>')
    return out
