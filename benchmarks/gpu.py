"""Run everything that needs a GPU: `python benchmarks/gpu.py [--json OUT]`.

Runs the tests that need a GPU. Compares training and decoding of Transformer base and big with `nn.Transformer` and, if
installed, with Marian and CTranslate2, alternating on the same device. Measures the minutes to 40 BLEU on Multi30k, if
it is available. `--quick` only compares training and decoding, on any device, with tiny models; its figures mean
nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from decoders import decoders_of
from gpu_plan import run_item, run_plan, shape_of
from growth import random_batch
from harness import HERE, ROOT, clean_environment, keep, say, table
from harness import machine as describe
from torch import Tensor, nn
from torch.nn import functional as F
from workload import find_multi30k

from nmt.base.device import DTYPES, choose_device, choose_precision
from nmt.base.special_tokens import EOS_ID, PAD_ID
from nmt.config.model import ModelConfig
from nmt.config.training import TrainingConfig
from nmt.data.store.batching import Batch
from nmt.model.transformer import Transformer
from nmt.training.environment import choose_blocks
from nmt.training.monitor import TrainingFlops
from nmt.training.update.distributed import ProcessGroup
from nmt.training.update.optimizer import Optimizer
from nmt.training.update.step import Step

sys.path.insert(0, str(HERE / "peers"))

LENGTH = 32  # tokens a side in training
NUM_BATCHES = 32  # in training, one after the other
WANTED_BLEU = 40.0

Row = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """A model of Vaswani et al. 2017, table 3, and the settings of its measurements."""

    name: str
    layers: int
    d_model: int
    d_ff: int
    num_heads: int
    vocab_size: int = 32_000
    batch_tokens: int = 32_768
    decoded: tuple[int, ...] = (1, 64, 512)  # sentences at once
    decoded_length: int = 64

    def config(self) -> ModelConfig:
        """Return the size as this project's configuration."""
        return ModelConfig(
            d_model=self.d_model,
            num_heads=self.num_heads,
            d_ff=self.d_ff,
            encoder_layers=self.layers,
            decoder_layers=self.layers,
        )

    def job(self) -> dict[str, Any]:
        """Return the size as a job for the programs of the peers."""
        sizes = {key: getattr(self, key) for key in ("layers", "d_model", "d_ff", "num_heads", "vocab_size")}
        return {**sizes, "dropout": 0.1, "label_smoothing": 0.1}

    def model(self) -> Transformer:
        """Build a model of this size with random weights."""
        return Transformer(self.config(), self.vocab_size, self.vocab_size)


SIZES = (Size("base", 6, 512, 2048, 8), Size("big", 6, 1024, 4096, 16))
QUICK = (Size("tiny", 1, 32, 64, 2, vocab_size=300, batch_tokens=256, decoded=(1, 4), decoded_length=8),)


PARTS = ("tests", "training", "decoding", "multi30k")


def main() -> None:
    """Test, measure, print the tables, save the JSON. Exit code 1 without a GPU, or if a test fails."""
    options = parse_arguments()
    if options.item:
        run_item(options.item, options.json, options.dry_run)
        return
    if options.plan:
        sys.exit(bool(run_plan(options.json or ROOT / "build" / "gpu-plan.json", options.dry_run, options.items)))
    device = choose_device("auto")
    precision = choose_precision("auto", device)
    result: dict[str, Any] = {"benchmark": "gpu", "machine": describe(torch.get_num_threads())}
    result["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    result["precision"], result["product_tflops"] = precision.name, precision.flops / 1e12
    say(f"{result['device']}, {precision.name}, {result['product_tflops']:.1f} TFLOP/s in a large product")
    for part in options.only:
        result[part] = run_tests() if part == "tests" else minutes_to_bleu() if part == "multi30k" else []
        for size in options.sizes if part in MEASURES else ():
            result[part] += MEASURES[part](size, device, precision.name, options)
            keep(options.json, result)
        keep(options.json, result)
    sys.exit(1 if result.get("tests") else 0)


def parse_arguments() -> argparse.Namespace:
    """Read the command line; `only` are the parts to run, in order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", help=f"parts to run, separated by commas (all: {','.join(PARTS)})")
    parser.add_argument("--sizes", default="base,big", help="sizes to measure, separated by commas (base,big)")
    parser.add_argument("--without", action="append", default=[], help="a system to leave out; may be repeated")
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each training measurement (10)")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each, alternating (3)")
    parser.add_argument("--json", type=Path, help="file for the result, updated after each size and part")
    parser.add_argument("--quick", action="store_true", help="tiny models on any device, to check that it works")
    parser.add_argument("--plan", action="store_true", help="do the items of gpu_plan.py, in ten minutes at most")
    parser.add_argument("--dry-run", action="store_true", help="with --plan: small and eager, on the CPU")
    parser.add_argument("--items", type=lambda text: text.split(","), help="with --plan: only these items")
    parser.add_argument("--item", help="do one item of the plan in this process")
    options = parser.parse_args()
    if options.plan or options.item:
        return options
    if options.quick:
        options.seconds, options.repeats = 0.05, 1
    elif not torch.cuda.is_available():
        sys.exit("error: no CUDA device; --quick runs the same code on a CPU")
    asked = options.only.split(",") if options.only else MEASURES if options.quick else PARTS
    if unknown := [part for part in asked if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; there are {', '.join(PARTS)}")
    options.only = [part for part in PARTS if part in asked]
    options.sizes = QUICK if options.quick else [size for size in SIZES if size.name in options.sizes.split(",")]
    return options


def run_tests() -> int:
    """Run the tests that need a GPU; return pytest's exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", "-m", "gpu", "tests/test_gpu.py"], cwd=ROOT).returncode


def measure_training(size: Size, device: torch.device, precision: str, options: argparse.Namespace) -> list[Row]:
    """Measure target tokens per second, and the share of a large matrix product's FLOP rate, for each system."""
    torch.manual_seed(1)
    # Of different shapes, as in training: the first products of a shape take the host longer.
    counts = [max(1, size.batch_tokens // LENGTH * (256 - number) // 256) for number in range(NUM_BATCHES)]
    drawn = [ragged_batch(count, size.vocab_size) for count in counts]
    batches = [batch for batch, _ in drawn]
    on_device = [batch.to(device) for batch in batches]
    compute_flops = TrainingFlops(size.model())
    flops = statistics.mean(compute_flops(lengths.numpy(), lengths.numpy()) for _, lengths in drawn)
    num_tokens = statistics.mean(batch.num_tgt_tokens for batch in batches)
    peak = choose_precision(precision, device).flops
    systems: dict[str, Callable[[], Callable[[], None]]] = {
        "nmt": lambda: our_update(size, batches, device, precision),
        "nn-transformer": lambda: plain_update(nn_transformer(size), on_device, device, precision),
    }
    if not options.quick:
        systems["nmt, padded"] = lambda: our_update(size, batches, device, precision, padded=True)
    if find_spec("transformers"):
        systems["hf-marian"] = lambda: plain_update(marian(size), on_device, device, precision)
    seconds: dict[str, list[float]] = {name: [] for name in systems if name not in options.without}
    for _ in range(options.repeats):
        for name in seconds:
            seconds[name].append(seconds_of(systems[name](), device, options.seconds))
            say(f"training {size.name}, {name}: {num_tokens / seconds[name][-1]:,.0f} tokens/s")
    rows = [
        {
            "size": size.name,
            "system": name,
            "tokens_per_s": round(num_tokens / statistics.median(values)),
            "mfu": round(flops / statistics.median(values) / peak, 3),
            "repeats": [round(num_tokens / value) for value in values],
        }
        for name, values in seconds.items()
    ]
    columns = {"size": "size", "system": "system", "tokens_per_s": "tokens/s", "mfu": "of a large matrix product"}
    sys.stdout.write(table(rows, columns))
    return rows


def ragged_batch(rows: int, vocab_size: int) -> tuple[Batch, Tensor]:
    """Return random sentences of 3/4 `LENGTH` to `LENGTH` tokens (1/8 padding, as in large batches), and lengths."""
    whole = random_batch(rows, LENGTH, vocab_size)
    lengths = torch.randint(3 * LENGTH // 4, LENGTH + 1, (rows,))
    padding = torch.arange(LENGTH) >= lengths[:, None]
    return Batch.from_ids(
        *(side.masked_fill(padding, PAD_ID) for side in (whole.src, whole.tgt_in, whole.tgt_out))
    ), lengths


def our_update(
    size: Size,
    batches: list[Batch],
    device: torch.device,
    precision: str,
    *,
    padded: bool = False,
) -> Callable[[], None]:
    """Return an update function of nmt, for one batch after the other; it copies the batch to the device."""
    model = size.model().to(device).train()
    optimizer = Optimizer(model, TrainingConfig(), DTYPES[precision])
    step = Step(model, optimizer, ProcessGroup())
    if not padded and choose_blocks(model)[0]:
        step.record(shape_of(batches), 0.1)
    following = cycle(batches)

    def update() -> None:
        batch = next(following)
        step([batch], batch.num_tgt_tokens, 1e-3, 0.1)

    return update


def void(_: object) -> None:
    """Ignore the argument."""


def nn_transformer(size: Size) -> tuple[nn.Module, Callable[[nn.Module, Batch], Tensor]]:
    """Return `torch.nn.Transformer`, and a function that computes its logits."""
    from nn_transformer_train import Translator

    return Translator(size.job()), lambda model, batch: model(batch.src, batch.tgt_in)


def marian(size: Size) -> tuple[nn.Module, Callable[[nn.Module, Batch], Tensor]]:
    """Return Hugging Face's Marian, and a function that computes its logits."""
    from hf_marian import make_marian

    def logits(model: nn.Module, batch: Batch) -> Tensor:
        mask = (batch.src != PAD_ID).long()
        done = model(input_ids=batch.src, attention_mask=mask, decoder_input_ids=batch.tgt_in, use_cache=False)
        return done.logits

    return make_marian(size.job(), "sdpa"), logits


def plain_update(
    peer: tuple[nn.Module, Callable[[nn.Module, Batch], Tensor]],
    batches: list[Batch],
    device: torch.device,
    precision: str,
) -> Callable[[], None]:
    """Return an update function as in tutorials, for one batch after the other."""
    from torch_loop import MasterAdam

    model, logits_of = peer
    optimizer = MasterAdam(model.to(device).train(), precision)
    following = cycle(batches)

    def update() -> None:
        batch = next(following)
        logits = logits_of(model, batch).float().flatten(0, 1)
        F.cross_entropy(logits, batch.tgt_out.flatten(), ignore_index=PAD_ID, label_smoothing=0.1).backward()
        optimizer.step()

    return update


def seconds_of(work: Callable[[], object], device: torch.device, least_seconds: float) -> float:
    """Return the mean seconds of `work`, repeated for about `least_seconds` after three warm-up runs.

    Waits for the device only at the end, as in training, where the host runs ahead of it.
    """
    started = time.perf_counter()
    for warm_up in range(3):
        if warm_up == 2:
            wait(device)
            started = time.perf_counter()
        work()
    wait(device)
    count = max(1, round(least_seconds / (time.perf_counter() - started)))
    started = time.perf_counter()
    for _ in range(count):
        work()
    wait(device)
    return (time.perf_counter() - started) / count


def wait(device: torch.device) -> None:
    """Wait until the device has finished all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@torch.inference_mode()
def measure_decoding(size: Size, device: torch.device, precision: str, options: argparse.Namespace) -> list[Row]:
    """Measure tokens per second of greedy decoding, and the upper bound set by memory bandwidth."""
    model = size.model()
    systems = decoders_of(model, size.job(), DTYPES[precision], device, size.decoded_length)
    rate = bytes_a_second(device)
    rows = []
    for sentences in size.decoded:
        src = torch.randint(EOS_ID + 1, size.vocab_size, (sentences, LENGTH), device=device)
        tokens = sentences * size.decoded_length
        bound = size.decoded_length * bytes_a_step(model, size, sentences) / rate
        seconds: dict[str, list[float]] = {name: [] for name in systems if name not in options.without}
        for _ in range(options.repeats):
            for name in seconds:
                seconds[name].append(seconds_of(partial(systems[name], src), device, options.seconds / 10))
                say(f"decoding {size.name} x {sentences}, {name}: {tokens / seconds[name][-1]:,.0f} tokens/s")
        for name, values in seconds.items():
            figures = {"tokens_per_s": round(tokens / statistics.median(values)), "memory_bound": round(tokens / bound)}
            rows.append({"size": size.name, "batch": sentences, "system": name, **figures})
    columns = {"size": "size", "batch": "batch", "system": "system", "tokens_per_s": "tokens/s"}
    sys.stdout.write(table(rows, {**columns, "memory_bound": "memory's limit"}))
    return rows


def bytes_a_step(model: Transformer, size: Size, sentences: int) -> float:
    """Return the bytes that a decoding step reads: weights of the decoder, keys and values (half of the targets)."""
    weights = sum(p.numel() for p in (*model.decoder_layers.parameters(), *model.output_proj.parameters()))
    positions = LENGTH + size.decoded_length / 2
    return model.output_proj.weight.itemsize * (weights + 2 * sentences * size.layers * size.d_model * positions)


def bytes_a_second(device: torch.device) -> float:
    """Measure the memory bandwidth, by a copy, which reads and writes."""
    block = torch.zeros((1 << 30) if device.type == "cuda" else (1 << 24), dtype=torch.uint8, device=device)
    target = torch.empty_like(block)
    return 2 * block.numel() / seconds_of(lambda: void(target.copy_(block)), device, 0.1)


def minutes_to_bleu() -> dict[str, Any] | None:
    """Train `configs/multi30k-de-en.yaml`; return the minutes of updates until a validation reaches the target BLEU."""
    if find_multi30k() is None:
        say("Multi30k not found: skipping minutes to BLEU")
        return None
    run = ROOT / "build" / "bench" / "gpu-multi30k"
    command = ["-m", "nmt", "train", "--config", "configs/multi30k-de-en.yaml", "--run", str(run), "--overwrite"]
    short = ["--set", "training.validate_every=100", "--set", "training.keep_checkpoints=5"]
    subprocess.run([sys.executable, *command, *short], cwd=ROOT, env=clean_environment(), check=True)
    seconds, reading, found = 0.0, 0.0, {"bleu": WANTED_BLEU, "minutes": None, "best": 0.0}
    for line in (run / "logs" / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        reading += record.get("reading_share", 0.0) * (record.get("train_seconds", seconds) - seconds)
        seconds = record.get("train_seconds", seconds)
        found["best"] = max(found["best"], record.get("bleu", 0.0))
        if record.get("bleu", 0.0) >= WANTED_BLEU and found["minutes"] is None:
            found["minutes"] = seconds / 60
    found["reading_share"] = reading / seconds
    sys.stdout.write(f"Multi30k: {found}\n")
    return found


MEASURES: dict[str, Callable[[Size, torch.device, str, argparse.Namespace], list[Row]]] = {
    "training": measure_training,
    "decoding": measure_decoding,
}


if __name__ == "__main__":
    main()
