"""A run that was imported computes as its Hugging Face folder does."""

from __future__ import annotations

import random
from typing import Any

import torch

from nmt.apps.interop.hf_vocabulary import HfVocabularies
from nmt.artifacts.checkpoint import load_model
from nmt.artifacts.rundir import RunDir
from nmt.base.special_tokens import BOS_ID, EOS_ID
from tests.apps.interop.hf_folders import sentences


def assert_logits_agree(run: RunDir, vocabularies: HfVocabularies, their_model: Any, their_tokenizer: Any) -> None:
    """Compare the logits of 30 sentences of several lengths with those of `their_model`."""
    model = load_model(run, vocabularies.tokenizers, torch.device("cpu"))
    src, tgt = vocabularies.src, vocabularies.tgt
    texts = sentences(30, 5)
    theirs = their_tokenizer(texts, return_tensors="pt", padding=True)
    own_of = {row: number for number, row in reversed([*enumerate(src.rows)])}
    own_of[their_model.config.eos_token_id] = EOS_ID  # M2M-100's row of bos holds it, too
    own_src = torch.tensor([[own_of[number] for number in row] for row in theirs["input_ids"].tolist()])
    draw = random.Random(1)
    usual = [number for number in range(EOS_ID + 1, len(tgt.rows)) if number not in tgt.muted]
    tgt_in = torch.tensor([[BOS_ID, *draw.choices(usual, k=11)] for _ in texts])
    rows = torch.tensor(tgt.rows)
    with torch.inference_mode():
        expected = their_model(**theirs, decoder_input_ids=rows[tgt_in]).logits
        logits = model(own_src, tgt_in)
    kept = [number for number in range(len(rows)) if number not in tgt.muted]
    assert (logits[..., kept] - expected[..., rows[kept]]).abs().max() < 1e-4
    assert expected.abs().max() > 2  # not all equal
    # Muted ids have no share of the probability.
    assert (logits.logsumexp(-1) - expected.logsumexp(-1)).abs().max() < 1e-4
