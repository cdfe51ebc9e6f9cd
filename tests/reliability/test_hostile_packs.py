"""A packed model from a stranger: it is refused in one message, and nothing is written beside it."""

from __future__ import annotations

import os
import re
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from nmt.apps.interop.sharing import pack
from nmt.artifacts.rundir import RunDir
from tests.reliability.running import Said, assert_messages, nmt

FROZEN = Path(__file__).parents[1] / "frozen" / "format-1"
MEMORY = 1 << 30  # more than the process has when the command begins


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A folder with a packed model and a file beside it that is none of its business."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    pack(RunDir(FROZEN), tmp_path / "m.zip")
    (tmp_path / "precious.txt").write_text("precious")
    return tmp_path


rows: dict[str, tuple[int, str]] = {}


def ask(tried: str, here: Path) -> Said:
    """Translate with m.zip, which must end in one message, and write nothing outside the temporary folder."""
    before = sorted(path.name for path in here.iterdir())
    done = nmt("translate", "--model", "m.zip", "12", cwd=here, memory=MEMORY)
    assert "Traceback" not in done.text, done.text
    assert (done.code, done.text.count("error: ")) == (1, 1), done.text
    assert sorted(path.name for path in here.iterdir()) == before
    assert (here / "precious.txt").read_text() == "precious"
    rows[tried] = (
        done.code,
        re.sub(r"temporary/nmt-\w+", "temporary/nmt-TOKEN", done.error).replace(f"{here}/", ""),
    )
    return done


def rewrite(change: Callable[[dict[str, bytes]], object]) -> Callable[[Path], None]:
    """Another zip file: `change` is given the contents by name."""

    def edit(path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
        change(contents)
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in contents.items():
                archive.writestr(name, content)

    return edit


def add(name: str, content: bytes = b"x") -> Callable[[Path], None]:
    return rewrite(lambda contents: contents.update({name: content}))


def weights_in(contents: dict[str, bytes]) -> str:
    return next(name for name in contents if name.endswith(".safetensors"))


def append(make: Callable[[zipfile.ZipFile], object]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        with zipfile.ZipFile(path, "a") as archive:
            make(archive)

    return edit


def link(archive: zipfile.ZipFile) -> None:
    info = zipfile.ZipInfo("shortlist.safetensors")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    archive.writestr(info, "../../precious.txt")


def patch(signature: bytes, offset: int, value: bytes) -> Callable[[Path], None]:
    """Write `value` at `offset` of the last record of the zip file that begins with `signature`."""

    def edit(path: Path) -> None:
        content = bytearray(path.read_bytes())
        at = content.rindex(signature) + offset
        content[at : at + len(value)] = value
        path.write_bytes(content)

    return edit


def compress(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents["README.md"] = b"\0" * 100_000_000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def overlap(path: Path) -> None:
    """All entries of the directory are the weights, so that few bytes claim to be many (Fifield 2019)."""
    with zipfile.ZipFile(path) as archive:
        entry = max(archive.infolist(), key=lambda info: info.file_size)
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(4):
            copy = zipfile.ZipInfo(entry.filename.replace("step", f"s{number}"))
            for name in ("CRC", "file_size", "compress_size", "header_offset", "compress_type", "external_attr"):
                setattr(copy, name, getattr(entry, name))
            archive.filelist.append(copy)
        archive._didModify = True  # type: ignore[attr-defined]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(b"safetensors") + 2000] ^= 1
    path.write_bytes(content)


DIRECTORY_ENTRY, DIRECTORY_END = b"PK\x01\x02", b"PK\x05\x06"
HUGE = struct.pack("<I", 0xFFFFFFF0)


class Case(NamedTuple):
    edit: Callable[[Path], object]
    word: str


CASES = {
    "a file that is no zip file": Case(lambda path: path.write_bytes(b"x" * 1000), "File is not a zip file"),
    "an empty file": Case(lambda path: path.write_bytes(b""), "File is not a zip file"),
    "cut short": Case(lambda path: os.truncate(path, 30_000), "File is not a zip file"),
    "an empty zip file": Case(rewrite(lambda contents: contents.clear()), "has no config.yaml"),
    "a bit of the weights flipped": Case(flip, "Bad CRC-32"),
    "a file ../precious.txt": Case(add("../precious.txt"), "'../precious.txt' is not a file of a"),
    "a file /tmp/precious.txt": Case(add("/tmp/precious.txt"), "'/tmp/precious.txt' is not a file of a"),
    r"a file ..\precious.txt": Case(add("..\\precious.txt"), "is not a file of a"),
    "a file checkpoints/../../x.safetensors": Case(add("checkpoints/../../x.safetensors"), "is not a file of a"),
    "a pickle": Case(add("checkpoints/best.pt"), "'checkpoints/best.pt' is not a file of a"),
    "a zip file in it": Case(add("inner.zip"), "'inner.zip' is not a file of a"),
    "a training state": Case(add("state/training.safetensors"), "'state/training.safetensors' is not a file of a"),
    "a name with control characters": Case(add("\x1b[2J.yaml"), "is not a file of a"),
    "a link": Case(append(link), "is a link or a special file"),
    "10,000 checkpoints": Case(
        rewrite(lambda contents: contents.update({f"checkpoints/c{n}.safetensors": b"" for n in range(10_000)})),
        "at most 16 files",
    ),
    "compressed: 100 MB of zeros": Case(compress, "is compressed"),
    "all entries are the same bytes": Case(overlap, "claim to be larger than the zip file"),
    "encrypted": Case(patch(DIRECTORY_ENTRY, 8, b"\x01\x00"), "is encrypted"),
    "a member claims 4 GB": Case(patch(DIRECTORY_ENTRY, 24, HUGE), "is compressed"),
    "a member claims 4 GB, stored": Case(patch(DIRECTORY_ENTRY, 20, HUGE * 2), "claim to be larger than the zip file"),
    "a directory at 4 GB": Case(patch(DIRECTORY_END, 16, HUGE), "it is damaged"),
    "packed.json of a newer format": Case(
        rewrite(lambda contents: contents.update({"packed.json": b'{"format": 2, "nmt": "9"}'})),
        "cannot read its packed.json",
    ),
    "packed.json nested 200,000 deep": Case(
        rewrite(lambda contents: contents.update({"packed.json": b"[" * 200_000})), "cannot read its packed.json"
    ),
    "index.json: best is ../../x": Case(
        rewrite(lambda contents: contents.update({"checkpoints/index.json": b'{"best": "../../x"}'})),
        "not the name of a checkpoint",
    ),
    "config.yaml with !!python/object/apply": Case(
        rewrite(lambda c: c.update({"config.yaml": b"data: !!python/object/apply:os.system [touch boom]\n"})),
        "is not allowed",
    ),
    "weights without a checksum": Case(
        rewrite(lambda contents: contents.update({weights_in(contents): (2).to_bytes(8, "little") + b"{}"})),
        "there is no checksum",
    ),
}


@pytest.mark.parametrize("tried", CASES)
def test_a_hostile_packed_model_ends_in_one_message(tried, here):
    case = CASES[tried]
    case.edit(here / "m.zip")
    done = ask(tried, here)
    assert case.word in done.error, done.error


def test_a_name_that_stands_in_it_twice_is_refused(here):
    with pytest.warns(UserWarning, match="Duplicate name"):
        append(lambda archive: archive.writestr("README.md", "another"))(here / "m.zip")
    assert "it contains the same file name twice" in ask("the same name twice", here).error


def test_a_file_that_changes_is_unpacked_anew(here):
    assert nmt("translate", "--model", "m.zip", "12", cwd=here).text == "21\n"
    shutil.copy(here / "precious.txt", here / "m.zip")
    assert "File is not a zip file" in nmt("translate", "--model", "m.zip", "12", cwd=here).error


def test_the_messages_are_those_of_the_snapshot():
    if len(rows) < len(CASES):
        pytest.skip("a part of the cases was run")
    assert_messages("hostile-packs", rows)
