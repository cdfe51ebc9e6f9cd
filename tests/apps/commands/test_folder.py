"""`nmt info` of a folder: what it holds, and the next command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import nmt


def shown(folder: Path, *arguments: object) -> list[str]:
    """The lines that the command prints in `folder`, which it leaves as it is."""
    before = sorted(folder.rglob("*"))
    done = nmt("info", *arguments, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(folder.rglob("*")) == before
    return done.stdout.splitlines()


def test_an_empty_folder_is_told_what_to_begin_with(tmp_path):
    nothing = ["corpora: none", "configurations: none", "runs: none"]
    assert shown(tmp_path) == [*nothing, "next: nmt train --src FILE --tgt FILE"]
    (tmp_path / "my data").mkdir()
    assert shown(tmp_path, "my data")[-1] == "next: cd 'my data' && nmt train --src FILE --tgt FILE"


def test_files_that_belong_together_are_a_corpus_and_other_files_are_none(tmp_path):
    for name, lines in (
        ("train.de", 30),
        ("train.en", 30),
        ("test.de", 3),
        ("test.en", 3),
        ("odd.de", 4),
        ("odd.en", 5),
    ):
        (tmp_path / name).write_text("some text\n" * lines)
    (tmp_path / "pairs.tsv").write_text("a\tb\n")
    for name in ("README.md", "README.rst", "package.json", ".hidden.tsv", "empty.de", "empty.en"):
        (tmp_path / name).write_text("{}\n\n" if name.endswith("md") else "")
    lines = shown(tmp_path)
    assert [line.split(":")[0] for line in lines[1:4]] == [
        "  pairs.tsv",
        "  test.de + test.en",
        "  train.de + train.en",
    ]
    assert lines[4:] == ["configurations: none", "runs: none", "next: nmt train --src train.de --tgt train.en"]
    (tmp_path / "train.de").unlink()
    (tmp_path / "test.de").unlink()
    assert shown(tmp_path)[-1] == "next: nmt train --corpus pairs.tsv --src-lang LANG --tgt-lang LANG"


def test_configurations_are_checked_and_those_of_other_programs_left_out(tmp_path):
    (tmp_path / "compose.yaml").write_text("services:\n  data: 1\n")
    (tmp_path / "my.yaml").write_text("data: {src_lang: de, tgt_lang: en, train: {tsv: a.tsv}}\n")
    lines = shown(tmp_path)
    assert lines[1] == "configurations:"
    assert lines[2].startswith("  my.yaml: de to en, 3+3 layers, d_model ")
    assert lines[-1] == "next: nmt train --config my.yaml"
    (tmp_path / "my.yaml").write_text("data: {src_lang: de}\n")
    assert shown(tmp_path)[-3:] == ["  my.yaml: not valid", "runs: none", "next: nmt config check --config my.yaml"]


def test_a_run_is_resumed_then_evaluated_then_used(tmp_path, digits_run):
    run = Path(shutil.copytree(digits_run, tmp_path / "runs" / "digits"))
    shutil.rmtree(run / "eval", ignore_errors=True)
    index = json.loads((run / "checkpoints/index.json").read_text())
    card = run / "README.md"
    card.unlink(missing_ok=True)
    assert shown(tmp_path)[-1] == "next: nmt train --resume --run runs/digits"
    assert shown(tmp_path)[-2].endswith(", not finished")
    card.write_text("# digits\n")
    scores = index["checkpoints"][index["best"]]
    valid = f"valid BLEU {scores['bleu']:.2f}, valid chrF2 {scores['chrf']:.2f}"
    assert shown(tmp_path)[-2:] == [f"  runs/digits: {valid}", "next: nmt eval --model runs/digits"]
    assert nmt("eval", cwd=tmp_path).returncode == 0
    said, step = shown(tmp_path)[-2:]
    assert said.startswith(f"  runs/digits: {valid}, test BLEU ")
    assert said.endswith(", test set scored 1 time")
    assert step == "next: nmt translate --model runs/digits 'text'"


def test_a_run_itself_is_described_with_its_state_and_the_next_command(tmp_path, digits_run):
    run = Path(shutil.copytree(digits_run, tmp_path / "runs" / "digits"))
    (run / "README.md").unlink(missing_ok=True)
    shutil.rmtree(run / "eval", ignore_errors=True)
    lines = shown(tmp_path, "runs/digits")
    assert lines[1] == "kind       run"
    assert "state      not finished" in lines
    assert "next       nmt train --resume --run runs/digits" in lines
    described = json.loads(nmt("info", "runs/digits", "--json", cwd=tmp_path).stdout)
    assert (described["state"], described["next"]) == (["not finished"], "nmt train --resume --run runs/digits")
    listed = json.loads(nmt("info", "--json", cwd=tmp_path).stdout)
    assert listed["runs"].keys() == {"runs/digits"}
    assert listed["next"] == described["next"]


def test_a_damaged_run_and_a_missing_folder_are_explained(tmp_path):
    (tmp_path / "runs/x/checkpoints").mkdir(parents=True)
    (tmp_path / "runs/x/run.json").write_text("{")
    (tmp_path / "runs/x/checkpoints/index.json").write_text("{")
    assert shown(tmp_path)[3].startswith("  runs/x: damaged: cannot read this file of the run (")
    assert nmt("info", "nowhere", cwd=tmp_path).stderr.startswith("error: nowhere: no such run\n")


def test_it_starts_without_torch(tmp_path):
    modules = "'torch' in sys.modules or 'sacrebleu' in sys.modules"
    check = f"import sys, nmt.apps.commands.info as command; command.info(); sys.exit({modules})"
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    assert subprocess.run([sys.executable, "-c", check], cwd=tmp_path, env=environment).returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
def test_odd_files_end_or_hide_nothing(tmp_path, two_run):
    (tmp_path / "a.yaml").mkdir()
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    with (tmp_path / "huge.yaml").open("wb") as file:
        file.truncate(10**11)
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    run = tmp_path / "runs" / "my"
    shutil.copytree(two_run, run)
    for name in ("pipe.yaml", "pipe.tsv", "pipe.de", "pipe.en", "runs/a", "runs/b/run.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name)
    shutil.copytree(two_run, tmp_path / "runs" / "odd")
    (tmp_path / "runs" / "odd" / "checkpoints" / "index.json").unlink()
    os.mkfifo(tmp_path / "runs" / "odd" / "checkpoints" / "index.json")
    lines = shown(tmp_path)
    assert "  huge.yaml: cannot be read (over 10,000,000 bytes)" in lines
    assert any(line.startswith("  runs/my: valid BLEU") for line in lines)
    assert "  runs/odd: damaged: cannot read this file of the run (not a regular file)" in lines
    assert not any("pipe" in line or "zero" in line or "gone" in line for line in lines)
