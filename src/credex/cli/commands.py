"""Commands that ask the model: explain, forecast, verify, loss."""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from credex.batch import check_jobs
from credex.batch_folder import MANIFEST
from credex.cli import options as opt
from credex.cli.session import Session
from credex.disk import explain_to_folder
from credex.engines.blocks import engine
from credex.errors import InputError, OutputError, check_count
from credex.explanation import Explanation
from credex.models import HttpModel
from credex.options import Options
from credex.portfolio import Work
from credex.saved_batch import SavedBatch
from credex.stopping import Goals, split_call

__all__ = ["COMMANDS", "as_json", "cost", "explained", "say", "write_csv"]


def say(options: dict[str, Any], text: str, found: Any) -> None:
    """Print a result: as JSON, as text, or (--quiet) not at all."""
    if options["as_json"]:
        click.echo(as_json(found))
    elif not options["quiet"]:
        click.echo(_fitted(text.replace("e.to_frame() has all", "--json has all")))


def _fitted(text: str) -> str:
    """Return text whose lines fit on the terminal, if it is one."""
    if not sys.stdout.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, 40)
    lines = [
        # lines of a table stay as they are
        textwrap.wrap(line, width) if len(line) > width and "  " not in line.strip() else [line]
        for line in text.split("\n")
    ]
    return "\n".join("\n".join(line) for line in lines)


def as_json(found: Any) -> str:
    """Return JSON; what is not finite is null."""
    return json.dumps(_plain(found), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, bool | int | str | None) else _text(value)


def _text(value: Any) -> str | None:
    return None if type(value).__name__ in ("NAType", "NaTType") else str(value)


def cost(options: dict[str, Any], rows: float) -> tuple[str, dict[str, float]]:
    """Return the price of model rows, as text and for JSON; nothing without ``--row-cost``."""
    if options["row_cost"] is None:
        return "", {}
    price = rows * options["row_cost"]
    return f", at a price of {price:,.4g}", {"cost": price}


def sent(model: Any) -> tuple[str, dict[str, Any]]:
    """Return what went to an endpoint, as text and for JSON; nothing for other models."""
    if not isinstance(model, HttpModel):
        return "", {}
    u = model.usage
    text = f"; {u.rows_sent:,} rows sent in {u.requests:,} requests ({u.retries:,} of them again)"
    return f"{text}, {u.rows_kept:,} answers known", {"endpoint": vars(u)}


def explained(e: Explanation, row: str) -> dict[str, Any]:
    """Return an explanation of one row for JSON."""
    names = ("method", "level", "outputs", "prediction", "base_value", "n_queries", "n_model_rows")
    about = {name: getattr(e, name) for name in (*names, "converged", "stop_reason", "notes")}
    lines = e.to_frame().to_dict(orient="records")
    return {"row": row, **about, "importances": lines}


def progress(options: dict[str, Any]) -> bool | None:
    """Return whether to show progress: not if quiet, else on a terminal only."""
    return False if options["quiet"] else None


@click.command(cls=opt.Command, short_help="Explain one row, or all rows into a folder.")
@opt.data
@opt.option("Rows", "--row", metavar="N", help="One row: its position, or with --id its id.")
@opt.option("Output", "--out", type=click.Path(), help="FOLDER, or FILE.json for one row.")
@opt.machine
@opt.precision
@opt.batch
@opt.model
@opt.endpoint
def explain(model: str, data: str, row: str | None, out: str | None, **options: Any) -> None:
    """Explain rows of DATA: one as a table, all of them into a folder of Parquet files.

    \b
    credex explain shop:model new.csv --row 0 --width 0.05
    credex explain model.skops new.parquet --background train.parquet --out why --jobs -1
    cat new.csv | credex explain http://host:5000 - --background train.csv --json

    A job that was stopped goes on with --resume. Rows that cannot be explained have their error
    in the result.
    """
    batch = out is not None and row is None
    if not batch and (options["resume"] or options["overwrite"]):
        raise InputError("--resume and --overwrite go with --out FOLDER")
    if not batch and row is None and not options["as_json"]:
        raise InputError("give --row N for one row, --out FOLDER for all, or --json for a pipe")
    if row is not None and out is not None and not out.endswith(".json"):
        raise InputError(f"--out {out}: one row is written to a file, FILE.json")
    session = Session.open(model, data, options)
    if batch:
        _into_folder(session, str(out), options)
    elif row is None:
        _as_lines(session, options)
    else:
        _one(session, row, out, options)


def _one(session: Session, row: str, out: str | None, options: dict[str, Any]) -> None:
    x = session.row(row)
    e = session.explainer.explain(x, progress=progress(options), **session.call)
    if out is not None:
        try:
            e.to_json(out)
        except OSError as cause:
            raise OutputError(f"cannot write {out!r}: {cause.strerror}") from cause
    price, about = cost(options, e.n_model_rows)
    told, used = sent(session.model)
    after = f"\n{e.n_model_rows:,} model rows{price}{told}" if price or told else ""
    say(options, f"{e}{after}", {**explained(e, row), **about, **used})


def _as_lines(session: Session, options: dict[str, Any]) -> None:
    """Write a line of JSON for each feature of each row, as soon as its piece is done."""
    pieces = session.pieces(options["partition_rows"])
    frames = session.explainer.frames(
        pieces, id=options["id"], keep=options["keep"], **session.call
    )
    for frame in frames:
        for record in frame.to_dict(orient="records"):
            click.echo(as_json(record))


def _into_folder(session: Session, out: str, options: dict[str, Any]) -> None:
    begun = time.perf_counter()
    goals, opts = split_call(session.call, session.explainer.options)
    rows = check_count("partition_rows", options["partition_rows"])
    new = not Path(out).exists()
    try:
        batch = _explained(session, goals, opts, out, rows, options)
    except InputError:
        if new:
            _forget(Path(out))
        raise
    if len(batch) == 0:
        _forget(Path(out))
        raise InputError(f"{session.data.name!r} has no rows to explain")
    _summary(session, batch, time.perf_counter() - begun, options)


def _forget(folder: Path) -> None:
    """Remove a folder that was made for a batch, if nothing is in it that took work."""
    if folder.is_dir() and {file.name for file in folder.iterdir()} <= {MANIFEST}:
        shutil.rmtree(folder)


def _explained(
    session: Session, goals: Goals, opts: Options, out: str, rows: int, options: dict[str, Any]
) -> SavedBatch:
    return explain_to_folder(
        Work(session.explainer, goals, opts, options["id"], tuple(options["keep"])),
        session.pieces(rows),
        out,
        resume=options["resume"],
        overwrite=options["overwrite"],
        partition_rows=rows,
        n_workers=check_jobs(options["jobs"]),
        progress=progress(options),
        engine=engine(options["engine"]),
    )


def _summary(session: Session, batch: SavedBatch, seconds: float, options: dict[str, Any]) -> None:
    errors, n, model_rows = batch.errors, len(batch), batch.n_model_rows
    price, about = cost(options, model_rows)
    told, used = sent(session.model)
    text = f"{n - len(errors):,} rows explained in {str(batch.path)!r}: "
    text += f"{model_rows:,} model rows{price}, {seconds:.3g} s{told}"
    if len(errors):
        head = errors.iloc[0]
        text += f"\n{len(errors):,} rows could not be explained, such as row {head['row']}: "
        text += str(head["error"])
    found = {"folder": str(batch.path), "complete": batch.complete, "rows": n}
    found |= {"errors": len(errors), "model_rows": model_rows, "seconds": round(seconds, 3)}
    say(options, text, {**found, **about, **used})
    if len(errors) == n:
        click.get_current_context().exit(1)


@click.command(cls=opt.Command, short_help="What a width would cost, before it is spent.")
@opt.data
@opt.option("Rows", "--row", metavar="N", help="Of this row; default: of some, for all of DATA.")
@opt.option("Rows", "--sample", type=int, default=5, show_default=True, help="Rows to look at.")
@opt.machine
@opt.precision
@opt.option("Precision", "--seed-queries", type=int, default=200, show_default=True, help="Spent.")
@opt.model
@opt.endpoint
def forecast(
    model: str, data: str, row: str | None, sample: int, seed_queries: int, **options: Any
) -> None:
    """Say how many queries --width takes: for one row, or for all rows of DATA.

    The seed queries are asked; they are counted in the answer.
    """
    if options["width"] is None:
        raise InputError("give --width: how wide the intervals may be")
    session = Session.open(model, data, options)
    width = {"width": options["width"], "seed_queries": seed_queries}
    if row is not None:
        f = session.explainer.forecast(session.row(row), row_cost=options["row_cost"], **width)
        names = ("queries", "low", "high", "model_rows", "seconds", "n_queries", "width", "level")
        say(options, str(f), {name: getattr(f, name) for name in (*names, "cost")})
        return
    some = session.frame(check_count("sample", sample))
    found = [session.explainer.forecast(some.iloc[[i]], **width) for i in range(len(some))]
    spent = [f.asked.n_model_rows for f in found]
    each = np.array([n + f.model_rows for n, f in zip(spent, found, strict=True)])
    seconds = float(np.mean([f.asked.seconds + f.seconds for f in found]))
    n = session.pieces().__length_hint__() or len(session.frame())
    total = n * float(np.mean(each))
    price, about = cost(options, total)
    text = f"{n:,} rows to width {options['width']:g}: about {total:,.0f} model rows{price}, "
    text += f"{n * seconds:,.3g} s one after another\n"
    text += f"by {len(some)} of them: {each.min():,.0f} to {each.max():,.0f} model rows each, "
    text += f"mean {each.mean():,.0f}; {sum(spent):,} spent on this"
    numbers = {"rows": n, "model_rows": total, "seconds": n * seconds, "spent": sum(spent)}
    say(options, text, {**numbers, "model_rows_each": each, **about})


@click.command(cls=opt.Command, short_help="Measure how often the intervals hold.")
@opt.data
@opt.option(
    "Rows", "-n", "--sample", type=int, default=50, show_default=True, help="Rows to check."
)
@opt.machine
@opt.precision
@opt.model
@opt.endpoint
def verify(model: str, data: str, sample: int, **options: Any) -> None:
    """Measure on your own model how often the intervals contain the true value.

    Each row is explained as asked and then again, exactly or with far more queries.
    """
    session = Session.open(model, data, options)
    rows = session.frame(check_count("sample", sample))
    v = session.explainer.verify(rows, sample, progress=progress(options), **session.call)
    price, about = cost(options, v.n_model_rows)
    names = ("coverage", "low", "high", "level", "rows", "features", "width", "exact", "verdict")
    found = {name: getattr(v, name) for name in (*names, "n_model_rows")}
    say(options, f"{v}\n{v.n_model_rows:,} model rows{price}", {**found, **about})


@click.command(cls=opt.Command, short_help="What each feature takes off the model's loss.")
@opt.data
@opt.option("Rows", "--label", metavar="COLUMN", required=True, help="Column of known labels.")
@opt.option(
    "Precision",
    "--loss",
    type=click.Choice(["squared", "cross-entropy"]),
    required=True,
    help="Squared error of one output (--target), or cross-entropy of all.",
)
@opt.option("Output", "--out", type=click.Path(dir_okay=False), help="Write FILE.csv, too.")
@opt.machine
@opt.precision
@opt.model
@opt.endpoint
def loss(model: str, data: str, label: str, loss: str, out: str | None, **options: Any) -> None:
    """Shares of the loss (SAGE values) over all rows of DATA, with intervals.

    \b
    credex loss shop:model new.csv --background train.csv --label y --loss squared

    Here --width is that of a share's interval, and --queries are model rows for all of them.
    """
    if loss == "cross-entropy" and options["target"] is not None:
        raise InputError("--target goes with --loss squared; cross-entropy reads all outputs")
    session = Session.open(model, data, {**options, "keep": (label,)})
    X, y = session.labelled(label)
    name = "squared error" if loss == "squared" else loss
    found = session.explainer.explain_loss(
        X, y, loss=name, progress=progress(options), **session.call
    )
    frame = found.to_frame()
    if out is not None:
        write_csv(frame, out)
    price, about = cost(options, found.n_model_rows)
    total = [getattr(found.total, n)[0] for n in ("value", "lower", "upper")]
    numbers = {n: getattr(found, n) for n in ("base_loss", "model_loss", "n_model_rows", "notes")}
    numbers |= {
        "loss": name,
        "level": found.level,
        "total": total,
        **about,
        **sent(session.model)[1],
    }
    after = f"\n{found.n_model_rows:,} model rows{price}" if price else ""
    say(options, f"{found}{after}", {**numbers, "shares": frame.to_dict(orient="records")})


def write_csv(frame: Any, out: str) -> None:
    """Write a frame as FILE.csv."""
    try:
        frame.to_csv(out, index=False)
    except OSError as cause:
        raise OutputError(f"cannot write {out!r}: {cause.strerror or cause}") from cause


COMMANDS: tuple[click.Command, ...] = (explain, forecast, verify, loss)
"""In the order of the help text."""
