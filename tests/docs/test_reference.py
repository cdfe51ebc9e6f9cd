"""The generated references are up to date and complete: every command, option, key and field of JSON."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import all_commands, app
from nmt.config.sections import Config

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference():
    path = ROOT / "scripts" / "docs" / "reference.py"
    spec = importlib.util.spec_from_file_location("docs_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_pages_are_those_that_the_program_writes(reference):
    for path, text in reference.pages().items():
        written = path.read_text(encoding="utf-8")
        assert written == text, f"{path.name} is out of date: run python scripts/docs/reference.py"


def help_of(*command: str) -> str:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    return result.stdout


def sections(page: str) -> dict[str, str]:
    """Return the text of each second-level section by its title."""
    return dict(re.findall(r"^## `?([^`\n]+)`?\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("command", ["train", "translate", "config new", "export ctranslate2"])
def test_the_command_line_reference_has_every_option_that_help_prints(reference, command):
    section = sections(reference.cli_reference())[f"nmt {command}"]
    options = set(re.findall(r"--[a-z][a-z-]+", section.partition("| option |")[2]))
    help_text = help_of(*command.split()).partition("Options:")[2]
    printed = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", help_text, flags=re.MULTILINE))
    assert printed - {"--help"} <= options


def test_the_command_line_reference_has_every_command(reference):
    assert list(sections(reference.cli_reference())) == [f"nmt {name}" for name, _ in all_commands()]


def test_the_configuration_reference_has_every_key_and_its_default(reference):
    page = sections(reference.configuration_reference())
    for name, field in Config.model_fields.items():
        for key in field.annotation.model_fields:
            assert f"| `{key}` | " in page[name], f"{name}.{key}"
    assert "| `lr` | number > 0.0 | `0.001` |" in page["training"]
    assert "| `betas` | list of 2 numbers | `[0.9, 0.98]` |" in page["training"]
    files = "[files](#files-of-a-data-set)"
    assert f"| `train` | {files} or list of {files} | required |" in page["data"]
    assert "| `columns` | list of 2 numbers or texts | `[1, 2]` |" in page["Files of a data set"]
    assert "| `fields` | list of 2 texts | `[src, tgt]` |" in page["Files of a data set"]
    assert "| `type` | `unigram`, `bpe`, `char`, `word` | `unigram` |" in page["tokenizer"]


def test_the_page_on_json_has_every_field_that_translate_prints():
    run = max(path for path in (ROOT / "tests" / "frozen").iterdir() if path.is_dir())
    arguments = f"translate --model {run} --format jsonl --alignments --beam 2 --n-best 2 1".split()
    command = [sys.executable, "-m", "nmt", *arguments]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    page = (ROOT / "docs" / "reference" / "jsonl.md").read_text(encoding="utf-8")
    table = page.partition("| field |")[2].partition("\n\n")[0]
    of_calibrated_runs = {"expected_chrf"}
    assert set(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)) == printed.keys() | of_calibrated_runs
