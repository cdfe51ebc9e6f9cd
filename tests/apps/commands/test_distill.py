"""`nmt distill`, called as from the shell: what the student is trained on, resumed, refused."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.apps.recipes import distill as distill_module
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import ConfigError, NmtError, RunError
from nmt.base.partial_file import PartialFile
from nmt.data.read import line_blocks
from nmt.data.read.lines import read_lines
from nmt.translation import Translation, Translator
from tests.resumption import stop_after
from tests.tiny import TRAINING, tiny_values

pytestmark = pytest.mark.usefixtures("few_samples")

MODEL = {"d_model": 16, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}
MODEL |= {"max_src_len": 32, "max_tgt_len": 32}
SHORT = TRAINING | {"max_updates": 6, "validate_every": 3, "average_checkpoints": 0}


def blocks_of(size: int, monkeypatch) -> None:
    """Let `size` sources be translated and written at once."""
    for name in ("FIRST_BLOCK_LINES", "MAX_BLOCK_LINES"):
        monkeypatch.setattr(line_blocks, name, size)


def nmt(*arguments: object):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def teacher(digits_run, digits, tmp_path_factory) -> Path:
    """A run that reverses digits, whose corpus is a small one from which validation and test set are held out."""
    folder = tmp_path_factory.mktemp("teacher")
    lines = (digits / "train.tsv").read_text().splitlines(keepends=True)[:600]
    (folder / "train.tsv").write_text("".join(dict.fromkeys(lines)))
    run = Path(shutil.copytree(digits_run, folder / "teacher"))
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["data"] |= {"train": {"tsv": str(folder / "train.tsv")}, "valid": None, "test": None, "holdout_size": 20}
    config["data"]["holdout_groups"] = True
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    return run


@pytest.fixture
def student(tmp_path) -> Path:
    """The configuration of a tiny student, without data."""
    path = tmp_path / "student.yaml"
    path.write_text(yaml.safe_dump({"tokenizer": {"type": "char"}, "model": MODEL, "training": SHORT}))
    return path


def test_a_student_is_trained_on_the_translations_of_its_teacher(teacher, student, tmp_path):
    done = nmt("distill", teacher, "--config", student, "--run", tmp_path / "run", "--beam", 3)
    assert done.exit_code == 0, done.output
    run = RunDir(tmp_path / "run")
    files = run.config().data.corpora("train")[0]
    sources, targets = (list(read_lines(Path(name))) for name in (files.src, files.tgt))
    with Translator.load(teacher, scores=False) as translator:
        options = translator.options.greedy().changed(beam_size=3)
        assert [each.text for each in translator.translate(sources, options)] == targets
    assert run.config().data.holdout_groups  # so that the same sentences are held out
    corpus = dict(line.split("\t") for line in (teacher.parent / "train.tsv").read_text().splitlines())
    for split in ("valid", "test"):  # real translations, of sentences that the student does not see
        held_out = dict(zip(*run.read_pairs(split), strict=True))
        assert len(held_out) == 20
        assert held_out.items() <= corpus.items()
        assert not {*sources} & {*held_out}
    record = json.loads(run.distillation.read_text())
    assert [each["name"] for each in record["sets"]] == ["valid", "test"]
    assert record["seconds"].keys() == {"teacher", "student"}
    assert "times as fast (median of 3, in turns)" in done.stdout
    assert run.config().model.d_model == 16


def test_pairs_that_the_filters_of_the_teacher_drop_are_neither_held_out_nor_learned(teacher, student, tmp_path):
    faulty = Path(shutil.copytree(teacher, tmp_path / "teacher"))
    config = yaml.safe_load((faulty / "config.yaml").read_text())
    rows = (teacher.parent / "train.tsv").read_text().splitlines()
    faults = ["{}\t!", "9{}\t!", "9{}\t", "...\t{}"]  # half of the corpus, some with sources of their own
    planted = [faults[number % 4].format(row.partition("\t")[0]) for number, row in enumerate(rows)]
    (tmp_path / "train.tsv").write_text("\n".join([*rows, *planted, ""]))
    config["data"] |= {"train": {"tsv": str(tmp_path / "train.tsv")}, "holdout_groups": False}
    config["data"]["filters"] = {"too_short": 1, "duplicate": True}
    (faulty / "config.yaml").write_text(yaml.safe_dump(config))
    done = nmt("distill", faulty, "--config", student, "--run", tmp_path / "run")
    assert done.exit_code == 0, done.output
    run = RunDir(tmp_path / "run")
    corpus = dict(row.split("\t") for row in rows)
    for split in ("valid", "test"):
        held_out = dict(zip(*run.read_pairs(split), strict=True))
        assert held_out.items() <= corpus.items()
        assert len(held_out) == config["data"]["holdout_size"]  # chosen among the pairs that are kept
    files = run.config().data.corpora("train")[0]
    assert {*read_lines(Path(files.src))} <= {*corpus}


def test_a_student_learns_from_several_translations_of_each_source(teacher, student, tmp_path, messages):
    command = ("distill", teacher, "--config", student, "--run", tmp_path / "run", "--n-best", 2)
    assert "2 translations need a beam of at least 2" in str(nmt(*command, "--beam", 1).exception)
    done = nmt(*command, "--beam", 3, "--mix-original", 0.25)
    assert done.exit_code == 0, done.output
    run = RunDir(tmp_path / "run")
    translated, original = run.config().data.corpora("train")
    sources, targets = (list(read_lines(Path(name))) for name in (translated.src, translated.tgt))
    assert sources[::2] == sources[1::2] == list(read_lines(Path(original.src)))
    with Translator.load(teacher, scores=False) as translator:
        options = translator.options.greedy().changed(beam_size=3, num_hypotheses=2)
        found = translator.translate(sources[::2], options)
    for number, best in enumerate(found):
        texts = list(dict.fromkeys(each.text for each in (best, *best.alternatives) if not each.loop_unresolved))
        assert targets[2 * number : 2 * number + 2] == [*texts, "", ""][:2]
    assert (translated.weight, original.weight) == (0.75, 0.25)
    assert any(f"{sum(map(bool, targets)):,} pairs, " in each for each in messages)


def test_translations_that_are_duplicates_or_loops_or_lose_a_span_are_left_out():
    others = [Translation("a"), Translation("b", protected_lost=["URL"]), Translation("c c c", loop_unresolved=True)]
    found = [Translation("a", alternatives=[*others, Translation("d")]), Translation("e", protected_lost=["URL"])]
    lines = "".join(distill_module._as_lines(5, each) for each in found)
    assert lines.split("\n") == ["a", "d", "", "", "", "e", "", "", "", "", ""]


@pytest.mark.parametrize("num_best", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_distillation_that_was_killed_anywhere_ends_as_one_that_was_not(
    teacher, student, tmp_path, monkeypatch, num_best
):
    blocks_of(64, monkeypatch)
    command = ("distill", teacher, "--config", student, "--n-best", num_best, "--run")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole, stopped = tmp_path / "a" / "run", tmp_path / "b" / "run"
    assert nmt(*command, whole).exit_code == 0
    write, calls = PartialFile.write, []

    def killed(*arguments):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(PartialFile, "write", killed)
        assert nmt(*command, stopped).exit_code == 130
    (partial,) = stopped.parent.glob(".store/distill-*/*.partial")
    with partial.open("a") as file:
        file.write("cut sh")  # a line that was being written
    assert not stopped.exists()
    translated = []

    def counted(*arguments):
        translated.append(arguments)
        return write(*arguments)

    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        patch.setattr(PartialFile, "write", counted)
        assert nmt(*command, stopped, "--resume").exit_code == 130
    num_sources = len(list(read_lines(partial.with_suffix("")))) // num_best
    assert len(translated) == num_sources // 64 + 1 - 3  # the rest alone
    assert nmt(*command, stopped, "--resume").exit_code == 0
    a, b = RunDir(whole), RunDir(stopped)
    assert a.index() == b.index()
    for name in a.index().checkpoints:
        assert a.checkpoint(name).read_bytes() == b.checkpoint(name).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(PartialFile, "write", killed)
        for option in ("--beam", 4), ("--n-best", 3), ("--mix-original", 0.5):
            refused = nmt(*command, stopped, "--resume", *option)
            assert str(refused.exception).startswith(f"{stopped}: this student was started on other text\n  repeat the")


def test_languages_that_the_teacher_does_not_translate_are_refused(teacher, student, tmp_path):
    text = student.read_text()
    student.write_text(text + f"data: {{src_lang: en, tgt_lang: fr, train: {{tsv: {teacher.parent / 'train.tsv'}}}}}\n")
    refused = nmt("distill", teacher, "--config", student, "--run", tmp_path / "run")
    assert str(refused.exception) == (
        f"{student}: the teacher {teacher}: this model translates into en, not into fr\n"
        "  set data.src_lang and data.tgt_lang to languages of the teacher"
    )


def test_a_share_of_the_original_pairs_is_mixed_in(teacher, student, tmp_path):
    run = tmp_path / "run"
    done = nmt("distill", teacher, "--config", student, "--run", run, "--mix-original", 0.25, "--beam", 1)
    assert done.exit_code == 0, done.output
    distilled, original = RunDir(run).config().data.corpora("train")
    assert (distilled.weight, original.weight) == (0.75, 0.25)
    assert distilled.src == original.src
    pairs = zip(*(read_lines(Path(name)) for name in (original.src, original.tgt)), strict=True)
    assert all(src == tgt[::-1] for src, tgt in pairs)


def test_a_distillation_that_replaces_a_run_is_continued_by_the_command_that_it_prints(
    teacher, student, tmp_path, messages, monkeypatch
):
    run = tmp_path / "run"
    shutil.copytree(teacher, run)
    command = ["distill", str(teacher), "--config", str(student), "--run", str(run), "--beam", "1", "--overwrite"]
    monkeypatch.setattr(sys, "argv", ["nmt", *command])

    write, calls = PartialFile.write, []

    def killed(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(PartialFile, "write", killed)
        assert nmt(*command).exit_code == 130
    (printed,) = [line.partition("Continue with: nmt ")[2] for line in messages if "Continue with: " in line]
    assert nmt(*shlex.split(printed)).exit_code == 0
    assert RunDir(run).distillation.exists()


@pytest.mark.slow
def test_an_ensemble_of_several_directions_teaches_a_preset_student(two_run, tmp_path):
    settings = {"training." + key: value for key, value in SHORT.items()}
    settings |= {"model.d_model": 16, "model.d_ff": 32, "tokenizer.type": "char"}
    overrides = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    done = nmt("distill", two_run, two_run, "--run", tmp_path / "run", "--beam", 1, *overrides)
    assert done.exit_code == 0, done.output
    run = RunDir(tmp_path / "run")
    assert [str(direction) for direction in run.config().data.directions] == ["en-de", "en-fr"]
    assert run.config().model.decoder_layers == 1
    assert run.config().model.encoder_layers > 1
    record = json.loads(run.distillation.read_text())
    assert len(record["teachers"]) == 2
    assert [each["direction"] for each in record["sets"]] == ["en-de", "en-fr"] * 2


def test_data_of_the_student_are_its_own_if_it_names_them(teacher, digits, student, tmp_path):
    values = tiny_values(digits, model=MODEL, training=SHORT)
    student.write_text(yaml.safe_dump(values))
    small = tmp_path / "small.tsv"
    small.write_text("".join((digits / "train.tsv").read_text().splitlines(keepends=True)[:100]))
    done = nmt("distill", teacher, "-c", student, "--run", tmp_path / "run", "--set", f"data.train={{tsv: {small}}}")
    assert done.exit_code == 0, done.output
    data = RunDir(tmp_path / "run").config().data
    assert data.corpora("test")[0].tsv == str(digits / "test.tsv")
    assert len(list(read_lines(Path(data.corpora("train")[0].tgt)))) == 100


def test_a_packed_teacher_needs_a_corpus(teacher, tmp_path):
    assert nmt("pack", teacher, "-o", tmp_path / "teacher.zip").exit_code == 0
    error = nmt("distill", tmp_path / "teacher.zip", "--run", tmp_path / "run").exception
    assert isinstance(error, RunError)
    assert error.message == "this model was imported or packed, so it has no training data"


def test_faults_are_refused_before_anything_is_translated(teacher, student, tmp_path):
    run = tmp_path / "run"
    stages = "training.stages=[{max_updates: 6, weights: [1]}]"
    assert nmt("distill", teacher, "--run", run, "--resume", "--overwrite").exit_code == 2
    for arguments, kind in (
        ((tmp_path / "gone", "--run", run), RunError),
        ((teacher, "--run", teacher, "--overwrite"), NmtError),
        ((teacher, "--run", teacher), RunError),
        ((teacher, "--run", run, "--config", tmp_path / "gone.yaml"), ConfigError),
        ((teacher, "--run", run, "--config", student, "--set", "model.d_modell=3"), ConfigError),
        ((teacher, "--run", run, "--config", student, "--mix-original", "0.3", "--set", stages), ConfigError),
    ):
        assert isinstance(nmt("distill", *arguments).exception, kind), arguments
    assert sorted(path.name for path in tmp_path.iterdir()) == ["student.yaml"]
