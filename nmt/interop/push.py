"""A run becomes a model on the Hugging Face Hub: the files of a packed model, as they are."""

from __future__ import annotations

import tempfile
from pathlib import Path

from nmt.errors import NmtError
from nmt.hub import HubModel, hub_api, hub_errors
from nmt.interop.sharing import write_shareable
from nmt.packed import StoredPrecision
from nmt.rundir import RunDir

_OLD_FILES = ("checkpoints/*", "tokenizer/*", "eval/*", "shortlist.safetensors")  # of the upload before


def push(run: RunDir, model: HubModel, *, private: bool = False, precision: StoredPrecision = "fp32") -> str:
    """Upload the best model of `run` as `model`, in one commit; return the commit.

    NmtError if the hub refuses it or cannot be reached, if there is no token, or if `private` is wanted and the model
    is public already.
    """
    from huggingface_hub import get_token

    api = hub_api()
    if get_token() is None:
        hint = "make one that may write at huggingface.co/settings/tokens, and set $HF_TOKEN to it"
        raise NmtError("uploading to the hub needs a token", hint=hint)
    with tempfile.TemporaryDirectory(prefix="nmt-") as name:
        folder = Path(name)
        write_shareable(run, folder, (model.name, f"hf:{model.repository}"), precision)
        with hub_errors(model, "upload"):
            api.create_repo(model.repository, private=private, exist_ok=True)
            if private and not api.model_info(model.repository).private:
                hint = "make it private on its page of the hub first, or leave out --private"
                raise NmtError(f"{model.repository} is public", hint=hint)
            done = api.upload_folder(
                repo_id=model.repository,
                folder_path=folder,
                commit_message="Upload a model with nmt push",
                delete_patterns=list(_OLD_FILES),
            )
    return str(done.oid)
