"""A run of the architecture that Marian has, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from nmt.artifacts.checkpoint import save_weights
from nmt.artifacts.run_records import CheckpointIndex
from nmt.artifacts.rundir import RunDir
from nmt.base.special_tokens import EOS_ID
from nmt.config import Config
from nmt.config.tokenizer import TokenizerConfig
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.model.transformer import Transformer
from tests.apps.interop.hf_folders import SYLLABLES, sentences

MODEL = {
    "d_model": 24,
    "num_heads": 3,
    "d_ff": 40,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "norm_position": "post",
    "activation": "silu",
    "output_bias": True,
    "max_src_len": 64,
    "max_tgt_len": 64,
}


def make_run(path: Path, *, joint: bool = True, **model: Any) -> RunDir:
    """Make a run as it stands after training; `model` changes its options."""
    texts = sentences(200, 1), sentences(200, 2, SYLLABLES[4:])
    tokenizer = TokenizerConfig(joint=joint, vocab_size=330)
    tied = {"tied_embeddings": "all" if joint else "target"}
    values = {
        "data": {"src_lang": "en", "tgt_lang": "de", "train": {"src": "a", "tgt": "b"}},
        "tokenizer": tokenizer,
        "model": {**MODEL, **tied, **model},
        "decoding": {"beam_size": 4},
    }
    config = Config.model_validate(values)
    pair = train_tokenizers(tokenizer, lambda: iter(texts[0]), lambda: iter(texts[1]))
    run = RunDir(path)
    pair.save(run.tokenizer)
    torch.manual_seed(3)
    net = Transformer(config.model, pair.src.vocab_size, pair.tgt.vocab_size)
    with torch.no_grad():
        if config.model.output_bias:
            net.output_proj.bias.normal_()
            net.output_proj.bias[EOS_ID] += 2.0
    run.checkpoints.mkdir()
    save_weights(run.checkpoint("last"), dict(net.named_parameters()))
    run.write_json(run.index_file, CheckpointIndex(last="last", best="last", checkpoints={"last": {"bleu": 12.5}}))
    run.write_config(config)
    return run
