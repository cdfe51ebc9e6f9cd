"""Translate with Hugging Face's MarianMTModel.generate; prints one JSON line.

Marian is post-norm, so it cannot use nmt's weights. Without a model of its own in the job's folder, its weights are
random, and its outputs are forced to the lengths of nmt's: each batch runs to its longest length, as it would with the
same weights, and only the tokens within these lengths count. Without lengths, each output ends at eos.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from common import EOS, PAD, read_job
from hf_marian import make_marian
from sentencepiece import SentencePieceProcessor
from torch_loop import pad_rows
from transformers import MarianMTModel
from translate_loop import measure_translation


def main() -> None:
    """Run the job."""
    job = read_job()
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    folder = Path(job["scratch"]) / "model"
    if not folder.exists():
        make_marian(job, "sdpa").save_pretrained(folder)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[job["precision"]]
    model = MarianMTModel.from_pretrained(folder, dtype=dtype).eval()
    src_tokens, tgt_tokens = (SentencePieceProcessor(model_file=path) for path in job["tokenizers"])

    @torch.inference_mode()
    def translate(texts: Sequence[str], lengths: Sequence[int] | None) -> tuple[list[str], list[int]]:
        rows = [[*row, EOS] for row in src_tokens.encode(list(texts), out_type=int)]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        outputs: dict[int, list[int]] = {}
        for start in range(0, len(order), job["batch"]):
            batch = order[start : start + job["batch"]]
            src = pad_rows([rows[i] for i in batch])
            longest = max(lengths[i] for i in batch) if lengths else 2 * src.size(1) + 10
            ids = model.generate(
                input_ids=src,
                attention_mask=(src != PAD).long(),
                num_beams=job.get("beams", 1),
                do_sample=False,
                min_new_tokens=longest if lengths else 0,
                max_new_tokens=longest,
            )
            outputs |= dict(zip(batch, (row[1:] for row in ids.tolist()), strict=True))
        counts = list(lengths or (until_eos(outputs[i]) for i in range(len(rows))))
        return tgt_tokens.decode([outputs[i][:count] for i, count in enumerate(counts)]), counts

    measure_translation(job, translate, ["torch", "transformers"])


def until_eos(row: list[int]) -> int:
    """Return the number of tokens up to and including eos, or all."""
    return row.index(EOS) + 1 if EOS in row else len(row)


if __name__ == "__main__":
    main()
