"""Packed models: the bytes of the file, where it is unpacked, and how the model is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nmt.apps.interop.sharing import pack
from nmt.artifacts.find_model import find_run
from nmt.artifacts.packed import unpack
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from tests.full_disk import no_room_for

FROZEN = Path(__file__).parents[1] / "frozen" / "format-1"


@pytest.fixture
def packed(tmp_path) -> Path:
    """The frozen run as one file."""
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


def test_a_packed_model_is_unpacked_once_in_a_process_and_removed_at_its_end(packed, tmp_path):
    assert unpack(packed) == unpack(packed)
    code = f"""
import os, sys
from pathlib import Path
from nmt.artifacts.packed import unpack
folder = unpack(Path({str(packed)!r}))
child = os.fork() if hasattr(os, "fork") else 0
if child == 0 and hasattr(os, "fork"):
    sys.exit()
os.waitpid(child, 0)
assert (folder / "config.yaml").exists()
print(folder)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(done.stdout.strip()).name == "model"
    assert not Path(done.stdout.strip()).parent.exists()


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


def test_what_fails_leaves_nothing(packed, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    packed.write_bytes(packed.read_bytes()[:-200])
    with pytest.raises(RunError, match="not a packed model, or it is damaged"):
        unpack(packed)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_full_or_missing_folder_for_temporary_files_is_one_message(packed, tmp_path, monkeypatch):
    with no_room_for(3000), pytest.raises(RunError, match=r"cannot unpack it \(File too large\)\n.*\$TMPDIR"):
        unpack(packed)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(RunError, match="cannot unpack it"):
        unpack(packed)
