"""Train Hugging Face's MarianMTModel in a plain loop, and save it in the job's folder `save`; prints one JSON line."""

from __future__ import annotations

import torch
from common import PAD, read_job, report
from hf_marian import make_marian
from torch import Tensor
from torch_loop import measure_training


def main() -> None:
    """Run the job."""
    job = read_job()
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    model = make_marian(job, job["attention"])

    def logits_of(src: Tensor, tgt_in: Tensor) -> Tensor:
        mask = (src != PAD).long()
        return model(input_ids=src, attention_mask=mask, decoder_input_ids=tgt_in, use_cache=False).logits

    result = measure_training(model, logits_of, job)
    if job.get("save"):
        model.float().save_pretrained(job["save"])
    report(["torch", "transformers"], **result)


if __name__ == "__main__":
    main()
