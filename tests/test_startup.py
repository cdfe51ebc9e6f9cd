"""`nmt --help` must answer at once: what is slow to import waits until it is needed."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "numpy", "matplotlib", "sacrebleu", "sentencepiece")


def test_the_command_line_starts_without_what_is_slow_to_import():
    check = f"import nmt.cli, sys; sys.exit(' '.join(name for name in {HEAVY} if name in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_a_model_is_loaded_without_torchs_compiler(digits_run):
    """Which torch imports, in two seconds, wherever values are computed on the meta device."""
    load = "from pathlib import Path; from nmt.translate.translator import Translator"
    check = f"import sys; {load}; Translator.load(Path({str(digits_run)!r})); sys.exit('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
