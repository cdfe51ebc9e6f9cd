"""`nmt export ctranslate2`, as it is typed."""

from __future__ import annotations

import re
import shutil
import sys

import pytest
from typer.testing import CliRunner

from nmt.apps import cli
from nmt.apps.interop import agreement

pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")


def invoke(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `nmt ARGUMENTS`."""
    monkeypatch.setattr(sys, "argv", ["nmt", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    code = caught.value.code
    return (code if isinstance(code, int) else 0, *capsys.readouterr())


def test_an_export_is_made_refused_the_second_time_and_replaced_if_asked(digits_run, tmp_path, monkeypatch, capsys):
    out = str(tmp_path / "out")
    code, printed, said = invoke(monkeypatch, capsys, "export", "ctranslate2", str(digits_run), out)
    assert (code, printed) == (0, "")
    assert re.match(r"\d+ of 80 translations equal, \d near-ties; scores differ by at most \S+\n", said)
    assert f"ctranslate2.Translator({out!r}) loads it" in said
    code, _, said = invoke(monkeypatch, capsys, "export", "ctranslate2", str(digits_run), out)
    assert (code, said) == (
        1,
        f"error: {out}: this path already exists\n  replace it with --overwrite, or choose another folder\n",
    )
    arguments = ("export", "ctranslate2", str(digits_run), out, "--overwrite", "--quantization", "int8")
    code, _, said = invoke(monkeypatch, capsys, *arguments)
    assert code == 0
    assert "CTranslate2 computes int8 weights in int8" in said
    assert "BLEU on the test set: " in said


def test_disagreement_is_exit_code_1_and_leaves_nothing(digits_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(agreement, "TOLERANCE", 0.0)
    code, _, said = invoke(monkeypatch, capsys, "export", "ctranslate2", str(digits_run), str(tmp_path / "out"))
    assert code == 1
    assert "error: the export does not agree with the run: " in said
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_not_overwritten_and_an_export_is_no_run(digits_run, digits_export, tmp_path, monkeypatch, capsys):
    other = shutil.copytree(digits_run, tmp_path / "other")
    arguments = ("export", "ctranslate2", str(digits_run), str(other), "--overwrite")
    code, _, said = invoke(monkeypatch, capsys, *arguments)
    assert (code, "not an export, so nmt does not overwrite it" in said) == (1, True)
    code, _, said = invoke(monkeypatch, capsys, "export", "ctranslate2", str(digits_export), str(tmp_path / "out"))
    assert (
        code,
        "an export for CTranslate2, which nmt does not load\n  give the run" in said,
    ) == (1, True)


def test_an_unknown_quantization_is_a_wrong_command_line(digits_run, tmp_path):
    arguments = ["export", "ctranslate2", str(digits_run), str(tmp_path / "out"), "--quantization", "int4"]
    done = CliRunner().invoke(cli.app, arguments)
    assert (done.exit_code, "int4" in done.output) == (2, True)


def test_an_export_says_that_a_better_phrase_table_is_left_out(phrases_run, tmp_path, monkeypatch, capsys):
    _, _, said = invoke(monkeypatch, capsys, "export", "hf", str(phrases_run.path), str(tmp_path / "out"))
    assert said.startswith("warning: exporting the network only: nmt translates with the phrase table of this run")
