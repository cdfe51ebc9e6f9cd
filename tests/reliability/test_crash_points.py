"""Every crash point of every kind of save, and every file operation that fails once: nothing is lost."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import os
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from nmt.apps.interop.sharing import pack
from nmt.apps.server.corrections import Corrections
from nmt.apps.server.requests import RequestError
from nmt.artifacts.find_model import find_run
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.base.files import new_folder, write_text
from nmt.base.languages import Direction
from nmt.base.partial_file import PartialFile
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.training.run import resume_run, start_run
from nmt.training.state import newest_state
from tests.apps.server.test_corrections import pairs
from tests.reliability.crashes import Recording, watched, write_tree
from tests.stored import MODELS
from tests.tiny import small_config, write_digits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads names of open files from /proc")
log = logging.getLogger(__name__)
FROZEN = Path(__file__).parents[1] / "frozen" / "format-1"


def make_folder(path: Path, text: str) -> None:
    with new_folder(path, replace=nullcontext) as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "b").write_text(text)
        (folder / "a").write_text(text)


class TextFile:
    """A small file, such as an index or a record of scores."""

    def before(self, here: Path) -> None:
        write_text(here / "a.txt", "old")

    def save(self, here: Path) -> None:
        write_text(here / "a.txt", "new")

    def read(self, here: Path) -> str:
        return (here / "a.txt").read_text()


class Folder:
    """A folder that replaces another, such as an export."""

    def before(self, here: Path) -> None:
        make_folder(here / "out", "old")

    def save(self, here: Path) -> None:
        make_folder(here / "out", "new")

    def read(self, here: Path) -> str:
        (text,) = {(here / "out" / name).read_text() for name in ("a", "sub/b")}
        return text


class CorrectionsFile:
    """The corrections of a server. A crash may leave a part of the new ones, never less than the old."""

    def before(self, here: Path) -> None:
        self._add(here, ("1", "old"))

    def save(self, here: Path) -> None:
        self._add(here, ("2", "new"))

    def _add(self, here: Path, pair: tuple[str, str]) -> None:
        corrections = Corrections(here / "a.tmx")
        try:
            asyncio.run(corrections.add(Direction("en", "de"), [pair]))
        except RequestError as error:
            raise NmtError(str(error.detail)) from None

    def read(self, here: Path) -> str:
        Corrections(here / "a.tmx")  # a start removes an incomplete rest
        found = pairs(here / "a.tmx")
        assert found[:1] == [("1", "old")]
        return found[-1][1]


class Output:
    """An output of a command, with --resume."""

    LINES = ("one\n", "two\n", "three\n")

    def before(self, here: Path) -> None:
        (here / "out.txt").write_text("old")

    def save(self, here: Path) -> None:
        with PartialFile(here / "out.txt", {"beam": 4}, 1, resume=True) as file:
            for line in self.LINES[file.num_texts :]:
                file.write(line)

    def read(self, here: Path) -> str:
        text = (here / "out.txt").read_text()
        return "new" if text == "".join(self.LINES) else text


class Tokenizer:
    """The tokenizer of a run, in place of another one."""

    def before(self, here: Path) -> None:
        TokenizerPair.load(MODELS / "words" / "tokenizer").save(here / "tokenizer")

    def save(self, here: Path) -> None:
        TokenizerPair.load(FROZEN / "tokenizer").save(here / "tokenizer", overwrite=True)

    def read(self, here: Path) -> str:
        size = TokenizerPair.load(here / "tokenizer").src.vocab_size
        return "new" if size == TokenizerPair.load(FROZEN / "tokenizer").src.vocab_size else "old"


class Pack:
    """A packed model."""

    def before(self, here: Path) -> None:
        (here / "m.zip").write_bytes(b"old")

    def save(self, here: Path) -> None:
        pack(RunDir(FROZEN), here / "m.zip")

    def read(self, here: Path) -> str:
        if (here / "m.zip").read_bytes() == b"old":
            return "old"
        assert find_run(str(here / "m.zip")).index().best
        return "new"


KINDS = [TextFile(), Folder(), CorrectionsFile(), Output(), Tokenizer(), Pack()]


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """What is flushed is recorded; the disk of the machine need not do it thousands of times."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(params=KINDS, ids=lambda kind: type(kind).__name__)
def kind(request):
    return request.param


def test_after_a_crash_at_any_point_the_old_or_the_new_is_there_and_the_command_succeeds(
    kind, tmp_path, record_property
):
    here = tmp_path / "here"
    here.mkdir()
    kind.before(here)
    recording = Recording(here)
    recording.record(lambda: kind.save(here))
    assert kind.read(here) == "new"
    for number, tree in enumerate(recording.trees):
        crashed = tmp_path / f"{number}"
        write_tree(crashed, tree)
        if not isinstance(kind, Folder | Tokenizer):  # of which the next command restores the name
            assert kind.read(crashed) in ("old", "new"), (number, os.listdir(crashed))
        kind.save(crashed)
        assert kind.read(crashed) == "new"
        assert sorted(os.listdir(crashed)) == sorted(os.listdir(here)), number
        shutil.rmtree(crashed)
    log.info("%s: %d operations, %d trees", type(kind).__name__, recording.num_operations, len(recording.trees))
    assert len(recording.trees) >= 2


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO, errno.EACCES], ids=["full", "broken", "forbidden"])
def test_whichever_operation_fails_once_the_old_or_the_new_is_there_and_a_second_try_succeeds(kind, tmp_path, fault):
    num_failed = 0
    for failing in itertools.count(1):
        here = tmp_path / f"{failing}"
        here.mkdir()
        kind.before(here)
        num_operations = 0

        def fail(failing: int = failing) -> None:
            nonlocal num_operations
            num_operations += 1
            if num_operations == failing:
                raise OSError(fault, os.strerror(fault))

        try:
            with watched(fail):
                kind.save(here)
        except (OSError, NmtError):  # which the command tells in one message
            num_failed += 1
        assert kind.read(here) in ("old", "new"), failing
        kind.save(here)
        assert kind.read(here) == "new"
        shutil.rmtree(here)
        if num_operations < failing:
            break
    log.info("%s: %d of %d failures told", type(kind).__name__, num_failed, failing - 1)
    assert num_failed >= 3


def test_a_training_continues_after_a_crash_at_any_point_with_the_same_result(tmp_path):
    write_digits(tmp_path, num_train=40, num_held_out=4)
    training = {"max_updates": 4, "validate_every": 2, "log_every": 1}
    config = small_config(tmp_path, training=training)
    here = tmp_path / "here"
    here.mkdir()
    recording = Recording(here)
    recording.record(lambda: start_run(config, here / "run"))
    last = RunDir(here / "run").index().last
    weights = RunDir(here / "run").checkpoint(last).read_bytes()
    num_states = num_resumed = 0
    for number, tree in enumerate(recording.trees):
        if "run" not in tree:
            continue
        crashed = tmp_path / f"{number}"
        write_tree(crashed, tree)
        run = RunDir(crashed / "run")
        run.check()
        if run.state.exists() or run.previous_state.exists():
            newest_state(run)
            num_states += 1
        if number % 20 == 0:  # a whole training takes half a second
            assert resume_run(config, run.path)
            assert (run.index().last, run.checkpoint(last).read_bytes()) == (last, weights)
            num_resumed += 1
        shutil.rmtree(crashed)
    counts = recording.num_operations, len(recording.trees), num_states, num_resumed
    log.info("training: %d operations, %d trees, %d states read, %d trainings resumed", *counts)
    assert min(num_states, num_resumed) > 3
