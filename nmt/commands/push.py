"""`nmt push`: a run to the Hugging Face Hub."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from nmt.commands.options import Checkpoint
from nmt.commands.pack import Precision, warn_of_no_license
from nmt.find_model import find_run
from nmt.hub import HubModel

log = logging.getLogger(__name__)


def push(
    run: Annotated[Path, typer.Argument(help="The run to upload, or a packed model.")],
    name: Annotated[str, typer.Argument(help="Its name on the hub: user/name.")],
    private: Annotated[bool, typer.Option("--private", help="Nobody else may see the model.")] = False,
    checkpoint: Checkpoint = None,
    precision: Precision = "fp32",
) -> None:
    """Upload a run to the Hugging Face Hub.

    `--model hf:user/name` uses it then. Needs the extra `hub`, and a token that may write in $HF_TOKEN. It uploads what
    `nmt pack` packs: neither the training state nor text of the corpus. A model of this name gets a new revision.
    """
    model = HubModel.parse(name)
    if model.revision is not None:
        raise typer.BadParameter("a revision is made by the upload; give user/name alone")
    found = find_run(str(run))
    if checkpoint is not None:
        found.use_checkpoint(checkpoint)
    from nmt.hub import hub_api
    from nmt.interop.push import push as upload

    hub_api()  # without huggingface_hub, that is told before anything else
    warn_of_no_license(found)
    commit = upload(found, model, private=private, precision=precision)
    log.info(f"done: {model}\n  nmt translate --model {model}@{commit} 'text'")
