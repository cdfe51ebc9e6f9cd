"""Run the command line in a forked process, and compare what it says with a snapshot."""

from __future__ import annotations

import codecs
import contextlib
import functools
import importlib
import logging
import os
import pkgutil
import resource
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import nmt as package
from nmt.apps import cli
from tests import snapshots


class Said(NamedTuple):
    """How a command ended (minus the signal, where one ended it), and all that it said."""

    code: int
    text: str

    @property
    def error(self) -> str:
        """The one message of a command that failed."""
        return self.text[self.text.index("error: ") :].strip() if "error: " in self.text else ""


def nmt(
    *arguments: object,
    cwd: Path,
    uid: int | None = None,
    memory: int = 2 << 30,
    before: Callable[[], object] = lambda: None,
) -> Said:
    """Run `nmt` with `arguments`, as another user if `uid` is given, with `memory` bytes more than there are now.

    `before` is called in the process, before the command line starts: it may close a stream.
    """
    import torch

    _import_all()
    with tempfile.TemporaryFile() as output:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12: the other threads do not come along
            pid = os.fork()
        if pid == 0:
            code = 70
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                sys.stdout, sys.stderr = os.fdopen(1, "w", encoding="utf-8"), os.fdopen(2, "w", encoding="utf-8")
                os.chdir(cwd)
                logging.root.handlers.clear()  # pytest's: `nmt` has none
                torch.set_num_threads(1)
                _limit_memory(memory)
                if uid is not None:
                    os.setuid(uid)
                sys.argv = ["nmt", *map(str, arguments)]
                before()
                cli.main()
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else 0
            except BaseException:
                traceback.print_exc()
            finally:
                for stream in (sys.stdout, sys.stderr):
                    with contextlib.suppress(OSError):
                        stream.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        output.seek(0)
        return Said(code, output.read().decode("utf-8", errors="replace"))


@functools.cache
def _import_all() -> None:
    """Once, for all the forks to come; another user may not be allowed to read what is imported."""
    for module in pkgutil.walk_packages(package.__path__, "nmt."):
        needs_triton = module.name.startswith("nmt.model.kernels.gpu.")
        if module.name not in ("nmt.__main__", "nmt.apps.cli") and not needs_triton:
            importlib.import_module(module.name)
    for name in (
        "matplotlib.figure",
        "matplotlib.backends.backend_svg",
        "sacrebleu",
        "safetensors.torch",
    ):
        importlib.import_module(name)
    codecs.lookup("utf-8-sig")


def _limit_memory(more: int) -> None:
    pages = Path("/proc/self/statm")
    if pages.exists():
        now = int(pages.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


def assert_messages(name: str, rows: dict[str, tuple[int, str]]) -> None:
    """Compare `rows` (input: exit code, message) with the snapshot `name`."""
    snapshots.assert_messages(name, {f"{tried}: exit {code}": said for tried, (code, said) in rows.items()})
