"""Share a run, as one file or on the Hugging Face Hub: its weights, tokenizer, configuration, card and scores.

No text from its corpus is shared.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path, PurePath
from typing import Any, TypeVar

from nmt import __version__
from nmt.artifacts.hub import HubModel, hub_api, hub_errors
from nmt.artifacts.packed import PACK_INFO, PackInfo, write_packed
from nmt.artifacts.run_records import CheckpointIndex
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.base.files import FULL_DISK, write_text
from nmt.config import dump_config
from nmt.config.base import Section
from nmt.config.load import PATH_KEYS
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.evaluation.model_card import share_card

# Of the previous upload.
_OLD_FILES = (
    "checkpoints/*",
    "tokenizer/*",
    "eval/*",
    "lexicon.safetensors",
    "shortlist.safetensors",
    "phrases.safetensors",
)
AnySection = TypeVar("AnySection", bound=Section)


def pack(run: RunDir, out: Path) -> None:
    """Write the best model of `run` to the file `out`, atomically. RunError if the run is damaged."""
    with tempfile.TemporaryDirectory(prefix="nmt-") as name:
        write_shareable(run, Path(name), (out.stem, out.name))
        write_packed(Path(name), out)


def push(run: RunDir, model: HubModel, *, private: bool = False) -> str:
    """Upload the best model of `run` as `model`, in one commit; return the commit.

    NmtError if the hub rejects it or cannot be reached, if there is no token, or if `private` is set but the model is
    already public.
    """
    from huggingface_hub import get_token

    api = hub_api()
    if get_token() is None:
        raise NmtError(
            "uploading to the hub needs a token",
            hint="create a token with write permission at huggingface.co/settings/tokens, and set $HF_TOKEN to it",
        )
    with tempfile.TemporaryDirectory(prefix="nmt-") as folder:
        write_shareable(run, Path(folder), (model.name, f"hf:{model.repository}"))
        with hub_errors(model, "upload"):
            api.create_repo(model.repository, private=private, exist_ok=True)
            if private and not api.model_info(model.repository).private:
                raise NmtError(
                    f"{model.repository} is public",
                    hint="make it private on its hub page first, or leave out --private",
                )
            done = api.upload_folder(
                repo_id=model.repository,
                folder_path=folder,
                commit_message="Upload a model with nmt push",
                delete_patterns=list(_OLD_FILES),
            )
    return str(done.oid)


def write_shareable(run: RunDir, folder: Path, names: tuple[str, str]) -> None:
    """Write the shareable part of `run` into the empty `folder`, which becomes a run.

    `names` are the model's name, and the value that users will pass to --model. RunError as in `pack`.
    """
    config = run.config()
    weights = run.usable_checkpoint()
    shared = RunDir(folder)
    TokenizerPair.load(run.tokenizer).save(shared.tokenizer)
    shared.checkpoints.mkdir()
    _copy(weights, shared.checkpoint(weights.stem))
    for table in (run.shortlist, run.lexicon, run.phrases):
        if table.is_file():
            _copy(table, folder / table.name)
    if (statistics := run.statistics()) is not None:
        shared.write_json(shared.statistics_file, statistics)
    shared.write_json(shared.index_file, _index(run, weights.stem))
    write_text(shared.config_file, dump_config(without_folders(config)))
    if (evaluation := run.evaluation(weights.stem)) is not None:
        shared.evaluations.mkdir()
        shared.write_json(shared.evaluation_file, evaluation.model_dump(exclude_unset=True))
    write_text(folder / PACK_INFO, PackInfo(nmt=__version__).model_dump_json(indent=2) + "\n")
    write_text(shared.card, share_card(run, config, *names))


def _copy(source: Path, target: Path) -> None:
    """Copy a file. The OSError of a full disk names `target`; shutil's names `source`."""
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        if error.errno in FULL_DISK:
            raise OSError(error.errno, error.strerror, str(target)) from None
        raise


def _index(run: RunDir, best: str) -> CheckpointIndex:
    """Return the index of a run with only the checkpoint `best`."""
    index = run.index()
    scores = {best: index.checkpoints.get(best, {})}
    changes = {"checkpoints": scores, "best": best, "last": best, "validations_since_best": 0}
    return index.model_copy(update=changes)


def without_folders(section: AnySection) -> AnySection:
    """Return `section` with only the last part of each path, because folder names may reveal private information."""
    changes: dict[str, Any] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if name in PATH_KEYS and value is not None:
            changes[name] = PurePath(value.replace("\\", "/")).name or "."
        elif isinstance(value, Section):
            changes[name] = without_folders(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Section):
            changes[name] = tuple(map(without_folders, value))
    return section.model_copy(update=changes)
