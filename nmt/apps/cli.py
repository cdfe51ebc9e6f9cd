"""The command line. `main` is the one place that turns an `NmtError` into a message and exit code 1."""

from __future__ import annotations

import errno
import logging
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nmt.apps.commands import (
    adapt,
    compare,
    config,
    data,
    distill,
    evaluate,
    export,
    import_,
    info,
    pack,
    plot,
    push,
    score,
    serve,
    shortlist,
    synthesize,
    train,
    translate,
    vocab,
)
from nmt.apps.commands.outputs import exit_code_of, stop_on_sigterm
from nmt.apps.commands.streams import discard_output, prepare_streams, print_text
from nmt.base.errors import NmtError, printable
from nmt.base.missing_torch import missing_torch

log = logging.getLogger(__name__)


class _Commands(TyperGroup):
    """The commands; one that does not handle Ctrl-C or SIGTERM itself ends with one line and exit code 130 or 143."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            log.info("stopped")
            raise typer.Exit(exit_code_of(stop)) from None


app = typer.Typer(
    name="nmt",
    cls=_Commands,
    help="Train, evaluate, run and ship your own neural translation model.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(train.train)
app.command()(adapt.adapt)
app.command()(distill.distill)
app.command()(translate.translate)
app.command()(synthesize.synthesize)
app.command(name="eval")(evaluate.evaluate)
app.command()(compare.compare)
app.command()(score.score)
app.command()(serve.serve)
app.command()(vocab.vocab)
app.command()(shortlist.shortlist)
app.command()(plot.plot)
app.command()(info.info)
app.command()(pack.pack)
app.command()(push.push)
app.add_typer(config.app, name="config")
app.add_typer(data.app, name="data")
app.add_typer(export.app, name="export")
app.add_typer(import_.app, name="import")

_HINTS = {  # by the error of the system
    errno.ENOSPC: "free some space on this disk, or choose a path on another one",
    errno.EROFS: "choose a path that can be written to",
    errno.ENAMETOOLONG: "choose a shorter name",
}
_LACKS_MEMORY = ("failed to map segment", "annot allocate memory", "can't allocate memory")  # of libraries, and torch
_MORE_MEMORY = "close other programs, or raise the limit (`ulimit -v` shows the one of the shell)"


def _print_version(requested: bool) -> None:
    if requested:
        from nmt import __version__

        print_text(f"nmt {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    # Only rank 0 of a distributed training logs messages; no other command has ranks.
    log_to_stderr(silent=context.invoked_subcommand == "train" and os.environ.get("RANK", "0") != "0")


class ConsoleHandler(logging.Handler):
    """Write messages to standard error, above a progress bar if one is shown.

    Control characters, such as terminal sequences, are shown as escapes. A message that cannot be written, because the
    disk is full or the pipe is closed, is dropped: logging never ends a training run.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write `record`, with the prefix "warning: " if it is a warning."""
        prefix = "warning: " if record.levelno >= logging.WARNING else ""
        line = printable(prefix + record.getMessage(), but="\n\t")
        try:
            if "tqdm" in sys.modules:
                sys.modules["tqdm"].tqdm.write(line, file=sys.stderr)
            else:
                sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):  # ValueError, AttributeError: a stream that is closed, or is None
            pass


def log_to_stderr(*, silent: bool = False) -> None:
    """Show nmt's log messages on standard error; only errors if `silent`. A second call adds no second handler."""
    logger = logging.getLogger("nmt")
    if not any(isinstance(handler, ConsoleHandler) for handler in logger.handlers):
        logger.addHandler(ConsoleHandler())
    logger.setLevel(logging.ERROR if silent else logging.INFO)


def main() -> None:
    """Run the command line and exit."""
    prepare_streams()
    try:
        with stop_on_sigterm():
            app()
    except KeyboardInterrupt as stop:  # while typer builds the commands
        sys.stderr.write("stopped\n")
        sys.exit(exit_code_of(stop))
    except NmtError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        _fail(missing_torch(error))
    except (MemoryError, ImportError, RuntimeError) as error:
        if not (isinstance(error, MemoryError) or any(words in str(error) for words in _LACKS_MEMORY)):
            raise
        _fail(NmtError("there is not enough memory", hint=_MORE_MEMORY))
    except OSError as error:  # a full disk, a folder that cannot be written to
        hint = _HINTS.get(error.errno or 0, "")
        _fail(NmtError(str(error.strerror or error), path=error.filename, hint=hint))


def _fail(error: NmtError) -> None:
    sys.stderr.write(f"error: {error}\n")
    try:
        sys.stdout.flush()
    except OSError:
        discard_output()
    sys.exit(1)
