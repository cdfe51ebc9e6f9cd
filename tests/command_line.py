"""Run the command line in the process of the tests, which saves the second that a process of its own takes to start."""

from __future__ import annotations

import io
import logging
import os
import sys
import tempfile
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from nmt.apps import cli


def nmt(*arguments: object, cwd: Path | None = None, stdin: bytes = b"", **environment: str) -> CompletedProcess[str]:
    """Run `nmt` with `arguments` and these standard streams; return its exit code and what it printed."""
    command = ["nmt", *map(str, arguments)]
    logger, variables = logging.getLogger("nmt"), dict(os.environ)
    handlers, level = logger.handlers[:], logger.level
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryFile() as given, open(0, closefd=False) as before:
        patch.delenv("NMT_MODEL", raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        given.write(stdin)
        given.seek(0)
        output, error = io.BytesIO(), io.BytesIO()
        patch.setattr(sys, "argv", command)
        patch.setattr(sys, "stdin", io.TextIOWrapper(given))
        patch.setattr(sys, "stdout", io.TextIOWrapper(output))
        patch.setattr(sys, "stderr", io.TextIOWrapper(error))
        kept = os.dup(before.fileno())
        os.dup2(given.fileno(), 0)
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0
        finally:
            os.dup2(kept, 0)
            os.close(kept)
            logger.handlers[:] = handlers
            logger.setLevel(level)
            for name in os.environ.keys() - variables.keys():
                del os.environ[name]
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        return CompletedProcess(command, code, output.getvalue().decode(), error.getvalue().decode())
