"""Models on the Hugging Face Hub: `hf:user/name` or `hf:user/name@revision`, in the cache of huggingface_hub.

A model on the hub is untrusted, so only files that a packed model may contain are downloaded, and the folder is checked
like any run. The package is imported only when needed.
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

from nmt.artifacts.packed import PACK_INFO, PATTERNS, check_info, check_names, files_in, is_name, temporary_model
from nmt.artifacts.rundir import HUB_PREFIX
from nmt.base.errors import NmtError, RunError, require
from nmt.base.files import FULL_DISK

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_NAME = re.compile(
    r"(?:hf:|https?:/+[^/]+/)?(?P<user>[A-Za-z0-9][A-Za-z0-9._-]{0,95})/(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,95})"
    r"(@(?P<revision>[A-Za-z0-9][A-Za-z0-9._/-]{0,200}))?(?:/tree/main)?/?"
)


class HubModel(NamedTuple):
    """The name of a model on the hub."""

    user: str
    name: str
    revision: str | None = None  # a branch, a tag or a commit

    @classmethod
    def parse(cls, text: str) -> HubModel:
        """Read `user/name` or `user/name@revision`, also after `hf:` or as an address. NmtError if it is neither."""
        found = _NAME.fullmatch(text)
        if found is None or ".." in text:
            raise NmtError(
                f"{text[:200]!r} is not a valid model name on the hub", hint="write user/name, or user/name@revision"
            )
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
    require("hub", "huggingface_hub", "a model on the hub")
    api = require("hub", "huggingface_hub.hf_api", "a model on the hub")  # it imports the parts above lazily
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()
    return api.HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None)


@contextmanager
def hub_errors(model: HubModel, action: str) -> Iterator[None]:
    """Turn the exceptions of huggingface_hub into an NmtError without the token; `action`: "download" or "upload"."""
    try:
        yield
    except NmtError:
        raise
    except Exception as error:
        reason, hint = _explain(error, action)
        raise NmtError(f"cannot {action} {model}: {reason}", hint=hint) from None


def _explain(error: Exception, action: str) -> tuple[str, str]:
    """Return the reason and a hint for an exception of huggingface_hub; raise errors of local files and programs."""
    from huggingface_hub import errors

    # Upload threads and the search for a cached copy raise exceptions of their own, caused by the failure.
    wraps = isinstance(error, RuntimeError | errors.LocalEntryNotFoundError)
    cause = error.__cause__ if wraps and isinstance(error.__cause__, Exception) else error
    name = type(cause).__name__
    if isinstance(cause, errors.HfHubHTTPError) and cause.response is not None:
        if isinstance(cause, errors.RevisionNotFoundError):
            return "this model has no such revision", ""
        return _refused(action, cause.response.status_code)
    if isinstance(cause, errors.HFValidationError):
        return "the hub does not allow this name", ""
    if isinstance(cause, ValueError) and not isinstance(cause, errors.LocalEntryNotFoundError):
        return f"cannot read the hub's response ({name})", "try again later"
    if isinstance(cause, OSError) and cause.errno is not None:
        is_local = cause.filename is not None or cause.errno in FULL_DISK
        if is_local:
            raise cause
    elif not wraps and type(cause).__module__.partition(".")[0] not in ("httpx", "requests", "urllib3"):
        raise error  # a fault of ours
    return f"cannot reach the hub ({name})", "check the network connection; models downloaded before work offline"


def _refused(action: str, status: int) -> tuple[str, str]:
    """Return the reason and a hint for an HTTP status."""
    token = "set $HF_TOKEN to a token with permission for this"
    if status in (401, 404):  # the hub does not distinguish private models from missing ones
        if action == "upload":
            return f"no such user, or the hub rejected the token ({status})", token
        return (
            f"no such model, or your token has no access to it ({status})",
            f"check the name; if the model is private, {token}",
        )
    if status == 403:
        return "permission denied (403)", token
    return f"the hub returned HTTP status {status}", "try again later"


def fetch(text: str) -> Path:
    """Return a temporary folder with the model `text` (`hf:user/name@revision`), from the hub's cache if it is there.

    If the hub cannot be reached, the newest cached commit of that revision is used. NmtError if there is no such
    model, or if it was not uploaded by `nmt push`.
    """
    model = HubModel.parse(text)
    api = hub_api()
    with hub_errors(model, "download"):
        snapshot = Path(api.snapshot_download(model.repository, revision=model.revision, allow_patterns=list(PATTERNS)))
    names = [name for name in files_in(snapshot) if is_name(name)]  # of an older cache, or of other programs
    if PACK_INFO not in names:
        raise RunError(
            f"{model} is not an nmt model: it has no {PACK_INFO}",
            hint="nmt can use models uploaded with `nmt push`; if this is a Marian or M2M-100 model, import it: "
            f"hf download {model.repository} --local-dir FOLDER, then nmt import hf FOLDER RUN",
        )
    check_names(names, str(model))
    with temporary_model(model.name) as folder:
        for name in names:  # the cache has links to files elsewhere, which a run must not contain
            target = folder / name
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(snapshot / name, target)
        check_info(folder, str(model))
    return folder
