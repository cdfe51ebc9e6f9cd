"""Run the scripts of an exported page in node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

STATIC = Path(__file__).parents[3] / "nmt" / "apps" / "web" / "static"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs node, which runs the page's scripts")


def run_script(folder: Path, task: str, given: dict[str, Any]) -> Any:
    """Return what a task of run.mjs returns, with the scripts in `folder`, made modules of node."""
    assert NODE is not None
    (folder / "package.json").write_text('{"type": "module"}')
    command = [NODE, str(Path(__file__).with_name("run.mjs")), str(folder), task]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def copied_scripts(folder: Path) -> Path:
    """Copy the scripts to `folder`; return it."""
    return Path(shutil.copytree(STATIC, folder))
