"""The public interface: the names of nmt, and the examples of its page."""

from __future__ import annotations

import doctest
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nmt

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "python-api.md"


def test_the_public_names_are_these():
    assert sorted(nmt.__all__) == [
        "AdaptResult", "CheckReport", "Config", "ConfigError", "DataError", "DistillResult", "Evaluation", "Glossary",
        "MetricScore", "NmtError", "RunDir", "RunError", "SearchOptions", "SegmentTranslation", "SynthesizeResult",
        "TINY_MODEL", "Teacher", "TrainRecord", "TrainResult", "Translation", "Translator", "ValidRecord",
        "__version__", "adapt", "check", "distill", "evaluate", "load_config", "synthesize", "train", "translate",
    ]  # fmt: skip
    assert dir(nmt) == sorted(nmt.__all__)
    assert [name for name in nmt.__all__ if not hasattr(nmt, name)] == []


@pytest.mark.parametrize("name", sorted(set(nmt.__all__) - {"__version__"}))
def test_the_page_documents_each_public_name(name):
    assert f"`{name}" in PAGE.read_text(encoding="utf-8") or f" {name}(" in PAGE.read_text(encoding="utf-8")


def test_the_examples_of_the_page_print_what_it_says(tmp_path, monkeypatch):
    """In the folder of a user with the model `runs/digits`, which reverses numbers, and its corpus."""
    shutil.copytree(ROOT / "tests" / "models" / "digits", tmp_path / "runs" / "digits")
    monkeypatch.chdir(tmp_path)
    results = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8")
    assert results.attempted > 10
    assert results.failed == 0


def test_importing_nmt_imports_none_of_its_modules():
    check = "import nmt, sys; sys.exit(' '.join(name for name in sys.modules if name.startswith('nmt.')) or 0)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
