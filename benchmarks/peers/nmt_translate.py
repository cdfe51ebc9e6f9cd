"""Translate with nmt's Python API. Prints one JSON line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from common import read_job
from translate_loop import measure_translation

from nmt import Translator
from nmt.artifacts.rundir import RunDir
from nmt.config import SearchOptions
from nmt.decoding.engines.native_engine import NativeEngine


def main() -> None:
    """Run the job."""
    job = read_job()
    if job["threads"] is not None:  # else nmt's default, as with `batch` below
        torch.set_num_threads(job["threads"])
    translator = Translator.load(job["model"], engine=job["engine"], precision=job["precision"], scores=False)
    if job["kernel"] and isinstance(translator.engine, NativeEngine):
        run, precision = RunDir(Path(job["model"])), translator.engine.precision
        translator.engine = NativeEngine.load(
            run, translator.tokenizers, "fp32" if precision == "fp32" else "int8", kernel=job["kernel"], scores=False
        )
    options = translator.options
    if job["mode"] == "bulk" and job["batch"] is not None:
        options = options.changed(batch_tokens=job["batch"])

    def translate(texts: Sequence[str], lengths: Sequence[int] | None) -> tuple[list[str], list[int]]:
        asked = force_length(options, lengths[0]) if lengths else options
        size = job["batch"] if job["mode"] == "forced" else len(texts)
        blocks = [texts[start : start + size] for start in range(0, len(texts), size)]
        done = [translation for block in blocks for translation in translator.translate(block, asked)]
        return [t.text for t in done], [sum(len(s.tgt_ids) + s.finished for s in t.segments) for t in done]

    measure_translation(job, translate, ["torch", "nmt-toolkit"])


def force_length(options: SearchOptions, length: int) -> SearchOptions:
    """Force every output to `length` tokens: forbid eos before that, and limit the length."""
    return options.changed(min_len=length, max_len_factor=0.0, max_len_offset=length, retry_loops=False)


if __name__ == "__main__":
    main()
