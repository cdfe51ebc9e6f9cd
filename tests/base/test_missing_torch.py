"""Where PyTorch is not installed, all commands that do not train work, and the others are one message."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nmt.apps.cli import all_commands
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import missing_torch
from nmt.decoding.engines import native_engine
from tests.tiny import tiny_values

pytestmark = pytest.mark.skipif(not native_engine.is_available(), reason="the native decoder was not built")

# Each command as `main` runs it, one after the other in one process: a start takes most of its time.
RUN_ALL = """
import io, json, sys
sys.modules["torch"] = None
from nmt.apps.cli import main
said = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["nmt", *arguments]
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    try:
        main()
    except SystemExit as stop:
        said.append((stop.code or 0, sys.stdout.getvalue(), sys.stderr.getvalue()))
    except BaseException:
        sys.stderr = sys.__stderr__
        raise
assert not any(name.startswith("torch.") for name in sys.modules)
json.dump(said, sys.__stdout__)
"""
INSTALL = 'in the checkout of nmt: pip install ".[train]"\n'


def without_torch(*commands: Sequence[str], cwd: Path) -> list[tuple[int, str, str]]:
    """(exit code, output, messages) of each command."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n{RUN_ALL}"
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)], capture_output=True, text=True, cwd=cwd, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return [tuple(each) for each in json.loads(done.stdout)]


@pytest.fixture
def folder(digits, digits_run, tmp_path) -> Path:
    """A folder with the corpus, a configuration and a run."""
    (tmp_path / "run").symlink_to(digits_run)
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.tsv").symlink_to(digits / f"{split}.tsv")
    (tmp_path / "x.yaml").write_text(json.dumps(tiny_values(digits)))
    (tmp_path / "a.txt").write_text("12\n345\n")
    return tmp_path


WORK = {
    "translate": "translate -m run 12",
    "translate with a beam": "translate -m run --beam 3 --n-best 2 --format jsonl 12",
    "translate with a picture": "translate -m run --attention x.svg 12",
    "translate with alignments": "translate -m run -i a.txt -o b.txt --format jsonl --alignments",
    "synthesize": "synthesize -m run -i a.txt -o pairs.tsv --allow wrong_language",
    "eval": "eval -m run",
    "eval with details": "eval -m run --tsv test.tsv --details --report r.html",
    "compare": "compare run",
    "score": "score -m run --tsv test.tsv",
    "info": "info run",
    "info of a folder": "info",
    "pack": "pack run -o new.zip",
    "translate with a packed model": "translate -m new.zip 12",
    "plot": "plot run -o curves.svg",
    "vocab": "vocab -c x.yaml -o vocab",
    "shortlist": "shortlist run",
    "config new": "config new --corpus train.tsv --src-lang en --tgt-lang en",
    "config show": "config show -c x.yaml",
    "config check": "config check -c x.yaml",
    "data check": "data check -c x.yaml",
    "data clean": "data clean -c x.yaml -o kept.tsv",
}
NEED_TORCH = {
    "train": "train -c x.yaml --run new",
    "adapt": "adapt run --corpus train.tsv --run new",
    "distill": "distill run --run new",
    "train in several processes": "train -c x.yaml --run new --num-processes 2",
    "resume": "train --resume --run run",
    "export ctranslate2": "export ctranslate2 run new",
    "export hf": "export hf run new",
    "export argos": "export argos run new.argosmodel",
    "import hf": "import hf nothing new",
}
NOT_TRIED = {"serve", "push", "export web"}  # the first does not end; see below. The others need a hub and a compiler


def test_every_command_is_tried():
    tried = {line.split(" -")[0] for line in (*WORK.values(), *NEED_TORCH.values())}
    missing = {
        name for name, _ in all_commands() if not any(line == name or line.startswith(f"{name} ") for line in tried)
    }
    assert missing == NOT_TRIED


def test_all_commands_that_do_not_train_work(folder):
    for name, (code, _, messages) in zip(
        WORK, without_torch(*(line.split() for line in WORK.values()), cwd=folder), strict=True
    ):
        assert (code, "error" in messages) == (0, False), f"{name}: {messages}"
    assert (folder / "x.svg").exists()


REASONS = {
    "--engine torch": "the engine torch needs PyTorch",
    "-m run": "the native engine does not support ensembles; the engine torch needs PyTorch",
    "--device cuda": "the native engine does not support the device cuda; the engine torch needs PyTorch",
    "--precision bf16": "the native engine does not support the precision bf16; the engine torch needs PyTorch",
}


def test_commands_and_translations_that_need_torch_say_why_in_one_message_and_write_nothing(folder, digits_run):
    run = RunDir(Path(shutil.copytree(digits_run, folder / "other")))
    config = run.config()
    run.write_config(config.model_copy(update={"model": config.model.model_copy(update={"attention": "additive"})}))
    reasons = dict.fromkeys(NEED_TORCH.values(), "this command needs PyTorch")
    reasons |= {f"translate -m run {options} 12": reason for options, reason in REASONS.items()}
    attention = "the native engine does not support model.attention: additive; the engine torch needs PyTorch"
    reasons["translate -m other 12"] = attention
    before = sorted(folder.iterdir())
    said = without_torch(*map(str.split, reasons), cwd=folder)
    for (command, reason), found in zip(reasons.items(), said, strict=True):
        assert found == (1, "", f"error: {reason}, which is not installed\n  {INSTALL}"), command
    assert sorted(folder.iterdir()) == before


def test_a_server_loads_its_models(folder):
    pytest.importorskip("starlette", reason="needs the extra serve")
    code = """
import sys; sys.modules["torch"] = None
import nmt.apps.server.run
from nmt.translation import Translator
print(Translator.load("run").translate(["12"])[0].text)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert (done.returncode, done.stdout) == (0, "21\n"), done.stderr


def test_another_missing_package_stays_a_bug():
    error = ModuleNotFoundError("No module named 'nmt.nothing'", name="nmt.nothing")
    with pytest.raises(ModuleNotFoundError) as caught:
        missing_torch(error)
    assert caught.value is error
