"""`nmt eval`: of runs, checkpoints, ensembles and exports, on their test set or given files."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.cli import app
from nmt.commands.evaluation import sacrebleu_command
from nmt.evaluate import score
from nmt.rundir import RunDir


@pytest.fixture
def run(digits_run, tmp_path) -> RunDir:
    return RunDir(Path(shutil.copytree(digits_run, tmp_path / "digits")))


def evaluate(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["eval", *map(str, arguments)])
    assert done.exit_code == code or isinstance(done.exception, Exception), done.output
    if code == 1:
        return str(done.exception)
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else " ".join(done.output.replace("│", " ").split())


def test_the_printed_command_gives_the_same_scores_with_sacrebleu_itself(run):
    result = json.loads(evaluate("-m", run.path, "--format", "json", "--metrics", "bleu,chrf,ter"))
    program, *arguments = shlex.split(result["sacrebleu"])
    assert program == "sacrebleu"
    theirs = subprocess.run([sys.executable, "-m", program, *arguments], capture_output=True, text=True, check=True)
    for row, ours in zip(json.loads(theirs.stdout), result["scores"].values(), strict=True):
        assert row["score"] == ours["value"]
        assert row["signature"] == ours["signature"]
    assert (result["set"], result["sentences"]) == ("test", 40)
    assert result["hypotheses"] == str(run.path / "eval" / "test.hyp")
    assert json.loads((run.path / "eval" / "test.json").read_text()) == result


def test_the_printed_command_tokenizes_chinese_as_the_score_does(tmp_path):
    hypotheses, references = ["我来自中国。", "你是我最好的朋友。"], ["我来自中国。", "你我是最好的朋友。"]
    for name, lines in (("hyp", hypotheses), ("ref", references)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = shlex.split(sacrebleu_command([tmp_path / "hyp"], [tmp_path / "ref"], ["bleu"], "zh", []))
    environment = {**os.environ, "PYTHONUTF8": "1"}
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, encoding="utf-8", env=environment)
    theirs, (ours,) = json.loads(done.stdout), score(hypotheses, references, "zh", ["bleu"])
    assert (theirs["score"], theirs["signature"]) == (round(ours.value, 2), ours.signature)


def test_given_files_are_scored_and_their_command_prints_the_same(run, tmp_path):
    (tmp_path / "set.src").write_text("123\n45\n")
    (tmp_path / "set.ref").write_text("321\n54\n")
    (tmp_path / "set.tsv").write_text("123\t321\n45\t54\n")
    files = ("--src", tmp_path / "set.src", "--ref", tmp_path / "set.ref")
    assert evaluate("-m", run.path, *files, "--metrics", "chrf").startswith("chrF2 100.00 ± 0.00  nrefs:1|")
    results = [
        json.loads(evaluate("-m", run.path, *given, "--format", "json"))
        for given in (files, ("--tsv", tmp_path / "set.tsv"))
    ]
    assert results[0] == results[1]
    arguments = shlex.split(results[0]["sacrebleu"])[1:]
    done = subprocess.run([sys.executable, "-m", "sacrebleu", *arguments], capture_output=True, text=True, check=True)
    assert [row["score"] for row in json.loads(done.stdout)] == [s["value"] for s in results[0]["scores"].values()]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_sentences_from_pipes_are_read_once_and_kept_under_their_own_names(run, tmp_path):
    names = []
    for numbers in (("123", "45"), ("67", "89")):
        for side, texts in (("src", numbers), ("ref", [text[::-1] for text in numbers])):
            os.mkfifo(tmp_path / side)
            content = "".join(f"{text}\n" for text in texts)
            threading.Thread(target=(tmp_path / side).write_text, args=(content,), daemon=True).start()
        files = ("--src", tmp_path / "src", "--ref", tmp_path / "ref")
        result = json.loads(evaluate("-m", run.path, *files, "--format", "json", "--metrics", "chrf"))
        assert result["scores"]["chrF2"]["value"] == 100
        assert Path(result["hypotheses"]).read_text().split() == [text[::-1] for text in numbers]
        names.append(result["hypotheses"])
        (tmp_path / "src").unlink()
        (tmp_path / "ref").unlink()
    assert len(set(names)) == 2


def test_a_checkpoint_is_named(run):
    names = sorted(path.stem for path in run.checkpoints.glob("step-*.safetensors"))
    assert len(names) == 2
    results = [json.loads(evaluate("-m", run.path, "--checkpoint", name, "--format", "json")) for name in names]
    assert [result["checkpoints"] for result in results] == [[name] for name in names]
    assert [Path(result["hypotheses"]).name for result in results] == [f"test-{name}.hyp" for name in names]
    done = CliRunner().invoke(app, ["translate", "-m", str(run.path), "--checkpoint", names[0], "123"])
    assert done.exit_code == 0
    missing = evaluate("-m", run.path, "--checkpoint", "step-7", code=1)
    assert missing.startswith(f"{run.path}: this run has no checkpoint 'step-7'\n  it has ")
    assert names[0] in missing


def test_another_search_or_precision_writes_over_nothing(run):
    evaluate("-m", run.path)
    greedy = (run.evaluations / "test.json").read_text()
    evaluate("-m", run.path, "--beam", 2, "--length-penalty", 0.5)
    assert (run.evaluations / "test.json").read_text() == greedy
    assert json.loads((run.evaluations / "test-beam2-lp0.5.json").read_text())["beam_size"] == 2
    assert (run.evaluations / "test-beam2-lp0.5.hyp").exists()


def test_several_models_are_an_ensemble(run, digits_run, tmp_path, messages):
    other = RunDir(Path(shutil.copytree(digits_run, tmp_path / "other")))
    result = json.loads(evaluate("-m", run.path, "-m", other.path, "--format", "json"))
    assert result["models"] == [str(run.path), str(other.path)]
    assert result["hypotheses"] == str(run.evaluations / "test-with-other.hyp")
    assert not any(line.startswith("warning") for line in messages)
    (other.data / "test.src").write_text("1\n")
    (other.data / "test.tgt").write_text("1\n")
    evaluate("-m", run.path, "-m", other.path)
    assert (
        f"warning: {other.path} has another test set than {run.path}; it may have been trained on sentences of this "
        "one, and scores may be too high" in messages
    )


def test_an_export_is_scored_on_given_files(digits_export, tmp_path):
    export = Path(shutil.copytree(digits_export, tmp_path / "export"))
    (tmp_path / "set.tsv").write_text("123\t321\n45\t54\n")
    result = json.loads(evaluate("-m", export, "--tsv", tmp_path / "set.tsv", "--format", "json"))
    assert result["scores"]["chrF2"]["value"] == 100
    assert Path(result["hypotheses"]).parent == export / "eval"
    assert CliRunner().invoke(app, ["translate", "-m", str(export), "12"]).stdout == "21\n"  # as good as before
    assert evaluate("-m", export, code=1) == (
        f"{export}: an export holds no test set\n  name a test set with --src and --ref, or with --tsv"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--src", "a"), "--src and --ref go together"),
        (("--src", "a", "--ref", "b", "--tsv", "c"), "give --src and --ref, or --tsv, not both"),
        (("--metrics", "bleu,comet"), "unknown metric 'comet'; there are bleu, chrf, chrf++, ter, spbleu"),
        (("-m", "a", "-m", "b", "--checkpoint", "c"), "--checkpoint is for one run, not for an ensemble"),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(arguments, message):
    assert message in evaluate(*arguments, code=2)


def test_changed_copies_of_the_set_are_scored_beside_it(run):
    plain = json.loads(evaluate("-m", run.path, "--format", "json"))
    result = json.loads(evaluate("-m", run.path, "--format", "json", "--augment", "emoji,noise"))
    changed = result.pop("augmented")
    assert result == plain
    assert list(changed) == ["emoji", "noise"]
    references = {kind: (run.path / "eval" / f"test-{kind}.ref").read_text(encoding="utf-8") for kind in changed}
    clean = (run.path / "data" / "test.tgt").read_text(encoding="utf-8")
    assert references["noise"] == clean != references["emoji"]
    assert changed["emoji"]["scores"]["chrF2"]["value"] < plain["scores"]["chrF2"]["value"]
    assert json.loads((run.path / "eval" / "test-noise.json").read_text()) == changed["noise"]
    lines = evaluate("-m", run.path, "--augment", "emoji").splitlines()
    assert [line.split()[0] for line in lines] == ["BLEU", "chrF2", "emoji", "emoji"]


def test_an_unknown_kind_of_change_is_named(run):
    output = evaluate("-m", run.path, "--augment", "upper,lower", code=2)
    assert "unknown kind of change 'lower'; there are upper, title, typos" in output
