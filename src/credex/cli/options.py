"""Options that the commands share, in sections of the help text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from credex.cli.formats import FORMATS
from credex.engines.blocks import ENGINES

__all__ = [
    "DEBUG",
    "Command",
    "batch",
    "data",
    "endpoint",
    "machine",
    "model",
    "option",
    "precision",
]

F = TypeVar("F", bound=Callable[..., Any])
DEBUG = "credex.debug"
"""Key of a click context: whether errors come with their traceback."""


class Option(click.Option):
    """An option with a section of the help text."""

    def __init__(self, *args: Any, section: str, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.section = section


class Command(click.Command):
    """A command whose help text has sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                name = getattr(parameter, "section", MACHINE)
                sections.setdefault(name, []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)


def option(section: str, *names: str, **keywords: Any) -> Callable[[F], F]:
    """Return a decorator that adds an option in a section."""
    return click.option(*names, cls=Option, section=section, **keywords)


def _all(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    def together(function: F) -> F:
        for decorate in reversed(decorators):
            function = decorate(function)
        return function

    return together


def _debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's
    ctx.meta[DEBUG] = value


MACHINE = "Output"
ROWS = "Rows"
data: Callable[[F], F] = _all(
    click.argument("model", metavar="MODEL"),
    click.argument("data", metavar="DATA"),
    option(ROWS, "--rows", metavar="A:B", help="Rows A to B − 1 only, counted from 0."),
    option(ROWS, "--id", metavar="COLUMN", help="Column that names a row; default: its position."),
    option(ROWS, "--drop", metavar="COLUMN", multiple=True, help="Leave this column out."),
    option(
        ROWS,
        "--background",
        metavar="FILE|K",
        help="Rows that stand for a switched-off feature, usually the training data; or K rows of "
        "DATA. Default: 10000 of DATA.",
    ),
    option(
        ROWS,
        "--format",
        "form",
        type=click.Choice(list(FORMATS)),
        help="Of DATA. Default: by its name; csv for a pipe.",
    ),
)

PRECISION = "Precision"
precision: Callable[[F], F] = _all(
    option(
        PRECISION,
        "--method",
        type=click.Choice(["shap", "lime"]),
        default="shap",
        show_default=True,
        help="BayesSHAP or BayesLIME.",
    ),
    option(PRECISION, "--target", metavar="CLASS|INDEX", help="Output to explain; default: all."),
    option(PRECISION, "--width", type=float, help="Ask until no interval is wider than this."),
    option(PRECISION, "--queries", type=int, help="Queries for a row, no more."),
    option(PRECISION, "--max-queries", type=int, help="Ceiling on what --width may take."),
    option(PRECISION, "--level", type=float, default=0.95, show_default=True, help="Of intervals."),
    option(PRECISION, "--link", type=click.Choice(["identity", "logit", "log"]), hidden=True),
    option(PRECISION, "--posterior", type=click.Choice(["auto", "linear", "gp"]), hidden=True),
    option(
        PRECISION, "--seed", type=int, default=0, show_default=True, help="Same seed, same result."
    ),
    option(PRECISION, "--noisy", is_flag=True, help="The model answers at random."),
)

MODEL = "Model"
model: Callable[[F], F] = _all(
    option(MODEL, "--trust-pickle", is_flag=True, help="Load .joblib, .pkl and MLflow: runs code."),
    option(MODEL, "--trust", metavar="TYPE", multiple=True, help="Type in a .skops file to load."),
    option(MODEL, "--output", metavar="NAME", help="Output of an ONNX or KServe model."),
    option(MODEL, "--max-rows", type=int, help="Ceiling on the rows sent to the model."),
    option(MODEL, "--row-cost", type=float, help="Price of a model row; costs are printed."),
)

ENDPOINT = "Model behind http(s)://"
endpoint: Callable[[F], F] = _all(
    option(ENDPOINT, "--protocol", type=click.Choice(["mlflow", "kserve"]), help="By the address."),
    option(ENDPOINT, "--timeout", type=float, default=30.0, show_default=True, help="Seconds."),
    option(ENDPOINT, "--retries", type=int, default=4, show_default=True, help="Of one request."),
    option(ENDPOINT, "--rate", type=float, help="Requests in a second, at most."),
    option(ENDPOINT, "--concurrency", type=int, help="Requests at the same time; default 4."),
    option(ENDPOINT, "--request-rows", type=int, default=1000, show_default=True, help="At most."),
    option(ENDPOINT, "--cache", metavar="FILE", help="Keep answers here, for later runs, too."),
    option(ENDPOINT, "--token-env", metavar="VARIABLE", help="It holds a bearer token."),
    option(ENDPOINT, "--header", multiple=True, metavar="'NAME: VALUE'", help="Sent with all."),
)

machine: Callable[[F], F] = _all(
    option(MACHINE, "--json", "as_json", is_flag=True, help="JSON on the standard output."),
    option(MACHINE, "--quiet", "-q", is_flag=True, help="Nothing but errors."),
    option(
        MACHINE,
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_debug,
        help="Errors with their traceback.",
    ),
)

BATCH = "Batch"
batch: Callable[[F], F] = _all(
    option(
        BATCH,
        "--keep",
        metavar="COLUMN",
        multiple=True,
        help="Repeat this column, which is no feature.",
    ),
    option(BATCH, "--resume", is_flag=True, help="Go on with the batch in FOLDER."),
    option(BATCH, "--overwrite", is_flag=True, help="Begin anew in FOLDER."),
    option(
        BATCH,
        "--engine",
        type=click.Choice(list(ENGINES)),
        default="local",
        show_default=True,
        help="What has the workers.",
    ),
    option(BATCH, "--jobs", type=int, default=1, show_default=True, help="Workers; −1: all cores."),
    option(
        BATCH,
        "--partition-rows",
        type=int,
        default=1000,
        show_default=True,
        help="Rows of a file: what a killed job may lose.",
    ),
)
