"""Export a run to CTranslate2: write the folder, prove that it translates like the run, rename it into place."""

from __future__ import annotations

import importlib.metadata
import logging
import random
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nmt import __version__
from nmt.apps.interop.agreement import NUM_SENTENCES, compare, describe, require_agreement
from nmt.apps.interop.ctranslate2 import write_ctranslate2
from nmt.apps.interop.ctranslate2_engine import CTranslate2Engine
from nmt.apps.interop.export_folder import Quantization, refuse_existing_export
from nmt.apps.interop.supported import refuse_unsupported
from nmt.artifacts.checkpoint import load_model
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError, counted, require
from nmt.base.files import new_folder, to_json, write_text
from nmt.base.special_tokens import EOS_ID
from nmt.config import Config
from nmt.data.text.tags import language_prefix
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.evaluation import score_sets
from nmt.evaluation.model_card import share_card
from nmt.evaluation.scores import MetricScore
from nmt.evaluation.test_sets import on_lines, translate_set
from nmt.model.positions import sinusoidal_positions
from nmt.translation import LanguagePair, Translator

log = logging.getLogger(__name__)

LOSS_WARNED_OF = 0.5  # BLEU

_MAX_RANDOM_TOKENS = 30


def export_ctranslate2(
    run: RunDir, out: Path, *, quantization: Quantization = "none", overwrite: bool = False, num_positions: int = 0
) -> None:
    """Export the best model of `run` to the folder `out`, which appears only after the export was found to agree.

    A table of sinusoids has at least `num_positions`.
    NmtError if CTranslate2 is not installed; RunError if it cannot run such a model, if `out` exists and may not be
    replaced, if the run has no sentences to check the export with, or if the export does not agree.
    """
    require("ctranslate2", "ctranslate2", "this export")
    config = run.config()
    refuse_unsupported(config.model, run.config_file, "CTranslate2")
    with new_folder(out, replace=partial(refuse_existing_export, overwrite=overwrite)) as folder:
        tokenizers = TokenizerPair.load(run.tokenizer)
        model = load_model(run, tokenizers, torch.device("cpu"))
        for embedding in (model.src_embedding, model.tgt_embedding):
            if embedding.sinusoidal is not None and len(embedding.sinusoidal) < num_positions:
                embedding.sinusoidal = sinusoidal_positions(num_positions, config.model.d_model)
        write_ctranslate2(model, tokenizers, folder, quantization)
        tokenizers.save(folder / "tokenizer")
        if run.card.is_file():
            name = run.path.resolve().name
            write_text(folder / "README.md", share_card(run, config, name, name))
        engines = TorchEngine([model], tokenizers), CTranslate2Engine(folder, model, tokenizers)
        info = {
            "format": 1,
            "engine": "ctranslate2",
            "quantization": quantization,
            "directions": list(map(str, config.data.directions)),
            "max_src_len": config.model.max_src_len,
            "max_tgt_len": config.model.max_tgt_len,
            "origin": {
                "run": run.path.resolve().name,
                "checkpoint": run.usable_checkpoint().stem,
                "nmt": __version__,
                "ctranslate2": importlib.metadata.version("ctranslate2"),
            },
            "agreement": _check(run, config, tokenizers, engines, quantization),
        }
        write_text(folder / "export.json", to_json(info, indent=2) + "\n")


def _check(
    run: RunDir,
    config: Config,
    tokenizers: TokenizerPair,
    engines: tuple[TorchEngine, CTranslate2Engine],
    quantization: Quantization,
) -> dict[str, Any]:
    """Compare both engines, also in BLEU on the run's test set, log the result, and return its record for export.json.

    RunError if an fp32 export does not agree.
    """
    limit = config.model.max_src_len - 1
    found = compare(*engines, [ids[:limit] for ids in _sources(run, config, tokenizers)])
    log.info(describe(found))
    agreement: dict[str, Any] = {"compute_type": engines[1].precision, **asdict(found)}  # of this machine
    agreement["largest_score_difference"] = round(found.largest_score_difference, 7)
    require_agreement(found, reduced=quantization != "none")
    if quantization != "none":
        log.info(f"CTranslate2 computes {quantization} weights in {engines[1].precision} on this processor")
    if not run.data.is_dir():
        log.warning("this model was imported or packed and has no test set to measure its BLEU on")
        return agreement
    sets = run.read_sets("test", config.data.directions[0])
    num_sentences = sum(len(each.sources) for each in sets)
    log.info(f"translating the test set both ways ({counted(num_sentences, 'sentence')}) …")
    options = config.decoding.changed(shortlist=False, num_hypotheses=1)
    if options.sample or options.rerank != "none":  # CTranslate2 has no such search
        options = options.greedy()
    languages = LanguagePair.from_config(config)
    statistics = run.statistics()
    translators = [Translator(tokenizers, engine, languages, options, statistics) for engine in engines]

    def score(translator: Translator) -> MetricScore:
        return score_sets(sets, lambda pairs: on_lines(translate_set(translator, pairs)), ["bleu"]).mean[0]

    before, after = map(score, translators)
    difference = after.value - before.value
    log.info(
        f"BLEU on the test set: {before.value:.2f} in the run, {after.value:.2f} in the export ({difference:+.2f})"
    )
    if difference < -LOSS_WARNED_OF:
        log.warning("this precision costs a lot of quality; int16, float16 or none may cost less")
    bleu = {"run": round(before.value, 2), "export": round(after.value, 2), "difference": round(difference, 2)}
    return {**agreement, "bleu": {"sentences": num_sentences, **bleu, "signature": before.signature}}


def _sources(run: RunDir, config: Config, tokenizers: TokenizerPair) -> list[list[int]]:
    """Return the first `NUM_SENTENCES` distinct sources of the run's test set, then of its validation set, tagged.

    An imported run has no sentences, and gets random tokens. RunError if another run has none.
    """
    if not run.data.is_dir():
        rng = random.Random(1)
        ids = [i for i in range(EOS_ID + 1, tokenizers.src.vocab_size) if i not in tokenizers.src.never_generated]
        return [rng.choices(ids, k=rng.randint(1, _MAX_RANDOM_TOKENS)) for _ in range(NUM_SENTENCES)]
    sets = [each for split in ("test", "valid") for each in run.read_sets(split, config.data.directions[0])]
    texts = [language_prefix(config, each.direction) + text for each in sets for text in each.sources if text.strip()]
    if not texts:
        raise RunError("this run has no test or validation sentences to check the export with", path=run.data)
    return [tokenizers.src.encode(text) for text in list(dict.fromkeys(texts))[:NUM_SENTENCES]]
