"""COMET: the worker's protocol with a small environment, and the figures of COMET itself where that is installed."""

from __future__ import annotations

import os
import shlex
import subprocess

import numpy as np
import pytest

from nmt.base.errors import NmtError
from nmt.base.files import sha256_of
from nmt.evaluation.comet import SCALE, Comet
from nmt.evaluation.significance import NUM_SAMPLES, SEED, compare, with_interval
from tests.evaluation.comet_environment import make_comet_environment, write_model
from tests.evaluation.texts import write_lines

SOURCES = ["a b", "c d", "e f"]
HYPOTHESES = ["a x", "c d", "y \u2028"]
REFERENCES = ["a z", "c d", "e"]
SCORES = [0.5, 1.0, 0.0]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    return make_comet_environment(tmp_path_factory.mktemp("environment"))


@pytest.fixture(autouse=True)
def _with_python(python, monkeypatch, request):
    if "real_python" not in request.fixturenames:
        monkeypatch.setenv("NMT_COMET_PYTHON", str(python))


@pytest.fixture
def comet(tmp_path):
    checkpoint = write_model(tmp_path / "model")
    return Comet(str(checkpoint), "cpu")


def score(comet: Comet, *texts: list[str]) -> list[float]:
    """Return COMET's own score of each sentence."""
    return [value / SCALE for value, _ in comet.measure(*texts).rows]


def test_each_sentence_gets_its_score(comet):
    assert score(comet, SOURCES, HYPOTHESES, REFERENCES) == SCORES
    assert score(comet, [], [], []) == []


def test_more_sentences_than_a_pipe_holds_are_scored(comet):
    count = 5000
    assert comet.measure(["a b c d"] * count, ["a"] * count, ["a"] * count).rows == [[100.0, 1.0]] * count


def test_the_score_is_the_mean_times_100_with_an_interval_of_resampled_sentences(comet):
    statistics = comet.measure(SOURCES * 20, HYPOTHESES * 20, REFERENCES * 20)
    score = with_interval(statistics)
    assert (score.name, score.value) == ("COMET", pytest.approx(50.0))
    assert score.signature.startswith("nrefs:1|bs:1000|seed:12345|scale:100|type:fp32|model:model.ckpt@")
    assert score.signature.endswith("|version:2.2.7")
    drawn = np.random.default_rng(SEED).choice(60, size=(NUM_SAMPLES, 60), replace=True)
    means = np.sort(100 * np.array(SCORES * 20)[drawn].mean(axis=1))
    low, high = means[NUM_SAMPLES // 40], means[NUM_SAMPLES - NUM_SAMPLES // 40 - 1]
    assert score.interval.half_width == pytest.approx((high - low) / 2, abs=0.01)


def test_two_systems_are_compared_by_comet(comet):
    ours = comet.measure(SOURCES * 20, SOURCES * 20, SOURCES * 20)
    theirs = comet.measure(SOURCES * 20, HYPOTHESES * 20, SOURCES * 20)
    difference = compare(ours, theirs)
    assert (difference.value, difference.other) == (pytest.approx(100), pytest.approx(50))
    assert difference.verdict() == "better: the difference is significant"


def test_the_signature_names_the_weights_not_where_they_lie(tmp_path):
    signatures = set()
    for name in ("one", "two"):
        checkpoint = write_model(tmp_path / name)
        comet = Comet(str(checkpoint.parent.parent), "cpu")
        signatures.add(comet.measure(SOURCES, HYPOTHESES, REFERENCES).signature())
    (signature,) = signatures
    assert f"model:model.ckpt@{sha256_of(checkpoint)[:8]}|" in signature


def test_weights_that_comet_refuses_are_one_message(tmp_path):
    checkpoint = write_model(tmp_path)
    checkpoint.write_text("other")
    with pytest.raises(NmtError, match=r"Exception: Invalid weights$"):
        Comet(str(checkpoint), "cpu")


def test_without_the_encoder_the_message_names_the_command_that_downloads_it(python, tmp_path):
    checkpoint = write_model(tmp_path)
    checkpoint.write_text("no encoder")
    with pytest.raises(NmtError) as caught:
        Comet(str(checkpoint), "cpu")
    code = f"import comet; comet.load_from_checkpoint({str(checkpoint)!r})"
    assert str(caught.value) == (
        f"COMET cannot score with {checkpoint}: the model, or the tokenizer of its encoder, is not on this machine; "
        f"to download it, run: {shlex.join([str(python), '-c', code])}"
    )


@pytest.mark.parametrize(
    ("hypothesis", "message"),
    [
        ("fail", "ValueError: this sample fails"),
        ("die", "COMET ended with code 9, without scores"),
    ],
)
def test_a_failure_of_the_worker_is_one_message(comet, hypothesis, message):
    with pytest.raises(NmtError) as caught:
        comet.measure(["a"], [hypothesis], ["a"])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_that_is_not_here_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("nothing.ckpt", "no such file or folder, and not a model name on the hub"),
        (str(tmp_path / "empty"), f"not a COMET model: {tmp_path / 'empty'} has no file checkpoints/*.ckpt"),
    ):
        with pytest.raises(NmtError) as caught:
            Comet(name)
        assert str(caught.value) == f"COMET cannot score with {name}: {message}"


def test_a_program_that_is_not_there_is_named_with_how_to_make_one(monkeypatch):
    monkeypatch.setenv("NMT_COMET_PYTHON", "nowhere/python")
    with pytest.raises(NmtError, match=r"NMT_COMET_PYTHON names no program: nowhere/python\n.*unbabel-comet==2"):
        Comet()
    monkeypatch.delenv("NMT_COMET_PYTHON")
    with pytest.raises(NmtError, match=r"COMET needs a Python environment of its own.*\n.*unbabel-comet==2"):
        Comet()


BUILD = """
import sys
from pathlib import Path
import pytorch_lightning, torch, yaml
from comet.models import RegressionMetric
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import XLMRobertaConfig, XLMRobertaTokenizerFast

folder = Path(sys.argv[1])
pieces = ["<s>", "<pad>", "</s>", "<unk>", "\\u2581", *"abcdefghijklmnopqrstuvwxyz"]
model = Tokenizer(models.Unigram([(piece, -float(rank)) for rank, piece in enumerate(pieces)], unk_id=3))
model.pre_tokenizer = pre_tokenizers.Metaspace()
model.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
XLMRobertaTokenizerFast(tokenizer_object=model, model_max_length=64).save_pretrained(folder / "encoder")
XLMRobertaConfig(vocab_size=len(pieces) + 3, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=32, max_position_embeddings=70, type_vocab_size=1, pad_token_id=1,
).save_pretrained(folder / "encoder")
torch.manual_seed(7)
metric = RegressionMetric(
    pretrained_model=str(folder / "encoder"), load_pretrained_weights=False, hidden_sizes=[24, 8])
(folder / "checkpoints").mkdir()
(folder / "hparams.yaml").write_text(yaml.safe_dump(dict(metric.hparams)))
torch.save({"state_dict": metric.state_dict(), "hyper_parameters": dict(metric.hparams),
    "pytorch-lightning_version": pytorch_lightning.__version__}, folder / "checkpoints" / "model.ckpt")
"""
"""COMET's own classes over a tiny XLM-R, with random weights."""


@pytest.fixture
def real_python() -> str:
    """The Python with COMET itself; skips if there is none."""
    if "NMT_COMET_PYTHON" not in os.environ:
        pytest.skip("set NMT_COMET_PYTHON to a Python that has unbabel-comet")
    return os.environ["NMT_COMET_PYTHON"]


@pytest.mark.slow
def test_the_figure_is_that_of_the_command_of_comet(real_python, tmp_path):
    variables = {**os.environ, "HF_HUB_OFFLINE": "1"}
    subprocess.run([real_python, "-W", "ignore", "-c", BUILD, str(tmp_path)], check=True, env=variables)
    checkpoint = tmp_path / "checkpoints" / "model.ckpt"
    texts = {"s": ["the cat", "a dog barks at the moon", "x"], "t": ["the mat", "a dog", ""], "r": ["cat", "dogs", "y"]}
    files = {name: write_lines(tmp_path / name, lines * 15) for name, lines in texts.items()}
    command = [real_python, "-W", "ignore", "-m", "comet.cli.score", "--gpus", "0", "--model", checkpoint]
    for name, path in files.items():
        command += [f"-{name}", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
    theirs = [float(line.rpartition(" ")[2]) for line in done.stdout.splitlines() if "score:" in line]
    ours = score(Comet(str(checkpoint), "cpu"), *(lines * 15 for lines in texts.values()))
    assert len(set(ours)) > 1
    # The command computes in half precision and prints four digits.
    assert [*ours, sum(ours) / len(ours)] == pytest.approx(theirs, abs=1e-3)
