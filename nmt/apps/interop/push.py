"""Upload a run to the Hugging Face Hub, as the files of a packed model."""

from __future__ import annotations

import tempfile
from pathlib import Path

from nmt.apps.interop.sharing import write_shareable
from nmt.artifacts.hub import HubModel, hub_api, hub_errors
from nmt.artifacts.packed import StoredPrecision
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError

_OLD_FILES = ("checkpoints/*", "tokenizer/*", "eval/*", "shortlist.safetensors")  # of the previous upload


def push(run: RunDir, model: HubModel, *, private: bool = False, precision: StoredPrecision = "fp32") -> str:
    """Upload the best model of `run` as `model`, in one commit; return the commit.

    NmtError if the hub rejects it or cannot be reached, if there is no token, or if `private` is set but the model is
    already public.
    """
    from huggingface_hub import get_token

    api = hub_api()
    if get_token() is None:
        hint = "create a token with write permission at huggingface.co/settings/tokens, and set $HF_TOKEN to it"
        raise NmtError("uploading to the hub needs a token", hint=hint)
    with tempfile.TemporaryDirectory(prefix="nmt-") as name:
        folder = Path(name)
        write_shareable(run, folder, (model.name, f"hf:{model.repository}"), precision)
        with hub_errors(model, "upload"):
            api.create_repo(model.repository, private=private, exist_ok=True)
            if private and not api.model_info(model.repository).private:
                hint = "make it private on its hub page first, or leave out --private"
                raise NmtError(f"{model.repository} is public", hint=hint)
            done = api.upload_folder(
                repo_id=model.repository,
                folder_path=folder,
                commit_message="Upload a model with nmt push",
                delete_patterns=list(_OLD_FILES),
            )
    return str(done.oid)
