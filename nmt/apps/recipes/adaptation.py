"""Configure the training that adapts a model to another domain.

Training on new text alone makes a model forget the old (catastrophic forgetting: Thompson et al. 2019, "Overcoming
Catastrophic Forgetting During Domain Adaptation of Neural Machine Translation"). Replaying a share of the old corpus
(mixed fine-tuning: Chu et al. 2017, "An Empirical Comparison of Domain Adaptation Methods for Neural Machine
Translation"), a low learning rate and few updates keep that loss small. nmt measures it rather than assuming it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from statistics import mean

from nmt.apps.recipes.adaptation_corpus import AdaptationCorpus, epochs_for
from nmt.artifacts.rundir import RunDir
from nmt.config import Config, DataConfig, TrainingConfig
from nmt.config.dump import with_values
from nmt.data.tokens.tokenizer import TokenizerPair

LR_SHARE, MAX_LR = 0.3, 6e-4  # peak learning rate if old text is replayed: a fraction of the run's own, an upper limit
LR_SHARE_ALONE, MAX_LR_ALONE = 0.1, 1e-4  # without old text, where nothing keeps the model from forgetting
MIN_UPDATES, MAX_UPDATES = 40, 5000
_MIN_UPDATES_PER_EPOCH = 10
_MIN_BATCH_TOKENS = 512
_SAMPLE_PAIRS = 2000  # pairs from which the number of tokens in a corpus is estimated
_NUM_VALIDATIONS = 5


def adapted_config(run: RunDir, corpus: AdaptationCorpus, data: DataConfig, overrides: Sequence[str] = ()) -> Config:
    """Return the configuration that adapts `run` to `corpus` with the files in `data`; `overrides` as in `--set`."""
    base = run.config().of_stage(-1)  # with the dropout, learning rate and so on of the last stage
    tokens_per_pair = _tokens_per_pair(run, corpus)
    settings = (override.partition("=") for override in overrides)
    named = [value.strip() for name, _, value in settings if name == "training.max_updates"]
    max_updates = int(named[-1]) if named and named[-1].isdecimal() else None  # also for warmup and validations
    training = suited_training(base.training, len(corpus.train[0].pairs), tokens_per_pair, corpus.mix, max_updates)
    training = training.model_copy(update={"init_from": str(run.path)})
    tokenizer = base.tokenizer.model_copy(update={"path": None})
    data = data.model_copy(update={"augment": base.data.augment})
    changed = base.model_copy(update={"data": data, "tokenizer": tokenizer, "training": training})
    return with_values(changed, "configuration of the adaptation", overrides)


def suited_training(
    base: TrainingConfig, num_new: int, tokens_per_pair: float, mix: float, max_updates: int | None = None
) -> TrainingConfig:
    """Return a run's training settings, changed to suit an adaptation to `num_new` pairs.

    The learning rate is lower and falls to 0. There are few passes over the new pairs, and smaller updates if a pass
    would have fewer than 10. `tokens_per_pair` counts the longer side, `mix` is the share of the old corpus, and
    `max_updates` the number of updates if the user set it.
    """
    tokens_per_epoch = num_new * tokens_per_pair / (1 - mix)
    in_batch = 0 if base.batch_tokens == "auto" else base.batch_tokens
    tokens_per_update = max(in_batch, base.tokens_per_update)
    smaller = max(_MIN_BATCH_TOKENS, round(tokens_per_epoch / _MIN_UPDATES_PER_EPOCH))
    changes: dict[str, object] = {}
    if smaller < tokens_per_update:
        fits = in_batch < smaller <= tokens_per_epoch / 2  # several batches make an update, several updates an epoch
        changes = {"tokens_per_update": smaller} if fits else {"batch_tokens": smaller, "tokens_per_update": 0}
        tokens_per_update = smaller
    epochs = epochs_for(num_new) if mix else max(1, epochs_for(num_new) // 4)
    suited_updates = round(epochs * tokens_per_epoch / tokens_per_update)
    share, limit = (LR_SHARE, MAX_LR) if mix else (LR_SHARE_ALONE, MAX_LR_ALONE)
    max_updates = max_updates or min(max(suited_updates, MIN_UPDATES), MAX_UPDATES)
    return base.model_copy(
        update={
            **changes,
            "lr": min(share * base.lr, limit),
            "max_updates": max_updates,
            "warmup_updates": max_updates // 10,
            "schedule": "cosine",
            "max_minutes": 0.0,
            "stages": (),
            "both_directions": False,
            "score_test": False,  # both test sets are scored before and after
            "copy_targets": False,
            "lexical_start": False,
            "early_stopping_patience": 0,
            "log_every": max(1, max_updates // 20),
            "validate_every": -(-max_updates // _NUM_VALIDATIONS),
            "average_checkpoints": min(base.average_checkpoints, 3),
        }
    )


def _tokens_per_pair(run: RunDir, corpus: AdaptationCorpus) -> float:
    """Return the mean length of the longer side of new pairs, end of sentence included."""
    tokenizers = TokenizerPair.load(run.tokenizer)
    first = list(islice(corpus.train[0].pairs, _SAMPLE_PAIRS))
    sources = tokenizers.src.encode_batch(src for src, _ in first)
    targets = tokenizers.tgt.encode_batch(tgt for _, tgt in first)
    return mean(max(len(src), len(tgt)) + 1 for src, tgt in zip(sources, targets, strict=True))
