"""`nmt train`."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from nmt.commands.options import Overrides
from nmt.config import load_config
from nmt.rundir import refuse_existing

log = logging.getLogger(__name__)


def train(
    config: Annotated[Path | None, typer.Option("--config", "-c", help="The YAML that describes the run.")] = None,
    run: Annotated[Path | None, typer.Option("--run", help="The run's folder; default: runs/NAME-OF-CONFIG.")] = None,
    overrides: Overrides = [],  # noqa: B006 (typer reads it, nobody changes it)
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run if it exists.")] = False,
    num_processes: Annotated[int, typer.Option(min=1, help="Processes that train together: one a GPU, as a rule.")] = 1,
) -> None:
    """Train a model from a configuration and a parallel corpus."""
    if resume and overwrite:
        raise typer.BadParameter("choose one of --resume and --overwrite")
    if config is None and not (resume and run):
        raise typer.BadParameter("name a configuration with --config (or a run to go on with: --resume --run FOLDER)")
    wanted = load_config(config, overrides) if config else None
    if wanted is None and overrides:
        raise typer.BadParameter("--set needs --config")
    if run is None:
        assert config is not None
        run = Path("runs") / config.stem
    if not (resume or overwrite or _was_restarted()):
        refuse_existing(run)  # here too, so that it is told before torch is imported
    if num_processes > 1 and "WORLD_SIZE" not in os.environ:
        from nmt.training.distributed import launch

        raise typer.Exit(launch(sys.argv[1:], num_processes))
    from nmt.training.interrupt import Interrupt

    go_on = f"Go on with: nmt train --resume --run {shlex.quote(str(run))}"
    with Interrupt() as interrupt:
        try:
            from nmt.training.train import resume_run, start_run

            if resume or (_was_restarted() and run.exists()):
                finished = resume_run(wanted, run, interrupt)
            else:
                assert wanted is not None
                finished = start_run(wanted, run, overwrite=overwrite, interrupt=interrupt)
        except KeyboardInterrupt:
            saved = f"what was saved last is kept. {go_on}" if interrupt.deferred else "training had not begun"
            log.info(f"stopped at once; {saved}")
            raise typer.Exit(interrupt.exit_code) from None
    if not finished:
        log.info(f"stopped; the state is saved. {go_on}")
        raise typer.Exit(interrupt.exit_code)
    log.info(f"done: {run}\n  nmt translate --model {run} 'text'\n  nmt eval --model {run}")


def _was_restarted() -> bool:
    """Whether torchrun started this process again after another one had died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
