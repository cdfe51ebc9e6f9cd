"""The engine and the precision that translate with a run: what auto chooses, and what each engine refuses."""

from __future__ import annotations

import shutil

import pytest

from nmt import Translator
from nmt.artifacts.run_records import Int8Scores
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, RunError
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines import native_engine, selection
from nmt.decoding.engines.native_engine import NativeEngine
from nmt.decoding.engines.selection import MAX_INT8_LOSS, load_engine, prefers_fp32
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.training.run import start_run
from tests.stored import add_last_checkpoint
from tests.tiny import tiny_config

needs_native = pytest.mark.skipif(not native_engine.is_available(), reason="built without a C compiler")


@pytest.fixture
def run(digits_run, tmp_path, monkeypatch) -> RunDir:
    """A copy of the run that reverses digits, on a machine without a GPU."""
    monkeypatch.setattr(selection, "has_gpu", lambda: False)
    return RunDir(shutil.copytree(digits_run, tmp_path / "run"))


def load(*runs: RunDir, **choice: str) -> NativeEngine | TorchEngine:
    engine = load_engine(runs, TokenizerPair.load(runs[0].tokenizer), **choice)
    assert isinstance(engine, NativeEngine | TorchEngine)
    engine.close()
    return engine


def write_scores(run: RunDir, *, loss: float, checkpoint: str | None = None) -> None:
    """Let `run` say that int8 costs `loss` BLEU of 40."""
    name = checkpoint or run.best_checkpoint().stem
    scores = Int8Scores(checkpoint=name, int8_bleu=40.0 - loss, fp32_bleu=40.0)
    run.write_json(run.index_file, run.index().model_copy(update={"int8": scores}))


@needs_native
@pytest.mark.parametrize("device", ["auto", "cpu"])
@pytest.mark.parametrize(("precision", "chosen"), [("auto", "int8"), ("int8", "int8"), ("fp32", "fp32")])
def test_auto_is_the_native_engine_on_a_cpu_and_int8(run, messages, device, precision, chosen):
    engine = load(run, device=device, precision=precision)
    assert isinstance(engine, NativeEngine)
    assert engine.precision == chosen
    assert messages == []


def test_auto_is_torch_for_what_the_native_engine_does_not_serve(digits, run, tmp_path, messages):
    start_run(tiny_config(digits, model={"attention": "additive"}, training={"max_updates": 4}), tmp_path / "additive")
    del messages[:]
    assert isinstance(load(run, run, device="cpu"), TorchEngine)
    assert isinstance(load(run, device="cpu", precision="bf16"), TorchEngine)
    assert isinstance(load(RunDir(tmp_path / "additive"), device="cpu"), TorchEngine)
    assert messages == []


def test_auto_is_torch_on_a_gpu(run, monkeypatch):
    asked = []
    monkeypatch.setattr(selection, "_load_torch", lambda runs, tokenizers, *choice: asked.append(choice))
    load_engine([run], TokenizerPair.load(run.tokenizer), device="cuda")
    monkeypatch.setattr(selection, "has_gpu", lambda: True)
    load_engine([run], TokenizerPair.load(run.tokenizer))
    assert [choice[:2] for choice in asked] == [("cuda", "auto"), ("auto", "auto")]


@needs_native
def test_the_native_engine_serves_a_machine_with_a_gpu_if_it_or_the_cpu_is_asked_for(run, monkeypatch):
    monkeypatch.setattr(selection, "has_gpu", lambda: True)
    assert isinstance(load(run, device="cpu"), NativeEngine)


@needs_native
@pytest.mark.parametrize(
    ("num_runs", "choice", "reason"),
    [
        (2, {}, "ensembles"),
        (1, {"device": "cuda"}, "the device cuda"),
        (1, {"precision": "bf16"}, "the precision bf16"),
    ],
)
def test_the_native_engine_refuses_in_one_message_what_it_does_not_serve(run, num_runs, choice, reason):
    with pytest.raises(NmtError) as caught:
        load(*[run] * num_runs, engine="native", **choice)
    assert caught.value.message == f"the native engine does not support {reason}"
    assert caught.value.hint == "use the engine torch, or auto"


@pytest.mark.parametrize("precision", ["auto", "int8", "fp32"])
def test_without_the_extension_auto_is_torch_in_fp32_and_one_warning_says_so(run, messages, monkeypatch, precision):
    monkeypatch.setattr(native_engine, "is_available", lambda: False)
    with Translator.load(run, precision=precision) as translator:
        assert isinstance(translator.engine, TorchEngine)
        assert translator.precision == "fp32"
        translator.translate(["123"])
    reason = "the native decoder was not built when nmt was installed (it needs a C compiler)"
    assert messages == [f"warning: translating with PyTorch in fp32, slower and not exactly as in int8: {reason}"]


def test_without_the_extension_torch_translates_in_silence_if_it_is_named_or_must(run, messages, monkeypatch):
    monkeypatch.setattr(native_engine, "is_available", lambda: False)
    assert isinstance(load(run, engine="torch"), TorchEngine)
    assert isinstance(load(run, run), TorchEngine)
    assert messages == []


def test_a_run_that_loses_too_much_in_int8_prefers_fp32(run):
    write_scores(run, loss=MAX_INT8_LOSS + 0.01)
    assert prefers_fp32(run)
    write_scores(run, loss=MAX_INT8_LOSS - 0.01)
    assert not prefers_fp32(run)
    write_scores(run, loss=-1.0)
    assert not prefers_fp32(run)


def test_a_run_without_a_measurement_is_translated_with_in_int8(run):
    run.write_json(run.index_file, run.index().model_copy(update={"int8": None}))
    assert not prefers_fp32(run)


def test_a_measurement_counts_for_the_weights_that_it_was_made_with_alone(run):
    last = add_last_checkpoint(run)
    write_scores(run, loss=5.0)
    other = RunDir(run.path)
    other.use_checkpoint(last)
    assert prefers_fp32(run)
    assert not prefers_fp32(other)
    write_scores(run, loss=5.0, checkpoint="step-00000001")
    assert not prefers_fp32(run)


@needs_native
def test_auto_is_fp32_for_a_run_that_loses_too_much_in_int8_and_says_so_once(run, messages):
    write_scores(run, loss=0.75)
    assert load(run).precision == "fp32"
    assert messages == ["translating in fp32: int8 costs this run 0.75 BLEU on the validation set"]
    assert load(run, precision="int8").precision == "int8"
    assert load(run, precision="fp32").precision == "fp32"
    assert len(messages) == 1


@needs_native
def test_a_damaged_measurement_is_one_error(run):
    run.write_json(run.index_file, run.index().model_dump() | {"int8": {"checkpoint": "x", "int8_bleu": "39"}})
    with pytest.raises(RunError, match=r"index\.json: int8\.int8_bleu: .*\n  copy the file again"):
        load(run)
