"""The group of commands, and how errors end them: one line and an exit code."""

from __future__ import annotations

import os
import re
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import click

from credex.cli import commands, pages
from credex.cli.options import DEBUG
from credex.errors import InputError, MissingExtraError, OutputError, StoppedRun
from credex.saved_batch import SavedBatch

__all__ = ["main"]

FAILED, WRONG, INTERRUPTED = 1, 2, 130
"""Exit codes: the model or the run failed; arguments, data or folder cannot be used; Ctrl-C."""

NO_NAMES = "X has feature names"
"""How scikit-learn's warning about a model trained on arrays begins; columns are in their order."""


class Cli(click.Group):
    """The group; errors of all commands end here."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they are of use."""
        del ctx
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; print what went wrong in one line."""
        warnings.showwarning = _one_line
        warnings.filterwarnings("ignore", message=NO_NAMES)
        os.environ.setdefault("PYTHONWARNINGS", f"ignore:{NO_NAMES}")  # for worker processes
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - said below, with its type
            if ctx.meta.get(DEBUG):
                click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
            text, code = _told(error)
            click.echo(f"Error: {in_options(text, self)}", err=True)
            ctx.exit(code)


def _told(error: BaseException) -> tuple[str, int]:
    """Return what is printed for an error, and the exit code."""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    text = f"{error}{notes}"
    if isinstance(error, KeyboardInterrupt) and not isinstance(error, StoppedRun):
        in_folder = isinstance(getattr(error, "partial", None), SavedBatch)
        return (text if in_folder else "interrupted"), INTERRUPTED
    if isinstance(error, InputError | OutputError | MissingExtraError):
        return text, WRONG
    if type(error).__module__.startswith("credex"):
        return text, FAILED
    return f"{type(error).__name__}: {text}; --debug shows where", FAILED


def in_options(text: str, group: click.Group) -> str:
    """Return a message of the library with its keywords as options of the command line."""
    text = " ".join(text.split())
    text = re.sub(r"explain_many\([^)]*resume=True\)", "the same command with --resume", text)
    named = {p.name: p.opts[0] for c in group.commands.values() for p in c.params}
    for name, flag in named.items():
        if flag.startswith("--"):
            text = re.sub(rf"(?<![\w-]){name}=(True\b)?", _flag(flag), text)
    return text


def _flag(flag: str) -> Any:
    def made(found: re.Match[str]) -> str:
        value = found.string[found.end() : found.end() + 1]
        return flag if found[1] or not value.strip(" ,;.)") else f"{flag} "

    return made


def _one_line(message: Any, *_: Any, **__: Any) -> None:
    click.echo(f"Warning: {' '.join(str(message).split())}", err=True)


@click.group(
    cls=Cli,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 88},
)
@click.version_option(package_name="credex", prog_name="credex", message="%(prog)s %(version)s")
def cli() -> None:
    """Explain predictions of any model, and say how far each number can be trusted.

    \b
    credex demo                                      a first look
    credex explain MODEL DATA --row 3                one row, as a table
    credex explain MODEL DATA --out FOLDER           all rows, as Parquet files

    MODEL is package.module:attribute, a file (.skops, .onnx; .joblib and .pkl with
    --trust-pickle), an MLflow model, or an http(s):// endpoint. DATA is a file or a folder
    of files (CSV, JSON lines, Parquet, Arrow), or - for a pipe.

    Exit codes: 0 done, 1 the model failed or the run was stopped, 2 something given cannot be
    used, 130 Ctrl-C.
    """


for command in (*commands.COMMANDS, *pages.COMMANDS):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    cli.main(args=None if arguments is None else list(arguments), prog_name="credex")
