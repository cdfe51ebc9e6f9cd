"""The items that any GPU met is asked for, each in a process of its own: `python benchmarks/gpu.py --plan`.

A plan takes at most ten minutes. It writes its JSON after each item, and goes on with the items that have no result if
it was stopped. `--dry-run` runs each item small and eager on the CPU. Read the last line of that: it counts the
operations of an update that depend on the batch, the learning rate or the number of batches, of which a recording
allows none.
"""

from __future__ import annotations

import json
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
from harness import HERE, ROOT, say
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from nmt.artifacts.rundir import RunDir
from nmt.base.device import DTYPES
from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.config import Config, SearchOptions, dump_config
from nmt.config.model import ModelConfig
from nmt.config.training import TrainingConfig
from nmt.data.store.batching import Batch, collate
from nmt.decoding.beam import beam_search
from nmt.decoding.constraints import Constraints
from nmt.decoding.cuda_graphs import StepRecordings
from nmt.decoding.decoder import Decoder
from nmt.decoding.greedy import greedy_search
from nmt.model.kernels.packing import Segments
from nmt.model.transformer import Transformer
from nmt.training.metrics import TrainRecord, ValidRecord
from nmt.training.monitor import TrainingFlops
from nmt.training.run import start_or_resume_run
from nmt.training.state import TrainState
from nmt.training.update.block import BlockShape
from nmt.training.update.distributed import ProcessGroup
from nmt.training.update.loss import BatchLoss
from nmt.training.update.optimizer import Optimizer
from nmt.training.update.recorded import RecordedUpdate, record_training
from nmt.training.update.step import Step

Result = dict[str, Any]

SECONDS = 560  # for all items
SIZES = {  # layers, d_model, heads, d_ff, vocabulary, target tokens of an update
    "a": (3, 256, 4, 512, 5_000, 4_096),
    "b": (6, 512, 8, 2048, 32_000, 28_672),
    "c": (6, 1024, 16, 4096, 32_000, 28_672),
    "tiny": (1, 32, 2, 64, 300, 256),
}


def device_of(dry: bool) -> torch.device:
    """Return the device of the items."""
    return torch.device("cpu" if dry else "cuda")


def random_batch(draw: torch.Generator, num_tokens: int, vocab_size: int, mean: int = 28) -> Batch:
    """Return pairs of 3/4 `mean` to 5/4 `mean` tokens a side, with `num_tokens` target tokens or a little less."""
    sources, targets, total = list[list[int]](), list[list[int]](), 0
    while True:
        lengths = torch.randint(3 * mean // 4, 5 * mean // 4, (2,), generator=draw).tolist()
        if total + lengths[1] + 1 > num_tokens:
            return collate(sources, targets, 1024, 1024)
        src, tgt = (torch.randint(4, vocab_size, (n,), generator=draw).tolist() for n in lengths)
        sources.append(src)
        targets.append(tgt)
        total += lengths[1] + 1


def build(name: str, device: torch.device, dtype: torch.dtype) -> tuple[Transformer, Optimizer]:
    """Return a model of a size and its optimizer."""
    layers, d_model, heads, d_ff, vocab_size, _ = SIZES[name]
    torch.manual_seed(1)
    config = ModelConfig(
        d_model=d_model, num_heads=heads, d_ff=d_ff, encoder_layers=layers, decoder_layers=layers, max_src_len=256,
        max_tgt_len=256, dropout=0.1, embedding_dropout=0.1,
    )  # fmt: skip
    model = Transformer(config, vocab_size, vocab_size).to(device).train()
    return model, Optimizer(model, TrainingConfig(), dtype)


def batches_of(name: str, count: int = 16, mean: int = 28) -> list[Batch]:
    """Return batches of a size."""
    draw = torch.Generator().manual_seed(1)
    return [random_batch(draw, SIZES[name][5], SIZES[name][4], mean) for _ in range(count)]


def shape_of(batches: list[Batch]) -> BlockShape:
    """Return a block for these batches."""
    return BlockShape.holding(
        max(len(batch.src_real) for batch in batches),
        max(len(batch.tgt_real) for batch in batches),
        max(len(batch.src) for batch in batches),
        max(max(batch.src.size(1), batch.tgt_out.size(1)) for batch in batches),
    )


def recorded(
    name: str, device: torch.device, dtype: torch.dtype, batches: list[Batch], *, record: bool = True
) -> RecordedUpdate:
    """Return recorded updates, or such that are always launched step by step."""
    model, optimizer = build(name, device, dtype)
    recorder = record_training if record and device.type == "cuda" else None
    update = RecordedUpdate(BatchLoss(model), optimizer, shape_of(batches), 0.1, record=recorder)
    torch.manual_seed(1)
    return update


def endless(update: RecordedUpdate, batches: list[Batch]) -> Callable[[], None]:
    """Return a function that does the next update, of one batch."""
    following = cycle(batches)

    def work() -> None:
        batch = next(following)
        update.add(batch, 1 / batch.num_tgt_tokens, 1e-4)
        update.finish()

    return work


class Operations(TorchDispatchMode):
    """Lists each operation with its shapes, dtypes and arguments that are no tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.listed: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        described = tree_map(lambda x: (tuple(x.shape), x.dtype) if isinstance(x, Tensor) else x, (args, kwargs or {}))
        self.listed.append(f"{func} {described}")
        return func(*args, **(kwargs or {}))


def contract(dry: bool) -> Result:
    """Count the operations of an update that differ with the batch, the learning rate and the number of batches."""
    batches = batches_of("tiny", 3)
    update = recorded("tiny", torch.device("cpu"), torch.bfloat16, batches)
    for _ in range(2):  # the first one allocates
        update.add(batches[0], 0.01, 1e-3)
        update.finish()

    def operations(batch: Batch, lr: float, count: int) -> list[str]:
        update.block.fill(batch, 1 / count, lr)
        with Operations() as listed:
            update.backward()
            update.change()
        return listed.listed

    first = operations(batches[0], 1e-3, 100)
    others = [operations(batches[0], 1e-3, 100), operations(batches[0], 7e-4, 100), operations(batches[1], 1e-3, 53)]
    differ = [sum(a != b for a, b in zip(first, other, strict=True)) for other in others]
    waits = ("_local_scalar_dense", "nonzero", "masked_select", "index.Tensor", "_to_copy")
    kinds = Counter(line.split(" ")[0].removeprefix("aten.") for line in first)
    return {
        "differ": differ,
        "operations": len(first),
        "may_wait": {kind: count for kind, count in kinds.items() if kind.split(".")[0] in waits or kind in waits},
    }


def replays(dry: bool) -> Result:
    """Compare 20 updates launched one by one with 20 of which all but three are replayed (T8), two batches each."""
    return {precision: compare_replays(dry, DTYPES[precision]) for precision in ("bf16", "fp32", "fp16")}


def compare_replays(dry: bool, dtype: torch.dtype) -> Result:
    """Compare losses, norms and weights of two trainings of either kind."""
    device, name = device_of(dry), "tiny" if dry else "a"
    batches = batches_of(name, 10 if dry else 40)
    updates = [batches[first : first + 2] for first in range(0, len(batches), 2)]
    tokens = [sum(batch.num_tgt_tokens for batch in parts) for parts in updates]
    found: Result = {}
    runs = {}
    for label, record in (("plain", False), ("plain again", False), ("recorded", True), ("recorded again", True)):
        update = recorded(name, device, dtype, batches, record=record)
        losses = []
        for parts, num_tokens in zip(updates, tokens, strict=True):
            for batch in parts:
                update.add(batch, 1 / num_tokens, 1e-3)
            losses.append(update.finish())
        weights = torch.cat([p.detach().flatten() for p in update.optimizer.master.values()]).cpu()
        runs[label] = ([(float(a), float(b)) for a, b in losses], weights)
        found[f"replays, {label}"] = update.backward.num_replays
    for a, b in (("plain", "plain again"), ("recorded", "recorded again"), ("plain", "recorded")):
        equal_losses = sum(x == y for x, y in zip(runs[a][0], runs[b][0], strict=True))
        found[f"{a} = {b}"] = {
            "equal updates": equal_losses,
            "weights equal": bool(torch.equal(runs[a][1], runs[b][1])),
            "largest difference of weights": float((runs[a][1] - runs[b][1]).abs().max()),
        }
    found["losses"] = [round(x / count, 4) for (x, _), count in zip(runs["recorded"][0], tokens, strict=True)]
    return found


def waits(dry: bool) -> Result:
    """Train with torch's detection of host waits as errors (T9)."""
    device, name = device_of(dry), "tiny" if dry else "a"
    batches = batches_of(name, 4)
    update = recorded(name, device, torch.bfloat16, batches)
    for number in range(12):
        if number == 6 and not dry:
            torch.cuda.set_sync_debug_mode("error")
        update.add(batches[number % 4], 1e-3, 1e-3)
        update.finish()
    if not dry:
        torch.cuda.set_sync_debug_mode("default")
    return {"waits": 0}


def timed(work: Callable[[], object], device: torch.device, seconds: float) -> tuple[float, float]:
    """Return the seconds of one call, and those that the host took to launch it, over about `seconds`."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    work()
    wait()
    started = time.perf_counter()
    for _ in range(3):
        work()
    wait()
    count = max(3, round(seconds / max(1e-5, (time.perf_counter() - started) / 3)))
    started = time.perf_counter()
    for _ in range(count):
        work()
    launched = time.perf_counter() - started
    wait()
    return (time.perf_counter() - started) / count, launched / count


def updates_of(
    name: str, device: torch.device, batches: list[Batch]
) -> Iterator[tuple[str, Callable[[], object], Callable[[], int]]]:
    """Yield each way to train: its name, an update, and how many of its updates were replayed."""
    model, optimizer = build(name, device, torch.bfloat16)
    step, following = Step(model, optimizer, ProcessGroup()), cycle(batches)

    def launched() -> None:
        batch = next(following)
        step([batch], batch.num_tgt_tokens, 1e-4, 0.1)

    yield "launched, flattened", launched, lambda: 0
    update = recorded(name, device, torch.bfloat16, batches)
    work = endless(update, batches)
    for _ in range(4):
        work()
    yield "recorded", work, lambda: update.backward.num_replays


def training(name: str, dry: bool) -> Result:
    """Measure tokens per second, the host's share, kernels per update, memory, and the share of a large product."""
    device, size = device_of(dry), "tiny" if dry else name
    batches = batches_of(size)
    tokens = statistics.mean(batch.num_tgt_tokens for batch in batches)
    found: Result = {"tokens": tokens}
    lengths = [((b.src != PAD_ID).sum(1).numpy(), (b.tgt_out != PAD_ID).sum(1).numpy()) for b in batches]
    flops_of = TrainingFlops(build(size, torch.device("cpu"), torch.float32)[0])
    flops = statistics.mean(flops_of(*each) for each in lengths)
    for label, work, num_replays in updates_of(size, device, batches):
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        turns = [timed(work, device, 0.02 if dry else 1.5) for _ in range(3)]
        seconds = statistics.median(turn[0] for turn in turns)
        row = {
            "tokens_per_s": round(tokens / seconds),
            "turns": [round(tokens / turn[0]) for turn in turns],
            "ms": round(1000 * seconds, 3),
            "host_ms": round(1000 * statistics.median(turn[1] for turn in turns), 3),
            "tflops": round(flops / seconds / 1e12, 1),
            "replays": num_replays(),
        }
        if device.type == "cuda":
            row["gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
            row["pools_gib"] = round(bytes_of_pools() / 2**30, 2)
            row |= profile(work, 3)
        found[label] = row
        say(f"{name} {label}: {json.dumps(row)}")
        del work
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return found


def bytes_of_pools() -> int:
    """Return the memory that recordings keep for themselves, beside what torch allocates otherwise."""
    segments = torch.cuda.memory_snapshot()
    return sum(segment["total_size"] for segment in segments if tuple(segment["segment_pool_id"]) != (0, 0))


def resuming(dry: bool) -> Result:
    """Compare a stopped and resumed training with an uninterrupted one, with several batches an update."""
    found: Result = {}
    for precision in ("fp32",) if dry else ("bf16", "fp32", "fp16"):
        with TemporaryDirectory() as folder:
            config = digits_config(Path(folder), precision, dry)
            runs = [train_digits(config, Path(folder) / name, stop) for name, stop in (("whole", 0), ("stopped", 6))]
            states = (TrainState.load(run.state).optimizer for run in runs)
            whole, stopped = ({k: v for k, v in state.items() if k.startswith("weights.")} for state in states)
            log = [json.loads(line) for line in runs[1].metrics.read_text(encoding="utf-8").splitlines()]
        found[precision] = {
            "weights equal": all(torch.equal(weights, stopped[name]) for name, weights in whole.items()),
            "launched": [record["num_launched"] for record in log if record["kind"] == "train"],
        }
        say(f"resuming in {precision}: {found[precision]}")
    return found


def digits_config(folder: Path, precision: str, dry: bool) -> Config:
    """Write a corpus of digits and their reverse; return the configuration of a short training."""
    draw = random.Random(1)
    for split, count in (("train", 3000), ("valid", 40)):
        rows = ["".join(draw.choices("0123456789", k=draw.randint(3, 30))) for _ in range(count)]
        (folder / f"{split}.tsv").write_text("".join(f"{row}\t{row[::-1]}\n" for row in rows), encoding="utf-8")
    layers, d_model = (1, 32) if dry else (3, 256)
    sizes = {"d_model": d_model, "num_heads": 2, "d_ff": 2 * d_model, "max_src_len": 32, "max_tgt_len": 32}
    training: Result = {"batch_tokens": 1024, "tokens_per_update": 2500, "warmup_updates": 2}
    training |= {"max_updates": 8 if dry else 16, "threads": int(dry)}
    training |= {"device": device_of(dry).type, "precision": precision, "log_every": 2, "average_checkpoints": 0}
    return Config.model_validate({
        "data": {split: {"tsv": str(folder / f"{split}.tsv")} for split in ("train", "valid")}
        | {"src_lang": "en", "tgt_lang": "en"},
        "tokenizer": {"type": "char", "vocab_size": 300},
        "model": {**sizes, "encoder_layers": layers, "decoder_layers": layers},
        "training": training,
    })  # fmt: skip


def train_digits(config: Config, path: Path, stop: int) -> RunDir:
    """Train, with a stop and a resumption after update `stop`, if it is not 0."""

    def interrupt(record: TrainRecord | ValidRecord) -> None:
        if record.kind == "train" and record.update == stop:
            signal.raise_signal(signal.SIGINT)

    if not start_or_resume_run(config, path, on_record=interrupt):
        start_or_resume_run(config, path)
    return RunDir(path)


def ranks(dry: bool) -> Result:
    """Train on two GPUs, if there are two."""
    if dry or torch.cuda.device_count() < 2:
        return {"skipped": "needs two GPUs"}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(dump_config(digits_config(Path(folder), "bf16", dry)), encoding="utf-8")
        command = [sys.executable, "-m", "nmt", "train", "--config", str(path), "--run", str(Path(folder) / "run")]
        done = subprocess.run([*command, "--num-processes", "2"], cwd=ROOT, capture_output=True, text=True)
    say(done.stderr[-1500:])
    return {"rc": done.returncode, "log": done.stderr[-3000:]}


KINDS = {  # by a part of a kernel's name, the first that fits
    "_backward_kernel": "attention, gradient", "_forward_kernel": "attention", "_norm_kernel": "norms, gradient",
    "flash_bwd": "attention, gradient", "flash_fwd": "attention", "fmha": "attention", "loss_kernel": "loss",
    "gemm": "products", "nvjet": "products", "cutlass": "products", "sm90_xmma": "products", "splitK": "products",
    "layer_norm_grad": "norms, gradient", "GammaBeta": "norms, gradient", "layer_norm": "norms", "dropout": "dropout",
    "Adam": "AdamW", "multi_tensor": "foreach", "softmax": "softmax", "reduce": "sums", "embedding": "embedding",
    "elementwise": "element-wise", "Memcpy": "copies", "Memset": "copies", "cat": "copies", "copy": "copies",
}  # fmt: skip


def profile(work: Callable[[], object], count: int) -> Result:
    """Return the device's milliseconds of an update by kind of kernel, and the number of kernels."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    torch.cuda.synchronize()
    with profiler(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        for _ in range(count):
            work()
        torch.cuda.synchronize()
    total: Counter[str] = Counter()
    by_name: Counter[str] = Counter()
    num_kernels = 0
    for event in seen.events():
        if event.device_type != torch.autograd.DeviceType.CUDA or event.name.startswith("Command"):
            continue
        kind = next((kind for part, kind in KINDS.items() if part.lower() in event.name.lower()), "other")
        total[kind] += event.time_range.elapsed_us()
        by_name[event.name[:90]] += event.time_range.elapsed_us()
        num_kernels += 1
    return {
        "kernels": num_kernels // count,
        "device_ms": {kind: round(us / count / 1000, 3) for kind, us in total.most_common()},
        "longest_ms": {kernel: round(us / count / 1000, 3) for kernel, us in by_name.most_common(14)},
    }


def attention(dry: bool) -> Result:
    """Time kernels of attention, forward and backward: packed rows, rows of 128 with a bias, and a document mask."""
    device = device_of(dry)
    dtype = torch.float32 if dry else torch.bfloat16
    num_tokens, heads, size = (512, 2, 16) if dry else (28_672, 8, 64)
    found: Result = {}
    for length in (28, 15):
        count = num_tokens // length
        for causal in (False, True):
            for label, work in attention_kernels(device, dtype, (count, length, heads, size), causal):
                key = f"{label}, {length} tokens{', causal' if causal else ''}"
                try:
                    found[key] = round(1000 * timed(work, device, 0.01 if dry else 0.3)[0], 4)
                except Exception as error:
                    found[key] = str(error).splitlines()[0][:200]
                say(f"{key}: {found[key]}")
    return found


def attention_kernels(
    device: torch.device, dtype: torch.dtype, sizes: tuple[int, int, int, int], causal: bool
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield kernels of attention: a name, and forward and backward. `sizes` are sentences, their length, heads, K."""
    count, length, heads, size = sizes
    num_tokens = count * length
    draw = torch.Generator(device).manual_seed(1)

    def inputs(*shape: int) -> list[Tensor]:
        return [torch.randn(shape, generator=draw, device=device).to(dtype).requires_grad_() for _ in range(4)]

    def both(attend: Callable[[Tensor, Tensor, Tensor], Any], *shape: int) -> Callable[[], object]:
        query, key, value, above = inputs(*shape)
        return lambda: torch.autograd.grad(attend(query, key, value), (query, key, value), above.detach())

    offsets = torch.arange(0, num_tokens + 1, length, dtype=torch.int32, device=device)
    if device.type == "cuda":
        from torch.nn.attention import varlen

        window = (-1, 0 if causal else -1)
        by_flash = both(
            lambda q, k, v: varlen.varlen_attn(q, k, v, offsets, offsets, 64, 64, window_size=window),
            num_tokens, heads, size,
        )  # fmt: skip
        yield "varlen", by_flash

        def by_cudnn() -> object:
            # torch has a second backend of varlen, which its own choice never takes.
            with patch.object(varlen, "_should_use_cudnn", lambda _: True):
                return by_flash()

        yield "varlen by cuDNN", by_cudnn
        from nmt.model.kernels.gpu.segment_attention import segment_attention

        positions = torch.arange(num_tokens, device=device) % length
        sentences = Segments(offsets, positions, 64)
        yield (
            "nmt",
            both(lambda q, k, v: segment_attention(q, k, v, sentences, sentences, causal), 1, heads, num_tokens, size),
        )
    # Sentences side by side, each padded to 32 positions.
    yield (
        "padded to 32",
        both(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), count, heads, 32, size),
    )
    per_row = 128 // length
    rows = -(-count // per_row)
    number = torch.arange(128, device=device) // length
    allowed = number[:, None] == number
    if causal:
        allowed &= torch.ones_like(allowed).tril()
    bias = torch.zeros(allowed.shape, device=device, dtype=dtype).masked_fill(~allowed, torch.finfo(dtype).min)
    bias = bias.expand(rows, 1, 128, 128).contiguous()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backends = (
        [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION] if device.type == "cuda" else [SDPBackend.MATH]
    )
    for backend in backends:

        def attend(q: Tensor, k: Tensor, v: Tensor, backend: Any = backend) -> Tensor:
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)

        yield f"rows of 128, {backend.name}", both(attend, rows, heads, 128, size)
    if device.type != "cuda":
        return
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    documents = torch.arange(num_tokens, device=device) // length

    def in_document(batch: Any, head: Any, q: Any, k: Any) -> Any:
        same = documents[q] == documents[k]
        return same & (q >= k) if causal else same

    block_mask = create_block_mask(in_document, None, None, num_tokens, num_tokens, device=device, _compile=True)
    compiled = torch.compile(flex_attention, dynamic=False)
    yield "flex", both(lambda q, k, v: compiled(q, k, v, block_mask=block_mask), 1, heads, num_tokens, size)


def decoding(beam: int, dry: bool) -> Result:
    """Decode 1, 64 and 512 sentences to 64 tokens, beside CTranslate2 in float16; then outputs of 8 to 64 tokens.

    These are decoded 128 at once: with rows that are filled again, and batch by batch.
    """
    device = device_of(dry)
    vocab_size = SIZES["tiny" if dry else "b"][4]
    model, _ = build("tiny" if dry else "b", torch.device("cpu"), torch.float32)
    model.eval()
    length = 6 if dry else 64
    found: Result = {}
    peer = None
    if not dry:
        try:
            from decoders import ctranslate2_of

            peer = ctranslate2_of(model, device)
        except Exception as error:
            found["ctranslate2"] = str(error)[:300]
    model = model.to(device, torch.float32 if dry else torch.bfloat16)
    # On the CPU, the same code launches the steps one by one.
    recordings = StepRecordings([model]) if device.type == "cuda" else StepRecordings([model], refuse_to_record)
    draw = torch.Generator().manual_seed(1)

    def compare(key: str, num_tokens: int, systems: dict[str, Callable[[], object]]) -> None:
        turns: dict[str, list[float]] = {name: [] for name in systems}
        try:
            for _ in range(1 if dry else 3):
                for name, work in systems.items():
                    turns[name].append(timed(work, device, 0.01 if dry else 0.4)[0])
        except Exception as error:
            found[f"{key}, failure"] = str(error)[:300]
        found[key] = {name: round(num_tokens / statistics.median(each)) for name, each in turns.items() if each}
        say(f"{key}, beam {beam}: {found[key]}")

    for count in (1, 4) if dry else (1, 64, 512):
        src = random_sources(draw, count, vocab_size).to(device)
        limits = [length] * count
        systems: dict[str, Callable[[], object]] = {"nmt": partial(decode, model, src, limits, beam, recordings)}
        if peer is not None:
            systems["ctranslate2"] = partial(peer, src, beam, length)
        compare(f"{count} sentences", count * length, systems)
    count, at_once = (70, 16) if dry else (512, 128)
    src = random_sources(draw, count, vocab_size).to(device)
    limits = torch.randint(length // 8, length + 1, (count,), generator=draw).clamp(min=1).tolist()
    # Sources are sorted by their length, which outputs follow roughly.
    noise = random.Random(1)
    limits.sort(key=lambda limit: -limit * noise.uniform(0.75, 1.25))

    def by_batches() -> int:
        parts = [slice(first, first + at_once) for first in range(0, count, at_once)]
        return sum(decode(model, src[part], limits[part], beam, recordings) for part in parts)

    refilled = partial(decode, model, src, limits, beam, recordings, at_once)
    key = f"{count} sentences of {min(limits)} to {length} tokens, {at_once} at once"
    compare(key, sum(limits), {"rows filled again": refilled, "batches": by_batches})
    found["rows computed"] = {"filled again": refilled(), "batches": by_batches(), "tokens": sum(limits)}
    return found


def refuse_to_record(step: object, last: object) -> Callable[[], object]:
    """Record nothing: steps are launched one by one."""
    raise RuntimeError("no GPU")


def random_sources(draw: torch.Generator, count: int, vocab_size: int) -> Tensor:
    """Return sources [count, 32] of random tokens, and eos."""
    src = torch.randint(4, vocab_size, (count, 32), generator=draw)
    src[:, -1] = EOS_ID
    return src


class CountedDecoder(Decoder):
    """Counts the rows of all its steps."""

    num_rows = 0

    def step(self, last: Tensor, *, normalized: bool = True) -> Tensor:
        """Take the step."""
        self.num_rows += len(last)
        return super().step(last, normalized=normalized)


@torch.inference_mode()
def decode(
    model: Transformer, src: Tensor, limits: list[int], beam: int, recordings: StepRecordings, at_once: int = 1 << 20
) -> int:
    """Decode src [B, S] to outputs of exactly `limits` tokens; return the number of places of all steps."""
    num_rows = beam + (beam > 1)  # beam search has one more row, for greedy search
    decoder = CountedDecoder([model], src[:at_once], max(limits), num_rows, recordings=recordings)
    assert decoder.graph_step is not None
    decoder.graph_step.waiting = src[at_once:]
    never, total = [UNK_ID, PAD_ID, BOS_ID, EOS_ID], max(len(src), decoder.num_places) * num_rows
    constraints = Constraints(SearchOptions(beam_size=beam), never, (), total, src.device, 0)
    if beam == 1:
        greedy_search(decoder, limits, constraints, scores=False)
    else:
        beam_search(decoder, limits, constraints, SearchOptions(beam_size=beam))
    return decoder.num_rows // num_rows


def multi30k(dry: bool) -> Result:
    """Train Multi30k from the command on; return the seconds at which each validation was logged, and test scores."""
    if dry:
        return {"skipped": "trains for minutes on a CPU"}
    run = ROOT / "build" / "bench" / "gpu-multi30k"
    command = [sys.executable, "-m", "nmt", "train", "--config", "configs/multi30k-de-en.yaml", "--run", str(run)]
    command += ["--overwrite", "--set", "training.validate_every=1100", "--set", "training.log_every=100"]
    started = time.time()
    done = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert done.stderr is not None
    lines = [f"{time.time() - started:.1f} {line.rstrip()}" for line in done.stderr]
    found: Result = {"rc": done.wait(), "seconds": time.time() - started, "log": lines}
    for beam in (1, 5):  # on test2016
        score = [sys.executable, "-m", "nmt", "eval", "--model", str(run), "--set", f"decoding.beam_size={beam}"]
        scored = subprocess.run(score, cwd=ROOT, capture_output=True, text=True)
        found[f"test2016, beam {beam}"] = (scored.stdout or scored.stderr)[-1500:]
        say(found[f"test2016, beam {beam}"])
    shown = [line for line in lines if "valid" in line or "test" in line or "warn" in line.lower() or "graph" in line]
    say("\n".join(shown[-30:] if done.returncode == 0 else lines[-30:]))
    return found


def tests(dry: bool) -> Result:
    """Run the tests that need a GPU."""
    if dry:
        return {"skipped": "needs a GPU"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "gpu", "tests/test_gpu.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    say(done.stdout[-1500:])
    return {"rc": done.returncode, "output": done.stdout[-3000:]}


ITEMS: dict[str, tuple[Callable[[bool], Result], int]] = {  # and the seconds it may take; what is worth most first
    # First what the speed of training and decoding is, then whether it is right, then what is good to know.
    "waits": (waits, 25),
    "training a": (lambda dry: training("a", dry), 45),
    "training b": (lambda dry: training("b", dry), 60),
    "training c": (lambda dry: training("c", dry), 70),
    "decoding greedy": (lambda dry: decoding(1, dry), 50),
    "decoding beam 5": (lambda dry: decoding(5, dry), 70),
    "multi30k": (multi30k, 110),
    "replays": (replays, 60),
    "tests": (tests, 100),
    "resuming": (resuming, 60),
    "contract": (contract, 20),  # the only one that needs no GPU
    "ranks": (ranks, 60),
    "attention": (attention, 110),
}


@contextmanager
def stored(path: Path) -> Iterator[Result]:
    """Read the results so far, and write them at the end."""
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    yield found
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(".new")  # a process that is killed while it writes leaves the results of before
    written.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    written.replace(path)


def run_item(name: str, path: Path, dry: bool) -> None:
    """Do one item, in this process."""
    started = time.time()
    result = ITEMS[name][0](dry)
    with stored(path) as found:
        found[name] = {**result, "item_seconds": round(time.time() - started, 1)}


def run_plan(path: Path, dry: bool, only: list[str] | None = None) -> int:
    """Do all items that `path` has no result of, each in a process of its own; return the number of failures.

    Those that failed before come last.
    """
    started, failures = time.monotonic(), 0
    with stored(path) as found:
        failed = [name for name in ITEMS if "failure" in found.get(name, ())]
        new = [name for name in ITEMS if name not in found]
    for name in [*new, *failed]:
        limit, left = ITEMS[name][1], SECONDS - (time.monotonic() - started)
        if only and name not in only:
            continue
        if left < 15:
            say(f"{name}: no time left")
            continue
        say(f"== {name} (at {time.monotonic() - started:.0f} s)")
        if dry:
            run_item(name, path, dry)
            continue
        command = [sys.executable, str(HERE / "gpu.py"), "--item", name, "--json", str(path)]
        try:
            code = subprocess.run(command, cwd=ROOT, timeout=min(limit, left)).returncode
            fault = f"exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            fault = f"stopped after {min(limit, left):.0f} s"
        if fault:
            failures += 1
            say(f"{name}: {fault}")
            with stored(path) as found:
                found[name] = {"failure": fault}
    with stored(path) as found:
        result = found.get("contract", {})
    if "differ" in result:
        counts = ", ".join(map(str, result["differ"]))
        say(f"contract: {counts} of {result['operations']} operations differ (same batch, other rate, other batch)")
    return failures
