"""Translate with CTranslate2, without torch in the process. Prints one JSON line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import ctranslate2
from common import read_job
from sentencepiece import SentencePieceProcessor
from translate_loop import measure_translation

COMPUTE_TYPES = {"fp32": "float32", "int8": "int8"}


def main() -> None:
    """Run the job."""
    job = read_job()
    folder = next(Path(job["model"]).rglob("model.bin")).parent
    adds_eos = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("add_source_eos", False)
    src_tokens, tgt_tokens = (SentencePieceProcessor(model_file=path) for path in job["tokenizers"])
    translator = ctranslate2.Translator(
        str(folder),
        compute_type=COMPUTE_TYPES[job["precision"]],
        inter_threads=job["workers"],
        intra_threads=job["threads"],
    )

    def translate(texts: Sequence[str], lengths: Sequence[int] | None) -> tuple[list[str], list[int]]:
        sources = [row if adds_eos else [*row, "</s>"] for row in src_tokens.encode(list(texts), out_type=str)]
        # A single limit per call: nmt's default for the longest source.
        shortest, longest = (lengths[0], lengths[0]) if lengths else (1, 2 * max(map(len, sources)) + 10)
        longest = min(longest, job["max_tgt_len"])
        done = translator.translate_batch(
            sources,
            beam_size=1,
            max_batch_size=job["batch"],
            max_input_length=job["max_src_len"],
            min_decoding_length=shortest,
            max_decoding_length=longest,
            disable_unk=True,
        )
        outputs = [result.hypotheses[0] for result in done]
        return [tgt_tokens.decode(row) for row in outputs], [len(row) + (len(row) < longest) for row in outputs]

    measure_translation(job, translate, ["ctranslate2"])


if __name__ == "__main__":
    main()
