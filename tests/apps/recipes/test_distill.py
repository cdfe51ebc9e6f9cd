"""`nmt.distill`, called as by a program."""

from __future__ import annotations

from pathlib import Path

import pytest

import nmt
from nmt.apps.recipes.distillation import student_data, write_distillation_text
from nmt.config import ModelConfig, TokenizerConfig
from nmt.config.corpora import ParallelFiles
from nmt.config.training import TrainingConfig
from tests.resumption import stop_after
from tests.tiny import TRAINING, tiny_config

pytestmark = pytest.mark.usefixtures("few_samples")

SHORT = TRAINING | {"max_updates": 6, "validate_every": 3, "average_checkpoints": 0}
MODEL = {"d_model": 16, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}


@pytest.fixture
def student(digits) -> nmt.Config:
    """The configuration of a tiny student, with data of the teacher's kind."""
    return nmt.Config(
        data=tiny_config(digits).data,
        tokenizer=TokenizerConfig(type="char"),
        model=ModelConfig.model_validate(MODEL | {"max_src_len": 32, "max_tgt_len": 32}),
        training=TrainingConfig.model_validate(SHORT),
    )


def test_a_student_is_trained_and_compared_and_nothing_is_printed(digits_run, student, tmp_path, capfd):
    result = nmt.distill(nmt.RunDir(digits_run), tmp_path / "run", student, beam_size=2)
    assert result.finished
    assert result.comparison is not None
    assert [each.name for each in result.comparison.sets] == ["valid", "test"]
    assert min(result.comparison.seconds) > 0
    assert result.run.config().model.d_model == 16
    assert Path(result.run.config().data.corpora("train")[0].tgt).suffix == ".hyp"
    assert capfd.readouterr().out == ""


def test_an_interrupted_distillation_is_resumed(digits_run, student, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        stopped = nmt.distill([digits_run], tmp_path / "run", student, beam_size=1)
    assert (stopped.finished, stopped.comparison) == (False, None)
    assert nmt.distill([digits_run], tmp_path / "run", student, beam_size=1, resume=True).finished


def test_a_corpus_without_a_pair_is_left_out(digits, digits_run, tmp_path):
    (tmp_path / "blank.tsv").write_text("\t\n")
    config = tiny_config(digits)
    train = (*config.data.corpora("train"), ParallelFiles(tsv=str(tmp_path / "blank.tsv")))
    config = config.model_copy(update={"data": config.data.model_copy(update={"train": train})})
    options = config.decoding.changed(beam_size=2, num_hypotheses=2)
    text = write_distillation_text(config, [nmt.RunDir(digits_run)], options, "auto", tmp_path)
    (files,) = student_data(text, 0.0, 2).corpora("train")
    lines = [Path(name).read_text().splitlines() for name in (text.corpora("train")[0].src, files.src)]
    assert lines[1] == [line for line in lines[0] for _ in range(2)]


def test_what_a_user_can_mend_is_an_error(digits_run, student, tmp_path):
    with pytest.raises(nmt.NmtError, match="2 translations need a beam of at least 2"):
        nmt.distill(digits_run, tmp_path / "run", student, beam_size=1, n_best=2)
    (tmp_path / "run" / "config").mkdir(parents=True)
    with pytest.raises(nmt.NmtError, match="this folder is not a run"):
        nmt.distill(digits_run, tmp_path / "run", student)
