"""Suggest a configuration for a corpus, as YAML with comments, and describe one in a line."""

from __future__ import annotations

import logging
import shlex
import timeit
from collections.abc import Iterator
from itertools import chain
from math import prod
from typing import Literal

from nmt.apps.recipes.presets import reason_for, suggest_config
from nmt.base.errors import DataError, counted, in_words
from nmt.base.machine import num_cores
from nmt.config import Config, DataConfig, ModelConfig, TokenizerConfig, dump_config
from nmt.config.corpora import DATA_SETS
from nmt.data.read.pairs import SentencePair, paths_of, read_parallel
from nmt.evaluation.model_card import direction_names, layers_of
from nmt.model.shapes import parameter_shapes

log = logging.getLogger(__name__)

MIN_PAIRS = 100
_MATRIX = 512  # rows and columns of a product of 0.3 billion operations, a millisecond
_TRIALS = 20  # the best of so short ones is hardly disturbed by other programs
_EFFICIENCY = 0.6  # of training, compared to a large product; small models reach less


def suggestion(data: DataConfig, name: str, *, student: bool = False, for_hf: bool = False) -> str:
    """Return the suggested configuration for `data` as commented YAML, with the file name `name` in its header.

    `for_hf`: the model becomes the nearest one that transformers has: of Pegasus or, with two embeddings, of Marian.
    """
    num_pairs, num_dropped, num_blank = count_pairs(data)
    if num_pairs < MIN_PAIRS:
        log.warning(f"only {counted(num_pairs, 'sentence pair')}: enough to try things out, not to learn a language")
    config = usual = suggest_config(num_pairs, data, student=student)
    if for_hf:
        norms = "pre" if usual.model.tied_embeddings == "all" else "post"
        changes = {"positions": "sinusoidal", "qk_norm": False, "norm_position": norms}
        config = usual.model_copy(update={"model": usual.model.model_copy(update=changes)})
    header = _header(config, name, num_pairs, num_dropped, num_blank)
    if config.model != usual.model:
        lost = "no rotary positions, no norms of queries and keys: 0.8 BLEU less on Multi30k"
        header += f"\nFor nmt export hf: {lost if usual.model.qk_norm else 'post-norm'}."
    return dump_config(config, comments=True, header=header)


def count_pairs(data: DataConfig) -> tuple[int, int, int]:
    """Count the training pairs of `data` that its filters keep, those that they drop, and rows with an empty side.

    Log a warning about each filter that drops many; if they drop all pairs, count all as kept. DataError if no pair has
    text on both sides.
    """
    from nmt.data.check.profile import expect
    from nmt.data.check.stream import DroppedRows
    from nmt.data.check.summary import warn_of_losses

    def read(name: Literal["train", "valid", "test"]) -> Iterator[SentencePair]:
        return read_parallel(data.corpora(name), data.characters)

    corpora = data.corpora("train")
    held_out = chain(read("valid"), read("test"))
    rows = DroppedRows.find(read("train"), expect(data, lambda: read("train"), held_out), workers=num_cores())
    if not rows.num_kept + len(rows):
        raise DataError("no row has text on both sides", path=paths_of(corpora)[0])
    warn_of_losses(rows, corpora)
    num_blank = len(rows.states) - rows.num_kept - len(rows)
    return (rows.num_kept, len(rows), num_blank) if rows.num_kept else (len(rows), 0, num_blank)


def minutes(config: Config) -> float:
    """Estimate how long the updates take on the processor of this machine, from the speed of a matrix product."""
    import numpy as np

    training = config.training
    size = config.tokenizer.vocab_size
    model = config.model.model_copy(update={"tied_embeddings": "all"})  # to look up an embedding costs nothing
    weights = sum(map(prod, parameter_shapes(model, size, size).values()))
    batch_tokens = 0 if training.batch_tokens == "auto" else training.batch_tokens
    num_tokens = max(training.tokens_per_update, batch_tokens)  # of an update
    matrix = np.ones((_MATRIX, _MATRIX), dtype=np.float32)
    seconds = min(timeit.repeat(lambda: matrix @ matrix, number=1, repeat=_TRIALS))
    speed = 2.0 * _MATRIX**3 / seconds
    operations = 6 * weights * num_tokens * training.max_updates
    return operations / (_EFFICIENCY * speed) / 60  # 6: Kaplan et al. 2020, section 2.1


def _header(config: Config, name: str, num_pairs: int, num_dropped: int, num_blank: int) -> str:
    directions = config.data.directions
    files = [str(path) for path in paths_of(config.data.corpora("train"))]
    not_counted = (("rows with an empty side", num_blank), ("pairs that the filters drop", num_dropped))
    listed = "; ".join(f"{what}: {number:,}" for what, number in not_counted if number)
    blank = f" (not counted: {listed})" if listed else ""
    several = f" for {in_words(list(map(str, directions)))}" if len(directions) > 1 else ""
    return "\n".join(
        (
            f"Train with: nmt train --config {shlex.quote(name)}",
            f"Found {num_pairs:,} sentence pairs{several}{blank} in {in_words(files)}.",
            f"Suggested: {_layers(config.model)},",
            f"{_vocabulary(config.tokenizer)}, dropout {config.model.dropout},",
            f"{config.training.max_updates:,} updates, a validation every {config.training.validate_every:,}.",
            f"Why: {reason_for(config, num_pairs)}.",
            f"Filters: rules that hardly ever drop a good pair; see nmt data check --config {shlex.quote(name)}",
        )
    )


def _layers(model: ModelConfig) -> str:
    positions = f", {model.positions} positions" if model.positions != "sinusoidal" else ""
    return layers_of(model) + positions + (", norms of queries and keys" if model.qk_norm else "")


def _vocabulary(tokenizer: TokenizerConfig) -> str:
    if tokenizer.path is not None:
        return f"the vocabulary of {tokenizer.path}"
    return f"{'one vocabulary' if tokenizer.joint else 'two vocabularies'} of {tokenizer.vocab_size:,} tokens"


def summary(config: Config) -> str:
    """Return the languages, sizes and updates of a configuration in one line."""
    base = config.training.init_from
    vocabulary = f"the vocabulary of {base}" if base else _vocabulary(config.tokenizer)
    sizes = f"{_layers(config.model)}, {vocabulary}"
    held_out = [name for name in DATA_SETS if not config.data.corpora(name)]
    holdout = f"; {' and '.join(held_out)} held out from train" if held_out else ""
    return f"{direction_names(config)}, {sizes}, {config.training.max_updates:,} updates{holdout}"
