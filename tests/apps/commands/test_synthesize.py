"""`nmt synthesize` writes pairs in the order of the training they are for, and can be killed at any moment."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.apps.recipes.synthesis import CorpusWriter
from nmt.artifacts.checkpoint import read_weights, save_weights
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.config import ParallelFiles
from nmt.data.read.pairs import read_parallel

ROOT = Path(__file__).parents[3]
SAMPLING = ("--set", "decoding.sample=true", "--n-best", "2", "--keep", "0.7", "--allow", "copied")


@pytest.fixture
def folder(digits_run, tmp_path, monkeypatch) -> Path:
    """The current folder, with monolingual text: digits in the file mono."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NMT_MODEL", str(digits_run))
    (tmp_path / "mono").write_text("".join(f"{line}\n" for line in digits(90)))
    return tmp_path


def digits(count: int) -> list[str]:
    draw = random.Random(5)
    return ["".join(draw.choices("0123456789", k=draw.randint(3, 7))) for _ in range(count)]


def synthesize(*arguments: str, code: int = 0) -> str:
    """Run the command and return what it prints; an NmtError is raised."""
    done = CliRunner().invoke(app, ["synthesize", *arguments], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def pairs(path: Path) -> list[list[str]]:
    header, *rows = path.read_text().removesuffix("\n").split("\n")
    assert header == "src\ttgt"
    return [row.split("\t") for row in rows]


def test_back_translation_writes_the_output_as_source_and_self_training_as_target(folder, messages):
    synthesize("-i", "mono", "-o", "back.tsv", "--allow", "copied")
    synthesize("-i", "mono", "-o", "forward.tsv", "--forward", "--allow", "copied")
    back, forward = pairs(folder / "back.tsv"), pairs(folder / "forward.tsv")
    assert [tgt for _, tgt in back] == [src for src, _ in forward] == digits(90)
    assert [src for src, _ in back] == [tgt for _, tgt in forward]
    assert sum(src == tgt[::-1] for src, tgt in back) > 60
    plans = [line for line in messages if line.startswith(("back", "self"))]
    assert plans == [
        "back-translation: src (en) is the model's output, tgt (en) is a line of mono; --forward swaps them",
        "self-training: src (en) is a line of mono, tgt (en) is the model's output",
    ]
    assert sorted(os.listdir(folder)) == ["back.tsv", "forward.tsv", "mono"]


def test_lines_that_make_no_pair_are_counted_and_none_breaks_a_row(folder, messages):
    given = ["12\t345", "", "x" * 1200, "a\0b", "1\x0b2", "  678 ", '"9"', "#N/A", "12\r34"]
    (folder / "odd").write_bytes("\n".join(given).encode() + b"\nbad \xff byte\n")
    synthesize("-i", "odd", "-o", "out.tsv", *(f"--allow={fault}" for fault in ("unfinished", "looped", "copied")))
    assert [tgt for _, tgt in pairs(folder / "out.tsv")] == ["12 345", "678", '"9"', "#N/A", "12 34"]
    counts = "kept 5 of 10 pairs from 10 lines; dropped: 1 blank, 3 unreadable, 1 too_long"
    assert counts in messages


def test_jsonl_has_scores_and_lines_and_gz_is_compressed(folder):
    (folder / "few.gz").write_bytes(gzip.compress(b"123\n\n4567\n"))
    synthesize("-i", "few.gz", "-o", "out.jsonl.gz", "--beam", "2", "--allow", "copied")
    records = [json.loads(line) for line in gzip.decompress((folder / "out.jsonl.gz").read_bytes()).splitlines()]
    assert [(record["tgt"], record["line"]) for record in records] == [("123", 1), ("4567", 3)]
    assert all(-1 < record["score"] < 0 for record in records)
    again = (folder / "out.jsonl.gz").read_bytes()
    synthesize("-i", "few.gz", "-o", "out.jsonl.gz", "--beam", "2", "--allow", "copied")
    assert (folder / "out.jsonl.gz").read_bytes() == again


def test_equal_lines_get_samples_of_their_own(folder):
    (folder / "same").write_text("1234567\n" * 40)
    options = (
        "--set",
        "decoding.sample=true",
        "--set",
        "decoding.temperature=2",
        "--set",
        "decoding.top_k=4",
        "--allow",
        "copied",
        "--allow",
        "looped",
    )
    synthesize("-i", "same", "-o", "out.tsv", *options)
    assert len({src for src, _ in pairs(folder / "out.tsv")}) > 10


def interrupt(*arguments: str) -> None:
    """Run the command up to the moment at which it writes the corpus."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CorpusWriter, "write", lambda *_: (_ for _ in ()).throw(NmtError("stop")))
        with pytest.raises(NmtError, match="stop"):
            synthesize(*arguments)


def test_an_output_that_ends_at_any_byte_is_resumed_to_the_same_bytes(folder, messages):
    arguments = ("-i", "mono", "-o", "out.jsonl", *SAMPLING)
    interrupt(*arguments)
    whole = (folder / "out.jsonl.partial").read_bytes()
    settings = (folder / "out.jsonl.partial.json").read_bytes()
    synthesize(*arguments, "--resume")
    expected = (folder / "out.jsonl").read_bytes()
    assert expected.count(b"\n") > 60
    draw = random.Random(3)
    for size in [0, len(whole), *(draw.randrange(len(whole)) for _ in range(6))]:
        (folder / "out.jsonl").unlink()
        (folder / "out.jsonl.partial").write_bytes(whole[:size])
        (folder / "out.jsonl.partial.json").write_bytes(settings)
        synthesize(*arguments, "--resume")
        assert (folder / "out.jsonl").read_bytes() == expected, size
        assert sorted(os.listdir(folder)) == ["mono", "out.jsonl"]
    assert "resuming after 90 lines" in messages


def test_an_output_is_not_resumed_with_other_options_input_or_weights(folder, digits_run):
    arguments = ("-i", "mono", "-o", "out.tsv")
    interrupt(*arguments)
    with pytest.raises(NmtError, match="holds 90 lines of an interrupted run"):
        synthesize(*arguments)
    with pytest.raises(NmtError, match="was written with forward False, not True"):
        synthesize(*arguments, "--forward", "--resume")
    with pytest.raises(NmtError, match=r"was written with keep 1\.0, not 0\.5"):
        synthesize(*arguments, "--keep", "0.5", "--resume")
    lines = (folder / "mono").read_text().splitlines()
    (folder / "mono").write_text("\n".join([*lines[:40], "4711", *lines[41:]]))
    with pytest.raises(NmtError) as caught:
        synthesize(*arguments, "--resume")
    assert str(caught.value) == (
        "mono: its first 90 lines are not those that were translated\n"
        "  resume with the same input, or delete the .partial file to start over"
    )
    (folder / "mono").write_text("\n".join(lines[:50]))
    with pytest.raises(NmtError, match="only 50 lines, but 90 are translated already"):
        synthesize(*arguments, "--resume")
    (folder / "mono").write_text("\n".join(lines))
    run = RunDir(shutil.copytree(digits_run, folder / "other" / digits_run.name))
    best = run.best_checkpoint()  # a run of the same name, with a checkpoint of the same name
    save_weights(best, {name: tensor + 1e-6 for name, tensor in read_weights(best).items()})
    with pytest.raises(NmtError, match="was written with weights"):
        synthesize(*arguments, "--model", str(run.path), "--resume")
    assert not (folder / "out.tsv").exists()


def test_damaged_candidates_are_named_by_their_line(folder):
    interrupt("-i", "mono", "-o", "out.tsv")
    lines = (folder / "out.tsv.partial").read_bytes().splitlines(keepends=True)
    (folder / "out.tsv.partial").write_bytes(b"".join([*lines[:6], b"\0\0\0\n", *lines[7:]]))
    with pytest.raises(NmtError, match=r"out\.tsv\.partial:7: this line is damaged"):
        synthesize("-i", "mono", "-o", "out.tsv", "--resume")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("-i", "mono", "-o", "out.tsv", "--set", "decoding.sample=true", "--beam", "3"),
            "sampling and beam search cannot be combined",
        ),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(arguments, message, folder):
    assert message in " ".join(synthesize(*arguments, code=2).split())
    assert os.listdir(folder) == ["mono"]


def test_an_input_that_is_missing_is_said_at_once(folder):
    with pytest.raises(NmtError, match="nowhere: no such file"):
        synthesize("-i", "nowhere", "-o", "out.tsv")


def test_a_training_takes_the_corpus_as_the_printed_lines_say(folder, digits, messages):
    from nmt.data.tokens.tokenizer import TokenizerPair
    from nmt.training.run import start_run
    from tests.tiny import tiny_config

    synthesize("-i", "mono", "-o", "out.tsv", "--allow", "copied")
    printed = yaml.safe_load(messages[-1].partition("\n")[2].replace("{…, ", "{tsv: parallel.tsv, "))
    assert printed["data"]["train"][1] == {
        "tsv": "out.tsv", "columns": ["src", "tgt"], "quoting": False, "tag": "<bt>", "weight": 1
    }  # fmt: skip
    (folder / "parallel.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in ["123", "456"] * 20))
    training = {"max_updates": 2, "warmup_updates": 1, "validate_every": 2}
    config = tiny_config(digits, data=printed["data"], training=training)
    start_run(config, folder / "run")
    tokenizer = TokenizerPair.load(RunDir(folder / "run").tokenizer).src
    assert "<bt>" in tokenizer.tokens(tokenizer.encode("<bt> 1"))
    assert (folder / "run" / "checkpoints" / "index.json").exists()


def test_every_row_is_read_back_by_a_training(folder):
    (folder / "odd").write_text('"quoted"\n=1+2\nsource\n12\n')
    allowed = [f"--allow={fault}" for fault in ("unfinished", "looped", "copied", "empty")]
    synthesize("-i", "odd", "-o", "out.tsv", *allowed)
    files = ParallelFiles(tsv="out.tsv", columns=("src", "tgt"), quoting=False)
    read = [(pair.src, pair.tgt) for pair in read_parallel(files)]
    assert read == [tuple(row) for row in pairs(folder / "out.tsv")]


@pytest.mark.skipif(os.name == "nt", reason="sends signals")
def test_a_killed_command_is_resumed_to_the_same_bytes(folder):
    check_kills(folder, 1)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends signals")
def test_a_command_killed_again_and_again_is_resumed_to_the_same_bytes(folder):
    (folder / "mono").write_text("".join(f"{line}\n" for line in digits(3000)))
    check_kills(folder, 8)


def check_kills(folder: Path, count: int) -> None:
    """Kill the command `count` times while it works, and compare its output with an uninterrupted one."""
    arguments = [*SAMPLING]
    synthesize(*arguments, "-i", "mono", "-o", "whole.tsv")
    command = [sys.executable, "-m", "nmt", "synthesize", *arguments, "-i", "-", "-o", "killed.tsv"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    draw, partial = random.Random(8), folder / "killed.tsv.partial"
    num_killed = 0
    for number in range(count):
        resume = ["--resume"] if number else []
        given = open(folder / "mono", "rb")  # noqa: SIM115 (closed below)
        streams = {"stdin": given, "stderr": subprocess.DEVNULL}
        with given, subprocess.Popen([*command, *resume], env=environment, **streams) as process:
            least = partial.stat().st_size if partial.exists() else 0
            while process.poll() is None and not (partial.exists() and partial.stat().st_size > least):
                time.sleep(0.001)
            time.sleep(draw.random() * 0.05)
            process.send_signal(signal.SIGKILL)
            num_killed += process.wait(60) == -signal.SIGKILL
        if not partial.exists():
            break
    assert num_killed
    if partial.exists():
        synthesize(*arguments, "-i", "mono", "-o", "killed.tsv", "--resume")
    assert (folder / "killed.tsv").read_bytes() == (folder / "whole.tsv").read_bytes()


def test_an_output_never_replaces_its_input(folder):
    Path("mono.tsv").write_text("12\n")
    Path("link").symlink_to("mono.tsv")
    with pytest.raises(NmtError, match="this file is the input"):
        synthesize("-i", "link", "-o", "mono.tsv")
    assert Path("mono.tsv").read_text() == "12\n"


def test_a_parallel_corpus_is_not_taken_for_monolingual_text(folder):
    Path("pairs.tsv").write_text("12\t34\n")
    with pytest.raises(NmtError, match=r"^pairs\.tsv: a tsv file is not plain text with one sentence per line"):
        synthesize("-i", "pairs.tsv", "-o", "synthetic.tsv")
    assert not Path("synthetic.tsv.partial").exists()


def test_a_corpus_without_pairs_is_not_recommended_for_training(folder, messages):
    synthesize("-i", "mono", "-o", "none.tsv", "--keep", "0")
    assert "kept 0 of 90 pairs from 90 lines" in messages[-1]
