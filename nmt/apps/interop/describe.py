"""Describe a model folder: a run, or a Hugging Face folder with a model that nmt imports."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import NamedTuple

from nmt.apps.interop.hf_folder import HfFolder, M2M100Config, model_config
from nmt.apps.interop.m2m100_vocabulary import read_m2m100_vocabularies
from nmt.apps.interop.supported import Toolkit, refuse_unsupported
from nmt.artifacts.find_model import find_run
from nmt.artifacts.packed import PACK_INFO
from nmt.artifacts.run_records import VALID_SCORES
from nmt.artifacts.rundir import RunDir
from nmt.base.checksum import count_parameters
from nmt.base.errors import NmtError
from nmt.config.model import ModelConfig
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.selection import prefers_phrases
from nmt.evaluation.model_card import layers_of, license_of
from nmt.model.shapes import parameter_shapes


class ModelInfo(NamedTuple):
    """Facts about a model folder."""

    path: str
    kind: str
    languages: list[str]  # such as en-de
    megabytes: float  # of the model: weights and tokenizer
    parameters: int
    architecture: str
    vocabulary: dict[str, int]  # number of tokens, by side
    scores: dict[str, float]  # by set and metric, such as "valid bleu"
    verdict: list[str]  # a line for each system on the validation set
    license: str | None
    can_become: dict[str, str | None]  # by command: why not; None if it is possible


def describe_model(model: str | None) -> ModelInfo:
    """Describe the folder `model`, by default the run that `nmt translate` would choose. RunError if it is no model."""
    folder = HfFolder(Path(model or ""))
    is_export = (folder.path / "export.json").is_file()  # find_run says what to give instead
    if model and not is_export and folder.config_file.is_file():
        return _describe_hf(folder)
    run = find_run(model)
    config = run.config()
    weights = run.best_checkpoint()
    tokenizers = TokenizerPair.load(run.tokenizer)
    verdict = run.index().verdict
    return ModelInfo(
        path=str(run.path) if model is None else model,
        kind="packed model" if (run.path / PACK_INFO).is_file() else "run",
        languages=list(map(str, config.data.directions)),
        megabytes=_megabytes(weights, run.tokenizer),
        parameters=count_parameters(weights),
        architecture=_architecture(config.model) + ("; the phrase table translates" if prefers_phrases([run]) else ""),
        vocabulary={name: side.vocab_size for name, side in tokenizers.vocabularies().items()},
        scores=_scores(run, weights.stem),
        verdict=verdict.describe() if verdict is not None and verdict.checkpoint == weights.stem else [],
        license=license_of(run.card),
        can_become={
            "nmt export ctranslate2": _obstacle(run, "CTranslate2"),
            "nmt export hf": _obstacle(run, "transformers"),
        },
    )


def _describe_hf(folder: HfFolder) -> ModelInfo:
    hf = folder.check()
    settings = folder.tokenizer_settings()
    config = model_config(hf)
    shapes = parameter_shapes(config, hf.vocab_size, hf.tgt_vocab_size)
    if isinstance(hf, M2M100Config):
        languages = read_m2m100_vocabularies(folder, hf).languages
    else:
        languages = [f"{settings.source_lang or '?'}-{settings.target_lang or '?'}"]
    return ModelInfo(
        path=str(folder.path),
        kind=f"Hugging Face folder ({hf.name})",
        languages=languages,
        megabytes=_megabytes(
            *folder.weights_files(), *(folder.path / name for name in {*hf.tokenizer_files, "vocab.json"})
        ),
        parameters=sum(map(math.prod, shapes.values())),
        architecture=_architecture(config),
        vocabulary={"source": hf.vocab_size, "target": hf.tgt_vocab_size},
        scores={},
        verdict=[],
        license=license_of(folder.card),
        can_become={"nmt import hf": None},
    )


def _scores(run: RunDir, checkpoint: str) -> dict[str, float]:
    """Return the scores of a checkpoint on the validation set, and on the test set if `nmt eval` saved them."""
    valid = run.index().scores_of(checkpoint)
    scores = {VALID_SCORES.get(name, f"valid {name}"): value for name, value in valid.items() if math.isfinite(value)}
    if evaluation := run.evaluation(checkpoint):
        scores |= {f"test {name}": score.value for name, score in evaluation.scores.items()}
    return scores


def _architecture(model: ModelConfig) -> str:
    return f"{layers_of(model)}, {model.norm_position}-norm, {model.activation}"


def _obstacle(run: RunDir, toolkit: Toolkit) -> str | None:
    """Return the reason why `toolkit` does not support the model of `run`; None if it does."""
    try:
        refuse_unsupported(run.config().model, run.config_file, toolkit)
    except NmtError as error:
        return error.message
    return None


def _megabytes(*paths: Path) -> float:
    files = (file for path in paths for file in ([path] if path.is_file() else path.rglob("*")))
    return round(sum(os.path.getsize(file) for file in files) / 1e6, 3)
