"""Suggest a configuration for a number of sentence pairs.

Small corpora need a small model, a small vocabulary and high dropout: 50M parameters lose more than ten BLEU on 30k
pairs. A student is built to translate fast: its encoder, which runs once per source, is deep; its decoder, which runs
once per token, has one or two layers (Kasai et al. 2021, "Deep Encoder, Shallow Decoder"); its vocabulary is small.
Sources: Sennrich & Zhang 2019, "Revisiting Low-Resource Neural Machine Translation: A Case Study"; Araabi & Monz
2020, "Optimizing Transformer for Low-Resource Neural Machine Translation".
"""

from __future__ import annotations

from itertools import chain
from math import inf
from typing import Literal, NamedTuple

from nmt.base.languages import has_many_characters, script_of
from nmt.config.data import AugmentConfig, DataConfig
from nmt.config.model import ModelConfig
from nmt.config.sections import Config
from nmt.config.tokenizer import TokenizerConfig
from nmt.config.training import Stage, TrainingConfig

TOKENS_PER_PAIR = 18  # of the longer side, padding included: measured on Multi30k (docs/log)
MIN_UPDATES = 1000
MIN_VALIDATE_EVERY, MAX_VALIDATE_EVERY = 100, 5000  # updates
VALIDATE_EVERY_WITH_COPIES = 400  # of few pairs, a validation takes longer than a hundred updates
MIN_VOCAB_WITH_MANY_CHARACTERS = 6000  # tokens: the vocabulary must first hold the characters
SMALL_DATA = 300_000  # pairs
SCRIPTS_WITH_CASE = ("Latn", "Grek", "Cyrl", "Armn")
UPPER_SHARE = 0.03  # of the pairs; on Multi30k, it costs nothing on clean text, and texts in capitals gain 21 BLEU


# Some corpora are first trained on in both directions, at a constant rate, then in one (Ding et al. 2021,
# "bidirectional training"). Measured on Multi30k (29,000 pairs) and Tatoeba (27,493): 1 to 2 BLEU more.
SHARE_IN_BOTH = 0.52  # of the updates
DROPOUTS = (0.15, 0.2)  # of the first stage, and of the second
EPOCHS_WITH_BOTH = 24  # passes over the data in both stages, instead of the preset's

# A few thousand pairs are learned after copies of their targets, from a lexical start. Without them, the decoder hardly
# looks at its source. Measured on 3,360 pairs of news from French into Wolof: 23.6 chrF instead of 17.3. For five such
# corpora in one model, see docs/log/quality.md.
UPDATES_WITH_COPIES = 800
UPDATES_OF_FURTHER, VOCAB_OF_FURTHER = 200, 1_000  # more of both for each further direction


class Preset(NamedTuple):
    """Sizes and rates for a corpus of up to `max_pairs` sentence pairs."""

    max_pairs: float
    vocab_size: int
    student_vocab_size: int
    d_model: int
    num_heads: int
    d_ff: int
    num_layers: int  # of the encoder, and of the decoder
    dropout: float
    lr: float
    warmup_updates: int
    batch_tokens: int
    tokens_per_update: int
    beta2: float  # of AdamW
    epochs: int  # passes over the data; 0: use `updates`
    updates: int
    both_first: bool = False
    copies_first: bool = False
    positions: Literal["sinusoidal", "rotary"] = "sinusoidal"
    qk_norm: Literal["self", False] = False


# Small corpora are trained on for tens of epochs, in small batches to get enough updates, with a schedule that ends
# at 0 (as measured on Multi30k in docs/log). Large ones get a fixed number of updates, in batches near the 25,000
# tokens of Vaswani et al. 2017, whose beta2 is 0.98. Measured in tokens, 0.999 with batches of 1,024 has the same
# half-life (Marek et al. 2025, "Small Batch Size Training for Language Models"). Rotary positions gained
# 0.7 BLEU on Multi30k, and norms perhaps a little (three seeds each).
PRESETS = (
    # pairs, vocabulary, a student's, d_model, heads, d_ff, layers, dropout, lr, warmup, batch, effective, beta2,
    # epochs, updates, both directions first, copies first, positions, norms of queries and keys
    Preset(10_000,  8_000,  1_000, 128, 4,  512, 2, 0.1, 1e-3,  400, 1024,      0,  0.98, 30,       0, False, True),
    Preset(10_000,  2_000,  1_000, 128, 4,  512, 2, 0.3, 1e-3,  400, 1024,      0,  0.98, 60,       0),
    Preset(50_000,  5_000,  2_000, 256, 4,  512, 3, 0.3, 1e-3,  400, 1024,      0, 0.999, 27,       0,
           True, False, "rotary", "self"),
    Preset(3e5,     8_000,  4_000, 256, 4, 1024, 4, 0.2, 1e-3, 1000, 4096,      0,  0.98, 25,       0),
    Preset(2e6,    16_000,  8_000, 512, 8, 2048, 6, 0.1, 7e-4, 4000, 4096, 12_000,  0.98,  0, 100_000),
    Preset(inf,    32_000, 16_000, 512, 8, 2048, 6, 0.1, 7e-4, 4000, 8192, 25_000,  0.98,  0, 200_000),
)  # fmt: skip


def preset_for(num_pairs: float, *, copies: bool, both: bool = True) -> Preset:
    """Return the first row of the table that covers this many pairs; `copies` and `both`: which stages are possible."""
    allowed = (preset for preset in PRESETS if copies or not preset.copies_first)
    preset = next(preset for preset in allowed if num_pairs <= preset.max_pairs)
    return preset if both else preset._replace(both_first=False)


def suggest_config(num_pairs: int, data: DataConfig, *, student: bool = False) -> Config:
    """Return a configuration for `num_pairs` sentence pairs in `data`, with one vocabulary for both languages.

    A `student` has as many layers as other models, but nearly all in the encoder, and a smaller vocabulary. A corpus
    of a size for which that was found to be better is trained on in both directions first, if it has one, or on copies
    of targets, if no language is on both sides.

    `data` is kept unchanged, except for four keys if it does not set them: `holdout_size` becomes at most a twentieth
    of the pairs, `holdout_groups` becomes true, `protect` too, so that URLs, tags and `{name}` survive translation, and
    `augment` writes 3% of the pairs in capitals, unless the source language is known to have none.
    """
    tagged = any(files.tag for files in data.corpora("train"))
    one_sided = student or tagged or data.augment.is_on
    num_further = len(data.directions) - 1
    sides = [set(languages) for languages in zip(*data.directions, strict=True)]
    preset = preset_for(num_pairs / (1 + num_further), copies=not one_sided and sides[0].isdisjoint(sides[1]))
    if preset.copies_first:
        preset = preset._replace(vocab_size=preset.vocab_size + num_further * VOCAB_OF_FURTHER)
    else:
        preset = preset_for(num_pairs, copies=False, both=not (one_sided or num_further))
    holdout_size = max(1, min(data.holdout_size, num_pairs // (20 * len(data.directions))))  # of each direction
    suited: dict[str, object] = {"holdout_size": holdout_size, "holdout_groups": True, "protect": True}
    if script_of(data.src_lang) in (None, *SCRIPTS_WITH_CASE) and not student:  # without case, it changes nothing
        suited["augment"] = AugmentConfig(upper=UPPER_SHARE)
    data = data.model_copy(update={key: value for key, value in suited.items() if key not in data.model_fields_set})
    dropout = DROPOUTS[1] if preset.both_first else preset.dropout
    num_decoder_layers = (1 if preset.num_layers <= 3 else 2) if student else preset.num_layers
    tokenizer = TokenizerConfig(vocab_size=preset.student_vocab_size if student else preset.vocab_size)
    if any(map(has_many_characters, chain.from_iterable(data.directions))):
        # Rare characters are spelled in bytes, as SentencePiece recommends for Chinese and Japanese.
        vocab_size = max(tokenizer.vocab_size, MIN_VOCAB_WITH_MANY_CHARACTERS)
        tokenizer = TokenizerConfig(vocab_size=vocab_size, character_coverage=0.9995)
    return Config(
        data=data,
        tokenizer=tokenizer,
        model=ModelConfig(
            d_model=preset.d_model,
            num_heads=preset.num_heads,
            d_ff=preset.d_ff,
            encoder_layers=2 * preset.num_layers - num_decoder_layers,
            decoder_layers=num_decoder_layers,
            positions=preset.positions,
            qk_norm=preset.qk_norm,
            tied_embeddings="target" if preset.copies_first else "all",
            dropout=dropout,
            embedding_dropout=dropout,
        ),
        training=_training(preset, num_pairs, UPDATES_WITH_COPIES + num_further * UPDATES_OF_FURTHER),
    )


def reason_for(config: Config, num_pairs: int) -> str:
    """Explain the suggestion in one sentence, with its source."""
    if config.training.lexical_start:
        return "a decoder that copies, and source words that start as their translations, need few pairs to translate"
    if num_pairs <= SMALL_DATA:
        return "small corpora need a small model and high dropout (Sennrich & Zhang 2019; Araabi & Monz 2020)"
    return "this is enough data for the base Transformer of Vaswani et al. 2017"


def _training(preset: Preset, num_pairs: int, with_copies: int) -> TrainingConfig:
    tokens_an_update = max(preset.batch_tokens, preset.tokens_per_update)
    updates_an_epoch = num_pairs * TOKENS_PER_PAIR / tokens_an_update
    epochs = EPOCHS_WITH_BOTH if preset.both_first else preset.epochs
    max_updates = preset.updates or max(MIN_UPDATES, _hundreds(epochs * updates_an_epoch))
    max_updates += with_copies if preset.copies_first else 0
    least = VALIDATE_EVERY_WITH_COPIES if preset.copies_first else MIN_VALIDATE_EVERY
    every = min(max(least, _hundreds(updates_an_epoch)), MAX_VALIDATE_EVERY)
    if preset.copies_first:
        first = Stage(max_updates=with_copies, augment=False, copy_targets=True, schedule="constant")
    else:
        in_both = _hundreds(SHARE_IN_BOTH * max_updates)
        first = Stage(
            max_updates=in_both, augment=False, both_directions=True, schedule="constant", dropout=DROPOUTS[0]
        )
    has_stages = preset.both_first or preset.copies_first
    return TrainingConfig(
        batch_tokens=preset.batch_tokens,
        tokens_per_update=preset.tokens_per_update,
        max_updates=max_updates,
        lr=preset.lr,
        betas=(0.9, preset.beta2),
        schedule="inverse_sqrt" if preset.updates else "linear",
        warmup_updates=min(preset.warmup_updates, max_updates // 10),
        validate_every=every,
        score_test=True,
        early_stopping_metric="chrf" if preset.copies_first else "bleu",
        lexical_start=preset.copies_first,
        stages=(first, Stage(max_updates=max_updates - first.max_updates, warmup_updates=0)) if has_stages else (),
    )


def _hundreds(updates: float) -> int:
    return round(updates / 100) * 100
