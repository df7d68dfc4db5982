"""What an auditor asks: how the numbers were made, what the intervals include, how to repeat it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Protocol, runtime_checkable

from credex import formatting
from credex.cells import clean
from credex.errors import InputError
from credex.explanation_base import ExplanationBase
from credex.report.data import MAX_LINE, row_name
from credex.typing import Floats

NOT_MEASURED = (
    "Not measured for this report. <code>v = explainer.verify(X)</code> explains rows of your own "
    "data, compares the intervals with exact values or a much larger run, and counts how often "
    "they hold; <code>report(path, verification=v)</code> puts the result here."
)


@runtime_checkable
class Coverage(Protocol):
    """What the report reads of a `credex.Verification`."""

    level: float
    curve: Floats
    n_model_rows: int


def check_verification(verification: Any) -> Coverage | None:
    """Raise unless this is ``None`` or what ``explainer.verify`` returned."""
    if verification is None or isinstance(verification, Coverage):
        return verification
    raise InputError(
        f"verification must be what explainer.verify(X) returned; got {type(verification).__name__}"
    )


def single(e: ExplanationBase, verification: Coverage | None) -> str:
    """Return the section on one explanation."""
    share = f"{e.model_seconds:.2g} s of it in the model"
    facts = [
        *_made(e),
        ("Instance", "without a label" if e.label is None else row_name(e.label)),
        ("Queries", f"{e.n_queries:,}, which took {e.n_model_rows:,} model rows"),
        ("Time", f"{e.seconds:.2g} s, {share}"),
        ("End", formatting.ending(e)),
        ("Requested precision", "met" if e.converged else _unmet(e)),
    ]
    return _section(e, facts, e.notes, verification, call="explain(x")


def batch(
    explained: Sequence[ExplanationBase],
    counts: Iterable[tuple[str, str]],
    lost: Sequence[str],
    verification: Coverage | None,
) -> str:
    """Return the section on a batch; ``lost`` says what became of rows without explanation."""
    if not explained:
        return _wrapped(_table([*counts, *_written()]) + _listed("Rows without explanation", lost))
    first, n = explained[0], len(explained)
    met = sum(e.converged for e in explained)
    reasons: dict[str, int] = {}
    for e in explained:
        reasons[formatting.ending(e)] = reasons.get(formatting.ending(e), 0) + 1
    asked = sorted(e.n_queries for e in explained)
    facts = [
        *_made(first),
        *counts,
        ("Queries of a row", f"{asked[0]:,} to {asked[-1]:,}, median {asked[n // 2]:,}"),
        ("End", "; ".join(f"{words} ({count} rows)" for words, count in reasons.items())),
        ("Requested precision", f"met in {met} of {n} rows"),
    ]
    notes = list(dict.fromkeys(note for e in explained for note in e.notes))
    return _section(first, facts, notes, verification, call="explain_many(X", lost=lost)


def _made(e: ExplanationBase) -> list[tuple[str, str]]:
    model = e.settings.get("model") or "not recorded"
    digest = e.data_digest or "none: the data are not a table"
    outputs = ", ".join(formatting.shorten(clean(o), 60) for o in e.outputs[:10])
    more = f" and {len(e.outputs) - 10} more" if len(e.outputs) > 10 else ""
    link = e.settings.get("link", "identity")
    return [
        ("Method", f"{e.method}, {e.posterior} posterior, {e.sampler} sampling, recipe {e.recipe}"),
        ("Model", str(model)),
        ("Outputs", f"{outputs}{more}" + ("" if link == "identity" else f"; link: {link}")),
        ("Training data (digest)", digest),
        ("Seed", str(e.settings.get("seed"))),
        ("Level of the run", formatting.percent(e.level)),
        ("Limits of the call", ", ".join(_limits(e)) or _no_limits(e)),
    ]


def _no_limits(e: ExplanationBase) -> str:
    return "default" if "limits" in e.settings else "not recorded"


def _unmet(e: ExplanationBase) -> str:
    return "none was requested" if {*e.settings.get("limits", {})} == {"queries"} else "not met"


def _written() -> list[tuple[str, str]]:
    import credex

    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return [("Report written", f"{now}, by credex {credex.__version__}")]


def _section(
    e: ExplanationBase,
    facts: Iterable[tuple[str, str]],
    notes: Iterable[str],
    verification: Coverage | None,
    *,
    call: str,
    lost: Sequence[str] = (),
) -> str:
    includes, excludes = scope(e)
    return _wrapped(
        _table([*facts, *_written()])
        + _listed("Notes of the run", [clean(n) for n in notes])
        + _listed("Rows without explanation", lost)
        + _coverage(verification)
        + _listed("The intervals include", includes)
        + _listed("They do not include", excludes)
        + _reproduce(e, call)
    )


def scope(e: ExplanationBase) -> tuple[list[str], list[str]]:
    """Say what the intervals include, and what they do not."""
    resampled = bool(e.settings.get("options", {}).get("background_uncertainty"))
    in_turn = any(n.startswith("intervals include coalitions and background") for n in e.notes)
    if e.exact and not resampled:
        includes = ["nothing: every coalition was asked, so the importances are exact"]
    elif e.method == "BayesSHAP":
        includes = ["the coalitions of features that were not asked"]
        if in_turn or resampled:
            includes.append("the background rows that were not asked")
    else:
        includes = ["the perturbations of the instance that were not asked"]
    excludes = [
        "errors of the model: the importances say what the model does, not whether it is right",
        "causes: that a feature moves the prediction does not mean that it moves the outcome",
        "the choice of method, of the data behind it, and of what replaces a feature",
    ]
    if resampled:
        includes.append("that the background rows are a sample from a larger population")
    elif e.method == "BayesSHAP" and e.data_digest is not None:
        excludes.append("that the background rows are a sample from a larger population")
    if e.method == "BayesLIME":
        excludes.append(
            "how far the model is from linear around the instance: R² and the verdict say that"
        )
    excludes.append(
        "that several intervals hold at the same time: each holds for one feature "
        "(in Python, e.interval(simultaneous=True) holds for all)"
    )
    return includes, excludes


def _coverage(verification: Coverage | None) -> str:
    if verification is None:
        return f"<h3>Measured coverage</h3><p>{NOT_MEASURED}</p>"
    said = f"{verification}; the check took {verification.n_model_rows:,} model rows"
    body = "".join(
        f'<tr><th scope="row">{escape(formatting.percent(level))}</th><td>{held:.1%}</td>'
        f"<td>{low:.1%} … {high:.1%}</td></tr>"
        for level, held, low, high in verification.curve.tolist()
    )
    head = '<th scope="col">Level</th><th scope="col">Held</th><th scope="col">95 % interval</th>'
    table = (
        f'<table class="facts numbers"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )
    return f"<h3>Measured coverage</h3><p>{escape(said)}.</p>{table if body else ''}"


def _reproduce(e: ExplanationBase, call: str) -> str:
    code = (
        f"explainer = cx.{e.method}(model, data, **options)  # model and data as above\n"
        f"explainer.{call}, seed={e.settings.get('seed')}, level={e.level:g}"
        f"{''.join(f', {given}' for given in _limits(e))})\n\n"
    )
    settings = json.dumps(e.settings, indent=1, default=_text, ensure_ascii=False)
    lines = "\n".join(formatting.shorten(_visible(line), MAX_LINE) for line in settings.split("\n"))
    return (
        "<h3>To reproduce</h3><p>The same model, data, seed and settings give the same queries "
        "and, up to the last digits, the same numbers, unless a clock ended the run or the model "
        "answers at random. <code>to_json()</code> (of a batch: <code>save()</code>) keeps all "
        "queries and answers.</p>"
        f"<pre>{escape(code + lines)}</pre>"
    )


def _limits(e: ExplanationBase) -> list[str]:
    return [f"{name}={value}" for name, value in e.settings.get("limits", {}).items()]


def _text(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def _visible(line: str) -> str:
    """Keep the indentation, and no character that would turn or break the line."""
    kept = line.lstrip(" ")
    return " " * (len(line) - len(kept)) + clean(kept)


def _table(facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        f"<td><bdi>{escape(formatting.shorten(clean(words), MAX_LINE))}</bdi></td></tr>"
        for name, words in facts
    )
    return f'<table class="facts"><tbody>{rows}</tbody></table>'


def _listed(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    most = 50
    shown = [formatting.shorten(clean(line), MAX_LINE) for line in lines[:most]]
    shown += [f"… and {len(lines) - most} more"] if len(lines) > most else []
    items = "".join(f"<li>{escape(line)}</li>" for line in shown)
    return f"<h3>{escape(title)}</h3><ul>{items}</ul>"


def _wrapped(body: str) -> str:
    return (
        '<section class="audit" aria-labelledby="audit"><h2 id="audit">For the auditor</h2>'
        f"{body}</section>"
    )
