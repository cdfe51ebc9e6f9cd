"""The settings that suit an adaptation; protection that is learned later."""

from __future__ import annotations

import pytest

from nmt.apps.recipes.adaptation import suited_training
from nmt.artifacts.rundir import RunDir
from nmt.config import TrainingConfig
from nmt.data.text.spans import PLACEHOLDERS
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.training.run import start_run
from nmt.translation import Translator
from tests.tiny import tiny_config

LARGE = TrainingConfig(batch_tokens=4096, tokens_per_update=25_000, lr=7e-4, max_updates=100_000, warmup_updates=4000)


@pytest.mark.parametrize(
    ("num_new", "mix", "tokens_per_update", "max_updates"),
    [
        (300, 0.5, 1200, 200),  # 12,000 tokens in 10 updates, 20 times
        (300, 0.0, 600, 50),  # with nothing old, 5 times
        (5000, 0.5, 20_000, 100),  # 200,000 tokens in 10 updates, 10 times
        (50_000, 0.5, 25_000, 240),  # as the run was trained, 3 times
        (5_000_000, 0.5, 25_000, 5000),
    ],
)
def test_updates_suit_the_size_of_the_corpus(num_new, mix, tokens_per_update, max_updates):
    found = suited_training(LARGE, num_new, 20.0, mix)
    assert max(found.batch_tokens, found.tokens_per_update) == tokens_per_update
    assert found.max_updates == max_updates
    TrainingConfig.model_validate(found.model_dump())


def test_warmup_and_validations_follow_a_number_of_updates_that_was_named():
    found = suited_training(LARGE, 300, 20.0, 0.5, 50)
    assert (found.max_updates, found.warmup_updates, found.validate_every) == (50, 5, 10)


@pytest.mark.parametrize("batch_tokens", [4096, "auto"])
def test_an_update_smaller_than_that_of_the_run_but_larger_than_its_batches_keeps_the_batches(batch_tokens):
    base = LARGE.model_copy(update={"batch_tokens": batch_tokens})
    found = suited_training(base, 5000, 20.0, 0.5)
    assert (found.batch_tokens, found.tokens_per_update) == (batch_tokens, 20_000)


@pytest.mark.parametrize("batch_tokens", [256, "auto"])
def test_an_update_that_an_epoch_has_too_few_tokens_for_is_one_batch(batch_tokens):
    base = LARGE.model_copy(update={"batch_tokens": batch_tokens, "tokens_per_update": 4096})
    found = suited_training(base, 20, 10.0, 0.0)
    assert (found.batch_tokens, found.tokens_per_update) == (512, 0)


@pytest.mark.parametrize(
    ("lr", "mix", "expected"), [(7e-4, 0.5, 2.1e-4), (7e-4, 0.0, 7e-5), (3e-3, 0.5, 6e-4), (3e-3, 0.0, 1e-4)]
)
def test_the_rate_is_lower_where_nothing_old_is_replayed(lr, mix, expected):
    assert suited_training(TrainingConfig(lr=lr), 1000, 20.0, mix).lr == pytest.approx(expected)


def test_protection_is_learned_later_by_a_model_without_placeholders(digits, digits_run, tmp_path):
    assert not TokenizerPair.load(RunDir(digits_run).tokenizer).know(PLACEHOLDERS)
    training = {"init_from": str(digits_run), "max_updates": 4, "validate_every": 2, "average_checkpoints": 0}
    start_run(tiny_config(digits, training=training, data={"protect": True}), tmp_path / "run")
    before, after = (TokenizerPair.load(RunDir(run).tokenizer) for run in (digits_run, tmp_path / "run"))
    assert after.know(PLACEHOLDERS)
    assert after.src.vocab_size == before.src.vocab_size + len(PLACEHOLDERS)
    assert after.src.encode("12345") == before.src.encode("12345")  # old tokens keep their ids
    with Translator.load(tmp_path / "run") as translator:
        assert not translator.segmenter.knows_placeholders  # after four updates, it copies hardly any
        assert "{name}" in translator.translate(["12 {name}"])[0].text
