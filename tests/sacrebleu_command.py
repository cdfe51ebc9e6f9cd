"""Run the command `sacrebleu` in a forked process, which has it imported: a process of its own takes half a second."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run_sacrebleu(arguments: Sequence[object], cwd: Path | None = None) -> str:
    """Return what `sacrebleu` prints with `arguments`, in the format that it chooses itself; it must succeed."""
    command = ["sacrebleu", *map(str, arguments)]
    if not hasattr(os, "fork"):
        environment = {**os.environ, "PYTHONUTF8": "1"}
        environment.pop("SACREBLEU_FORMAT", None)
        options: dict[str, Any] = {"cwd": cwd, "env": environment, "encoding": "utf-8"}
        return subprocess.run([sys.executable, "-m", *command], capture_output=True, check=True, **options).stdout
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12: other threads do not come along
            pid = os.fork()
        if pid == 0:
            code = 70
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(error.fileno(), 2)
                sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
                sys.stdout, sys.stderr = (os.fdopen(each, "w", closefd=False) for each in (1, 2))
                os.chdir(cwd or os.getcwd())
                os.environ.pop("SACREBLEU_FORMAT", None)
                sys.argv = command
                from sacrebleu.sacrebleu import main  # only here: it lets SIGPIPE end the process that imports it

                main()
                code = 0
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        for stream in (output, error):
            stream.seek(0)
        assert code == 0, error.read().decode()
        return output.read().decode()
