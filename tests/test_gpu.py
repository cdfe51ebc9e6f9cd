"""What only a CUDA device can show. Skipped where there is none."""

from __future__ import annotations

import gc
import random
import warnings

import pytest
import torch

from nmt import SearchOptions, Translator
from nmt.artifacts.rundir import RunDir
from nmt.base.device import DTYPES, choose_precision
from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID
from nmt.config import ModelConfig, TrainingConfig
from nmt.data.store.batching import Batch, collate
from nmt.decoding.cuda_graphs import StepRecordings, record_step
from nmt.decoding.decoder import Decoder
from nmt.evaluation.plots import read_metrics
from nmt.model.attention import MultiHeadAttention, attend
from nmt.model.masks import AttentionMask, causal_mask, mask_bias, padding_mask
from nmt.model.transformer import Transformer
from nmt.training.corpus.prepare import prepare
from nmt.training.environment import Setup, choose_blocks
from nmt.training.memory_limits import fit_into_memory
from nmt.training.parts import Training
from nmt.training.run import start_run
from nmt.training.state import TrainState
from nmt.training.update.block import Block, BlockShape
from nmt.training.update.distributed import ProcessGroup
from nmt.training.update.loss import BatchLoss
from nmt.training.update.optimizer import Optimizer
from nmt.training.update.recorded import record_training
from nmt.training.update.step import Step
from tests.resumption import assert_equal_runs, stop_and_resume
from tests.tiny import tiny_config

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("num_queries", "num_keys"), [(7, 7), (5, 7), (1, 7)])
def test_the_fused_kernel_equals_plain_attention_with_the_masks_of_the_model(num_queries, num_keys, dtype):
    """With padding, causal with and without a cache, and for a single query, which sees everything."""
    query, key, value = (
        torch.randn(2, 3, n, 16, device="cuda", dtype=dtype) for n in (num_queries, num_keys, num_keys)
    )
    src = torch.full((2, num_keys), EOS_ID, device="cuda")
    src[1, 4:] = PAD_ID
    causal = mask_bias(causal_mask(num_queries, num_keys, query.device), dtype)
    masks = [
        AttentionMask(),
        AttentionMask(mask_bias(padding_mask(src), dtype)),
        AttentionMask(causal, causal=num_queries == num_keys),
    ]
    for mask in masks:
        plain, _ = attend(query, key, value, mask)
        fused, _ = MultiHeadAttention(48, 3).attend(query, key, value, mask)
        assert torch.allclose(plain, fused, atol=1e-5 if dtype == torch.float32 else 0.05)


def test_attention_on_the_gpu_equals_attention_on_the_cpu():
    attention = MultiHeadAttention(32, 2, attention="scaled_dot_product", dropout=0.0).eval()
    states = torch.randn(3, 5, 32)
    with torch.no_grad():
        cpu, _ = attention(states, attention.project_key_value(states), AttentionMask())
        attention.cuda()
        states = states.cuda()
        gpu, _ = attention(states, attention.project_key_value(states), AttentionMask())
    assert torch.allclose(cpu, gpu.cpu(), atol=1e-4)


def test_training_in_bf16_learns(digits, tmp_path):
    training = {"device": "cuda", "precision": "auto", "max_updates": 400, "warmup_updates": 50, "validate_every": 200}
    assert start_run(tiny_config(digits, training=training), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    assert run.read_json(run.info_file)["precision"] == "bf16"
    losses = [record["loss"] for record in read_metrics(run.metrics) if record["kind"] == "train"]
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_translations_on_the_gpu_are_those_on_the_cpu(digits_run, beam_size, precision):
    sources = [str(7 ** (number % 8 + 1) + number) for number in range(200)]
    options = SearchOptions(beam_size=beam_size)
    texts = []
    for device, on_device in (("cpu", "fp32"), ("cuda", precision)):
        with Translator.load(digits_run, engine="torch", device=device, precision=on_device) as translator:
            texts.append([each.text for each in translator.translate(sources, options)])
    assert sum(a == b for a, b in zip(*texts, strict=True)) >= (200 if precision == "fp32" else 190)


def test_training_in_fp16_learns_with_a_scaled_loss(digits, tmp_path):
    training = {"device": "cuda", "precision": "fp16", "max_updates": 400, "warmup_updates": 50, "validate_every": 200}
    assert start_run(tiny_config(digits, training=training), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    losses = [record["loss"] for record in read_metrics(run.metrics) if record["kind"] == "train"]
    assert losses[-1] < 0.7 * next(loss for loss in losses if loss is not None)
    assert float(TrainState.load(run.state).optimizer["loss_scale.scale"]) > 1


@pytest.mark.parametrize(("precision", "options"), [("bf16", {}), ("fp16", {"schedule": "wsd"}), ("fp32", {})])
def test_an_update_never_makes_the_host_wait(digits, tmp_path, precision, options):
    config = tiny_config(digits, training={"device": "cuda", "max_updates": 8, "warmup_updates": 1, **options})
    run, device = RunDir(tmp_path / "run"), torch.device("cuda")
    prepared = prepare(config, run, tmp_path / "store")
    training = Training(run, config, prepared, Setup(device, choose_precision(precision, device), ProcessGroup()))

    def update(number):
        data = training.batches.next_update()
        training.step(data.batches, data.num_tokens, 1e-3 / number)

    fit_into_memory(training)
    for number in range(1, 6):  # allocates, and records
        update(number)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype feature")
            torch.cuda.set_sync_debug_mode("error")
        update(6)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_batch_of_automatic_size_is_cut_until_it_fits_the_memory(digits, tmp_path):
    size = {"batch_tokens": "auto", "tokens_per_update": 200_000, "precision": "fp32"}
    few = {"device": "cuda", "max_updates": 2, "warmup_updates": 1, "validate_every": 2, "average_checkpoints": 0}
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(2**30 / torch.cuda.get_device_properties(0).total_memory)
    try:
        assert start_run(tiny_config(digits, training={**size, **few}), tmp_path / "run")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    (record,) = [each for each in read_metrics(RunDir(tmp_path / "run").metrics) if each["kind"] == "train"]
    assert record["num_micro_batches"] > 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_loss_and_the_gradients_of_blocks_and_flattened_rows_are_those_of_padded_ones(dtype):
    torch.manual_seed(3)
    lengths = torch.randint(1, 40, (2, 50))
    src, tgt = (
        torch.where(torch.arange(41) < side[:, None], torch.randint(4, 90, (50, 41)), PAD_ID) for side in lengths
    )
    batch = Batch.from_ids(src, tgt, tgt)
    config = ModelConfig(
        d_model=64, num_heads=4, d_ff=128, encoder_layers=2, decoder_layers=2, dropout=0.0, embedding_dropout=0.0
    )
    model = Transformer(config, 90, 90).to("cuda", dtype).train()
    assert choose_blocks(model)[0]
    block = Block(BlockShape.holding(1300, 1300, 50, 41), model.device)
    block.fill(batch, 1.0, 1.0)
    loss_of, on_device = BatchLoss(model), batch.to(model.device)
    losses = [loss_of(on_device, 0.1), loss_of(on_device, 0.1, flattened=True), loss_of.of_block(block.contents(), 0.1)]
    padded, *others = [torch.autograd.grad(loss, loss_of.parameters) for loss in losses]
    for loss, gradients in zip(losses[1:], others, strict=True):
        assert loss.item() == pytest.approx(losses[0].item(), rel=1e-2)
        for (name, _), gradient, expected in zip(model.named_parameters(), gradients, padded, strict=True):
            if "key_value_proj.bias" not in name:  # the half of it that is the keys' has no gradient but rounding
                pair = (each.flatten().float() for each in (gradient, expected))
                assert torch.nn.functional.cosine_similarity(*pair, dim=0) > 0.98, name


def train_recorded(precision, recorder):
    """Twelve updates, every third of two batches, with dropout; return the step, its results and the weights."""
    draw, batches = random.Random(3), []
    for _ in range(16):
        sides = [[[draw.randrange(4, 90) for _ in range(draw.randint(1, 30))] for _ in range(20)] for _ in range(2)]
        batches.append(collate(*sides, 31, 31))
    torch.manual_seed(3)
    config = ModelConfig(d_model=64, num_heads=4, d_ff=128, encoder_layers=2, decoder_layers=2)
    model = Transformer(config, 90, 90).to("cuda").train()
    optimizer = Optimizer(model, TrainingConfig(), DTYPES[precision])
    step = Step(model, optimizer, ProcessGroup())
    step.record(BlockShape.holding(640, 640, 20, 31), 0.1, recorder)
    results = []
    for number in range(1, 13):
        parts = [batches.pop() for _ in range(2 if number % 3 == 0 else 1)]
        results.append(step(parts, sum(batch.num_tgt_tokens for batch in parts), 1e-3 / number))
    return step, results, [master.detach().clone() for master in optimizer.master.values()]


@pytest.mark.parametrize("precision", ["bf16", "fp32", "fp16"])
def test_replayed_updates_are_those_launched_step_by_step(precision):
    launched, recorded = (train_recorded(precision, recorder) for recorder in (None, record_training))
    assert recorded[0].recorded.backward.num_replays == 13
    assert launched[1] == recorded[1]
    assert all(torch.equal(a, b) for a, b in zip(launched[2], recorded[2], strict=True))


def test_after_a_capture_that_fails_updates_are_those_launched_step_by_step(caplog):
    def record(work, device):
        return record_training(lambda: (work(), torch.cuda.synchronize()), device)  # a capture cannot wait

    launched, failed = (train_recorded("bf16", recorder) for recorder in (None, record))
    assert failed[0].num_launched == 16
    assert launched[1] == failed[1]
    assert all(torch.equal(a, b) for a, b in zip(launched[2], failed[2], strict=True))
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("precision", ["bf16", "fp32", "fp16"])
def test_a_resumed_training_equals_the_uninterrupted_one(digits, tmp_path, precision):
    training = {"device": "cuda", "precision": precision, "tokens_per_update": 900, "max_updates": 14}
    config = tiny_config(digits, model={"dropout": 0.1}, training=training)
    assert start_run(config, tmp_path / "whole")
    assert_equal_runs(RunDir(tmp_path / "whole"), stop_and_resume(config, tmp_path / "stopped", 7))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_steps_replayed_as_graphs_equal_steps_launched_one_by_one(dtype):
    torch.manual_seed(3)
    config = ModelConfig(d_model=64, num_heads=4, d_ff=128, encoder_layers=2, decoder_layers=2, max_tgt_len=80)
    model = Transformer(config, 90, 90).to("cuda", dtype).eval()
    src = torch.randint(4, 90, (40, 17), device="cuda")
    recordings = StepRecordings([model])
    for _ in range(2):  # the second time with the recordings of the first
        compare_steps(model, Decoder([model], src, 80, recordings=recordings), src, dtype)


def compare_steps(model, replayed, src, dtype):
    cache = model.start_cache(model.encode(src), max_len=80)
    last = torch.full((40,), BOS_ID, device="cuda")
    for _ in range(80):
        expected, found = model.decode(last[:, None], cache)[:, 0].float().log_softmax(-1), replayed.step(last)
        assert torch.allclose(expected, found, atol=1e-4 if dtype == torch.float32 else 0.2)
        last = expected.argmax(1)
    assert replayed.graph_step.step.is_recorded


@torch.inference_mode()
def test_steps_are_recorded_again_after_all_recordings_were_dropped():
    torch.manual_seed(3)
    model = Transformer(ModelConfig(d_model=64, num_heads=4, d_ff=128, max_tgt_len=80), 90, 90).to("cuda").eval()
    src = torch.randint(4, 90, (40, 17), device="cuda")
    for _ in range(2):  # an engine of its own for each validation
        compare_steps(model, Decoder([model], src, 80, recordings=StepRecordings([model])), src, torch.float32)
        gc.collect()


def test_dropout_goes_on_after_a_recording_that_failed():
    before = torch.cuda.current_stream()
    with pytest.raises(RuntimeError):
        record_step(lambda last: last.sum().cpu() + 1, torch.ones(3, device="cuda"))  # waits for the device
    assert torch.cuda.current_stream() == before
    dropped = torch.nn.functional.dropout(torch.ones(10_000, device="cuda"), 0.25)
    assert 0.6 < (dropped > 0).float().mean().item() < 0.9
