"""The quality check of int8: measured at the end of training, with the best checkpoint, and with no older one."""

from __future__ import annotations

import random
import signal
import sys

import pytest
import typer

from nmt import Translator
from nmt.apps.commands.train import train
from nmt.apps.interop.hf_export import export_hf
from nmt.apps.web.export import export_web
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.config import dump_config
from nmt.decoding.engines import native_engine
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.evaluation import score
from nmt.model import attention
from nmt.training import final_weights
from nmt.training import run as training_run
from nmt.training.run import resume_run, start_run
from tests.resumption import stop_after
from tests.tiny import small_config

pytestmark = pytest.mark.skipif(not native_engine.is_available(), reason="built without a C compiler")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A corpus of digits with spaces between them, so that BLEU is not 0, to copy."""
    folder = tmp_path_factory.mktemp("words")
    draw = random.Random(3)
    for split, count in (("train", 400), ("valid", 20), ("test", 4)):
        rows = [" ".join(draw.choices("0123456789", k=draw.randint(5, 9))) for _ in range(count)]
        (folder / f"{split}.tsv").write_text("".join(f"{row}\t{row}\n" for row in rows), encoding="utf-8")
    return folder


FEW = {"max_updates": 4, "average_checkpoints": 2, "validate_every": 2}
TRAINING = {"max_updates": 40, "warmup_updates": 10, "validate_every": 20, "average_checkpoints": 2, "log_every": 20}


@pytest.fixture(scope="module")
def words_run(words, tmp_path_factory):
    """A run that has learned a part of copying."""
    path = tmp_path_factory.mktemp("run") / "words"
    start_run(small_config(words, model={"max_src_len": 20, "max_tgt_len": 20}, training=TRAINING), path)
    return path


def test_the_scores_are_those_of_the_native_engine_in_both_precisions(words_run):
    run = RunDir(words_run)
    scores = run.index().int8
    sources, references = run.read_pairs("valid")
    bleu = {}
    for precision in ("int8", "fp32"):
        with Translator.load(run, engine="native", precision=precision) as translator:
            texts = [t.text for t in translator.translate(sources, run.config().decoding.greedy())]
        bleu[precision] = score(texts, references, "en", ("bleu",))[0].value
    assert scores.checkpoint == run.index().best
    assert 0 < scores.fp32_bleu < 100
    assert (scores.int8_bleu, scores.fp32_bleu) == (bleu["int8"], bleu["fp32"])


def test_validation_on_a_cpu_translates_with_the_native_engine(words_run):
    index = RunDir(words_run).index()
    assert index.checkpoints[index.best]["bleu"] == index.int8.fp32_bleu


def test_validation_of_an_edited_formula_translates_with_pytorch(words, tmp_path, monkeypatch):
    plain_softmax, run = attention.masked_softmax, RunDir(tmp_path / "run")
    monkeypatch.setattr(attention, "masked_softmax", lambda scores, mask: plain_softmax(3 * scores, mask))
    training = TRAINING | {"max_updates": 20, "average_checkpoints": 0}
    start_run(small_config(words, model={"max_src_len": 20, "max_tgt_len": 20}, training=training), run.path)
    sources, references = run.read_pairs("valid")
    with Translator.load(run, engine="torch") as translator:
        texts = [t.text for t in translator.translate(sources, run.config().decoding.greedy())]
    index = run.index()
    assert index.checkpoints[index.best]["bleu"] == score(texts, references, "en", ("bleu",))[0].value
    assert index.int8.differs


def test_the_model_card_holds_both_scores_and_the_default(words_run):
    run = RunDir(words_run)
    scores = run.index().int8
    default = "fp32" if scores.loss > 0.2 else "int8"
    assert (
        f"On a CPU, the native engine reaches BLEU {scores.int8_bleu:.2f} in int8 and {scores.fp32_bleu:.2f} in fp32.\n"
        f"`nmt translate` uses {default} there unless you set `--precision`.\n"
    ) in run.card.read_text()


@pytest.mark.parametrize(
    ("int8_bleu", "said"),
    [(39.41, ""), (38.5, "; on a CPU, nmt translates with this run in fp32")],
    ids=["little is lost", "much is lost"],
)
def test_one_line_of_the_log_holds_both_scores_and_what_follows(
    digits, tmp_path, messages, monkeypatch, int8_bleu, said
):
    # No corpus so small loses a known amount, so the two scores are given.
    bleu = {"int8": int8_bleu, "fp32": 39.44}
    monkeypatch.setattr(final_weights, "_translate", lambda training, run, precision: ((bleu[precision], 0.0), [[]]))
    start_run(small_config(digits, training=FEW), tmp_path / "run")
    lines = [line for line in messages if "int8" in line]
    assert lines == [f"int8: {int8_bleu:.2f} BLEU on the validation set, fp32 39.44{said}"]
    default = "fp32" if said else "int8"
    assert f"`nmt translate` uses {default} there" in (tmp_path / "run" / "README.md").read_text()


def test_a_model_with_an_edited_formula_is_translated_by_pytorch_and_that_is_said(
    digits, tmp_path, messages, monkeypatch
):
    plain_softmax = attention.masked_softmax
    with monkeypatch.context() as patch:  # as whoever reads the code edits it first
        patch.setattr(attention, "masked_softmax", lambda scores, mask: plain_softmax(3 * scores, mask))
        start_run(small_config(digits, training=FEW), tmp_path / "run")
        run = RunDir(tmp_path / "run")
        assert run.index().int8.difference > 0.01
        warned = [line for line in messages if "nmt translates with this run in PyTorch" in line]
        assert len(warned) == 1
        with Translator.load(run) as translator:
            assert isinstance(translator.engine, TorchEngine)
        with pytest.raises(NmtError, match="the native engine does not support formulas other than those"):
            Translator.load(run, engine="native")
        with pytest.raises(NmtError, match="the browser's decoder does not support formulas other than those"):
            export_web(run, tmp_path / "page")
        with pytest.raises(NmtError, match="transformers does not have the formulas of this model"):
            export_hf(run, tmp_path / "hf")
    assert "`nmt translate` uses PyTorch there" in run.card.read_text()


def test_an_unchanged_model_is_the_same_in_both_engines(words_run):
    assert 0 < RunDir(words_run).index().int8.difference < 0.001


def test_a_run_that_was_interrupted_has_no_scores_until_it_is_resumed(digits, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        assert not start_run(small_config(digits, training=FEW), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    assert run.index().int8 is None
    assert resume_run(None, run.path)
    assert run.index().int8.checkpoint == run.index().best


def test_scores_of_older_weights_are_gone_when_a_resumed_run_is_killed_before_its_end(digits, tmp_path, monkeypatch):
    """The average has the same name before and after, but other weights."""
    run = RunDir(tmp_path / "run")
    start_run(small_config(digits, training=FEW | {"early_stopping_metric": "loss"}), run.path)
    assert run.index().int8 is not None
    more = small_config(digits, training=FEW | {"early_stopping_metric": "loss", "max_updates": 6})
    with monkeypatch.context() as patch:
        patch.setattr(training_run, "check_int8", lambda training: sys.exit(9))
        with pytest.raises(SystemExit):
            resume_run(more, run.path)
    assert run.index().last == "step-00000006"
    assert run.index().int8 is None
    assert resume_run(more, run.path)
    assert run.index().int8.checkpoint == run.index().best


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_training_asked_to_stop_while_it_is_measured_says_how_to_go_on(
    digits, tmp_path, messages, monkeypatch, number, code
):
    config, path, translate = (
        small_config(digits, training={"max_updates": 4}),
        tmp_path / "run",
        final_weights._translate,
    )
    file = tmp_path / "config.yaml"
    file.write_text(dump_config(config), encoding="utf-8")

    def stopped(training, run, precision):
        if precision == "int8":
            signal.raise_signal(number)
        return translate(training, run, precision)

    before = signal.signal(number, lambda *_: pytest.fail("the signal is not handled"))
    try:
        with monkeypatch.context() as patch:
            patch.setattr(final_weights, "_translate", stopped)
            with pytest.raises(typer.Exit) as caught:
                train(config=file, run=path)
    finally:
        signal.signal(number, before)
    assert caught.value.exit_code == code
    assert messages[-1] == f"stopped; the state is saved. Resume with: nmt train --resume --run {path}"
    assert not RunDir(path).card.exists()
    assert resume_run(None, path)
    assert RunDir(path).card.exists()


def test_a_run_that_stops_early_is_measured(digits, tmp_path):
    training = {"early_stopping_patience": 1, "validate_every": 1, "lr": 1e-12, "early_stopping_metric": "bleu"}
    start_run(small_config(digits, training=training), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    assert run.index().last != "step-00000012"
    assert run.index().int8.checkpoint == run.index().best


@pytest.mark.parametrize("missing", ["the extension", "the attention"])
def test_nothing_is_measured_if_the_native_engine_cannot_translate(digits, tmp_path, messages, monkeypatch, missing):
    model = {}
    if missing == "the extension":
        monkeypatch.setattr(native_engine, "is_available", lambda: False)
    else:
        model["attention"] = "additive"
    start_run(small_config(digits, model=model, training=FEW), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    assert run.index().int8 is None
    assert not [line for line in messages if "int8" in line]
    assert "int8" not in run.card.read_text()


def test_a_failure_to_measure_is_a_warning_and_the_training_is_finished(digits, tmp_path, messages, monkeypatch):
    class Full:
        def load(self, *arguments):
            raise MemoryError

        def kernels(self):
            return ["portable"]

    monkeypatch.setattr(native_engine, "_decoder", Full())
    assert start_run(small_config(digits, training=FEW), tmp_path / "run")
    assert "warning: int8 and fp32 were not compared: not enough memory to load this model" in messages
    assert RunDir(tmp_path / "run").index().int8 is None
    assert (tmp_path / "run" / "README.md").is_file()
