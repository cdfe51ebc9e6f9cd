"""What is suggested for a number of sentence pairs."""

from __future__ import annotations

import pytest

from nmt.apps.recipes.presets import PRESETS, reason_for, suggest_config
from nmt.config import DataConfig, ParallelFiles
from nmt.config.data import AugmentConfig
from nmt.training.stages import stage_spans
from nmt.training.update.optimizer import learning_rate

DATA = DataConfig(src_lang="de", tgt_lang="en", train=ParallelFiles(src="a.de", tgt="a.en"))


@pytest.mark.parametrize(
    ("num_pairs", "d_model", "d_ff", "layers", "heads", "dropout", "vocab_size"),
    [
        (1, 128, 512, 2, 4, 0.1, 8000),
        (5000, 128, 512, 2, 4, 0.1, 8000),
        (5001, 128, 512, 2, 4, 0.1, 8000),
        (10_000, 128, 512, 2, 4, 0.1, 8000),
        (10_001, 256, 512, 3, 4, 0.2, 5000),
        (50_000, 256, 512, 3, 4, 0.2, 5000),
        (300_000, 256, 1024, 4, 4, 0.2, 8000),
        (2_000_000, 512, 2048, 6, 8, 0.1, 16_000),
        (50_000_000, 512, 2048, 6, 8, 0.1, 32_000),
    ],
)
def test_sizes_grow_and_dropout_falls_with_the_data(num_pairs, d_model, d_ff, layers, heads, dropout, vocab_size):
    config = suggest_config(num_pairs, DATA)
    model = config.model
    assert (model.d_model, model.d_ff, model.num_heads) == (d_model, d_ff, heads)
    assert model.encoder_layers == model.decoder_layers == layers
    assert model.dropout == model.embedding_dropout == dropout
    assert config.tokenizer.vocab_size == vocab_size
    assert config.tokenizer.joint


@pytest.mark.parametrize("student", [False, True])
def test_rotary_positions_and_norms_are_for_the_sizes_that_they_were_measured_on(student):
    models = [suggest_config(pairs, DATA, student=student).model for pairs in (10_000, 10_001, 50_000, 50_001)]
    kinds, norms = [model.positions for model in models], [model.qk_norm for model in models]
    assert kinds == ["sinusoidal", "rotary", "rotary", "sinusoidal"]
    assert norms == [False, "self", "self", False]


@pytest.mark.parametrize(
    ("num_pairs", "encoder", "decoder", "vocab_size"),
    [
        (3000, 3, 1, 1000),
        (10_000, 3, 1, 1000),
        (30_000, 5, 1, 2000),
        (300_000, 6, 2, 4000),
        (2_000_000, 10, 2, 8000),
        (10**8, 10, 2, 16_000),
    ],
)
def test_a_student_has_its_layers_in_the_encoder_and_a_smaller_vocabulary(num_pairs, encoder, decoder, vocab_size):
    student, other = (suggest_config(num_pairs, DATA, student=flag) for flag in (True, False))
    assert (student.model.encoder_layers, student.model.decoder_layers) == (encoder, decoder)
    assert encoder + decoder == other.model.encoder_layers + other.model.decoder_layers
    assert student.tokenizer.vocab_size == vocab_size
    assert student.training == other.training or other.training.stages


@pytest.mark.parametrize("num_pairs", [10_001, 29_000, 50_000])
def test_a_corpus_of_some_ten_thousand_pairs_is_learnt_in_both_directions_first(num_pairs):
    config = suggest_config(num_pairs, DATA)
    first, second = stage_spans(config)
    both, one = first.config.training, second.config.training
    assert (both.both_directions, one.both_directions) == (True, False)
    assert first.end == pytest.approx(0.52 * second.end, abs=100)
    assert (both.schedule, one.schedule, one.warmup_updates) == ("constant", "linear", 0)
    assert (first.config.model.dropout, second.config.model.dropout) == (0.15, 0.2)
    assert learning_rate(both, both.max_updates) == learning_rate(both, both.warmup_updates) == both.lr
    assert learning_rate(one, 1) == pytest.approx(one.lr, rel=1e-3)
    assert learning_rate(one, one.max_updates) == 0


@pytest.mark.parametrize("num_pairs", [100, 3000, 5001, 10_000])
def test_a_corpus_of_a_few_thousand_pairs_is_learnt_after_copies_of_its_targets(num_pairs):
    config = suggest_config(num_pairs, DATA)
    first, second = (span.config for span in stage_spans(config))
    assert (first.training.copy_targets, second.training.copy_targets) == (True, False)
    assert (first.training.schedule, first.training.max_updates) == ("constant", 800)
    assert (first.data.augment.is_on, second.data.augment.is_on) == (False, True)
    assert (config.training.lexical_start, config.model.tied_embeddings) == (True, "target")
    assert not suggest_config(10_001, DATA).training.lexical_start


@pytest.mark.parametrize(("num_pairs", "fits"), [(20_000, True), (20_001, False)])
def test_small_corpora_with_different_targets_are_learnt_after_copies_too(num_pairs, fits):
    other = ParallelFiles(src="c", tgt="d", tgt_lang="fr")
    config = suggest_config(num_pairs, DATA.model_copy(update={"train": (ParallelFiles(src="a", tgt="b"), other)}))
    assert config.training.lexical_start == fits
    assert [stage.max_updates for stage in config.training.stages[:1]] == [1000] * fits
    assert config.tokenizer.vocab_size == (9000 if fits else 5000)


@pytest.mark.parametrize(
    "data",
    [
        {"train": (ParallelFiles(src="a", tgt="b"), ParallelFiles(src="b", tgt="a", src_lang="en", tgt_lang="de"))},
        {"train": (ParallelFiles(src="a", tgt="b"), ParallelFiles(src="c", tgt="d", tag="<bt>"))},
        {"augment": AugmentConfig(upper=0.1)},
    ],
    ids=["directions", "tag", "augment"],
)
def test_other_corpora_of_that_size_and_students_are_learnt_as_before(data):
    for config in (suggest_config(3000, DATA.model_copy(update=data)), suggest_config(3000, DATA, student=True)):
        assert (config.training.stages, config.training.lexical_start) == ((), False)
        assert (config.training.max_updates, config.model.dropout, config.model.tied_embeddings) == (3200, 0.3, "all")
    for config in (suggest_config(29_000, DATA.model_copy(update=data)), suggest_config(29_000, DATA, student=True)):
        assert config.training.stages == ()
        assert (config.training.max_updates, config.training.warmup_updates, config.model.dropout) == (13_800, 400, 0.3)


@pytest.mark.parametrize(
    ("num_pairs", "updates", "every"), [(10, 1800, 400), (29_000, 12_200, 500), (10**6, 10**5, 1500)]
)
def test_updates_and_validations_follow_the_pairs(num_pairs, updates, every):
    training = suggest_config(num_pairs, DATA).training
    assert (training.max_updates, training.validate_every) == (updates, every)


@pytest.mark.parametrize("num_pairs", [0, 1, 99, 10_000, 29_000, 50_001, 300_001, 2_000_001, 10**9])
def test_any_number_of_pairs_gives_a_consistent_schedule(num_pairs):
    training = suggest_config(num_pairs, DATA).training
    assert training.warmup_updates * 10 <= training.max_updates
    assert 100 <= training.validate_every <= training.max_updates
    assert training.max_updates // training.validate_every >= (10 if num_pairs > 10_000 else 4)


@pytest.mark.parametrize("num_pairs", [5000, 10_000, 30_000, 50_000, 100_000, 300_000])
def test_a_small_corpus_is_passed_over_some_tens_of_times(num_pairs):
    training = suggest_config(num_pairs, DATA).training
    epochs = training.max_updates * training.batch_tokens / (num_pairs * 18)
    assert 24 <= epochs <= 61


def test_a_small_corpus_is_not_all_held_out_unless_that_was_asked_for():
    assert suggest_config(1000, DATA).data.holdout_size == 50
    assert suggest_config(7, DATA).data.holdout_size == 1
    assert suggest_config(10**6, DATA).data.holdout_size == DATA.holdout_size
    asked = DataConfig(src_lang="de", tgt_lang="en", train=DATA.train, holdout_size=300)
    assert suggest_config(1000, asked).data.holdout_size == 300


def test_a_few_pairs_are_written_in_capitals_if_the_source_has_them_and_never_in_both_directions():
    first, second = stage_spans(suggest_config(29_000, DATA))
    assert (first.config.data.augment.upper, second.config.data.augment.upper) == (0.0, 0.03)
    assert suggest_config(1000, DATA).data.augment == AugmentConfig(upper=0.03)
    chinese = DataConfig(src_lang="zh", tgt_lang="en", train=DATA.train)
    assert not suggest_config(1000, chinese).data.augment.is_on
    for code in ("sr", "ha", "lus"):  # in several scripts with case, and unknown: without case, it changes nothing
        other = DataConfig(src_lang=code, tgt_lang="en", train=DATA.train)
        assert suggest_config(1000, other).data.augment == AugmentConfig(upper=0.03)
    assert not suggest_config(1000, DATA, student=True).data.augment.is_on
    declined = DataConfig(src_lang="de", tgt_lang="en", train=DATA.train, augment=AugmentConfig())
    assert not suggest_config(1000, declined).data.augment.is_on


def test_spans_are_protected_unless_that_was_declined():
    assert suggest_config(1000, DATA).data.protect
    declined = DataConfig(src_lang="de", tgt_lang="en", train=DATA.train, protect=False)
    assert not suggest_config(1000, declined).data.protect


@pytest.mark.parametrize("code", ["zh", "zh_Hans", "JA", "ko-KR"])
def test_a_script_of_many_characters_gets_room_for_them(code):
    data = DataConfig(src_lang="en", tgt_lang=code, train=DATA.train)
    small, large = suggest_config(29_000, data).tokenizer, suggest_config(10**6, data).tokenizer
    assert (small.vocab_size, small.character_coverage) == (6000, 0.9995)
    assert (large.vocab_size, large.character_coverage) == (16_000, 0.9995)
    assert suggest_config(30_000, data, student=True).tokenizer.vocab_size == 6000


def test_the_reason_changes_with_the_data():
    reasons = [reason_for(suggest_config(pairs, DATA), pairs) for pairs in (5000, 300_000, 300_001)]
    assert reasons[0].startswith("a decoder that copies")
    assert reasons[1].startswith("small corpora need a small model")
    assert reasons[2].startswith("this is enough data for the base Transformer")


def test_the_table_is_in_order():
    assert [preset.max_pairs for preset in PRESETS] == sorted(preset.max_pairs for preset in PRESETS)
    assert PRESETS[-1].max_pairs == float("inf")
