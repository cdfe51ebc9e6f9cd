"""`nmt import hf`, `nmt export hf` and `nmt info`, as they are typed."""

from __future__ import annotations

import json
import sys

import pytest

from nmt.apps import cli
from tests.apps.interop.post_norm_run import make_run


def invoke(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `nmt ARGUMENTS`."""
    monkeypatch.setattr(sys, "argv", ["nmt", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    code = caught.value.code
    return (code if isinstance(code, int) else 0, *capsys.readouterr())


def test_a_model_goes_to_hugging_face_and_comes_back(tmp_path, monkeypatch, capsys):
    run = make_run(tmp_path / "run")
    out, back = str(tmp_path / "hf"), str(tmp_path / "back")
    code, printed, said = invoke(monkeypatch, capsys, "export", "hf", str(run.path), out)
    assert (code, printed) == (0, "")
    assert said.startswith(f"done: {out}, 0.1 MB\n")
    assert invoke(monkeypatch, capsys, "export", "hf", str(run.path), out)[0] == 1
    code, _, said = invoke(monkeypatch, capsys, "translate", "--model", out, "ba")
    assert (code, said.splitlines()[1]) == (1, "  if it is a Hugging Face folder, import it with `nmt import hf`")
    code, printed, said = invoke(monkeypatch, capsys, "import", "hf", out, back)
    assert (code, printed, said) == (0, "", f"done: {back}, en-de\n  nmt translate --model {back} 'text'\n")
    code, _, said = invoke(monkeypatch, capsys, "import", "hf", out, back)
    assert (code, said.splitlines()[0]) == (1, f"error: {back}: this run already exists")
    code, printed, _ = invoke(monkeypatch, capsys, "translate", "--model", back, "--precision", "fp32", "ba de.")
    assert (code, printed) == invoke(
        monkeypatch, capsys, "translate", "--model", str(run.path), "--precision", "fp32", "ba de."
    )[:2]


def test_info_describes_a_folder_as_text_and_as_json(tmp_path, monkeypatch, capsys):
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    run = make_run(tmp_path / "run", activation="swiglu")
    code, printed, said = invoke(monkeypatch, capsys, "info", str(run.path))
    assert (code, said) == (0, "")
    lines = printed.splitlines()
    assert lines[1:3] == ["kind       run", "languages  en-de"]
    assert lines[6:] == [
        "scores     valid BLEU 12.50",
        "license    not named in README.md",
        "nmt export ctranslate2  possible",
        "nmt export hf           transformers has no post-norm translation model with model.activation: swiglu",
    ]
    found = json.loads(invoke(monkeypatch, capsys, "info", str(run.path), "--json")[1])
    assert found["kind"] == "run"
    assert found["vocabulary"]["joint"] > 300
    assert found["scores"] == {"valid BLEU": 12.5}
    assert invoke(monkeypatch, capsys, "info", str(tmp_path / "none"))[0] == 1
