"""Every crash point of every kind of save, and every file operation that fails once: nothing is lost."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from nmt.apps.documents.formats import open_document, save_document
from nmt.apps.documents.review import Entry, read_reviewed, write_review
from nmt.apps.interop.sharing import pack
from nmt.apps.recipes.adapt import candidate_of, deliver
from nmt.apps.server.corrections import Corrections
from nmt.apps.server.requests import RequestError
from nmt.artifacts.find_model import find_run
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.base.files import new_folder, remove_leftovers, restore_replaced, write_text
from nmt.base.languages import Direction
from nmt.base.partial_file import PartialFile
from nmt.data.read.pairs import SentencePair
from nmt.data.store.report import CorpusCounts
from nmt.data.store.store import TokenStore, build_store
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.training.run import resume_run, start_run
from nmt.training.state import newest_state
from tests.apps.server.test_corrections import pairs
from tests.full_disk import no_room_for
from tests.quick import quick_and_slow
from tests.reliability.crashes import Recording, watched, write_tree
from tests.stored import MODELS
from tests.tiny import small_config, write_digits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads names of open files from /proc")
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


class Store:
    """The token ids of a corpus. There is no older one: a store is never replaced."""

    PAIRS = tuple(SentencePair(f"{number} 2", f"2 {number}", number) for number in range(1, 9))

    def before(self, here: Path) -> None:
        pass

    def save(self, here: Path) -> None:
        build_store(here / "store", iter(self.PAIRS), TokenizerPair.load(FROZEN / "tokenizer"), CorpusCounts())

    def read(self, here: Path) -> str:
        if not (here / "store").exists():
            return "old"
        assert len(TokenStore(here / "store")) == len(self.PAIRS)
        return "new"


class Delivery:
    """An adapted model, which replaces the run of another one and must not be lost: training it took hours."""

    def before(self, here: Path) -> None:
        self._write(here / "run", "old")
        self._write(candidate_of(here / "run"), "new")

    def _write(self, run: Path, text: str) -> None:
        (run / "weights").mkdir(parents=True)
        (run / "weights" / "a").write_text(text)
        (run / "config.yaml").write_text(text)

    def save(self, here: Path) -> None:
        if candidate_of(here / "run").exists():  # else `nmt adapt --resume` says that the adaptation is finished
            deliver(candidate_of(here / "run"), here / "run")
        restore_replaced(here / "run")
        remove_leftovers(here)  # as the next training does

    def read(self, here: Path) -> str:
        found = {self._text(here / "run"), self._text(candidate_of(here / "run"))}
        assert "new" in found
        return self._text(here / "run")

    def _text(self, run: Path) -> str:
        if not run.exists():
            return ""
        (text,) = {(run / name).read_text() for name in ("config.yaml", "weights/a")}
        return text


class Review:
    """The list of a document's translations that a person is to review."""

    def before(self, here: Path) -> None:
        self._write(here, "old")

    def save(self, here: Path) -> None:
        self._write(here, "new")

    def _write(self, here: Path, text: str) -> None:
        entries = [Entry(1, "", "12", text, "", None, "machine", "")]
        write_review(here / "list.tmx", entries, Direction("en", "de"))

    def read(self, here: Path) -> str:
        (here / "a.txt").write_text("12\n")
        (text,) = read_reviewed(
            (here / "list.tmx").read_bytes(), here / "list.tmx", open_document(here / "a.txt").blocks
        )
        (here / "a.txt").unlink()
        return text


class Reviewed:
    """A document with the translations of a reviewed list."""

    def before(self, here: Path) -> None:
        (here / "source.md").write_text("# 12\n")
        (here / "out.md").write_text("old")
        entries = [Entry(1, "", "12", "new", "", None, "machine", "")]
        write_review(here / "list.tmx", entries, Direction("en", "de"))

    def save(self, here: Path) -> None:
        document = open_document(here / "source.md")
        written = read_reviewed((here / "list.tmx").read_bytes(), here / "list.tmx", document.blocks)
        save_document(document, written, "de", here / "source.md", here / "out.md")

    def read(self, here: Path) -> str:
        return (here / "out.md").read_text().removeprefix("# ").strip()


KINDS = [
    TextFile(),
    Folder(),
    CorrectionsFile(),
    Output(),
    Tokenizer(),
    Pack(),
    Store(),
    Delivery(),
    Review(),
    Reviewed(),
]
RESTORED = Folder | Tokenizer | Delivery  # by the next command, if the name of the old one is gone


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """What is flushed is recorded; the disk of the machine need not do it thousands of times."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(params=KINDS, ids=lambda kind: type(kind).__name__)
def kind(request):
    return request.param


def test_after_a_crash_at_any_point_the_old_or_the_new_is_there_and_the_command_succeeds(kind, tmp_path, tried):
    here = tmp_path / "here"
    here.mkdir()
    kind.before(here)
    recording = Recording(here)
    recording.record(lambda: kind.save(here))
    assert kind.read(here) == "new"
    for number, tree in enumerate(recording.trees):
        crashed = tmp_path / f"{number}"
        write_tree(crashed, tree)
        if not isinstance(kind, RESTORED):
            assert kind.read(crashed) in ("old", "new"), (number, os.listdir(crashed))
        kind.save(crashed)
        assert kind.read(crashed) == "new"
        assert sorted(os.listdir(crashed)) == sorted(os.listdir(here)), number
        shutil.rmtree(crashed)
    tried("crash points", recording.num_operations)
    tried("trees as a crash leaves them", len(recording.trees))
    assert len(recording.trees) >= 2


FAULTS = {  # and of how many operations of a pack one fails: those take longest
    "full": (errno.ENOSPC, 3),
    "full, each": (errno.ENOSPC, 1),
    "broken": (errno.EIO, 1),
    "forbidden": (errno.EACCES, 1),
}


@pytest.mark.parametrize(("fault", "step"), quick_and_slow(FAULTS, lambda _, name: name == "full"))
def test_whichever_operation_fails_once_the_old_or_the_new_is_there_and_a_second_try_succeeds(
    kind, tmp_path, tried, fault, step
):
    num_failed = 0
    for failing in itertools.count(1, step if isinstance(kind, Pack) else 1):
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
    tried("operations that fail once", num_operations)
    assert num_failed >= 3


def sizes_to_fail_at(here: Path) -> list[int]:
    """Return some 28 sizes at which the files of a folder may be cut: the first bytes, and places in the longest."""
    longest = max(path.stat().st_size for path in here.rglob("*") if path.is_file())
    return sorted({*range(4), *range(0, longest, max(1, longest // 24))})


def test_wherever_a_write_takes_fewer_bytes_than_asked_the_old_is_there_and_a_second_try_succeeds(
    kind, tmp_path, tried
):
    whole = tmp_path / "whole"
    whole.mkdir()
    kind.before(whole)
    kind.save(whole)
    num_failed = 0
    for limit in sizes_to_fail_at(whole):
        here = tmp_path / f"{limit}"
        here.mkdir()
        kind.before(here)
        try:
            with no_room_for(limit):
                kind.save(here)
        except (OSError, NmtError):  # which the command tells in one message
            num_failed += 1
            assert kind.read(here) == "old", limit
        kind.save(here)
        assert kind.read(here) == "new", limit
        assert sorted(os.listdir(here)) == sorted(os.listdir(whole)), limit
        shutil.rmtree(here)
    tried("writes cut short", num_failed)
    assert num_failed >= 3 or isinstance(kind, Delivery)  # which only renames


@pytest.fixture
def training(tmp_path):
    """The configuration of a training that ends after four updates."""
    write_digits(tmp_path, num_train=40, num_held_out=4)
    return small_config(tmp_path, training={"max_updates": 4, "validate_every": 2, "log_every": 1})


@pytest.mark.slow
def test_a_training_continues_after_a_failed_operation_with_the_same_result(training, tmp_path, tried):
    counted = itertools.count()
    with watched(lambda: next(counted)):
        start_run(training, tmp_path / "whole")
    num_operations, whole = next(counted), RunDir(tmp_path / "whole")
    last = whole.index().last
    failing_ones = range(1, num_operations, num_operations // 6)  # a whole training takes half a second
    for failing in failing_ones:
        path, counted = tmp_path / f"{failing}", itertools.count(1)

        def fail(failing: int = failing, counted: Iterator[int] = counted) -> None:
            if next(counted) == failing:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        try:
            with watched(fail):
                start_run(training, path)
        except (OSError, NmtError):
            if path.exists():
                assert resume_run(training, path)
            else:
                start_run(training, path)
        assert RunDir(path).checkpoint(last).read_bytes() == whole.checkpoint(last).read_bytes(), failing
    tried("operations that fail once", len(failing_ones))


@pytest.mark.parametrize("step", quick_and_slow({"some": 6, "all": 1}, lambda _, name: name == "some"))
def test_a_training_continues_after_a_write_that_was_cut_short_with_the_same_result(training, tmp_path, tried, step):
    start_run(training, tmp_path / "whole")
    whole = RunDir(tmp_path / "whole")
    last = whole.index().last
    limits = sizes_to_fail_at(whole.path)[::step]
    for limit in limits:
        path = tmp_path / f"{limit}"
        with pytest.raises((OSError, NmtError)), no_room_for(limit):
            start_run(training, path)
        if path.exists():
            assert resume_run(training, path)
        else:
            start_run(training, path)
        assert RunDir(path).checkpoint(last).read_bytes() == whole.checkpoint(last).read_bytes(), limit
    tried("writes cut short", len(limits))


def test_a_training_continues_after_a_crash_at_any_point_with_the_same_result(training, tmp_path, tried):
    here = tmp_path / "here"
    here.mkdir()
    recording = Recording(here)
    recording.record(lambda: start_run(training, here / "run"))
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
        if number % 30 == 0:  # a whole training takes half a second
            assert resume_run(training, run.path)
            assert (run.index().last, run.checkpoint(last).read_bytes()) == (last, weights)
            num_resumed += 1
        shutil.rmtree(crashed)
    tried("crash points", recording.num_operations)
    tried("trees as a crash leaves them", len(recording.trees))
    tried("states read after a crash", num_states)
    tried("trainings resumed after a crash", num_resumed)
    assert min(num_states, num_resumed) > 3
