"""A program for COMET's environment: JSON lines in, scores out. It is run as a file and imports nothing from nmt.

    python comet_worker.py score MODEL DEVICE

reads lines {"src": …, "mt": …, "ref": …}; an empty line ends a set. For each set, it writes the score of each line in
order, such as {"score": 0.8512}. Before the first set, it writes {"comet": its version, "model": which one exactly}.

    python comet_worker.py download MODEL

downloads what the model lacks on this machine. MODEL is a checkpoint (.ckpt), its folder, or a name on the Hugging Face
Hub. On errors, it writes a line {"error": …} and exits with code 1.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

_BATCH_SIZE = 16  # as in the command comet-score
_BLOCK = 32 * _BATCH_SIZE  # sentences between two reports


class ProblemError(Exception):
    """An error that the user can fix."""


def main() -> int:
    """Run the command in the arguments; return the exit code."""
    command, model, *device = sys.argv[1:]
    out = _take_standard_output()
    try:
        if command == "score":
            for record in _score(model, device[0]):
                print(json.dumps(record), file=out, flush=True)
        else:
            _download(model)
    except Exception as error:
        print(json.dumps({"error": _in_words(error)}), file=out, flush=True)
        return 1
    return 0


def _take_standard_output() -> TextIO:
    """Return standard output for this program only; output of libraries goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    return out


def _in_words(error: Exception) -> str:
    if isinstance(error, ProblemError):
        return str(error)
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _score(name: str, device: str) -> Iterator[dict[str, object]]:
    """Yield the records for all sets on standard input."""
    from importlib.metadata import version

    _silence()
    if missing := _missing(name):
        command = shlex.join([sys.executable, __file__, "download", name])
        raise ProblemError(f"{missing} is not on this machine; to download it, run: {command}")
    checkpoint, gpus = _checkpoint(name), _num_gpus(device)
    from comet import load_from_checkpoint

    model = load_from_checkpoint(str(checkpoint))
    model.eval()
    yield {"comet": version("unbabel-comet"), "model": _label(name, checkpoint)}
    for samples in _sets(sys.stdin):
        for first in range(0, len(samples), _BLOCK):
            block = samples[first : first + _BLOCK]
            predicted = model.predict(block, batch_size=_BATCH_SIZE, gpus=gpus, progress_bar=False)
            for score in predicted.scores:
                yield {"score": float(score)}


def _sets(lines: Iterable[str]) -> Iterator[list[dict[str, str]]]:
    """Yield the samples of each set."""
    samples = list[dict[str, str]]()
    for line in lines:
        if line.strip():
            samples.append(json.loads(line))
        else:
            yield samples
            samples = []
    if samples:
        yield samples


def _silence() -> None:
    """Silence everything except errors, because Lightning and transformers report many harmless things."""
    warnings.simplefilter("ignore")
    for name in ("pytorch_lightning", "lightning", "lightning.pytorch", "transformers", "torch"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _num_gpus(device: str) -> int:
    if device not in ("auto", "cuda"):
        return 0
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise ProblemError("the PyTorch of COMET's environment finds no CUDA device")
    return int(torch.cuda.is_available())


def _checkpoint(name: str) -> Path:
    """Return the weights file of the model, which must be on this machine."""
    path = Path(name)
    if path.suffix == ".ckpt" and path.is_file():
        found = path
    elif path.is_dir():
        found = _checkpoint_in(path)
    elif _is_on_hub(name):
        from huggingface_hub import snapshot_download

        found = _checkpoint_in(Path(snapshot_download(name, local_files_only=True)))
    else:
        raise ProblemError("no such file or folder, and not a model name on the hub")
    if not (found.parent.parent / "hparams.yaml").is_file():
        raise ProblemError(f"not a COMET model: {found.parent.parent} has no hparams.yaml")
    return found


def _is_on_hub(name: str) -> bool:
    """Return whether `name` can only be a name on the hub."""
    path = Path(name)
    return not (path.exists() or path.is_absolute() or path.suffix == ".ckpt") and name.count("/") == 1


def _label(name: str, checkpoint: Path) -> str:
    """Return a unique name for the model, with its commit on the hub or the SHA-256 of its file."""
    if _is_on_hub(name):
        return f"{name}@{checkpoint.parent.parent.name[:8]}"
    with open(checkpoint, "rb") as file:
        return f"{checkpoint.name}@{hashlib.file_digest(file, 'sha256').hexdigest()[:8]}"


def _checkpoint_in(folder: Path) -> Path:
    found = sorted(folder.glob("checkpoints/*.ckpt"))
    if not found:
        raise ProblemError(f"not a COMET model: {folder} has no file checkpoints/*.ckpt")
    return found[-1]


def _missing(name: str) -> str | None:
    """Return the name on the hub that this machine lacks: the model, or the encoder named in its hparams.yaml."""
    if _is_on_hub(name):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError

        try:
            snapshot_download(name, local_files_only=True)
        except LocalEntryNotFoundError:
            return name
    encoder = _encoder_of(_checkpoint(name))
    if Path(encoder).is_dir():
        return None
    from huggingface_hub import try_to_load_from_cache

    return None if isinstance(try_to_load_from_cache(encoder, "config.json"), str) else encoder


def _encoder_of(checkpoint: Path) -> str:
    import yaml

    with open(checkpoint.parent.parent / "hparams.yaml", encoding="utf-8") as file:
        return str(yaml.safe_load(file)["pretrained_model"])


def _download(name: str) -> None:
    """Download what is missing: the model, and its encoder without weights, which the model includes."""
    from huggingface_hub import snapshot_download

    if _missing(name) == name:
        snapshot_download(name)
    if encoder := _missing(name):
        snapshot_download(encoder, allow_patterns=["*.json", "*.model", "*.txt"])


if __name__ == "__main__":
    sys.exit(main())
