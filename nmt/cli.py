"""The command line. `main` is the one place that turns an `NmtError` into a message and exit code 1."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

from nmt.commands import config, evaluate, export, plot, score, train, translate, vocab
from nmt.errors import NmtError, printable

app = typer.Typer(
    name="nmt",
    help="Train, evaluate, run and ship your own neural translation model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(train.train)
app.command()(translate.translate)
app.command(name="eval")(evaluate.evaluate)
app.command()(score.score)
app.command()(vocab.vocab)
app.command()(plot.plot)
app.add_typer(config.app, name="config")
app.add_typer(export.app, name="export")


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    _log_to_stderr()
    if version:
        from nmt import __version__

        typer.echo(f"nmt {__version__}")
        raise typer.Exit


class _ConsoleHandler(logging.Handler):
    """Write messages to standard error, above a progress bar if one is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write `record`; warnings say that they are one."""
        prefix = "warning: " if record.levelno >= logging.WARNING else ""
        line = prefix + printable(record.getMessage(), but="\n")  # file names too are in it
        if "tqdm" in sys.modules:
            sys.modules["tqdm"].tqdm.write(line, file=sys.stderr)
        else:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


def _log_to_stderr() -> None:
    """Show the messages of nmt, once; of several processes that train together, rank 0 alone speaks."""
    logger = logging.getLogger("nmt")
    if not any(isinstance(handler, _ConsoleHandler) for handler in logger.handlers):
        logger.addHandler(_ConsoleHandler())
    logger.setLevel(logging.INFO if os.environ.get("RANK", "0") == "0" else logging.ERROR)


def main() -> None:
    """Run the command line and exit."""
    try:
        app()
    except NmtError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
    except OSError as error:  # a full disk, a folder that cannot be written to
        sys.stderr.write(f"error: {NmtError(str(error.strerror or error), path=error.filename)}\n")
        sys.exit(1)
