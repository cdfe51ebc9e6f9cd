"""OpenNMT-py's configuration and vocabulary for the workload. Its words are our token ids, so it does not tokenize."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write_vocabulary(job: dict[str, Any]) -> Path:
    """Write a folder with the vocabulary that both sides share."""
    folder = Path(job["scratch"])
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{i}\t100\n" for i in range(4, job["vocab_size"]))
    (folder / "vocabulary.txt").write_text(text, encoding="utf-8")
    return folder


def configuration(job: dict[str, Any], folder: Path, updates: int) -> dict[str, Any]:
    """Return OpenNMT-py's configuration for the model and batches of every other system."""
    workload, vocabulary = Path(job["workload"]), str(folder / "vocabulary.txt")

    def corpus(split: str) -> dict[str, str]:
        return {"path_src": str(workload / f"{split}.src.ids"), "path_tgt": str(workload / f"{split}.tgt.ids")}

    return {
        "save_data": str(folder / "data"),
        "save_model": str(folder / "model"),
        "overwrite": True,
        "seed": 1,
        "report_every": 2,
        "src_vocab": vocabulary,
        "tgt_vocab": vocabulary,
        "src_vocab_size": job["vocab_size"],
        "tgt_vocab_size": job["vocab_size"],
        "vocab_size_multiple": 1,
        "share_vocab": True,
        "n_sample": 0,
        "data": {"corpus": corpus("train"), "valid": corpus("valid")},
        "train_steps": updates,
        "save_checkpoint_steps": updates,
        "valid_steps": 10_000_000,
        "keep_checkpoint": 1,
        "batch_type": "tokens",
        "batch_size": job["batch_tokens"],
        "accum_count": [1],
        "accum_steps": [0],
        "bucket_size": 262_144 if updates > 10 else 1000,
        "num_workers": 0,
        "model_dtype": "fp32",
        "optim": "adam",
        "adam_beta2": 0.98,
        "learning_rate": 2.0,
        "warmup_steps": 400,
        "decay_method": "noam",
        "dropout": [job["dropout"]],
        "dropout_steps": [0],
        "attention_dropout": [0.0],
        "max_grad_norm": 1.0,
        "label_smoothing": job["label_smoothing"],
        "normalization": "tokens",
        "param_init": 0,
        "param_init_glorot": True,
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "hidden_size": job["d_model"],
        "word_vec_size": job["d_model"],
        "transformer_ff": job["d_ff"],
        "enc_layers": job["layers"],
        "dec_layers": job["layers"],
        "heads": job["num_heads"],
        "share_decoder_embeddings": True,
        "share_embeddings": True,
    }
