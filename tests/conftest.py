"""Fixtures for all tests."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import portalocker
import pytest
from hypothesis import settings

from tests.letters import write_letters
from tests.tiny import tiny_config, write_digits
from tests.two_directions import two_directions, write_two_directions
from tests.words import words_config, write_words

settings.register_profile("nmt", deadline=None)  # a machine may be busy
settings.load_profile("nmt")


class _Messages(logging.Handler):
    """Collects what nmt logs, as the command line shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(("warning: " if record.levelno >= logging.WARNING else "") + record.getMessage())


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Undo what a command line run by a test set up: later tests would log to the terminal."""
    logger = logging.getLogger("nmt")
    handlers, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.fixture
def messages() -> Iterator[list[str]]:
    """What nmt logs during the test, line by line; warnings begin with "warning: "."""
    logger, handler = logging.getLogger("nmt"), _Messages()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler.lines
    logger.setLevel(level)
    logger.removeHandler(handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real parallel text: `$NMT_DATA`, else `../shared/data` beside the checkout; skips where absent."""
    named = os.environ.get("NMT_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; name its folder in $NMT_DATA")
    return folder


def once(tmp_path_factory: pytest.TempPathFactory, name: str, train: Callable[[Path], object]) -> Path:
    """A copy of the run `name`, which the first of the test processes to want it trains."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    trained = shared / f"trained-{name}"
    with open(shared / f"{name}.lock", "w") as lock:
        portalocker.lock(lock, portalocker.LOCK_EX)
        if not trained.exists():
            train(trained)
    return Path(shutil.copytree(trained, tmp_path_factory.mktemp("runs") / name))


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus of digit strings and their reverse."""
    return write_digits(tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="session")
def digits_run(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned to reverse digits."""
    from nmt.training.run import start_run

    training = {"max_updates": 400, "warmup_updates": 50, "validate_every": 200, "batch_tokens": 1024}
    config = tiny_config(digits, tokenizer={"max_sentences": 3000}, training=training)
    return once(tmp_path_factory, "digits", lambda path: start_run(config, path))


@pytest.fixture(scope="session")
def two_corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with corpora of two directions."""
    return write_two_directions(tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="session")
def two_run(two_corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned to write digits for de and letters for fr."""
    from nmt.training.run import start_run

    training = {"max_updates": 100, "warmup_updates": 20, "validate_every": 100, "lr": 1e-2, "log_every": 50}
    config = two_directions(two_corpora, training=training)
    return once(tmp_path_factory, "two-directions", lambda path: start_run(config, path))


@pytest.fixture(scope="session")
def digits_export(digits_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`digits_run` exported to CTranslate2, in fp32; skips where that is not installed."""
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    from nmt.interop.export import export_ctranslate2
    from nmt.rundir import RunDir

    path = tmp_path_factory.mktemp("exports") / "digits"
    export_ctranslate2(RunDir(digits_run), path)
    return path


@pytest.fixture(scope="session")
def letters_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned to spell digits as letters, and to copy placeholders."""
    from nmt.training.run import start_run

    corpus = write_letters(tmp_path_factory.mktemp("letters"))
    config = tiny_config(
        corpus,
        data={"src_lang": "de", "protect": True, "placeholder_share": 0.9},
        training={"max_updates": 400, "warmup_updates": 50, "validate_every": 200, "log_every": 200},
    )
    return once(tmp_path_factory, "letters", lambda path: start_run(config, path))


@pytest.fixture
def int8_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the trial find int8 faster than fp32, on every processor and for tiny models."""
    from nmt.model.kernels import int8

    monkeypatch.setattr(int8, "int8_speedup", lambda model: 2.0)


@pytest.fixture(scope="session")
def words_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows the symbols of terms, and little else."""
    from nmt.training.run import start_run

    config = words_config(write_words(tmp_path_factory.mktemp("words"), 400))
    return once(tmp_path_factory, "words", lambda path: start_run(config, path))
