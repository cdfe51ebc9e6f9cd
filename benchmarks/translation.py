"""The systems of the translation benchmark: the run, its exports, the environments, and the jobs of the programs."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environments import python_of
from harness import HERE, Contender, WorkerError, clean_environment, foreign_environment, run_worker, say, tail
from workload import Workload, prepare, write_config

from nmt.artifacts.rundir import RunDir
from nmt.data.tokens.tokenizer import TokenizerPair

# The precisions of each system; `auto` is nmt's default.
PRECISIONS = {
    "nmt": ("auto", "fp32"),
    "nmt-torch": ("auto",),
    "ctranslate2": ("fp32", "int8"),
    "hf-marian": ("fp32", "bf16"),
    "opennmt-py": ("fp32",),
    "joeynmt": ("fp32",),
}
OURS = ("nmt", "nmt-torch")  # `nmt translate`, by default and with --engine torch
SAME_WEIGHTS = (*OURS, "ctranslate2")
ONE_LENGTH = ("opennmt-py", "joeynmt")  # their commands force all outputs to the same length
FORCED = {16: 960, 64: 384, 256: 128, 1024: 64}  # output length to sentences
FORCED_BATCH = 64
SIZES = ("d_model", "num_heads", "d_ff", "dropout")

Job = dict[str, Any]


@dataclass
class Bench:
    """The state that all measurements share."""

    options: argparse.Namespace
    threads: int
    run: RunDir
    folder: Path  # for exports, hypotheses and files of the peers
    num_sentences: int
    forced: dict[int, int]
    pythons: dict[str, Path] = field(default_factory=dict)
    models: dict[tuple[str, str], Path] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)  # length of nmt's output for each sentence in tokens, eos counted
    best: dict[tuple[str, str], Job] = field(default_factory=dict)  # the best setting in bulk
    notes: list[str] = field(default_factory=list)

    def systems(self) -> list[tuple[str, str]]:
        """Return (system, precision) of everything that can be measured."""
        wanted = [(s, p) for s in self.options.systems for p in PRECISIONS[s] if p in self.options.precisions]
        return [pair for pair in wanted if pair[0] in self.pythons and (pair[0] == "hf-marian" or self._has(pair))]

    def _has(self, pair: tuple[str, str]) -> bool:
        return pair[0] not in SAME_WEIGHTS or pair in self.models

    def job(self, system: str, precision: str, mode: str, **values: Any) -> Job:
        """Return the job description of a system's program."""
        config, tokenizers = self.run.config(), TokenizerPair.load(self.run.tokenizer)
        names = ("joint", "joint") if tokenizers.joint else ("src", "tgt")
        model = config.model
        job = {
            "mode": mode,
            "precision": precision,
            "threads": self.threads,
            "workers": 1,
            "batch": FORCED_BATCH,
            "model": str(self.models.get((system, precision), "")),
            "tokenizers": [str(self.run.tokenizer / f"{name}.model") for name in names],
            "src": str(self.run.data / "test.src"),
            "ids": str(self.folder / "test.src.ids"),
            "workload": str(self.options.workload),
            "scratch": str(self.folder / f"{system}-{precision}"),
            "num_sentences": self.num_sentences,
            "vocab_size": tokenizers.tgt.vocab_size,
            **{name: getattr(model, name) for name in (*SIZES, "max_src_len", "max_tgt_len")},
            "layers": model.encoder_layers,
            "label_smoothing": config.training.label_smoothing,
            "batch_tokens": config.training.batch_tokens,
        }
        if system in OURS:  # nmt's default, unless the setting overrides it
            job |= {"threads": None, "batch": None, "engine": "torch" if system == "nmt-torch" else "auto"}
            job["kernel"] = self.options.kernel
        if system == "hf-marian" and mode != "forced":
            job["lengths"] = self.lengths
        if system in ONE_LENGTH and mode != "forced":
            job["length"] = round(sum(self.lengths) / len(self.lengths))
        return {**job, **values}

    def contender(self, system: str, precision: str, mode: str, setting: Job, **values: Any) -> Contender:
        """Return `system` in one setting, measured in a separate process each time."""
        job = self.job(system, precision, mode, **setting, **values)

        def measure() -> dict[str, Any]:
            return run_worker(self.command(system, job), self.environment(system, job["threads"]), timeout=1800)

        return Contender(system, precision, measure, setting)

    def command(self, system: str, job: Job) -> list[str | Path]:
        """Return the program that measures `system`."""
        program = "nmt" if system in OURS else system.replace("-", "_")
        return [self.pythons[system], HERE / "peers" / f"{program}_translate.py", json.dumps(job)]

    def environment(self, system: str, threads: int | None) -> dict[str, str]:
        """Return the environment variables of its process."""
        return clean_environment(threads) if system in OURS else foreign_environment(threads or self.threads)


def make_bench(options: argparse.Namespace, threads: int) -> Bench:
    """Prepare the run, its exports, the environments, and nmt's output, whose lengths are forced on the peers."""
    workload = prepare(options.cache / "work", options.quick)
    options.workload = workload.folder
    run = RunDir(options.run.resolve()) if options.run else trained_run(workload, options.train_updates)
    folder = options.cache.resolve() / "translate" / run.best_checkpoint().parent.parent.name
    folder.mkdir(parents=True, exist_ok=True)
    sources, _ = run.read_pairs("test")
    ids = TokenizerPair.load(run.tokenizer).src.encode_batch(sources)
    (folder / "test.src.ids").write_text("".join(" ".join(map(str, row)) + "\n" for row in ids), encoding="utf-8")
    forced = {8: 20} if options.quick else FORCED
    longest = run.config().model.max_tgt_len
    bench = Bench(
        options, threads, run, folder, min(1000, len(sources)), {n: c for n, c in forced.items() if n <= longest}
    )
    if len(bench.forced) < len(forced):
        bench.notes.append(f"outputs over {longest} tokens are not measured: the run's model.max_tgt_len")
    for system in dict.fromkeys(["nmt", *options.systems]):
        add_system(bench, system)
    bench.lengths = bench.contender("nmt", "auto", "bulk", {}).measure()["lengths"]
    return bench


def trained_run(workload: Workload, updates: int) -> RunDir:
    """Train a run on the workload for `updates`, or return the run trained by an earlier benchmark."""
    run = RunDir(workload.folder / f"run-{updates}")
    if run.index_file.exists():
        return run
    say(f"training {run.path} for {updates} updates")
    training = {"max_updates": updates, "validate_every": updates, "warmup_updates": updates // 3, "lr": 1e-3}
    config = write_config(workload.folder / "run.yaml", workload.config(training))
    command = [sys.executable, "-m", "nmt", "train", "--config", str(config), "--run", str(run.path), "--overwrite"]
    subprocess.run(command, check=True, env=clean_environment())
    return run


def add_system(bench: Bench, system: str) -> None:
    """Prepare the Python of `system` and its form of the run's weights; note a failure, and continue."""
    try:
        bench.pythons[system] = Path(sys.executable) if system in OURS else python_of(system, bench.options.envs)
    except WorkerError as error:
        bench.faults[system] = f"pip could not install it:\n{error}"
    for precision in PRECISIONS[system]:
        if system in OURS:
            bench.models[system, precision] = bench.run.path
        elif system == "ctranslate2" and precision in bench.options.precisions:
            export_ctranslate2(bench, precision)
        elif system not in SAME_WEIGHTS and precision == "fp32":
            bench.notes.append(f"{system} has its own weights; its outputs are forced to the lengths of nmt's outputs")


def export_ctranslate2(bench: Bench, precision: str) -> None:
    """Export the run with `nmt export ctranslate2`."""
    out = bench.folder / f"ctranslate2-{precision}"
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "nmt", "export", "ctranslate2", str(bench.run.path), str(out)]
    command += ["--quantization", precision] if precision != "fp32" else []
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True)
    if done.returncode:
        bench.faults[f"ctranslate2 {precision}"] = f"the export failed:\n{tail(done.stderr)}"
    else:
        bench.models["ctranslate2", precision] = out
