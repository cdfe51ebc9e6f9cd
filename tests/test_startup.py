"""`nmt --help` must answer at once: what is slow to import waits until it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "numpy", "matplotlib", "sacrebleu", "sentencepiece")


def test_the_command_line_starts_without_what_is_slow_to_import():
    check = f"import nmt.apps.cli, sys; sys.exit(' '.join(name for name in {HEAVY} if name in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_a_model_is_loaded_without_torchs_compiler(digits_run):
    """Which torch imports, in two seconds, wherever values are computed on the meta device."""
    load = "from pathlib import Path; from nmt.translation.translator import Translator"
    check = f"import sys; {load}; Translator.load(Path({str(digits_run)!r})); sys.exit('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


POSIX_ONLY = ("fcntl", "grp", "pwd", "resource", "termios")
IMPORT_ALL = f"""
import importlib, pkgutil, sys
import matplotlib.figure, numpy, portalocker, sacrebleu, safetensors.torch, torch.distributed, torch.optim, typer
try:
    import ctranslate2
except ImportError:
    pass
for name in {POSIX_ONLY}:
    sys.modules[name] = None
import nmt
for module in pkgutil.walk_packages(nmt.__path__, "nmt."):
    if module.name != "nmt.__main__":
        importlib.import_module(module.name)
"""


def test_every_module_can_be_imported_without_what_windows_lacks():
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "")


@pytest.mark.parametrize("text", ["/proc/self/fd", "os.kill(pid, 0)", "import fcntl", "os.waitid"])
def test_nothing_is_asked_of_a_system_that_macos_or_windows_lacks(text):
    """But in a test or in a branch of its own."""
    assert [str(path) for path in (ROOT / "nmt").rglob("*.py") if text in path.read_text(encoding="utf-8")] == []
