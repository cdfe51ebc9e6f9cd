"""Source embeddings that start as means of their translations' embeddings."""

from __future__ import annotations

import random

import pytest
import torch

from nmt.artifacts.checkpoint import read_weights
from nmt.artifacts.rundir import RunDir
from nmt.config import Config, TokenizerConfig
from nmt.data.read.pairs import SentencePair
from nmt.data.store.report import CorpusCounts
from nmt.data.store.store import build_store
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.training.corpus.lexical_start import start_lexically
from nmt.training.parts import Training
from nmt.training.run import start_run
from tests.quick import quick_and_slow
from tests.resumption import stop_and_resume
from tests.tiny import TRAINING, tiny_values

DICTIONARY = dict(zip("abcdefghijkl", "nopqrstuvwxy", strict=True))
COPIES_FIRST = [{"max_updates": 4, "copy_targets": True}, {"max_updates": 3, "warmup_updates": 0}]


def configuration(folder, **training):
    training = {**TRAINING, "warmup_updates": 1, "stages": COPIES_FIRST, "lexical_start": True, **training}
    values = tiny_values(folder, training=training, model={"tied_embeddings": "target"})
    del values["training"]["max_updates"]
    return Config.model_validate(values)


@pytest.mark.parametrize("joint", [True, False])
def test_a_source_token_starts_nearest_to_the_target_token_that_translates_it(tmp_path, joint):
    settings = TokenizerConfig(type="char", vocab_size=300, joint=joint)
    tokenizers = train_tokenizers(settings, lambda: [*DICTIONARY, "m"], lambda: [*DICTIONARY.values()])
    draw = random.Random(1)
    sources = ["".join(draw.choices([*DICTIONARY], k=draw.randint(1, 6))) for _ in range(300)]
    pairs = [SentencePair(s, "".join(DICTIONARY[c] for c in reversed(s)), n) for n, s in enumerate(sources, 1)]
    store = build_store(tmp_path / "store", iter(pairs), tokenizers, CorpusCounts())
    torch.manual_seed(1)
    sides = {"src": tokenizers.src, "tgt": tokenizers.tgt}
    before = {f"{name}_embedding.tokens.weight": torch.randn(side.vocab_size, 64) for name, side in sides.items()}
    src, tgt = before.values()
    weights = dict(before)
    start_lexically(weights, store, joint=joint)
    new = weights["src_embedding.tokens.weight"]
    assert weights["tgt_embedding.tokens.weight"] is tgt
    for source, target in DICTIONARY.items():
        row = new[tokenizers.src.id_of(source)]
        assert int(torch.cosine_similarity(row, tgt).argmax()) == tokenizers.tgt.id_of(target)
        assert row.norm() == pytest.approx(float(tgt.norm(dim=1).mean()), rel=1e-4)
    unseen = tokenizers.src.id_of("m")
    assert torch.equal(new[unseen], (tgt if joint else src)[unseen])


def test_all_embeddings_start_elsewhere_only_with_a_lexical_start(digits, tmp_path):
    starts = {}
    for lexical in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Training, "save", lambda training, key=lexical: starts.setdefault(key, copied(training)))
            start_run(configuration(digits, lexical_start=lexical), tmp_path / f"run-{lexical}")
    changed = {name for name, weight in starts[True].items() if not torch.equal(weight, starts[False][name])}
    assert changed == {"src_embedding.tokens.weight"}


def copied(training):
    return {name: weight.clone() for name, weight in training.optimizer.master.items()}


@pytest.mark.parametrize("stop_at", quick_and_slow([2, 4, 5], lambda _, stop_at: stop_at == 4))
def test_a_training_that_starts_lexically_with_copies_ends_as_one_that_was_not_stopped(digits, tmp_path, stop_at):
    config = configuration(digits)
    assert start_run(config, tmp_path / "whole")
    run = stop_and_resume(config, tmp_path / "stopped", stop_at)
    theirs, ours = (read_weights(each.checkpoint("step-00000007")) for each in (RunDir(tmp_path / "whole"), run))
    assert all(torch.equal(weight, theirs[name]) for name, weight in ours.items())


def test_a_lexical_start_needs_embeddings_of_sources(digits):
    with pytest.raises(ValueError, match="needs source embeddings: set model"):
        Config.model_validate(tiny_values(digits, training={"lexical_start": True}))
