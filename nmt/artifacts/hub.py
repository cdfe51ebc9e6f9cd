"""Models on the Hugging Face Hub: `hf:user/name` or `hf:user/name@revision`, downloaded into a cache.

A model on the hub is untrusted, so only files that a packed model may contain are downloaded, and the folder is checked
like any run. The package `huggingface_hub` is imported only when needed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nmt.artifacts.cachedir import GB, cache_folder, gigabytes_from, into_cache, using
from nmt.artifacts.packed import check_names, is_name, restore_precision
from nmt.base.errors import NmtError, RunError, how_to_install
from nmt.base.files import FULL_DISK

if TYPE_CHECKING:
    from huggingface_hub import HfApi, ModelInfo

HUB_PREFIX = "hf:"
LIMIT_VARIABLE = "NMT_DOWNLOAD_GB"
DEFAULT_LIMIT_GB = 5.0
"""Largest download, in gigabytes; a Transformer with a billion parameters in fp32 has 4."""

_NAME = re.compile(
    r"(?P<user>[A-Za-z0-9][A-Za-z0-9._-]{0,95})/(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,95})"
    r"(@(?P<revision>[A-Za-z0-9][A-Za-z0-9._/-]{0,200}))?"
)
_COMMIT = re.compile("[0-9a-f]{40}")
_TIMEOUT_SECONDS = 30.0


class HubModel(NamedTuple):
    """The name of a model on the hub."""

    user: str
    name: str
    revision: str | None = None  # a branch, a tag or a commit

    @classmethod
    def parse(cls, text: str) -> HubModel:
        """Read `user/name` or `user/name@revision`, with or without `hf:`. NmtError if it is neither."""
        found = _NAME.fullmatch(text.removeprefix(HUB_PREFIX))
        if found is None or ".." in text:
            hint = "write user/name, or user/name@revision"
            raise NmtError(f"{text[:200]!r} is not a valid model name on the hub", hint=hint)
        return cls(found["user"], found["name"], found["revision"])

    @property
    def repository(self) -> str:
        """Return `user/name`."""
        return f"{self.user}/{self.name}"

    def __str__(self) -> str:
        return f"{HUB_PREFIX}{self.repository}" + (f"@{self.revision}" if self.revision else "")


def hub_api() -> HfApi:
    """Return a client for the hub at $HF_ENDPOINT, with the token in $HF_TOKEN if it is set.

    NmtError if huggingface_hub is not installed.
    """
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ModuleNotFoundError as error:
        hint = how_to_install("hub")
        raise NmtError(f"models on the hub need huggingface_hub, which is not installed ({error})", hint=hint) from None
    if not sys.stderr.isatty():
        disable_progress_bars()
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None)


@contextmanager
def hub_errors(model: HubModel, action: str) -> Iterator[None]:
    """Turn the exceptions of huggingface_hub into an NmtError without the token; `action`: "download" or "upload"."""
    from huggingface_hub import errors

    try:
        yield
    except errors.HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        raise _refused(model, action, status, isinstance(error, errors.RevisionNotFoundError)) from None
    except errors.HFValidationError:
        raise NmtError(f"cannot {action} {model}: the hub does not allow this name") from None
    except NmtError:
        raise
    except ValueError as error:
        message = f"cannot {action} {model}: cannot read the hub's response ({type(error).__name__})"
        raise NmtError(message, hint="try again later") from None
    except RuntimeError as error:  # its cause is the exception of an upload thread
        cause = error.__cause__
        if isinstance(cause, errors.HfHubHTTPError) and cause.response is not None:
            raise _refused(model, action, cause.response.status_code, False) from None
        raise _unreachable(model, action, cause if isinstance(cause, Exception) else error) from None
    except OSError as error:  # connection errors, timeouts
        if error.errno is not None and (error.filename is not None or error.errno in FULL_DISK):
            raise  # a local file
        raise _unreachable(model, action, error) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("httpx", "requests", "urllib3"):
            raise
        raise _unreachable(model, action, error) from None


def _refused(model: HubModel, action: str, status: int, no_revision: bool) -> NmtError:
    """Return the error for an HTTP status."""
    token = "set $HF_TOKEN to a token with permission for this"
    if no_revision:
        return NmtError(f"{model.repository} has no revision {model.revision!r} on the hub")
    if status in (401, 404):  # the hub does not distinguish private models from missing ones
        hint = f"check the name; if the model is private, {token}"
        message = "no such model, or your token has no access to it"
        if action == "upload":
            message, hint = "no such user, or the hub rejected the token", token
        return NmtError(f"cannot {action} {model}: {message} ({status})", hint=hint)
    if status == 403:
        return NmtError(f"cannot {action} {model}: permission denied (403)", hint=token)
    return NmtError(f"cannot {action} {model}: the hub returned HTTP status {status}", hint="try again later")


def _unreachable(model: HubModel, action: str, error: Exception) -> NmtError:
    hint = "check the network connection; a model downloaded before works offline as hf:user/name@COMMIT"
    return NmtError(f"cannot {action} {model}: cannot reach the hub ({type(error).__name__})", hint=hint)


def fetch(text: str) -> Path:
    """Return the cache folder of the model `text` (`hf:user/name@revision`); download the model if it is not cached.

    If the revision is a full commit hash and cached, no network is needed. NmtError if there is no such model, if the
    hub cannot be reached, or if the model was not uploaded by `nmt push`.
    """
    model = HubModel.parse(text)
    api = hub_api()
    limit = gigabytes_from(LIMIT_VARIABLE, DEFAULT_LIMIT_GB)
    if model.revision is not None and _COMMIT.fullmatch(model.revision):
        folder = _folder(model, model.revision)
        if folder.is_dir():
            with using(folder.parent):
                if folder.is_dir():  # no other process removed it before we locked it
                    return folder
    with hub_errors(model, "download"):
        info = api.model_info(model.repository, revision=model.revision, timeout=_TIMEOUT_SECONDS, files_metadata=True)
    commit = str(info.sha)
    if not _COMMIT.fullmatch(commit):
        raise NmtError(f"cannot download {model}: the hub did not report its commit")
    folder = _folder(model, commit)
    with using(folder.parent):
        if not folder.is_dir():
            _download(api, model, info, limit)
    return folder


def _download(api: HfApi, model: HubModel, info: ModelInfo, limit: float) -> None:
    """Download the files of a packed model into the cache. RunError if they exceed `limit` gigabytes."""
    commit, siblings = str(info.sha), info.siblings or []
    names = sorted(each.rfilename for each in siblings if is_name(each.rfilename))
    _refuse_other_models(model, names, [each.rfilename for each in siblings])
    check_names(names, str(model))
    _check_size(model, sum(each.size or 0 for each in siblings if each.rfilename in names), limit)
    with into_cache(_folder(model, commit)) as partial:
        done = 0
        for name in names:
            with hub_errors(model, "download"):
                path = api.hf_hub_download(model.repository, name, revision=commit, local_dir=partial)
            done += Path(path).stat().st_size
            _check_size(model, done, limit)  # the sizes that the hub reported may be wrong or missing
        shutil.rmtree(partial / ".cache", ignore_errors=True)  # huggingface_hub's download metadata
        restore_precision(partial, str(model))


def _check_size(model: HubModel, num_bytes: int, limit: float) -> None:
    if num_bytes > limit * GB:
        hint = f"if you trust it, raise the limit: set ${LIMIT_VARIABLE} to a number of gigabytes"
        raise RunError(f"{model} has {num_bytes / GB:.2f} GB; nmt downloads models of up to {limit:g} GB", hint=hint)


def _folder(model: HubModel, commit: str) -> Path:
    return cache_folder() / "hub" / model.user / model.name / commit / model.name


def _refuse_other_models(model: HubModel, names: list[str], all_names: list[str]) -> None:
    """Raise RunError if the model was not uploaded by `nmt push`."""
    if "packed.json" not in names:
        hint = "nmt can use models uploaded with `nmt push`"
        if "source.spm" in all_names:
            hint = f"hf download {model.repository} --local-dir FOLDER, then nmt import hf FOLDER RUN"
        raise RunError(f"{model} is not an nmt model: it has no packed.json", hint=hint)
