"""Translate with Hugging Face's MarianMTModel.generate; prints one JSON line.

Marian is post-norm, so it cannot use nmt's weights. Its weights are random, and its outputs are forced to the lengths
of nmt's: each batch runs to its longest length, as it would with the same weights, and only the tokens within these
lengths count.
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
        assert lengths is not None
        rows = [[*row, EOS] for row in src_tokens.encode(list(texts), out_type=int)]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        outputs: dict[int, str] = {}
        for start in range(0, len(order), job["batch"]):
            batch = order[start : start + job["batch"]]
            src = pad_rows([rows[i] for i in batch])
            longest = max(lengths[i] for i in batch)
            ids = model.generate(
                input_ids=src,
                attention_mask=(src != PAD).long(),
                num_beams=1,
                do_sample=False,
                min_new_tokens=longest,
                max_new_tokens=longest,
            )
            texts_out = tgt_tokens.decode([row[1 : lengths[i] + 1] for i, row in zip(batch, ids.tolist(), strict=True)])
            outputs |= dict(zip(batch, texts_out, strict=True))
        return [outputs[i] for i in range(len(rows))], list(lengths)

    measure_translation(job, translate, ["torch", "transformers"])


if __name__ == "__main__":
    main()
