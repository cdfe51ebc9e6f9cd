"""A program for COMET's environment: samples in, scores out. It is run as a file and imports nothing from nmt.

    python comet_worker.py MODEL DEVICE

reads one JSON list, [{"src": …, "mt": …, "ref": …}, …], and writes {"comet": its version, "model": which one exactly,
"scores": [0.8512, …]}. MODEL is a checkpoint (.ckpt), its folder, or a name on the Hugging Face Hub. On errors, it
writes {"error": …} and exits with code 1.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

_BATCH_SIZE = 16  # as in the command comet-score


class ProblemError(Exception):
    """An error that the user can fix."""


def main() -> int:
    """Run the command in the arguments; return the exit code."""
    # Standard output is for this program only; output of libraries goes to standard error.
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    try:
        print(json.dumps(_score(*sys.argv[1:])), file=out, flush=True)
    except Exception as error:
        text = str(error).strip().partition("\n")[0]
        if not isinstance(error, ProblemError):
            text = f"{type(error).__name__}: {text}" if text else type(error).__name__
        print(json.dumps({"error": text}), file=out, flush=True)
        return 1
    return 0


def _score(name: str, device: str) -> dict[str, object]:
    """Return the scores of the samples on standard input."""
    from importlib.metadata import version

    # Lightning and transformers report many harmless things.
    warnings.simplefilter("ignore")
    for library in ("pytorch_lightning", "lightning", "lightning.pytorch", "transformers", "torch"):
        logging.getLogger(library).setLevel(logging.ERROR)
    model, label = _load(name)
    gpus = _num_gpus(device)
    samples = json.load(sys.stdin)
    scores = model.predict(samples, batch_size=_BATCH_SIZE, gpus=gpus).scores if samples else []
    return {"comet": version("unbabel-comet"), "model": label, "scores": [float(score) for score in scores]}


def _load(name: str) -> tuple[Any, str]:
    """Load the model, without downloading anything; return also its unique name."""
    path = Path(name)
    on_hub = not (path.exists() or path.is_absolute() or path.suffix == ".ckpt") and name.count("/") == 1
    if not path.exists() and not on_hub:
        raise ProblemError("no such file or folder, and not a model name on the hub")
    checkpoint = f"comet.download_model({name!r})" if on_hub else ""
    try:
        if on_hub:
            from huggingface_hub import snapshot_download

            path = Path(snapshot_download(name, local_files_only=True))
        found = [path] if path.is_file() else sorted(path.glob("checkpoints/*.ckpt"))
        if not found:
            raise ProblemError(f"not a COMET model: {path} has no file checkpoints/*.ckpt")
        checkpoint = checkpoint or repr(str(found[-1]))
        from comet import load_from_checkpoint

        model = load_from_checkpoint(str(found[-1]))
    except OSError as error:
        if error.errno is not None:  # of the system, such as a full disk; those of a missing model have none
            raise
        command = shlex.join([sys.executable, "-c", f"import comet; comet.load_from_checkpoint({checkpoint})"])
        missing = "the model, or the tokenizer of its encoder, is not on this machine"
        raise ProblemError(f"{missing}; to download it, run: {command}") from error
    model.eval()
    if on_hub:
        return model, f"{name}@{path.name[:8]}"  # its commit
    with open(found[-1], "rb") as file:
        return model, f"{found[-1].name}@{hashlib.file_digest(file, 'sha256').hexdigest()[:8]}"


def _num_gpus(device: str) -> int:
    if device not in ("auto", "cuda"):
        return 0
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise ProblemError("the PyTorch of COMET's environment finds no CUDA device")
    return int(torch.cuda.is_available())


if __name__ == "__main__":
    sys.exit(main())
