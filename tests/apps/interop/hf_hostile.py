"""What is done to a Hugging Face folder to make it hostile or damaged."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **values}), encoding="utf-8")


def to_pickle(folder: Path, change_tensors: Callable[[dict[str, Any]], Any] = dict, **options: Any) -> Path:
    """Replace model.safetensors by a pickle of the same tensors."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(change_tensors(tensors), folder / "pytorch_model.bin", **options)
    return folder / "pytorch_model.bin"


def spoil_weights(spoil: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def change_file(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        spoil(tensors)
        save_file(tensors, folder / "model.safetensors")

    return change_file


def config_of(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / "config.json", **values)


def link_to(name: str) -> Callable[[Path], None]:
    """Move a file out of the folder, and leave a link to it."""

    def replace(folder: Path) -> None:
        (folder / name).rename(folder.parent / "elsewhere")
        (folder / name).symlink_to(folder.parent / "elsewhere")

    return replace


class Bomb:
    """Makes the file `boom` when it is unpickled."""

    def __reduce__(self) -> Any:
        return (open, ("boom", "w"))


def bomb(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"model.shared.weight": Bomb()}))


def zipped_bomb(folder: Path) -> None:
    to_pickle(folder, lambda tensors: {**tensors, "extra": Bomb()})


def packed(folder: Path) -> None:
    path = to_pickle(folder, lambda tensors: {**tensors, "extra": torch.zeros(200_000)})
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def stretched(folder: Path) -> None:
    to_pickle(folder, lambda tensors: {**tensors, "extra": torch.zeros(1).expand(1 << 30)})


def claim_header(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes((1 << 40).to_bytes(8, "little") + path.read_bytes()[8:])


HOSTILE_WEIGHTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pickle that runs code": (bomb, r"pytorch_model\.bin: cannot read these weights"),
    "a zipped pickle that runs code": (zipped_bomb, r"pytorch_model\.bin: cannot read these weights"),
    "a pickle that unpacks to more": (packed, r"pytorch_model\.bin: these weights are larger than their file"),
    "a tensor larger than the file": (stretched, r"pytorch_model\.bin: these weights are larger than their file"),
    "a safetensors header of 1 TB": (claim_header, r"model\.safetensors: cannot read these weights"),
}
"""Names of cases, each with what is done to a folder, and a pattern of the message that follows."""
