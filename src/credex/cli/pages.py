"""Commands that show results: report, aggregate, serve; and demo and completion."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from credex.aggregate import aggregate
from credex.cli import options as opt
from credex.cli.commands import progress, say, write_csv
from credex.cli.session import Session
from credex.errors import InputError, OutputError
from credex.explanation import Explanation
from credex.saved_batch import read_batch

__all__ = ["COMMANDS"]


@click.command(cls=opt.Command, short_help="An interactive page of one or more rows.")
@opt.data
@opt.option("Rows", "--row", metavar="N", help="One row: its position, or with --id its id.")
@opt.option("Output", "--out", type=click.Path(dir_okay=False), required=True, help="FILE.html")
@opt.option("Output", "--title", help="Title of the page.")
@opt.machine
@opt.precision
@opt.option("Precision", "--verify", type=int, help="Measure the coverage on so many rows, too.")
@opt.model
@opt.endpoint
def report(
    model: str,
    data: str,
    row: str | None,
    out: str,
    title: str | None,
    verify: int | None,
    **options: Any,
) -> None:
    """Write a page of HTML that needs no other file, of one row (--row) or several (--rows).

    \b
    credex report shop:model new.csv --row 0 --out why.html
    credex report saved why.json --out why.html      an explanation saved by explain --out
    """
    found: Any
    about: dict[str, Any] = {"title": title}
    if model == "saved":
        found = _saved(data)
    else:
        session = Session.open(model, data, options)
        shown = progress(options)
        if row is not None:
            found = session.explainer.explain(session.row(row), progress=shown, **session.call)
        else:
            found = session.explainer.explain_many(
                session.frame(), progress=shown, on_error="record", **session.call
            )
        if verify is not None:
            about["verification"] = session.explainer.verify(
                session.frame(verify), verify, progress=shown, **session.call
            )
    try:
        found.report(out, **about)
    except OSError as cause:
        raise OutputError(f"cannot write {out!r}: {cause.strerror or cause}") from cause
    say(options, f"the page is in {out!r}", {"page": out})


def _saved(path: str) -> Explanation:
    if not Path(path).is_file():
        raise InputError(
            f"there is no file {path!r}; credex explain --row N --out FILE.json makes one"
        )
    return Explanation.from_json(Path(path))


@click.command("aggregate", cls=opt.Command, short_help="What matters over a whole batch.")
@click.argument("folder", metavar="FOLDER")
@opt.option("Rows", "--by", metavar="COLUMN", help="Apart by this column (see explain --keep).")
@opt.option("Output", "--out", type=click.Path(dir_okay=False), help="Write FILE.csv, too.")
@opt.machine
def aggregate_command(folder: str, by: str | None, out: str | None, **options: Any) -> None:
    """Mean importances of the batch in FOLDER, with intervals that include the choice of rows."""
    found = aggregate(read_batch(folder), by=by)
    if out is not None:
        write_csv(found.to_frame(), out)
    say(options, str(found), found.to_frame().to_dict(orient="records"))


@click.command(cls=opt.Command, short_help="A live page: pick a row, watch its intervals.")
@opt.data
@opt.option("Page", "--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@opt.option("Page", "--port", type=int, default=8765, show_default=True, help="0: a free one.")
@opt.option("Page", "--page-token-env", metavar="VARIABLE", help="It holds the page's token.")
@opt.machine
@opt.precision
@opt.model
@opt.endpoint
def serve(
    model: str, data: str, host: str, port: int, page_token_env: str | None, **options: Any
) -> None:
    """Serve a page on this machine until Ctrl-C: rows to pick and edit, intervals that shrink.

    For another machine give --host and --page-token-env.
    """
    from credex.serve import serve as serve_page

    token = None
    if page_token_env is not None:
        token = os.environ.get(page_token_env)
        if not token:
            raise InputError(f"the environment variable {page_token_env!r} is not set")
    session = Session.open(model, data, options)
    rows = session.frame()
    serve_page(session.explainer, rows, host=host, port=port, token=token, width=options["width"])


MODEL_FILE = '''"""A model to try credex with: a random forest that tells tumours apart."""

import pandas as pd
from sklearn.ensemble import RandomForestClassifier

train = pd.read_csv(__file__.replace("tumours.py", "train.csv"))
labels = pd.read_csv(__file__.replace("tumours.py", "labels.csv"))["diagnosis"]
model = RandomForestClassifier(100, random_state=0).fit(train, labels)
'''


@click.command(cls=opt.Command, short_help="A first look, with data and a model of its own.")
@opt.option("Output", "--out", type=click.Path(file_okay=False), help="Write data and model, too.")
@opt.machine
def demo(out: str | None, **options: Any) -> None:
    """Train a forest on tumours, explain why one is called malignant, and say what to try next.

    With --out, the data and the model are written to a folder, for the other commands.
    """
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    from credex.cli.commands import explained
    from credex.shap import BayesSHAP

    found = load_breast_cancer(as_frame=True)
    diagnosis = found.target.map(dict(enumerate(found.target_names))).rename("diagnosis")
    train, new, labels, _ = train_test_split(found.data, diagnosis, random_state=0)
    model = RandomForestClassifier(100, random_state=0).fit(train, labels)
    e = BayesSHAP(model, train, target="malignant").explain(new.iloc[0], width=0.05)
    text = f"Why does this forest call a tumour malignant?\n\n{e}"
    if out is not None:
        _write_demo(Path(out), {"train.csv": train, "labels.csv": labels, "new.csv": new})
        text += f"\n\nNow try, in {out!r}:\n"
        text += "credex explain tumours:model new.csv --background train.csv --row 0 \\\n"
        text += "    --target malignant --width 0.05"
    say(options, text, explained(e, "0"))


def _write_demo(folder: Path, tables: dict[str, Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            table.to_csv(folder / name, index=False)
        (folder / "tumours.py").write_text(MODEL_FILE, encoding="utf-8")
    except OSError as cause:
        raise OutputError(f"cannot write to {str(folder)!r}: {cause.strerror}") from cause


@click.command(short_help="Print a script that completes commands and options.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script for SHELL that completes commands and options.

    \b
    eval "$(credex completion bash)"                  in ~/.bashrc
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    root = ctx.find_root().command
    if kind is not None:
        click.echo(kind(root, {}, "credex", "_CREDEX_COMPLETE").source())


COMMANDS: tuple[click.Command, ...] = (report, aggregate_command, serve, demo, completion)
"""In the order of the help text."""
