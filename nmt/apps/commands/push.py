"""`nmt push`: upload a run to the Hugging Face Hub."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from nmt.apps.commands.options import Checkpoint
from nmt.apps.commands.pack import Precision, warn_of_no_license
from nmt.artifacts.find_model import find_run
from nmt.artifacts.hub import HubModel

log = logging.getLogger(__name__)


def push(
    run: Annotated[Path, typer.Argument(help="Run or packed model to upload.")],
    name: Annotated[str, typer.Argument(help="Name on the Hub: user/name.")],
    private: Annotated[bool, typer.Option("--private", help="Make the model private.")] = False,
    checkpoint: Checkpoint = None,
    precision: Precision = "fp32",
) -> None:
    """Upload a run to the Hugging Face Hub.

    Use the model with `--model hf:user/name`. Needs the extra `hub`, and a token with write access in $HF_TOKEN.
    Uploads the same contents as `nmt pack`, without the training state or text from the corpus. If the model exists on
    the Hub, it gets a new revision.
    """
    model = HubModel.parse(name)
    if model.revision is not None:
        raise typer.BadParameter("the upload creates the revision; give only user/name")
    found = find_run(str(run))
    if checkpoint is not None:
        found.use_checkpoint(checkpoint)
    from nmt.apps.interop.push import push as upload
    from nmt.artifacts.hub import hub_api

    hub_api()  # fail early if huggingface_hub is missing
    warn_of_no_license(found)
    commit = upload(found, model, private=private, precision=precision)
    log.info(f"done: {model}\n  nmt translate --model {model}@{commit} 'text'")
