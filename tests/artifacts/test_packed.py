"""Packed models: the bytes of the file, the cache, and how the model is found."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from nmt.apps.interop.sharing import pack
from nmt.artifacts.cachedir import cache_folder
from nmt.artifacts.find_model import find_run
from nmt.artifacts.packed import unpack
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError

FROZEN = Path(__file__).parents[1] / "frozen" / "format-1"


@pytest.fixture
def packed(tmp_path, monkeypatch) -> Path:
    """The frozen run as one file, and a cache of this test's own."""
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    pack(RunDir(FROZEN), tmp_path / "model.zip")
    return tmp_path / "model.zip"


def test_the_same_run_gives_the_same_bytes_wherever_it_lies(packed, tmp_path):
    copy = Path(shutil.copytree(FROZEN, tmp_path / "elsewhere" / "run"))
    pack(RunDir(copy), tmp_path / "elsewhere" / "model.zip")
    assert (tmp_path / "elsewhere" / "model.zip").read_bytes() == packed.read_bytes()


def test_the_files_are_stored_as_they_are(packed):
    with zipfile.ZipFile(packed) as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        assert archive.testzip() is None


def test_a_packed_model_is_unpacked_once(packed):
    first = unpack(packed)
    before = (first / "config.yaml").stat().st_mtime_ns
    renamed = packed.with_name("other.zip")
    shutil.copy(packed, renamed)
    assert unpack(packed) == first
    assert (first / "config.yaml").stat().st_mtime_ns == before
    assert unpack(renamed).parent == first.parent  # by its contents


def test_another_file_of_the_same_name_is_another_model(packed):
    first = unpack(packed)
    run = RunDir(FROZEN)
    run.use_checkpoint("average")
    pack(run, packed)
    second = find_run(str(packed))
    assert second.path != first
    assert second.best_checkpoint().stem == "average"


def test_a_packed_model_is_found_like_a_run_and_keeps_evaluations_beside_the_file(packed, monkeypatch):
    run = find_run(str(packed))
    assert isinstance(run, RunDir)
    assert run.path.name == "model"
    assert run.results == packed.with_name("model-eval")
    monkeypatch.setenv("NMT_MODEL", str(packed))
    assert find_run(None).path == run.path


def test_a_damaged_file_leaves_nothing_in_the_cache(packed):
    packed.write_bytes(packed.read_bytes()[:-200])
    with pytest.raises(RunError, match="not a packed model, or it is damaged"):
        unpack(packed)
    assert [path for path in cache_folder().rglob("*") if path.is_file()] == []


def test_a_cache_that_cannot_be_written_to_is_one_message(packed, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "file"))
    with pytest.raises(RunError) as caught:
        unpack(packed)
    assert "$NMT_CACHE" in caught.value.hint


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/nmt"),
        ("linux", {"HOME": "/h"}, "/h/.cache/nmt"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Caches/nmt"),
        ("linux", {"NMT_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c"),
    ],
)
def test_the_cache_lies_where_the_system_has_it(platform, variables, expected, monkeypatch):
    for name in ("NMT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", platform)
    assert cache_folder() == Path(expected)
