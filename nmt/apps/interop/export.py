"""Export a run to a folder for deployment: write it, check it against the run, rename it into place."""

from __future__ import annotations

import logging
import random
import shutil
from pathlib import Path
from typing import Any

import torch

from nmt import __version__
from nmt.apps.interop.agreement import (
    NUM_SENTENCES,
    compare,
    describe,
    explain_differences,
    measure_loss,
    require_agreement,
)
from nmt.apps.interop.ctranslate2 import require_ctranslate2, write_ctranslate2
from nmt.apps.interop.supported import refuse_for_ctranslate2
from nmt.artifacts.checkpoint import load_model
from nmt.artifacts.exportdir import ExportInfo, Quantization, new_export
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError, counted
from nmt.base.special_tokens import EOS_ID
from nmt.config import Config
from nmt.data.text.tags import language_prefix
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.ctranslate2_engine import CTranslate2Engine
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.translation import LanguagePair, Translator

log = logging.getLogger(__name__)

LOSS_WARNED_OF = 0.5  # BLEU

_MAX_RANDOM_TOKENS = 30


def export_ctranslate2(
    run: RunDir, out: Path, *, quantization: Quantization = "none", overwrite: bool = False
) -> ExportInfo:
    """Export the best model of `run` to the folder `out`, which appears only after the export was found to agree.

    RunError if CTranslate2 is not installed or cannot run such a model, if `out` exists and may not be replaced, if the
    run has no sentences to check the export with, or if the export does not agree.
    """
    require_ctranslate2()
    config = run.config()
    refuse_for_ctranslate2(config.model, run.config_file)
    with new_export(out, overwrite=overwrite) as export:
        tokenizers = TokenizerPair.load(run.tokenizer)
        model = load_model(run, tokenizers, torch.device("cpu"))
        write_ctranslate2(model, tokenizers, export.path, quantization)
        tokenizers.save(export.tokenizer)
        if run.card.is_file():
            shutil.copyfile(run.card, export.card)
        info = _describe_export(run, config, quantization)
        engines = TorchEngine([model], tokenizers), CTranslate2Engine(export, info, tokenizers, "cpu", scores=False)
        agreement = _check(run, config, tokenizers, engines, quantization)
        info = info.model_copy(update={"agreement": agreement, "files": export.mark_files()})
        export.write_info(info)
        export.check_files(export.info())
    return info


def _describe_export(run: RunDir, config: Config, quantization: Quantization) -> ExportInfo:
    """Return the contents of export.json, without the agreement and the files."""
    import ctranslate2

    decoding = config.decoding
    if decoding.exact:
        log.warning("CTranslate2 has no exact beam search: decoding.exact is off in the export")
        decoding = decoding.model_copy(update={"exact": False})
    if decoding.shortlist:
        log.warning("CTranslate2 does not support the shortlists of runs: decoding.shortlist is off in the export")
        decoding = decoding.model_copy(update={"shortlist": False})
    languages = LanguagePair.of(config)
    return ExportInfo(
        quantization=quantization,
        src_lang=languages.src,
        tgt_lang=languages.tgt,
        user_symbols=tuple(languages.user_symbols),
        directions=languages.directions,
        language_tags=languages.language_tags,
        max_src_len=config.model.max_src_len,
        max_tgt_len=config.model.max_tgt_len,
        decoding=decoding,
        statistics=run.statistics(),
        origin={
            "run": run.path.resolve().name,
            "checkpoint": run.best_checkpoint().stem,
            "nmt": __version__,
            "ctranslate2": ctranslate2.__version__,
        },
        agreement={},
        files={},
    )


def _check(
    run: RunDir,
    config: Config,
    tokenizers: TokenizerPair,
    engines: tuple[TorchEngine, CTranslate2Engine],
    quantization: Quantization,
) -> dict[str, Any]:
    """Compare both engines, log the result, and return its record for export.json.

    RunError if an fp32 export does not agree. In another precision, measure the difference in BLEU on the run's test
    set.
    """
    limit = config.model.max_src_len - 1
    found = compare(*engines, [ids[:limit] for ids in _sources(run, config, tokenizers)])
    log.info(describe(found))
    agreement: dict[str, Any] = {"compute_type": engines[1].precision, **found.as_json()}  # of this machine
    require_agreement(found, reduced=quantization != "none")
    if quantization == "none":
        return agreement
    _tell_precision(quantization, engines[1].precision)
    if not run.data.is_dir():
        log.warning(
            "this model was imported or packed and has no test set: measure the cost of this precision with `nmt eval`"
        )
        return agreement
    sets = run.read_sets("test", config.data.directions[0])
    log.info(f"translating the test set both ways ({counted(sum(len(each.sources) for each in sets), 'sentence')}) …")
    options = engines[1].info.decoding  # the run's, as far as the export supports them
    languages, statistics = LanguagePair.of(config), run.statistics()
    both = [Translator(tokenizers, engine, languages, options, statistics) for engine in engines]
    loss = measure_loss(both[0], both[1], sets)
    log.info(
        f"BLEU on the test set: {loss.run:.2f} in the run, {loss.export:.2f} in the export ({loss.difference:+.2f})"
    )
    if reason := explain_differences(found, loss):
        log.info(reason)
    if loss.difference < -LOSS_WARNED_OF:
        log.warning("this precision costs a lot of quality; int16, float16 or none may cost less")
    return {**agreement, "bleu": loss.as_json()}


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
