"""Suggest a configuration for a corpus, as YAML with comments, and describe one in a line."""

from __future__ import annotations

import logging
import shlex
from itertools import islice

from nmt.apps.recipes.presets import reason_for, suggest_config
from nmt.base.errors import DataError, counted, in_words
from nmt.config import Config, DataConfig, ModelConfig, TokenizerConfig, dump_config
from nmt.config.corpora import DATA_SETS, ParallelFiles

log = logging.getLogger(__name__)

MIN_PAIRS = 100
SAMPLE_PAIRS = 10_000  # to try the filters on


def suggestion(data: DataConfig, name: str, *, student: bool = False, for_hf: bool = False) -> str:
    """Return the suggested configuration for `data` as commented YAML, with the file name `name` in its header.

    `for_hf`: the model becomes the nearest one that transformers has: of Pegasus or, with two embeddings, of Marian.
    """
    num_pairs, num_blank = count_pairs(data.corpora("train"))
    if num_pairs < MIN_PAIRS:
        log.warning(f"only {counted(num_pairs, 'sentence pair')}: enough to try things out, not to learn a language")
    _warn_of_filters(data)
    config = usual = suggest_config(num_pairs, data, student=student)
    if for_hf:
        norms = "pre" if usual.model.tied_embeddings == "all" else "post"
        changes = {"positions": "sinusoidal", "qk_norm": False, "norm_position": norms}
        config = usual.model_copy(update={"model": usual.model.model_copy(update=changes)})
    header = _header(config, name, num_pairs, num_blank)
    if config.model != usual.model:
        lost = "no rotary positions, no norms of queries and keys: 0.8 BLEU less on Multi30k"
        header += f"\nFor nmt export hf: {lost if usual.model.qk_norm else 'post-norm'}."
    return dump_config(config, comments=True, header=header)


def count_pairs(corpora: tuple[ParallelFiles, ...]) -> tuple[int, int]:
    """Count the pairs with text on both sides, and the other rows. Raises `DataError` if no pair has both."""
    from nmt.data.read.pairs import paths_of, read_parallel

    num_rows = num_pairs = 0
    for pair in read_parallel(corpora):
        num_rows += 1
        num_pairs += bool(pair.src and pair.tgt)
    if num_pairs == 0:
        raise DataError("no row has text on both sides", path=paths_of(corpora)[0])
    return num_pairs, num_rows - num_pairs


def _warn_of_filters(data: DataConfig) -> None:
    """Log a warning about each filter that drops many of the first pairs."""
    from nmt.data.check.profile import expect
    from nmt.data.check.stream import DroppedRows
    from nmt.data.check.summary import warn_of_losses
    from nmt.data.read.pairs import read_parallel

    corpora = data.corpora("train")
    first = list(islice(read_parallel(corpora, data.characters), SAMPLE_PAIRS))
    warn_of_losses(DroppedRows.find(first, expect(data, lambda: first)), corpora)


def _header(config: Config, name: str, num_pairs: int, num_blank: int) -> str:
    from nmt.data.read.pairs import paths_of

    training, directions = config.training, config.data.directions
    files = [str(path) for path in paths_of(config.data.corpora("train"))]
    blank = f" (rows with an empty side, not counted: {num_blank:,})" if num_blank else ""
    several = f" for {in_words(list(map(str, directions)))}" if len(directions) > 1 else ""
    first = ""
    if training.stages:
        copies = training.stages[0].copy_targets
        how = "on copies of the targets" if copies else "in both directions: Ding et al. 2021"
        first = f" (the first {training.stages[0].max_updates:,} {how})"
    return "\n".join(
        (
            f"Train with: nmt train --config {shlex.quote(name)}",
            f"Found {num_pairs:,} sentence pairs{several}{blank} in {in_words(files)}.",
            f"Suggested: {_layers(config.model)},",
            f"{_vocabulary(config.tokenizer)}, dropout {config.model.dropout},",
            f"{training.max_updates:,} updates{first}, a validation every {training.validate_every:,}.",
            f"Why: {reason_for(config, num_pairs)}.",
            f"Filters: rules that hardly ever drop a good pair; see nmt data check --config {shlex.quote(name)}",
        )
    )


def _layers(model: ModelConfig) -> str:
    layers = f"{model.encoder_layers}+{model.decoder_layers} layers"
    positions = f", {model.positions} positions" if model.positions != "sinusoidal" else ""
    norms = ", norms of queries and keys" if model.qk_norm else ""
    return f"d_model {model.d_model}, d_ff {model.d_ff}, {layers}, {model.num_heads} heads{positions}{norms}"


def _vocabulary(tokenizer: TokenizerConfig) -> str:
    if tokenizer.path is not None:
        return f"the vocabulary of {tokenizer.path}"
    return f"{'one vocabulary' if tokenizer.joint else 'two vocabularies'} of {tokenizer.vocab_size:,} tokens"


def summary(config: Config) -> str:
    """Return the languages, sizes and updates of a configuration in one line."""
    base, data = config.training.init_from, config.data
    vocabulary = f"the vocabulary of {base}" if base else _vocabulary(config.tokenizer)
    sizes = f"{_layers(config.model)}, {vocabulary}"
    held_out = [name for name in DATA_SETS if not data.corpora(name)]
    holdout = f"; {' and '.join(held_out)} held out from train" if held_out else ""
    languages = ", ".join(f"{direction.src} to {direction.tgt}" for direction in data.directions)
    return f"{languages}, {sizes}, {config.training.max_updates:,} updates{holdout}"
