"""Export a run to CTranslate2: write the folder, prove that it translates like the run, rename it into place."""

from __future__ import annotations

import importlib.metadata
import logging
import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nmt import __version__
from nmt.apps.interop.agreement import (
    NUM_SENTENCES,
    compare,
    describe,
    explain_differences,
    require_agreement,
)
from nmt.apps.interop.ctranslate2 import write_ctranslate2
from nmt.apps.interop.ctranslate2_engine import CTranslate2Engine
from nmt.apps.interop.export_folder import (
    ExportInfo,
    Quantization,
    new_or_replaced,
    refuse_existing_export,
    write_export_info,
)
from nmt.apps.interop.supported import refuse_for_ctranslate2
from nmt.artifacts.checkpoint import load_model
from nmt.artifacts.rundir import DirectedPairs, RunDir
from nmt.base.errors import RunError, counted, require
from nmt.base.special_tokens import EOS_ID
from nmt.config import Config, SearchOptions
from nmt.data.text.tags import language_prefix
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.evaluation import score_sets
from nmt.translation import LanguagePair, Translator

log = logging.getLogger(__name__)

LOSS_WARNED_OF = 0.5  # BLEU

_MAX_RANDOM_TOKENS = 30


def export_ctranslate2(
    run: RunDir, out: Path, *, quantization: Quantization = "none", overwrite: bool = False
) -> ExportInfo:
    """Export the best model of `run` to the folder `out`, which appears only after the export was found to agree.

    NmtError if CTranslate2 is not installed; RunError if it cannot run such a model, if `out` exists and may not be
    replaced, if the run has no sentences to check the export with, or if the export does not agree.
    """
    require("ctranslate2", "ctranslate2", "this export")
    config = run.config()
    refuse_for_ctranslate2(config.model, run.config_file)
    with new_or_replaced(out, refuse_existing_export, overwrite=overwrite) as folder:
        tokenizers = TokenizerPair.load(run.tokenizer)
        model = load_model(run, tokenizers, torch.device("cpu"))
        write_ctranslate2(model, tokenizers, folder, quantization)
        tokenizers.save(folder / "tokenizer")
        if run.card.is_file():
            shutil.copyfile(run.card, folder / "README.md")
        engines = TorchEngine([model], tokenizers), CTranslate2Engine(folder, config.model, tokenizers)
        info = ExportInfo(
            quantization=quantization,
            directions=tuple(map(str, config.data.directions)),
            max_src_len=config.model.max_src_len,
            max_tgt_len=config.model.max_tgt_len,
            origin={
                "run": run.path.resolve().name,
                "checkpoint": run.usable_checkpoint().stem,
                "nmt": __version__,
                "ctranslate2": importlib.metadata.version("ctranslate2"),
            },
            agreement=_check(run, config, tokenizers, engines, quantization),
        )
        write_export_info(folder, info)
    return info


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
    agreement: dict[str, Any] = {"compute_type": engines[1].precision, **found.as_json()}  # of this machine
    require_agreement(found, reduced=quantization != "none")
    if quantization != "none":
        _tell_precision(quantization, engines[1].precision)
    if not run.data.is_dir():
        log.warning("this model was imported or packed and has no test set to measure its BLEU on")
        return agreement
    sets = run.read_sets("test", config.data.directions[0])
    num_sentences = sum(len(each.sources) for each in sets)
    log.info(f"translating the test set both ways ({counted(num_sentences, 'sentence')}) …")
    options = _supported_options(config.decoding)
    languages, statistics = LanguagePair.from_config(config), run.statistics()
    translators = [Translator(tokenizers, engine, languages, options, statistics) for engine in engines]
    before, after = (score_sets(sets, partial(_translate, each), ["bleu"]).mean[0] for each in translators)
    difference = after.value - before.value
    log.info(
        f"BLEU on the test set: {before.value:.2f} in the run, {after.value:.2f} in the export ({difference:+.2f})"
    )
    if reason := explain_differences(found, before.value):
        log.info(reason)
    if difference < -LOSS_WARNED_OF:
        log.warning("this precision costs a lot of quality; int16, float16 or none may cost less")
    bleu = {"run": round(before.value, 2), "export": round(after.value, 2), "difference": round(difference, 2)}
    return {**agreement, "bleu": {"sentences": num_sentences, **bleu, "signature": before.signature}}


def _translate(translator: Translator, each: DirectedPairs) -> list[str]:
    translations = translator.translate(each.sources, to=each.direction.tgt, from_=each.direction.src)
    return [translation.text for translation in translations]


def _supported_options(decoding: SearchOptions) -> SearchOptions:
    """Return the run's search options, as far as CTranslate2 supports them."""
    if decoding.sample or decoding.rerank != "none":
        return decoding.greedy().changed(shortlist=False)
    return decoding.changed(exact=False, shortlist=False, num_hypotheses=1)


def _tell_precision(quantization: Quantization, computed: str) -> None:
    """Log the precision on this machine; warn if it is not the requested one, because CTranslate2 does not warn."""
    log.info(f"CTranslate2 computes {quantization} weights in {computed} on this processor")
    if computed == quantization or (quantization == "int8" and computed == "int8_float32"):
        return
    import ctranslate2

    supported = ", ".join(sorted(ctranslate2.get_supported_compute_types("cpu")))
    log.warning(
        f"this processor cannot compute in {quantization}: the agreement and the BLEU below are those of {computed} "
        f"(it supports {supported})"
    )


def _sources(run: RunDir, config: Config, tokenizers: TokenizerPair) -> list[list[int]]:
    """Return the tokens of `_sentences`, or random tokens for an imported run, which has no sentences."""
    if run.data.is_dir():
        return [tokenizers.src.encode(text) for text in _sentences(run, config)]
    draw = random.Random(1)
    ids = [i for i in range(EOS_ID + 1, tokenizers.src.vocab_size) if i not in tokenizers.src.never_generated]
    return [draw.choices(ids, k=draw.randint(1, _MAX_RANDOM_TOKENS)) for _ in range(NUM_SENTENCES)]


def _sentences(run: RunDir, config: Config) -> list[str]:
    """Return the first `NUM_SENTENCES` distinct sources of the run's test set, then of its validation set, tagged."""
    sets = [each for split in ("test", "valid") for each in run.read_sets(split, config.data.directions[0])]
    texts = [language_prefix(config, each.direction) + text for each in sets for text in each.sources if text.strip()]
    if not texts:
        raise RunError("this run has no test or validation sentences to check the export with", path=run.data)
    return list(dict.fromkeys(texts))[:NUM_SENTENCES]
