"""The folder of an export appears whole or not at all, and says in one sentence what is wrong with it."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from nmt import Translator
from nmt.artifacts.exportdir import ExportDir, FileMark, new_export, refuse_existing_export
from nmt.base.errors import NmtError, RunError


def fill(folder: Path) -> None:
    (folder / "export.json").write_text("{}")
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text("x")


def test_what_is_there_is_replaced_only_if_asked_and_only_an_export(tmp_path):
    out = tmp_path / "out"
    with new_export(out, overwrite=False) as export:
        fill(export.path)
    with pytest.raises(RunError, match="this path already exists\n  replace it with --overwrite"):
        refuse_existing_export(out, overwrite=False)
    with new_export(out, overwrite=True) as export:
        (export.path / "export.json").write_text("[]")
    assert [path.name for path in out.iterdir()] == ["export.json"]
    (out / "export.json").unlink()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(RunError, match="not an export, so nmt does not overwrite it"), new_export(out, overwrite=True):
        pass
    assert (out / "thesis.txt").read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_mark_is_size_and_checksum(tmp_path):
    (tmp_path / "file").write_bytes(b"123456789")
    assert FileMark.from_file(tmp_path / "file") == FileMark(size=9, crc32=0xCBF43926)  # the check value of CRC-32


@pytest.fixture
def copy(digits_export, tmp_path) -> Path:
    """A copy of an export, to be damaged."""
    return Path(shutil.copytree(digits_export, tmp_path / "copy"))


def change(folder: Path, **values: object) -> None:
    """Other values in export.json; None takes a key away."""
    path = folder / "export.json"
    info = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in info.items() if value is not None}))


def mark_again(folder: Path) -> None:
    """Let export.json say that all files are as they should be."""
    export = ExportDir(folder)
    export.write_info(export.info().model_copy(update={"files": export.mark_files()}))


FAULTS = {
    "no json": (lambda folder: (folder / "export.json").write_text("{"), "export.json: cannot read this file of the"),
    "binary json": (lambda folder: (folder / "export.json").write_bytes(b"\xff\xfe\x00"), "cannot read this file"),
    "deep json": (lambda folder: (folder / "export.json").write_text("[" * 200_000), "cannot read this file"),
    "a list": (lambda folder: (folder / "export.json").write_text("[1]"), "export.json: not a JSON object"),
    "empty": (lambda folder: (folder / "export.json").write_text("{}"), "has format None; this version"),
    "newer": (lambda folder: change(folder, format=2), "has format 2; this version of nmt reads format 1"),
    "other engine": (
        lambda folder: change(folder, engine="onnx"),
        "export.json: engine: Input should be 'ctranslate2'",
    ),
    "no limit": (lambda folder: change(folder, max_src_len=None), "export.json: max_src_len: Field required"),
    "bad limit": (lambda folder: change(folder, max_tgt_len=-5), "max_tgt_len: Input should be greater than or equal"),
    "unknown key": (lambda folder: change(folder, run="rm"), "export.json: run: Extra inputs are not permitted"),
    "no list": (lambda folder: change(folder, files={}), "export.json does not list model.bin"),
    "other names": (
        lambda folder: change(folder, files={"../../etc/passwd": {"size": 1, "crc32": 1}}),
        "export.json does not list model.bin",
    ),
    "export.json of 3 GB": (lambda folder: os.truncate(folder / "export.json", 3 << 30), "over 10,000,000 bytes"),
    "no model": (lambda folder: (folder / "model.bin").unlink(), "model.bin: cannot read this file of the export"),
    "model cut": (
        lambda folder: cut(folder / "model.bin", 1000),
        "model.bin: this file has changed since the export: it has 1,000 bytes, but had ",
    ),
    "a bit": (
        lambda folder: flip(folder / "model.bin"),
        "model.bin: this file is damaged: it has changed since the export",
    ),
    "no config": (lambda folder: (folder / "config.json").unlink(), "config.json: cannot read this file"),
    "no words": (lambda folder: (folder / "shared_vocabulary.json").unlink(), "shared_vocabulary.json: cannot read"),
    "no tokenizer": (lambda folder: shutil.rmtree(folder / "tokenizer"), "joint.model: cannot read this file"),
    "tokenizer": (lambda folder: cut(folder / "tokenizer" / "joint.model", 50), "joint.model: this file has changed"),
}
HOSTILE = {
    "more words": (lambda folder: more_words(folder), "the vocabularies do not match the tokenizer"),
    "words are a number": (lambda folder: (folder / "shared_vocabulary.json").write_text("7"), "not a list of tokens"),
    "words are numbers": (
        lambda folder: (folder / "shared_vocabulary.json").write_text("[7]"),
        "not a list of tokens",
    ),
    "no variables": (
        lambda folder: (folder / "model.bin").write_bytes(b"\6\0\0\0\1\0\0" + bytes(12)),
        "CTranslate2 cannot use this export: ",
    ),
    "model cut": (lambda folder: cut(folder / "model.bin", 1000), "extends past the end of the file"),
    "model cut in its names": (lambda folder: cut(folder / "model.bin", 30), "damaged: it ends too early"),
    "more after the model": (lambda folder: append(folder / "model.bin", b"x"), "bytes, but should have "),
    "garbage": (
        lambda folder: (folder / "model.bin").write_bytes(b"\xb5" * 4096),
        "model.bin: not a CTranslate2 model, or damaged: it does not begin like a CTranslate2 model",
    ),
    "another name of a variable": (
        lambda folder: replace(folder / "model.bin", b"ffn/linear_0", b"ffn/linear_9"),
        "CTranslate2 cannot use this export: variable ",
    ),
    "another shape": (
        lambda folder: replace(folder / "model.bin", b"encoder/layer_norm/gamma\0\1", b"encoder/layer_norm/gamma\0\2"),
        "the size of encoder/layer_norm/gamma does not match its shape",
    ),
    "many variables": (
        lambda folder: (folder / "model.bin").write_bytes(b"\6\0\0\0\1\0\0" + bytes(4) + b"\xff" * 4),
        "it claims 4,294,967,295 variables",
    ),
    "config": (lambda folder: (folder / "config.json").write_text("[]"), "CTranslate2 cannot use this export: "),
    "tokenizer": (
        lambda folder: (folder / "tokenizer/joint.model").write_bytes(b"x" * 99),
        "not a SentencePiece model",
    ),
}


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def append(path: Path, content: bytes) -> None:
    path.write_bytes(path.read_bytes() + content)


def replace(path: Path, old: bytes, new: bytes) -> None:
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def more_words(folder: Path) -> None:
    path = folder / "shared_vocabulary.json"
    path.write_text(json.dumps([*json.loads(path.read_text()), *(f"word{i}" for i in range(10_000))]))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_export_gives_one_clear_error(fault, copy):
    damage, message = FAULTS[fault]
    damage(copy)
    with pytest.raises(RunError) as caught:
        Translator.load(copy, device="cpu")
    assert message in str(caught.value)
    assert str(caught.value).endswith("create it again with `nmt export ctranslate2`")


@pytest.mark.parametrize("fault", HOSTILE)
def test_a_hostile_export_whose_checksums_are_right_gives_one_clear_error(fault, copy):
    damage, message = HOSTILE[fault]
    damage(copy)
    mark_again(copy)
    with pytest.raises(NmtError) as caught:
        Translator.load(copy, device="cpu")
    assert message in str(caught.value)


NAMES = ("export.json", "model.bin", "config.json", "shared_vocabulary.json", "tokenizer/joint.model")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_out(path: Path) -> None:
    path.symlink_to("/dev/zero")


def twenty_gigabytes(path: Path) -> None:
    """Of nothing, which take no room; export.json says that they should be there."""
    path.touch()
    os.truncate(path, HUGE)
    info = path.parents[path.as_posix().endswith("tokenizer/joint.model")] / "export.json"
    if info != path:
        values = json.loads(info.read_text())
        name = path.relative_to(info.parent).as_posix()
        values["files"][name] = {"size": HUGE, "crc32": 0}
        info.write_text(json.dumps(values))


HUGE = 20_000_000_000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(
    ("put", "message"),
    [
        (pipe, "neither a file nor a folder"),
        (link_out, "a link that points outside the export"),
        (twenty_gigabytes, "over 1|it does not begin like a CTranslate2 model"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_a_link_or_a_huge_file_in_an_export_is_refused_at_once(name, put, message, copy):
    (copy / name).unlink()
    put(copy / name)
    start = time.process_time()
    with pytest.raises(RunError, match=message):
        Translator.load(copy, device="cpu")
    assert time.process_time() - start < 5
