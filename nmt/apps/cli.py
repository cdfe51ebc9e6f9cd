"""The command line. `main` is the one place that turns an `NmtError` into a message and an exit code."""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from nmt.apps.commands.streams import discard_output, exit_code_of, prepare_streams, print_text, stop_on_sigterm
from nmt.base.errors import NmtError, UsageError, missing_torch, printable

log = logging.getLogger(__name__)

COMMANDS = {
    "train": ("train", "Train a model on a parallel corpus."),
    "adapt": ("adapt", "Adapt a model to another domain."),
    "distill": ("distill", "Train a student on the translations of a teacher."),
    "translate": ("translate", "Translate text, files, documents or standard input."),
    "synthesize": ("synthesize", "Make synthetic sentence pairs from monolingual text."),
    "eval": ("evaluate", "Compute BLEU, chrF and TER, with confidence intervals."),
    "compare": ("compare", "Compare models: scores, size, minutes, settings that differ."),
    "score": ("score", "Compute the log-probability of given translations."),
    "serve": ("serve", "Serve models over HTTP, with a web page."),
    "vocab": ("train", "Train only the tokenizer."),
    "shortlist": ("shortlist", "Build the lexical shortlist of a run, and measure its effect."),
    "plot": ("info", "Draw the learning curves of a run, or of several."),
    "info": ("info", "Describe a model, or the corpora and runs of a folder."),
    "pack": ("pack", "Pack a run into one file, for use with --model FILE."),
    "push": ("pack", "Upload a run to the Hugging Face Hub."),
    "config": ("config", "Write, show and check a configuration file."),
    "data": ("data", "Find problems in parallel text, and clean it."),
    "export": ("export", "Export a run for another runtime."),
    "import": ("import_", "Convert a model trained with another toolkit into a run."),
}
"""For each command, its module in `nmt.apps.commands`, imported only if it runs, and its first line of help."""

_OPTION = re.compile(r"--\w")

RARE_PANEL = "Rarely needed"  # the title of the last group of options


class Command(TyperCommand):
    """A command whose help groups the options by `rich_help_panel`: the main ones first, those of rare use last."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options to `formatter`."""
        panels: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            panel = "Arguments" if parameter.param_type_name == "argument" else "Options"
            record = parameter.get_help_record(ctx)
            if record is not None:
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or panel, []).append(record)
        for title, records in sorted(panels.items(), key=lambda panel: panel[0] == RARE_PANEL):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read `args`; of an unknown option that may be a text, tell how to write one that begins with a dash."""
        try:
            return super().parse_args(ctx, args)
        except Exception as caught:
            error: Any = caught
            if type(error).__name__ == "NoSuchOption" and not _OPTION.match(error.option_name):
                error.message += '. Write -- before a text that begins with a dash: -- "- text"'
            raise

    def invoke(self, ctx: Any) -> Any:
        """Refuse options that cannot be combined, then run the command."""
        from nmt.apps.commands.combinations import refuse_combinations

        refuse_combinations(ctx)
        return super().invoke(ctx)


@cache
def load_command(name: str) -> Any:
    """Import the module of a command of `COMMANDS`, and return the command, or the group of commands."""
    module = import_module(f"nmt.apps.commands.{COMMANDS[name][0]}")
    holder = typer.Typer(rich_markup_mode=None, callback=lambda: None)
    if hasattr(module, "app"):
        for command in module.app.registered_commands:
            command.cls = Command
        holder.add_typer(module.app, name=name)
    else:
        holder.command(name, cls=Command)(getattr(module, "evaluate" if name == "eval" else name))
    return typer.main.get_group(holder).commands[name]


class _Lazy(TyperCommand):
    """A command of `COMMANDS` whose module has not been imported."""

    def make_context(self, info_name: Any, *arguments: Any, **options: Any) -> Any:
        return load_command(info_name).make_context(info_name, *arguments, **options)


class _Commands(TyperGroup):
    """The commands; one that does not handle Ctrl-C or SIGTERM itself ends with one line and exit code 130 or 143."""

    def __init__(self, **attributes: Any):
        lazy = {name: _Lazy(name, help=text) for name, (_, text) in COMMANDS.items()}
        super().__init__(**{**attributes, "commands": lazy})

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().make_context(*arguments, **options)
        except KeyboardInterrupt as stop:  # while typer imports what reads arguments
            sys.stderr.write("stopped\n")
            raise typer.Exit(exit_code_of(stop)) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as fault:
            fault.message = fault.message.removeprefix("Value error, ")  # pydantic's words for what typer raised
            raise
        except KeyboardInterrupt as stop:
            log.info("stopped")
            raise typer.Exit(exit_code_of(stop)) from None


app = typer.Typer(
    name="nmt",
    cls=_Commands,
    help="Train, evaluate, run and ship your own neural translation model.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def all_commands() -> Iterator[tuple[str, Any]]:
    """Yield each command with its full name, such as `config new`. Imports the modules of all of them."""
    for name in COMMANDS:
        command = load_command(name)
        for inner, found in getattr(command, "commands", {"": command}).items():
            yield f"{name} {inner}".strip(), found


_HINTS = {  # by the error of the system
    errno.ENOSPC: "free some space on this disk, or choose a path on another one",
    errno.EACCES: "choose a path that you may use, or ask its owner for the permission",
    errno.EFBIG: "choose a path on another disk, or raise the limit (`ulimit -f` shows the one of the shell)",
    errno.EROFS: "choose a path that can be written to",
    errno.ENAMETOOLONG: "choose a shorter name",
}
_LACKS_MEMORY = (  # what libraries, torch and Python say
    "failed to map segment",
    "annot allocate memory",
    "can't allocate memory",
    "can't start new thread",
    "error return without exception set",
)
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

    Control characters, such as terminal sequences, are shown as escapes. `StandardError` drops what cannot be written.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write `record`, with the prefix "warning: " if it is a warning."""
        prefix = "warning: " if record.levelno >= logging.WARNING else ""
        line = printable(prefix + record.getMessage(), but="\n\t")
        if "tqdm" in sys.modules:
            sys.modules["tqdm"].tqdm.write(line, file=sys.stderr)
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()


def log_to_stderr(*, silent: bool) -> None:
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
    except (MemoryError, ImportError, RuntimeError, SystemError) as error:
        if not (isinstance(error, MemoryError) or any(words in str(error) for words in _LACKS_MEMORY)):
            raise
        _fail(NmtError("there is not enough memory", hint=_MORE_MEMORY))
    except OSError as error:  # a full disk, a folder that cannot be written to
        path = error.filename2 or error.filename  # of two, the second one is written
        _fail(NmtError(str(error.strerror or error), path=path, hint=_HINTS.get(error.errno or 0, "")))


def _fail(error: NmtError) -> None:
    sys.stderr.write(f"error: {error}\n")
    try:
        sys.stdout.flush()
    except OSError:
        discard_output()
    sys.exit(2 if isinstance(error, UsageError) else 1)
