"""Fixtures for all tests."""

from __future__ import annotations

import functools
import gc
import logging
import os
import signal
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.quick import examples

settings.register_profile("nmt", deadline=None, max_examples=examples(12, 100))  # a machine may be busy
settings.load_profile("nmt")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage meanwhile, and never look at the objects again: modules and tests, which stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(5000, 10, 50)  # of the usual 700, 10, 10, a twenty-fifth of the processor time was collecting
        gc.enable()


@functools.lru_cache(maxsize=1)
def _let_loggers_propagate(num_loggers: int) -> None:
    """Let the loggers of PyTorch and transformers pass their messages on, if there are new ones.

    pytest adds its handlers to each logger that does not, six times a test: 42 of PyTorch, 210 with its compiler.
    """
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.startswith(("torch", "transformers")) and isinstance(logger, logging.Logger):
            logger.propagate = True


IN_ONE_PROCESS = {
    "PyTorch's compiler, as transformers and torch.optim do": (
        "tests/apps/interop/",
        "tests/benchmarks/test_benchmarks.py",
        "tests/decoding/engines/test_torch_engine.py",
        "tests/model/test_as_students_type.py",
        "tests/model/test_attention.py",
        "tests/training/update/test_adamw.py",
    ),
    "the run with a phrase table, which takes longer to make": (
        "tests/decoding/engines/test_phrase_engine.py",
        "tests/training/test_phrases.py",
        "tests/training/test_verdict.py",
    ),
    "openai": (
        "tests/apps/commands/test_synthesize_teacher.py",
        "tests/apps/server/test_clients.py",
        "tests/apps/server/test_openai.py",
        "tests/apps/server/test_teacher.py",
    ),
}
"""Files that import or use the same, which takes a second or more, by what that is."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one process run all files that import or use the same, if `--dist loadfile`."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            imported = (name for name, files in IN_ONE_PROCESS.items() if nodeid.startswith(files))
            return next(imported, super()._split_scope(nodeid))

    return Scheduling(config, log)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a process of xdist report of a test that passes no more than its call, which is all that is printed.

    Of six messages for each test four said nothing, and most of what xdist costs are messages.
    """
    options = session.config.option
    plugins = session.config.pluginmanager.get_plugins()
    sender: Any = next((plugin for plugin in plugins if type(plugin).__name__ == "WorkerInteractor"), None)
    if sender is None or options.durations is not None or options.xmlpath:  # which need the other parts, too
        return
    send = sender.sendevent

    def send_what_is_printed(name: str, **values: Any) -> None:
        passed = name == "testreport" and values["data"]["outcome"] == "passed"
        if passed:
            values["data"]["keywords"] = {}
        if name not in ("logstart", "logfinish") and not (passed and values["data"]["when"] != "call"):
            send(name, **values)

    sender.sendevent = send_what_is_printed


def _environment() -> dict[str, str]:
    """Return the variables but the one in which pytest names the test, which changes before and after it."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


class _Messages(logging.Handler):
    """Collects what nmt logs, as the command line shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(("warning: " if record.levelno >= logging.WARNING else "") + record.getMessage())


@pytest.fixture(autouse=True)
def _state_as_before() -> Iterator[None]:
    """Undo what a test, or a command line that it ran, set for the whole process, even if the test failed."""
    logger = logging.getLogger("nmt")
    handlers, level = logger.handlers[:], logger.level
    environment, folder = _environment(), Path.cwd()
    _let_loggers_propagate(len(logging.root.manager.loggerDict))
    torch = sys.modules.get("torch")
    threads, dtype = (torch.get_num_threads(), torch.get_default_dtype()) if torch else (0, None)
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)
    os.chdir(folder)
    if (changed := _environment()) != environment:
        for name in changed.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
    if torch and (threads, dtype) != (torch.get_num_threads(), torch.get_default_dtype()):
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)


@pytest.fixture(autouse=True)
def _rate_measured_once() -> None:
    """Let each training of a process take the speed of its device that the first one measured, in some 30 ms."""
    device = sys.modules.get("nmt.base.device")
    if device and not hasattr(device.product_rate, "cache_info"):
        device.product_rate = functools.cache(device.product_rate)  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _no_process_left() -> Iterator[None]:
    """End the processes that a test started and did not wait for, because it failed, and close their pipes."""
    started: list[subprocess.Popen[Any]] = []
    start = subprocess.Popen.__init__

    def record(process: subprocess.Popen[Any], *arguments: Any, **options: Any) -> None:
        start(process, *arguments, **options)
        started.append(process)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", record)
        yield
    for process in started:
        if process.poll() is None:
            process.terminate()  # which a training passes on to its other processes
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


_failed: list[str] = []
_TRIED = "tried: "  # begins the properties of a report that are counted
_tried: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.append(report.nodeid)
    if report.when == "call":
        for name, count in report.user_properties:
            if name.startswith(_TRIED):
                _tried[name.removeprefix(_TRIED)] += int(str(count))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many cases of a kind the tests tried, also in other processes of xdist."""
    if _tried:
        terminalreporter.write_line(
            "tried: " + ", ".join(f"{count:,} {what}" for what, count in sorted(_tried.items()))
        )


@pytest.fixture
def tried(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """Add a number of cases of a kind to the line that is printed after all tests."""
    return lambda what, count: record_property(_TRIED + what, count)


def pytest_runtest_logfinish() -> None:
    """Collect what the traceback of a failed test kept alive: its warnings about open files would fail another test."""
    if _failed:
        _failed.clear()
        sys.last_exc = sys.last_value = sys.last_traceback = None  # type: ignore[attr-defined]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()


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


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw 80 bootstrap samples instead of 1,000, for tests of something else than intervals."""
    from nmt.evaluation import significance

    monkeypatch.setattr(significance, "NUM_SAMPLES", 80)


@pytest.fixture(scope="session")
def phrases_run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run with a phrase table, in a folder with its corpus; tests write into copies."""
    from tests.phrases import make_phrases_run

    return make_phrases_run(tmp_path_factory.mktemp("phrases"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real parallel text: `$NMT_DATA`, else `../shared/data` beside the checkout; skips where absent."""
    named = os.environ.get("NMT_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; name its folder in $NMT_DATA")
    return folder


@pytest.fixture(scope="session")
def stored_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Copy a run in tests/models, once per process, with its corpus; see tests/stored.py."""
    from tests.stored import copy_run

    @functools.cache
    def copy(name: str) -> Path:
        return copy_run(name, tmp_path_factory.mktemp("runs") / name, tmp_path_factory.mktemp(f"corpus-{name}"))

    return copy


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus of digit strings and their reverse."""
    from tests.tiny import write_digits

    return write_digits(tmp_path_factory.mktemp("digits"), num_train=240, num_held_out=10)


@pytest.fixture(scope="session")
def digits_run(stored_run: Callable[[str], Path]) -> Path:
    """A run that has learned to reverse digits."""
    return stored_run("digits")


@pytest.fixture(scope="session")
def two_corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with corpora of two directions."""
    from tests.two_directions import write_two_directions

    return write_two_directions(tmp_path_factory.mktemp("two"), num_train=240)


@pytest.fixture(scope="session")
def two_run(stored_run: Callable[[str], Path]) -> Path:
    """A run that has learned to reverse digits for de, and to write letters for fr."""
    return stored_run("two-directions")


@pytest.fixture(scope="session")
def digits_export(digits_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`digits_run` exported to CTranslate2, in fp32; skips where that is not installed."""
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    from nmt.apps.interop.export import export_ctranslate2
    from nmt.artifacts.rundir import RunDir

    path = tmp_path_factory.mktemp("exports") / "digits"
    export_ctranslate2(RunDir(digits_run), path)
    return path


@pytest.fixture(scope="session")
def letters_run(stored_run: Callable[[str], Path]) -> Path:
    """A run that has learned to spell digits as letters, and to copy placeholders."""
    return stored_run("letters")


@pytest.fixture(scope="session")
def words_run(stored_run: Callable[[str], Path]) -> Path:
    """A run that has learned to write words backwards, and to obey a glossary."""
    return stored_run("words")
