"""Joey NMT's configuration and vocabulary for the workload. Its words are our token ids, so it does not tokenize."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from common import BOS, EOS, PAD, UNK


def write_data(job: dict[str, Any]) -> Path:
    """Write a folder with the ids of every split, under the names that Joey NMT expects, and the vocabulary."""
    workload, folder = Path(job["workload"]), Path(job["scratch"])
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "valid", "test"):
        for side in ("src", "tgt"):
            shutil.copyfile(workload / f"{split}.{side}.ids", folder / f"{split}.{side}")
    ids = "".join(f"{i}\n" for i in range(4, job["vocab_size"]))
    (folder / "vocabulary.txt").write_text(ids, encoding="utf-8")
    return folder


def configuration(job: dict[str, Any], folder: Path, updates: int) -> dict[str, Any]:
    """Return Joey NMT's configuration for the model and batches of every other system."""

    def side(lang: str) -> dict[str, Any]:
        words = {"level": "word", "max_length": 100, "tokenizer_cfg": {"pretokenizer": "none"}}
        return {"lang": lang, "voc_file": str(folder / "vocabulary.txt"), **words}

    stack = {
        "type": "transformer",
        "num_layers": job["layers"],
        "num_heads": job["num_heads"],
        "hidden_size": job["d_model"],
        "ff_size": job["d_ff"],
        "dropout": job["dropout"],
        "layer_norm": "pre",
        "embeddings": {"embedding_dim": job["d_model"], "scale": True, "dropout": job["dropout"]},
    }
    special_symbols = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    return {
        "name": "bench",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": 1,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "valid"),
            "test": str(folder / "test"),
            "dataset_type": "plain",
            "src": side("src"),
            "trg": side("tgt"),
            "special_symbols": {**special_symbols, "unk_id": UNK, "pad_id": PAD, "bos_id": BOS, "eos_id": EOS},
        },
        "testing": {"n_best": 1, "beam_size": 1, "batch_size": 64, "batch_type": "sentence", "eval_metrics": ["bleu"]},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "normalization": "tokens",
            "scheduling": "warmupinversesquareroot",
            "learning_rate": 0.001,
            "learning_rate_warmup": 400,
            "learning_rate_min": 1e-9,
            "clip_grad_norm": 1.0,
            "label_smoothing": job["label_smoothing"],
            "loss": "crossentropy",
            "batch_size": job["batch_tokens"],
            "batch_type": "token",
            "early_stopping_metric": "loss",
            "epochs": 100_000,
            "updates": updates,
            "validation_freq": 10_000_000 if updates > 10 else updates,
            "logging_freq": 1,
            "overwrite": True,
            "shuffle": True,
            "keep_best_ckpts": 1,
        },
        "model": {
            "initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": stack,
            "decoder": stack,
        },
    }
