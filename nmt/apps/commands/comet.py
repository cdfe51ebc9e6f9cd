"""Prepare COMET for `nmt eval`: install its environment and download its model if the user agrees."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.apps.commands.evaluation import Metrics
from nmt.apps.commands.test_sets import TestSet
from nmt.base.errors import DataError, NmtError
from nmt.evaluation import METRICS

if TYPE_CHECKING:
    from nmt.evaluation.comet import Comet

log = logging.getLogger(__name__)

Yes = Annotated[bool, typer.Option("--yes", help="Install and download what the comet metric needs, without asking.")]


@contextmanager
def prepared_metrics(
    names: Sequence[str], test_set: TestSet, model: str, device: str, *, yes: bool
) -> Iterator[Metrics]:
    """Yield the metrics `names`; if comet is among them, the COMET model `model` is ready until the block ends.

    DataError if comet is asked for and the set has no sources. NmtError as `prepare_comet`.
    """
    others = [name for name in names if name in METRICS]
    if len(others) == len(names):
        yield Metrics(others)
        return
    if not test_set.has_sources:
        hint = "give the sources with --src, or a file of pairs with --tsv"
        raise DataError("COMET needs the source sentences, and there are none", hint=hint)
    with prepare_comet(model, device, yes=yes) as comet:
        yield Metrics(others, comet)


def prepare_comet(model: str, device: str, *, yes: bool) -> Comet:
    """Return the COMET model `model`; install and download what it needs if the user agrees.

    NmtError if the user declines, if there is no terminal to ask on, or if the installation fails.
    """
    from nmt.evaluation.comet import VERSION, Comet, comet_environment

    environment = comet_environment()
    if not environment.is_made():
        _agree(
            f"COMET needs a Python environment of its own, {environment.folder}, with unbabel-comet {VERSION}, PyTorch "
            "and some 50 packages that they need: about 1.4 GB with PyTorch for CPUs, several GB more with CUDA",
            yes=yes,
        )
        environment.make()
    comet = Comet(model, device)
    if missing := comet.missing():
        size = ", about 2.3 GB or more" if missing[0] == model else ""
        _agree(f"COMET needs {', '.join(missing)} from the Hugging Face Hub{size}", yes=yes)
        comet.download()
    return comet


def _agree(what: str, *, yes: bool) -> None:
    """Say `what` is needed; unless `yes`, ask on a terminal whether to install it. NmtError if the user declines."""
    if yes:
        log.info("%s; installing it", what)
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        if typer.confirm(f"{what}. Install it?", err=True):
            return
        raise NmtError("nothing was installed", hint="remove comet from --metrics")
    command = shlex.join(["nmt", *sys.argv[1:], "--yes"])
    raise NmtError(what, hint=f"to install it, run: {command}")
