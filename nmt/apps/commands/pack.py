"""`nmt pack` and `nmt push`: pack a run into one file, or upload it to the Hugging Face Hub."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import Annotated

import typer

from nmt.apps.commands.options import Checkpoint, ReplaceFile
from nmt.apps.commands.outputs import refuse_existing
from nmt.artifacts.find_model import find_run
from nmt.artifacts.hub import HubModel, hub_api
from nmt.artifacts.replacing import refuse_replacing
from nmt.artifacts.rundir import RunDir

log = logging.getLogger(__name__)


def pack(
    run: Annotated[Path, typer.Argument(help="Run to pack.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, such as model.zip.")],
    checkpoint: Checkpoint = None,
    overwrite: ReplaceFile = False,
) -> None:
    """Pack a run into one file, for use with --model FILE.

    The file contains the weights of one checkpoint, tokenizer, configuration, model card and scores, but neither the
    training state nor text from the corpus.
    """
    found = find_run(str(run))
    refuse_replacing([output], [run], [found])
    refuse_existing(output, overwrite=overwrite)
    if checkpoint is not None:
        found.use_checkpoint(checkpoint)
    from nmt.apps.interop.sharing import pack as write_file

    write_file(found, output)
    _warn_of_no_license(found)
    size = output.stat().st_size / 1e6
    log.info(f"done: {output}, {size:.1f} MB\n  nmt translate --model {shlex.quote(str(output))} 'text'")


def push(
    run: Annotated[Path, typer.Argument(help="Run or packed model to upload.")],
    name: Annotated[str, typer.Argument(help="Name on the Hub: user/name.")],
    private: Annotated[bool, typer.Option("--private", help="Make the model private.")] = False,
) -> None:
    """Upload a run to the Hugging Face Hub.

    Use the model with `--model hf:user/name`. Needs the extra `hub`, and a token with write access in $HF_TOKEN.
    Uploads the same contents as `nmt pack`, without the training state or text from the corpus. If the model exists on
    the Hub, it gets a new revision. To upload another checkpoint than the best, pack it and upload the file.
    """
    model = HubModel.parse(name)
    if model.revision is not None:
        raise typer.BadParameter("the upload creates the revision; give only user/name")
    found = find_run(str(run))
    from nmt.apps.interop.sharing import push as upload

    hub_api()  # fail early if huggingface_hub is missing
    _warn_of_no_license(found)
    commit = upload(found, model, private=private)
    log.info(f"done: {model}\n  nmt translate --model {model}@{commit} 'text'")


def _warn_of_no_license(run: RunDir) -> None:
    from nmt.evaluation.model_card import license_of

    if license_of(run.card) is None:
        log.warning("%s names no license: start the file with the lines ---, license: NAME, ---", run.card)
