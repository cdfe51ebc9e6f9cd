"""The cache: which models leave, and which never do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.apps.interop.sharing import pack
from nmt.artifacts.cachedir import _use_file, cache_folder, cached_models, prune, using
from nmt.artifacts.packed import unpack
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.base.locks import try_lock

FROZEN = Path(__file__).parents[1] / "frozen" / "format-1"
KILOBYTE = 1e-6  # in gigabytes


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NMT_CACHE_GB", raising=False)


def put(name: str, age: float, kilobytes: int = 10) -> Path:
    """A model that another process used `age` seconds ago."""
    folder = cache_folder() / name
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "weights").write_bytes(b"w" * kilobytes * 1000)
    used = _use_file(folder)
    used.write_bytes(b"")
    os.utime(used, (1e9 - age, 1e9 - age))
    return folder


def test_the_models_used_longest_ago_leave_until_the_others_fit(messages):
    folders = [put(f"packed/{name}", age) for name, age in (("new", 1), ("old", 30), ("older", 40), ("newer", 0))]
    folders.append(put("hub/user/name/commit", 20))
    prune(31 * KILOBYTE)
    assert [folder.is_dir() for folder in folders] == [True, False, False, True, True]
    assert messages == [
        f"removed the 2 least recently used models from the cache {cache_folder()} (0.00 GB) to stay within "
        "3.1e-05 GB ($NMT_CACHE_GB)"
    ]
    prune(31 * KILOBYTE)
    assert len(messages) == 1
    assert [model.folder.name for model in cached_models()] == ["commit", "new", "newer"]


def test_a_model_in_use_by_another_process_stays():
    used, free = put("packed/used", 50), put("packed/free", 10)
    use = f"with using(Path({str(used)!r})): print(1, flush=True)"
    code = f"from nmt.artifacts.cachedir import using; from pathlib import Path\n{use}\ninput()"
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"1\n"
        os.utime(_use_file(used), (1, 1))
        prune(5 * KILOBYTE)
        assert (used.is_dir(), free.is_dir()) == (True, False)
        process.communicate(b"\n")
    prune(5 * KILOBYTE)
    assert not used.is_dir()
    assert list(cache_folder().rglob("*")) == [cache_folder() / "packed"]


def test_a_model_in_use_by_this_process_stays():
    used = put("packed/used", 50)
    with using(used):
        pass
    prune(KILOBYTE)
    assert used.is_dir()


def test_unpacking_removes_others_but_never_its_own_model(tmp_path, monkeypatch):
    old = put("packed/old", 50)
    pack(RunDir(FROZEN), tmp_path / "model.zip")
    monkeypatch.setenv("NMT_CACHE_GB", str(KILOBYTE))
    model = unpack(tmp_path / "model.zip")
    assert model.is_dir()
    assert not old.is_dir()


def test_a_model_that_was_used_again_is_not_the_oldest():
    first, second = put("packed/first", 50), put("packed/second", 40)
    code = f"from nmt.artifacts.cachedir import using; from pathlib import Path\nwith using(Path({str(first)!r})): pass"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)
    prune(11 * KILOBYTE)
    assert (first.is_dir(), second.is_dir()) == (True, False)


def test_a_process_that_finds_a_model_being_removed_waits_and_makes_it_anew():
    folder = put("packed/model", 50)
    lock = os.open(_use_file(folder), os.O_RDWR)
    assert try_lock(lock)
    made = []

    def use() -> None:
        with using(folder):
            made.append(folder.is_dir())
            folder.mkdir()

    thread = threading.Thread(target=use)
    thread.start()
    thread.join(timeout=0.2)
    assert made == []
    os.rename(folder, folder.with_name(".model.removed"))  # as pruning does
    _use_file(folder).unlink()
    os.close(lock)
    thread.join(timeout=120)
    assert made == [False]
    prune(1)
    assert not folder.with_name(".model.removed").exists()  # its remover was killed


def test_a_cache_that_is_read_only_serves_what_it_has(tmp_path):
    pack(RunDir(FROZEN), tmp_path / "model.zip")
    folder = unpack(tmp_path / "model.zip")
    _use_file(folder.parent).unlink()
    _use_file(folder.parent).mkdir()  # cannot be opened, even by root
    assert unpack(tmp_path / "model.zip") == folder


@pytest.mark.parametrize("text", ["much", "0", "-1", "nan"])
def test_a_limit_that_is_no_size_is_one_message(tmp_path, monkeypatch, text):
    pack(RunDir(FROZEN), tmp_path / "model.zip")
    monkeypatch.setenv("NMT_CACHE_GB", text)
    with pytest.raises(NmtError, match=rf"^\$NMT_CACHE_GB is '{text}'\n  set it to a number of gigabytes, such as 20$"):
        unpack(tmp_path / "model.zip")
    assert not cache_folder().exists()


def test_info_lists_the_models_with_the_limit(monkeypatch):
    put("packed/old", 50, 20_000)
    put("hub/user/name/commit", 0)
    monkeypatch.setenv("NMT_CACHE_GB", "0.5")
    lines = CliRunner().invoke(app, ["info", "--cache"]).stdout.splitlines()
    assert lines[0] == f"{cache_folder()}: 2 models, 0.02 GB of at most 0.5 GB ($NMT_CACHE_GB)"
    assert [line.split()[2:] for line in lines[1:]] == [["0.02", "GB", "model"], ["0.00", "GB", "hf:user/name@commit"]]
    listed = json.loads(CliRunner().invoke(app, ["info", "--cache", "--json"]).stdout)
    assert (listed["limit_gb"], [model["bytes"] for model in listed["models"]]) == (0.5, [20_000_000, 10_000])
    assert CliRunner().invoke(app, ["info", "--cache", "model"]).exit_code == 2
