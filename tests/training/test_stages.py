"""The stages of a training: each with its own data, rate and end; one run, which resumes exactly."""

from __future__ import annotations

import json
import re

import pytest
import torch
from pydantic import ValidationError

from nmt.artifacts.checkpoint import average_weights, read_weights
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import ConfigError, RunError
from nmt.config import Config, dump_config, load_config
from nmt.config.filters import Filters
from nmt.data.store.mixing import corpus_weights
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.model.kernels.dropout import Dropout
from nmt.training.ending import planned_ends
from nmt.training.run import resume_run, start_run
from nmt.training.stages import stage_spans
from nmt.training.state import TrainState
from nmt.training.update.optimizer import learning_rate
from nmt.training.update.step import Step
from tests.quick import quick_and_slow
from tests.resumption import assert_equal_runs, stop_after, stop_and_resume
from tests.tiny import tiny_values
from tests.two_directions import two_directions, two_values

STAGES = [
    {"max_updates": 3, "weights": [1, 0]},
    {"max_updates": 4, "weights": [1, 3], "lr": 1e-3, "warmup_updates": 1, "schedule": "cosine", "label_smoothing": 0},
    {"max_updates": 2, "tokens_per_update": 700, "dropout": 0.25},
]
TRAINING = {"warmup_updates": 1, "validate_every": 4, "average_checkpoints": 0, "batch_tokens": 512, "log_every": 2}
TRAINING |= {"device": "cpu", "precision": "fp32", "threads": 1, "lr": 3e-3}


def staged(folder, stages=STAGES, **training):
    values = two_values(folder, training={**TRAINING, "stages": stages})
    del values["training"]["max_updates"]  # the sum of those of the stages
    values["training"] |= training
    return Config.model_validate(values)


@pytest.fixture(scope="module")
def watched(two_corpora, tmp_path_factory):
    """A finished run, and for each of its updates the rates of dropout (with the thresholds of their random bytes)."""
    path, rates, step = tmp_path_factory.mktemp("whole") / "run", [], Step.__call__

    def watching_step(self, *arguments):
        modules = self.loss.model.modules()
        rates.append({(module.rate, module.threshold) for module in modules if isinstance(module, Dropout)})
        return step(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Step, "__call__", watching_step)
        assert start_run(staged(two_corpora), path)
    return RunDir(path), rates


@pytest.fixture(scope="module")
def whole(watched):
    return watched[0]


def test_each_stage_is_a_training_of_its_own(two_corpora):
    config = staged(two_corpora)
    assert config.training.max_updates == 9
    spans = stage_spans(config)
    assert [(span.start, span.end) for span in spans] == [(0, 3), (3, 7), (7, 9)]
    first, second, third = (span.config for span in spans)
    assert [corpus_weights(each.data, (240, 240)) for each in (first, second, third)] == [[1, 0], [1, 3], None]
    assert (second.training.lr, second.training.schedule, second.training.label_smoothing) == (1e-3, "cosine", 0)
    assert (third.training.lr, third.training.tokens_per_update) == (3e-3, 700)
    assert len({each.training.seed for each in (first, second, third)}) == 3
    assert first.training.seed == config.training.seed


def test_a_stage_may_train_on_pairs_as_they_are_with_its_own_dropout(two_corpora, tmp_path):
    stages = [{"max_updates": 3}, {"max_updates": 3, "dropout": 0.25, "augment": False}]
    config = staged(two_corpora, stages)
    changes = {"data": {"augment": {"upper": 0.5}}}
    values = config.model_dump()
    config = Config.model_validate({**values, **{key: values[key] | new for key, new in changes.items()}})
    first, second = (span.config for span in stage_spans(config))
    assert (first.data.augment.is_on, second.data.augment.is_on) == (True, False)
    assert (second.model.dropout, second.model.embedding_dropout) == (0.25, 0.25)
    assert first.model == config.model


def test_dropout_of_a_stage_reaches_the_model(watched):
    none, own = {(0.0, 1)}, {(0.25, 64), (0.0, 1)}  # attention weights keep their rate
    assert watched[1] == [none] * 7 + [own] * 2


def test_a_training_without_stages_is_one_stage_as_configured(two_corpora):
    config = two_directions(two_corpora)
    (span,) = stage_spans(config)
    assert (span.start, span.end, span.config) == (0, config.training.max_updates, config)


@pytest.mark.parametrize(
    ("finished", "update", "last", "expected"),
    [
        ((), 1, 9, [3, 7, 9]),  # as configured
        ((), 1, 18, [6, 14, 18]),
        ((), 5, 9, [6, 7, 9]),  # the first stage has had more than its share
        ((5,), 6, 17, [5, 13, 17]),
        ((3, 4), 4, 5, [3, 4, 5]),
        ((), 2, 3, [3, 4, 5]),  # each stage has an update
        ((), 2, 2, [2, 2, 2]),  # the end
        ((3, 7), 8, 8, [3, 7, 8]),
    ],
)
def test_stages_that_are_not_finished_share_the_updates_that_remain(two_corpora, finished, update, last, expected):
    config = staged(two_corpora)
    ends = planned_ends(config.training, finished, update, last)
    assert ends == expected
    lengths = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    spans = stage_spans(config, ends)
    assert [(span.end, span.config.training.max_updates) for span in spans] == [
        (end, max(1, length)) for end, length in zip(ends, lengths, strict=True)
    ]


def test_stages_are_written_and_read_back(two_corpora, tmp_path):
    config, path = staged(two_corpora), tmp_path / "config.yaml"
    for comments in (False, True):
        path.write_text(dump_config(config, comments=comments))
        assert load_config(path) == config
    assert load_config(path, ["training.stages=[{max_updates: 4}]", "training.max_updates=4"]).training.max_updates == 4


FAULTS = {
    "stages add up": (STAGES, {"max_updates": 10}, "max_updates is 10, but the stages add up to 9; omit it"),
    "warmup": ([{"max_updates": 5}, {"max_updates": 3}], {"warmup_updates": 4},
               "stage 2: warmup_updates 4 must be less than max_updates 3"),
    "number of weights": ([{"max_updates": 5, "weights": [1]}], {}, "stage 1 must have 2 weights, one per corpus"),
    "no weight": ([{"max_updates": 5, "weights": [0, 0]}], {}, "stage 1 must have 2 weights, .*and not all 0"),
    "no end": ([{"lr": 0.1}], {}, "max_updates"),
}  # fmt: skip


@pytest.mark.parametrize(("stages", "training", "message"), FAULTS.values(), ids=FAULTS)
def test_stages_that_do_not_fit_are_refused(two_corpora, stages, training, message):
    with pytest.raises(ValidationError, match=message):
        staged(two_corpora, stages, **training)


def test_a_later_stage_without_pairs_is_refused_before_the_first_update(two_corpora, tmp_path):
    stages = [{"max_updates": 3}, {"max_updates": 3, "weights": [0, 1]}]
    config = staged(two_corpora, stages)
    reverse, letters = config.data.corpora("train")
    empty = letters.model_copy(update={"filters": Filters(too_short=1000)})
    data = config.data.model_copy(update={"train": (reverse, empty)})
    with pytest.raises(ConfigError, match=r"stage 2: corpus 2 of data\.train gets none of the 240 pairs"):
        start_run(config.model_copy(update={"data": data}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_later_stage_that_cannot_be_trained_is_refused_when_it_is_added_to_a_run(two_corpora, tmp_path):
    run = RunDir(tmp_path / "run")
    assert start_run(staged(two_corpora, [{"max_updates": 3}]), run.path)
    longer = [{"max_updates": 3}, {"max_updates": 2}, {"max_updates": 3, "tokens_per_update": 1_000_000}]
    index, config = run.index(), run.config()
    with pytest.raises(ConfigError) as caught:
        resume_run(staged(two_corpora, longer), run.path)
    message = r"training\.stages: stage 3: tokens_per_update is 1,000,000, but an epoch has only ([\d,]+) target tokens"
    assert (found := re.fullmatch(message, caught.value.message))
    assert caught.value.hint == f"set it to at most {found[1]}"
    assert (run.index(), RunDir(run.path).config()) == (index, config)
    assert TrainState.load(run.state).counters.update == 3


def test_the_metrics_name_the_stage_and_the_schedule_begins_anew_in_each(whole, two_corpora):
    records = [json.loads(line) for line in whole.metrics.read_text().splitlines()]
    train = {record["update"]: record for record in records if record["kind"] == "train"}
    assert [(update, train[update]["stage"]) for update in sorted(train)] == [
        (2, 1), (3, 1), (4, 2), (6, 2), (7, 2), (8, 3), (9, 3),
    ]  # fmt: skip
    spans = stage_spans(staged(two_corpora))
    for update, record in train.items():
        span = spans[record["stage"] - 1]
        assert record["lr"] == learning_rate(span.config.training, update - span.start)
    assert train[7]["lr"] == 0  # a cosine ends at 0 with its stage
    valid = [(record["update"], record["stage"]) for record in records if record["kind"] == "valid"]
    assert valid == [(3, 1), (4, 2), (7, 2), (8, 3), (9, 3)]  # the end of each stage is validated
    assert TrainState.load(whole.state).counters.stage == 2


def test_moments_are_kept_from_stage_to_stage(whole):
    optimizer = TrainState.load(whole.state).optimizer
    steps = {float(tensor) for name, tensor in optimizer.items() if name.endswith(".step")}
    assert steps == {9.0}


STOPS = {"inside 1": 2, "end of 1": 3, "inside 2": 5, "end of 2": 7}


@pytest.mark.parametrize("stop_at", quick_and_slow(STOPS, lambda _, name: name in ("end of 1", "inside 2")))
def test_a_training_stopped_in_a_stage_or_at_its_border_ends_as_one_that_was_not(two_corpora, whole, tmp_path, stop_at):
    assert_equal_runs(stop_and_resume(staged(two_corpora), tmp_path / "run", stop_at), whole)


BOTH = [{"max_updates": 4, "both_directions": True}, {"max_updates": 3, "warmup_updates": 0}]


def in_both_directions(folder, stages=BOTH, **sections):
    """A training that swaps digits and letters in its first stage."""
    data = {split: {"tsv": str(folder / f"{split}-fr.tsv")} for split in ("train", "valid", "test")}
    data |= {"tgt_lang": "fr", **sections.pop("data", {})}
    training = {**TRAINING, "stages": stages, **sections.pop("training", {})}
    values = tiny_values(folder, data=data, training=training, **sections)
    del values["training"]["max_updates"]
    return Config.model_validate(values)


def test_a_stage_in_both_directions_trains_on_letters_as_sources_too_and_the_next_does_not(two_corpora, tmp_path):
    sources, step = [], Step.__call__

    def watching_step(self, batches, *arguments):
        sources.append({int(token) for batch in batches for token in batch.src.unique()})
        return step(self, batches, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Step, "__call__", watching_step)
        start_run(in_both_directions(two_corpora), tmp_path / "run")
    tokenizer = TokenizerPair.load(RunDir(tmp_path / "run").tokenizer).src
    letters, digits = (set(tokenizer.encode(text)) for text in ("abcdefghij", "0123456789"))
    assert [(bool(tokens & (letters - digits)), bool(tokens & (digits - letters))) for tokens in sources] == (
        [(True, True)] * 4 + [(False, True)] * 3
    )


@pytest.mark.parametrize("with_tags", [False, True], ids=["one target language", "two"])
def test_a_stage_of_copies_trains_on_each_target_and_itself_and_the_next_does_not(two_corpora, tmp_path, with_tags):
    are_copies, step = [], Step.__call__

    def watching_step(self, batches, *arguments):
        are_copies.append([torch.equal(batch.src, batch.tgt_out) for batch in batches])
        return step(self, batches, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Step, "__call__", watching_step)
        stages = [{"max_updates": 4, "copy_targets": True}, BOTH[1]]
        start_run((staged if with_tags else in_both_directions)(two_corpora, stages), tmp_path / "run")
    assert [all(copies) for copies in are_copies] == [True] * 4 + [False] * 3


def test_a_training_stopped_in_both_directions_ends_as_one_that_was_not(two_corpora, tmp_path):
    config = in_both_directions(two_corpora)
    assert start_run(config, tmp_path / "whole")
    for stop in (2, 4):
        run = stop_and_resume(config, tmp_path / f"stopped-{stop}", stop)
        theirs = RunDir(tmp_path / "whole").checkpoint("step-00000007")
        assert run.checkpoint("step-00000007").read_bytes() == theirs.read_bytes()


OBSTACLES = {
    "vocabularies": ({"tokenizer": {"joint": False}, "model": {"tied_embeddings": "target"}}, "tokenizer.joint must"),
    "tags": ({"data": {"tag": True}}, "no corpus of the stage may have a tag"),
    "augment": ({"data": {"augment": {"upper": 0.1}}}, "data.augment must be off, .*set augment: false in the stage"),
}


@pytest.mark.parametrize("key", ["both_directions swaps source and target", "copy_targets copies targets"])
@pytest.mark.parametrize(("sections", "message"), OBSTACLES.values(), ids=OBSTACLES)
def test_what_must_not_become_a_target_keeps_targets_from_being_sources(two_corpora, sections, message, key):
    sections = {name: dict(section) for name, section in sections.items()}
    if sections.get("data", {}).pop("tag", False):
        sections["data"]["train"] = {"tsv": str(two_corpora / "train-fr.tsv"), "tag": "<bt>"}
    first = {"max_updates": 4, key.partition(" ")[0]: True}
    with pytest.raises(ValidationError, match=f"stage 1: {key}, so {message}"):
        in_both_directions(two_corpora, [first, BOTH[1]], **sections)


@pytest.mark.parametrize(("key", "tags"), [("both_directions", "source"), ("copy_targets", "both")])
def test_tags_of_languages_must_not_become_targets_or_stand_before_copies_of_them(two_corpora, key, tags):
    values = staged(two_corpora, [{"max_updates": 4}]).model_dump()
    values["model"]["language_tags"] = tags
    values["training"] |= {"stages": [{"max_updates": 4, key: True}]}
    with pytest.raises(ValidationError, match="all corpora must have the same languages"):
        Config.model_validate(values)


def test_a_second_stage_may_have_what_both_directions_may_not(two_corpora):
    stages = [{**BOTH[0], "augment": False}, BOTH[1]]
    first, second = (
        span.config for span in stage_spans(in_both_directions(two_corpora, stages, data={"augment": {"upper": 0.1}}))
    )
    assert (first.data.augment.is_on, second.data.augment.is_on) == (False, True)
    assert (first.training.both_directions, second.training.both_directions) == (True, False)


def test_only_checkpoints_of_the_last_stage_are_averaged(two_corpora, tmp_path):
    stages = [{"max_updates": 4}, {"max_updates": 4, "warmup_updates": 0}]
    training = {"validate_every": 2, "keep_checkpoints": 4, "average_checkpoints": 4}
    start_run(staged(two_corpora, stages, **training), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    expected = average_weights([run.checkpoint(f"step-{update:08d}") for update in (6, 8)])
    average = read_weights(run.checkpoint("average"))
    assert all(average[name].equal(tensor) for name, tensor in expected.items())


def test_a_stage_may_be_added_to_a_finished_run_but_none_that_has_begun_may_change(two_corpora, whole, tmp_path):
    start_run(staged(two_corpora, STAGES[:2]), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    changed = [STAGES[0], {**STAGES[1], "lr": 2e-3}]
    with pytest.raises(RunError, match=r"training\.stages: stage 2 has begun, so it must stay as it was"):
        resume_run(staged(two_corpora, changed), run.path)
    with pytest.raises(RunError, match=r"training\.stages has 1 stage, but stage 2 has begun"):
        resume_run(staged(two_corpora, STAGES[:1]), run.path)
    with pytest.raises(RunError, match=r"training\.stages was 'some' when the run was started and is 'none' now"):
        resume_run(staged(two_corpora, [], max_updates=9), run.path)
    assert resume_run(staged(two_corpora), run.path)
    assert run.checkpoint("step-00000009").read_bytes() == whole.checkpoint("step-00000009").read_bytes()


@pytest.mark.parametrize("max_minutes", [0, pytest.param(60, marks=pytest.mark.slow)])
def test_a_stage_that_has_not_begun_may_change_or_go(two_corpora, whole, tmp_path, monkeypatch, max_minutes):
    limits = {"max_minutes": max_minutes}
    path, wrong = tmp_path / "run", [*STAGES[:2], {"max_updates": 40, "lr": 1.0}, {"max_updates": 3}]
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        assert not start_run(staged(two_corpora, wrong, **limits), path)
    assert resume_run(staged(two_corpora, **limits), path)
    name = "step-00000009"
    assert RunDir(path).checkpoint(name).read_bytes() == whole.checkpoint(name).read_bytes()


@pytest.mark.slow
def test_a_stage_that_has_begun_may_become_shorter_but_not_than_what_it_has_had(two_corpora, tmp_path, messages):
    path, options = (
        tmp_path / "run",
        {"lr": 1e-12, "warmup_updates": 0, "validate_every": 1, "early_stopping_patience": 2},
    )
    stages = [{"max_updates": 3}, {"max_updates": 50}]
    assert start_run(staged(two_corpora, stages, **options), path)
    update = TrainState.load(RunDir(path).state).counters.update
    assert update < 20
    with pytest.raises(
        RunError, match=rf"max_updates of stage 2 of training\.stages is 1, but there have been {update - 3}"
    ):
        resume_run(staged(two_corpora, [stages[0], {"max_updates": 1}], **options), path)
    shorter = [stages[0], {"max_updates": update - 3}]
    assert resume_run(staged(two_corpora, shorter, **options), path)
    assert f"no updates are left: the run has had all of its {update} updates; append a stage to continue it" in str(
        messages
    )
    assert resume_run(
        staged(two_corpora, [*shorter, {"max_updates": 2}], **options | {"early_stopping_patience": 0}), path
    )
    assert TrainState.load(RunDir(path).state).counters.update == update + 2


def test_a_later_stage_that_does_not_fit_into_memory_is_refused_before_the_first_update(two_corpora, tmp_path):
    stages = [STAGES[0], {"max_updates": 2, "batch_tokens": 100_000_000}]
    with pytest.raises(RunError, match=r"stage 2 of this training needs about .* GiB of memory"):
        start_run(staged(two_corpora, stages), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    assert TrainState.load(run.state).counters.update == 0
    assert resume_run(staged(two_corpora, [STAGES[0], {"max_updates": 2}]), run.path)


def test_a_run_writes_no_sum_of_its_stages_so_that_a_stage_can_be_appended(two_corpora, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(staged(two_corpora)), encoding="utf-8")
    assert "max_updates: 9" not in path.read_text(encoding="utf-8")
    stages = "[{max_updates: 3}, {max_updates: 2e1}, {max_updates: '10'}]"
    assert load_config(path, [f"training.stages={stages}"]).training.max_updates == 33
    text = path.read_text(encoding="utf-8").replace(
        "  stages:", "  max_updates: 9\n  stages:"
    )  # as written in the past
    path.write_text(text, encoding="utf-8")
    assert load_config(path).training.max_updates == 9
    with pytest.raises(ConfigError, match="max_updates is 9, but the stages add up to 33"):
        load_config(path, [f"training.stages={stages}"])
