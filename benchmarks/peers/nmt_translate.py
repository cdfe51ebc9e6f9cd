"""Translate with this project, by its Python interface; prints one JSON line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from common import read_job
from translate_loop import measure_translation

from nmt import Translator


def main() -> None:
    """Measure what the job says."""
    job = read_job()
    if job["threads"] is not None:  # else the project's own choice, as with `batch` below
        torch.set_num_threads(job["threads"])
    options = {} if job["precision"] == "auto" else {"precision": job["precision"]}
    translator = Translator.load(job["model"], **options)
    if job["mode"] == "bulk" and job["batch"] is not None:
        translator.batch_tokens = job["batch"]

    def translate(texts: Sequence[str], lengths: Sequence[int] | None) -> tuple[list[str], list[int]]:
        if lengths:
            force_length(translator, lengths[0])
        size = job["batch"] if job["mode"] == "forced" else len(texts)
        blocks = [texts[start : start + size] for start in range(0, len(texts), size)]
        done = [translation for block in blocks for translation in translator.translate_fully(block)]
        return [t.text for t in done], [len(t.tgt_ids) + t.finished for t in done]

    measure_translation(job, translate, ["torch", "nmt"])


def force_length(translator: Translator, length: int) -> None:
    """Every output gets `length` tokens: eos is not chosen before, and no output may be longer."""
    translator.options = replace(translator.options, min_len=length, max_len_factor=0.0, max_len_offset=length)


if __name__ == "__main__":
    main()
